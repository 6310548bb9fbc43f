//! Multiples of rows with a few numbers of their own behind them, clipped as one vector.

use dpopt_lanes::{Entry, Kernel, LANES, Lanes, dispatch};

use super::rows::{self, Clip, Dense, Multiple, SMALLEST, SparseRow};
use super::{Bound, LatticeSum, RowBound, norm_inflation};

/// Rows that are looked at before the first of them is added.
const BATCH: usize = 32;

/// What a pass adds behind the rows: so many numbers for each, the first of all rows beside each other, then the second of all, and so on.
#[derive(Debug, Clone, Copy)]
pub struct Tails<'a> {
    /// Numbers of a row: the last coordinates of the sum.
    pub width: usize,
    /// All of them: number j of row i of n is `numbers[j * n + i]`.
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
        let fits = |row: &&[T]| row.len() == head;
        self.add_cut(rows, fits, (scales, bounds, tails), |sum, rows, steps| {
            dispatch(Dense {
                sum,
                rows,
                steps,
                meanwhile: &mut meanwhile,
            });
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
        // Its columns were measured to increase.
        let fits = |row: &SparseRow<'_>| row.0.last().is_none_or(|&last| (last as usize) < head);
        self.add_cut(rows, fits, (scales, bounds, tails), |sum, rows, steps| {
            dispatch(Sparse { sum, rows, steps });
        });
    }

    /// Cuts rows and tails a batch at a time, and adds the tails; `add` adds multiples of rows to the coordinates before them.
    fn add_cut<R: Copy>(
        &mut self,
        rows: &[R],
        fits: impl Fn(&R) -> bool,
        (scales, bounds, tails): (&[f64], &[RowBound], Tails<'_>),
        mut add: impl FnMut(&mut [i64], &[R], &[f64]),
    ) {
        let head = self.bound.dim - tails.width;
        let room = self.take_room(rows.len());
        for start in (0..room).step_by(BATCH) {
            let batch = start..room.min(start + BATCH);
            let size = batch.len();
            let mut cuts = Cuts {
                steps: [0.0; BATCH],
                tails: [0.0; BATCH],
            };
            let columns = Columns {
                of: tails,
                rows: rows.len(),
                start,
            };
            let all_plain = dispatch(Cutting {
                bound: &self.bound,
                weight: self.weight,
                scales: &scales[batch.clone()],
                bounds: &bounds[batch.clone()],
                columns,
                cuts: &mut cuts,
            });
            let rows = &rows[batch.clone()];
            let (of_rows, of_tails) = self.sum.split_at_mut(head);
            if all_plain && rows.iter().all(&fits) {
                let (steps, factors) = (&cuts.steps[..size], &cuts.tails[..size]);
                dispatch(AddTails {
                    sum: of_tails,
                    columns,
                    factors,
                });
                add(of_rows, rows, steps);
                continue;
            }
            let (mut kept, mut live) = ([rows[0]; BATCH], 0);
            for (i, row) in rows.iter().enumerate() {
                let at = start + i;
                if cuts.steps[i].is_nan() {
                    let numbers = (0..tails.width).map(|j| columns.column(j)[i]);
                    let scale = scales[at] * self.weight;
                    let found = Cut::new(&self.bound, scale, bounds[at], numbers, self.weight);
                    let Some(cut) = found else {
                        continue;
                    };
                    (cuts.steps[i], cuts.tails[i]) = (cut.steps, cut.tail);
                }
                if fits(row) {
                    dispatch(AddTails {
                        sum: of_tails,
                        columns: Columns {
                            start: at,
                            ..columns
                        },
                        factors: &cuts.tails[i..=i],
                    });
                    // No later than its own place.
                    (kept[live], cuts.steps[live]) = (*row, cuts.steps[i]);
                    live += 1;
                }
            }
            add(of_rows, &kept[..live], &cuts.steps[..live]);
        }
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

/// The tails of some of the rows: from one of them on.
#[derive(Clone, Copy)]
struct Columns<'a> {
    of: Tails<'a>,
    rows: usize,
    start: usize,
}

impl<'a> Columns<'a> {
    /// Number j of each row.
    #[inline(always)]
    fn column(&self, j: usize) -> &'a [f64] {
        &self.of.numbers[j * self.rows..][self.start..self.rows]
    }
}

/// How the rows of a batch are cut.
struct Cuts {
    /// The multiples of rows, in lattice steps; no number for those that are cut one by one.
    steps: [f64; BATCH],
    /// Those of tails.
    tails: [f64; BATCH],
}

/// [`Cut::new`] for the rows of a batch, with one root for each; true where that is right for all of them.
struct Cutting<'a> {
    bound: &'a Bound,
    weight: f64,
    scales: &'a [f64],
    bounds: &'a [RowBound],
    columns: Columns<'a>,
    cuts: &'a mut Cuts,
}

impl Kernel for Cutting<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<L: Lanes>(mut self, _: L) -> bool {
        let count = self.scales.len().min(self.bounds.len()).min(BATCH);
        let whole = count / LANES * LANES;
        let mut all = true;
        for start in (0..whole).step_by(LANES) {
            all &= self.part::<LANES>(start);
        }
        for start in whole..count {
            all &= self.part::<1>(start);
        }
        all
    }
}

impl Cutting<'_> {
    /// N rows from `start` on.
    #[inline(always)]
    fn part<const N: usize>(&mut self, start: usize) -> bool {
        let (clip, per_step, weight) = (self.bound.clip, 1.0 / self.bound.step, self.weight);
        let inflation = norm_inflation(self.columns.of.width + 1);
        let mut squares = [0.0; N];
        for j in 0..self.columns.of.width {
            let column = &self.columns.column(j)[start..][..N];
            for i in 0..N {
                // The weight first: a square of what it makes long or short may be out of range.
                let x = column[i] * weight;
                squares[i] += x * x;
            }
        }
        let (scales, bounds) = (&self.scales[start..][..N], &self.bounds[start..][..N]);
        let steps = &mut self.cuts.steps[start..][..N];
        let tails = &mut self.cuts.tails[start..][..N];
        let mut all = 1;
        for i in 0..N {
            let scale = scales[i] * weight;
            let head = scale.abs() * bounds[i].norm();
            let squares = squares[i] + head * head;
            let total = squares.sqrt() * inflation;
            let cut = (clip / total) * (1.0 - 4.0 * f64::EPSILON);
            let factor = if total > clip { cut } else { 1.0 };
            let (kept, of_tail) = (scale * factor, weight * factor);
            let (row, tail) = (kept * per_step, of_tail * per_step);
            // Written so that what is no number is not plain; nor is what is short, as a row of zeros without a tail.
            let inside = u64::from(squares >= 1e-280) & u64::from(squares < 1e280);
            let digits = u64::from(kept.abs() >= f64::MIN_POSITIVE) | u64::from(scale == 0.0);
            let digits = digits & u64::from(of_tail.abs() >= f64::MIN_POSITIVE);
            let finite =
                u64::from(row.abs() < f64::INFINITY) & u64::from(tail.abs() < f64::INFINITY);
            let plain = inside & u64::from(factor >= SMALLEST) & digits & finite;
            steps[i] = if plain == 1 { row } else { f64::NAN };
            tails[i] = tail;
            all &= plain;
        }
        all == 1
    }
}

/// Adds multiples of tails, in lattice steps.
struct AddTails<'a> {
    sum: &'a mut [i64],
    columns: Columns<'a>,
    factors: &'a [f64],
}

impl Kernel for AddTails<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for (j, sum) in self.sum.iter_mut().enumerate() {
            let column = &self.columns.column(j)[..self.factors.len()];
            let mut total = 0i64;
            for (x, factor) in column.iter().zip(self.factors) {
                total = total.wrapping_add(rows::nearest(lanes, *x, *factor));
            }
            *sum = sum.wrapping_add(total);
        }
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
    #[cold]
    fn new(
        bound: &Bound,
        scale: f64,
        row: RowBound,
        tail: impl ExactSizeIterator<Item = f64> + Clone,
        weight: f64,
    ) -> Option<Self> {
        let head = scale.abs() * row.norm();
        // 0 times an infinite bound is no number.
        if !head.is_finite() {
            return None;
        }
        // Of the weighted numbers: the smallest numbers have too few digits for a length of their own.
        let total = length(tail.map(move |x| x * weight));
        let (clip, total) = (bound.clip, joined(head, total));
        if !total.is_finite() {
            return None;
        }
        let factor = if total > clip {
            clip / total * (1.0 - 4.0 * f64::EPSILON)
        } else {
            1.0
        };
        // A factor that is almost subnormal has lost digits, and so has one times such a weight.
        if factor < SMALLEST || (factor * weight).abs() < f64::MIN_POSITIVE {
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
}

/// At least the norm.
fn length(tail: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = tail.len();
    let squares: f64 = tail.clone().map(|x| x * x).sum();
    let norm = if (1e-280..1e280).contains(&squares) {
        squares.sqrt()
    } else {
        tail.fold(0.0, |sum: f64, x| {
            // Not `hypot`, which takes infinity with a NaN for infinity.
            if x.is_nan() { x.abs() } else { sum.hypot(x) }
        })
    };
    norm * norm_inflation(count)
}

/// At least hypot(a, b).
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
            let tail = [numbers[i], numbers[150 + i], numbers[300 + i]];
            let found = added(20.0, scales[i], &rows[i], &tail);
            single.iter_mut().zip(found).for_each(|(sum, x)| *sum += x);
        }
        let step = all.bound.step();
        let all: Vec<f64> = all.sum.iter().map(|&k| k as f64 * step).collect();
        assert_eq!(all, single);
    }

    /// Rows of every length beside each other: each adds what it adds alone, in any order and split in two, and none is longer than the radius.
    #[test]
    fn odd_rows_leave_the_others_as_they_are() {
        let least = f64::from_bits(1);
        let scales = [
            1.0,
            1e-300,
            least,
            0.0,
            -3e5,
            f64::NAN,
            1e200,
            1e-170,
            -0.25,
            f64::INFINITY,
        ];
        let numbers = [0.5, 1e9, 1e-200, 0.0, f64::NAN, -1e170, 1e308, 3.0];
        let count = scales.len() * numbers.len();
        let rows: Vec<[f32; 5]> = (0..count)
            .map(|i| match i % 7 {
                3 => [0.0; 5],
                5 => [f32::MAX, 0.0, 1e-40, 0.0, 1.0],
                k => [k as f32, -1.0, 0.5, 0.0, 2.0],
            })
            .collect();
        for (radius, weight) in [
            (2.0, 1.0),
            (2.0, 1e-300),
            (2.0, 1e-310),
            (2.0, 1e100),
            (5e-224, 1e100),
            (1e200, 1e-3),
        ] {
            keeps_odd_rows_apart(&scales, &numbers, &rows, (radius, weight));
        }
    }

    /// No record adds more than the radius allows, and all of them add what each adds alone. Every 11th row is too short, and adds nothing.
    fn keeps_odd_rows_apart(
        scales: &[f64],
        numbers: &[f64],
        rows: &[[f32; 5]],
        (radius, weight): (f64, f64),
    ) {
        let count = rows.len();
        let bound = Bound::new(ClipNorm::new(radius).unwrap(), DIM).unwrap();
        let of = |order: &[usize]| {
            let mut sum = LatticeSum::weighted(bound, weight, radius);
            let length = |i: usize| if i % 11 == 10 { 4 } else { 5 };
            let views: Vec<&[f32]> = order.iter().map(|&i| &rows[i][..length(i)]).collect();
            let factors: Vec<f64> = order.iter().map(|&i| scales[i % scales.len()]).collect();
            let bounds: Vec<RowBound> = views.iter().map(|row| RowBound::dense(row)).collect();
            let own = |i: usize| numbers[i / scales.len()];
            let second = order.iter().map(|&i| 1e-3 * own(i));
            let tails: Vec<f64> = order.iter().map(|&i| own(i)).chain(second).collect();
            let tails = Tails {
                width: 2,
                numbers: &tails,
            };
            sum.add_rows_with_tails(&views, &factors, &bounds, tails, || {});
            sum.sum
        };
        let mut total = vec![0; DIM];
        for i in 0..count {
            let one = of(&[i]);
            let norm = one.iter().map(|&k| (k as f64).powi(2)).sum::<f64>().sqrt();
            let most = radius / bound.step();
            assert!(norm <= most, "{i}: {norm} {most}, {radius} {weight}");
            if i % 11 == 10 {
                assert_eq!(norm, 0.0);
                continue;
            }
            // A small multiple of the row does not hide a long tail from the clip.
            let (scale, number) = (scales[i % scales.len()], numbers[i / scales.len()]);
            let plain = weight == 1.0 && radius == 2.0;
            if plain && scale.abs() <= 1e-300 && number == 1e9 && i % 7 != 5 {
                assert!(norm > 0.9999 * most, "{i}: {norm} {most}");
            }
            total.iter_mut().zip(one).for_each(|(sum, k)| *sum += k);
        }
        let order: Vec<usize> = (0..count).collect();
        let backwards: Vec<usize> = (0..count).rev().collect();
        let mixed: Vec<usize> = (0..count).map(|i| i * 37 % count).collect();
        for order in [order, backwards, mixed] {
            assert_eq!(of(&order), total);
            let (first, second) = order.split_at(29);
            let parts = of(first).into_iter().zip(of(second));
            assert!(parts.zip(&total).all(|((a, b), sum)| a + b == *sum));
        }
    }

    /// Weights of a sum act before the clip, on the tail too: the long one of a small weight, and the short one of a large.
    #[test]
    fn weights_act_on_both_parts() {
        for (weight, number) in [
            (1e-200, 1e200),
            (1e200, 1e-200),
            (0.5, 2.0),
            (1e-310, 1e308),
        ] {
            let bound = Bound::new(ClipNorm::new(0.75).unwrap(), DIM).unwrap();
            let mut sum = LatticeSum::weighted(bound, weight, 0.75);
            let row = [1.0f32, 0.0, 0.0, 0.0, 0.0, 0.0];
            let tails = Tails {
                width: 1,
                numbers: &[number],
            };
            sum.add_rows_with_tails(&[&row[..]], &[0.0], &[RowBound::dense(&row)], tails, || {});
            let found = sum.sum[6] as f64 * bound.step();
            assert!(found <= 0.75, "{weight}: {found}");
            if weight > 1e-300 {
                assert!(found > 0.7499, "{weight}: {found}");
            }
        }
    }
}
