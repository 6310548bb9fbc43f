//! Generalised linear losses f(w; (x, y)) = phi(<w, x>, y), with exact constants.
//!
//! The constants belong to the loss and to the enforced bound on ||x||; they are never measured
//! on data.

use dpopt_linalg::{Row, add_scaled, logistic as logistic_in_place};
use dpopt_privacy::LatticeSum;
use serde::{Deserialize, Serialize};

use super::{Constants, Convexity, Differentiable, Loss, Segment, TwiceDifferentiable};
use crate::linear::{Block, linear_pass};
use crate::pass::Positions;
use crate::records::{Example, Examples};

/// A loss of one inner product.
///
/// # Formula
/// With z = <w, x> and, for the two classification losses, y in {-1, +1} (the sign of the label;
/// zero counts as -1), for the two robust regression losses r = z - y:
///
/// | loss | phi | max abs phi' | max abs phi'' | range | convex |
/// | --- | --- | --- | --- | --- | --- |
/// | logistic | ln(1 + e^(-yz)) | 1 | 1/4 | [0, inf) | yes |
/// | sigmoid | 1 / (1 + e^(yz)) | 1/4 | 1/(6 sqrt 3) | (0, 1) | no |
/// | Welsch | 1 - e^(-r^2/2) | e^(-1/2) | 1 | [0, 1) | no |
/// | Geman-McClure | r^2 / (1 + r^2) | 3 sqrt(3)/8 | 2 | [0, 1) | no |
///
/// # Privacy
/// Evaluation never panics and has no state; what it returns for a record depends on that record
/// and the point alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Glm {
    /// Logistic loss (convex).
    Logistic,
    /// Sigmoid loss (bounded, nonconvex).
    Sigmoid,
    /// Welsch loss (bounded, nonconvex).
    Welsch,
    /// Geman-McClure loss (bounded, nonconvex).
    #[serde(rename = "geman-mcclure")]
    GemanMcClure,
}

impl Glm {
    /// All losses.
    pub const ALL: [Glm; 4] = [Glm::Logistic, Glm::Sigmoid, Glm::Welsch, Glm::GemanMcClure];

    /// Constants for rows of norm at most `row_norm`: L0 = max|phi'| X, L1 = max|phi''| X^2, and
    /// rho = X^3 times the largest third derivative.
    #[must_use]
    pub fn constants(self, row_norm: f64) -> Constants {
        let sixth = 1.0 / (6.0 * 3f64.sqrt());
        // The largest third derivative, from its stationary points: for Welsch at
        // r^2 = 3 - sqrt 6, for Geman-McClure at r^2 = 1 - sqrt(4/5).
        let (slope, curvature, third, initial_gap) = match self {
            Glm::Logistic => (1.0, 0.25, sixth, std::f64::consts::LN_2),
            Glm::Sigmoid => (0.25, sixth, 0.125, 0.5),
            Glm::Welsch => {
                let root6 = 6f64.sqrt();
                let square = 3.0 - root6;
                let third = root6 * square.sqrt() * (-0.5 * square).exp();
                ((-0.5f64).exp(), 1.0, third, 1.0)
            }
            Glm::GemanMcClure => {
                let square = 1.0 - 0.8f64.sqrt();
                let third = 24.0 * square.sqrt() * (1.0 - square) / (1.0 + square).powi(4);
                (3.0 * 3f64.sqrt() / 8.0, 2.0, third, 1.0)
            }
        };
        Constants {
            lipschitz: slope * row_norm,
            smoothness: curvature * row_norm * row_norm,
            initial_gap,
            hessian_lipschitz: third * row_norm.powi(3),
            convexity: match self {
                Glm::Logistic => Convexity::Convex,
                _ => Convexity::Nonconvex,
            },
        }
    }

    /// phi(z, y).
    #[must_use]
    pub fn value(self, z: f64, y: f64) -> f64 {
        match self {
            // ln(1 + e^-m) without overflow.
            Glm::Logistic => {
                let m = sign(y) * z;
                (-m).max(0.0) + (-m.abs()).exp().ln_1p()
            }
            Glm::Sigmoid => logistic(-sign(y) * z),
            Glm::Welsch => {
                let r = z - y;
                -(-0.5 * r * r).exp_m1()
            }
            Glm::GemanMcClure => {
                let square = (z - y) * (z - y);
                if square.is_finite() {
                    square / (1.0 + square)
                } else {
                    1.0
                }
            }
        }
    }

    /// The derivative of phi in z.
    #[must_use]
    pub fn slope(self, z: f64, y: f64) -> f64 {
        match self {
            Glm::Logistic => {
                let y = sign(y);
                -y * logistic(-y * z)
            }
            Glm::Sigmoid => {
                let y = sign(y);
                -y * logistic(z) * logistic(-z)
            }
            Glm::Welsch => welsch_slope(z - y),
            Glm::GemanMcClure => geman_mcclure_slope(z - y),
        }
    }

    /// The second derivative of phi in z.
    #[must_use]
    pub fn curvature(self, z: f64, y: f64) -> f64 {
        match self {
            Glm::Logistic => logistic(z) * logistic(-z),
            Glm::Sigmoid => {
                let (p, q) = (logistic(z), logistic(-z));
                -sign(y) * p * q * (q - p)
            }
            Glm::Welsch => {
                let square = (z - y) * (z - y);
                let weight = (-0.5 * square).exp();
                if weight == 0.0 {
                    0.0
                } else {
                    (1.0 - square) * weight
                }
            }
            Glm::GemanMcClure => {
                let square = (z - y) * (z - y);
                let tail = 1.0 / (1.0 + square);
                2.0 * (tail - 4.0 * square * tail * tail) * tail
            }
        }
    }

    /// slope(z + dz, y) - slope(z, y), without cancellation when `dz` is small: the relative
    /// error stays at a few units in the last place for `dz` down to the smallest normal number.
    #[must_use]
    pub fn slope_change(self, z: f64, dz: f64, y: f64) -> f64 {
        match self {
            Glm::Logistic => logistic_change(z, dz),
            Glm::Sigmoid => {
                // d/dz of p q with q = 1 - p: the change of p (1 - p) is dp (1 - p1 - p0).
                let (p0, p1) = (logistic(z), logistic(z + dz));
                let centre = if p0 + p1 > 1.0 {
                    // 1 - p0 - p1 from the small complements.
                    logistic(-z) - p1
                } else {
                    1.0 - p0 - p1
                };
                -sign(y) * logistic_change(z, dz) * centre
            }
            Glm::Welsch => {
                let a = z - y;
                let b = a + dz;
                if dz.abs() > 1.0 {
                    return welsch_slope(b) - welsch_slope(a);
                }
                // b e^(-b^2/2) - a e^(-a^2/2)
                //   = dz e^(-b^2/2) + a e^(-a^2/2) (e^(-(a dz + dz^2/2)) - 1)
                dz * (-0.5 * b * b).exp() + welsch_slope(a) * (-(a + 0.5 * dz) * dz).exp_m1()
            }
            Glm::GemanMcClure => {
                let a = z - y;
                let b = a + dz;
                if dz.abs() > 1.0 || a.abs() > 1e60 {
                    return geman_mcclure_slope(b) - geman_mcclure_slope(a);
                }
                // 2 [b (1+a^2)^2 - a (1+b^2)^2] / ((1+a^2)^2 (1+b^2)^2), and the bracket is
                // dz (1 - ab (2 + a^2 + ab + b^2)).
                let (ta, tb) = (1.0 / (1.0 + a * a), 1.0 / (1.0 + b * b));
                let ab = a * b;
                2.0 * dz * (ta * tb - ab * ((2.0 + a * a + ab + b * b) * ta * tb)) * (ta * tb)
            }
        }
    }
}

impl Loss for Glm {
    type Records = Examples;

    const MAY_PANIC: bool = false;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.constants(records.row_norm())
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Glm::value(*self, record.row.dot(point), record.label)
    }
}

impl TwiceDifferentiable for Glm {
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let curvature = self.curvature(record.row.dot(point), record.label);
        add_multiple(curvature * record.row.dot(direction), record.row, out);
    }
}

impl Differentiable for Glm {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let slope = self.slope(record.row.dot(point), record.label);
        add_multiple(slope, record.row, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let z = record.row.dot(segment.from);
        let dz = record.row.dot(segment.displacement);
        add_multiple(self.slope_change(z, dz, record.label), record.row, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        linear_pass(records, &positions, [point], sum, |block| {
            let Block {
                products: [products],
                labels,
                multiples,
                ..
            } = block;
            self.slopes(products, labels, multiples);
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
        sum: &mut LatticeSum,
    ) {
        let points = [segment.from, segment.displacement];
        linear_pass(records, &positions, points, sum, |block| {
            let [products, changes] = block.products;
            for i in 0..block.multiples.len() {
                let (z, dz, label) = (products[i], changes[i], block.labels[i]);
                let cap = clip / block.norms[i];
                let (before, after) = (self.slope(z, label), self.slope(z + dz, label));
                block.multiples[i] = if before.abs() <= cap && after.abs() <= cap {
                    self.slope_change(z, dz, label)
                } else {
                    after.clamp(-cap, cap) - before.clamp(-cap, cap)
                };
            }
        });
    }
}

impl Glm {
    /// The slopes at `products`, which are overwritten.
    fn slopes(self, products: &mut [f64], labels: &[f64], slopes: &mut [f64]) {
        if self == Glm::Logistic {
            // -y / (1 + e^(yz)), with the exponentials of a block at a time.
            for (z, label) in products.iter_mut().zip(labels) {
                *z *= -sign(*label);
            }
            logistic_in_place(products);
            for ((slope, p), label) in slopes.iter_mut().zip(&*products).zip(labels) {
                *slope = -sign(*label) * p;
            }
            return;
        }
        for ((slope, z), label) in slopes.iter_mut().zip(&*products).zip(labels) {
            *slope = self.slope(*z, *label);
        }
    }
}

fn add_multiple(multiple: f64, row: Row<'_>, out: &mut [f64]) {
    match row {
        Row::Dense(x) => add_scaled(out, multiple, x),
        other => other.for_each(|j, x| out[j] += multiple * x),
    }
}

impl std::fmt::Display for Glm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Glm::Logistic => "logistic",
            Glm::Sigmoid => "sigmoid",
            Glm::Welsch => "welsch",
            Glm::GemanMcClure => "geman-mcclure",
        })
    }
}

/// The label as a class: +1 for positive numbers, -1 otherwise.
fn sign(y: f64) -> f64 {
    if y > 0.0 { 1.0 } else { -1.0 }
}

/// 1 / (1 + e^-z), accurate in both tails.
fn logistic(z: f64) -> f64 {
    if z >= 0.0 {
        1.0 / (1.0 + (-z).exp())
    } else {
        let e = z.exp();
        e / (1.0 + e)
    }
}

/// logistic(z + dz) - logistic(z) = (e^dz - 1) logistic(z) logistic(-(z + dz)).
fn logistic_change(z: f64, dz: f64) -> f64 {
    if dz.abs() > 1.0 {
        // No cancellation to speak of, and e^dz could overflow.
        if z + dz > 0.0 && z > 0.0 {
            logistic(-z) - logistic(-(z + dz))
        } else {
            logistic(z + dz) - logistic(z)
        }
    } else {
        dz.exp_m1() * logistic(z) * logistic(-(z + dz))
    }
}

fn welsch_slope(r: f64) -> f64 {
    let weight = (-0.5 * r * r).exp();
    if weight == 0.0 { 0.0 } else { r * weight }
}

fn geman_mcclure_slope(r: f64) -> f64 {
    let tail = 1.0 / (1.0 + r * r);
    if tail == 0.0 {
        0.0
    } else {
        2.0 * (r * tail) * tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points() -> impl Strategy<Value = (f64, f64)> {
        (
            -40.0..40.0f64,
            prop_oneof![Just(-1.0), Just(1.0), -3.0..3.0f64],
        )
    }

    proptest! {
        #[test]
        fn slopes_are_derivatives((z, y) in points()) {
            let h = 1e-5;
            for loss in Glm::ALL {
                let numeric = (loss.value(z + h, y) - loss.value(z - h, y)) / (2.0 * h);
                prop_assert!((numeric - loss.slope(z, y)).abs() < 1e-8, "{loss} {numeric} {}", loss.slope(z, y));
                let numeric = (loss.slope(z + h, y) - loss.slope(z - h, y)) / (2.0 * h);
                prop_assert!((numeric - loss.curvature(z, y)).abs() < 1e-8, "{loss}");
            }
        }

        #[test]
        fn constants_hold((z, y) in points()) {
            for loss in Glm::ALL {
                let constants = loss.constants(1.0);
                prop_assert!(loss.slope(z, y).abs() <= constants.lipschitz * (1.0 + 1e-12));
                prop_assert!(loss.curvature(z, y).abs() <= constants.smoothness * (1.0 + 1e-12));
                prop_assert!(loss.value(z, y) >= 0.0);
                prop_assert!(loss.value(0.0, y) <= constants.initial_gap + 1e-12);
            }
        }

        #[test]
        fn small_changes_follow_the_curvature((z, y) in points(), exponent in -300i32..-9) {
            let dz = 10f64.powi(exponent);
            for loss in Glm::ALL {
                // The change is curvature * dz + O(dz^2); the third derivatives are below 6.
                let linear = loss.curvature(z, y) * dz;
                let change = loss.slope_change(z, dz, y);
                prop_assert!((change - linear).abs() <= 6.0 * dz * dz + 1e-13 * dz, "{loss} {z} {dz:e}");
            }
        }

        #[test]
        fn large_changes_are_differences((z, y) in points(), dz in -5.0..5.0f64) {
            for loss in Glm::ALL {
                let plain = loss.slope(z + dz, y) - loss.slope(z, y);
                prop_assert!((loss.slope_change(z, dz, y) - plain).abs() < 1e-13, "{loss} {z} {dz}");
            }
        }

        #[test]
        fn nothing_blows_up(z in any::<f64>(), dz in any::<f64>(), y in any::<f64>()) {
            for loss in Glm::ALL {
                let constants = loss.constants(1.0);
                let slope = loss.slope(z, y);
                prop_assert!(slope.is_nan() || slope.abs() <= constants.lipschitz * (1.0 + 1e-12));
                let _ = (loss.value(z, y), loss.slope_change(z, dz, y), loss.curvature(z, y));
            }
        }
    }

    #[test]
    fn the_constants_are_attained() {
        // Arg-max of each slope and curvature, from calculus.
        let root3 = 3f64.sqrt();
        for (loss, z) in [
            (Glm::Sigmoid, 0.0),
            (Glm::Welsch, 1.0),
            (Glm::GemanMcClure, 1.0 / root3),
        ] {
            let y = if loss == Glm::Sigmoid { 1.0 } else { 0.0 };
            let constants = loss.constants(1.0);
            assert!((loss.slope(z, y).abs() - constants.lipschitz).abs() < 1e-15);
        }
        let inflection = (2.0 + root3).ln();
        assert!(
            (Glm::Sigmoid.curvature(inflection, 1.0).abs() - 1.0 / (6.0 * root3)).abs() < 1e-15
        );
        assert_eq!(Glm::Logistic.curvature(0.0, 1.0), 0.25);
    }
}
