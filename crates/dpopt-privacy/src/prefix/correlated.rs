//! Toeplitz noise in fixed point, with a certified error.
//!
//! Z_t = w_t + Σ_k d_k Z_{t−k} in integers of `fraction_bits` digits after the point. A draw is off
//! by at most one unit, the average is rounded to nearest, and earlier errors are averaged like
//! earlier noise: the error of Z_t is at most e_t = 3/2 + Σ_k d_k e_{t−k} units, the same for all
//! coordinates, and public. Where s (Z_t ± e_t) rounds to one integer, that is round(s Z_t);
//! elsewhere [`exact::round`](super::exact::round) decides.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use super::exact::Scale;
use super::normals;
use super::toeplitz::{COEFFICIENT_BITS, Factor};

/// Errors are kept in this many parts of a unit.
const PARTS: u128 = 256;

/// The recurrence and its error so far; public.
#[derive(Debug)]
pub(super) struct Recurrence {
    decrements: Vec<u64>,
    fraction_bits: u32,
    /// The last errors, the newest at the back, in parts of a unit.
    errors: VecDeque<u64>,
}

impl Recurrence {
    /// For noise whose worst variance is `worst` times that of w.
    ///
    /// A number may have 62 bits; so many are kept before the point that the worst noise overflows
    /// them at 16 standard deviations (probability below 1e-56; the exact path takes over then).
    pub(super) fn new(factor: &Factor, worst: f64) -> Self {
        let before = (16.0 * worst.sqrt()).log2().ceil() as u32;
        Self::with_bits(factor, 62_u32.saturating_sub(before).min(normals::MAX_BITS))
    }

    /// With this many digits after the point.
    pub(super) fn with_bits(factor: &Factor, fraction_bits: u32) -> Self {
        Self {
            decrements: factor.decrements(),
            fraction_bits,
            errors: VecDeque::new(),
        }
    }

    pub(super) fn decrements(&self) -> &[u64] {
        &self.decrements
    }

    pub(super) fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    /// Goes on to the next step and returns the bound on its error, in whole units.
    pub(super) fn advance(&mut self) -> u64 {
        let carried: u128 = self
            .decrements
            .iter()
            .zip(self.errors.iter().rev())
            .map(|(&d, &e)| u128::from(d) * u128::from(e))
            .sum();
        // The d's sum to at most 2^52, so this is at most the largest earlier error plus two
        // units: after 2^24 steps below 2^33 parts.
        let error = 3 * PARTS / 2 + carried.div_ceil(1 << COEFFICIENT_BITS);
        if self.errors.len() == self.decrements.len() {
            self.errors.pop_front();
        }
        self.errors.push_back(error as u64);
        error.div_ceil(PARTS) as u64
    }
}

/// The noise of one block of coordinates.
pub(super) struct Correlated {
    /// The last Z's, the newest at the back.
    recent: VecDeque<Zeroizing<Vec<i64>>>,
    /// Whether a number left its range; nothing here is known to be right from then on.
    overflowed: bool,
}

impl Correlated {
    pub(super) fn new() -> Self {
        Self {
            recent: VecDeque::new(),
            overflowed: false,
        }
    }

    /// Takes the next w, of the block's length, as [`normals::fill`] gives it. Puts round(s Z_t)
    /// into `out` and returns the places that are not decided.
    pub(super) fn next(
        &mut self,
        w: &[i64],
        recurrence: &Recurrence,
        error: u64,
        scale: Scale,
        out: &mut [i128],
    ) -> Vec<usize> {
        let mut sums = Zeroizing::new(vec![0_i128; w.len()]);
        for (&d, row) in recurrence.decrements.iter().zip(self.recent.iter().rev()) {
            // At most 2^52, and all of them sum to at most that: the total stays below 2^114.
            let d = i128::from(d);
            for (sum, &z) in sums.iter_mut().zip(row.iter()) {
                *sum += d * i128::from(z);
            }
        }
        let limit = i128::from(normals::TOO_LARGE);
        let mut z = Zeroizing::new(w.to_vec());
        for (z, &sum) in z.iter_mut().zip(sums.iter()) {
            let average = (sum + (1 << (COEFFICIENT_BITS - 1))) >> COEFFICIENT_BITS;
            let w = i128::from(*z);
            let next = w + average;
            self.overflowed |= w.abs() >= limit || next.abs() >= limit;
            *z = next.clamp(-limit, limit) as i64;
        }
        let undecided = if self.overflowed {
            (0..z.len()).collect()
        } else {
            let bits = recurrence.fraction_bits;
            round_all(&z, error, bits, scale, out)
        };
        if self.recent.len() == recurrence.decrements.len() {
            self.recent.pop_front();
        }
        if !recurrence.decrements.is_empty() {
            self.recent.push_back(z);
        }
        undecided
    }
}

/// round(s z 2^-bits) into `out` where it is the same all over z ± error; the other places.
fn round_all(z: &[i64], error: u64, bits: u32, scale: Scale, out: &mut [i128]) -> Vec<usize> {
    let shift = i64::from(bits) - i64::from(scale.exponent);
    // Both ends of the interval are below 2^62 + 2^34 in size and the mantissa below 2^53: all
    // sums below stay within 2^127 for shifts up to 124.
    if !(1..=124).contains(&shift) {
        return (0..z.len()).collect();
    }
    let half = 1_i128 << (shift - 1);
    let mantissa = i128::from(scale.mantissa);
    let mut undecided = Vec::new();
    for (place, (out, &z)) in out.iter_mut().zip(z).enumerate() {
        let low = ((i128::from(z) - i128::from(error)) * mantissa + half) >> shift;
        let high = ((i128::from(z) + i128::from(error)) * mantissa + half) >> shift;
        *out = low;
        if low != high {
            undecided.push(place);
        }
    }
    undecided
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_bound_covers_the_sum_of_all_roundings() {
        // Against e_t = 3/2 Σ_{m<t} b_m in floating point, b from its recurrence.
        for (len, band) in [(1, 1), (500, 500), (500, 3), (500, 1)] {
            let factor = Factor::new(len, band);
            let mut recurrence = Recurrence::with_bits(&factor, 55);
            let decrements = recurrence.decrements.clone();
            let mut response: Vec<f64> = Vec::new();
            for m in 0..len {
                let b = decrements
                    .iter()
                    .zip(response.iter().rev())
                    .map(|(&d, b)| d as f64 / 2f64.powi(52) * b)
                    .sum::<f64>();
                response.push(if m == 0 { 1.0 } else { b });
                let expected = 1.5 * response.iter().sum::<f64>();
                let bound = recurrence.advance() as f64;
                assert!(bound >= expected, "{len} {band} {m}");
                assert!(bound <= expected * 1.01 + 2.0, "{len} {band} {m}");
            }
        }
    }

    #[test]
    fn bits_leave_room_for_sixteen_deviations() {
        for (len, band, bits) in [
            (1, 1, 55),
            (1024, 1024, 55),
            (1 << 14, 1 << 14, 55),
            (1 << 12, 1, 52),
        ] {
            let factor = Factor::new(len, band);
            let worst = factor.variances().into_iter().fold(0.0, f64::max);
            assert_eq!(
                Recurrence::new(&factor, worst).fraction_bits(),
                bits,
                "{len}"
            );
        }
    }

    #[test]
    fn an_overflow_leaves_everything_to_the_exact_path() {
        let factor = Factor::new(4, 4);
        let mut recurrence = Recurrence::with_bits(&factor, 55);
        let mut block = Correlated::new();
        let mut out = [0; 2];
        for step in 0..3 {
            let error = recurrence.advance();
            // 3, then 64, then nothing.
            let w = [[3 << 55, 0], [normals::TOO_LARGE, 0], [0, 0]][step];
            let undecided = block.next(&w, &recurrence, error, Scale::new(8.0), &mut out);
            assert_eq!(undecided.len(), if step == 0 { 0 } else { 2 });
        }
    }
}
