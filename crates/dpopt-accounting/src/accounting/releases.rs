//! An event reduced to what the accountants work on: one Gaussian and some sampled Gaussians.

use std::collections::HashMap;

use super::{Accountant, AccountingError};
use crate::event::Event;
use crate::units::{Mu, NoiseMultiplier, SamplingRate};

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
    /// Where the sampled ones of a rate and noise are.
    places: HashMap<(u64, u64), usize>,
}

impl Releases {
    /// Reduces `event`, or says what in it `accountant` has no theorem for.
    ///
    /// Gaussians of noise multipliers z_i on the same records compose to one Gaussian with
    /// `1/z^2 = sum 1/z_i^2`, also inside one Poisson sample and where one depends on the answer of another:
    /// `docs/privacy/accounting.md`. A sample at rate 1 is no sample.
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
        if let Some(whole) = leaf.untruncated() {
            return self.add_leaf(accountant, root, &whole, count);
        }
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

    /// An event of at most `kinds` kinds of samples that dominates these releases.
    ///
    /// Samples that are close in rate and noise are counted as the largest of their rates with the least of their noises. A
    /// larger rate dominates: with `q = r q'` both laws of a sample at q are those of one at q' with probability r, and equal to
    /// each other otherwise; `H_a` is jointly convex, and least where laws are equal. Less noise dominates, because noise can be added
    /// afterwards. Both hold at every a >= 0, so the dominating pairs compose.
    pub(crate) fn coarser(&self, kinds: usize) -> Result<Event, AccountingError> {
        let groups = self.groups(kinds);
        let mut events = Vec::new();
        if self.mu_squared() > 0.0 {
            let noise = (1.0 / up(self.mu_squared().sqrt())).next_down();
            events.push(Event::gaussian(NoiseMultiplier::new(noise)?));
        }
        for group in groups {
            let count = group
                .members
                .iter()
                .fold(0_u64, |n, release| n.saturating_add(release.count));
            check_count(count)?;
            let one = Event::gaussian(NoiseMultiplier::new(group.noise.0)?)
                .poisson_sampled(SamplingRate::new(group.rate.1)?);
            events.push(one.repeated(count));
        }
        Ok(Event::composed(events))
    }

    /// Releases of at most `kinds` kinds of samples that these ones dominate: the least rate and the most noise of each group.
    pub(crate) fn finer(&self, kinds: usize) -> Self {
        let sampled = self.groups(kinds).into_iter().map(|group| SampledGaussian {
            rate: group.rate.0,
            noise_multiplier: group.noise.1,
            count: group.members.iter().map(|release| release.count).sum(),
        });
        Self {
            plain: self.plain,
            sampled: sampled.collect(),
            ..Self::default()
        }
    }

    /// Samples that are close in rate and noise.
    fn groups(&self, kinds: usize) -> Vec<Group> {
        let mut groups = vec![Group::new(self.sampled.clone())];
        while groups.len() < kinds {
            let widest = groups
                .iter()
                .enumerate()
                .max_by(|(_, a), (_, b)| a.spread().total_cmp(&b.spread()));
            let Some((at, _)) = widest.filter(|(_, group)| group.spread() > 0.0) else {
                break;
            };
            let (one, other) = groups.swap_remove(at).split();
            groups.extend([one, other]);
        }
        groups
    }

    fn add_sampled(&mut self, new: SampledGaussian) {
        let key = (new.rate.to_bits(), new.noise_multiplier.to_bits());
        let next = self.sampled.len();
        let place = *self.places.entry(key).or_insert(next);
        match self.sampled.get_mut(place) {
            Some(old) => old.count = old.count.saturating_add(new.count),
            None => self.sampled.push(new),
        }
    }
}

/// Sampled releases that are to be counted as one kind.
struct Group {
    members: Vec<SampledGaussian>,
    /// Least and largest.
    rate: (f64, f64),
    noise: (f64, f64),
}

impl Group {
    fn new(members: Vec<SampledGaussian>) -> Self {
        let range = |of: fn(&SampledGaussian) -> f64| {
            let all = members.iter().map(of);
            all.fold((f64::INFINITY, 0.0_f64), |(least, most), x| {
                (least.min(x), most.max(x))
            })
        };
        Self {
            rate: range(|release| release.rate),
            noise: range(|release| release.noise_multiplier),
            members,
        }
    }

    /// By how much a member may be overstated, about: noise weighs double.
    fn spread(&self) -> f64 {
        (self.rate.1 / self.rate.0).ln() + 2.0 * (self.noise.1 / self.noise.0).ln()
    }

    /// Cuts the longer side in the middle of its logarithm.
    fn split(self) -> (Self, Self) {
        let by_rate = self.rate.1 / self.rate.0 > (self.noise.1 / self.noise.0).powi(2);
        let (least, most) = if by_rate { self.rate } else { self.noise };
        let middle = least.sqrt() * most.sqrt();
        // Adjacent numbers have no middle; the least one is on its own then.
        let middle = if middle >= most { least } else { middle };
        let (low, high) = self.members.into_iter().partition(|release| {
            let x = if by_rate {
                release.rate
            } else {
                release.noise_multiplier
            };
            x <= middle.max(least)
        });
        (Self::new(low), Self::new(high))
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
