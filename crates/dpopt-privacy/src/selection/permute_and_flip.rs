//! Permute-and-flip, drawn exactly.
//!
//! McKenna and Sheldon 2020 (arXiv 2010.12603). In a random order, a coin of probability
//! `exp(−rate (best − score))` is tossed for each candidate, and the first head wins. Tossing
//! all coins and choosing uniformly among the heads is the same law, as given the set of heads
//! the first of them in a random order is uniform. Noisy max with one-sided geometric noise and
//! ties broken at random has this law too, see `docs/privacy/selection.md`.

use super::rate::Rate;
use crate::noise::bernoulli::bernoulli_exp_of;
use crate::noise::digits::BitSource;

/// Draws a candidate; there must be at least one.
pub(crate) fn permute_and_flip<S: BitSource>(scores: &[i64], rate: Rate, source: &mut S) -> usize {
    let best = scores.iter().copied().max().unwrap_or(0);
    let mut winner = Uniform::default();
    for (i, &score) in scores.iter().enumerate() {
        // The coin of the best always shows heads.
        if bernoulli_exp_of(rate.times(best.abs_diff(score)), source) {
            winner.offer(i, source);
        }
    }
    winner.taken
}

/// A uniform choice among those offered, whose number is not known beforehand.
#[derive(Default)]
pub(super) struct Uniform {
    offered: u64,
    pub(super) taken: usize,
}

impl Uniform {
    /// Takes the n-th with probability 1/n.
    pub(super) fn offer<S: BitSource>(&mut self, candidate: usize, source: &mut S) {
        self.offered += 1;
        if source.below(self.offered) == 0 {
            self.taken = candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::testkit::{chi_square, chi_square_catches, stream};
    use crate::units::Epsilon;

    /// The law by summing over all orders.
    fn law(scores: &[i64], rate: f64) -> Vec<f64> {
        fn orders(left: &[usize], reach: f64, heads: &[f64], out: &mut [f64]) {
            for (at, &i) in left.iter().enumerate() {
                let share = reach / left.len() as f64;
                out[i] += share * heads[i];
                let rest: Vec<usize> = [&left[..at], &left[at + 1..]].concat();
                orders(&rest, share * (1.0 - heads[i]), heads, out);
            }
        }
        let best = *scores.iter().max().unwrap();
        let heads: Vec<f64> = scores
            .iter()
            .map(|&s| (rate * (s - best) as f64).exp())
            .collect();
        let mut out = vec![0.0; scores.len()];
        let all: Vec<usize> = (0..scores.len()).collect();
        orders(&all, 1.0, &heads, &mut out);
        out
    }

    fn counts(scores: &[i64], rate: Rate, number: u32) -> Vec<u64> {
        let mut bits = stream(number);
        let mut counts = vec![0; scores.len()];
        for _ in 0..200_000 {
            counts[permute_and_flip(scores, rate, &mut bits)] += 1;
        }
        counts
    }

    #[test]
    fn the_law_is_the_closed_form() {
        for (number, (scores, epsilon, steps)) in [
            (vec![0, 1, 2, 3, 4], 1.0, 2),
            (vec![5, 5, 0, 3, -9], 0.4, 1),
            (vec![0, 1 << 29, 3 << 29, 5 << 28], 1.7, 1 << 31),
        ]
        .into_iter()
        .enumerate()
        {
            let rate = Rate::new(Epsilon::new(epsilon).unwrap(), steps).unwrap();
            let got = counts(&scores, rate, 30 + number as u32);
            chi_square(&got, &law(&scores, epsilon / steps as f64));
        }
    }

    #[test]
    fn a_missing_factor_is_caught() {
        let scores = [0, 1, 2, 3, 4];
        let twice = Rate::new(Epsilon::new(1.0).unwrap(), 1).unwrap();
        chi_square_catches(&counts(&scores, twice, 35), &law(&scores, 0.5));
    }
}
