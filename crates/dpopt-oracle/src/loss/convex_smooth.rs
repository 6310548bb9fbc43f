//! Losses that are convex and smooth for every record: a marker, and the generalised linear ones.

use dpopt_privacy::{ClipNorm, LatticeSum};

use super::{Constants, Convexity, Differentiable, Glm, Loss, Segment};
use crate::positions::Positions;
use crate::records::{Example, Examples, Records};

/// Promises that every record's loss is convex and smooth, wherever the point is.
///
/// [`crate::OutputPerturbed`] is private **only if this holds**: the sensitivity of a pass over the records
/// rests on each step w -> w - eta grad f(w; x) bringing two points no further apart. Clipping a gradient can't
/// give that, so the sensitivity of such a pass is claimed, and guarantees name [`ConvexSmooth::ARGUMENT`].
///
/// # Privacy
/// Who implements it promises, for **every** record that the body can hold (erased ones, hostile ones), that
/// there is a function h of the point with
/// - h convex, h L0-Lipschitz, and its gradient L1-Lipschitz, on all of R^d, where L0 and L1 are the
///   `lipschitz` and `smoothness` of [`Loss::constants_on`], both finite;
/// - || gradient as computed - grad h(w) || <= [`ConvexSmooth::gradient_error`] at each w of norm at most
///   `reach`. So it is finite there, and evaluating it does not panic.
///
/// No loss has it unless its author says so:
///
/// ```compile_fail
/// use dpopt_oracle::{Glm, OutputPerturbed, PrivateData};
/// fn pass(data: &PrivateData, curator: dpopt_privacy::Curator) {
///     // A generalised linear loss may be nonconvex, as Welsch's is: only a `ConvexGlm` is never.
///     let _ = OutputPerturbed::new(data, Glm::Welsch, curator);
/// }
/// ```
pub trait ConvexSmooth: Differentiable {
    /// The reason that a guarantee names.
    const ARGUMENT: &'static str;

    /// Largest distance between a gradient as computed and the promised one, at points of norm at most `reach`.
    fn gradient_error(&self, records: &Self::Records, reach: f64) -> f64;
}

/// A generalised linear loss could not be taken for convex and smooth.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotConvexSmooth {
    /// It isn't convex.
    #[error("{0} loss is not convex, so a pass with its gradients may pull neighbours apart")]
    Nonconvex(Glm),
    /// It has a kink.
    #[error(
        "{0} loss has a kink: its slope jumps, and a step of any size may pull neighbours apart"
    )]
    Kink(Glm),
}

/// A generalised linear loss that is convex and smooth for every record: logistic, Huber's or Poisson.
///
/// # Formula
/// f(w; (x, y)) = phi(<w, x>, y), with phi' clamped to [-c, c] where a clip c is set. The clamped slope is that
/// of another convex function with the same bound on phi'', so this kind of clipping keeps what
/// [`ConvexSmooth`] promises. L0 = X min(c, max|phi'|), L1 = X^2 max phi''.
///
/// # Privacy
/// Rows are rescaled to X and bad ones erased when [`crate::Examples`] is made; both L0 and L1 need that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvexGlm {
    glm: Glm,
    clip: f64,
}

impl ConvexGlm {
    /// This loss, if it is convex and smooth.
    ///
    /// # Errors
    /// [`NotConvexSmooth`].
    pub fn new(glm: Glm) -> Result<Self, NotConvexSmooth> {
        let constants = glm.constants(1.0);
        if constants.convexity != Convexity::Convex {
            return Err(NotConvexSmooth::Nonconvex(glm));
        }
        if !constants.smoothness.is_finite() {
            return Err(NotConvexSmooth::Kink(glm));
        }
        Ok(Self {
            glm,
            clip: constants.lipschitz,
        })
    }

    /// With phi' clamped to [-clip, clip] (in units of phi', not of the gradient).
    #[must_use]
    pub fn with_slope_clip(self, clip: ClipNorm) -> Self {
        Self {
            clip: clip.get().min(self.clip),
            ..self
        }
    }

    /// The loss.
    #[must_use]
    pub fn glm(&self) -> Glm {
        self.glm
    }

    /// The constants for rows of norm at most `row_norm` and labels within `[-label_bound, label_bound]`.
    #[must_use]
    pub fn constants_within(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        let constants = self.glm.constants_within(row_norm, label_bound);
        Constants {
            lipschitz: constants.lipschitz.min(self.clip * row_norm),
            ..constants
        }
    }

    fn slope(&self, record: Example<'_>, point: &[f64]) -> f64 {
        let slope = self.glm.slope(record.row.dot(point), record.label);
        if slope > self.clip {
            self.clip
        } else if slope < -self.clip {
            -self.clip
        } else {
            slope
        }
    }
}

impl TryFrom<Glm> for ConvexGlm {
    type Error = NotConvexSmooth;

    fn try_from(glm: Glm) -> Result<Self, NotConvexSmooth> {
        Self::new(glm)
    }
}

impl Loss for ConvexGlm {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.constants_within(records.row_norm(), records.label_bound())
    }

    /// That of the loss without the clip.
    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        self.glm.value(record.row.dot(point), record.label)
    }
}

impl Differentiable for ConvexGlm {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        super::glm::add_multiple(self.slope(record, point), record.row, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let clamped = |point| self.glm.slope(record.row.dot(point), record.label).abs() > self.clip;
        if clamped(segment.from) || clamped(segment.to) {
            let change = self.slope(record, segment.to) - self.slope(record, segment.from);
            super::glm::add_multiple(change, record.row, out);
        } else {
            self.glm.gradient_change(record, segment, out);
        }
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        if self.clip >= self.glm.constants(1.0).lipschitz {
            return self.glm.add_gradients(records, positions, point, sum);
        }
        for i in positions.iter() {
            let record = records.record(i);
            let mut gradient = vec![0.0; point.len()];
            self.gradient(record, point, &mut gradient);
            sum.add_scaled(1.0, &gradient);
        }
    }
}

/// By how much, relative to the largest slope, the scalar functions may be off: the exponential of the platform
/// errs by a unit or two in the last place, 2^-52; this leaves a factor of 2^12.
const SLOPE_ERROR: f64 = 1.0 / (1_u64 << 40) as f64;

/// The slopes are monotone in z with slope at most max phi'', each multiplied by a row of norm at most X.
///
/// An inner product of d terms errs by at most d + 1 roundings of ||w|| ||x||, in any order; the slope there by
/// that times max phi'' and by its own error; the product with the row by one rounding.
impl ConvexSmooth for ConvexGlm {
    const ARGUMENT: &'static str =
        "each record's loss is convex and smooth (generalised linear, rows rescaled)";

    fn gradient_error(&self, records: &Examples, reach: f64) -> f64 {
        let row = records.row_norm() * (1.0 + 1e-9);
        let constants = self.glm.constants(1.0);
        let product = (records.columns() as f64 + 8.0) * f64::EPSILON * reach * row;
        let slope = constants.smoothness * product + SLOPE_ERROR * constants.lipschitz;
        row * (slope + f64::EPSILON * constants.lipschitz)
    }
}
