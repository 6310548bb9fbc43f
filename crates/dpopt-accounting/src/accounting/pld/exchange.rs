//! Privacy losses in the shape of `dp_accounting`, so that another accountant can compose what was accounted here, and the other way round.
//!
//! A [`Pmf`] has the fields of `ProbabilityMassFunction` in Google's `privacy-loss-distribution.proto`: the mass `values[i]` at a loss of
//! `(min_key + i) discretization_interval`, and a mass at infinity. It is pessimistic: at every epsilon, and in every composition, delta by it is at
//! least the truth. [`Release`] has one for each direction of the relation.
//!
//! The rounding direction is kept: an export spreads each loss to the two points beside it, keeping mass and the mean of `e^{-loss}` (connect the
//! dots), rounds masses up, and puts what is cut off at infinity. An import is taken as an upper law, and what its masses lack of 1 is put at infinity.
//! The argument: `docs/privacy/pld.md`.
//!
//! ```
//! use dpopt_accounting::accounting::pld::exchange;
//! use dpopt_accounting::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
//! let step = Event::gaussian(NoiseMultiplier::new(1.0)?).poisson_sampled(SamplingRate::new(0.01)?);
//! let releases = exchange::export(&step.repeated(1000), Adjacency::AddRemove, 1e-3)?;
//! let text = serde_json::to_string(&releases)?;
//! let read: Vec<exchange::Release> = serde_json::from_str(&text)?;
//! let epsilon = exchange::epsilon(&read, Delta::new(1e-5)?)?;
//! assert!(epsilon >= 1.8282367 && epsilon < 1.8282367 * 1.002);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use libm::expm1;
use serde::{Deserialize, Serialize};

use super::any::AnyPair;
use super::lattice::Cells;
use super::law::Kind;
use super::plan::Step;
use super::points::{MOST_POINTS, Points};
use super::steps::{self, Direction};
use super::{PldError, PldOptions, Query, direction};
use crate::{Adjacency, Delta, Event};

/// What an export may leave out at the top of a loss, as a logarithm; it goes to infinity.
const LN_ABOVE: f64 = -60.0;
const LN_BELOW: f64 = -45.0;
/// By how much masses may exceed 1: they are rounded up by whoever made them.
const EXCESS: f64 = 1e-6;

/// Masses of a privacy loss on a lattice, from above.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire")]
pub struct Pmf {
    min_key: i64,
    values: Vec<f64>,
    infinity_mass: f64,
    discretization_interval: f64,
}

/// As it may be written: dense, in snake case or the camel case of proto's JSON, or sparse.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default, alias = "minKey")]
    min_key: Option<Whole>,
    #[serde(default)]
    values: Option<Vec<f64>>,
    #[serde(default, alias = "lossProbs")]
    loss_probs: Option<BTreeMap<String, f64>>,
    #[serde(alias = "infinityMass")]
    infinity_mass: f64,
    #[serde(alias = "discretizationInterval")]
    discretization_interval: f64,
}

/// Proto's JSON writes whole numbers of 64 bits as texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Whole {
    Number(i64),
    Text(String),
}

/// Why masses are no privacy loss.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PmfError {
    /// A mass is negative or not a number.
    #[error("a mass of a privacy loss is {value}")]
    Mass {
        /// The mass.
        value: f64,
    },
    /// The masses add up to more than 1.
    #[error("the masses of a privacy loss add up to {total}")]
    Total {
        /// Their sum.
        total: f64,
    },
    /// The distance of losses is not a positive number.
    #[error("the discretization interval is {value}")]
    Interval {
        /// The interval.
        value: f64,
    },
    /// More masses than are taken, or none, or keys that are none.
    #[error("a privacy loss has {count} masses, 1 to {limit} are taken")]
    Count {
        /// How many there are.
        count: u64,
        /// How many may be.
        limit: u64,
    },
    /// A key is not a whole number, or there are both lists or none.
    #[error("{what} is not what a probability mass function has")]
    Shape {
        /// The offending field.
        what: String,
    },
}

impl TryFrom<Wire> for Pmf {
    type Error = PmfError;

    fn try_from(wire: Wire) -> Result<Self, PmfError> {
        let whole = |text: &str| -> Result<i64, PmfError> {
            let what = || format!("the key {text:?}");
            text.parse().map_err(|_| PmfError::Shape { what: what() })
        };
        let (min_key, values) = match (wire.min_key, wire.values, wire.loss_probs) {
            (Some(key), Some(values), None) => match key {
                Whole::Number(key) => (key, values),
                Whole::Text(key) => (whole(&key)?, values),
            },
            (None, None, Some(sparse)) => {
                let list: Result<Vec<(i64, f64)>, PmfError> = sparse
                    .iter()
                    .map(|(key, mass)| Ok((whole(key)?, *mass)))
                    .collect();
                let list = list?;
                let least = list.iter().map(|e| e.0).min().unwrap_or(0);
                let most = list.iter().map(|e| e.0).max().unwrap_or(0);
                let count = most.abs_diff(least).saturating_add(1);
                check_count(count)?;
                let mut values = vec![0.0; count as usize];
                for (key, mass) in list {
                    values[key.abs_diff(least) as usize] += mass;
                }
                (least, values)
            }
            _ => {
                let what = "a list that is not one of values (with min_key) and loss_probs";
                return Err(PmfError::Shape {
                    what: what.to_owned(),
                });
            }
        };
        Self::new(
            min_key,
            values,
            wire.infinity_mass,
            wire.discretization_interval,
        )
    }
}

fn check_count(count: u64) -> Result<(), PmfError> {
    if (1..=MOST_POINTS).contains(&count) {
        return Ok(());
    }
    Err(PmfError::Count {
        count,
        limit: MOST_POINTS,
    })
}

impl Pmf {
    /// The mass `values[i]` at a loss of `(min_key + i) interval`, and one at infinity.
    ///
    /// # Errors
    /// [`PmfError`] for masses that are no privacy loss.
    pub fn new(
        min_key: i64,
        values: Vec<f64>,
        infinity_mass: f64,
        interval: f64,
    ) -> Result<Self, PmfError> {
        check_count(values.len() as u64)?;
        if !(interval > 0.0 && interval.is_finite()) {
            return Err(PmfError::Interval { value: interval });
        }
        if min_key.unsigned_abs() > 1 << 40 {
            return Err(PmfError::Shape {
                what: format!("the key {min_key}"),
            });
        }
        if let Some(&value) = values
            .iter()
            .chain([&infinity_mass])
            .find(|mass| !(**mass >= 0.0))
        {
            return Err(PmfError::Mass { value });
        }
        let total: f64 = values.iter().sum::<f64>() + infinity_mass;
        if !(total <= 1.0 + EXCESS) {
            return Err(PmfError::Total { total });
        }
        Ok(Self {
            min_key,
            values,
            infinity_mass,
            discretization_interval: interval,
        })
    }

    /// The key of the first mass.
    #[must_use]
    pub fn min_key(&self) -> i64 {
        self.min_key
    }

    /// Masses, from the first key on.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Mass at infinity.
    #[must_use]
    pub fn infinity_mass(&self) -> f64 {
        self.infinity_mass
    }

    /// Distance of losses.
    #[must_use]
    pub fn discretization_interval(&self) -> f64 {
        self.discretization_interval
    }

    /// delta of this one release at any real epsilon.
    #[must_use]
    pub fn delta(&self, epsilon: f64) -> f64 {
        let at = |i: usize| (self.min_key + i as i64) as f64 * self.discretization_interval;
        let of = |(i, mass): (usize, &f64)| mass * -expm1((epsilon - at(i)).min(0.0));
        let finite: f64 = self.values.iter().enumerate().map(of).sum();
        let rounding = 1.0 + (self.values.len() as f64 + 8.0) * f64::EPSILON;
        ((finite + self.infinity_mass) * rounding).min(1.0)
    }

    /// The upper law of a pair at this interval.
    fn of(pair: &AnyPair, h: f64) -> Result<Self, PldError> {
        let cells = Cells::new(pair, h, LN_BELOW, LN_ABOVE, 1 << 20)?;
        // The lattice of the cells is off by an offset, and losses are known up to an error: both are paid by spreading on.
        let up = (cells.offset + cells.loss_error) / h;
        let (whole, part) = (up.floor(), (up - up.floor()) * h);
        let share = (expm1(-part) / expm1(-h)).clamp(0.0, 1.0);
        let factor = 1.0 + cells.relative_error + 8.0 * f64::EPSILON;
        let masses = cells.spread();
        let mut values = vec![0.0; masses.len() + 1];
        for (i, mass) in masses.iter().enumerate() {
            let mass = mass * factor;
            // A share a little too large is a larger loss.
            let lifted = (share * (1.0 + 1e-12)).min(1.0);
            values[i] += (1.0 - lifted) * mass;
            values[i + 1] += lifted * mass;
        }
        let limit = MOST_POINTS;
        let min_key = cells.first.saturating_add(whole as i64);
        let infinity = (cells.above + cells.infinite) * factor;
        Self::new(min_key, values, infinity, h).map_err(|_| PldError::TooFine {
            cells: masses.len() as f64,
            limit: limit as f64,
        })
    }

    fn points(&self) -> Points {
        let h = self.discretization_interval;
        let at = |i: usize| (self.min_key + i as i64) as f64 * h;
        let upper: Vec<(f64, f64)> = self
            .values
            .iter()
            .enumerate()
            .filter(|(_, mass)| **mass > 0.0)
            .map(|(i, mass)| (at(i), *mass))
            .collect();
        let total: f64 = upper.iter().map(|p| p.1).sum::<f64>() + self.infinity_mass;
        let rounding = upper.len() as f64 * f64::EPSILON;
        Points {
            upper,
            lower: vec![(0.0, 1.0)],
            infinite: (self.infinity_mass + (1.0 + rounding - total).max(0.0)).min(1.0),
            infinite_lower: 0.0,
            grain: Some(h),
        }
    }
}

/// A kind of release, how often it was made, and its privacy losses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The relation that the losses are for: releases under different ones do not compose.
    pub adjacency: Adjacency,
    /// How often.
    pub count: u64,
    /// The losses where the record is there against where it is not; under replace-one those of one input against the other.
    pub remove: Pmf,
    /// The other way round. Absent where it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Pmf>,
}

/// The releases of `event` with losses on multiples of `interval`, in place of which the next number of 24 bits below it is used.
///
/// # Errors
/// [`PldError`] for an event without a known pair, an interval that is no positive number, or one that needs too many points.
pub fn export(
    event: &Event,
    adjacency: Adjacency,
    interval: f64,
) -> Result<Vec<Release>, PldError> {
    if !(interval > 0.0 && interval.is_finite()) {
        return Err(PldError::BadOption {
            name: "interval",
            value: interval,
        });
    }
    let h = f64::from_bits(interval.to_bits() & !super::STEP_BITS);
    let releases = steps::releases(event, adjacency, 1)?;
    let way = |kind| Direction {
        poisson: kind,
        fixed: kind,
        group: None,
        keeps_places: adjacency == Adjacency::ZeroOut,
    };
    let (there, back) = match adjacency {
        Adjacency::ReplaceOne => (Kind::Replace, Kind::Replace),
        Adjacency::AddRemove | Adjacency::ZeroOut => (Kind::Remove, Kind::Add),
    };
    let one = |release: &steps::Release| -> Result<Release, PldError> {
        let mut laws = Vec::new();
        let mut pmf = |kind| -> Result<(Pmf, u64), PldError> {
            let list = std::slice::from_ref(release);
            let steps = steps::steps(list, way(kind), steps::ln_above(list, None), &mut laws)?;
            let [step] = steps.as_slice() else {
                return Err(PldError::Incomplete { mass: 0.0 });
            };
            Ok((Pmf::of(&step.pair, h)?, step.count))
        };
        let (remove, count) = pmf(there)?;
        let add = if release.is_symmetric() || there == back {
            None
        } else {
            Some(pmf(back)?.0)
        };
        Ok(Release {
            adjacency,
            count,
            remove,
            add,
        })
    };
    releases.iter().map(one).collect()
}

fn compose(releases: &[Release], query: Query) -> Result<f64, PldError> {
    let mixed = releases
        .windows(2)
        .find(|pair| pair[0].adjacency != pair[1].adjacency);
    if let Some([one, other, ..]) = mixed {
        return Err(PldError::MixedAdjacencies {
            one: one.adjacency,
            other: other.adjacency,
        });
    }
    let mut worst = 0.0_f64;
    let both = [true, false];
    let differs = releases.iter().any(|release| release.add.is_some());
    for &back in &both[usize::from(!differs)..] {
        let step = |release: &Release| Step {
            pair: AnyPair::Points(Rc::new(match &release.add {
                Some(add) if back => add.points(),
                _ => release.remove.points(),
            })),
            count: release.count,
        };
        let steps: Vec<Step> = releases.iter().filter(|r| r.count > 0).map(step).collect();
        if steps.is_empty() {
            return Ok(0.0);
        }
        // Nothing is known from below: a floor makes the lattice as fine as the upper end deserves.
        let options = PldOptions::default();
        worst = worst.max(direction(&steps, query, 0.0, &options)?.upper);
    }
    Ok(worst)
}

/// Upper bound on the epsilon at `delta` of the composition of all releases.
///
/// # Errors
/// [`PldError`] where the lattice gets too fine, and for releases under different relations.
pub fn epsilon(releases: &[Release], delta: Delta) -> Result<f64, PldError> {
    compose(releases, Query::Epsilon(delta.get()))
}

/// Upper bound on the delta at `epsilon` of the composition of all releases.
///
/// # Errors
/// As [`epsilon`](fn@epsilon), and for an epsilon that is negative or no number.
pub fn delta(releases: &[Release], epsilon: f64) -> Result<f64, PldError> {
    if !epsilon.is_finite() || epsilon < 0.0 {
        return Err(PldError::BadEpsilon { value: epsilon });
    }
    compose(releases, Query::Delta(epsilon)).map(|delta| delta.min(1.0))
}
