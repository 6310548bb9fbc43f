//! Adding outer products of a few numbers with a row: the gradients of a layer of units whose output weights are fixed.
//!
//! A record contributes x_c m_j for the entries x_c of its row and k numbers m_j. Entries go onto the lattice one by one,
//! as those of [`LatticeSum::add_rows`] do; the zeros of a sparse row are never visited.

use dpopt_lanes::{Entry, Kernel, LANES, Lanes, dispatch};

use super::rows::{Clip, Multiple, SparseRow, nearest};
use super::{LatticeSum, MAGIC, RowBound, norm_inflation, shrunk_norm};

impl LatticeSum {
    /// Adds clip(`rows[i]` x `multiples[i]`) for every i: coordinate c k + j of the outer product is entry c of the row times
    /// multiple j of k = `units`.
    ///
    /// # Formula
    /// With M the norm of the k multiples and N that of `bounds[i]`, the multiples are scaled by min(1, clip/(M N)), and every
    /// product is rounded to the nearest step, ties to even. What a record adds depends on its row, its multiples, its bound and
    /// the radius alone; it is what [`LatticeSum::add_rows`] would add for the outer product, but for the rounding of M.
    ///
    /// # Privacy
    /// Each record is one contribution of norm at most the radius, if `bounds[i]` was made from `rows[i]`: the clip is on the outer
    /// product as a whole. A record adds zero, and counts all the same, where its bound or one of its multiples is not finite, or
    /// where its outer product does not have the sum's dimension.
    ///
    /// # Shapes
    /// `rows`: slices of d/k entries; `multiples`: (rows, k); `bounds`: one per row.
    ///
    /// # Panics
    /// When the three slices don't fit together, which does not depend on what rows hold.
    pub fn add_row_products<T: Entry>(
        &mut self,
        rows: &[&[T]],
        multiples: &[f64],
        units: usize,
        bounds: &[RowBound],
    ) {
        check(rows.len(), multiples, units, bounds);
        let room = self.take_room(rows.len());
        dispatch(Products {
            clip: Clip::new(&self.bound),
            sum: self,
            rows: &rows[..room],
            multiples,
            units,
            bounds,
        });
    }

    /// The same for sparse rows, in time proportional to their entries. It adds what [`LatticeSum::add_row_products`] adds for the
    /// rows with their zeros.
    ///
    /// # Privacy
    /// As for [`LatticeSum::add_row_products`]. The bound vouches for the columns too.
    ///
    /// # Panics
    /// As [`LatticeSum::add_row_products`].
    pub fn add_sparse_row_products(
        &mut self,
        rows: &[SparseRow<'_>],
        multiples: &[f64],
        units: usize,
        bounds: &[RowBound],
    ) {
        check(rows.len(), multiples, units, bounds);
        let room = self.take_room(rows.len());
        dispatch(Products {
            clip: Clip::new(&self.bound),
            sum: self,
            rows: &rows[..room],
            multiples,
            units,
            bounds,
        });
    }
}

pub(super) fn check(rows: usize, multiples: &[f64], units: usize, bounds: &[RowBound]) {
    assert!(
        units > 0 && multiples.len() == rows * units && bounds.len() == rows,
        "as many multiples per row as units, and one bound"
    );
}

/// A row whose entries can be visited.
pub(super) trait Visit: Copy {
    /// Whether its outer products with `units` numbers have `dim` coordinates, as far as it can tell.
    fn fits(self, units: usize, dim: usize) -> bool;
    /// Column numbers and entries; zeros may be left out.
    fn entries(self) -> impl Iterator<Item = (usize, f64)>;
}

impl<T: Entry> Visit for &[T] {
    #[inline(always)]
    fn fits(self, units: usize, dim: usize) -> bool {
        self.len().checked_mul(units) == Some(dim)
    }

    #[inline(always)]
    fn entries(self) -> impl Iterator<Item = (usize, f64)> {
        self.iter().map(|&x| x.into()).enumerate()
    }
}

impl Visit for SparseRow<'_> {
    #[inline(always)]
    fn fits(self, units: usize, dim: usize) -> bool {
        dim.is_multiple_of(units)
    }

    #[inline(always)]
    fn entries(self) -> impl Iterator<Item = (usize, f64)> {
        let (columns, values) = self;
        let both = columns.iter().zip(values);
        both.map(|(&column, &x)| (column as usize, f64::from(x)))
    }
}

struct Products<'a, R> {
    clip: Clip,
    sum: &'a mut LatticeSum,
    rows: &'a [R],
    multiples: &'a [f64],
    units: usize,
    bounds: &'a [RowBound],
}

impl<R: Visit> Kernel for Products<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (units, dim) = (self.units, self.sum.bound.dim);
        let mut steps = vec![0.0; units];
        let all = self.multiples.chunks_exact(units).zip(self.bounds);
        for (&row, (multiples, &bound)) in self.rows.iter().zip(all) {
            if !row.fits(units, dim) {
                continue;
            }
            match self
                .clip
                .spread(self.sum.weight, multiples, bound, &mut steps)
            {
                Multiple::Zero => {}
                Multiple::Steps(_) => {
                    for (column, x) in row.entries() {
                        let start = column.saturating_mul(units);
                        if let Some(cells) =
                            self.sum.sum.get_mut(start..start.saturating_add(units))
                        {
                            add_to_cells(lanes, cells, &steps, x);
                        }
                    }
                }
                Multiple::Extreme => {
                    let cell =
                        |column: usize, j: usize| column.saturating_mul(units).saturating_add(j);
                    self.sum.add_extreme_product(row, multiples, cell);
                }
            }
        }
    }
}

/// Adds x times each of the steps, rounded.
#[inline(always)]
fn add_to_cells<L: Lanes>(lanes: L, cells: &mut [i64], steps: &[f64], x: f64) {
    let entry = lanes.splat(x);
    let magic = lanes.splat(MAGIC);
    let start = lanes.words(&[0u64.wrapping_sub(MAGIC.to_bits()) as i64; LANES]);
    let (cells, last) = cells.as_chunks_mut::<LANES>();
    let (steps, last_steps) = steps.as_chunks::<LANES>();
    for (cells, steps) in cells.iter_mut().zip(steps) {
        let product = lanes.mul_add(entry, lanes.doubles(steps), magic);
        let sum = lanes.add(lanes.words(cells), start);
        *cells = lanes.to_words(lanes.add(sum, lanes.bits(product)));
    }
    for (cell, steps) in last.iter_mut().zip(last_steps) {
        *cell = cell.wrapping_add(nearest(lanes, x, *steps));
    }
}

impl Clip {
    /// How an outer product is scaled and clipped: fills in the clipped multiples in lattice steps, and tells whether they hold.
    ///
    /// With m' = m/u for a power of two u and |m'| >= 1, the whole is |m| times the outer product of a row with a vector no
    /// longer than 1, so that it is clipped as the row times |m| would be. |m| is rounded up.
    #[inline(always)]
    pub(super) fn spread(
        self,
        weight: f64,
        multiples: &[f64],
        bound: RowBound,
        steps: &mut [f64],
    ) -> Multiple {
        let Some(shrunk) = shrunk_norm(multiples.iter().copied()) else {
            return Multiple::Zero;
        };
        if shrunk.norm == 0.0 || !weight.is_finite() {
            return Multiple::Zero;
        }
        let norm = shrunk.norm * norm_inflation(multiples.len());
        let whole = weight * (norm * shrunk.unit);
        let found = if whole.is_infinite() && bound.norm() > 0.0 && bound.norm().is_finite() {
            Multiple::Extreme
        } else {
            self.multiple(whole, bound)
        };
        if let Multiple::Steps(long) = found {
            let (shrink, long) = (1.0 / shrunk.unit, long / norm);
            for (step, m) in steps.iter_mut().zip(multiples) {
                *step = (m * shrink) * long;
            }
        }
        found
    }
}

impl LatticeSum {
    /// Adds an outer product whose factors are far apart in size; `cell` says where the product of an entry and a multiple goes.
    #[cold]
    pub(super) fn add_extreme_product<R: Visit>(
        &mut self,
        row: R,
        multiples: &[f64],
        cell: impl Fn(usize, usize) -> usize,
    ) {
        let entries = || row.entries().map(|(_, x)| x);
        let longest = entries().fold(0.0f64, |most, x| most.max(x.abs()));
        let largest = multiples.iter().fold(0.0f64, |most, m| most.max(m.abs()));
        let (unit, whole) = (power_near(longest), power_near(largest));
        let products: Vec<f64> = entries()
            .flat_map(|x| multiples.iter().map(move |m| (x / unit) * (m / whole)))
            .collect();
        // What is too long for a number is clipped like any other.
        let scale = (self.weight * unit * whole).clamp(-f64::MAX, f64::MAX);
        let Some(scaling) = self.bound.scaling(scale, products.iter().copied()) else {
            return;
        };
        let rows = products.chunks_exact(multiples.len());
        for ((column, _), products) in row.entries().zip(rows) {
            for (j, product) in products.iter().enumerate() {
                if let Some(cell) = self.sum.get_mut(cell(column, j)) {
                    *cell = cell.wrapping_add(scaling.round(*product));
                }
            }
        }
    }
}

/// A power of two near a number.
fn power_near(x: f64) -> f64 {
    super::pow2(((x.to_bits() >> 52) as i32 - 1023).clamp(-1000, 1000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Bound;
    use super::*;
    use crate::units::ClipNorm;

    fn bound(radius: f64, dim: usize) -> Bound {
        Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap()
    }

    fn squared(sum: &[i64]) -> u128 {
        sum.iter().map(|&k| i128::from(k).pow(2) as u128).sum()
    }

    /// The outer product by the products of rows, dense and sparse, and formed and added as a vector.
    fn three_ways(bound: Bound, row: &[f64], multiples: &[f64]) -> [Vec<i64>; 3] {
        three_ways_into(|| LatticeSum::new(bound), row, multiples)
    }

    fn three_ways_into(
        new: impl Fn() -> LatticeSum,
        row: &[f64],
        multiples: &[f64],
    ) -> [Vec<i64>; 3] {
        let units = multiples.len();
        let mut sums = [0, 1, 2].map(|_| new());
        sums[0].add_row_products(&[row], multiples, units, &[RowBound::dense(row)]);
        let filled = row.iter().enumerate().filter(|(_, x)| **x != 0.0);
        let (columns, values): (Vec<u32>, Vec<f32>) =
            filled.map(|(j, x)| (j as u32, *x as f32)).unzip();
        let sparse = RowBound::sparse(&columns, &values, row.len());
        sums[1].add_sparse_row_products(&[(&columns, &values)], multiples, units, &[sparse]);
        let formed: Vec<f64> = row
            .iter()
            .flat_map(|x| multiples.iter().map(move |m| x * m))
            .collect();
        sums[2].add_scaled(1.0, &formed);
        sums.map(|sum| sum.sum)
    }

    /// Entries that are the same in single precision.
    fn single() -> impl Strategy<Value = f64> {
        prop_oneof![-1.0..1.0f32, Just(0.0f32)].prop_map(f64::from)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        /// In integers, no record is longer than the radius, whatever it holds.
        #[test]
        fn no_contribution_exceeds_the_radius(
            row in prop::collection::vec(prop_oneof![
                any::<f64>(), -1.0..1.0f64, Just(0.0), Just(f64::MAX), Just(5e-324)], 1..9),
            multiples in prop::collection::vec(prop_oneof![
                any::<f64>(), -1.0..1.0f64, Just(0.0), Just(f64::MAX), Just(5e-324)], 1..20),
            exponent in -260i32..260,
        ) {
            let bound = bound(1.2345 * 10f64.powi(exponent), row.len() * multiples.len());
            let most = ((bound.radius() / bound.step()).floor() as u128).pow(2);
            for sum in three_ways(bound, &row, &multiples) {
                prop_assert!(squared(&sum) <= most, "{} {}", squared(&sum), most);
            }
        }

        /// Just at the clip radius, at every scale.
        #[test]
        fn contributions_near_the_radius_stay_within_it(
            row in prop::collection::vec(0.5..2.0f64, 1..9),
            multiples in prop::collection::vec(-2.0..2.0f64, 1..20),
            (up, down) in (-400i32..400, -400i32..400),
            stretch in 0.9..1.1f64,
        ) {
            let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
            let (long, wide) = (length(&row), length(&multiples));
            prop_assume!(wide > 0.1);
            let row: Vec<f64> = row.iter().map(|x| x * 2f64.powi(up)).collect();
            let multiples: Vec<f64> = multiples.iter().map(|x| x * 2f64.powi(down)).collect();
            let radius = long * wide * stretch * 2f64.powi(up + down);
            let bound = bound(radius, row.len() * multiples.len());
            let most = ((bound.radius() / bound.step()).floor() as u128).pow(2);
            let mut sum = LatticeSum::new(bound);
            sum.add_row_products(&[&row[..]], &multiples, multiples.len(), &[RowBound::dense(&row)]);
            prop_assert!(squared(&sum.sum) <= most);
            // And what is too long is not shortened by more than the bound of a row exceeds its norm.
            if stretch < 1.0 {
                prop_assert!(squared(&sum.sum) as f64 > most as f64 * (1.0 - 1e-5));
            }
        }

        /// Short contributions pass to within a step of what they are, however they are stored.
        #[test]
        fn the_ways_agree(
            row in prop::collection::vec(single(), 1..9),
            multiples in prop::collection::vec(-1.0..1.0f64, 1..20),
            clipped in any::<bool>(),
        ) {
            let radius = if clipped { 0.3 } else { 20.0 };
            let bound = bound(radius, row.len() * multiples.len());
            let [dense, sparse, formed] = three_ways(bound, &row, &multiples);
            // The sparse row's bound may be another upper half of the same norm's bits.
            for (way, off) in [(&sparse, 2f64.powi(11)), (&formed, 2f64.powi(11))] {
                for (a, b) in dense.iter().zip(way) {
                    let off = if clipped { off } else { 1.0 };
                    prop_assert!((a - b).abs() as f64 <= off, "{a} {b}");
                }
            }
        }

        /// Whatever the weight and the shorter radius are, no contribution is longer than that radius, and a short one is multiplied by
        /// the weight and nothing else.
        #[test]
        fn weights_and_shorter_radii_hold(
            row in prop::collection::vec(single(), 1..9),
            multiples in prop::collection::vec(-1.0..1.0f64, 1..20),
            weight in prop_oneof![any::<f64>(), 0.0..2.0f64, Just(1e-9), Just(f64::NAN)],
            share in 0.01..1.0f64,
        ) {
            let bound = bound(40.0, row.len() * multiples.len());
            let radius = share * bound.radius();
            let most = ((radius / bound.step()).floor() as u128).pow(2);
            for sum in three_ways_into(|| LatticeSum::weighted(bound, weight, radius), &row, &multiples) {
                prop_assert!(squared(&sum) <= most, "{} {}", squared(&sum), most);
            }
            // Entries are at most 1 and there are at most 8 x 19 of them: the norm is below 13.
            let weight = 0.03 * share;
            for sum in three_ways_into(|| LatticeSum::weighted(bound, weight, radius), &row, &multiples) {
                let exact = row.iter().flat_map(|x| multiples.iter().map(move |m| x * m * weight));
                for (cell, exact) in sum.iter().zip(exact) {
                    prop_assert!((*cell as f64 * bound.step() - exact).abs() <= 0.51 * bound.step());
                }
            }
        }

        /// A sum of many records is that of each alone: order and company do not matter.
        #[test]
        fn records_add_up(
            records in prop::collection::vec((prop::collection::vec(-1.0..1.0f64, 3), prop::collection::vec(-1.0..1.0f64, 11)), 1..9),
        ) {
            let bound = bound(0.8, 33);
            let rows: Vec<&[f64]> = records.iter().map(|(row, _)| &row[..]).collect();
            let multiples: Vec<f64> = records.iter().flat_map(|(_, m)| m.clone()).collect();
            let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
            let mut whole = LatticeSum::new(bound);
            whole.add_row_products(&rows, &multiples, 11, &bounds);
            let mut parts = LatticeSum::new(bound);
            for (row, m) in records.iter().rev() {
                parts.add_row_products(&[&row[..]], m, 11, &[RowBound::dense(row)]);
            }
            prop_assert_eq!(&whole.sum, &parts.sum);
            prop_assert_eq!(whole.added, parts.added);
        }
    }

    /// The clip is on the whole, not unit by unit: two units at the radius each come out at 1/sqrt 2 of it.
    #[test]
    fn the_clip_is_on_the_whole() {
        let bound = bound(1.0, 4);
        let row = [0.6, 0.8];
        let mut sum = LatticeSum::new(bound);
        sum.add_row_products(&[&row[..]], &[1.0, 1.0], 2, &[RowBound::dense(&row)]);
        let root = std::f64::consts::FRAC_1_SQRT_2;
        for (k, x) in sum.sum.iter().zip([0.6, 0.6, 0.8, 0.8]) {
            assert!((*k as f64 * bound.step() - x * root).abs() < 1e-5);
        }
        // The twin that is caught: each unit clipped by itself is longer than the radius.
        let mut twin = LatticeSum::new(bound);
        for unit in 0..2 {
            let mut formed = [0.0; 4];
            (formed[unit], formed[2 + unit]) = (row[0], row[1]);
            twin.add_scaled(1.0, &formed);
        }
        let most = ((bound.radius() / bound.step()).floor() as u128).pow(2);
        assert!(squared(&sum.sum) <= most && squared(&twin.sum) > most);
    }

    #[test]
    fn what_is_no_number_removes_the_whole_contribution_and_counts() {
        let fine = [0.5, 0.5];
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut sum = LatticeSum::new(bound(1.0, 4));
            let row = [0.5, bad];
            sum.add_row_products(&[&row[..]], &[1.0, 1.0], 2, &[RowBound::dense(&row)]);
            sum.add_row_products(&[&fine[..]], &[1.0, bad], 2, &[RowBound::dense(&fine)]);
            let entries = [0.5, bad as f32];
            let measured = RowBound::sparse(&[0, 1], &entries, 2);
            sum.add_sparse_row_products(&[(&[0, 1], &entries)], &[1.0, 1.0], 2, &[measured]);
            let twice = RowBound::sparse(&[1, 1], &[0.5, 0.5], 2);
            sum.add_sparse_row_products(&[(&[1, 1], &[0.5, 0.5])], &[1.0, 1.0], 2, &[twice]);
            // A row of another length.
            sum.add_row_products(
                &[&fine[..1]],
                &[1.0, 1.0],
                2,
                &[RowBound::dense(&fine[..1])],
            );
            assert_eq!(sum.sum, [0; 4]);
            assert_eq!(sum.added, 5);
        }
    }

    /// A row of 1e300 with multiples of 1e-300 is what 1 with 1 is; and what is beyond all numbers is clipped.
    #[test]
    fn factors_far_apart_in_size_are_multiplied_with_care() {
        let bound = bound(2f64.powi(-880), 2);
        let row = [3e300, 4e300];
        for multiple in [1e-20, 1e20] {
            let mut sum = LatticeSum::new(bound);
            sum.add_row_products(&[&row[..]], &[multiple], 1, &[RowBound::dense(&row)]);
            let whole = bound.radius() / bound.step();
            assert!((sum.sum[0] as f64 / whole - 0.6).abs() < 1e-5, "{multiple}");
            assert!((sum.sum[1] as f64 / whole - 0.8).abs() < 1e-5, "{multiple}");
        }
    }
}
