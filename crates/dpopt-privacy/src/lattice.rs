//! Exact sums of clipped contributions on a power-of-two lattice.
//!
//! Floating-point sums are not 1-Lipschitz in a record, so a sum that must have a known
//! sensitivity is added in integers. [`LatticeSum`] clips each contribution itself and rounds it
//! to the lattice; its contents can be read only by the curator, which adds noise. The argument is in `docs/privacy/sums.md`.

mod claimed;
mod norm;
mod outer;
mod placed;
mod products;
mod row_bound;
mod rows;
mod squares;
mod stacked;
mod tails;
mod weighted;

pub use claimed::SensitivityClaim;
pub use dpopt_lanes::Entry as RowEntry;
pub use outer::{BlockFactors, BlockWork, Factors, OuterWork};
pub use placed::FixedBlocks;
use placed::Placed;
pub use row_bound::RowBound;
pub use rows::SparseRow;
pub use squares::SquareWork;
pub use tails::Tails;

use zeroize::Zeroizing;

use crate::adjacency::Adjacency;
use crate::units::ClipNorm;

/// Largest number of contributions in one sum: 2^32. With coordinates below 2^30 + 1 steps
/// each, a sum stays below 2^63.
pub const MAX_RECORDS: u64 = 1 << 32;

/// log2 of the largest radius in steps.
const RADIUS_BITS: i32 = 30;
/// Radii below this are rounded up to it, so that steps and products stay normal numbers.
const MIN_RADIUS: f64 = f64::from_bits(((1023 - 900) as u64) << 52);
/// Radii above this are refused.
const MAX_RADIUS: f64 = f64::from_bits(((1023 + 900) as u64) << 52);
/// 1.5 * 2^52: adding it to a number below 2^51 in magnitude leaves the nearest integer (ties to
/// even) in the low bits of the sum.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// A bound or a lattice sum was asked for something it can't represent.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LatticeError {
    /// The radius is too large for the lattice.
    #[error("clip radius {radius:e} is above {limit:e}, the largest that the lattice can hold")]
    RadiusTooLarge {
        /// The radius asked for.
        radius: f64,
        /// The largest possible.
        limit: f64,
    },
    /// The vector is too long for its rounding slack to stay a small part of the radius.
    #[error("dimension {dim} is above {limit}, the largest that the lattice can hold")]
    DimensionTooLarge {
        /// The dimension asked for.
        dim: usize,
        /// The largest possible.
        limit: usize,
    },
    /// A vector needs at least one coordinate.
    #[error("a release needs at least one coordinate")]
    ZeroDimension,
    /// More records than one sum can hold.
    #[error("{records} records are more than the {limit} that one exact sum can hold")]
    TooManyRecords {
        /// Records asked for.
        records: u64,
        /// The largest possible number.
        limit: u64,
    },
    /// A claimed output would not fit the integers at the step that its sensitivity gives.
    #[error(
        "coordinates of up to {reach:e} are above {limit:e}, the most that the integers hold at this sensitivity"
    )]
    ReachTooLong {
        /// The largest coordinate.
        reach: f64,
        /// The largest possible.
        limit: f64,
    },
    /// The noise would be narrower than the lattice or wider than the integers.
    #[error(
        "noise of standard deviation {scale:e} lattice steps is outside the sampler's range [{low:e}, {high:e}]"
    )]
    NoiseOutOfRange {
        /// Standard deviation over step.
        scale: f64,
        /// Least supported.
        low: f64,
        /// Largest supported.
        high: f64,
    },
}

/// Clip radius and lattice of one release, from one object, all rounded to the safe side.
///
/// # Formula
/// With radius C and dimension d the step is the power of two in [2^-30 C, 2^-29 C), and a
/// contribution is clipped to C - (sqrt(d)/2 + 1) step, less a few units of rounding. Rounding to
/// the lattice moves each coordinate by at most step/2, so the rounded contribution has norm at
/// most C.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    dim: usize,
    radius: f64,
    step: f64,
    clip: f64,
}

impl Bound {
    /// Largest dimension: the rounding slack sqrt(d)/2 steps stays below 2^-10 of the radius.
    pub const MAX_DIM: usize = 1 << 38;

    /// The bound for vectors of dimension `dim` and norm at most `radius`. A radius below
    /// 2^-900 is rounded up to it.
    ///
    /// # Errors
    /// [`LatticeError`] when the dimension is 0 or too large, or the radius too large.
    pub fn new(radius: ClipNorm, dim: usize) -> Result<Self, LatticeError> {
        if dim == 0 {
            return Err(LatticeError::ZeroDimension);
        }
        if dim > Self::MAX_DIM {
            return Err(LatticeError::DimensionTooLarge {
                dim,
                limit: Self::MAX_DIM,
            });
        }
        let radius = radius.get().max(MIN_RADIUS);
        if radius > MAX_RADIUS {
            return Err(LatticeError::RadiusTooLarge {
                radius,
                limit: MAX_RADIUS,
            });
        }
        let exponent = (radius.to_bits() >> 52) as i32 - 1023;
        // 2^exponent <= radius < 2^(exponent + 1).
        let step = pow2(exponent + 1 - RADIUS_BITS);
        // The square root and the product err by a few units in the last place; one whole extra
        // step and 2^-45 of the radius cover them and those of the clip factor.
        let clip = (radius - slack(dim, step)) * (1.0 - pow2(-45));
        Ok(Self {
            dim,
            radius,
            step,
            clip,
        })
    }

    /// The radius C: no record contributes more than this, in L2 norm.
    #[must_use]
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Distance between neighbouring lattice points, a power of two.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Dimension of the vectors.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// L2 sensitivity of a sum of contributions within this bound, in lattice steps.
    #[must_use]
    pub fn sensitivity_in_steps(&self, adjacency: Adjacency) -> f64 {
        // Exact: division by a power of two, then by 1 or 2.
        (self.radius / self.step) * adjacency.sum_sensitivity()
    }

    /// How to put `scale` times a row of these entries on the lattice after clipping it; nothing
    /// where an entry or the scale is not finite, and where the contribution is zero.
    ///
    /// Everything is relative to a power of two near the largest entry: neither the norm nor the
    /// clipped scale can overflow, or lose digits by becoming subnormal, except where the whole
    /// contribution is far below half a step.
    fn scaling(
        &self,
        scale: f64,
        entries: impl ExactSizeIterator<Item = f64> + Clone,
    ) -> Option<Scaling> {
        let length = entries.len();
        let shrunk = shrunk_norm(entries)?;
        if !scale.is_finite() || shrunk.norm == 0.0 || scale == 0.0 {
            return None;
        }
        // Between 2^-75 and 2^45.
        let norm = shrunk.norm * norm_inflation(length);
        let full = scale.abs() * shrunk.unit;
        // An infinite product is clipped like any other that is too long.
        let kept = if full * norm <= self.clip {
            full
        } else {
            (self.clip / norm) * (1.0 - 4.0 * f64::EPSILON)
        };
        Some(Scaling {
            shrink: 1.0 / shrunk.unit,
            steps: (kept * (1.0 / self.step)).copysign(scale),
        })
    }
}

/// The slack of a bound for rounding: sqrt(d)/2 steps to the lattice, and one step for everything else.
fn slack(dim: usize, step: f64) -> f64 {
    ((dim as f64).sqrt() * 0.5 + 1.0) * step
}

/// The computed norm of a row over a power of two near its largest entry.
struct ShrunkNorm {
    norm: f64,
    unit: f64,
}

/// The norm of a row relative to a power of two near its largest entry; nothing where an entry is not
/// finite.
fn shrunk_norm(entries: impl Iterator<Item = f64> + Clone) -> Option<ShrunkNorm> {
    let mut largest = 0.0f64;
    let mut finite = true;
    for x in entries.clone() {
        finite &= x.is_finite();
        largest = largest.max(x.abs());
    }
    if !finite {
        return None;
    }
    let exponent = ((largest.to_bits() >> 52) as i32 - 1023).clamp(-1000, 1000);
    let shrink = pow2(-exponent);
    let squares: f64 = entries.map(|x| (x * shrink) * (x * shrink)).sum();
    Some(ShrunkNorm {
        norm: squares.sqrt(),
        unit: pow2(exponent),
    })
}

/// Maps the entries of one row to lattice steps.
#[derive(Clone, Copy)]
struct Scaling {
    /// A power of two that brings the largest entry near 1.
    shrink: f64,
    /// Clipped scale in steps for the shrunk entries.
    steps: f64,
}

impl Scaling {
    #[inline]
    fn round(self, x: f64) -> i64 {
        nearest(x * self.shrink * self.steps)
    }
}

fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A running sum of clipped contributions, in whole lattice steps.
///
/// # Privacy
/// Whatever is added, one contribution moves the sum by at most the bound's radius: a
/// contribution that is not finite counts as zero as a whole, any other is clipped and rounded.
/// The sum is exact, so it depends neither on the order of the records nor on the number of
/// threads. Its contents can't be read: the only way out is
/// [`crate::Curator::redeem`], which adds noise and charges for it.
///
/// It neither clones, prints nor serialises:
///
/// ```compile_fail
/// fn print(sum: dpopt_privacy::LatticeSum) { println!("{sum:?}"); }
/// ```
pub struct LatticeSum {
    /// The radius that contributions are clipped to.
    bound: Bound,
    /// The bound that the sealed sum states: `bound`, or a longer radius on the same lattice.
    stated: Bound,
    /// The factor of each contribution before it is clipped.
    weight: f64,
    sum: Vec<i64>,
    added: u64,
    /// Where blocks of records may be added in floating point.
    placed: Option<Placed>,
}

impl LatticeSum {
    /// The empty sum.
    #[must_use]
    pub fn new(bound: Bound) -> Self {
        Self::weighted(bound, 1.0, bound.radius)
    }

    /// The empty sum that takes blocks of records at fixed positions too
    /// ([`LatticeSum::add_outer_block`]).
    #[must_use]
    pub fn in_blocks(bound: Bound, blocks: FixedBlocks) -> Self {
        Self {
            placed: Some(Placed::new(blocks)),
            ..Self::new(bound)
        }
    }

    /// The blocks of positions, if it takes any.
    #[must_use]
    pub fn blocks(&self) -> Option<FixedBlocks> {
        self.placed.as_ref().map(|placed| placed.blocks)
    }

    /// The bound that each contribution is clipped to.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Adds clip(`scale` * `row`) for a dense row; entries beyond the dimension are ignored.
    pub fn add_scaled<T: Copy + Into<f64>>(&mut self, scale: f64, row: &[T]) {
        let row = &row[..row.len().min(self.bound.dim)];
        if !self.has_room() {
            return;
        }
        let Some(scaling) = self.bound.scaling(
            scale * self.weight,
            row.iter().map(|&x| Into::<f64>::into(x)),
        ) else {
            return;
        };
        for (sum, &x) in self.sum.iter_mut().zip(row) {
            *sum += scaling.round(x.into());
        }
    }

    /// Adds clip(`scale` * row) for a sparse row with entries `values` at `columns`. Columns must
    /// be distinct; a row with a column out of range counts as zero.
    pub fn add_scaled_sparse<T: Copy + Into<f64>>(
        &mut self,
        scale: f64,
        columns: &[u32],
        values: &[T],
    ) {
        let entries = columns.len().min(values.len());
        let (columns, values) = (&columns[..entries], &values[..entries]);
        let distinct = columns.windows(2).all(|pair| pair[0] < pair[1])
            && columns
                .last()
                .is_none_or(|&last| (last as usize) < self.bound.dim);
        if !self.has_room() || !distinct {
            return;
        }
        let Some(scaling) = self
            .bound
            .scaling(scale * self.weight, values.iter().map(|&x| x.into()))
        else {
            return;
        };
        for (&column, &x) in columns.iter().zip(values) {
            self.sum[column as usize] += scaling.round(x.into());
        }
    }

    /// Adds another partial sum over other records, within the same bound.
    ///
    /// # Errors
    /// [`LatticeError::TooManyRecords`] when the two together exceed [`MAX_RECORDS`].
    ///
    /// # Panics
    /// When the bounds differ, or the widths of blocks, or when both have taken up the same block: mistakes in the
    /// calling program that are independent of what records hold.
    pub fn merge(mut self, other: Self) -> Result<Self, LatticeError> {
        assert!(
            self.bound == other.bound && self.stated == other.stated,
            "partial sums must share one bound"
        );
        let added = self.added.saturating_add(other.added);
        if added > MAX_RECORDS {
            return Err(LatticeError::TooManyRecords {
                records: added,
                limit: MAX_RECORDS,
            });
        }
        for (sum, other) in self.sum.iter_mut().zip(&other.sum) {
            *sum += other;
        }
        self.added = added;
        self.placed = match (self.placed, other.placed) {
            (Some(placed), Some(other)) => Some(placed.merge(other)),
            (None, None) => None,
            _ => panic!("one partial sum in blocks and one that is not"),
        };
        Ok(self)
    }

    /// The bound that it states, and its integers.
    pub(crate) fn into_integers(self) -> (Bound, Zeroizing<Vec<i64>>) {
        (self.stated, Zeroizing::new(self.sum))
    }

    /// Counts one more contribution, whatever it holds; a full sum takes no more. Counting only
    /// those that are not zero would let one record decide whether another one is taken.
    fn has_room(&mut self) -> bool {
        let room = self.added < MAX_RECORDS;
        self.added += u64::from(room);
        room
    }
}

/// Upper bound on (1 + 2^-53)^(k+4), the relative error of a sum of k squares and its root.
fn norm_inflation(k: usize) -> f64 {
    1.0 + (k as f64 + 4.0) * 4.0 * f64::EPSILON
}

/// Nearest integer, ties to even, for |x| below 2^51.
#[inline]
fn nearest(x: f64) -> i64 {
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound(radius: f64, dim: usize) -> Bound {
        Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap()
    }

    /// Norm of an integer vector in steps, by exact integer squares.
    fn squared(sum: &[i64]) -> u128 {
        sum.iter().map(|&k| (k as i128 * k as i128) as u128).sum()
    }

    /// The radius in steps, squared, rounded down: exact because radius/step < 2^30 has at most
    /// 53 significant bits; multiplied by 2^60 before squaring would be overkill, so compare
    /// against the floor of the radius, which is stricter.
    fn limit(bound: &Bound) -> u128 {
        let radius = (bound.radius() / bound.step()).floor() as u128;
        radius * radius
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        for (x, k) in [
            (0.5, 0),
            (1.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (2.4, 2),
            (-2.6, -3),
        ] {
            assert_eq!(nearest(x), k);
        }
        assert_eq!(nearest(1_073_741_824.0), 1 << 30);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn no_contribution_exceeds_the_radius(
            row in prop::collection::vec(
                prop_oneof![any::<f64>(), -1.0..1.0f64, Just(0.0), Just(f64::MAX), Just(5e-324)], 1..40),
            scale in prop_oneof![any::<f64>(), -2.0..2.0f64],
            exponent in -320i32..290,
        ) {
            let radius = 10f64.powi(exponent);
            prop_assume!(radius > 0.0 && radius < 1e270);
            let bound = bound(radius * 1.2345, row.len());
            let mut sum = LatticeSum::new(bound);
            sum.add_scaled(scale, &row);
            prop_assert!(squared(&sum.sum) <= limit(&bound));
            let mut sparse = LatticeSum::new(bound);
            let columns: Vec<u32> = (0..row.len() as u32).collect();
            let values: Vec<f32> = row.iter().map(|&x| x as f32).collect();
            sparse.add_scaled_sparse(scale, &columns, &values);
            prop_assert!(squared(&sparse.sum) <= limit(&bound));
        }

        #[test]
        fn contributions_near_the_radius_stay_within_it_at_every_scale(
            mantissas in prop::collection::vec(-2.0..2.0f64, 1..12),
            row_exponent in -1074i32..1022,
            product_exponent in -880i32..880,
            stretch in 0.3..3.0f64,
        ) {
            let power = |e: i32| 2f64.powi(e / 2) * 2f64.powi(e - e / 2);
            let scale_exponent = product_exponent - row_exponent;
            prop_assume!((-1070..1023).contains(&scale_exponent));
            let row: Vec<f64> = mantissas.iter().map(|x| x * power(row_exponent)).collect();
            let length = mantissas.iter().map(|x| x * x).sum::<f64>().sqrt();
            prop_assume!(length > 0.1);
            let bound = bound(length * stretch * power(product_exponent), row.len());
            let mut sum = LatticeSum::new(bound);
            sum.add_scaled(power(scale_exponent), &row);
            prop_assert!(squared(&sum.sum) <= limit(&bound));
        }

        #[test]
        fn short_contributions_pass_to_within_half_a_step(
            row in prop::collection::vec(-1.0..1.0f64, 1..40),
        ) {
            let bound = bound(7.0, row.len());
            let mut sum = LatticeSum::new(bound);
            sum.add_scaled(1.0, &row);
            for (k, x) in sum.sum.iter().zip(&row) {
                prop_assert!((*k as f64 * bound.step() - x).abs() <= bound.step() * 0.5);
            }
        }

        #[test]
        fn order_and_grouping_do_not_matter(
            rows in prop::collection::vec(prop::collection::vec(-1e3..1e3f64, 5), 1..30),
            split in 0usize..30,
        ) {
            let bound = bound(2.0, 5);
            let add = |rows: &[Vec<f64>]| {
                let mut sum = LatticeSum::new(bound);
                for row in rows { sum.add_scaled(0.7, row); }
                sum
            };
            let whole = add(&rows);
            let split = split.min(rows.len());
            let parts = add(&rows[split..]).merge(add(&rows[..split])).unwrap();
            prop_assert_eq!(&whole.sum, &parts.sum);
        }
    }

    #[test]
    fn the_direction_survives_clipping() {
        let bound = bound(1.0, 2);
        let mut sum = LatticeSum::new(bound);
        sum.add_scaled(1.0, &[30.0, 40.0]);
        assert!((sum.sum[0] as f64 * bound.step() - 0.6).abs() < 1e-8);
        assert!((sum.sum[1] as f64 * bound.step() - 0.8).abs() < 1e-8);
    }

    #[test]
    fn one_bad_entry_removes_the_whole_contribution() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut sum = LatticeSum::new(bound(1.0, 2));
            sum.add_scaled(1.0, &[0.5, bad]);
            sum.add_scaled(bad, &[0.5, 0.5]);
            sum.add_scaled_sparse(1.0, &[0, 1], &[0.5, bad as f32]);
            sum.add_scaled_sparse(bad, &[0, 1], &[0.5, 0.5]);
            assert_eq!(sum.sum, [0, 0]);
        }
    }

    #[test]
    fn subnormal_entries_do_not_shrink_the_norm() {
        // In f64 the norm of two smallest numbers, 1.41 of them, rounds to 1 of them.
        let tiny = f64::from_bits(1);
        let bound = bound(tiny * 2f64.powi(1023), 2);
        let mut sum = LatticeSum::new(bound);
        sum.add_scaled(2f64.powi(1023), &[tiny, tiny]);
        assert!(squared(&sum.sum) <= limit(&bound));
        assert!(sum.sum[0] > 0);
    }

    #[test]
    fn a_subnormal_clipped_scale_does_not_lengthen_a_contribution() {
        for k in 0..200 {
            let bound = bound(1e-10 * (1.0 + f64::from(k) / 64.0), 1);
            let mut sum = LatticeSum::new(bound);
            sum.add_scaled(1e-303, &[1e308]);
            assert!(squared(&sum.sum) <= limit(&bound), "{k}");
            assert!(sum.sum[0] as f64 > 0.999 * (bound.radius() / bound.step()));
        }
    }

    /// Found by the property test above in an earlier version, whose clip factor was subnormal.
    #[test]
    fn a_huge_scale_on_a_tiny_row_stays_within_a_tiny_radius() {
        let bound = bound(1.2345 * 10f64.powi(-272), 1);
        let mut sum = LatticeSum::new(bound);
        sum.add_scaled(-9.497_227_014_446_637e266, &[-8.349_078_718_027_761e-219]);
        assert!(squared(&sum.sum) <= limit(&bound));
        assert!(sum.sum[0] as f64 > 0.999 * (bound.radius() / bound.step()));
    }

    #[test]
    fn products_beyond_the_range_of_numbers_are_clipped() {
        let bound = bound(1.0, 2);
        let mut sum = LatticeSum::new(bound);
        sum.add_scaled(-1e300, &[3e300, 4e300]);
        assert!((sum.sum[0] as f64 * bound.step() + 0.6).abs() < 1e-8);
    }

    #[test]
    fn the_count_of_contributions_does_not_depend_on_what_they_hold() {
        let mut good = LatticeSum::new(bound(1.0, 2));
        good.add_scaled(1.0, &[0.5, 0.5]);
        good.add_scaled_sparse(1.0, &[0], &[0.5]);
        let mut bad = LatticeSum::new(bound(1.0, 2));
        bad.add_scaled(1.0, &[f64::NAN, 0.5]);
        bad.add_scaled_sparse(1.0, &[7], &[0.5]);
        assert_eq!(good.added, bad.added);
    }

    #[test]
    fn malformed_sparse_rows_count_as_zero() {
        // A repeated column would let one record contribute twice its clipped entry.
        for columns in [[1, 1], [1, 0], [0, 2]] {
            let mut sum = LatticeSum::new(bound(1.0, 2));
            sum.add_scaled_sparse(1.0, &columns, &[0.7, 0.7]);
            assert_eq!(sum.sum, [0, 0], "{columns:?}");
        }
    }

    #[test]
    fn sensitivity_doubles_under_replace_one() {
        let bound = bound(3.0, 4);
        assert_eq!(
            bound.sensitivity_in_steps(Adjacency::ReplaceOne),
            2.0 * bound.sensitivity_in_steps(Adjacency::AddRemove)
        );
        assert_eq!(
            bound.sensitivity_in_steps(Adjacency::AddRemove) * bound.step(),
            3.0
        );
    }

    #[test]
    fn impossible_bounds_are_errors() {
        assert!(Bound::new(ClipNorm::new(1e300).unwrap(), 3).is_err());
        assert!(Bound::new(ClipNorm::new(1.0).unwrap(), 0).is_err());
        assert!(Bound::new(ClipNorm::new(1.0).unwrap(), Bound::MAX_DIM + 1).is_err());
    }
}
