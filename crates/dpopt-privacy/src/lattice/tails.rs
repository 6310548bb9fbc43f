//! Multiples of rows with a few numbers of their own behind them, clipped as one vector.

use dpopt_lanes::{Entry, Kernel, Lanes, dispatch};

use super::rows::{self, BATCH, Clip, Dense, Multiple, SparseRow};
use super::{Bound, LatticeSum, RowBound, nearest, norm_inflation};

/// What a pass adds behind the rows: so many numbers for each, those of a row beside each other.
#[derive(Debug, Clone, Copy)]
pub struct Tails<'a> {
    /// Numbers of a row: the last coordinates of the sum.
    pub width: usize,
    /// All of them.
    pub numbers: &'a [f64],
}

impl LatticeSum {
    /// Adds clip((`scales[i]` * `rows[i]`, tail i)) for every i.
    ///
    /// # Formula
    /// With N the norm of `bounds[i]`, both parts are multiplied by min(1, clip/hypot(c N, norm of the tail)), c = |`scales[i]`|, and
    /// rounded to the nearest step.
    ///
    /// # Privacy
    /// As for [`LatticeSum::add_rows`]: row and tail are **one** contribution, of norm at most the radius. It is zero as a whole, and
    /// counts all the same, where a part of it is not finite, where its norm is beyond all doubles, and where scale and norm are so far
    /// apart that their product has lost digits.
    ///
    /// # Shapes
    /// `rows`: slices of d - width entries; `scales` and `bounds`: one per row.
    ///
    /// # Panics
    /// When the lengths don't fit, which does not depend on what rows hold.
    pub fn add_rows_with_tails<T: Entry>(
        &mut self,
        rows: &[&[T]],
        scales: &[f64],
        bounds: &[RowBound],
        tails: Tails<'_>,
        mut meanwhile: impl FnMut(),
    ) {
        let head = self.head_of(rows.len(), scales, bounds, tails);
        let room = self.take_room(rows.len());
        let mut batch: ([&[T]; BATCH], [f64; BATCH]) = ([&[]; BATCH], [0.0; BATCH]);
        let mut live = 0;
        for (i, (&row, &bound)) in rows[..room].iter().zip(bounds).enumerate() {
            let tail = &tails.numbers[i * tails.width..][..tails.width];
            let Some(cut) = Cut::new(
                &self.bound,
                scales[i] * self.weight,
                bound,
                tail,
                self.weight,
            ) else {
                continue;
            };
            if row.len() != head {
                continue;
            }
            let (of_rows, of_tails) = self.sum.split_at_mut(head);
            cut.add_tail(tail, of_tails);
            (batch.0[live], batch.1[live]) = (row, cut.steps);
            live += 1;
            if live == BATCH {
                let (rows, steps) = (&batch.0[..], &batch.1[..]);
                dispatch(Dense {
                    sum: of_rows,
                    rows,
                    steps,
                    meanwhile: &mut meanwhile,
                });
                live = 0;
            }
        }
        dispatch(Dense {
            sum: &mut self.sum[..head],
            rows: &batch.0[..live],
            steps: &batch.1[..live],
            meanwhile: &mut meanwhile,
        });
    }

    /// As [`LatticeSum::add_rows_with_tails`] for sparse rows, whose columns are below d - width.
    ///
    /// # Panics
    /// As there.
    pub fn add_sparse_rows_with_tails(
        &mut self,
        rows: &[SparseRow<'_>],
        scales: &[f64],
        bounds: &[RowBound],
        tails: Tails<'_>,
    ) {
        let head = self.head_of(rows.len(), scales, bounds, tails);
        let room = self.take_room(rows.len());
        let mut batch: ([SparseRow<'_>; BATCH], [f64; BATCH]) = ([(&[], &[]); BATCH], [0.0; BATCH]);
        let mut live = 0;
        for (i, (&row, &bound)) in rows[..room].iter().zip(bounds).enumerate() {
            let tail = &tails.numbers[i * tails.width..][..tails.width];
            let Some(cut) = Cut::new(
                &self.bound,
                scales[i] * self.weight,
                bound,
                tail,
                self.weight,
            ) else {
                continue;
            };
            // Its columns were measured to increase.
            if row.0.last().is_some_and(|&last| last as usize >= head) {
                continue;
            }
            let (of_rows, of_tails) = self.sum.split_at_mut(head);
            cut.add_tail(tail, of_tails);
            (batch.0[live], batch.1[live]) = (row, cut.steps);
            live += 1;
            if live == BATCH {
                dispatch(Sparse {
                    sum: of_rows,
                    rows: &batch.0,
                    steps: &batch.1,
                });
                live = 0;
            }
        }
        dispatch(Sparse {
            sum: &mut self.sum[..head],
            rows: &batch.0[..live],
            steps: &batch.1[..live],
        });
    }

    fn head_of(&self, rows: usize, scales: &[f64], bounds: &[RowBound], tails: Tails<'_>) -> usize {
        let fits = scales.len() == rows && bounds.len() == rows && tails.width < self.bound.dim;
        assert!(
            fits && tails.numbers.len() == rows * tails.width,
            "one scale, one bound and one tail per row"
        );
        self.bound.dim - tails.width
    }
}

/// Adds multiples of sparse rows, in lattice steps.
struct Sparse<'a, 'r> {
    sum: &'a mut [i64],
    rows: &'a [SparseRow<'r>],
    steps: &'a [f64],
}

impl Kernel for Sparse<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for (&(columns, values), &steps) in self.rows.iter().zip(self.steps) {
            for (&column, &x) in columns.iter().zip(values) {
                let k = rows::nearest(lanes, f64::from(x), steps);
                if let Some(sum) = self.sum.get_mut(column as usize) {
                    *sum = sum.wrapping_add(k);
                }
            }
        }
    }
}

/// How a contribution in two parts is cut.
struct Cut {
    /// The multiple of the row, in lattice steps.
    steps: f64,
    /// The multiple of the tail, in lattice steps.
    tail: f64,
}

impl Cut {
    /// None: it adds zero.
    #[inline]
    fn new(bound: &Bound, scale: f64, row: RowBound, tail: &[f64], weight: f64) -> Option<Self> {
        let head = scale.abs() * row.norm();
        // 0 times an infinite bound is no number.
        if !head.is_finite() {
            return None;
        }
        let total = length(tail) * weight.abs();
        let (clip, total) = (bound.clip, joined(head, total));
        if !total.is_finite() {
            return None;
        }
        let factor = if total > clip {
            clip / total * (1.0 - 4.0 * f64::EPSILON)
        } else {
            1.0
        };
        // A factor that is almost subnormal has lost digits.
        if factor < f64::from_bits(23 << 52) {
            return None;
        }
        let limits = Clip::new(bound);
        let kept = scale * factor;
        let steps = if scale != 0.0 && kept.abs() < f64::MIN_POSITIVE {
            // Too few digits to multiply anything with. No entry of such a row reaches half a step, or the whole adds zero.
            if head * factor >= bound.step / 1000.0 {
                return None;
            }
            0.0
        } else {
            match limits.multiple(kept, row) {
                Multiple::Steps(steps) => steps,
                // A row of zeros, or a slope of zero.
                Multiple::Zero => 0.0,
                Multiple::Extreme => return None,
            }
        };
        let tail = factor * weight / bound.step;
        tail.is_finite().then_some(Self { steps, tail })
    }

    #[inline]
    fn add_tail(&self, tail: &[f64], sum: &mut [i64]) {
        for (sum, x) in sum.iter_mut().zip(tail) {
            *sum = sum.wrapping_add(nearest(x * self.tail));
        }
    }
}

/// At least the norm.
#[inline]
fn length(tail: &[f64]) -> f64 {
    let squares: f64 = tail.iter().map(|x| x * x).sum();
    let norm = if (1e-280..1e280).contains(&squares) {
        squares.sqrt()
    } else {
        tail.iter().fold(0.0, |sum: f64, x| {
            // Not `hypot`, which takes infinity with a NaN for infinity.
            if x.is_nan() { x.abs() } else { sum.hypot(*x) }
        })
    };
    norm * norm_inflation(tail.len())
}

/// At least hypot(a, b).
#[inline]
fn joined(a: f64, b: f64) -> f64 {
    let squares = a * a + b * b;
    let norm = if (1e-280..1e280).contains(&squares) {
        squares.sqrt()
    } else {
        a.hypot(b)
    };
    norm * norm_inflation(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ClipNorm;

    const DIM: usize = 7;

    fn sum(radius: f64) -> LatticeSum {
        LatticeSum::new(Bound::new(ClipNorm::new(radius).unwrap(), DIM).unwrap())
    }

    /// What one record adds, in units, by both ways, which have to agree.
    fn added(radius: f64, scale: f64, row: &[f32], tail: &[f64]) -> Vec<f64> {
        let columns: Vec<u32> = (0..row.len() as u32).collect();
        let head = DIM - tail.len();
        let mut dense = sum(radius);
        let tails = Tails {
            width: tail.len(),
            numbers: tail,
        };
        dense.add_rows_with_tails(&[row], &[scale], &[RowBound::dense(row)], tails, || {});
        let mut sparse = sum(radius);
        let bound = RowBound::sparse(&columns, row, head);
        sparse.add_sparse_rows_with_tails(&[(&columns, row)], &[scale], &[bound], tails);
        assert_eq!(
            (dense.added, sparse.added),
            (1, 1),
            "it counts whatever it holds"
        );
        assert_eq!(dense.sum, sparse.sum);
        let step = dense.bound.step();
        let norm = dense.sum.iter().map(|&k| (k as f64).powi(2)).sum::<f64>();
        assert!(
            norm.sqrt() * step <= radius,
            "{} above {radius}",
            norm.sqrt() * step
        );
        dense.sum.iter().map(|&k| k as f64 * step).collect()
    }

    #[test]
    fn short_contributions_are_added_as_they_are() {
        let found = added(100.0, -2.0, &[1.0, 0.0, 3.0, 0.5], &[4.0, -8.0, 0.25]);
        assert_eq!(found, [-2.0, -0.0, -6.0, -1.0, 4.0, -8.0, 0.25]);
    }

    /// Long in the row, in the tail, in both: both parts shrink alike, to the radius and not below it.
    #[test]
    fn long_contributions_keep_their_direction() {
        let row = [3.0f32, 0.0, 4.0, 0.0];
        for (scale, tail) in [
            (1e6, [0.0, 1.0, 0.0]),
            (1e-3, [1e9, 0.0, -1e9]),
            (1e6, [1e6, 1e6, -1e6]),
            (-1e100, [1e100, 0.0, 0.0]),
            (1e200, [0.0, 1e200, 0.0]),
        ] {
            let found = added(2.0, scale, &row, &tail);
            let exact: Vec<f64> = row
                .iter()
                .map(|&x| scale * f64::from(x))
                .chain(tail)
                .collect();
            let norm = exact.iter().fold(0.0f64, |sum, x| sum.hypot(*x));
            for (found, exact) in found.iter().zip(&exact) {
                // The bound on the row exceeds its norm by up to 2^-20 of it.
                assert!((found - 2.0 * exact / norm).abs() < 1e-5, "{found} {exact}");
            }
        }
    }

    #[test]
    fn what_is_no_number_adds_zero_as_a_whole() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let row = [1.0f32, 2.0, 0.0, 0.0];
        for (scale, tail) in [
            (nan, [1.0, 0.0, 0.0]),
            (inf, [1.0, 0.0, 0.0]),
            (1.0, [0.0, nan, 0.0]),
            (1.0, [inf, nan, 1.0]),
            (1.0, [-inf, 0.0, 0.0]),
            (1.0, [f64::MAX, f64::MAX, f64::MAX]),
        ] {
            assert_eq!(
                added(2.0, scale, &row, &tail),
                [0.0; DIM],
                "{scale} {tail:?}"
            );
        }
        for entry in [f32::NAN, f32::INFINITY] {
            assert_eq!(
                added(2.0, 1.0, &[entry, 1.0, 0.0, 0.0], &[1.0, 1.0, 1.0]),
                [0.0; DIM]
            );
            assert_eq!(
                added(2.0, 0.0, &[entry, 1.0, 0.0, 0.0], &[1.0, 1.0, 1.0]),
                [0.0; DIM]
            );
        }
    }

    /// A multiple without digits to round: the row is left out where it would not be seen, and the whole where it would.
    #[test]
    fn subnormal_multiples_do_not_lengthen() {
        let added = |radius: f64, scale: f64, entry: f64, number: f64| {
            let row = [entry, 0.0, 0.0, 0.0];
            let numbers = [number, 0.0, 0.0];
            let mut sum = sum(radius);
            let bounds = [RowBound::dense(&row)];
            let tails = Tails {
                width: 3,
                numbers: &numbers,
            };
            sum.add_rows_with_tails(&[&row[..]], &[scale], &bounds, tails, || {});
            assert_eq!(sum.added, 1);
            let step = sum.bound.step();
            [sum.sum[0] as f64 * step, sum.sum[4] as f64 * step]
        };
        // By exact products the clipped pair is (1.8e-16, 3.2e-16); a multiple of the least double would be (3.7e-16, 3.2e-16).
        let found = added(3.70e-16, 1.86e-321, 7.44e307, 2.4e-13);
        assert_eq!(found, [0.0, 0.0]);
        let least = f64::from_bits(1);
        for radius in [1e-16, 3.7e-16, 1e-12, 0.3] {
            for scale in (1..600).map(|k| least * f64::from(k)) {
                for (entry, number) in [(7.44e307, 2.4e-13), (1e308, 1e-15), (3e300, 1.0)] {
                    let [x, y] = added(radius, scale, entry, number);
                    assert!(x.hypot(y) <= radius, "{radius} {scale} {entry} {number}");
                }
            }
        }
        // Where the row is nothing beside a step its tail still counts.
        let [x, y] = added(1.0, 1e-320, 1.0, 4.0);
        assert!(x == 0.0 && (y - 1.0).abs() < 1e-5, "{x} {y}");
    }

    /// Squares that underflow, and radii at the end of the range.
    #[test]
    fn tiny_contributions_are_clipped_too() {
        for radius in [1e-260, 1e-170, 1e-100, 1e100] {
            for size in [1e-240, 1e-160, 1e-90, 1.0, 1e120] {
                added(radius, 1.0, &[0.0; 4], &[size, size, -size]);
                added(radius, size, &[1.0, 2.0, 0.0, 0.0], &[0.0, size, 0.0]);
            }
        }
    }

    /// A row without entries leaves its tail; many rows at once are those one by one.
    #[test]
    fn batches_are_sums_of_single_rows() {
        let rows: Vec<Vec<f32>> = (0..150)
            .map(|i| {
                (0..4)
                    .map(|j| ((i * 7 + j * 3) % 11) as f32 - 5.0)
                    .collect()
            })
            .collect();
        let views: Vec<&[f32]> = rows.iter().map(|row| &row[..]).collect();
        let scales: Vec<f64> = (0..150).map(|i| (i % 13) as f64 - 6.0).collect();
        let numbers: Vec<f64> = (0..450).map(|i| (i % 17) as f64 - 8.0).collect();
        let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
        let mut all = sum(20.0);
        let tails = Tails {
            width: 3,
            numbers: &numbers,
        };
        all.add_rows_with_tails(&views, &scales, &bounds, tails, || {});
        let mut single = vec![0.0; DIM];
        for i in 0..150 {
            let found = added(20.0, scales[i], &rows[i], &numbers[3 * i..3 * i + 3]);
            single.iter_mut().zip(found).for_each(|(sum, x)| *sum += x);
        }
        let step = all.bound.step();
        let all: Vec<f64> = all.sum.iter().map(|&k| k as f64 * step).collect();
        assert_eq!(all, single);
    }
}
