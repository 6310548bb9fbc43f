//! Gaussian noise in floating point: for simulation only.

use super::stream::KeyedStream;

/// A Gaussian in `f64` arithmetic, **for simulation only**: it protects nothing.
///
/// The numbers that `sum + noise` can be are not the same for two sums: floating-point noise has
/// gaps, the addition rounds, and both depend on the sum. Single outputs then exclude one of two
/// neighbouring inputs, whatever the scale (Mironov, "On significance of the least significant
/// bits for differential privacy", CCS 2012; for Gaussian samplers, Jin, McMurtry, Rubinstein and
/// Ohrimenko, "Are we there yet? Timing and floating-point attacks on differential privacy
/// systems", IEEE S&P 2022). `tests/float_attack.rs` carries the attack out.
///
/// It adds to `f64` numbers. A curator holds integers and draws
/// [`RoundedGaussian`](super::RoundedGaussian) noise; nothing leads from one to the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatGaussian {
    scale: f64,
}

impl FloatGaussian {
    /// Noise of standard deviation `scale`.
    ///
    /// # Errors
    /// [`NoiseError::ScaleOutOfRange`](super::NoiseError::ScaleOutOfRange) unless `scale` is
    /// positive and finite.
    pub fn for_simulation(scale: f64) -> Result<Self, super::NoiseError> {
        if scale > 0.0 && scale.is_finite() {
            return Ok(Self { scale });
        }
        Err(super::NoiseError::ScaleOutOfRange {
            scale,
            min: f64::MIN_POSITIVE,
            max: f64::MAX,
        })
    }

    /// The standard deviation.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Adds an independent draw to every number (Box and Muller 1958, both of each pair).
    pub fn add(&self, stream: &mut KeyedStream, values: &mut [f64]) {
        for pair in values.chunks_mut(2) {
            // In (0, 1], so that the logarithm is finite.
            let radius = (-2.0 * libm::log(1.0 - uniform(stream))).sqrt();
            let (sin, cos) = libm::sincos(std::f64::consts::TAU * uniform(stream));
            for (value, part) in pair.iter_mut().zip([cos, sin]) {
                *value += self.scale * radius * part;
            }
        }
    }
}

/// A multiple of 2^−53 in [0, 1).
fn uniform(stream: &mut KeyedStream) -> f64 {
    (rand::Rng::next_u64(stream) >> 11) as f64 * (f64::EPSILON / 2.0)
}
