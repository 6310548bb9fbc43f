//! Saddle problems of which everything is known exactly, the largest value included.

use dpopt_certify::{InnerConstants, Saddle};
use dpopt_linalg::{Domain, norm, symmetric_spectrum};
use dpopt_minimax::{MeanFacts, SaddleFacts};
use dpopt_oracle::{Blocks, SaddleConstants};
use dpopt_privacy::Adjacency;

use crate::problem::{Problem, ProblemConstants, SecondOrderProblem};

/// A problem min over x of Phi(x) = max over y in Y of F(x, y) with exact values, gradients, maximiser and constants.
pub trait MinimaxProblem {
    /// d1: coordinates of x.
    fn x_dim(&self) -> usize;

    /// Y.
    fn domain(&self) -> Domain;

    /// Constants of one record's loss.
    fn record(&self) -> SaddleConstants;

    /// Constants of F and of Phi; the gap is that at [`MinimaxProblem::start`].
    fn mean(&self) -> MeanFacts;

    /// Where x starts.
    fn start(&self) -> Vec<f64> {
        vec![0.0; self.x_dim()]
    }

    /// F(x, y).
    fn value(&self, x: &[f64], y: &[f64]) -> f64;

    /// Writes grad_x F and grad_y F.
    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64]));

    /// y*(x).
    fn best_response(&self, x: &[f64]) -> Vec<f64>;

    /// Phi(x) = F(x, y*(x)).
    fn largest_value(&self, x: &[f64]) -> f64 {
        self.value(x, &self.best_response(x))
    }

    /// grad Phi(x) = grad_x F(x, y*(x)).
    fn value_gradient(&self, x: &[f64]) -> Vec<f64> {
        let y = self.best_response(x);
        let (mut of_x, mut of_y) = (vec![0.0; x.len()], vec![0.0; y.len()]);
        self.gradient(x, &y, (&mut of_x, &mut of_y));
        of_x
    }

    /// ||grad Phi(x)||.
    fn value_slope(&self, x: &[f64]) -> f64 {
        norm(&self.value_gradient(x))
    }

    /// What a planner is told of `records` records.
    fn facts(&self, records: u64) -> SaddleFacts {
        SaddleFacts {
            records,
            adjacency: Adjacency::ReplaceOne,
            x_dim: self.x_dim(),
            domain: self.domain(),
            record: self.record(),
            mean: self.mean(),
            whole: true,
            rarest: None,
        }
    }
}

/// A saddle problem with second derivatives.
pub trait SecondOrderMinimax: MinimaxProblem {
    /// Writes the product of the Hessian of F in (x, y) with `direction`.
    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]);

    /// The least eigenvalue of the Hessian of Phi at x.
    fn value_least_eigenvalue(&self, x: &[f64]) -> f64;
}

/// A saddle problem in closed form, for [`dpopt_certify::ValueFunction`]: to check what that finds, or where y* has no closed form.
#[derive(Debug, Clone, Copy)]
pub struct OfProblem<'a, P: ?Sized>(pub &'a P);

impl<P: SecondOrderMinimax + ?Sized> Saddle for OfProblem<'_, P> {
    fn x_dim(&self) -> usize {
        self.0.x_dim()
    }

    fn domain(&self) -> Domain {
        self.0.domain()
    }

    fn inner(&self) -> InnerConstants {
        let mean = self.0.mean();
        InnerConstants {
            strong_concavity: mean.strong_concavity,
            smooth_yy: mean.smooth_yy,
            smooth_xy: mean.smooth_xy,
            joint_hessian_lipschitz: mean.joint_hessian_lipschitz,
        }
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        self.0.value(x, y)
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        self.0.gradient(x, y, out);
    }

    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]) {
        self.0.hessian_vector(x, y, direction, out);
    }
}

/// A saddle problem as a problem of the joint point (x, y/s), as [`dpopt_oracle::Joint`] makes one of a loss: its gradient is (grad_x, s grad_y). To
/// descend in it is no use.
#[derive(Debug, Clone, Copy)]
pub struct JointProblem<'a, P: ?Sized> {
    problem: &'a P,
    blocks: Blocks,
}

impl<'a, P: MinimaxProblem + ?Sized> JointProblem<'a, P> {
    /// Under the scale s of y.
    pub fn new(problem: &'a P, scale: f64) -> Self {
        Self {
            problem,
            blocks: Blocks {
                x: problem.x_dim(),
                y: problem.domain().dim(),
                scale,
            },
        }
    }

    /// How a point is split.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// The joint point of x with the middle of Y.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        let y = self.problem.domain().middle();
        self.blocks.join(&self.problem.start(), &y)
    }

    fn rescale(&self, vector: &mut [f64]) {
        let of_y = vector.iter_mut().skip(self.blocks.x);
        of_y.for_each(|g| *g *= self.blocks.scale);
    }
}

impl<P: MinimaxProblem + ?Sized> Problem for JointProblem<'_, P> {
    fn dim(&self) -> usize {
        self.blocks.dim()
    }

    fn constants(&self) -> ProblemConstants {
        let (of, scale) = (self.problem.record(), self.blocks.scale);
        ProblemConstants::first_order(of.clip(scale), of.smoothness(scale), f64::INFINITY)
            .with_hessian_frobenius(of.frobenius(scale))
    }

    fn value(&self, point: &[f64]) -> f64 {
        let (x, y) = self.blocks.split(point);
        self.problem.value(&x, &y)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        let (x, y) = self.blocks.split(point);
        self.problem
            .gradient(&x, &y, out.split_at_mut(self.blocks.x));
        self.rescale(out);
    }
}

impl<P: SecondOrderMinimax + ?Sized> SecondOrderProblem for JointProblem<'_, P> {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let (x, y) = self.blocks.split(point);
        let mut direction = direction.to_vec();
        self.rescale(&mut direction);
        self.problem.hessian_vector(&x, &y, &direction, out);
        self.rescale(out);
    }

    /// Of the joint point, where it means nothing: it is below zero wherever there is a y.
    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let dim = self.dim();
        let mut matrix = vec![0.0; dim * dim];
        for (j, column) in matrix.chunks_mut(dim).enumerate() {
            let mut unit = vec![0.0; dim];
            unit[j] = 1.0;
            self.hessian_vector(point, &unit, column);
        }
        symmetric_spectrum(dim, &matrix).map_or(f64::NAN, |found| found.eigenvalues[0])
    }
}
