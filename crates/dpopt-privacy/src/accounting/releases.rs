//! An event reduced to what the accountants work on: one Gaussian and some sampled Gaussians.

use super::{Accountant, AccountingError};
use crate::event::Event;
use crate::units::{Mu, Rho};

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

/// A composition of Gaussian and Poisson-sampled Gaussian releases.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Releases {
    /// Sum of `count / z^2` over the plain Gaussians, rounded up.
    pub(crate) mu_squared: f64,
    /// The sampled ones.
    pub(crate) sampled: Vec<SampledGaussian>,
}

impl Releases {
    /// Reduces `event`, or says what in it `accountant` has no theorem for.
    ///
    /// Gaussians of noise multipliers z_i on the same records compose to one Gaussian with
    /// `1/z^2 = sum 1/z_i^2`, also inside one Poisson sample: their joint likelihood ratio is
    /// that of the single Gaussian. A sample at rate 1 is no sample.
    pub(crate) fn of(accountant: Accountant, event: &Event) -> Result<Self, AccountingError> {
        let mut out = Releases::default();
        let mut plain = SumUp::default();
        for (leaf, count) in event.leaves() {
            check_count(count)?;
            let refused = || AccountingError::UnsupportedEvent {
                accountant,
                event: Box::new(leaf.clone()),
            };
            match &leaf {
                Event::Gaussian { noise_multiplier } => {
                    let z = noise_multiplier.get();
                    let one = up(up(1.0 / z) / z);
                    plain.add(up(one * float(count)));
                }
                Event::PoissonSampled {
                    sampling_probability,
                    event,
                } => {
                    let inner = Releases::of(accountant, event)?;
                    let rate = sampling_probability.get();
                    if rate == 1.0 {
                        for sampled in inner.sampled {
                            out.add_sampled(SampledGaussian {
                                count: sampled.count.saturating_mul(count),
                                ..sampled
                            });
                        }
                        if inner.mu_squared > 0.0 {
                            plain.add(up(inner.mu_squared * float(count)));
                        }
                    } else if inner.is_empty() {
                        continue;
                    } else if !inner.sampled.is_empty() || !accountant.takes_samples() {
                        return Err(refused());
                    } else {
                        out.add_sampled(SampledGaussian {
                            rate,
                            noise_multiplier: noise_of(event, inner.mu_squared),
                            count,
                        });
                    }
                }
                Event::NonPrivate => return Err(AccountingError::Unprotected),
                _ => return Err(refused()),
            }
        }
        for sampled in &out.sampled {
            check_count(sampled.count)?;
        }
        out.mu_squared = plain.get();
        Ok(out)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mu_squared == 0.0 && self.sampled.is_empty()
    }

    /// The Gaussian-DP parameter of the plain Gaussians; none when there are none.
    pub(crate) fn mu(&self) -> Result<Option<Mu>, AccountingError> {
        if self.mu_squared == 0.0 {
            return Ok(None);
        }
        let value = up(self.mu_squared.sqrt());
        Mu::new(value)
            .map(Some)
            .map_err(|_| AccountingError::OutOfRange {
                quantity: "mu",
                value,
            })
    }

    /// The zCDP parameter of the plain Gaussians; none when there are none.
    pub(crate) fn rho(&self) -> Result<Option<Rho>, AccountingError> {
        if self.mu_squared == 0.0 {
            return Ok(None);
        }
        let value = 0.5 * self.mu_squared;
        Rho::new(value)
            .map(Some)
            .map_err(|_| AccountingError::OutOfRange {
                quantity: "rho",
                value,
            })
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
fn check_count(count: u64) -> Result<(), AccountingError> {
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
#[derive(Debug, Clone, Copy, Default)]
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
fn up(value: f64) -> f64 {
    value.next_up()
}

fn float(count: u64) -> f64 {
    // Above 2^53 the conversion rounds to nearest.
    let value = count as f64;
    if count > 1 << 53 {
        value.next_up()
    } else {
        value
    }
}
