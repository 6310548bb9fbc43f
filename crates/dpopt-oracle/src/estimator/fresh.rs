//! A fresh estimate at every point.

use dpopt_privacy::{ClipNorm, Refused};

use super::tracker::{HeldSlice, check_batches, delegate_to_means};
use super::{EstimatorError, Level, Means, Recursion, StepKind, Tracked, Tracker};

/// Releases the mean of the clipped field at every point anew.
///
/// # Formula
/// (1/m) (sum of clip(g(w; x), C) + noise).
///
/// # Privacy
/// One event each time: Gaussian on the records read.
pub struct Fresh<M: Means> {
    recursion: Recursion<M>,
    level: Level,
    held: HeldSlice<M::Slice>,
}

impl<M: Means> Fresh<M> {
    /// Estimates over `means`, clipping the field to `clip`, each as `level` says.
    ///
    /// # Errors
    /// [`EstimatorError::AnchorPerLength`].
    pub fn new(means: M, clip: ClipNorm, level: Level) -> Result<Self, EstimatorError> {
        check_batches(level.batch, level.batch)?;
        Ok(Self {
            recursion: Recursion::over(means, clip),
            level,
            held: HeldSlice::none(),
        })
    }

    /// What the estimates stand on, for other releases at public points.
    pub fn means_mut(&mut self) -> &mut M {
        self.recursion.means_mut()
    }
}

impl<M: Means> Tracker for Fresh<M> {
    delegate_to_means!(recursion.means);

    fn estimate(&mut self, point: &[f64]) -> Result<Tracked<'_>, Refused> {
        self.recursion.check(point)?;
        let Level {
            batch,
            noise_multiplier,
        } = self.level;
        let over = self.held.over(batch, 0.0, &mut self.recursion.means)?;
        let released = self.recursion.anchor(point, over, noise_multiplier)?;
        Ok(Tracked::new(released.estimate(), StepKind::Anchor))
    }

    fn begin_phase(&mut self) {
        self.held.release();
    }
}
