//! Adding outer products of a few numbers with a row, the row once for each number: the gradients of linear scores of classes.
//!
//! What is added is what [`LatticeSum::add_row_products`] adds, at transposed coordinates: here those of one number lie beside each
//! other, so that dense rows go onto the lattice as those of [`LatticeSum::add_rows`] do.

use dpopt_lanes::{Entry, Kernel, LANES, Lanes, dispatch};

use super::products::check;
use super::rows::{BATCH, Clip, Dense, GROUP, Multiple, SparseRow, nearest};
use super::{LatticeSum, RowBound};

/// Bytes of rows that stay in the innermost cache beside the sum of a number. Tuned.
const CACHED: usize = 24 << 10;

impl LatticeSum {
    /// Adds clip(`multiples[i]` x `rows[i]`) for every i: coordinate j p + c of the outer product is multiple j of k = `units` times
    /// entry c of the p of the row.
    ///
    /// # Formula
    /// # Privacy
    /// Those of [`LatticeSum::add_row_products`].
    ///
    /// # Shapes
    /// `rows`: slices of p = d/k entries; `multiples`: (rows, k); `bounds`: one per row.
    ///
    /// # Panics
    /// As [`LatticeSum::add_row_products`].
    pub fn add_stacked_rows<T: Entry>(
        &mut self,
        rows: &[&[T]],
        multiples: &[f64],
        units: usize,
        bounds: &[RowBound],
    ) {
        check(rows.len(), multiples, units, bounds);
        let room = self.take_room(rows.len());
        let (dim, clip) = (self.bound.dim, Clip::new(&self.bound));
        let mut spread = vec![0.0; units];
        let mut singles = Vec::new();
        // Those of one multiple beside each other.
        let mut steps = vec![[0.0; BATCH]; units];
        let batches = rows[..room]
            .chunks(BATCH)
            .zip(multiples.chunks(BATCH * units))
            .zip(bounds.chunks(BATCH));
        for ((rows, multiples), bounds) in batches {
            let mut live: [&[T]; BATCH] = [&[]; BATCH];
            let mut count = 0;
            let all = multiples.chunks_exact(units).zip(bounds);
            for (&row, (multiples, &bound)) in rows.iter().zip(all) {
                if row.len().checked_mul(units) != Some(dim) {
                    continue;
                }
                match clip.spread(self.weight, multiples, bound, &mut spread) {
                    Multiple::Zero => {}
                    Multiple::Steps(_) => {
                        live[count] = row;
                        for (steps, s) in steps.iter_mut().zip(&spread) {
                            steps[count] = *s;
                        }
                        count += 1;
                    }
                    Multiple::Extreme => {
                        let columns = row.len();
                        self.add_extreme_product(row, multiples, |c, j| j * columns + c);
                    }
                }
            }
            let columns = (dim / units).max(1);
            // Bytes take three steps to a double, which each number would repeat.
            if size_of::<T>() == 1 {
                singles.resize(count * columns, 0.0);
                for (row, singles) in live.iter().zip(singles.chunks_exact_mut(columns)) {
                    dispatch(ToSingles(row, singles));
                }
                let mut rows: [&[f32]; BATCH] = [&[]; BATCH];
                for (row, entries) in rows.iter_mut().zip(singles.chunks_exact(columns)) {
                    *row = entries;
                }
                add_steps(&mut self.sum, &rows[..count], &steps, columns);
            } else {
                add_steps(&mut self.sum, &live[..count], &steps, columns);
            }
        }
    }

    /// The same for sparse rows, in time proportional to their entries. It adds what [`LatticeSum::add_stacked_rows`] adds for the
    /// rows with their zeros.
    ///
    /// # Privacy
    /// As for [`LatticeSum::add_row_products`]. The bound vouches for the columns too.
    ///
    /// # Panics
    /// As [`LatticeSum::add_row_products`].
    pub fn add_sparse_stacked_rows(
        &mut self,
        rows: &[SparseRow<'_>],
        multiples: &[f64],
        units: usize,
        bounds: &[RowBound],
    ) {
        check(rows.len(), multiples, units, bounds);
        let room = self.take_room(rows.len());
        dispatch(Sparse {
            clip: Clip::new(&self.bound),
            sum: self,
            rows: &rows[..room],
            multiples,
            units,
            bounds,
        });
    }
}

/// Entries that single precision has, in it.
struct ToSingles<'a, T>(&'a [T], &'a mut [f32]);

impl<T: Entry> Kernel for ToSingles<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        let (to, last) = self.1.as_chunks_mut::<LANES>();
        for (chunk, to) in chunks.iter().zip(to) {
            *to = lanes.to_doubles(T::load(lanes, chunk)).map(|x| x as f32);
        }
        for (&x, to) in rest.iter().zip(last) {
            *to = x.into() as f32;
        }
    }
}

/// Adds each of the `steps` of some rows to the coordinates of its number.
fn add_steps<T: Entry>(sum: &mut [i64], rows: &[&[T]], steps: &[[f64; BATCH]], columns: usize) {
    // So many that they stay in the innermost cache for all numbers.
    let fit = CACHED / (columns * size_of::<T>());
    let group = (fit / GROUP * GROUP).clamp(GROUP, BATCH);
    for (k, rows) in rows.chunks(group).enumerate() {
        for (steps, sum) in steps.iter().zip(sum.chunks_exact_mut(columns)) {
            dispatch(Dense {
                sum,
                rows,
                steps: &steps[k * group..][..rows.len()],
                meanwhile: &mut || {},
            });
        }
    }
}

struct Sparse<'a, 'r> {
    clip: Clip,
    sum: &'a mut LatticeSum,
    rows: &'a [SparseRow<'r>],
    multiples: &'a [f64],
    units: usize,
    bounds: &'a [RowBound],
}

impl Kernel for Sparse<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (units, dim) = (self.units, self.sum.bound.dim);
        if !dim.is_multiple_of(units) {
            return;
        }
        let p = dim / units;
        let mut steps = vec![0.0; units];
        let all = self.multiples.chunks_exact(units).zip(self.bounds);
        for (&(columns, values), (multiples, &bound)) in self.rows.iter().zip(all) {
            match self
                .clip
                .spread(self.sum.weight, multiples, bound, &mut steps)
            {
                Multiple::Zero => {}
                Multiple::Steps(_) => {
                    for (steps, cells) in steps.iter().zip(self.sum.sum.chunks_exact_mut(p)) {
                        for (&column, &x) in columns.iter().zip(values) {
                            if let Some(cell) = cells.get_mut(column as usize) {
                                *cell = cell.wrapping_add(nearest(lanes, f64::from(x), *steps));
                            }
                        }
                    }
                }
                Multiple::Extreme => {
                    // A column beyond the row has no cell.
                    let cell = |c: usize, j: usize| if c < p { j * p + c } else { dim };
                    self.sum
                        .add_extreme_product((columns, values), multiples, cell);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Bound;
    use super::*;
    use crate::units::ClipNorm;

    /// What is added at coordinate c k + j of the other layout is here at j p + c.
    fn transposed(sum: &[i64], units: usize) -> Vec<i64> {
        (0..units)
            .flat_map(|j| sum.iter().skip(j).step_by(units).copied())
            .collect()
    }

    /// Numbers of any kind that are the same in single precision.
    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<f32>(),
            -1.0..1.0f32,
            Just(0.0),
            Just(f32::NAN),
            Just(f32::MAX),
            Just(1e-45)
        ]
    }

    /// More rows than a batch, of more columns than whole lanes.
    #[test]
    fn bytes_add_what_they_stand_for() {
        for (columns, units, count) in [(13, 5, 150), (800, 3, 20), (1, 1, 65)] {
            let bytes: Vec<u8> = (0..count * columns).map(|i| (i * i % 251) as u8).collect();
            let doubles: Vec<f64> = bytes.iter().map(|&x| f64::from(x)).collect();
            let multiples: Vec<f64> = (0..count * units).map(|i| (i as f64).sin()).collect();
            let bound = Bound::new(ClipNorm::new(2.5).unwrap(), columns * units).unwrap();
            let mut sums = [0, 1].map(|_| LatticeSum::new(bound));
            let rows: Vec<&[u8]> = bytes.chunks(columns).collect();
            let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
            sums[0].add_stacked_rows(&rows, &multiples, units, &bounds);
            let rows: Vec<&[f64]> = doubles.chunks(columns).collect();
            sums[1].add_stacked_rows(&rows, &multiples, units, &bounds);
            assert_eq!(sums[0].sum, sums[1].sum);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        /// Many records, some of another length, dense and sparse: bit by bit the sum of the other layout.
        #[test]
        fn it_is_the_other_layout_transposed(
            (columns, units) in (1usize..20, 1usize..12),
            numbers in prop::collection::vec(number(), 64..2000),
            exponent in -260i32..260,
        ) {
            let dim = columns * units;
            let mut numbers = numbers.into_iter().cycle();
            let count = 1 + 2 * columns + units * 3;
            let rows: Vec<Vec<f32>> = (0..count)
                .map(|i| numbers.by_ref().take(columns + usize::from(i % 11 == 5)).collect())
                .collect();
            let multiples: Vec<f64> = numbers.take(count * units).map(f64::from).collect();
            let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
            let radius = ClipNorm::new(1.2345 * 10f64.powi(exponent)).unwrap();
            let mut sums = [0, 1].map(|_| LatticeSum::new(Bound::new(radius, dim).unwrap()));
            sums[0].add_row_products(&rows, &multiples, units, &bounds);
            sums[1].add_stacked_rows(&rows, &multiples, units, &bounds);
            prop_assert_eq!(transposed(&sums[0].sum, units), sums[1].sum.clone());
            prop_assert_eq!(sums[0].added, sums[1].added);

            let sparse: Vec<(Vec<u32>, Vec<f32>)> = rows
                .iter()
                .map(|row| {
                    let filled = row.iter().take(columns).enumerate().filter(|(_, x)| **x != 0.0);
                    filled.map(|(c, x)| (c as u32, *x)).unzip()
                })
                .collect();
            let sparse: Vec<SparseRow<'_>> = sparse.iter().map(|(c, x)| (&c[..], &x[..])).collect();
            let bounds: Vec<RowBound> =
                sparse.iter().map(|(c, x)| RowBound::sparse(c, x, columns)).collect();
            let mut sums = [0, 1].map(|_| LatticeSum::new(Bound::new(radius, dim).unwrap()));
            sums[0].add_sparse_row_products(&sparse, &multiples, units, &bounds);
            sums[1].add_sparse_stacked_rows(&sparse, &multiples, units, &bounds);
            prop_assert_eq!(transposed(&sums[0].sum, units), sums[1].sum.clone());
        }

        /// Rows of a length that no sum of this dimension has add nothing, and count.
        #[test]
        fn rows_that_do_not_fit_add_nothing(units in 1usize..9, dim in 1usize..7) {
            let row = [1.0f32; 10];
            let bound = Bound::new(ClipNorm::new(1.0).unwrap(), dim).unwrap();
            let multiples = vec![1.0; units];
            let mut sum = LatticeSum::new(bound);
            sum.add_stacked_rows(&[&row[..]], &multiples, units, &[RowBound::dense(&row)]);
            prop_assert!(sum.added == 1 && sum.sum.iter().all(|k| *k == 0));
        }

        /// One record is never longer than the radius, whatever it holds.
        #[test]
        fn no_contribution_exceeds_the_radius(
            row in prop::collection::vec(number(), 1..9),
            multiples in prop::collection::vec(any::<f64>(), 1..20),
            exponent in -260i32..260,
        ) {
            let dim = row.len() * multiples.len();
            let radius = ClipNorm::new(1.2345 * 10f64.powi(exponent)).unwrap();
            let bound = Bound::new(radius, dim).unwrap();
            let most = ((bound.radius() / bound.step()).floor() as u128).pow(2);
            let mut sum = LatticeSum::new(bound);
            sum.add_stacked_rows(&[&row[..]], &multiples, multiples.len(), &[RowBound::dense(&row)]);
            let squares: u128 = sum.sum.iter().map(|&k| i128::from(k).pow(2) as u128).sum();
            prop_assert!(squares <= most, "{} {}", squares, most);
        }
    }
}
