//! A bound of a row, measured once, so that multiples of it can be added without reading it twice.

use super::{norm_inflation, shrunk_norm};

/// Sums of squares side by side. What a row gives depends on that row alone.
const LANES: usize = 8;

/// An upper bound on the Euclidean norm of one row, and the word that the row can be added:
/// its entries are finite and, in a sparse row, its columns increase and lie within the dimension.
///
/// Only this crate makes one, from the row itself. It takes four bytes: the upper half of a double,
/// rounded up, so it exceeds the norm by at most 2^-20 of it (and 2^-1042). A row that can't be added has the
/// bound of infinity, and counts as zero wherever it is added.
///
/// # Privacy
/// A bound that belongs to another row breaks the guarantee, so whoever stores bounds keeps each beside
/// its row, and measures again when a row changes. A bound tells as much of a record as its norm does, so it
/// is as private as the row.
#[derive(Clone, Copy)]
pub struct RowBound(u32);

impl RowBound {
    /// The upper half of the bits of infinity.
    const INFINITY: u32 = 0x7ff0_0000;

    /// The bound of a dense row.
    #[must_use]
    pub fn dense<T: Copy + Into<f64>>(row: &[T]) -> Self {
        Self::plain(row).unwrap_or_else(|| Self::of(row.iter().map(|&x| x.into())))
    }

    /// The bound of a sparse row of dimension `dim` with entries `values` at `columns`; infinite
    /// where the columns don't increase strictly, reach `dim`, or are not as many as the values.
    #[must_use]
    pub fn sparse(columns: &[u32], values: &[f32], dim: usize) -> Self {
        let fits = columns.len() == values.len()
            && columns.windows(2).all(|pair| pair[0] < pair[1])
            && columns.last().is_none_or(|&last| (last as usize) < dim);
        if !fits {
            return Self(Self::INFINITY);
        }
        Self::plain(values).unwrap_or_else(|| Self::of(values.iter().map(|&x| f64::from(x))))
    }

    /// At least the norm of the row.
    #[must_use]
    pub fn norm(self) -> f64 {
        f64::from_bits(u64::from(self.0) << 32)
    }

    /// In one read, for rows whose squares neither overflow nor vanish; none for others.
    ///
    /// A square passes through at most k/8 + 7 + (k mod 8) additions, no more than k + 4 roundings with its own and the
    /// root's, as in the sum one after the other. Squares that underflow take less than 2^-1042 from a sum of 1e-280.
    fn plain<T: Copy + Into<f64>>(row: &[T]) -> Option<Self> {
        let mut sums = [0.0f64; LANES];
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for (sum, &x) in sums.iter_mut().zip(chunk) {
                let x: f64 = x.into();
                *sum += x * x;
            }
        }
        let mut squares: f64 = sums.iter().sum();
        for &x in rest {
            let x: f64 = x.into();
            squares += x * x;
        }
        // Not for a NaN.
        (1e-280..1e280)
            .contains(&squares)
            .then(|| Self::above(squares.sqrt() * norm_inflation(row.len())))
    }

    /// The next bound above a norm: this covers one more rounding, also of a subnormal.
    fn above(norm: f64) -> Self {
        let upper = (norm.to_bits() >> 32) as u32 + 1;
        Self(upper.min(Self::INFINITY))
    }

    fn of(entries: impl ExactSizeIterator<Item = f64> + Clone) -> Self {
        let length = entries.len();
        let Some(shrunk) = shrunk_norm(entries) else {
            return Self(Self::INFINITY);
        };
        if shrunk.norm == 0.0 {
            return Self(0);
        }
        Self::above(shrunk.norm * norm_inflation(length) * shrunk.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_right_triangles_are_bounded_tightly() {
        for (a, b, c) in [(3.0, 4.0, 5.0), (20.0, 21.0, 29.0), (119.0, 120.0, 169.0)] {
            for exponent in [-1000, -500, 0, 500, 1000] {
                let unit = 2f64.powi(exponent / 2) * 2f64.powi(exponent / 2);
                let norm = RowBound::dense(&[a * unit, b * unit]).norm();
                assert!(norm > c * unit && norm <= c * unit * (1.0 + 2f64.powi(-19)));
            }
        }
    }

    #[test]
    fn the_smallest_and_largest_rows_are_bounded() {
        assert_eq!(RowBound::dense(&[0.0, -0.0]).norm(), 0.0);
        assert_eq!(RowBound::dense::<f64>(&[]).norm(), 0.0);
        let tiny = f64::from_bits(1);
        // The norm is sqrt(2) of the smallest number, which can't be stored.
        assert!(RowBound::dense(&[tiny, tiny]).norm() >= 2.0 * tiny);
        // So is the largest number and what exceeds it: too long to be added.
        for long in [f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(RowBound::dense(&[long, long]).norm(), f64::INFINITY);
        }
        assert!(RowBound::dense(&[1e308f64]).norm() >= 1e308);
        assert!(RowBound::dense(&[f32::MAX; 3]).norm().is_finite());
        assert!(RowBound::dense(&[255u8; 4]).norm() >= 510.0);
    }

    #[test]
    fn a_sparse_row_that_repeats_or_leaves_the_columns_is_not_added() {
        let good = RowBound::sparse(&[0, 2], &[3.0, 4.0], 3).norm();
        assert!((5.0..5.0 + 1e-4).contains(&good));
        for columns in [&[1u32, 1][..], &[1, 0], &[0, 3], &[0], &[0, 1, 2]] {
            assert_eq!(
                RowBound::sparse(columns, &[3.0, 4.0], 3).norm(),
                f64::INFINITY
            );
        }
    }

    proptest! {
        /// Integers below 2^20 have exact sums of squares.
        #[test]
        fn the_bound_is_above_the_norm_and_near(row in prop::collection::vec(-(1i32 << 20)..(1 << 20), 1..50)) {
            let exact: u64 = row.iter().map(|&x| (i64::from(x) * i64::from(x)) as u64).sum();
            let norm = RowBound::dense(&row).norm();
            // 21 significant bits: the square is exact.
            prop_assert!(norm * norm >= exact as f64);
            prop_assert!(norm <= (exact as f64).sqrt() * (1.0 + 2f64.powi(-19)));
        }
    }
}
