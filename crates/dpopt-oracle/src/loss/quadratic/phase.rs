//! Phase retrieval: signals from the squares of their products.

use dpopt_privacy::{ClipNorm, LatticeSum};

use super::constants;
use crate::loss::Momentum;
use crate::loss::glm::add_multiple;
use crate::loss::rows::linear_pass;
use crate::loss::{Constants, Differentiable, Glm, Loss, Segment, TwiceDifferentiable};
use crate::positions::Positions;
use crate::records::{Example, Examples};

/// Phase retrieval with a scalar loss phi, on rows with the measured squares as labels.
///
/// # Formula
/// f(w; (x, y)) = phi(<w, x>^2, y). With ||x|| <= X and ||w|| <= R: G = 2 X^2 R, B = 2 X^2; see the
/// constants of the module's page.
///
/// # Privacy
/// As [`Glm`]: never panics, no state, clipped wherever w is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseRetrieval {
    phi: Glm,
    ball: f64,
}

impl PhaseRetrieval {
    /// With constants for the ball ||w|| <= `ball`.
    #[must_use]
    pub fn new(phi: Glm, ball: ClipNorm) -> Self {
        Self {
            phi,
            ball: ball.get(),
        }
    }

    /// The derivative of phi(t^2, y) in t.
    fn slope(&self, t: f64, y: f64) -> f64 {
        2.0 * t * self.phi.slope(t * t, y)
    }

    /// Its change from t to t + dt: 2 dt phi'(s') + 2 t (phi'(s') - phi'(s)) with s = t^2, s' - s =
    /// dt (2t + dt).
    fn slope_change(&self, t: f64, dt: f64, y: f64) -> f64 {
        let after = t + dt;
        let moved = dt * (t + after);
        2.0 * dt * self.phi.slope(after * after, y)
            + 2.0 * t * self.phi.slope_change(t * t, moved, y)
    }
}

impl Loss for PhaseRetrieval {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        let square = records.row_norm() * records.row_norm();
        let (gradient, hessian) = (2.0 * square * self.ball, 2.0 * square);
        // 2 x x^T has rank one.
        let norms = (hessian, hessian);
        constants(self.phi, gradient, norms, records.label_bound())
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        let t = record.row.dot(point);
        self.phi.value(t * t, record.label)
    }
}

impl Differentiable for PhaseRetrieval {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let slope = self.slope(record.row.dot(point), record.label);
        add_multiple(slope, record.row, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let t = record.row.dot(segment.from);
        let dt = record.row.dot(segment.displacement);
        add_multiple(self.slope_change(t, dt, record.label), record.row, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        linear_pass(records, &positions, [point], sum, |block| {
            let [products] = block.products;
            for (i, multiple) in block.multiples.iter_mut().enumerate() {
                *multiple = self.slope(products[i], block.labels[i]);
            }
        });
    }

    /// A clipped gradient is the slope, clamped to clip / ||x||, times x; so is a difference of
    /// two.
    fn add_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let points = [segment.from, segment.displacement];
        linear_pass(records, &positions, points, sum, |block| {
            let [products, changes] = block.products;
            for (i, multiple) in block.multiples.iter_mut().enumerate() {
                let (t, dt, label) = (products[i], changes[i], block.labels[i]);
                let cap = clip / block.norms[i];
                let (before, after) = (self.slope(t, label), self.slope(t + dt, label));
                *multiple = if before.abs() <= cap && after.abs() <= cap {
                    momentum.combined(after, self.slope_change(t, dt, label))
                } else {
                    after.clamp(-cap, cap) - momentum.kept() * before.clamp(-cap, cap)
                };
            }
        });
    }
}

impl TwiceDifferentiable for PhaseRetrieval {
    /// The second derivative of phi(t^2, y) in t is 4 t^2 phi'' + 2 phi'.
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let t = record.row.dot(point);
        let (square, y) = (t * t, record.label);
        let second = 4.0 * square * self.phi.curvature(square, y) + 2.0 * self.phi.slope(square, y);
        add_multiple(second * record.row.dot(direction), record.row, out);
    }
}
