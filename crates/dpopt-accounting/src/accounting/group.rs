//! What holds between data sets that differ in several records: those of one person, say.
//!
//! A [`Group`] of k records is k steps of the neighbouring relation: k records come or go (in any mixture), are replaced, or are zeroed
//! out. Two routes, of which [`epsilon`] takes the smaller number:
//!
//! - [`interval`]: the dominating pair of k records, with both ends certified. Tight for Gaussians (`k mu`), for Gaussians on Poisson samples (mixtures
//!   of Gaussians with binomial weights), for plain Laplace noise (k times the sensitivity) and for pure releases (`k epsilon`).
//! - [`by_lemma`]: where (epsilon, delta') holds for one record, `(k epsilon, delta' (e^{k epsilon} - 1)/(e^epsilon - 1))` holds for k. It
//!   takes whatever an accountant takes.
//!
//! `k epsilon` at the same delta is **no** guarantee for k records. Proofs: `docs/privacy/accounting.md`.
//!
//! ```
//! use dpopt_accounting::accounting::group::{self, Group};
//! use dpopt_accounting::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
//! let step = Event::gaussian(NoiseMultiplier::new(1.0)?).poisson_sampled(SamplingRate::new(0.01)?);
//! let (event, delta) = (step.repeated(1000), Delta::new(1e-5)?);
//! let bound = group::epsilon(&event, Group::of(3, 10_000)?, delta, Adjacency::AddRemove)?;
//! assert!(bound.epsilon > 3.0 * 1.8282 && bound.epsilon < 15.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::Serialize;

use super::pld::{self, PldBounds, PldOptions};
use super::{Accountant, AccountingError};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon};

/// Number of records that differ: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Group(u64);

/// A group that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// No records.
    #[error("a group has at least one record")]
    Empty,
    /// More records than there are.
    #[error("a group of {group} records is larger than the data set, of {records}")]
    LargerThanData {
        /// Records of the group.
        group: u64,
        /// Records of the data set, or a public bound on them.
        records: u64,
    },
}

impl Group {
    /// A group of so many records, of a data set whose size is not known here.
    ///
    /// # Errors
    /// [`GroupError::Empty`].
    pub fn new(group: u64) -> Result<Self, GroupError> {
        match group {
            0 => Err(GroupError::Empty),
            _ => Ok(Self(group)),
        }
    }

    /// A group of so many of `records` records.
    ///
    /// # Errors
    /// [`GroupError::Empty`], [`GroupError::LargerThanData`].
    pub fn of(group: u64, records: u64) -> Result<Self, GroupError> {
        if group > records {
            return Err(GroupError::LargerThanData { group, records });
        }
        Self::new(group)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// By which argument a number holds for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Route {
    /// One record: the accountant's number.
    One,
    /// The dominating pair of the group.
    Pair,
    /// The group lemma, on the profile of one record.
    Lemma,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Route::One => "accountant itself",
            Route::Pair => "dominating pair of a group",
            Route::Lemma => "group lemma",
        })
    }
}

/// An epsilon that holds for a group, and why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GroupBound {
    /// Upper bound.
    pub epsilon: f64,
    /// The argument.
    pub route: Route,
}

/// The least epsilon known for a group at `delta`.
///
/// # Errors
/// The accountants' refusals of the event for one record, [`AccountingError::OutOfRange`] where no finite number holds.
pub fn epsilon(
    event: &Event,
    group: Group,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<GroupBound, AccountingError> {
    check(event, group, adjacency)?;
    if group.get() == 1 {
        let (_, epsilon) = Accountant::least(event, delta, adjacency)?;
        let route = Route::One;
        return Ok(GroupBound { epsilon, route });
    }
    let bound = |route| move |epsilon| GroupBound { epsilon, route };
    let pair = interval(event, group, delta, adjacency).map(|ends| ends.upper);
    let pair = pair.ok().filter(|e| e.is_finite()).map(bound(Route::Pair));
    // Where the pair is tight the lemma can't be better.
    if let Some(pair) = pair
        && Accountant::tightest_for(event, adjacency)
            .is_ok_and(|first| matches!(first, Accountant::Gdp | Accountant::Exact))
    {
        return Ok(pair);
    }
    let lemma = by_lemma(event, group, delta, adjacency).map(bound(Route::Lemma));
    match (pair, lemma) {
        (Some(pair), Ok(lemma)) if lemma.epsilon < pair.epsilon => Ok(lemma),
        (Some(pair), _) => Ok(pair),
        (None, lemma) => lemma,
    }
}

/// Bounds on epsilon at `delta` by the dominating pair of the group. Tight for what the module says; of approximate, concentrated and
/// bounded-range releases the lower end is that of a mechanism of their kind.
///
/// # Errors
/// [`AccountingError::Pld`] for an event that has no such pair here: Laplace noise on samples, samples of fixed size, random
/// allocation, selections; samples with more than 1000 records.
pub fn interval(
    event: &Event,
    group: Group,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<PldBounds, AccountingError> {
    interval_with(event, group, delta, adjacency, &PldOptions::default())
}

/// [`interval`] with options.
///
/// # Errors
/// As [`interval`], and for options out of range.
pub fn interval_with(
    event: &Event,
    group: Group,
    delta: Delta,
    adjacency: Adjacency,
    options: &PldOptions,
) -> Result<PldBounds, AccountingError> {
    check(event, group, adjacency)?;
    let records = group.get();
    Ok(pld::group_epsilon(
        event, records, delta, adjacency, options,
    )?)
}

/// Bounds on delta at `epsilon`, as [`interval`].
///
/// # Errors
/// As [`interval`], and for a negative epsilon.
pub fn delta_interval(
    event: &Event,
    group: Group,
    epsilon: f64,
    adjacency: Adjacency,
) -> Result<PldBounds, AccountingError> {
    check(event, group, adjacency)?;
    let options = PldOptions::default();
    let records = group.get();
    Ok(pld::group_delta(
        event, records, epsilon, adjacency, &options,
    )?)
}

/// Refuses samples whose law hangs on the number of records where several of them may come or go: an event names the size of neighbours, and
/// data sets k apart are up to k - 1 records beyond it.
fn check(event: &Event, group: Group, adjacency: Adjacency) -> Result<(), AccountingError> {
    if group.get() == 1 || adjacency != Adjacency::AddRemove {
        return Ok(());
    }
    let sized = matches!(
        event,
        Event::TruncatedSubsampledGaussian { .. }
            | Event::SampledWithoutReplacement { .. }
            | Event::SampledWithReplacement { .. }
    );
    if sized {
        return Err(AccountingError::UnsupportedAdjacency {
            adjacency,
            path: String::new(),
            event: Box::new(event.clone()),
        });
    }
    let mut inner = event.children().iter();
    inner.try_for_each(|event| check(event, group, adjacency))
}

/// The least `k epsilon` over the points (epsilon, delta') that hold for one record with
/// `delta' (1 + e^epsilon + ... + e^{(k-1) epsilon})` at most `delta`.
///
/// # Errors
/// The accountants' refusals, [`AccountingError::OutOfRange`] where no delta' above 1e-290 is small enough.
pub fn by_lemma(
    event: &Event,
    group: Group,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<f64, AccountingError> {
    check(event, group, adjacency)?;
    let k = group.get() as f64;
    let at = |ln: f64| -> Result<Option<f64>, AccountingError> {
        let part = Delta::new(ln.exp())?;
        let (_, epsilon) = Accountant::least(event, part, adjacency)?;
        let fits = part.get() * pld::chain(epsilon, group.get()) <= delta.get();
        Ok(fits.then_some(k * epsilon * (1.0 + 4.0 * f64::EPSILON)))
    };
    let first = delta.get().ln() - k.ln() - 1e-9;
    let (mut most, mut gap) = (first, 1.0);
    let mut found = None;
    let mut refusal = None;
    let mut least = first;
    while found.is_none() && least > LN_LEAST {
        match at(least) {
            Ok(Some(epsilon)) => found = Some((least, epsilon)),
            Ok(None) => {
                most = least;
                least = (least - gap).max(LN_LEAST);
                gap *= 1.6;
            }
            // Deeper may be beyond the accountants' range.
            Err(error) => {
                refusal = Some(error);
                break;
            }
        }
    }
    let Some((mut low, mut best)) = found else {
        return Err(refusal.unwrap_or(AccountingError::OutOfRange {
            quantity: "epsilon of the group",
            value: f64::INFINITY,
        }));
    };
    // A larger delta' that fits has a smaller epsilon. Whatever is found was checked.
    for _ in 0..16 {
        if most - low < 1e-3 {
            break;
        }
        let middle = 0.5 * (low + most);
        match at(middle) {
            Ok(Some(epsilon)) => (low, best) = (middle, best.min(epsilon)),
            _ => most = middle,
        }
    }
    Ok(best)
}

/// Log of the least delta' that is tried.
const LN_LEAST: f64 = -667.0;

/// Upper bound on delta for a group at `epsilon`: the least of the pair's and the lemma's.
///
/// # Errors
/// As [`epsilon`](fn@epsilon).
pub fn delta(
    event: &Event,
    group: Group,
    epsilon: Epsilon,
    adjacency: Adjacency,
) -> Result<f64, AccountingError> {
    let of_one = |epsilon: Epsilon| {
        let first = Accountant::tightest_for(event, adjacency)?;
        first.delta(event, epsilon, adjacency)
    };
    if group.get() == 1 {
        return of_one(epsilon);
    }
    let part = epsilon.get() / group.get() as f64;
    let lemma = Epsilon::new(part.next_down())
        .map_err(AccountingError::from)
        .and_then(of_one)
        .map(|one| (one * pld::chain(part, group.get())).min(1.0));
    match (
        delta_interval(event, group, epsilon.get(), adjacency),
        lemma,
    ) {
        (Ok(pair), Ok(lemma)) => Ok(pair.upper.min(lemma).min(1.0)),
        (Ok(pair), Err(_)) => Ok(pair.upper.min(1.0)),
        (Err(_), lemma) => lemma,
    }
}
