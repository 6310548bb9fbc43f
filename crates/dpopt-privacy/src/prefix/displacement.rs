//! The noise that would explain a displacement of prefix sums, for audits.
//!
//! Where two runs release the same prefix sums S_t + (B w)_t and their exact sums differ by D_t, their
//! noises differ by B^-1 D. What that amounts to in each noise variable is found by forward
//! substitution, from the recurrence by which the noise is made and not from the factor C by which the
//! cost is computed.

use super::{Nodes, PrefixNoise};

/// Squared norm of the displacement of all noise variables, in lattice steps, where step t of the
/// period moves by `steps[t]`.
///
/// In the Honaker tree the estimates are functions of the releases of all nodes; counted are all nodes
/// that have ended, which is what is charged.
pub(crate) fn squared_displacement(noise: &PrefixNoise, steps: &[Vec<f64>]) -> f64 {
    let dim = steps.iter().map(Vec::len).max().unwrap_or(0);
    let mut squares = 0.0;
    for i in 0..dim {
        // D_0 = 0, D_1, ...: differences of integers, exact below 2^53.
        let mut sums = vec![0.0];
        let mut sum = 0.0;
        for step in steps {
            sum += step.get(i).copied().unwrap_or(0.0);
            sums.push(sum);
        }
        squares += one_coordinate(noise, &sums);
    }
    squares
}

fn one_coordinate(noise: &PrefixNoise, sums: &[f64]) -> f64 {
    let steps = 1..sums.len();
    let square = |x: f64| x * x;
    match (noise.nodes(), noise.factor()) {
        // Prefix t is prefix t - 2^h and one node more, 2^h being the lowest binary digit of t.
        (Some(Nodes::Plain), _) => steps
            .map(|t| square(sums[t] - sums[t - (1 << t.trailing_zeros())]))
            .sum(),
        (Some(Nodes::Reduced), _) => steps
            .flat_map(|t| (0..=t.trailing_zeros()).map(move |h| (t, 1_usize << h)))
            .map(|(t, size)| square(sums[t] - sums[t - size]))
            .sum(),
        // Z_t = w_t + sum over k of d_k Z_(t-k).
        (None, Some(factor)) => {
            let unit = (1_u64 << super::toeplitz::COEFFICIENT_BITS) as f64;
            let decrements = factor.decrements();
            steps
                .map(|t| {
                    let earlier = decrements.iter().zip(sums[..t].iter().rev());
                    let average: f64 = earlier.map(|(&d, z)| d as f64 / unit * z).sum();
                    square(sums[t] - average)
                })
                .sum()
        }
        (None, None) => steps.map(|t| square(sums[t] - sums[t - 1])).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Participation, PrefixKind};
    use super::*;

    fn noise(kind: PrefixKind, participation: Participation) -> PrefixNoise {
        PrefixNoise::new(kind, 8, participation).unwrap()
    }

    /// One step of size 1, at each place: the norms of the columns of C, worked out by hand.
    #[test]
    fn one_participation_displaces_a_column() {
        let at = |kind, step: usize| {
            let mut steps = vec![vec![0.0]; 8];
            steps[step] = vec![1.0];
            squared_displacement(&noise(kind, Participation::Single), &steps)
        };
        // Leaf 1 is in the nodes that end at 1, 2, 4 and 8; leaf 2 in those of 2, 4 and 8; leaf 8 in
        // that of 8 only.
        for (step, nodes) in [(0, 4.0), (1, 3.0), (2, 3.0), (4, 3.0), (7, 1.0)] {
            assert_eq!(at(PrefixKind::Tree, step), nodes, "{step}");
            // With all nodes each leaf is in four.
            assert_eq!(at(PrefixKind::Honaker, step), 4.0, "{step}");
            assert_eq!(at(PrefixKind::Independent, step), 1.0);
        }
        // 1 + 1/4 + (3/8)^2 + ...: squares of binom(2k, k)/4^k.
        let squares = [
            1.0,
            0.25,
            0.140_625,
            0.097_656_25,
            0.074_768_066_406_25,
            0.060_562_133_789_062_5,
            0.050_889_015_197_753_906,
            0.043_878_793_716_430_664,
        ];
        for step in 0..8 {
            let expected: f64 = squares[..8 - step].iter().sum();
            assert!((at(PrefixKind::Toeplitz, step) - expected).abs() < 1e-12);
            let banded: f64 = squares[..3.min(8 - step)].iter().sum();
            assert!((at(PrefixKind::Banded { band: 3 }, step) - banded).abs() < 1e-12);
        }
    }

    /// In whichever of its steps a record is drawn, and however its parts point, they displace as if they were alone: the bands of two of
    /// them don't meet. One band more, and there is a pattern in which they do.
    #[test]
    fn samples_that_are_a_band_apart_add_up() {
        for (apart, band) in [(1, 1), (2, 2), (3, 3), (3, 2), (3, 4), (2, 3)] {
            let kind = PrefixKind::Banded { band };
            let noise = PrefixNoise::new(kind, 8, Participation::Single).unwrap();
            let alone = |t: usize| {
                let mut steps = vec![vec![0.0]; 8];
                steps[t] = vec![1.0];
                squared_displacement(&noise, &steps)
            };
            let mut apart_at_all = true;
            // Each step of the first slice: not drawn, or drawn with one of two opposite parts.
            let places: Vec<usize> = (0..8).step_by(apart as usize).collect();
            for pattern in 0..3_usize.pow(places.len() as u32) {
                let mut steps = vec![vec![0.0]; 8];
                let (mut rest, mut expected) = (pattern, 0.0);
                for &t in &places {
                    let sign = [0.0, 1.0, -1.0][rest % 3];
                    rest /= 3;
                    steps[t] = vec![sign];
                    expected += sign * sign * alone(t);
                }
                let found = squared_displacement(&noise, &steps);
                apart_at_all &= (found - expected).abs() < 1e-12;
            }
            assert_eq!(apart_at_all, band <= apart, "{band} {apart}");
        }
    }

    /// No pattern of unit steps displaces more than the factorisation's sensitivity, and the worst one
    /// as much.
    #[test]
    fn patterns_stay_within_the_claimed_sensitivity() {
        for kind in [
            PrefixKind::Independent,
            PrefixKind::Tree,
            PrefixKind::Honaker,
            PrefixKind::Toeplitz,
            PrefixKind::Banded { band: 3 },
        ] {
            for (participation, most, apart) in [
                (Participation::Single, 1, 8),
                (Participation::Repeated { most: 2, apart: 3 }, 2, 3),
                (Participation::Every, 8, 1),
            ] {
                let noise = noise(kind, participation);
                let mut worst = 0.0_f64;
                for pattern in 1_u32..256 {
                    let at: Vec<u32> = (0..8).filter(|t| pattern >> t & 1 == 1).collect();
                    if at.len() > most || at.windows(2).any(|p| p[1] - p[0] < apart) {
                        continue;
                    }
                    let steps: Vec<Vec<f64>> =
                        (0..8).map(|t| vec![f64::from(pattern >> t & 1)]).collect();
                    worst = worst.max(squared_displacement(&noise, &steps));
                }
                let claimed = noise.sensitivity().powi(2);
                assert!(worst <= claimed * (1.0 + 1e-12), "{kind} {participation:?}");
                if most != 2 {
                    assert!(worst >= claimed * (1.0 - 1e-12), "{kind} {participation:?}");
                }
            }
        }
    }
}
