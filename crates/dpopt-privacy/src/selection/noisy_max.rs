//! Report noisy max with discrete Laplace noise, drawn exactly.
//!
//! Dwork and Roth 2014, Claim 3.9. Ties are broken uniformly at random, which the proof in
//! `docs/privacy/selection.md` covers. With one-sided geometric noise the law would be that of
//! permute-and-flip, which is how that variant is offered.

use super::SelectionError;
use super::laplace::Laplace;
use super::permute_and_flip::Uniform;
use super::rate::Rate;
use crate::noise::digits::BitSource;

/// The noise of one selection, checked before anything is charged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoisyMax(Laplace);

impl NoisyMax {
    /// Noise with mass proportional to `exp(−rate |z|)` for each score.
    pub(crate) fn new(rate: Rate) -> Result<Self, SelectionError> {
        Laplace::new(rate).map(Self)
    }

    /// Draws a candidate; there must be at least one.
    pub(crate) fn draw<S: BitSource>(self, scores: &[i64], source: &mut S) -> usize {
        let mut largest = i128::MIN;
        let mut winner = Uniform::default();
        for (i, &score) in scores.iter().enumerate() {
            let noisy = i128::from(score) + self.0.draw(source);
            if noisy > largest {
                largest = noisy;
                winner = Uniform::default();
            }
            if noisy == largest {
                winner.offer(i, source);
            }
        }
        winner.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::testkit::{chi_square, chi_square_catches, stream};
    use crate::units::Epsilon;

    const REACH: i64 = 400;

    /// The law by summing over the largest noisy score and the number that share it.
    fn law(scores: &[i64], rate: f64) -> Vec<f64> {
        let zero = (0.5 * rate).tanh();
        let mass = |z: i64| zero * (-rate * z.abs() as f64).exp();
        let below = |z: i64| -> f64 {
            // P(Z < z)
            let tail = |z: i64| (-rate * z as f64).exp() / (1.0 + (-rate).exp());
            if z <= 0 { tail(1 - z) } else { 1.0 - tail(z) }
        };
        (0..scores.len())
            .map(|i| {
                (-REACH..=REACH)
                    .map(|t| {
                        // Coefficients: how many of the others share the largest value t.
                        let mut ties = vec![mass(t - scores[i])];
                        for (j, &s) in scores.iter().enumerate() {
                            if j == i {
                                continue;
                            }
                            let mut next = vec![0.0; ties.len() + 1];
                            for (n, p) in ties.iter().enumerate() {
                                next[n] += p * below(t - s);
                                next[n + 1] += p * mass(t - s);
                            }
                            ties = next;
                        }
                        ties.iter()
                            .enumerate()
                            .map(|(n, p)| p / (n + 1) as f64)
                            .sum::<f64>()
                    })
                    .sum()
            })
            .collect()
    }

    fn counts(scores: &[i64], epsilon: f64, steps: u64, number: u32) -> Vec<u64> {
        let rate = Rate::new(Epsilon::new(epsilon).unwrap(), steps).unwrap();
        let noise = NoisyMax::new(rate).unwrap();
        let mut bits = stream(number);
        let mut counts = vec![0; scores.len()];
        for _ in 0..200_000 {
            counts[noise.draw(scores, &mut bits)] += 1;
        }
        counts
    }

    #[test]
    fn the_law_is_the_closed_form() {
        for (number, (scores, epsilon, steps)) in [
            (vec![0, 1, 2, 3, 4], 1.0, 2),
            (vec![5, 5, 0, 3, -9], 0.4, 1),
            (vec![2, 2, 2, 1], 3.0, 1),
        ]
        .into_iter()
        .enumerate()
        {
            let got = counts(&scores, epsilon, steps, 60 + number as u32);
            chi_square(&got, &law(&scores, epsilon / steps as f64));
        }
    }

    #[test]
    fn a_missing_factor_is_caught() {
        let scores = [0, 1, 2, 3, 4];
        chi_square_catches(&counts(&scores, 1.0, 1, 65), &law(&scores, 0.5));
    }

    /// Pure epsilon with ties: for all pairs of small scores that differ by at most one each,
    /// the closed form's ratios stay below e^epsilon for the rate epsilon over the spread 2.
    #[test]
    fn ratios_of_neighbours_stay_below_epsilon() {
        let epsilon = 1.0_f64;
        let mut worst = 0.0_f64;
        for u in all(3, 3) {
            let p = law(&u, epsilon / 2.0);
            for step in all(3, 3) {
                let v: Vec<i64> = u.iter().zip(&step).map(|(a, b)| a + b - 1).collect();
                for (a, b) in p.iter().zip(law(&v, epsilon / 2.0)) {
                    worst = worst.max((a / b).ln().abs());
                }
            }
        }
        assert!(worst <= epsilon + 1e-9, "{worst}");
        // The bound is not far from attained, so twice the rate would break it.
        assert!(worst > 0.8 * epsilon, "{worst}");
    }

    fn all(values: i64, length: u32) -> impl Iterator<Item = Vec<i64>> {
        (0..values.pow(length))
            .map(move |code| (0..length).map(|i| code / values.pow(i) % values).collect())
    }
}
