//! A fresh estimate at every point.

use dpopt_privacy::ClipNorm;

use super::batch::{HeldSlice, Level, check_batches};
use super::estimate::{StepKind, Tracked};
use super::running::Running;
use crate::error::{AskError, EstimatorError};
use crate::oracle::Oracle;

/// Releases the mean of the clipped field at every point anew.
///
/// # Formula
/// (1/m) (sum of clip(g(w; x), C) + noise).
///
/// # Privacy
/// One event each time: Gaussian on the records read.
pub struct Fresh {
    running: Running,
    level: Level,
    held: HeldSlice,
}

impl Fresh {
    /// Estimates at points of `dim` coordinates, clipping the field to `clip`, each as `level` says.
    ///
    /// # Errors
    /// [`EstimatorError::AnchorPerLength`].
    pub fn new(dim: usize, clip: ClipNorm, level: Level) -> Result<Self, EstimatorError> {
        check_batches(level.batch, level.batch)?;
        Ok(Self {
            running: Running::new(dim, clip),
            level,
            held: HeldSlice::default(),
        })
    }

    /// The estimate at `point`.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn estimate(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
    ) -> Result<Tracked<'_>, AskError> {
        self.running.check(oracle, point)?;
        let Level {
            batch,
            noise_multiplier,
        } = self.level;
        let over = self.held.over(batch, 0.0, oracle)?;
        let released = self.running.anchor(oracle, point, over, noise_multiplier)?;
        Ok(Tracked::new(released.estimate(), StepKind::Anchor))
    }

    /// Begins a phase: the next estimate is on new records where a phase has its own.
    pub fn begin_phase(&mut self) {
        self.held.release();
    }
}
