//! Sums of weighted contributions within a common bound: the steps of a period of prefix sums.
//!
//! The steps of a period are means over different numbers of records, and clipped to different radii. What they
//! must share is the bound that the noise is scaled to. So a step's contributions are divided by its own public
//! number of records and clipped on the lattice of the period.

use super::{Bound, LatticeSum, pow2, slack};

impl LatticeSum {
    /// An empty sum in which every contribution is multiplied by `weight`, then clipped to `radius` or to
    /// the bound's own radius, whichever is shorter. The sealed sum states `bound`: sums of different
    /// weights and radii can be steps of one [`crate::Prefix`].
    ///
    /// A radius so short that its rounding slack would be more than 2^-10 of it has no effect.
    ///
    /// # Privacy
    /// The weight acts before the clip and the shorter radius lies within the bound, so no contribution
    /// is longer than the bound's radius, whatever the two are. Both must be public.
    #[must_use]
    pub fn weighted(bound: Bound, weight: f64, radius: f64) -> Self {
        Self {
            bound: bound.narrowed(radius),
            stated: bound,
            weight,
            sum: vec![0; bound.dim],
            added: 0,
            placed: None,
        }
    }

    /// What `add` adds, each contribution times `factor` beside the weight that it has already, and then clipped as ever.
    ///
    /// # Privacy
    /// As for [`LatticeSum::weighted`]: the factor acts before the clip. It may depend on the record, as a class weight does, where `add`
    /// adds records of that factor alone.
    pub fn times(&mut self, factor: f64, add: impl FnOnce(&mut Self)) {
        let weight = self.weight;
        self.weight *= factor;
        add(self);
        self.weight = weight;
    }
}

impl Bound {
    /// A shorter radius on the same lattice; unchanged unless `radius` is shorter, and long enough for
    /// its slack to stay below 2^-10 of it.
    fn narrowed(self, radius: f64) -> Self {
        let slack = slack(self.dim, self.step);
        if radius < self.radius && radius * pow2(-10) > slack {
            Self {
                radius,
                clip: (radius - slack) * (1.0 - pow2(-45)),
                ..self
            }
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Factors, OuterWork, RowBound};
    use super::*;
    use crate::units::ClipNorm;

    fn bound(radius: f64, dim: usize) -> Bound {
        Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap()
    }

    fn squared(sum: &[i64]) -> u128 {
        sum.iter().map(|&k| i128::from(k).pow(2) as u128).sum()
    }

    /// The same row by every way that a contribution can be added; the outer product is row by one.
    fn all_ways(empty: impl Fn() -> LatticeSum, row: &[f32], scale: f64) -> Vec<Vec<i64>> {
        let columns: Vec<u32> = (0..row.len() as u32).collect();
        let mut sums = [empty(), empty(), empty(), empty(), empty()];
        sums[0].add_scaled(scale, row);
        sums[1].add_scaled_sparse(scale, &columns, row);
        sums[2].add_rows(&[row], &[scale], &[RowBound::dense(row)], || {});
        let sparse = RowBound::sparse(&columns, row, row.len());
        sums[3].add_sparse_rows(&[(&columns, row)], &[scale], &[sparse]);
        let left: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        let layer = Factors {
            left: &left,
            left_len: row.len(),
            right: &[scale],
            right_len: 1,
        };
        sums[4].add_outer_products(1, &[layer], &mut OuterWork::new());
        sums.map(|sum| sum.sum).to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        /// Whatever the weight, the shorter radius and the row are: in integers, no contribution is longer
        /// than the bound, nor than a shorter radius that is not too short.
        #[test]
        fn no_weight_and_no_radius_lengthens_a_contribution(
            row in prop::collection::vec(
                prop_oneof![any::<f32>(), -1.0..1.0f32, Just(0.0), Just(f32::MAX), Just(1e-45)], 1..20),
            scale in prop_oneof![any::<f64>(), -2.0..2.0f64],
            weight in prop_oneof![any::<f64>(), 0.0..2.0f64, Just(1e-9), Just(f64::NAN)],
            share in 1e-6..1e6f64,
            part in prop_oneof![any::<f64>(), 1e-9..2.0f64],
        ) {
            let bound = bound(share, row.len());
            let radius = share * part;
            let limit = |radius: f64| ((radius / bound.step()).floor() as u128).pow(2);
            let slack = ((row.len() as f64).sqrt() * 0.5 + 1.0) * bound.step();
            let narrow = radius < share && radius > 1024.0 * slack;
            for sum in all_ways(|| LatticeSum::weighted(bound, weight, radius), &row, scale) {
                prop_assert!(squared(&sum) <= limit(bound.radius()));
                if narrow {
                    prop_assert!(squared(&sum) <= limit(radius), "{} {}", squared(&sum), limit(radius));
                }
            }
        }

        /// A short contribution is multiplied by the weight and nothing else.
        #[test]
        fn a_short_contribution_is_weighted(
            row in prop::collection::vec(-1.0..1.0f32, 1..20),
            scale in -1.0..1.0f64,
            records in 1..100_000u32,
        ) {
            let weight = 1.0 / f64::from(records);
            let bound = bound(7.0 * weight, row.len());
            let sums = all_ways(|| LatticeSum::weighted(bound, weight, 7.0 * weight), &row, scale);
            for (way, sum) in sums.iter().enumerate() {
                for (k, x) in sum.iter().zip(&row) {
                    let exact = f64::from(*x) * scale * weight;
                    // Factors of an outer product are rounded one by one: sqrt(g step) d^(1/4).
                    let off = if way == 4 { (9.0 * weight * bound.step()).sqrt() * 2.2 } else { 0.51 * bound.step() };
                    prop_assert!((*k as f64 * bound.step() - exact).abs() <= off, "{}", way);
                }
            }
        }
    }

    /// A factor is a weight for what is added under it, and for nothing after it.
    #[test]
    fn a_factor_is_a_weight_while_it_lasts() {
        let bound = bound(3.0, 2);
        let mut sum = LatticeSum::weighted(bound, 0.5, f64::MAX);
        sum.times(4.0, |sum| sum.add_scaled(1.0, &[0.25, 0.5]));
        let mut expected = LatticeSum::weighted(bound, 2.0, f64::MAX);
        expected.add_scaled(1.0, &[0.25, 0.5]);
        assert_eq!(sum.sum, expected.sum);
        let mut after = LatticeSum::weighted(bound, 0.5, f64::MAX);
        after.times(4.0, |_| {});
        after.add_scaled(1.0, &[0.25, 0.5]);
        assert_eq!(
            after.sum.iter().map(|k| 4 * k).collect::<Vec<_>>(),
            expected.sum
        );
        // However large it is, the clip comes after it.
        sum.times(1e300, |sum| sum.add_scaled(1.0, &[3.0, 4.0]));
        let longest = (bound.radius() / bound.step()).floor() as u128;
        let grown: Vec<i64> = sum
            .sum
            .iter()
            .zip(&expected.sum)
            .map(|(a, b)| a - b)
            .collect();
        assert!(squared(&grown) <= longest * longest);
    }

    /// Without a weight and a shorter radius nothing changes, to the bit.
    #[test]
    fn a_weight_of_one_changes_nothing() {
        let row: Vec<f32> = (0..13).map(|k| (k as f32).sin()).collect();
        for radius in [0.5, 1.0, 10.0] {
            let bound = bound(radius, row.len());
            let plain = all_ways(|| LatticeSum::new(bound), &row, 1.7);
            let weighted = all_ways(|| LatticeSum::weighted(bound, 1.0, f64::MAX), &row, 1.7);
            assert_eq!(plain, weighted);
        }
    }

    /// What is sealed states the bound, whatever its own clip was, and parts of different clips don't merge.
    #[test]
    fn the_sealed_sum_states_the_bound() {
        let bound = bound(2.0, 3);
        let sum = LatticeSum::weighted(bound, 0.1, 0.5);
        assert_eq!(sum.bound().radius(), 0.5);
        assert_eq!(sum.bound().step(), bound.step());
        assert_eq!(sum.into_integers().0, bound);
        // Too short a radius for the lattice has no effect.
        let sum = LatticeSum::weighted(bound, 0.1, 1e-8);
        assert_eq!(sum.bound(), bound);
        for radius in [f64::NAN, f64::INFINITY, 3.0, 0.0, -1.0] {
            assert_eq!(LatticeSum::weighted(bound, 0.1, radius).bound(), bound);
        }
    }
}
