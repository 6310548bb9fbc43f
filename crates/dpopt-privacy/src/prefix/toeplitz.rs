//! The square-root factor of prefix sums and its bands, with coefficients that are exact.
//!
//! Prefix sums are the lower-triangular matrix A of ones, the power series 1/(1 − x). Its square
//! root has the coefficients binom(2k, k)/4^k (Fichtenberger, Henzinger and Upadhyay 2023). Here
//! they are rounded to multiples of 2^-52 and, for a band, cut after `band` of them. **What comes
//! out is the factor C**, not an approximation of it: sensitivity and noise are those of these very
//! numbers. The other factor is B = A C⁻¹, and
//!
//! ```text
//! (1 − x) C(x) = 1 − D(x),   D(x) = Σ_k (c_{k−1} − c_k) x^k,   B(x) = 1/(1 − D(x)),
//! ```
//!
//! so Z = B w obeys Z_t = w_t + Σ_k d_k Z_{t−k}. As c does not increase and ends in zero, the d_k
//! are non-negative multiples of 2^-52 that sum to c_0 = 1: noise is fresh noise plus an average
//! of earlier noise, errors included. See `docs/privacy/sums.md`.

use std::collections::VecDeque;

/// Fractional bits of the coefficients.
pub(super) const COEFFICIENT_BITS: u32 = 52;

/// The factor C, as its first column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factor {
    len: usize,
    /// c_0, …, c_{band−1} in units of 2^-52: from 2^52 on not increasing, never below zero.
    column: Vec<u64>,
    /// How many of them are those of the square root.
    root: usize,
}

impl Factor {
    /// The factor for `len` steps with the first `band` coefficients; `1 ≤ band ≤ len`.
    pub(super) fn new(len: usize, band: usize) -> Self {
        let one = (1_u64 << COEFFICIENT_BITS) as f64;
        let mut coefficient = 1.0;
        let column: Vec<u64> = (0..band.min(len))
            .map(|k| {
                if k > 0 {
                    coefficient *= (2 * k - 1) as f64 / (2 * k) as f64;
                }
                // Exact but for the rounding: one is a power of two.
                (coefficient * one).round() as u64
            })
            .collect();
        Self {
            len,
            root: column.len(),
            column,
        }
    }

    /// The factor for `len` steps with this column: at most `len` coefficients in units of 2^-52, from 2^52 on not
    /// rising.
    pub(super) fn of_column(len: usize, column: Vec<u64>) -> Self {
        Self {
            len,
            column,
            root: 1,
        }
    }

    /// How many earlier prefix noises enter the next.
    pub(super) fn window(&self) -> usize {
        self.column.len().min(self.len.saturating_sub(1))
    }

    /// d_1, …, d_window in units of 2^-52. Each is at most 2^52, and so is their sum.
    pub(super) fn decrements(&self) -> Vec<u64> {
        (1..=self.window())
            .map(|k| self.column[k - 1] - self.column.get(k).copied().unwrap_or(0))
            .collect()
    }

    /// c_k.
    pub(super) fn coefficient(&self, k: usize) -> f64 {
        let unit = (1_u64 << COEFFICIENT_BITS) as f64;
        self.column.get(k).map_or(0.0, |&c| c as f64 / unit)
    }

    /// An upper bound on the squared L2 norm of the sum of the columns 0, apart, 2 apart, … (at
    /// most `most` of them, as far as there are columns).
    ///
    /// # Privacy
    /// That is the squared sensitivity over **all** patterns of at most `most` participations at
    /// least `apart` steps apart, and all directions (Kalinin and Lampert 2024, Theorem 2). For
    /// columns i < j the inner product is Σ_{s < len − j} c_s c_{s+j−i}; with c non-negative and
    /// not increasing it does not increase in j, nor in j − i. The m-th participation of any
    /// pattern is at or after m·apart, and any two are at least as far apart as there. All inner
    /// products being non-negative, equal directions are the worst.
    pub(super) fn squared_sensitivity(&self, most: usize, apart: usize) -> f64 {
        let starts = most.min((self.len - 1) / apart + 1);
        let coefficient = |t: usize| u128::from(self.column.get(t).copied().unwrap_or(0));
        // The sum of the columns at time t is r_t = Σ_{m < starts} c_{t − m·apart}, in units of
        // 2^-52: r_{t−apart} with c_t, and without the term that falls out, which is one of its own.
        // Below 2^52 · 2^24 for the lengths that are accepted.
        let mut recent = VecDeque::new();
        let row = |t: usize| -> f64 {
            if starts == 1 {
                return coefficient(t) as f64;
            }
            let before = match t.checked_sub(apart) {
                Some(_) => recent.pop_front().unwrap_or(0),
                None => 0,
            };
            let gone = t.checked_sub(starts * apart).map_or(0, coefficient);
            let sum = before + coefficient(t) - gone;
            recent.push_back(sum);
            sum as f64
        };
        let unit = (1_u64 << COEFFICIENT_BITS) as f64;
        sum_of_squares_up((0..self.len).map(row).map(|r| r / unit))
    }

    /// b_0, …, b_{len−1}, the first column of B.
    ///
    /// # Formula
    /// b_m = c_m where C agrees with the square root of A, as B C = A; after
    /// that b_m = Σ_k d_k b_{m−k}. (The rounding of the coefficients moves b by at most
    /// len·2^-52.)
    fn response(&self) -> Vec<f64> {
        let band = self.column.len();
        let decrements: Vec<f64> = (1..=band)
            .map(|k| self.coefficient(k - 1) - self.coefficient(k))
            .collect();
        let mut response: Vec<f64> = (0..self.root).map(|k| self.coefficient(k)).collect();
        for m in self.root..self.len {
            let recent = response[m.saturating_sub(band)..].iter().rev();
            response.push(decrements.iter().zip(recent).map(|(d, b)| d * b).sum());
        }
        response
    }

    /// Σ_{m<t} b_m² for t = 1, …, len: the variance of Z_t for unit noise w; and
    /// 1 + Σ_{0<m<t} (b_m − b_{m−1})², that of Z_t − Z_{t−1}.
    pub(super) fn variances(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut before, mut sums, mut steps) = (0.0, 0.0, 0.0);
        self.response()
            .iter()
            .map(|b| {
                sums += b * b;
                steps += (b - before) * (b - before);
                before = *b;
                (sums, steps)
            })
            .unzip()
    }
}

/// An upper bound on the sum of the squares of non-negative numbers, each of which is within
/// one rounding of the number that is meant.
///
/// A square is off by at most 3.1 half-units relative, a sum of non-negative terms by as many as
/// there are additions on the way of a term: at most 512 inside a block, then one for each block.
pub(super) fn sum_of_squares_up(numbers: impl Iterator<Item = f64>) -> f64 {
    const BLOCK: usize = 512;
    let (mut total, mut block, mut count) = (0.0, 0.0, 0_usize);
    for x in numbers {
        block += x * x;
        count += 1;
        if count.is_multiple_of(BLOCK) {
            total += block;
            block = 0.0;
        }
    }
    let additions = (BLOCK + count / BLOCK + 8) as f64;
    (total + block) * (1.0 + additions * f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C = (I − D) A in whole numbers: A = B C exactly.
    #[test]
    fn the_factors_multiply_to_prefix_sums_exactly() {
        for len in 1..40 {
            for band in 1..=len {
                let factor = Factor::new(len, band);
                let decrements = factor.decrements();
                for t in 0..len {
                    // Row t, column 0 of (I − D) A, in units of 2^-52.
                    let taken: u64 = decrements.iter().take(t).sum();
                    let expected = factor.column.get(t).copied().unwrap_or(0);
                    assert_eq!(
                        (1 << COEFFICIENT_BITS) - taken,
                        expected,
                        "{len} {band} {t}"
                    );
                }
            }
        }
    }

    #[test]
    fn coefficients_fall_and_decrements_are_an_average() {
        for (len, band) in [(1, 1), (2, 2), (1000, 1000), (1000, 7), (1 << 16, 1 << 16)] {
            let factor = Factor::new(len, band);
            assert!(factor.column.is_sorted_by(|a, b| a >= b));
            assert_eq!(factor.column[0], 1 << COEFFICIENT_BITS);
            let sum: u64 = factor.decrements().iter().sum();
            assert!(sum <= 1 << COEFFICIENT_BITS);
            assert_eq!(
                sum == 1 << COEFFICIENT_BITS,
                band < len || len == 1 && sum > 0
            );
        }
    }

    /// Values from an independent computation with 30 digits: sensitivity², worst variance for
    /// that sensitivity, last coefficient.
    #[test]
    fn the_square_root_agrees_with_reference_values() {
        for (len, squared, worst, last) in [
            (2, 1.25, 1.5625, 0.5),
            (4, 1.48828125, 2.214_981_079_101_562_5, 0.3125),
            (
                7,
                1.674_500_465_393_066_4,
                2.803_951_808_601_596,
                0.225_585_937_5,
            ),
            (
                8,
                1.718_379_259_109_497,
                2.952_827_278_137_704,
                0.209_472_656_25,
            ),
            (
                100,
                2.531_352_112_635_569_4,
                6.407_743_518_144_559,
                0.056_631_637_195_232_586,
            ),
            (
                1000,
                3.265_003_080_672_431,
                10.660_245_116_800_466,
                0.017_847_935_113_411_026,
            ),
            (
                2048,
                3.493_228_600_678,
                12.202_646_056_594_777,
                0.012_469_229_609_270_336,
            ),
        ] {
            let factor = Factor::new(len, len);
            let sensitivity = factor.squared_sensitivity(1, 1);
            let variances = factor.variances().0;
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b;
            assert!(near(sensitivity, squared), "{len}: {sensitivity}");
            assert!(near(sensitivity * variances[len - 1], worst));
            assert!(near(factor.coefficient(len - 1), last));
        }
    }

    /// Against B = A C⁻¹ by dense forward substitution.
    #[test]
    fn variances_are_those_of_the_other_factor() {
        for (len, band) in [(1, 1), (9, 1), (9, 2), (40, 5), (40, 39), (40, 40)] {
            let factor = Factor::new(len, band);
            let mut b = vec![0.0; len];
            for m in 0..len {
                // (B C)_m = 1.
                let known: f64 = (0..m).map(|j| b[j] * factor.coefficient(m - j)).sum();
                b[m] = 1.0 - known;
            }
            let mut sum = 0.0;
            for (t, variance) in factor.variances().0.iter().enumerate() {
                sum += b[t] * b[t];
                assert!((variance - sum).abs() < 1e-12 * sum, "{len} {band} {t}");
            }
        }
    }

    /// By how much w must move so that B w makes up for a record, by forward substitution in B:
    /// first, last and other positions, for one participation and for several.
    #[test]
    fn displacements_of_the_noise_stay_within_the_sensitivity() {
        for (len, band, most, apart) in [
            (1, 1, 1, 1),
            (1024, 1024, 1, 1024),
            (1024, 32, 1, 1024),
            (300, 300, 4, 60),
            (300, 20, 10, 30),
            (300, 60, 10, 30),
        ] {
            let factor = Factor::new(len, band);
            let response = factor.response();
            let claimed = factor.squared_sensitivity(most, apart);
            let span = (most - 1) * apart;
            let mut worst: f64 = 0.0;
            for first in [0, 1, 2, len / 2, len - 2.min(len), len - 1] {
                for skew in [0, 1, 7] {
                    let mut record = vec![0.0; len];
                    (0..most)
                        .map(|m| first + m * (apart + skew))
                        .filter(|&at| at < len)
                        .for_each(|at| record[at] = 1.0);
                    let mut moved = vec![0.0; len];
                    let (mut prefix, mut squares) = (0.0, 0.0);
                    for t in 0..len {
                        prefix += record[t];
                        let known: f64 = (0..t).map(|j| moved[j] * response[t - j]).sum();
                        moved[t] = prefix - known;
                        squares += moved[t] * moved[t];
                    }
                    assert!(squares <= claimed * (1.0 + 1e-9), "{len} {band} {first}");
                    worst = worst.max(squares);
                }
            }
            assert!(
                span >= len || worst >= claimed * (1.0 - 1e-9),
                "{len} {band}"
            );
        }
    }

    /// Every pattern of participation, for every factor of up to 11 steps.
    #[test]
    fn no_pattern_exceeds_the_sensitivity() {
        for len in 1..=11_usize {
            for band in 1..=len {
                let factor = Factor::new(len, band);
                for most in 1..=len {
                    for apart in 1..=len {
                        let worst = worst_pattern(&factor, most, apart);
                        let claimed = factor.squared_sensitivity(most, apart);
                        assert!(worst <= claimed, "{len} {band} {most} {apart}");
                        assert!(
                            worst >= claimed * (1.0 - 1e-12),
                            "{len} {band} {most} {apart}"
                        );
                    }
                }
            }
        }
    }

    /// A record in every step of a long period: the sums of columns are those of the running
    /// sum of c, and it takes no time.
    #[test]
    fn a_long_period_over_all_records_is_planned_at_once() {
        let len = 1 << 20;
        let factor = Factor::new(len, len);
        let mut running = 0.0;
        let expected: f64 = (0..len)
            .map(|t| {
                running += factor.coefficient(t);
                running * running
            })
            .sum();
        let claimed = factor.squared_sensitivity(len, 1);
        assert!((claimed / expected - 1.0).abs() < 1e-9);
    }

    fn worst_pattern(factor: &Factor, most: usize, apart: usize) -> f64 {
        let len = factor.len;
        let mut worst: f64 = 0.0;
        for pattern in 1_u32..1 << len {
            let at: Vec<usize> = (0..len).filter(|&j| pattern >> j & 1 == 1).collect();
            if at.len() > most || at.windows(2).any(|p| p[1] - p[0] < apart) {
                continue;
            }
            let squared = (0..len)
                .map(|t| {
                    let touched = at.iter().filter(|&&j| j <= t);
                    touched.map(|&j| factor.coefficient(t - j)).sum::<f64>()
                })
                .map(|x| x * x)
                .sum();
            worst = worst.max(squared);
        }
        worst
    }
}
