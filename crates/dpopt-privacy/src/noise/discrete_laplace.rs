//! A two-sided geometric law, sampled exactly.

use std::num::NonZeroU128;

use dpopt_lanes::Threads;

use super::bernoulli::{Rational, bernoulli_exp, bernoulli_exp_of};
use super::blocks::over_blocks;
use super::digits::BitSource;
use super::dyadic;
use super::error::NoiseError;
use super::rounded_gaussian::NoisySum;
use super::stream::{Key, KeyedStream, StreamId};

/// The law `P(k) = tanh(a/2)·exp(−a·|k|)` on the integers, for the real number `a` that the `f64`
/// parameter stands for.
///
/// # Privacy
/// Added to an integer vector of L1 sensitivity `Δ` it is `a·Δ`-DP: that is how
/// [`Event::DiscreteLaplace`](crate::Event::DiscreteLaplace) is accounted.
///
/// # Sampling
/// Algorithm 2 of Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy"
/// (2020); see `docs/privacy/discrete-noise.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscreteLaplace {
    parameter: f64,
    /// `a = numerator / 2^halvings`, with an odd numerator unless there are no halvings.
    numerator: u128,
    halvings: u32,
}

impl DiscreteLaplace {
    /// The smallest parameter, 2^−60: about 2^60 steps of noise.
    pub const MIN_PARAMETER: f64 = 1.0 / 1_152_921_504_606_846_976.0;

    /// The largest parameter; from 50 on the noise is all but always zero.
    pub const MAX_PARAMETER: f64 = 1024.0;

    /// Noise of parameter `a`, per lattice step: `1/a` is its scale in steps.
    ///
    /// The accounted number must be this one: where it comes from a division that is not exact,
    /// round it down.
    ///
    /// # Errors
    /// [`NoiseError::ParameterOutOfRange`] unless `2^−60 ≤ a ≤ 1024`.
    pub fn new(parameter: f64) -> Result<Self, NoiseError> {
        if !(Self::MIN_PARAMETER..=Self::MAX_PARAMETER).contains(&parameter) {
            return Err(NoiseError::ParameterOutOfRange {
                parameter,
                min: Self::MIN_PARAMETER,
                max: Self::MAX_PARAMETER,
            });
        }
        let (mantissa, exponent) = dyadic::split(parameter);
        let odd = mantissa >> mantissa.trailing_zeros();
        // a = odd · 2^power, power from −112 to 10.
        let power = exponent + mantissa.trailing_zeros() as i32;
        Ok(Self {
            parameter,
            numerator: u128::from(odd) << power.max(0),
            halvings: power.min(0).unsigned_abs(),
        })
    }

    /// The parameter `a`.
    #[must_use]
    pub fn parameter(&self) -> f64 {
        self.parameter
    }

    /// One draw.
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
        over_blocks(key, id, threads, sums, |source, _, sum| {
            sum.add_wrapping(self.draw(source));
        })
    }

    /// One draw from any source of bits.
    ///
    /// With `a = s/2^h`: `x = u + 2^h·v` has probability proportional to `exp(−x/2^h)`, from a
    /// `u` uniform below `2^h` that is kept with probability `exp(−u/2^h)` and a `v` of
    /// probability proportional to `exp(−v)`. So `⌊x/s⌋` has probability proportional to
    /// `exp(−a·k)`. A fair sign, and the negative zero is refused.
    ///
    /// `v` counts successes of probability `exp(−1)`; the product fits unless there are 2^15.
    pub(crate) fn draw<S: BitSource>(&self, source: &mut S) -> i128 {
        loop {
            let low = match self.halvings {
                0 => 0,
                bits => source.below_wide(1 << bits),
            };
            let kept = Rational {
                numerator: low,
                denominator: NonZeroU128::MIN,
                halvings: self.halvings,
            };
            if !bernoulli_exp_of(kept, source) {
                continue;
            }
            let mut high = 0_u128;
            while bernoulli_exp(1, NonZeroU128::MIN, source) {
                high += 1;
            }
            let size = (((high << self.halvings) | low) / self.numerator).cast_signed();
            let negative = source.word() >> 63 == 1;
            if negative && size == 0 {
                continue;
            }
            return if negative { -size } else { size };
        }
    }
}
