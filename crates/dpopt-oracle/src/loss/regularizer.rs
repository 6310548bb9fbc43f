//! Regularisers: public functions of the parameters alone.

use serde::{Deserialize, Serialize};

use super::{Constants, Convexity, Glm, Scale};

/// A term that is added to the mean loss.
///
/// # Formula
/// | regulariser | R(w) | gradient |
/// | --- | --- | --- |
/// | ridge | (lambda/2) sum w_j^2 | lambda w_j |
/// | nonconvex | lambda sum w_j^2/(1 + w_j^2) | 2 lambda w_j/(1 + w_j^2)^2 |
///
/// # Privacy
/// Reads no record, costs nothing: see [`crate::Regularized`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Regularizer {
    /// Half the squared norm, times a weight.
    Ridge(Scale),
    /// The bounded sum of w_j^2/(1 + w_j^2), times a weight.
    Nonconvex(Scale),
}

impl Regularizer {
    /// lambda.
    #[must_use]
    pub fn weight(self) -> f64 {
        match self {
            Regularizer::Ridge(weight) | Regularizer::Nonconvex(weight) => weight.get(),
        }
    }

    /// R(w).
    #[must_use]
    pub fn value(self, point: &[f64]) -> f64 {
        let sum: f64 = match self {
            Regularizer::Ridge(_) => point.iter().map(|w| 0.5 * w * w).sum(),
            Regularizer::Nonconvex(_) => {
                point.iter().map(|w| Glm::GemanMcClure.value(*w, 0.0)).sum()
            }
        };
        self.weight() * sum
    }

    /// Adds the Hessian of R at `point`, which is diagonal, to `packed`, laid out as [`HessianMatrix`](crate::query::HessianMatrix) does.
    ///
    /// # Shapes
    /// `point`: d. `packed`: d (d + 1)/2.
    pub fn add_hessian(self, point: &[f64], packed: &mut [f64]) {
        for (i, w) in point.iter().enumerate() {
            if let Some(entry) = packed.get_mut(i * (i + 3) / 2) {
                *entry += self.curvature(*w);
            }
        }
    }

    /// Adds the gradient of R at `point` to `out`.
    ///
    /// # Shapes
    /// `point` and `out`: d.
    pub fn add_gradient(self, point: &[f64], out: &mut [f64]) {
        let weight = self.weight();
        for (out, w) in out.iter_mut().zip(point) {
            *out += match self {
                Regularizer::Ridge(_) => weight * w,
                Regularizer::Nonconvex(_) => weight * Glm::GemanMcClure.slope(*w, 0.0),
            };
        }
    }

    /// The second derivative of R in a coordinate at `w`; the Hessian is diagonal.
    #[must_use]
    pub fn curvature(self, w: f64) -> f64 {
        let weight = self.weight();
        match self {
            Regularizer::Ridge(_) => weight,
            Regularizer::Nonconvex(_) => weight * Glm::GemanMcClure.curvature(w, 0.0),
        }
    }

    /// Constants of f + R, from those of the loss f.
    ///
    /// - L1 and rho add up: the Hessian of R is diagonal, with entries lambda (ridge), or between
    ///   -lambda/2 and 2 lambda (nonconvex; see [`Glm::constants_within`]).
    /// - F(0) + R(0) - min(F + R) is at most the gap of F, because R >= 0 = R(0).
    /// - Ridge keeps a convex loss convex. It would make any loss with lambda >= L1 convex, which is
    ///   not said here: a constant that was claimed, or that holds on a ball only, must not turn into
    ///   a property for all points. The sum with the nonconvex term counts as not convex.
    /// - **L0 and C_F stay those of f**: L0 is the length of what is clipped and released, from which the
    ///   noise follows. The gradient of the sum may be longer, by at most lambda ||w|| (ridge) or
    ///   lambda sqrt(d) 3 sqrt(3)/8 (nonconvex).
    #[must_use]
    pub fn constants(self, loss: Constants) -> Constants {
        let weight = self.weight();
        match self {
            Regularizer::Ridge(_) => Constants {
                smoothness: loss.smoothness + weight,
                ..loss
            },
            Regularizer::Nonconvex(_) => {
                let term = Glm::GemanMcClure.constants(1.0);
                Constants {
                    smoothness: loss.smoothness + weight * term.smoothness,
                    hessian_lipschitz: loss.hessian_lipschitz + weight * term.hessian_lipschitz,
                    convexity: Convexity::Nonconvex,
                    ..loss
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(x: f64) -> Scale {
        Scale::new(x).unwrap()
    }

    #[test]
    fn gradients_are_derivatives() {
        let point = [0.3, -2.0, 0.0, 7.0];
        for term in [
            Regularizer::Ridge(weight(0.2)),
            Regularizer::Nonconvex(weight(3.0)),
        ] {
            let mut gradient = [1.0; 4];
            term.add_gradient(&point, &mut gradient);
            for j in 0..4 {
                let moved = |h: f64| {
                    let mut w = point;
                    w[j] += h;
                    term.value(&w)
                };
                let quotient = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((gradient[j] - 1.0 - quotient).abs() < 1e-8, "{term:?} {j}");
                let slope = |h: f64| {
                    let (mut w, mut out) = (point, [0.0; 4]);
                    w[j] += h;
                    term.add_gradient(&w, &mut out);
                    out[j]
                };
                let quotient = (slope(1e-5) - slope(-1e-5)) / 2e-5;
                assert!(
                    (term.curvature(point[j]) - quotient).abs() < 1e-8,
                    "{term:?} {j}"
                );
            }
        }
        assert_eq!(
            Regularizer::Ridge(weight(0.2)).value(&[3.0, 4.0]),
            0.1 * 25.0
        );
        assert_eq!(
            Regularizer::Nonconvex(weight(3.0)).value(&[1.0, -2.0]),
            3.0 * (0.5 + 0.8)
        );
    }

    #[test]
    fn constants_add_up() {
        let loss = Glm::Welsch.constants(1.0);
        let ridge = Regularizer::Ridge(weight(0.25)).constants(loss);
        assert_eq!(ridge.smoothness, 1.25);
        assert_eq!(
            (ridge.lipschitz, ridge.convexity),
            (loss.lipschitz, Convexity::Nonconvex)
        );
        let term = Regularizer::Nonconvex(weight(0.5)).constants(Glm::Logistic.constants(1.0));
        assert_eq!(
            (term.smoothness, term.convexity),
            (1.25, Convexity::Nonconvex)
        );
    }
}
