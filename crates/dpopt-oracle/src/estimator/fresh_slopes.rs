//! A fresh estimate at every point, from values alone.

use std::num::NonZeroUsize;

use dpopt_privacy::ClipNorm;

use super::batch::{HeldSlice, Level, check_batches};
use super::estimate::{Released, StepKind, Tracked};
use crate::error::{AskError, EstimatorError};
use crate::oracle::Oracle;
use crate::query::{Directions, Slopes};

/// Releases the mean slopes at every point anew, along fresh directions that all records share, and makes a gradient of
/// the smoothed loss of them.
///
/// # Formula
/// g = (d/m) sum_j y_j ((1/n) (sum of clip(b(x), C) + noise))_j, b_j = (f(w + a y_j) - f(w - a y_j))/(2 a), noise and clip
/// in m dimensions. If nothing is clipped the mean of g is the gradient of F_a, whatever m is.
///
/// # Privacy
/// One event each time: Gaussian on the records read. The directions are drawn before a record is read and are public;
/// all that follows the release is post-processing.
pub struct FreshSlopes {
    released: Released,
    directions: NonZeroUsize,
    smoothing: f64,
    clip: ClipNorm,
    level: Level,
    held: HeldSlice,
}

impl FreshSlopes {
    /// Estimates at points of `dim` coordinates by `directions` slopes each (no more than `dim` are taken), over twice the
    /// length `smoothing`, clipped to `clip` as one vector, each as `level` says.
    ///
    /// # Errors
    /// [`EstimatorError::AnchorPerLength`].
    pub fn new(
        dim: usize,
        (directions, smoothing): (NonZeroUsize, f64),
        clip: ClipNorm,
        level: Level,
    ) -> Result<Self, EstimatorError> {
        check_batches(level.batch, level.batch)?;
        Ok(Self {
            released: Released::nothing(dim),
            directions,
            smoothing,
            clip,
            level,
            held: HeldSlice::default(),
        })
    }

    /// The estimate at `point`. Its standard deviation is the root mean square over the coordinates, of which the noise
    /// fills m directions.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn estimate(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
    ) -> Result<Tracked<'_>, AskError> {
        let dim = self.released.point.len();
        if point.len() != dim {
            return Err(AskError::Shape { dim });
        }
        oracle.facts().check_point(point)?;
        let curator = oracle.books().curator_mut();
        let directions = &Directions::draw(curator, dim, self.directions)?;
        let over = self.held.over(self.level.batch, 0.0, oracle)?;
        let of = Slopes {
            point,
            directions,
            smoothing: self.smoothing,
            clip: self.clip,
        };
        let answer = oracle.slopes(of, over, self.level.noise_multiplier)?;
        let spread = dim as f64 / directions.count() as f64;
        let variance = answer.noise_std.powi(2) * spread;
        let lifted = directions.lift(&answer.mean);
        self.released
            .move_to(point, lifted, variance, variance.sqrt());
        Ok(Tracked::new(self.released.estimate(), StepKind::Anchor))
    }
}
