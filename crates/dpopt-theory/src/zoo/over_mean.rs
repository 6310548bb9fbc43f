//! Means of losses whose records enter linearly: the loss of the mean record.

use dpopt_oracle::Differentiable;

use crate::problem::{Problem, ProblemConstants};

/// A loss of vectors that is affine in its record, so that a mean over records is the loss of their mean.
pub trait AffineLoss: Differentiable<Records = Vec<Vec<f64>>> {
    /// The constants of the mean over records of this mean.
    fn constants_over(&self, mean: &[f64]) -> ProblemConstants;
}

/// The mean of a loss over records whose mean is known.
#[derive(Debug, Clone, PartialEq)]
pub struct OverMean<L> {
    pub(super) loss: L,
    mean: Vec<f64>,
}

impl<L: AffineLoss> OverMean<L> {
    pub(super) fn new(loss: L, mean: Vec<f64>) -> Self {
        Self { loss, mean }
    }
}

impl<L: AffineLoss> Problem for OverMean<L> {
    fn dim(&self) -> usize {
        self.loss.dim(&Vec::new())
    }

    fn constants(&self) -> ProblemConstants {
        self.loss.constants_over(&self.mean)
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.loss.value(&self.mean, point)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.loss.gradient(&self.mean, point, out);
    }
}
