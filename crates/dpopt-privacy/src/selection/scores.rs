//! Scores of candidates as exact integer sums of per-record contributions.
//!
//! One record adds to each candidate's score a number from one public interval that holds zero.
//! Contributions are clipped to it, rounded to a lattice and added in integers, so that the
//! sensitivity is enforced and exact. What one record can do to a selection is measured by the
//! **spread**: selections look at differences of scores only, so what counts is by how much the
//! changes of two candidates' scores can differ.

use zeroize::Zeroize;

use super::SelectionError;
use crate::adjacency::Adjacency;
use crate::lattice::MAX_RECORDS;

/// Largest number of candidates, 2^24.
pub const MAX_CANDIDATES: usize = 1 << 24;

/// Largest size of a whole-numbered contribution, 2^30.
pub const MAX_WHOLE: u32 = 1 << 30;

/// log2 of the largest contribution in steps.
const RANGE_BITS: i32 = 30;
const MIN_RANGE: f64 = f64::from_bits((1023 - 900) << 52);
const MAX_RANGE: f64 = f64::from_bits((1023 + 900) << 52);

/// The interval that each record's contributions to each candidate's score are clipped to, and
/// their lattice.
///
/// # Formula
/// With ends `low <= 0 <= high` in steps, one record more or less moves every score by something
/// from `[low, high]`, or its negative. In steps:
///
/// | adjacency | sensitivity of a score | spread |
/// | --- | --- | --- |
/// | add-remove, zero-out | max(-low, high) | high - low |
/// | replace-one | high - low | 2 (high - low) |
///
/// The spread is twice the sensitivity, except where all scores move in one direction only: with
/// `low = 0` or `high = 0` under add-remove or zero-out (the **monotone** case) it is the
/// sensitivity itself, and in between for lopsided intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBound {
    candidates: usize,
    step: f64,
    low: i64,
    high: i64,
}

impl ScoreBound {
    /// Contributions between `low` and `high`, rounded to nearest on a lattice whose step is a
    /// power of two, about 2^-30 of the larger end.
    ///
    /// # Errors
    /// [`SelectionError::NoCandidates`], [`SelectionError::TooManyCandidates`],
    /// [`SelectionError::ScoreRange`] unless `low <= 0 <= high` with a larger end of size 2^-900
    /// to 2^900.
    pub fn new(candidates: usize, low: f64, high: f64) -> Result<Self, SelectionError> {
        let largest = high.max(-low);
        let sound = low <= 0.0 && high >= 0.0 && (MIN_RANGE..=MAX_RANGE).contains(&largest);
        if !sound {
            return Err(SelectionError::ScoreRange {
                low,
                high,
                limit: MAX_RANGE,
            });
        }
        let exponent = (largest.to_bits() >> 52) as i32 - 1023;
        let step = f64::from_bits(((1023 + exponent + 1 - RANGE_BITS) as u64) << 52);
        // The quotients are exact, or smaller than one step; rounded inwards.
        let ends = ((low / step).ceil() as i64, (high / step).floor() as i64);
        Self::checked(candidates, step, ends)
    }

    /// Whole-numbered contributions, such as votes: the step is 1.
    ///
    /// # Errors
    /// As [`ScoreBound::new`], with ends of size at most [`MAX_WHOLE`].
    pub fn whole(candidates: usize, low: i32, high: i32) -> Result<Self, SelectionError> {
        let sizes = [low.unsigned_abs(), high.unsigned_abs()];
        let sound = low <= 0 && high >= 0 && low < high && sizes.iter().all(|&s| s <= MAX_WHOLE);
        if !sound {
            return Err(SelectionError::ScoreRange {
                low: f64::from(low),
                high: f64::from(high),
                limit: f64::from(MAX_WHOLE),
            });
        }
        Self::checked(candidates, 1.0, (i64::from(low), i64::from(high)))
    }

    fn checked(
        candidates: usize,
        step: f64,
        (low, high): (i64, i64),
    ) -> Result<Self, SelectionError> {
        match candidates {
            0 => Err(SelectionError::NoCandidates),
            1..=MAX_CANDIDATES => Ok(Self {
                candidates,
                step,
                low,
                high,
            }),
            _ => Err(SelectionError::TooManyCandidates {
                candidates,
                limit: MAX_CANDIDATES,
            }),
        }
    }

    /// Number of candidates.
    #[must_use]
    pub fn candidates(&self) -> usize {
        self.candidates
    }

    /// Distance between neighbouring lattice points, a power of two.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.step
    }

    /// By how much one score can move between neighbours, in the units of the score.
    #[must_use]
    pub fn sensitivity(&self, adjacency: Adjacency) -> f64 {
        // Exact: at most 31 bits times a power of two.
        self.sensitivity_in_steps(adjacency) as f64 * self.step
    }

    /// By how much the changes of two scores can differ between neighbours, in the units of the
    /// score: what a selection's epsilon is relative to.
    #[must_use]
    pub fn spread(&self, adjacency: Adjacency) -> f64 {
        self.spread_in_steps(adjacency) as f64 * self.step
    }

    /// Whether all scores move in one direction when a record is added, under `adjacency`: then
    /// the spread is the sensitivity and not twice as much.
    #[must_use]
    pub fn is_monotone(&self, adjacency: Adjacency) -> bool {
        self.spread_in_steps(adjacency) == self.sensitivity_in_steps(adjacency)
    }

    /// Least and largest change of a score between neighbours, in steps: when a record is added, or
    /// comes in the place of another. When it is taken away, the changes are the negatives.
    pub(crate) fn changes(&self, adjacency: Adjacency) -> (i64, i64) {
        match adjacency {
            Adjacency::ReplaceOne => (self.low - self.high, self.high - self.low),
            Adjacency::AddRemove | Adjacency::ZeroOut => (self.low, self.high),
        }
    }

    pub(crate) fn sensitivity_in_steps(&self, adjacency: Adjacency) -> u64 {
        let (low, high) = self.changes(adjacency);
        high.max(-low).unsigned_abs()
    }

    pub(crate) fn spread_in_steps(&self, adjacency: Adjacency) -> u64 {
        let (low, high) = self.changes(adjacency);
        high.abs_diff(low)
    }

    /// The lattice point of a clipped contribution. A function of `x` and public values; only
    /// finite `x` get here.
    fn round(&self, x: f64) -> i64 {
        // An infinite quotient saturates.
        ((x / self.step).round_ties_even() as i64).clamp(self.low, self.high)
    }
}

/// A running sum of clipped contributions to the scores of all candidates.
///
/// # Privacy
/// One record makes one call of [`ScoreSum::add`] or [`ScoreSum::add_vote`]. Whatever is added
/// moves each score by something from the bound's interval: a contribution with an entry that is
/// not finite, or of the wrong length, counts as zero as a whole. The sum is exact and does not
/// depend on the order. It neither clones, prints nor serialises:
///
/// ```compile_fail
/// fn print(sum: dpopt_privacy::selection::ScoreSum) { println!("{sum:?}"); }
/// ```
/// ```compile_fail
/// fn copy(sum: dpopt_privacy::selection::ScoreSum) { let _ = sum.clone(); }
/// ```
pub struct ScoreSum {
    bound: ScoreBound,
    sums: Vec<i64>,
    added: u64,
}

impl ScoreSum {
    /// The empty sum; it takes [`MAX_RECORDS`] records, which fit whatever they hold.
    #[must_use]
    pub fn new(bound: ScoreBound) -> Self {
        Self {
            bound,
            sums: vec![0; bound.candidates],
            added: 0,
        }
    }

    /// Adds one record's contributions, one for each candidate.
    pub fn add(&mut self, contribution: &[f64]) {
        let sound =
            contribution.len() == self.sums.len() && contribution.iter().all(|x| x.is_finite());
        if !self.has_room() || !sound {
            return;
        }
        for (sum, &x) in self.sums.iter_mut().zip(contribution) {
            *sum += self.bound.round(x);
        }
    }

    /// Adds one record that contributes to one candidate only; to none if there is no such one.
    pub fn add_vote(&mut self, candidate: usize, contribution: f64) {
        if !self.has_room() || !contribution.is_finite() {
            return;
        }
        if let Some(sum) = self.sums.get_mut(candidate) {
            *sum += self.bound.round(contribution);
        }
    }

    /// Adds another partial sum over other records.
    ///
    /// # Errors
    /// [`SelectionError::BoundsDiffer`]; [`SelectionError::TooManyRecords`] when the two together
    /// exceed [`MAX_RECORDS`].
    pub fn merge(mut self, other: Self) -> Result<Self, SelectionError> {
        if self.bound != other.bound {
            return Err(SelectionError::BoundsDiffer);
        }
        let records = self.added.saturating_add(other.added);
        if records > MAX_RECORDS {
            return Err(SelectionError::TooManyRecords {
                records,
                limit: MAX_RECORDS,
            });
        }
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum += other;
        }
        self.added = records;
        Ok(self)
    }

    /// Seals the scores. `adjacency` says how they may differ between neighbours.
    #[must_use]
    pub fn finish(mut self, adjacency: Adjacency) -> SensitiveScores {
        SensitiveScores {
            sums: std::mem::take(&mut self.sums),
            bound: self.bound,
            adjacency,
        }
    }

    /// Counts one more record, whatever it holds; a full sum takes no more.
    fn has_room(&mut self) -> bool {
        let room = self.added < MAX_RECORDS;
        self.added += u64::from(room);
        room
    }
}

impl Drop for ScoreSum {
    fn drop(&mut self) {
        self.sums.zeroize();
    }
}

/// Scores of all candidates, computed from private records over all records.
///
/// # Privacy
/// It implements neither `Clone`, `Debug`, `Display` nor `Serialize` and has no accessor to the
/// scores: the only way out is a selection by a [`crate::Curator`], which charges for it.
///
/// ```compile_fail
/// fn copy(secret: dpopt_privacy::selection::SensitiveScores) { let _ = secret.clone(); }
/// ```
/// ```compile_fail
/// fn print(secret: dpopt_privacy::selection::SensitiveScores) { println!("{secret:?}"); }
/// ```
/// ```compile_fail
/// fn read(secret: &dpopt_privacy::selection::SensitiveScores) -> i64 { secret.sums[0] }
/// ```
pub struct SensitiveScores {
    pub(crate) sums: Vec<i64>,
    pub(crate) bound: ScoreBound,
    pub(crate) adjacency: Adjacency,
}

impl SensitiveScores {
    /// The bound on one record's contribution.
    #[must_use]
    pub fn bound(&self) -> ScoreBound {
        self.bound
    }

    /// The adjacency under which sensitivity and spread hold.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

impl Drop for SensitiveScores {
    fn drop(&mut self) {
        self.sums.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn contributions_stay_in_their_interval(
            low in 0.0..2.0_f64, high in 0.0..2.0_f64, exponent in -250..250_i32,
            row in prop::collection::vec(prop_oneof![any::<f64>(), -3.0..3.0_f64, Just(f64::MAX)], 1..8),
        ) {
            let unit = 10f64.powi(exponent);
            let (low, high) = (-low * unit, high * unit);
            let bound = ScoreBound::new(row.len(), low, high).unwrap();
            let mut sum = ScoreSum::new(bound);
            sum.add(&row);
            let finite = row.iter().all(|x| x.is_finite());
            for (&k, &x) in sum.sums.iter().zip(&row) {
                // Exact products: within the reals that the ends stand for.
                prop_assert!(k as f64 * bound.step() <= high && k as f64 * bound.step() >= low);
                if finite {
                    let clipped = x.clamp(low, high);
                    prop_assert!((k as f64 * bound.step() - clipped).abs() <= bound.step());
                } else {
                    prop_assert_eq!(k, 0);
                }
            }
        }

        #[test]
        fn order_and_grouping_do_not_matter(
            rows in prop::collection::vec(prop::collection::vec(-2.0..2.0_f64, 3), 1..20), split in 0_usize..20,
        ) {
            let bound = ScoreBound::new(3, -1.0, 0.5).unwrap();
            let add = |rows: &[Vec<f64>]| {
                let mut sum = ScoreSum::new(bound);
                rows.iter().for_each(|row| sum.add(row));
                sum
            };
            let split = split.min(rows.len());
            let parts = add(&rows[split..]).merge(add(&rows[..split])).unwrap();
            prop_assert_eq!(&add(&rows).sums, &parts.sums);
        }

        /// The spread and the sensitivity by all pairs of contributions at the ends.
        #[test]
        fn spread_and_sensitivity_are_the_largest_changes(low in 0..9_i32, high in 0..9_i32) {
            prop_assume!(low + high > 0);
            let bound = ScoreBound::whole(2, -low, high).unwrap();
            let ends = [-low, 0, high];
            let all = || ends.into_iter().flat_map(move |a| ends.into_iter().map(move |b| [a, b]));
            let zero = [0, 0];
            for adjacency in [Adjacency::ReplaceOne, Adjacency::AddRemove, Adjacency::ZeroOut] {
                let (mut sensitivity, mut spread) = (0, 0);
                for v in all() {
                    for w in all() {
                        if adjacency != Adjacency::ReplaceOne && v != zero && w != zero {
                            continue;
                        }
                        let change = [v[0] - w[0], v[1] - w[1]];
                        sensitivity = sensitivity.max(change[0].abs());
                        spread = spread.max((change[0] - change[1]).abs());
                    }
                }
                prop_assert_eq!(f64::from(sensitivity), bound.sensitivity(adjacency));
                prop_assert_eq!(f64::from(spread), bound.spread(adjacency));
                let one_way = adjacency != Adjacency::ReplaceOne && (low == 0 || high == 0);
                prop_assert_eq!(bound.is_monotone(adjacency), one_way);
            }
        }
    }

    #[test]
    fn one_bad_entry_removes_the_whole_contribution() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut sum = ScoreSum::new(ScoreBound::new(2, 0.0, 1.0).unwrap());
            sum.add(&[0.5, bad]);
            sum.add(&[0.5]);
            sum.add(&[0.5; 3]);
            sum.add_vote(0, bad);
            sum.add_vote(2, 0.5);
            assert_eq!(sum.sums, [0, 0]);
            // All were counted: whether a record is taken depends on no other record.
            assert_eq!(sum.added, 5);
        }
    }

    #[test]
    fn a_full_sum_takes_no_more() {
        let bound = ScoreBound::whole(1, 0, 1).unwrap();
        let mut sum = ScoreSum::new(bound);
        sum.added = MAX_RECORDS;
        sum.add_vote(0, 1.0);
        assert_eq!(sum.sums, [0]);
        let mut other = ScoreSum::new(bound);
        other.add_vote(0, 1.0);
        assert!(matches!(
            sum.merge(other),
            Err(SelectionError::TooManyRecords { .. })
        ));
    }

    #[test]
    fn impossible_bounds_are_errors() {
        for (low, high) in [
            (0.0, 0.0),
            (0.5, 1.0),
            (-1.0, -0.5),
            (f64::NAN, 1.0),
            (0.0, f64::NAN),
            (0.0, f64::INFINITY),
            (0.0, 1e-300),
            (0.0, 1e300),
        ] {
            assert!(
                matches!(
                    ScoreBound::new(2, low, high),
                    Err(SelectionError::ScoreRange { .. })
                ),
                "{low} {high}"
            );
        }
        assert!(ScoreBound::whole(2, 0, 0).is_err());
        assert!(ScoreBound::whole(2, 0, i32::MAX).is_err());
        assert!(matches!(
            ScoreBound::new(0, 0.0, 1.0),
            Err(SelectionError::NoCandidates)
        ));
        assert!(matches!(
            ScoreBound::whole(MAX_CANDIDATES + 1, 0, 1),
            Err(SelectionError::TooManyCandidates { .. })
        ));
        let sums = [1.0, 2.0].map(|high| ScoreSum::new(ScoreBound::new(1, 0.0, high).unwrap()));
        let [a, b] = sums;
        assert!(matches!(a.merge(b), Err(SelectionError::BoundsDiffer)));
    }
}
