//! A perturbation that all records share: the worst one is what y finds.

use dpopt_linalg::{Domain, dot};

use super::glm::add_multiple;
use super::saddle::{SaddleConstants, SaddleLoss, SaddleRecord, TwiceSaddle};
use crate::records::{Example, Examples};

/// Logistic loss of a linear score under a shared shift of all rows.
///
/// # Formula
/// f = ln(1 + e^(-b <w, x + y>)) - (c/2) norm(y)^2, b the sign of the label, norm(y) <= r.
///
/// Constants for norm(w) <= B, rows of norm at most X, with l'' <= 1/4: the Hessian in y is l'' w w^T - c, so f is strongly concave in y with
/// m = c - B^2/4, which has to be positive. C_x = X + r, C_y = B + c r, L_xx = (X + r)^2/4, L_xy = 1 + (X + r) B/4, L_yy = c; of the
/// Frobenius norm of the Hessian the block between is at most sqrt(d) + (X + r) B/4, that in y at most c sqrt(d) + B^2/4. Beyond B they don't
/// hold, and clips do.
///
/// A perturbation for each record is none of this: y would have a block for each record, and tell of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedPerturbation {
    columns: usize,
    /// c, r and B.
    weight: f64,
    radius: f64,
    reach: f64,
}

/// A perturbation that has no worst one.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "weight {weight}, radius {radius} and reach {reach}: all have to be positive, and the weight above reach^2/4, for the loss to be \
     strongly concave in the perturbation"
)]
#[non_exhaustive]
pub struct PerturbationError {
    /// c.
    pub weight: f64,
    /// r.
    pub radius: f64,
    /// B.
    pub reach: f64,
}

impl SharedPerturbation {
    /// Of so many columns, with c, r and B.
    ///
    /// # Errors
    /// [`PerturbationError`].
    pub fn new(
        columns: usize,
        weight: f64,
        radius: f64,
        reach: f64,
    ) -> Result<Self, PerturbationError> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !([weight, radius, reach].into_iter().all(positive) && weight > 0.25 * reach * reach) {
            return Err(PerturbationError {
                weight,
                radius,
                reach,
            });
        }
        Ok(Self {
            columns,
            weight,
            radius,
            reach,
        })
    }

    /// m = c - B^2/4.
    #[must_use]
    pub fn strong_concavity(&self) -> f64 {
        self.weight - 0.25 * self.reach * self.reach
    }

    /// The first and second derivative of the loss in the score.
    fn slopes(record: Example<'_>, x: &[f64], y: &[f64]) -> (f64, f64) {
        let sign = if record.label > 0.0 { 1.0 } else { -1.0 };
        let margin = sign * (record.row.dot(x) + dot(x, y));
        let small = (-margin.abs()).exp();
        let size = if margin > 0.0 { small } else { 1.0 } / (1.0 + small);
        (-sign * size, size * (1.0 - size))
    }
}

impl SaddleLoss for SharedPerturbation {
    type Records = Examples;

    /// # Panics
    /// When the rows don't have as many columns as the perturbation.
    fn x_dim(&self, records: &Examples) -> usize {
        assert!(
            records.columns() == self.columns,
            "rows of {} columns for a perturbation of {}",
            records.columns(),
            self.columns
        );
        self.columns
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.columns, self.radius)
    }

    fn saddle_constants(&self, records: &Examples) -> SaddleConstants {
        let (shifted, side) = (
            records.row_norm() + self.radius,
            (self.columns as f64).sqrt(),
        );
        let (curved, across) = (0.25 * shifted * shifted, 0.25 * shifted * self.reach);
        let in_y = self.weight * side + 0.25 * self.reach * self.reach;
        let squares = curved * curved + 2.0 * (side + across).powi(2) + in_y * in_y;
        SaddleConstants {
            lipschitz_x: shifted,
            lipschitz_y: self.reach + self.weight * self.radius,
            smooth_xx: curved,
            smooth_xy: 1.0 + across,
            smooth_yy: self.weight,
            hessian_frobenius: squares.sqrt(),
        }
    }

    fn value(&self, record: Example<'_>, x: &[f64], y: &[f64]) -> f64 {
        let sign = if record.label > 0.0 { 1.0 } else { -1.0 };
        let margin = sign * (record.row.dot(x) + dot(x, y));
        let loss = (-margin).max(0.0) + (-margin.abs()).exp().ln_1p();
        loss - 0.5 * self.weight * dot(y, y)
    }

    fn gradient(&self, record: Example<'_>, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        let (slope, _) = Self::slopes(record, x, y);
        add_multiple(slope, record.row, out.0);
        for (i, y) in y.iter().enumerate() {
            out.0[i] += slope * y;
            out.1[i] += slope * x[i] - self.weight * y;
        }
    }
}

impl TwiceSaddle for SharedPerturbation {
    fn hessian_vector(
        &self,
        record: SaddleRecord<'_, Self>,
        x: &[f64],
        y: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let (slope, bend) = Self::slopes(record, x, y);
        let (dx, dy) = direction.split_at(x.len());
        let (of_x, of_y) = out.split_at_mut(x.len());
        let change = bend * (record.row.dot(dx) + dot(y, dx) + dot(x, dy));
        add_multiple(change, record.row, of_x);
        for i in 0..y.len() {
            of_x[i] += change * y[i] + slope * dy[i];
            of_y[i] += change * x[i] + slope * dx[i] - self.weight * dy[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Joint, Loss as _, laws};
    use dpopt_linalg::Design;
    use dpopt_privacy::ClipNorm;

    fn records() -> Examples {
        let entries = (0..15).map(|j| (f64::from(j) * 1.3).sin() * 0.7).collect();
        let design = Design::dense(3, entries).unwrap();
        let labels = vec![1.0, -1.0, 1.0, -1.0, 1.0];
        Examples::new(design, labels, ClipNorm::new(1.3).unwrap()).unwrap()
    }

    #[test]
    fn perturbations_keep_the_laws() {
        let loss = SharedPerturbation::new(3, 1.0, 0.8, 1.0).unwrap();
        for scale in [0.5, 1.0] {
            let joint = Joint::new(loss, scale).unwrap();
            let radius = 0.8;
            for point in laws::points(joint.dim(&records()), 6, radius) {
                let found = crate::check_gradient(&joint, &records(), &point).unwrap();
                assert!(found.worst < 1e-7, "{found:?}");
            }
            laws::second_derivatives(&joint, &records(), radius);
        }
    }

    #[test]
    #[should_panic(expected = "rows of 3 columns for a perturbation of 2")]
    fn rows_of_other_columns_are_no_run_of_zeros() {
        let loss = SharedPerturbation::new(2, 1.0, 0.8, 1.0).unwrap();
        Joint::new(loss, 1.0).unwrap().dim(&records());
    }

    /// By hand at w = (1, 0), y = (1, 0), x = (0, 1): the score is 1, so l' = -1/(1 + e), l'' = e/(1 + e)^2.
    #[test]
    fn the_worst_shift_goes_against_the_weights() {
        let design = Design::dense(2, vec![0.0, 1.0]).unwrap();
        let one = Examples::new(design, vec![1.0], ClipNorm::new(1.5).unwrap()).unwrap();
        let loss = SharedPerturbation::new(2, 2.0, 1.0, 1.0).unwrap();
        let (mut of_x, mut of_y) = ([0.0; 2], [0.0; 2]);
        let record = crate::Records::record(&one, 0);
        let at = ([1.0, 0.0], [1.0, 0.0]);
        loss.gradient(record, &at.0, &at.1, (&mut of_x, &mut of_y));
        let slope = -1.0 / (1.0 + std::f64::consts::E);
        for (found, expected) in [
            (of_x[0], slope),
            (of_x[1], slope),
            (of_y[0], slope - 2.0),
            (of_y[1], 0.0),
        ] {
            assert!((found - expected).abs() < 1e-15);
        }
        assert_eq!(loss.strong_concavity(), 1.75);
        for bad in [(0.25, 1.0, 1.0), (1.0, 0.0, 1.0), (f64::NAN, 1.0, 1.0)] {
            assert!(SharedPerturbation::new(2, bad.0, bad.1, bad.2).is_err());
        }
    }
}
