//! A real Gaussian rounded to the nearest integer, sampled exactly.

use super::dyadic::low_bits;
use dpopt_lanes::Threads;
use num_bigint::BigUint;

use super::accept::Abscissa;
use super::accept::HEAD_BITS;
use super::blocks::over_blocks;
use super::digits::BitSource;
use super::dyadic;
use super::error::NoiseError;
use super::real::{RealNormal, is_negative, quick};
use super::stream::{Key, KeyedStream, StreamId};
use super::strips::Strips;

/// The law of `round(s·Z)`, where `Z` is a real standard normal and `s` a scale in lattice
/// steps: `P(k) = Φ((k+½)/s) − Φ((k−½)/s)` for every integer `k`.
///
/// The law is met exactly, for the real number that the `f64` scale stands for: no decision is
/// taken in floating point. Given uniform bits, the only thing that is not a theorem is the
/// program. See `docs/privacy/sums.md`.
///
/// How long a draw takes depends on what is drawn; timing is outside the threat model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundedGaussian {
    scale: f64,
    /// The scale is `mantissa · 2^exponent`, with `2^52 ≤ mantissa < 2^53`.
    mantissa: u64,
    /// From −57 to 8 over the supported scales.
    exponent: i32,
    quick: QuickRounding,
}

/// How to round a head below 2^57 with one product of machine words.
///
/// With `M = mantissa·2^i` and `i = min(11, 63 + exponent)`, the high word `h` of `M·(64·head)`
/// is `s·head/2^55` in units of `2^−shift`, rounded down, for `shift = i − 3 − exponent`. For
/// every number in `[head, head + 1]/2^55` the product is below `h + 1 + 64` units, as `M < 2^64`.
/// Where adding one half does not bring that interval to an integer, the digits above the point
/// are decided.
#[derive(Debug, Clone, Copy, PartialEq)]
struct QuickRounding {
    multiplier: u64,
    shift: u32,
    half: u64,
    /// Parts of a step at or above which the next integer is near; zero if that is always so.
    near: u64,
}

impl QuickRounding {
    /// Units by which the upper end of the interval may be beyond the lower.
    const WIDTH: u64 = 65;

    fn new(mantissa: u64, exponent: i32) -> Self {
        let up = (63 + exponent).min(11);
        let shift = up - 3 - exponent;
        // From 0 at a scale of 2^60 to 60 at the smallest one; below 8 an interval is longer
        // than a step.
        let (half, near) = if shift < 8 {
            (0, 0)
        } else {
            (1 << (shift - 1), (1 << shift) - Self::WIDTH)
        };
        Self {
            multiplier: mantissa << up,
            shift: shift as u32,
            half,
            near,
        }
    }

    /// `⌊s·|z| + ½⌋` for all `|z|` in `[head, head + 1]/2^55`, if it is the same for all.
    ///
    /// `h < 2^63`, since `64·head < 2^63`; so adding `half ≤ 2^59` does not overflow.
    #[inline(always)]
    fn round(&self, head: u64) -> Option<u64> {
        let product = u128::from(self.multiplier) * u128::from(head << 6);
        let high = (product >> u64::BITS) as u64 + self.half;
        let part = high & ((1 << self.shift) - 1);
        (part < self.near).then_some(high >> self.shift)
    }
}

impl RoundedGaussian {
    /// The smallest scale; below it the noise is zero but for one draw in 10^22.
    pub const MIN_SCALE: f64 = 0.05;

    /// The largest scale, 2^60.
    pub const MAX_SCALE: f64 = 1_152_921_504_606_846_976.0;

    /// Noise with standard deviation `scale` before rounding, in lattice steps.
    ///
    /// The accounted number must be this one: where it comes from a division that is not exact,
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
        let (mantissa, exponent) = dyadic::split(scale);
        Ok(Self {
            scale,
            mantissa,
            exponent,
            quick: QuickRounding::new(mantissa, exponent),
        })
    }

    /// The scale, in lattice steps.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// One draw. It always fits, see [`add_wrapping`](Self::add_wrapping) for its size.
    #[must_use]
    pub fn sample(&self, stream: &mut KeyedStream) -> i128 {
        self.draw(Strips::get(), stream)
    }

    /// Independent draws into every place of `out`.
    pub fn fill(&self, stream: &mut KeyedStream, out: &mut [i128]) {
        let table = Strips::get();
        for place in out {
            *place = self.draw(table, stream);
        }
    }

    /// Adds an independent draw to every integer of `sums`, modulo 2^64.
    ///
    /// Wrapping around is a function of the exact noisy sum, hence post-processing: it can cost
    /// accuracy but never privacy, so no overflow check (which would look at the data) is
    /// needed. A sum below `2^62` in size is hit only if `|Z| ≥ 2^62 / scale`; for a scale of
    /// at most `2^52` that has probability below `exp(−500 000)`.
    pub fn add_wrapping(&self, stream: &mut KeyedStream, sums: &mut [i64]) {
        let table = Strips::get();
        for sum in sums {
            sum.add_wrapping(self.draw(table, stream));
        }
    }

    /// [`add_wrapping`](Self::add_wrapping) for wide integers, modulo 2^128.
    pub fn add_wrapping_wide(&self, stream: &mut KeyedStream, sums: &mut [i128]) {
        let table = Strips::get();
        for sum in sums {
            sum.add_wrapping(self.draw(table, stream));
        }
    }

    /// Adds the noise of one release to a long vector, from up to `threads` threads: the
    /// integers are those of [`add_wrapping`](Self::add_wrapping), `i64` modulo 2^64 or `i128`
    /// modulo 2^128.
    ///
    /// Every 512 coordinates are a keyed block of `id` of their own, so the noise is a function
    /// of the key and `id`, whatever the number of threads. `id` must be the first block of a release,
    /// and the release must not be used again: the vector takes its blocks.
    ///
    /// # Errors
    /// Nothing has been drawn or added then: [`NoiseError::EmptyVector`],
    /// [`NoiseError::Forked`], [`NoiseError::NotFirstBlock`], and [`NoiseError::BlockOutOfRange`]
    /// above 2^33 coordinates.
    pub fn add_release<T: NoisySum>(
        &self,
        key: &Key,
        id: StreamId,
        threads: &Threads,
        sums: &mut [T],
    ) -> Result<(), NoiseError> {
        let table = Strips::get();
        over_blocks(key, id, threads, sums, |source, _, sum| {
            sum.add_wrapping(self.draw(table, source));
        })
    }

    /// The noisy numbers of a release: those of [`add_release`](Self::add_release) on `exact`, times `step`, in one pass.
    ///
    /// # Errors
    /// As [`add_release`](Self::add_release).
    pub(crate) fn release<T: NoisySum>(
        &self,
        key: &Key,
        id: StreamId,
        threads: &Threads,
        exact: &[T],
        step: f64,
    ) -> Result<Vec<f64>, NoiseError> {
        let table = Strips::get();
        let mut out = vec![0.0; exact.len()];
        over_blocks(key, id, threads, &mut out, |source, index, place| {
            let (exact, word) = (exact[index], source.word());
            let quick = self.draw_quickly(word, table);
            *place = match quick.and_then(|draw| exact.plus(draw)) {
                Some(noisy) => noisy as f64 * step,
                None => {
                    let draw = match quick {
                        Some(draw) => i128::from(draw),
                        None => self.draw_slowly(word, table, source),
                    };
                    of_steps(exact.into().wrapping_add(draw), step)
                }
            };
        })?;
        Ok(out)
    }

    /// What the quick path says of `|z|` in `[head, head + 1]/2^55`.
    #[cfg(test)]
    pub(super) fn round_quickly(&self, head: u64) -> Option<u64> {
        self.quick.round(head)
    }

    /// One draw from any source of bits.
    #[inline(always)]
    pub(super) fn draw<S: BitSource>(&self, table: &Strips, source: &mut S) -> i128 {
        let word = source.word();
        match self.draw_quickly(word, table) {
            Some(draw) => i128::from(draw),
            None => self.draw_slowly(word, table, source),
        }
    }

    /// The draw that begins with `word`, where that word decides it. It is at most 2^62: a quick head is below 4.
    #[inline(always)]
    fn draw_quickly(&self, word: u64, table: &Strips) -> Option<i64> {
        let size = self.quick.round(quick(word, table)?)?.cast_signed();
        Some(if is_negative(word) { -size } else { size })
    }

    #[cold]
    #[inline(never)]
    fn draw_slowly<S: BitSource>(&self, word: u64, table: &Strips, source: &mut S) -> i128 {
        let mut normal = RealNormal::from_word(word, table, source);
        // Below 2^127: see `round`.
        let size = self.round(&mut normal, source).cast_signed();
        if normal.negative { -size } else { size }
    }

    /// `⌊s·|z| + ½⌋`, from as few digits of `|z|` as decide it.
    ///
    /// With `b` digits known after the point, `|z|` lies in `[X, X + 1]/2^b`, so what is to be
    /// floored lies between `(m·X + 2^(t−1)) / 2^t` and `(m·X + m + 2^(t−1)) / 2^t`, with
    /// `t = b − exponent`. The floor is monotone: if both ends have the same floor, that is the
    /// answer. If not, one more digit makes the interval shorter; it goes on for ever only if
    /// `s·|z| + ½` is itself an integer, which has probability zero.
    ///
    /// The answer is below 2^127 unless `|z|` is above 2^66.
    #[inline]
    pub(super) fn round<S: BitSource>(&self, normal: &mut RealNormal, source: &mut S) -> u128 {
        self.round_in_words(normal, source)
            .unwrap_or_else(|| self.round_in_full(normal, source))
    }

    /// [`round`](Self::round) in machine integers, from a head below 2^64 and up to one digit
    /// more; nothing if that leaves it open.
    ///
    /// `m·X < 2^117`, and `t` is between 47 and 112. With another digit `D` the lower end is
    /// `(m·X + m·D/2^64 + 2^(t−1)) / 2^t`; what is dropped from `m·D` below 2^64 decides nothing
    /// but whether the upper end, `m/2^64` higher, carries.
    fn round_in_words<S: BitSource>(
        &self,
        normal: &mut RealNormal,
        source: &mut S,
    ) -> Option<u128> {
        let m = u128::from(self.mantissa);
        let t = HEAD_BITS as i32 - self.exponent;
        let low = m * u128::from(normal.small_head()?) + (1 << (t - 1));
        if low >> t == (low + m) >> t {
            return Some(low >> t);
        }
        if S::DIGIT_BITS != u64::BITS {
            return None;
        }
        let below = m * u128::from(normal.digit(1, source));
        let low = low + (below >> u64::BITS);
        let carry = (below as u64).overflowing_add(self.mantissa).1;
        (low >> t == (low + u128::from(carry)) >> t).then_some(low >> t)
    }

    /// [`round`](Self::round) in long integers.
    #[cold]
    #[inline(never)]
    pub(super) fn round_in_full<S: BitSource>(
        &self,
        normal: &mut RealNormal,
        source: &mut S,
    ) -> u128 {
        let mut levels = 0;
        loop {
            let (known, bits) = normal.known(levels, source);
            levels += 1;
            // t − 1; b ≥ 55 and the exponent is at most 8.
            let half = bits.saturating_add_signed(-i64::from(self.exponent)) - 1;
            let low = known * self.mantissa + (BigUint::ONE << half);
            let high = &low + self.mantissa;
            let [low, high] = [low, high].map(|end| low_bits(&(end >> (half + 1))));
            if low == high {
                return low;
            }
        }
    }
}

/// The number that stands `k` steps from zero. One word holds nearly every `k`, and the conversion of two is slow; where one does, both
/// round to the same number.
#[inline(always)]
pub(crate) fn of_steps(k: i128, step: f64) -> f64 {
    let number = match i64::try_from(k) {
        Ok(k) => k as f64,
        Err(_) => of_two_words(k),
    };
    number * step
}

/// Apart, since a compiler that sees both conversions makes one of them, the slow one.
#[cold]
#[inline(never)]
fn of_two_words(k: i128) -> f64 {
    k as f64
}

/// An integer to which noise can be added, modulo two to the number of its bits.
pub trait NoisySum: Copy + Into<i128> + Send + Sync + private::Sealed {
    /// Adds `noise`, wrapping around.
    fn add_wrapping(&mut self, noise: i128);

    /// The sum with a draw, where a word holds it.
    fn plus(self, draw: i64) -> Option<i64>;
}

impl NoisySum for i64 {
    #[inline(always)]
    fn add_wrapping(&mut self, noise: i128) {
        // The cast reduces modulo 2^64.
        *self = self.wrapping_add(noise as i64);
    }

    #[inline(always)]
    fn plus(self, draw: i64) -> Option<i64> {
        self.checked_add(draw)
    }
}

impl NoisySum for i128 {
    #[inline(always)]
    fn add_wrapping(&mut self, noise: i128) {
        *self = self.wrapping_add(noise);
    }

    #[inline(always)]
    fn plus(self, draw: i64) -> Option<i64> {
        i64::try_from(self).ok()?.checked_add(draw)
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for i64 {}
    impl Sealed for i128 {}
}
