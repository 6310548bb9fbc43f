//! How long the rounded factors of a record are to be.

use super::super::{Bound, pow2};

/// An upper bound on the norm of a vector, `norm * 2^exponent`.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    /// Between 2^-75 and 2^45, or 0.
    pub(super) norm: f64,
    /// Within 1000 of 0.
    pub(super) exponent: i32,
}

impl Measured {
    /// The factor that makes the norm of the vector `norm`: a power of two.
    pub(super) fn shrink(self) -> f64 {
        pow2(-self.exponent)
    }
}

/// The scale of one record's matrices.
pub(super) struct Scales {
    /// The exponent that norms are taken relative to.
    reference: i32,
    /// From relative norms to lattice steps, clipped.
    steps: f64,
}

impl Scales {
    /// The scales that clip `weight` (at least 0) times a record with these norms; none where all of it rounds to zero.
    pub(super) fn new(bound: &Bound, weight: f64, measured: &[[Measured; 2]]) -> Option<Self> {
        let reference = measured
            .iter()
            .filter(|[left, right]| left.norm * right.norm > 0.0)
            .map(|[left, right]| left.exponent + right.exponent)
            .max()?;
        let scales = Self {
            reference,
            steps: 1.0,
        };
        let squares: f64 = measured.iter().map(|m| scales.norm(m).powi(2)).sum();
        // Between 2^-150 and 2^109, for at most 2^38 matrices.
        let norm = squares.sqrt();
        let step = (bound.step.to_bits() >> 52) as i32 - 1023;
        let shift = reference - step;
        if shift < -300 {
            return None;
        }
        let limit = limit(bound);
        let full = pow2(shift.min(300)) * weight;
        let steps = if norm * full <= limit {
            full
        } else {
            limit / norm
        };
        Some(Self { reference, steps })
    }

    /// What the entries of the two factors, over their powers of two, are multiplied by; `aspect` is m / n.
    ///
    /// The norms in steps are x and y with x y that of the matrix, and x / y = sqrt(m / n): rounding x's entries costs
    /// y sqrt(m) / 2, y's cost x sqrt(n) / 2, and the sum of the two is least where they are equal.
    pub(super) fn of(&self, measured: &[Measured; 2], aspect: f64) -> [f64; 2] {
        let norm = self.norm(measured);
        // Every entry rounds to zero, or at most a few of one factor: drop it before anything underflows.
        if !(norm > pow2(-60)) {
            return [0.0; 2];
        }
        let x = (norm * aspect.sqrt()).sqrt();
        let y = norm / x;
        [x / measured[0].norm, y / measured[1].norm]
    }

    fn norm(&self, [left, right]: &[Measured; 2]) -> f64 {
        let below = (left.exponent + right.exponent - self.reference).clamp(-1000, 0);
        left.norm * right.norm * pow2(below) * self.steps
    }
}

/// The largest norm G, in steps, that rounding can't bring above R = radius / step:
/// (sqrt(G) + d^(1/4) / 2)^2 <= R, less 2^-40 for the roundings of norms and scales.
fn limit(bound: &Bound) -> f64 {
    let root = (bound.radius / bound.step).floor().sqrt() - 0.5 * (bound.dim as f64).sqrt().sqrt();
    root * root * (1.0 - pow2(-40))
}
