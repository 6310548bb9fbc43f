//! What the contour integral needs to know of a mechanism: its moment function
//! `E_P[e^{s L}]` on the real axis and at complex arguments, with error bounds.

use realfft::num_complex::Complex64;

use super::error::ExactError;

/// Value and first two derivatives of `log E_P[e^{theta L}]` at a real theta.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cumulant {
    pub(super) value: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// `log E_P[e^{s L}]` at one complex argument, up to a multiple of `2 pi i`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) ln: Complex64,
    /// Bound on the error of `ln`.
    pub(super) error: f64,
    /// `ln.re` is only an upper bound and the rest says nothing.
    pub(super) unknown: bool,
}

/// A mechanism, repeated as often as it is.
pub(super) trait Moments {
    /// Makes arguments up to `theta` available.
    fn extend(&mut self, theta: f64) -> Result<(), ExactError>;

    /// Least upper bound of the loss.
    fn supremum(&self) -> f64;

    /// Cumulants at a real argument; the value is good to 1e-9, absolute or relative.
    fn cumulant(&self, theta: f64) -> Cumulant;

    /// The value alone.
    fn value(&self, theta: f64) -> f64 {
        self.cumulant(theta).value
    }

    /// Fixes the tilt at which [`Self::ln_decay`] works.
    fn prepare_decay(&mut self, theta: f64) -> Result<(), ExactError>;

    /// A bound on `log |E e^{(theta + i u) L} / E e^{theta L}|` for all `u >= t`.
    fn ln_decay(&self, t: f64) -> f64;

    /// Work per complex argument, in nodes.
    fn weight(&self) -> f64;

    /// Adds this mechanism's logarithms at `theta + i k h` to the entries.
    fn table(&self, theta: f64, h: f64, out: &mut [Entry]) -> Result<(), ExactError>;
}

/// Plain Gaussians: the loss is normal with mean `mu^2 / 2` and variance `mu^2`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gaussian {
    /// Sum of `count / z^2`.
    pub(super) mu_squared: f64,
    /// Relative error of it.
    pub(super) error: f64,
}

impl Moments for Gaussian {
    fn extend(&mut self, _theta: f64) -> Result<(), ExactError> {
        Ok(())
    }

    fn supremum(&self) -> f64 {
        f64::INFINITY
    }

    fn cumulant(&self, theta: f64) -> Cumulant {
        Cumulant {
            value: 0.5 * self.mu_squared * theta * (theta + 1.0),
            mean: self.mu_squared * (theta + 0.5),
            variance: self.mu_squared,
        }
    }

    fn prepare_decay(&mut self, _theta: f64) -> Result<(), ExactError> {
        Ok(())
    }

    fn ln_decay(&self, t: f64) -> f64 {
        -0.5 * self.mu_squared * (1.0 - self.error) * t * t
    }

    fn weight(&self) -> f64 {
        1.0
    }

    fn table(&self, theta: f64, h: f64, out: &mut [Entry]) -> Result<(), ExactError> {
        for (k, entry) in out.iter_mut().enumerate() {
            let s = Complex64::new(theta, k as f64 * h);
            let ln = (s * (s + Complex64::new(1.0, 0.0))).scale(0.5 * self.mu_squared);
            let size = 0.5 * self.mu_squared * s.norm() * (s.norm() + 1.0);
            entry.ln += ln;
            entry.error += size * (self.error + 8.0 * f64::EPSILON);
        }
        Ok(())
    }
}
