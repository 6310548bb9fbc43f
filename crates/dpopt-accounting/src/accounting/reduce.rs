//! The reduction of an event for an accountant, or what in it the accountant has no theorem for.

use super::error::AccountingError;
use super::kind::Accountant;
use super::parts::{Other, Parts};
use super::pure;
use super::releases::{Releases, check_count, float, product_up, up};
use super::truncation;
use crate::adjacency::Adjacency;
use crate::event::Event;

/// What is being reduced, for whom.
#[derive(Clone, Copy)]
struct Reduction<'a> {
    root: &'a Event,
    accountant: Accountant,
    adjacency: Adjacency,
}

impl Parts {
    /// Reduces `event`, or says what in it `accountant` has no theorem for under `adjacency`.
    pub(crate) fn of(
        accountant: Accountant,
        event: &Event,
        adjacency: Adjacency,
    ) -> Result<Self, AccountingError> {
        event.check()?;
        let all = Reduction {
            root: event,
            accountant,
            adjacency,
        };
        let mut out = Parts::default();
        all.add(&mut out, event, 1)?;
        for sampled in &out.releases.sampled {
            check_count(sampled.count)?;
        }
        Ok(out)
    }
}

impl Reduction<'_> {
    fn refuse<T>(&self, event: &Event) -> Result<T, AccountingError> {
        Err(AccountingError::UnsupportedEvent {
            accountant: self.accountant,
            path: self.root.path_to(event),
            event: Box::new(event.clone()),
        })
    }

    fn only_under(&self, event: &Event, relations: &[Adjacency]) -> Result<(), AccountingError> {
        if relations.contains(&self.adjacency) {
            return Ok(());
        }
        Err(AccountingError::UnsupportedAdjacency {
            adjacency: self.adjacency,
            path: self.root.path_to(event),
            event: Box::new(event.clone()),
        })
    }

    /// Adds `event`, `times` over.
    fn add(&self, out: &mut Parts, event: &Event, times: u64) -> Result<(), AccountingError> {
        use Adjacency::{ReplaceOne, ZeroOut};
        for (leaf, count) in event.leaves() {
            let count = count.saturating_mul(times);
            check_count(count)?;
            match &leaf {
                Event::Gaussian { noise_multiplier } => {
                    if self.accountant == Accountant::Pure {
                        return self.refuse(&leaf);
                    }
                    out.releases.add_gaussian(noise_multiplier.get(), count);
                }
                Event::SingleEpochTreeAggregation {
                    noise_multiplier,
                    step_counts,
                } => {
                    // One tree only sees the record, so the deepest is the worst.
                    let levels = step_counts
                        .as_slice()
                        .iter()
                        .map(|&steps| levels(steps))
                        .max();
                    self.add_tree(
                        out,
                        &leaf,
                        noise_multiplier.get(),
                        levels.unwrap_or(0),
                        count,
                    )?;
                }
                Event::PrefixSums {
                    noise_multiplier,
                    step_counts,
                } => {
                    let levels = step_counts
                        .as_slice()
                        .iter()
                        .map(|&steps| levels(steps))
                        .sum();
                    self.add_tree(out, &leaf, noise_multiplier.get(), levels, count)?;
                }
                Event::PoissonSampled {
                    sampling_probability: rate,
                    event,
                } => {
                    if rate.get() == 1.0 {
                        self.add(out, event, count)?;
                    } else if self.accountant == Accountant::Pure {
                        self.only_under(&leaf, &[Adjacency::AddRemove])?;
                        self.add_amplified(out, event, rate.get(), count)?;
                    } else if self.accountant == Accountant::Pld && self.is_pure(event) {
                        self.only_under(&leaf, &[Adjacency::AddRemove])?;
                        self.as_pure()
                            .add_amplified(out, event, rate.get(), count)?;
                    } else {
                        let mut one = Releases::default();
                        one.add_leaf(self.accountant, self.root, &leaf, count)?;
                        if !one.laplace.is_empty() {
                            self.only_under(&leaf, &[Adjacency::AddRemove, ZeroOut])?;
                        }
                        out.releases.merge(&one);
                    }
                }
                Event::SampledWithoutReplacement {
                    source_dataset_size,
                    sample_size,
                    event,
                } => {
                    if source_dataset_size == sample_size {
                        // Under add-remove there is no draw of so many from the smaller data set, and from one record
                        // more the newcomer pushes another out.
                        self.only_under(&leaf, &[ReplaceOne, ZeroOut])?;
                        self.add(out, event, count)?;
                        continue;
                    }
                    // Rounded up: a larger rate is never more private.
                    let rate = up(*sample_size as f64 / *source_dataset_size as f64).min(1.0);
                    match self.accountant {
                        Accountant::Pure => {
                            self.only_under(&leaf, &[ReplaceOne])?;
                            self.add_amplified(out, event, rate, count)?;
                        }
                        Accountant::Pld if self.is_pure(event) => {
                            self.only_under(&leaf, &[ReplaceOne])?;
                            self.as_pure().add_amplified(out, event, rate, count)?;
                        }
                        Accountant::Rdp | Accountant::Pld => {
                            let relations: &[Adjacency] = match self.accountant {
                                Accountant::Pld => &[ReplaceOne, Adjacency::AddRemove],
                                _ => &[ReplaceOne],
                            };
                            self.only_under(&leaf, relations)?;
                            let mut inner = Parts::default();
                            self.add(&mut inner, event, 1)?;
                            if inner.is_empty() {
                                continue;
                            }
                            if !inner.is_gaussian() || holds_trees(event) {
                                return self.refuse(&leaf);
                            }
                            let mu = up(inner.releases.mu_squared().sqrt());
                            let noise_multiplier = (1.0 / mu).next_down();
                            out.others.push((
                                Other::WithoutReplacement {
                                    rate,
                                    noise_multiplier,
                                },
                                count,
                            ));
                        }
                        _ => return self.refuse(&leaf),
                    }
                }
                Event::RandomAllocation {
                    num_steps,
                    num_participations,
                    event,
                } => {
                    if self.accountant != Accountant::Pld {
                        return self.refuse(&leaf);
                    }
                    let mut inner = Parts::default();
                    self.add(&mut inner, event, 1)?;
                    if inner.is_empty() {
                        continue;
                    }
                    if !inner.is_gaussian() || holds_trees(event) {
                        return self.refuse(&leaf);
                    }
                    // k of t steps are no worse than k times 1 of t/k.
                    let times = count.saturating_mul(*num_participations);
                    check_count(times)?;
                    let squared = inner.releases.mu_squared();
                    let steps = num_steps / num_participations;
                    if steps == 1 {
                        out.releases.add_mu_squared(squared, times);
                    } else {
                        let noise_multiplier = (1.0 / up(squared.sqrt())).next_down();
                        out.others.push((
                            Other::Allocated {
                                steps,
                                noise_multiplier,
                            },
                            times,
                        ));
                    }
                }
                Event::TruncatedSubsampledGaussian {
                    dataset_size: size,
                    sampling_probability: rate,
                    truncated_batch_size: most,
                    noise_multiplier: noise,
                } => {
                    if let Some(whole) = leaf.untruncated() {
                        self.add(out, &whole, count)?;
                        continue;
                    }
                    if self.accountant != Accountant::Pld {
                        return self.refuse(&leaf);
                    }
                    let (rate, noise_multiplier) = (rate.get(), noise.get());
                    let overflow = truncation::overflow(*size, rate, u64::from(*most));
                    let other = Other::Truncated {
                        rate,
                        noise_multiplier,
                        overflow,
                    };
                    out.others.push((other, count));
                }
                Event::RepeatAndSelect { event, mean, shape } => {
                    if self.accountant != Accountant::Rdp {
                        return self.refuse(&leaf);
                    }
                    let mut inner = Parts::default();
                    self.add(&mut inner, event, 1)?;
                    if inner.is_empty() {
                        continue;
                    }
                    // Each evaluation of one minimises over the other.
                    if holds_poisson_selection(&inner) {
                        return self.refuse(&leaf);
                    }
                    let inner = Box::new(inner);
                    let (mean, shape) = (*mean, *shape);
                    out.others
                        .push((Other::Selected { inner, mean, shape }, count));
                }
                Event::ParallelComposed { events } => {
                    self.only_under(&leaf, &[ReplaceOne, ZeroOut])?;
                    let mut parts: Vec<Parts> = Vec::new();
                    let mut dearest = None;
                    for event in events {
                        let mut part = Parts::default();
                        self.add(&mut part, event, 1)?;
                        if !part.is_empty() && !parts.iter().any(|known| known.holds(&part)) {
                            parts.retain(|known| !part.holds(known));
                            dearest = Some(event);
                            parts.push(part);
                        }
                        if parts.len() > MAX_SLICES {
                            return self.refuse(&leaf);
                        }
                    }
                    if parts.iter().all(Parts::is_gaussian) {
                        let worst = parts.iter().map(|part| part.releases.mu_squared());
                        out.releases
                            .add_mu_squared(worst.fold(0.0, f64::max), count);
                    } else if let (Some(event), [_]) = (dearest, parts.as_slice()) {
                        // A slice costs this or a part of it.
                        self.add(out, event, count)?;
                    } else if self.accountant == Accountant::Pld {
                        // No slice is the worst at every epsilon.
                        return self.refuse(&leaf);
                    } else {
                        out.others.push((Other::Parallel(parts), count));
                    }
                }
                Event::Laplace { .. } if self.accountant == Accountant::Pld => {
                    out.releases
                        .add_leaf(self.accountant, self.root, &leaf, count)?;
                }
                Event::NonPrivate => return Err(AccountingError::Unprotected),
                _ => {
                    if let Some(other) = self.simple(&leaf)? {
                        out.others.push((other, count));
                    }
                }
            }
        }
        Ok(())
    }

    fn as_pure(&self) -> Self {
        Self {
            accountant: Accountant::Pure,
            ..*self
        }
    }

    /// Whether it is made of pure and approximate releases that have no pair of their own on a sample.
    fn is_pure(&self, event: &Event) -> bool {
        let mut inner = Parts::default();
        self.as_pure().add(&mut inner, event, 1).is_ok()
            && !matches!(event.leaves().as_slice(), [(Event::Laplace { .. }, 1)])
    }

    /// An event without inner ones; none when it reveals nothing.
    fn simple(&self, leaf: &Event) -> Result<Option<Other>, AccountingError> {
        use Accountant::{Pld, Pure, Rdp, Zcdp};
        use Adjacency::{ReplaceOne, ZeroOut};
        if !matches!(self.accountant, Pure | Rdp | Zcdp | Pld) {
            return self.refuse(leaf);
        }
        let pure = |epsilon: f64| {
            Some(Other::Pure {
                epsilon,
                share: 1.0,
            })
        };
        Ok(match leaf {
            Event::Laplace { noise_multiplier } => Some(Other::Laplace {
                epsilon: inverse_up(noise_multiplier.get()),
            }),
            Event::DiscreteLaplace {
                noise_parameter,
                sensitivity,
            } => Some(Other::DiscreteLaplace {
                rate: *noise_parameter,
                epsilon: product_up(*noise_parameter, float(*sensitivity)),
            }),
            Event::RandomizedResponse {
                noise_parameter: p,
                num_buckets,
            } => {
                self.only_under(leaf, &[ReplaceOne, ZeroOut])?;
                let k = *num_buckets as f64;
                if *p == 1.0 || *num_buckets == 1 {
                    None
                } else if *p == 0.0 {
                    return Err(AccountingError::Unprotected);
                } else {
                    // The two outcomes at which neighbours differ: 1 - p + p/k and p/k.
                    let slack = 1.0 + 8.0 * f64::EPSILON;
                    Some(Other::Pure {
                        epsilon: (k * (1.0 - p) / p).ln_1p() * slack,
                        share: up(up((1.0 - p) + 2.0 * p / k)).min(1.0),
                    })
                }
            }
            Event::EpsilonDelta { epsilon, delta } if *delta == 0.0 => {
                if *epsilon == 0.0 {
                    None
                } else {
                    pure(*epsilon)
                }
            }
            Event::EpsilonDelta { epsilon, delta } if matches!(self.accountant, Pure | Pld) => {
                Some(Other::Approximate {
                    epsilon: *epsilon,
                    delta: *delta,
                })
            }
            Event::ExponentialMechanism { epsilon } => Some(Other::BoundedRange {
                epsilon: epsilon.get(),
            }),
            Event::PermuteAndFlip { epsilon }
            | Event::AboveThreshold { epsilon }
            | Event::ReportNoisyMax { epsilon } => pure(epsilon.get()),
            Event::DiscreteGaussian { noise_multiplier } if self.accountant != Pure => {
                let z = noise_multiplier.get();
                Some(Other::Concentrated {
                    rho: 0.5 * up(up(1.0 / z) / z),
                    xi: 0.0,
                })
            }
            Event::ZCdp { rho, xi } if self.accountant != Pure => Some(Other::Concentrated {
                rho: rho.get(),
                xi: *xi,
            }),
            _ => return self.refuse(leaf),
        })
    }

    /// Each record reaches `levels` nodes, in the same places for both neighbours, and the
    /// differences at the nodes are the same vector: one Gaussian of multiplier
    /// `z / sqrt(levels)`, exactly.
    fn add_tree(
        &self,
        out: &mut Parts,
        leaf: &Event,
        z: f64,
        levels: u64,
        count: u64,
    ) -> Result<(), AccountingError> {
        if self.accountant == Accountant::Pure {
            return self.refuse(leaf);
        }
        self.only_under(leaf, &[Adjacency::ReplaceOne, Adjacency::ZeroOut])?;
        let nodes = count.saturating_mul(levels);
        check_count(nodes)?;
        out.releases.add_gaussian(z, nodes);
        Ok(())
    }

    /// A pure or approximate event on a sample: `epsilon' = log(1 + q (e^epsilon - 1))` and
    /// `delta' = q delta` (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).
    fn add_amplified(
        &self,
        out: &mut Parts,
        event: &Event,
        rate: f64,
        count: u64,
    ) -> Result<(), AccountingError> {
        let mut inner = Parts::default();
        self.add(&mut inner, event, 1)?;
        if inner.is_empty() {
            return Ok(());
        }
        let (epsilon, delta) = pure::basic(&inner);
        let epsilon = pure::amplified(epsilon, rate);
        let other = if delta > 0.0 {
            Other::Approximate {
                epsilon,
                delta: up(rate * delta),
            }
        } else {
            Other::Pure {
                epsilon,
                share: 1.0,
            }
        };
        out.others.push((other, count));
        Ok(())
    }
}

/// Different costs that one parallel composition may have.
const MAX_SLICES: usize = 1000;

/// Levels of the tree over so many steps: the nodes above one leaf, itself included.
fn levels(steps: u64) -> u64 {
    u64::from(u64::BITS - steps.leading_zeros())
}

/// A record's place in a sample is random, so its place in a tree is not fixed.
fn holds_trees(event: &Event) -> bool {
    event.leaves().iter().any(|(leaf, _)| {
        !matches!(leaf, Event::Gaussian { .. })
            && !matches!(leaf, Event::PoissonSampled { event, .. } if !holds_trees(event))
    })
}

fn holds_poisson_selection(parts: &Parts) -> bool {
    parts.others.iter().any(|(other, _)| match other {
        Other::Selected { inner, shape, .. } => {
            *shape == f64::INFINITY || holds_poisson_selection(inner)
        }
        Other::Parallel(parts) => parts.iter().any(holds_poisson_selection),
        _ => false,
    })
}

/// `1 / value`, rounded up where it is not exact.
fn inverse_up(value: f64) -> f64 {
    let inverse = 1.0 / value;
    if value.mul_add(inverse, -1.0) < 0.0 {
        inverse.next_up()
    } else {
        inverse
    }
}
