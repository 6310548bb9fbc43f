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

/// Coordinates whose words stand together: as many as fill a line of a cache.
const TILE: usize = 8;

/// Coordinates that are averaged together: as many as have their sums in registers.
const ABREAST: usize = 2;

/// The noise of one block of coordinates.
pub(super) struct Correlated {
    /// The last Z's, the newest at the back.
    recent: VecDeque<Row>,
    /// Whether a number left its range; nothing here is known to be right from then on.
    overflowed: bool,
}

/// Integers of at most 2^126 in size, high and low words apart, by tiles.
struct Row {
    high: Zeroizing<Vec<[i64; TILE]>>,
    low: Zeroizing<Vec<[u64; TILE]>>,
}

impl Row {
    fn zeros(tiles: usize) -> Self {
        Self {
            high: Zeroizing::new(vec![[0; TILE]; tiles]),
            low: Zeroizing::new(vec![[0; TILE]; tiles]),
        }
    }
}

/// The sums of products of decrements with the high and the low words of a coordinate.
///
/// The d's sum to at most 2^52: the sums stay below 2^115 and 2^116, and nothing wraps around.
#[derive(Clone, Copy)]
struct Average {
    high: i128,
    low: u128,
}

impl Average {
    #[inline(always)]
    fn add(&mut self, d: u64, high: i64, low: u64) {
        let product = i128::from(d.cast_signed()).wrapping_mul(i128::from(high));
        self.high = self.high.wrapping_add(product);
        let product = u128::from(d).wrapping_mul(u128::from(low));
        self.low = self.low.wrapping_add(product);
    }

    /// (high 2^64 + low) / 2^52, to nearest: the first part is a whole number.
    #[inline(always)]
    fn get(self) -> i128 {
        let low = (self.low + (1 << (COEFFICIENT_BITS - 1))) >> COEFFICIENT_BITS;
        (self.high << (64 - COEFFICIENT_BITS)) + low.cast_signed()
    }
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
        let decrements = &recurrence.decrements;
        let full = self.recent.len() == decrements.len();
        let oldest = full.then(|| self.recent.pop_front()).flatten();
        // The new row takes the place of the oldest, which is zero as long as there is none.
        let mut row = oldest.unwrap_or_else(|| Row::zeros(w.len().div_ceil(TILE)));
        let last = decrements.get(self.recent.len()).copied().unwrap_or(0);
        let rounding = Rounding::new(error, recurrence.fraction_bits, scale);
        let earlier: Vec<(u64, &Row)> = decrements
            .iter()
            .copied()
            .zip(self.recent.iter().rev())
            .collect();
        let mut undecided = Vec::new();
        for (tile, (w, out)) in w.chunks(TILE).zip(out.chunks_mut(TILE)).enumerate() {
            let mut averages = [0; TILE];
            for (part, averages) in averages.as_chunks_mut::<ABREAST>().0.iter_mut().enumerate() {
                let mut sums = [Average { high: 0, low: 0 }; ABREAST];
                let mut add = |d, row: &Row| {
                    let (high, low) = (&row.high[tile], &row.low[tile]);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let place = part * ABREAST + i;
                        sum.add(d, high[place], low[place]);
                    }
                };
                earlier.iter().for_each(|&(d, row)| add(d, row));
                add(last, &row);
                *averages = sums.map(Average::get);
            }
            for (i, (&w, out)) in w.iter().zip(out).enumerate() {
                // Both are at most 2^126 and a little in size.
                let next = w + averages[i];
                self.overflowed |= is_large(w) || is_large(next);
                let z = if is_large(next) { 0 } else { next };
                (row.high[tile][i], row.low[tile][i]) = ((z >> 64) as i64, z as u64);
                match rounding.round(z) {
                    Some(rounded) => *out = rounded,
                    None => undecided.push(tile * TILE + i),
                }
            }
        }
        if !decrements.is_empty() {
            self.recent.push_back(row);
        }
        if self.overflowed {
            return (0..w.len()).collect();
        }
        undecided
    }
}

/// Whether it is 2^126 or more in size, as far as the high word tells.
#[inline(always)]
fn is_large(z: i128) -> bool {
    const LIMIT: u64 = (normals::TOO_LARGE >> 64) as u64;
    ((z >> 64) as i64).unsigned_abs() >= LIMIT
}

/// round(s z 2^-bits) where it is the same all over z ± error.
///
/// With M = mantissa · 2^10 < 2^63 and v the high word of z, h = ⌊v M / 2^64⌋ is s v in units of
/// 2^-shift steps, rounded down. As z ± error lies in [v − 1, v + 2] · 2^64, what is to be rounded lies
/// in [h − 1, h + 2] units: (v − 1) M and (v + 2) M are less than half a unit below and one above v M.
#[derive(Clone, Copy)]
struct Rounding {
    error: i128,
    digits: u32,
    scale: Scale,
    multiplier: i64,
    /// At most 58, since an exponent is at least −57; none where a step has fewer than 8 units.
    shift: Option<u32>,
}

impl Rounding {
    fn new(error: u64, digits: u32, scale: Scale) -> Self {
        let shift = i64::from(digits) - 64 - i64::from(scale.exponent) - 54;
        Self {
            error: i128::from(error),
            digits,
            scale,
            multiplier: (scale.mantissa << 10).cast_signed(),
            shift: u32::try_from(shift)
                .ok()
                .filter(|shift| (3..=58).contains(shift)),
        }
    }

    #[inline(always)]
    fn round(&self, z: i128) -> Option<i128> {
        let high = (z >> 64) as i64;
        let units = ((i128::from(high) * i128::from(self.multiplier)) >> 64) as i64;
        if let Some(shift) = self.shift {
            // Below 2^62 and 2^57 in size.
            let low = units - 1 + (1 << (shift - 1));
            let part = low & ((1 << shift) - 1);
            if part < (1 << shift) - 3 {
                return Some(i128::from(low >> shift));
            }
        }
        self.round_in_full(z)
    }

    #[cold]
    #[inline(never)]
    fn round_in_full(&self, z: i128) -> Option<i128> {
        if i64::from(self.digits) <= i64::from(self.scale.exponent) {
            return None;
        }
        let [low, high] = [z - self.error, z + self.error]
            .map(|z| exact::round_scaled(z, self.scale, u64::from(self.digits)));
        (low == high).then_some(low)
    }
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
