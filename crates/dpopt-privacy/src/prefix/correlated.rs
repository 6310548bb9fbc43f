//! Toeplitz noise in fixed point, with a certified error.
//!
//! Z_t = w_t + Σ_k d_k Z_{t−k} in integers of up to 119 digits after the point, kept in two words. A
//! draw is off by at most one unit, the average is rounded to nearest, and earlier errors are
//! averaged like earlier noise: the error of Z_t is at most e_t = 3/2 + Σ_k d_k e_{t−k} units, the
//! same for all coordinates, and public. Where s (Z_t ± e_t) rounds to one integer, that is
//! round(s Z_t): the high word nearly always decides, then both; elsewhere
//! [`exact::round`](super::exact::round) decides.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use super::exact::{self, Scale};
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
    /// A number may have 126 bits; the part before the point is so large that the worst noise overflows
    /// it at 16 standard deviations (probability below 1e-56; the exact path takes over then).
    pub(super) fn new(factor: &Factor, worst: f64) -> Self {
        let before = (16.0 * worst.sqrt()).log2().ceil() as u32;
        Self::with_bits(
            factor,
            126_u32.saturating_sub(before).min(normals::MAX_BITS),
        )
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
    recent: VecDeque<Words>,
    /// Whether a number left its range; nothing here is known to be right from then on.
    overflowed: bool,
}

/// Integers below 2^127 in size, high and low words apart.
struct Words {
    high: Zeroizing<Vec<i64>>,
    low: Zeroizing<Vec<u64>>,
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
        w: &[i128],
        recurrence: &Recurrence,
        error: u64,
        scale: Scale,
        out: &mut [i128],
    ) -> Vec<usize> {
        let mut high = Zeroizing::new(vec![0_i128; w.len()]);
        let mut low = Zeroizing::new(vec![0_u128; w.len()]);
        for (&d, row) in recurrence.decrements.iter().zip(self.recent.iter().rev()) {
            // The d's sum to at most 2^52: what is added up stays below 2^115 and 2^116, and
            // nothing wraps around.
            let signed = i128::from(d.cast_signed());
            for (sum, &z) in high.iter_mut().zip(row.high.iter()) {
                *sum = sum.wrapping_add(signed.wrapping_mul(i128::from(z)));
            }
            let unsigned = u128::from(d);
            for (sum, &z) in low.iter_mut().zip(row.low.iter()) {
                *sum = sum.wrapping_add(unsigned.wrapping_mul(u128::from(z)));
            }
        }
        let mut z = Zeroizing::new(w.to_vec());
        for (z, (&high, &low)) in z.iter_mut().zip(high.iter().zip(low.iter())) {
            // (high 2^64 + low) / 2^52, to nearest: the first part is a whole number.
            let low = (low + (1 << (COEFFICIENT_BITS - 1))) >> COEFFICIENT_BITS;
            let average = (high << (64 - COEFFICIENT_BITS)) + low.cast_signed();
            // Both are at most 2^126 and a little in size.
            let next = *z + average;
            let limit = normals::TOO_LARGE;
            self.overflowed |= z.abs() >= limit || next.abs() >= limit;
            *z = next.clamp(-limit, limit);
        }
        let undecided = if self.overflowed {
            (0..z.len()).collect()
        } else {
            round_all(&z, error, recurrence.fraction_bits, scale, out)
        };
        if self.recent.len() == recurrence.decrements.len() {
            self.recent.pop_front();
        }
        if !recurrence.decrements.is_empty() {
            self.recent.push_back(Words {
                high: Zeroizing::new(z.iter().map(|z| (z >> 64) as i64).collect()),
                low: Zeroizing::new(z.iter().map(|&z| z as u64).collect()),
            });
        }
        undecided
    }
}

/// round(s z 2^-bits) into `out` where it is the same all over z ± error; the other places.
fn round_all(z: &[i128], error: u64, bits: u32, scale: Scale, out: &mut [i128]) -> Vec<usize> {
    let error = i128::from(error);
    let mantissa = i128::from(scale.mantissa);
    let exponent = i64::from(scale.exponent);
    // Of the high words: below 2^63 in size, times a mantissa below 2^53, and the half of a shift
    // of at most 124 stay within 2^126.
    let shift = i64::from(bits) - 64 - exponent;
    let quick = (1..=124).contains(&shift);
    let digits = (i64::from(bits) > exponent).then_some(u64::from(bits));
    let mut undecided = Vec::new();
    for (place, (out, &z)) in out.iter_mut().zip(z).enumerate() {
        if quick {
            let half = 1_i128 << (shift - 1);
            let low = (((z - error) >> 64) * mantissa + half) >> shift;
            let high = ((((z + error) >> 64) + 1) * mantissa + half) >> shift;
            *out = low;
            if low == high {
                continue;
            }
        }
        match digits
            .map(|digits| [z - error, z + error].map(|z| exact::round_scaled(z, scale, digits)))
        {
            Some([low, high]) if low == high => *out = low,
            _ => undecided.push(place),
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
            let mut recurrence = Recurrence::with_bits(&factor, 119);
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
            (1, 1, 119),
            (1024, 1024, 119),
            (1 << 14, 1 << 14, 119),
            (1 << 12, 1, 116),
        ] {
            let factor = Factor::new(len, band);
            let worst = factor.variances().0.into_iter().fold(0.0, f64::max);
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
        let mut recurrence = Recurrence::with_bits(&factor, 119);
        let mut block = Correlated::new();
        let mut out = [0; 2];
        for step in 0..3 {
            let error = recurrence.advance();
            // 3, then 64, then nothing.
            let w = [[3 << 119, 0], [normals::TOO_LARGE, 0], [0, 0]][step];
            let undecided = block.next(&w, &recurrence, error, Scale::new(8.0), &mut out);
            assert_eq!(undecided.len(), if step == 0 { 0 } else { 2 });
        }
    }
}
