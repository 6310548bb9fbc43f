//! The exponential mechanism, drawn exactly.
//!
//! McSherry and Talwar 2007, "Mechanism design via differential privacy". Noisy max with Gumbel
//! noise has the same law (Durfee and Rogers 2019), so this is also how that one is offered.

use std::ops::ControlFlow;

use super::choice::{Choice, FIRST_LIMBS, Masses};
use super::fixed::{Fixed, Powers};
use super::rate::Rate;
use crate::noise::digits::BitSource;

/// Draws candidate `i` with probability proportional to `base_i exp(rate · score_i)`.
///
/// The base measure, all ones where none is given, must have a positive entry; candidates are
/// as many as its entries, at least one. Nothing is drawn in floating point.
pub(crate) fn exponential<S: BitSource>(
    scores: &[i64],
    base: Option<&[u64]>,
    rate: Rate,
    source: &mut S,
) -> usize {
    let weights = Weights::new(scores, base, rate);
    Choice::new(weights).draw(source) as usize
}

/// Masses `base_i exp(−rate (best − score_i))`, the best being 1 or more.
struct Weights<'a> {
    scores: &'a [i64],
    base: Option<&'a [u64]>,
    rate: Rate,
    best: i64,
    /// Largest distance from the best.
    range: u64,
    /// For the precision at which nearly all draws are decided.
    powers: Powers,
}

impl<'a> Weights<'a> {
    fn new(scores: &'a [i64], base: Option<&'a [u64]>, rate: Rate) -> Self {
        let allowed = |i: usize| base.is_none_or(|base| base.get(i).is_some_and(|&w| w > 0));
        let among = || scores.iter().enumerate().filter(|(i, _)| allowed(*i));
        let best = among().map(|(_, &s)| s).max().unwrap_or(0);
        let least = among().map(|(_, &s)| s).min().unwrap_or(0);
        let range = best.abs_diff(least);
        Self {
            scores,
            base,
            rate,
            best,
            range,
            powers: Powers::new(FIRST_LIMBS, rate.rational(), range),
        }
    }
}

impl Masses for Weights<'_> {
    fn walk(
        &self,
        limbs: usize,
        each: &mut dyn FnMut(u64, &Fixed, u128) -> ControlFlow<()>,
    ) -> u128 {
        let finer;
        let powers = if limbs == FIRST_LIMBS {
            &self.powers
        } else {
            finer = Powers::new(limbs, self.rate.rational(), self.range);
            &finer
        };
        let error = Powers::error(limbs);
        for (i, &score) in self.scores.iter().enumerate() {
            let weight = self
                .base
                .map_or(1, |base| base.get(i).copied().unwrap_or(0));
            if weight == 0 {
                continue;
            }
            let mut mass = powers.at(self.best.abs_diff(score));
            mass.times(weight);
            if each(i as u64, &mass, error * u128::from(weight)).is_break() {
                break;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::testkit::{chi_square, chi_square_catches, stream};
    use crate::units::Epsilon;

    fn rate(epsilon: f64, steps: u64) -> Rate {
        Rate::new(Epsilon::new(epsilon).unwrap(), steps).unwrap()
    }

    fn law(scores: &[i64], base: &[u64], rate: f64) -> Vec<f64> {
        let best = *scores.iter().max().unwrap();
        let masses: Vec<f64> = scores
            .iter()
            .zip(base)
            .map(|(&s, &w)| w as f64 * (rate * (s - best) as f64).exp())
            .collect();
        let total: f64 = masses.iter().sum();
        masses.iter().map(|m| m / total).collect()
    }

    fn counts(scores: &[i64], base: Option<&[u64]>, rate: Rate, number: u32) -> Vec<u64> {
        let mut bits = stream(number);
        let choice = Choice::new(Weights::new(scores, base, rate));
        let mut counts = vec![0; scores.len()];
        for _ in 0..200_000 {
            counts[choice.draw(&mut bits) as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_law_is_the_closed_form() {
        let ones = [1; 6];
        for (number, (scores, epsilon, steps)) in [
            (vec![0, 1, 2, 3, 4, 5], 1.0, 2),
            (vec![7, 7, -3, 0, 7, 2], 0.3, 1),
            // One step is 2^-30 of the sensitivity.
            (
                vec![0, 1 << 29, 3 << 29, 5 << 28, -(1 << 30), 1],
                1.7,
                1 << 31,
            ),
            (
                vec![-(1 << 61), 1 << 61, (1 << 61) - 3, 0, 1, (1 << 61) - 1],
                0.7,
                1,
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let got = counts(&scores, None, rate(epsilon, steps), 10 + number as u32);
            chi_square(&got, &law(&scores, &ones, epsilon / steps as f64));
        }
    }

    #[test]
    fn the_base_measure_multiplies() {
        let scores = [0, 4, 9, 9, 2];
        let base = [1 << 40, 1 << 36, 3 << 33, 0, 1 << 39];
        let rate_value = 0.5;
        let got = counts(&scores, Some(&base), rate(1.0, 2), 20);
        assert_eq!(got[3], 0);
        chi_square(&got, &law(&scores, &base, rate_value));
        // A twin that leaves the measure out, and one that forgets the factor two.
        chi_square_catches(
            &counts(&scores, None, rate(1.0, 2), 21),
            &law(&scores, &base, rate_value),
        );
        chi_square_catches(
            &counts(&scores, Some(&base), rate(1.0, 1), 22),
            &law(&scores, &base, rate_value),
        );
    }

    /// A best candidate with the smallest weight and others of nearly all the measure.
    #[test]
    fn a_measure_of_many_orders_of_magnitude_costs_no_time() {
        let scores = [100, 0, 0];
        let base = [1, u64::MAX, u64::MAX];
        // exp(100 · 0.45) = 3.5e19 against 3.7e19.
        let got = counts(&scores, Some(&base), rate(0.45, 1), 23);
        chi_square(&got, &law(&scores, &base, 0.45));
    }

    #[test]
    fn one_candidate_is_chosen() {
        let mut bits = stream(24);
        assert_eq!(
            exponential(&[i64::MIN / 2], None, rate(1.0, 1), &mut bits),
            0
        );
        assert_eq!(
            exponential(&[5, 6, 7], Some(&[0, 3, 0]), rate(1.0, 1), &mut bits),
            1
        );
    }
}
