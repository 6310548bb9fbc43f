//! A real Gaussian rounded to the nearest integer, sampled exactly.

use super::digits::{BitSource, LazyUniform};
use super::error::NoiseError;
use super::limbs::Limbs;
use super::normal::ExactNormal;
use super::stream::KeyedStream;

/// The law of `round(s·Z)`, where `Z` is a real standard normal and `s` a scale in lattice
/// steps: `P(k) = Φ((k+½)/s) − Φ((k−½)/s)` for every integer `k`.
///
/// The law is met exactly, for the real number that the `f64` scale stands for: no decision is
/// taken in floating point. Given uniform bits, the only thing that is not a theorem is the
/// program. See `docs/privacy/rounded-gaussian.md`.
///
/// How long a draw takes depends on what is drawn; timing is outside the threat model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundedGaussian {
    scale: f64,
    /// The scale is `mantissa · 2^exponent`, with `2^52 ≤ mantissa < 2^53`.
    mantissa: u64,
    /// From −57 to 8 over the supported scales.
    exponent: i32,
}

impl RoundedGaussian {
    /// The smallest scale; below it the noise is zero but for one draw in 10^22.
    pub const MIN_SCALE: f64 = 0.05;

    /// The largest scale, 2^60.
    pub const MAX_SCALE: f64 = 1_152_921_504_606_846_976.0;

    /// Noise with standard deviation `scale` before rounding, in lattice steps.
    ///
    /// What is accounted must be this number: where it comes from a division that is not exact,
    /// round it up.
    ///
    /// # Errors
    /// [`NoiseError::ScaleOutOfRange`] unless `0.05 ≤ scale ≤ 2^60`.
    pub fn new(scale: f64) -> Result<Self, NoiseError> {
        if !(Self::MIN_SCALE..=Self::MAX_SCALE).contains(&scale) {
            return Err(NoiseError::ScaleOutOfRange {
                scale,
                min: Self::MIN_SCALE,
                max: Self::MAX_SCALE,
            });
        }
        // The range has no subnormal numbers and no negative ones: the top bits are the biased
        // exponent alone, and the leading one of the mantissa is implicit.
        let bits = scale.to_bits();
        let fraction_bits = f64::MANTISSA_DIGITS - 1;
        let leading = 1_u64 << fraction_bits;
        Ok(Self {
            scale,
            mantissa: leading | (bits & (leading - 1)),
            exponent: (bits >> fraction_bits) as i32 - (1023 + fraction_bits as i32),
        })
    }

    /// The scale, in lattice steps.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// One draw. It always fits: its size is at most `2^60·(2^64) + 1`.
    #[must_use]
    pub fn sample(&self, stream: &mut KeyedStream) -> i128 {
        self.draw(stream)
    }

    /// Independent draws into every place of `out`.
    pub fn fill(&self, stream: &mut KeyedStream, out: &mut [i128]) {
        for place in out {
            *place = self.draw(stream);
        }
    }

    /// Adds an independent draw to every integer of `sums`, modulo 2^64.
    ///
    /// Wrapping around is a function of the exact noisy sum, hence post-processing: it can cost
    /// accuracy but never privacy, so no overflow check (which would look at the data) is
    /// needed. A sum below `2^62` in size is hit only if `|Z| ≥ 2^62 / scale`; for a scale of
    /// at most `2^52` that has probability below `exp(−500 000)`.
    pub fn add_wrapping(&self, stream: &mut KeyedStream, sums: &mut [i64]) {
        for sum in sums {
            // The cast reduces modulo 2^64.
            *sum = sum.wrapping_add(self.draw(stream) as i64);
        }
    }

    /// [`add_wrapping`](Self::add_wrapping) for wide integers, modulo 2^128.
    pub fn add_wrapping_wide(&self, stream: &mut KeyedStream, sums: &mut [i128]) {
        for sum in sums {
            *sum = sum.wrapping_add(self.draw(stream));
        }
    }

    /// One draw from any source of bits.
    #[inline]
    pub(super) fn draw<S: BitSource>(&self, source: &mut S) -> i128 {
        let mut normal = ExactNormal::draw(source);
        let size = self.round(normal.whole, &mut normal.fraction, source);
        // At most 2^124 + 1, see `round`.
        let size = size.cast_signed();
        if normal.negative { -size } else { size }
    }

    /// `⌊s·(whole + fraction) + ½⌋`, from as few digits of the fraction as decide it.
    ///
    /// With `L` digits known to base `B`, the real number `whole + fraction` lies in
    /// `[Y, Y + 1] / B^L` for the integer `Y = whole·B^L + digits`, so what is to be floored
    /// lies between `(m·Y + 2^(t−1)) / 2^t` and `(m·Y + m + 2^(t−1)) / 2^t`, with
    /// `t = L·log₂B − exponent`. The floor is monotone: if both ends have the same floor, that
    /// is the answer. If not, one more digit makes the interval `B` times shorter; it goes on
    /// for ever only if `s·(whole + fraction) + ½` is itself an integer, which has probability
    /// zero.
    ///
    /// The answer is at most `2^60·2^64 + 1`, so 128 bits hold it.
    #[inline]
    pub(super) fn round<S: BitSource>(
        &self,
        whole: u64,
        fraction: &mut LazyUniform,
        source: &mut S,
    ) -> u128 {
        if S::DIGIT_BITS == u64::BITS && whole < 1 << 10 {
            // One digit, in machine integers: m·Y + m + 2^(t−1) ≤ 2^53·2^10·2^64 + 2^120, below
            // 2^128, and t is between 56 and 121.
            let t = 64 - self.exponent;
            let known = u128::from(whole) << 64 | u128::from(fraction.head());
            let low = u128::from(self.mantissa) * known + (1 << (t - 1));
            let high = low + u128::from(self.mantissa);
            if low >> t == high >> t {
                return low >> t;
            }
        }
        self.round_in_full(whole, fraction, source)
    }

    /// [`round`](Self::round) in long integers, from the first digit on.
    #[cold]
    #[inline(never)]
    pub(super) fn round_in_full<S: BitSource>(
        &self,
        whole: u64,
        fraction: &mut LazyUniform,
        source: &mut S,
    ) -> u128 {
        let mut known = Limbs::new(whole);
        let mut t = -i64::from(self.exponent);
        let mut index = 0;
        loop {
            known.append(S::DIGIT_BITS, fraction.digit(index, source));
            index += 1;
            t += i64::from(S::DIGIT_BITS);
            // With t below one the interval is longer than one: no need to look at it. That
            // happens only for digits shorter than those in use.
            let Some(half) = u64::try_from(t - 1).ok() else {
                continue;
            };
            let low = known.clone().times(self.mantissa).plus_shifted(1, half);
            let high = low.clone().plus_shifted(self.mantissa, 0);
            let (low, high) = (low.shifted_down(half + 1), high.shifted_down(half + 1));
            if low == high {
                return low;
            }
        }
    }
}
