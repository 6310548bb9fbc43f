//! An event reduced to what the accountants work on: one Gaussian and some sampled Gaussians.

use super::{Accountant, AccountingError};
use crate::event::Event;
use crate::units::Mu;

/// Poisson-sampled Gaussian releases that share their parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampledGaussian {
    /// Sampling rate, strictly between 0 and 1.
    pub(crate) rate: f64,
    /// Noise standard deviation over the sensitivity of the unsampled query.
    pub(crate) noise_multiplier: f64,
    /// How many such releases.
    pub(crate) count: u64,
}

/// Laplace releases that share their parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LaplaceRelease {
    /// Sampling rate; 1 is no sampling.
    pub(crate) rate: f64,
    /// Noise scale over the L1 sensitivity of the unsampled query.
    pub(crate) noise_multiplier: f64,
    /// How many such releases.
    pub(crate) count: u64,
}

/// A composition of Gaussian and Poisson-sampled Gaussian releases, and of Laplace ones for the
/// accountant that takes both.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Releases {
    /// Sum of `count / z^2` over the plain Gaussians.
    plain: SumUp,
    /// The sampled ones.
    pub(crate) sampled: Vec<SampledGaussian>,
    /// Laplace releases, for [`Accountant::Pld`] only.
    pub(crate) laplace: Vec<LaplaceRelease>,
}

impl Releases {
    /// Reduces `event`, or says what in it `accountant` has no theorem for.
    ///
    /// Gaussians of noise multipliers z_i on the same records compose to one Gaussian with
    /// `1/z^2 = sum 1/z_i^2`, also inside one Poisson sample: their joint likelihood ratio is
    /// that of the single Gaussian. A sample at rate 1 is no sample.
    pub(crate) fn of(accountant: Accountant, event: &Event) -> Result<Self, AccountingError> {
        event.check()?;
        let mut out = Releases::default();
        out.add(accountant, event, event)?;
        for sampled in &out.sampled {
            check_count(sampled.count)?;
        }
        Ok(out)
    }

    /// Adds what is in `event`, a part of `root`.
    fn add(
        &mut self,
        accountant: Accountant,
        root: &Event,
        event: &Event,
    ) -> Result<(), AccountingError> {
        for (leaf, count) in event.leaves() {
            self.add_leaf(accountant, root, &leaf, count)?;
        }
        Ok(())
    }

    /// Adds `count` releases that are no composition.
    pub(super) fn add_leaf(
        &mut self,
        accountant: Accountant,
        root: &Event,
        leaf: &Event,
        count: u64,
    ) -> Result<(), AccountingError> {
        check_count(count)?;
        let refused = || AccountingError::UnsupportedEvent {
            accountant,
            path: root.path_to(leaf),
            event: Box::new(leaf.clone()),
        };
        match leaf {
            Event::Gaussian { noise_multiplier } => {
                self.add_gaussian(noise_multiplier.get(), count);
            }
            Event::Laplace { noise_multiplier } if accountant == Accountant::Pld => {
                self.laplace.push(LaplaceRelease {
                    rate: 1.0,
                    noise_multiplier: noise_multiplier.get(),
                    count,
                });
            }
            Event::PoissonSampled {
                sampling_probability,
                event,
            } => {
                let mut inner = Releases::default();
                inner.add(accountant, root, event)?;
                let rate = sampling_probability.get();
                if rate == 1.0 {
                    for sampled in &mut inner.sampled {
                        sampled.count = sampled.count.saturating_mul(count);
                    }
                    for laplace in &mut inner.laplace {
                        laplace.count = laplace.count.saturating_mul(count);
                    }
                    let plain = std::mem::take(&mut inner.plain);
                    self.add_mu_squared(plain.get(), count);
                    self.merge(&inner);
                } else if inner.is_empty() {
                } else if !inner.laplace.is_empty() {
                    // One Laplace release has a pair on the line; more have none.
                    let [(Event::Laplace { noise_multiplier }, 1)] = event.leaves().as_slice()[..]
                    else {
                        return Err(refused());
                    };
                    self.laplace.push(LaplaceRelease {
                        rate,
                        noise_multiplier: noise_multiplier.get(),
                        count,
                    });
                } else if !inner.sampled.is_empty() || !accountant.takes_samples() {
                    return Err(refused());
                } else {
                    self.add_sampled(SampledGaussian {
                        rate,
                        noise_multiplier: noise_of(event, inner.mu_squared()),
                        count,
                    });
                }
            }
            Event::NonPrivate => return Err(AccountingError::Unprotected),
            _ => return Err(refused()),
        }
        Ok(())
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Releases) {
        self.add_mu_squared(other.mu_squared(), 1);
        for sampled in &other.sampled {
            self.add_sampled(*sampled);
        }
        self.laplace.extend(&other.laplace);
    }

    /// Adds `count` Gaussians given by their squared Gaussian-DP parameter.
    pub(super) fn add_mu_squared(&mut self, one: f64, count: u64) {
        if one > 0.0 {
            self.plain.add(up(one * float(count)));
        }
    }

    /// Sum of `count / z^2` over the plain Gaussians, rounded up.
    pub(crate) fn mu_squared(&self) -> f64 {
        self.plain.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mu_squared() == 0.0 && self.sampled.is_empty() && self.laplace.is_empty()
    }

    /// The Gaussian-DP parameter of the plain Gaussians; none when there are none.
    pub(crate) fn mu(&self) -> Result<Option<Mu>, AccountingError> {
        if self.mu_squared() == 0.0 {
            return Ok(None);
        }
        let value = up(self.mu_squared().sqrt());
        Mu::new(value)
            .map(Some)
            .map_err(|_| AccountingError::OutOfRange {
                quantity: "mu",
                value,
            })
    }

    pub(super) fn add_gaussian(&mut self, noise_multiplier: f64, count: u64) {
        let one = up(up(1.0 / noise_multiplier) / noise_multiplier);
        self.plain.add(up(one * float(count)));
    }

    fn add_sampled(&mut self, new: SampledGaussian) {
        let same = self
            .sampled
            .iter_mut()
            .find(|old| old.rate == new.rate && old.noise_multiplier == new.noise_multiplier);
        match same {
            Some(old) => old.count = old.count.saturating_add(new.count),
            None => self.sampled.push(new),
        }
    }
}

/// The multiplier of the single Gaussian inside a sample, exact when there was only one.
fn noise_of(event: &Event, mu_squared: f64) -> f64 {
    match event.leaves().as_slice() {
        [(Event::Gaussian { noise_multiplier }, 1)] => noise_multiplier.get(),
        _ => (1.0 / up(mu_squared.sqrt())).next_down(),
    }
}

/// Counts saturate, so the largest one may stand for more.
pub(super) fn check_count(count: u64) -> Result<(), AccountingError> {
    if count == u64::MAX {
        return Err(AccountingError::OutOfRange {
            quantity: "the number of releases",
            value: count as f64,
        });
    }
    Ok(())
}

/// A sum of non-negative numbers, rounded up by two units at most however many they are
/// (Neumaier's compensation; its own error, of `n^2 2^-106`, is below half a unit up to n = 1e7).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct SumUp {
    high: f64,
    low: f64,
}

impl SumUp {
    fn add(&mut self, term: f64) {
        let sum = self.high + term;
        self.low += if self.high >= term {
            (self.high - sum) + term
        } else {
            (term - sum) + self.high
        };
        self.high = sum;
    }

    fn get(self) -> f64 {
        if self.high == 0.0 || !self.high.is_finite() {
            return self.high;
        }
        up(up(self.high + self.low))
    }
}

/// The next larger number: turns a correctly rounded result into an upper bound.
/// Never below the smallest positive number, so that an underflow does not erase a release.
pub(super) fn up(value: f64) -> f64 {
    value.next_up()
}

pub(super) fn float(count: u64) -> f64 {
    // Above 2^53 the conversion rounds to nearest.
    let value = count as f64;
    if count > 1 << 53 {
        value.next_up()
    } else {
        value
    }
}

/// `a + b`, rounded up where it is not exact.
pub(super) fn sum_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // The exact error of the addition (Knuth 1969).
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// `a b`, rounded up where it is not exact.
pub(super) fn product_up(a: f64, b: f64) -> f64 {
    let product = a * b;
    if a.mul_add(b, -product) > 0.0 || (product == 0.0 && a > 0.0 && b > 0.0) {
        product.next_up()
    } else {
        product
    }
}
