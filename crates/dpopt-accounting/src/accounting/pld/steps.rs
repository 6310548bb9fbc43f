//! An event as the kinds of steps that the composition works on.

use std::rc::Rc;

use super::allocation::Laws;
use super::any::{AnyPair, Truncated};
use super::error::PldError;
use super::fixed::FixedPair;
use super::laplace::LaplacePair;
use super::law::Kind;
use super::mixture::{MOST_RECORDS, Mixture};
use super::pair::Pair;
use super::plan::Step;
use super::points::Points;
use super::replaced;
use crate::accounting::parts::{Other, Parts};
use crate::accounting::releases::{float, up};
use crate::accounting::{Accountant, AccountingError, zcdp};
use crate::units::{Epsilon, Rho};
use crate::{Adjacency, Event};

/// Largest number of steps of one kind: counts below it are exact as doubles.
const MAX_COUNT: u64 = 1 << 40;
const NOISE_RANGE: (f64, f64) = (1e-4, 1e6);

/// From so many of one range on its zCDP parameter of `epsilon^2 / 8` is what is composed: the curve lets each release choose
/// again at each epsilon. Tuned; either holds.
const MANY: u64 = 16;
/// And below this: a loss of a wider range has a mean of less than `epsilon^2 / 8` and is bounded.
const WIDE: f64 = 5.0;

/// What a release is, which says what pair it has.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Noise multiplier.
    Gaussian(f64),
    /// Noise multiplier of a Gaussian on a sample of fixed size.
    Fixed(f64),
    /// Noise multiplier of a Gaussian on a Poisson sample, and the probability that the sample is too large.
    Truncated { noise: f64, overflow: f64 },
    /// Noise multiplier of a Gaussian at each of so many steps, in one of which a record takes part.
    Allocated { noise: f64, steps: u64 },
    /// Noise multiplier.
    Laplace(f64),
    /// Losses in an interval of this length.
    Range(f64),
    /// `(epsilon, delta)`-DP, with the probability that the inputs differ in their answer.
    Response {
        epsilon: f64,
        share: f64,
        delta: f64,
    },
    /// Parameter of the noise, and how far the integer moves.
    DiscreteLaplace { parameter: f64, shift: u64 },
    /// Renyi divergences of at most `xi + rho alpha`.
    Concentrated { rho: f64, xi: f64 },
}

/// A kind of release: sampling rate (1: not sampled), what it is, count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    pub(super) rate: f64,
    shape: Shape,
    count: u64,
}

impl Release {
    /// Whether its pair is the same in all directions.
    pub(super) fn is_symmetric(&self) -> bool {
        let truncated = matches!(self.shape, Shape::Truncated { .. });
        let allocated = matches!(self.shape, Shape::Allocated { .. });
        self.rate == 1.0 && !self.is_fixed() && !allocated && !truncated
    }

    /// Whether it is on a sample of fixed size.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.shape, Shape::Fixed(_))
    }
}

fn unsupported(event: &Event) -> PldError {
    PldError::Unsupported {
        event: event.to_string(),
    }
}

/// Sum of `count / noise^2` over a composition of plain Gaussians, which is one Gaussian; none where there is
/// something else.
fn precision(event: &Event) -> Result<Option<f64>, PldError> {
    let mut total = 0.0;
    for (leaf, count) in event.leaves() {
        match leaf {
            Event::Gaussian { noise_multiplier } => {
                check_count(count)?;
                total += inverse_square(count, noise_multiplier.get())?;
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(total))
}

/// `count / noise^2`. Noise so large that this underflows is refused, lest a release vanish.
fn inverse_square(count: u64, noise: f64) -> Result<f64, PldError> {
    let share = count as f64 / (noise * noise);
    if share > 0.0 {
        return Ok(share);
    }
    Err(out_of_range(noise))
}

fn out_of_range(noise: f64) -> PldError {
    PldError::Noise {
        value: noise,
        smallest: NOISE_RANGE.0,
        largest: NOISE_RANGE.1,
    }
}

fn check_count(count: u64) -> Result<(), PldError> {
    if count > MAX_COUNT {
        return Err(PldError::TooManySteps {
            count,
            limit: MAX_COUNT,
        });
    }
    Ok(())
}

/// What has been met so far; the plain Gaussians compose exactly to one.
#[derive(Default)]
struct Found {
    plain: f64,
    /// Of what is known by its Renyi divergences only, and adds up.
    rho: f64,
    xi: f64,
    others: Vec<Release>,
    /// Whether samples of slices are among them, in several of which a group of records may be.
    sliced_samples: bool,
}

impl Found {
    fn push(&mut self, new: Release) -> Result<(), PldError> {
        let same = |r: &&mut Release| r.rate == new.rate && r.shape == new.shape;
        match self.others.iter_mut().find(same) {
            Some(known) => {
                known.count = known.count.saturating_add(new.count);
                check_count(known.count)
            }
            None => {
                self.others.push(new);
                Ok(())
            }
        }
    }

    fn add(&mut self, event: &Event, times: u64, adjacency: Adjacency) -> Result<(), PldError> {
        for (leaf, count) in event.leaves() {
            let count = count.saturating_mul(times);
            check_count(count)?;
            if let Some(whole) = leaf.untruncated() {
                self.add(&whole, count, adjacency)?;
                continue;
            }
            let whole = |shape| Release {
                rate: 1.0,
                shape,
                count,
            };
            match &leaf {
                Event::Gaussian { noise_multiplier } => {
                    self.plain += inverse_square(count, noise_multiplier.get())?;
                }
                Event::Laplace { noise_multiplier } => {
                    self.push(whole(Shape::Laplace(noise_multiplier.get())))?;
                }
                Event::DiscreteLaplace {
                    noise_parameter,
                    sensitivity,
                } => self.push(whole(Shape::DiscreteLaplace {
                    parameter: *noise_parameter,
                    shift: *sensitivity,
                }))?,
                Event::PoissonSampled {
                    sampling_probability,
                    event,
                } => {
                    let rate = sampling_probability.get();
                    if rate == 1.0 {
                        self.add(event, count, adjacency)?;
                        continue;
                    }
                    let shape = match event.leaves().as_slice() {
                        [(Event::Laplace { noise_multiplier }, 1)] => {
                            if adjacency == Adjacency::ReplaceOne {
                                return Err(unsupported(&leaf));
                            }
                            Shape::Laplace(noise_multiplier.get())
                        }
                        _ => match precision(event)? {
                            Some(0.0) => continue,
                            Some(inner) => Shape::Gaussian(1.0 / inner.sqrt()),
                            None => {
                                self.add_parts(&leaf, count, adjacency)?;
                                continue;
                            }
                        },
                    };
                    self.push(Release { rate, shape, count })?;
                }
                other => self.add_parts(other, count, adjacency)?,
            }
        }
        Ok(())
    }

    /// What is neither Gaussian nor Laplace noise, by what is known of it.
    fn add_parts(
        &mut self,
        leaf: &Event,
        count: u64,
        adjacency: Adjacency,
    ) -> Result<(), PldError> {
        let parts = Parts::of(Accountant::Pld, leaf, adjacency).map_err(|error| match error {
            AccountingError::UnsupportedEvent { event, .. }
            | AccountingError::UnsupportedAdjacency { event, .. } => unsupported(&event),
            _ => unsupported(leaf),
        })?;
        // A tree, or the worst of parallel Gaussians.
        self.plain += parts.releases.mu_squared() * count as f64;
        if !parts.releases.laplace.is_empty() {
            return Err(unsupported(leaf));
        }
        // Of slices that all cost the same.
        for sampled in &parts.releases.sampled {
            self.sliced_samples = true;
            let shape = Shape::Gaussian(sampled.noise_multiplier);
            let count = count.saturating_mul(sampled.count);
            check_count(count)?;
            let rate = sampled.rate;
            self.push(Release { rate, shape, count })?;
        }
        for (other, times) in &parts.others {
            let count = count.saturating_mul(*times);
            check_count(count)?;
            let shape = match *other {
                Other::Pure { epsilon, share } => Shape::Response {
                    epsilon,
                    share,
                    delta: 0.0,
                },
                Other::Approximate { epsilon, delta } => Shape::Response {
                    epsilon,
                    share: 1.0,
                    delta,
                },
                Other::BoundedRange { epsilon } if count < MANY || epsilon >= WIDE => {
                    Shape::Range(epsilon)
                }
                Other::BoundedRange { epsilon } => {
                    let rho = up(0.125 * epsilon * epsilon);
                    self.rho = up(self.rho + up(rho * count as f64));
                    continue;
                }
                Other::WithoutReplacement {
                    rate,
                    noise_multiplier,
                } => {
                    let shape = Shape::Fixed(noise_multiplier);
                    self.push(Release { rate, shape, count })?;
                    continue;
                }
                Other::Truncated {
                    rate,
                    noise_multiplier: noise,
                    overflow,
                } => {
                    let shape = Shape::Truncated { noise, overflow };
                    self.push(Release { rate, shape, count })?;
                    continue;
                }
                Other::Allocated {
                    steps,
                    noise_multiplier: noise,
                } => Shape::Allocated { noise, steps },
                Other::Concentrated { rho, xi } => {
                    self.rho = up(self.rho + up(rho * count as f64));
                    if xi > 0.0 {
                        self.xi = up(self.xi + up(xi * count as f64));
                    }
                    continue;
                }
                _ => return Err(unsupported(leaf)),
            };
            self.push(Release {
                rate: 1.0,
                shape,
                count,
            })?;
        }
        Ok(())
    }
}

impl Found {
    /// What these releases are for so many records at once (`docs/privacy/accounting.md`). A sampled Gaussian keeps
    /// its noise: its pair is another one.
    fn of_group(mut self, event: &Event, records: u64) -> Result<Self, PldError> {
        let sampled = self.others.iter().any(|release| release.rate < 1.0);
        if self.sliced_samples {
            return Err(unsupported(event));
        }
        if sampled && records > MOST_RECORDS {
            return Err(PldError::GroupTooLarge {
                records,
                limit: MOST_RECORDS,
            });
        }
        let k = float(records);
        for sum in [&mut self.plain, &mut self.rho] {
            if *sum > 0.0 {
                *sum = up(*sum * up(k * k));
            }
        }
        if self.xi > 0.0 {
            let harmonic = (1..=records).map(|i| 1.0 / i as f64).sum::<f64>();
            self.xi = up(self.xi * k * harmonic * (1.0 + k * f64::EPSILON));
        }
        for release in &mut self.others {
            release.shape = match release.shape {
                Shape::Gaussian(noise) if release.rate < 1.0 => Shape::Gaussian(noise),
                Shape::Gaussian(noise) => Shape::Gaussian((noise / k).next_down()),
                Shape::Laplace(noise) if release.rate == 1.0 => {
                    Shape::Laplace((noise / k).next_down())
                }
                Shape::Range(epsilon) => Shape::Range(up(epsilon * k)),
                Shape::Response { epsilon, delta, .. } => Shape::Response {
                    epsilon: up(epsilon * k),
                    share: 1.0,
                    delta: match delta {
                        0.0 => 0.0,
                        _ => (delta * chain(epsilon, records)).min(1.0),
                    },
                },
                Shape::DiscreteLaplace { parameter, shift } => Shape::DiscreteLaplace {
                    parameter,
                    shift: shift.saturating_mul(records),
                },
                Shape::Laplace(_)
                | Shape::Fixed(_)
                | Shape::Allocated { .. }
                | Shape::Truncated { .. } => {
                    return Err(unsupported(event));
                }
                Shape::Concentrated { .. } => release.shape,
            };
            if matches!(release.shape, Shape::Response { delta, .. } if delta >= 1.0) {
                return Err(unsupported(event));
            }
        }
        Ok(self)
    }
}

/// `1 + e^epsilon + ... + e^{(k-1) epsilon}`, rounded up: by it delta grows over k records.
pub(in crate::accounting) fn chain(epsilon: f64, records: u64) -> f64 {
    let k = float(records);
    let sum = if k * epsilon < 1e-9 {
        // At most k e^{k epsilon}.
        k * libm::exp(k * epsilon)
    } else {
        libm::expm1(k * epsilon) / libm::expm1(epsilon)
    };
    sum * (1.0 + 1e-12 * (1.0 + k * epsilon))
}

pub(super) fn releases(
    event: &Event,
    adjacency: Adjacency,
    records: u64,
) -> Result<Vec<Release>, PldError> {
    let mut found = Found::default();
    found.add(event, 1, adjacency)?;
    if records > 1 {
        found = found.of_group(event, records)?;
    }
    let mut out = found.others;
    if found.plain > 0.0 {
        // Gaussians compose exactly to one Gaussian: one step instead of many.
        out.push(Release {
            rate: 1.0,
            shape: Shape::Gaussian(1.0 / found.plain.sqrt()),
            count: 1,
        });
    }
    if found.rho > 0.0 || found.xi > 0.0 {
        out.push(Release {
            rate: 1.0,
            shape: Shape::Concentrated {
                rho: found.rho,
                xi: found.xi,
            },
            count: 1,
        });
    }
    for release in &out {
        // Responses are in units of the noise that would have their epsilon.
        let noise = match release.shape {
            Shape::Gaussian(noise)
            | Shape::Fixed(noise)
            | Shape::Laplace(noise)
            | Shape::Truncated { noise, .. }
            | Shape::Allocated { noise, .. } => noise,
            Shape::Range(epsilon) | Shape::Response { epsilon, .. } => 1.0 / epsilon,
            Shape::DiscreteLaplace { parameter, shift } => 1.0 / (parameter * shift as f64),
            Shape::Concentrated { rho, xi } => 1.0 / (rho + xi),
        };
        let only_fails = matches!(release.shape, Shape::Response { epsilon, .. } if epsilon == 0.0);
        if !only_fails && !(NOISE_RANGE.0..=NOISE_RANGE.1).contains(&noise) {
            return Err(out_of_range(noise));
        }
    }
    Ok(out)
}

/// Log of the mass that may be put at infinity where a query asks for `delta`, if it is known.
pub(super) fn ln_above(releases: &[Release], delta: Option<f64>) -> f64 {
    let count: f64 = releases.iter().map(|r| r.count as f64).sum();
    let ln = delta.map_or(-24.0, |delta| delta.ln() - 9.0);
    (ln - count.ln()).max(-60.0)
}

/// The kinds that Poisson samples and samples of fixed size have in one direction of a relation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Direction {
    pub(super) poisson: Kind,
    pub(super) fixed: Kind,
    /// Of a group: how many records P has alone, and Q.
    pub(super) group: Option<(u64, u64)>,
    /// Whether a record that contributes nothing is still sampled.
    pub(super) keeps_places: bool,
}

/// The steps of a direction. Masses below `e^{ln_above}` may be put at infinity. `laws` keeps those of allocations for the other direction.
pub(super) fn steps(
    releases: &[Release],
    direction: Direction,
    ln_above: f64,
    laws: &mut Vec<Laws>,
) -> Result<Vec<Step>, PldError> {
    let mut step = |release: &Release| {
        let q = release.rate;
        let kind = if q == 1.0 {
            Kind::Plain
        } else {
            direction.poisson
        };
        let laplace = |end, range| {
            AnyPair::Laplace(LaplacePair {
                kind,
                q,
                end,
                range,
            })
        };
        let pair = match release.shape {
            Shape::Gaussian(noise) => {
                // The noise multiplier is over a sensitivity of two clip norms; the pair that
                // replaces is written in units of one.
                let units = if kind == Kind::Replace { 2.0 } else { 1.0 };
                let s = units * noise;
                match direction.group {
                    Some((plus, minus)) if q < 1.0 => {
                        AnyPair::Mixture(Rc::new(Mixture::new(plus, minus, q, s)))
                    }
                    _ => AnyPair::Normal(Pair { kind, q, s }),
                }
            }
            // The record that leaves the sample makes room for another one: the shift is of two clip norms, twice
            // the sensitivity where records come and go.
            Shape::Fixed(noise) => match (direction.poisson, direction.fixed) {
                (Kind::Replace, Kind::Replace) => AnyPair::Fixed(FixedPair::new(q, noise)),
                (Kind::Replace, kind) => AnyPair::Normal(Pair { kind, q, s: noise }),
                (_, kind) => AnyPair::Normal(Pair {
                    kind,
                    q,
                    s: 0.5 * noise,
                }),
            },
            Shape::Truncated { noise, overflow } => {
                let normal = |kind, q, s| AnyPair::Normal(Pair { kind, q, s });
                let kind = direction.poisson;
                let (s, far) = match kind {
                    Kind::Replace => (2.0 * noise, AnyPair::Fixed(FixedPair::new(q, noise))),
                    // The record that is zeroed out keeps its place in the sample.
                    _ if direction.keeps_places => {
                        (noise, AnyPair::Fixed(FixedPair::new(q, 0.5 * noise)))
                    }
                    _ => (noise, normal(kind, q, 0.5 * noise)),
                };
                AnyPair::Truncated(Rc::new(Truncated {
                    within: normal(kind, q, s),
                    beyond: far,
                    least: normal(kind, q * (1.0 - overflow) * (1.0 - 1e-15), s),
                    overflow,
                }))
            }
            Shape::Allocated { noise, steps } => {
                let mut of = |noise, added| -> Result<Points, PldError> {
                    if let Some(known) = laws.iter().find(|l| l.are_of(noise, steps, ln_above)) {
                        return Ok(known.points(added));
                    }
                    let new = Laws::new(noise, steps, ln_above)?;
                    let points = new.points(added);
                    laws.push(new);
                    Ok(points)
                };
                let points = match direction.poisson {
                    // From below: the other record contributes nothing, and the noise is over twice the clip norm.
                    Kind::Replace => Points {
                        lower: of(2.0 * noise, false)?.lower,
                        ..replaced::points(noise, steps, ln_above)?
                    },
                    kind => of(noise, kind == Kind::Add)?,
                };
                AnyPair::Points(Rc::new(points))
            }
            Shape::Laplace(noise) => laplace(1.0 / noise, false),
            Shape::Range(epsilon) => laplace(epsilon, true),
            Shape::Response {
                epsilon,
                share,
                delta,
            } => AnyPair::Points(Rc::new(Points::response(epsilon, share, delta))),
            Shape::DiscreteLaplace { parameter, shift } => {
                AnyPair::Points(Rc::new(Points::discrete_laplace(parameter, shift)?))
            }
            Shape::Concentrated { rho, xi } => AnyPair::Points(Rc::new(concentrated(rho, xi))),
        };
        Ok(Step {
            pair,
            count: release.count,
        })
    };
    releases.iter().map(&mut step).collect()
}

/// Log of the delta that a curve is followed down to.
const LN_CURVE: f64 = 120.0;

/// The curve of all mechanisms with Renyi divergences of at most `xi + rho alpha`.
fn concentrated(rho: f64, xi: f64) -> Points {
    let ceiling = |epsilon: f64| {
        // delta at 0 as well: the conversion holds for every real epsilon.
        match (Rho::new(rho), Epsilon::new((epsilon - xi).next_down())) {
            (Ok(rho), Ok(rest)) => zcdp::delta(rho, rest),
            _ => 1.0,
        }
    };
    let most = xi + rho + 2.0 * (rho * LN_CURVE).sqrt();
    Points::below(ceiling, most)
}
