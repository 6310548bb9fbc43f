//! A Gaussian on the integers, sampled exactly.

use dpopt_lanes::Threads;

use super::accept::HEAD_BITS;
use super::accept::{Abscissa, Under};
use super::blocks::over_blocks;
use super::digits::BitSource;
use super::dyadic;
use super::error::NoiseError;
use super::limbs::Limbs;
use super::real::{is_negative, sixteenths};
use super::rounded_gaussian::NoisySum;
use super::stream::{Key, KeyedStream, StreamId};
use super::strips::{Cell, Strips};

/// The law `P(k) = exp(−k²/2σ²) / Σ_j exp(−j²/2σ²)` on the integers, for the real number `σ` that
/// the `f64` parameter stands for (Canonne, Kamath and Steinke, "The discrete Gaussian for
/// differential privacy", 2020, Definition 1).
///
/// # Privacy
/// Added to an integer vector of L2 sensitivity `Δ` it is `Δ²/2σ²`-zCDP (their Theorem 14): that is
/// how [`Event::DiscreteGaussian`](crate::Event::DiscreteGaussian) is accounted. It is **not**
/// exactly Gaussian-DP; [`RoundedGaussian`](super::RoundedGaussian) is.
///
/// # Sampling
/// The boxes of the real normal, but of the points in a strip only those whose abscissa is a
/// multiple of `1/σ` are candidates, all of equal probability. No decision is taken in floating
/// point; see `docs/privacy/discrete-noise.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscreteGaussian {
    scale: f64,
    /// `σ = mantissa · 2^exponent`.
    mantissa: u64,
    exponent: i32,
    /// Candidates in a strip: `⌈σ/64⌉`, the most integers in an interval of that length.
    slots: u64,
}

impl DiscreteGaussian {
    /// The smallest parameter.
    pub const MIN_SCALE: f64 = 0.05;

    /// The largest parameter, 2^60.
    pub const MAX_SCALE: f64 = 1_152_921_504_606_846_976.0;

    /// Noise of parameter `σ = scale`, in lattice steps. (Its standard deviation is below `σ`: by
    /// 1.1e-7 of it at `σ = 1`, by less than 3e-11 from `σ = 1.2` on.)
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
        let mut noise = Self {
            scale,
            mantissa,
            exponent,
            slots: 0,
        };
        // At most 2^54.
        noise.slots = noise.first(1) as u64;
        Ok(noise)
    }

    /// The parameter, in lattice steps.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// One draw.
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

    /// Adds the noise of one release to a long vector, as
    /// [`RoundedGaussian::add_release`](super::RoundedGaussian::add_release) does.
    ///
    /// # Errors
    /// The same.
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

    /// One draw from any source of bits.
    ///
    /// Each turn proposes a sign and one of the `⌈σ/64⌉` candidates of a box, or of the 64 times
    /// as many of a unit interval of the tail: as in [`RealNormal`](super::real::RealNormal) with
    /// a candidate in place of a place. Candidates beyond the interval are refused, and so is the
    /// negative zero.
    pub(super) fn draw<S: BitSource>(&self, table: &Strips, source: &mut S) -> i128 {
        loop {
            let word = source.word();
            let (first, end, slots, under) = match table.cell(word) {
                Cell::Spare => continue,
                Cell::Inside(strip) => (strip, strip + 1, self.slots, None),
                Cell::Cut(strip, floor) => {
                    (strip, strip + 1, self.slots, Some(Under::floor(floor)))
                }
                Cell::Tail => {
                    let steps = sixteenths(source);
                    let strip = steps.saturating_add(4).saturating_mul(64);
                    let under = Under::tail(steps, table);
                    (
                        strip,
                        strip.saturating_add(64),
                        64 * self.slots,
                        Some(under),
                    )
                }
            };
            let size = self.first(first) + u128::from(source.below(slots));
            let negative = is_negative(word);
            if size >= self.first(end) || (negative && size == 0) {
                continue;
            }
            if let Some(under) = under {
                let mut ratio = Ratio {
                    size,
                    mantissa: self.mantissa,
                    exponent: self.exponent,
                };
                if !under.decide(&mut ratio, table, source) {
                    continue;
                }
            }
            let size = size.cast_signed();
            return if negative { -size } else { size };
        }
    }

    /// The first integer not below `σ·strip/64`.
    ///
    /// `σ·strip` is below 2^117, unless a tail of 2^45 steps was drawn.
    fn first(&self, strip: u64) -> u128 {
        let product = u128::from(self.mantissa) * u128::from(strip);
        let down = 6 - self.exponent;
        if down <= 0 {
            return product << -down;
        }
        // down is at most 63.
        (product + ((1 << down) - 1)) >> down
    }
}

/// The real number `size/σ`.
struct Ratio {
    size: u128,
    mantissa: u64,
    exponent: i32,
}

impl Abscissa for Ratio {
    fn small_head(&self) -> Option<u64> {
        // ⌊size·2^(55 − exponent)/mantissa⌋, where that fits into 128 bits before it is divided.
        let up = (HEAD_BITS as i32 - self.exponent) as u32;
        if self.size.leading_zeros() < up {
            return self.known_to(0).0.try_into_word();
        }
        u64::try_from((self.size << up) / u128::from(self.mantissa)).ok()
    }

    fn known<S: BitSource>(&mut self, levels: usize, _source: &mut S) -> (Limbs, u64) {
        self.known_to(levels as u64 * u64::from(S::DIGIT_BITS))
    }
}

impl Ratio {
    /// The quotient, cut after the digits of a head and `more`.
    fn known_to(&self, more: u64) -> (Limbs, u64) {
        let bits = u64::from(HEAD_BITS) + more;
        // The exponent is at most 8.
        let up = bits.saturating_add_signed(-i64::from(self.exponent));
        let quotient = Limbs::from_wide(self.size).up(up).over(self.mantissa);
        (quotient, bits)
    }
}
