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
        let (mut scale, mut norm) = ([0.0; N], [0.0; N]);
        for i in 0..N {
            (scale[i], norm[i]) = (scales[i] * weight, bounds[i].norm());
        }
        let (mut steps, mut tails) = ([0.0; N], [0.0; N]);
        for i in 0..N {
            let head = scale[i].abs() * norm[i];
            let squares = squares[i] + head * head;
            let total = squares.sqrt() * inflation;
            let cut = (clip / total) * (1.0 - 4.0 * f64::EPSILON);
            let factor = if total > clip { cut } else { 1.0 };
            let (kept, of_tail) = (scale[i] * factor, weight * factor);
            let (row, tail) = (kept * per_step, of_tail * per_step);
            // Written so that what is no number is not plain; nor is what is short, as a row of zeros without a tail. And without branches.
            let (seen, inside) = (squares >= 1e-280, squares < 1e280);
            let digits = (kept.abs() >= f64::MIN_POSITIVE) | (scale[i] == 0.0);
            let digits = digits & (of_tail.abs() >= f64::MIN_POSITIVE) & (factor >= SMALLEST);
            let finite = (row.abs() < f64::INFINITY) & (tail.abs() < f64::INFINITY);
            steps[i] = if seen & inside & digits & finite {
                row
            } else {
                f64::NAN
            };
            tails[i] = tail;
        }
        let mut all = true;
        for x in steps {
            all &= !x.is_nan();
        }
        self.cuts.steps[start..][..N].copy_from_slice(&steps);
        self.cuts.tails[start..][..N].copy_from_slice(&tails);
        all
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
mod tests;
