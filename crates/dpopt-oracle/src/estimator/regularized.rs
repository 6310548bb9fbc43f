//! A regulariser on top of an estimate: post-processing of what was released.

use super::estimate::Estimate;
use crate::loss::Regularizer;

/// An estimate of the gradient of F + R, from one of the gradient of F.
///
/// # Formula
/// The estimate at w, plus the exact gradient of R at w. It carries no further noise.
///
/// # Privacy
/// None of its own: R reads no record, w is public, and adding a public vector to a release is
/// post-processing. Clipping acts on the gradients of the loss alone, never on R.
///
/// Plan with [`Regularizer::constants`]. For a norm, or a selection, give the oracle [`Regularized::shift`].
#[derive(Debug, Clone)]
pub struct Regularized {
    regularizer: Regularizer,
    sum: Vec<f64>,
}

impl Regularized {
    /// Adds `regularizer`.
    #[must_use]
    pub fn new(regularizer: Regularizer) -> Self {
        Self {
            regularizer,
            sum: Vec::new(),
        }
    }

    /// The regulariser.
    #[must_use]
    pub fn regularizer(&self) -> Regularizer {
        self.regularizer
    }

    /// The estimate with the gradient of the regulariser, both at `point`.
    pub fn plus<'a>(&'a mut self, estimate: Estimate<'_>, point: &[f64]) -> Estimate<'a> {
        self.sum.clear();
        self.sum.extend_from_slice(estimate.gradient);
        self.regularizer.add_gradient(point, &mut self.sum);
        Estimate::new(&self.sum, estimate.noise_std, estimate.release_std)
    }

    /// The gradient of the regulariser at `point`, plus a public vector (empty for none).
    #[must_use]
    pub fn shift(&self, point: &[f64], other: &[f64]) -> Vec<f64> {
        let mut shift = other.to_vec();
        shift.resize(point.len(), 0.0);
        self.regularizer.add_gradient(point, &mut shift);
        shift
    }
}
