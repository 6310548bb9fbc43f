//! Gradients over stages: each stage holds a slice of unread records and reads it as often as is paid for.

use dpopt_privacy::{ClipNorm, Event, NoiseMultiplier, PoolError, Refused, Spend};

use super::{Counts, Estimate, Means, Over, Recursion};

/// What a solver in stages may ask.
///
/// The trait is dyn-safe. An implementation draws, clips and charges; a solver does none of it.
pub trait Stages {
    /// Dimension of points and estimates.
    fn dim(&self) -> usize;

    /// Sets aside what the run will spend. Called once, before the first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused>;

    /// Gives up the slice of the last stage and takes the next `records` unread ones.
    ///
    /// # Errors
    /// [`Refused::Pool`] when fewer are left, and under an adjacency without fixed positions; the last slice stays.
    fn begin_stage(&mut self, records: u64) -> Result<(), Refused>;

    /// The mean gradient over the stage's slice at `point`.
    ///
    /// # Errors
    /// [`Refused`]; nothing was released then. [`PoolError::NotOpen`] before the first stage.
    fn estimate(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused>;

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    fn settle(&mut self) -> Result<Event, Refused>;

    /// Nominal counts so far.
    fn counts(&self) -> Counts;
}

/// The mean of the clipped field over the slice of the stage, released anew at every point.
///
/// # Privacy
/// Each release is one Gaussian event on the slice. A record is in one slice, so stages compose by the dearest
/// of them.
pub struct Staged<M: Means> {
    recursion: Recursion<M>,
    slice: Option<M::Slice>,
}

impl<M: Means> Staged<M> {
    /// Estimates over `means`, clipping the field to `clip`.
    #[must_use]
    pub fn new(means: M, clip: ClipNorm) -> Self {
        Self {
            recursion: Recursion::over(means, clip),
            slice: None,
        }
    }

    /// What the estimates stand on.
    #[must_use]
    pub fn means(&self) -> &M {
        self.recursion.means()
    }

    /// What the estimates stand on, for other releases at public points.
    pub fn means_mut(&mut self) -> &mut M {
        self.recursion.means_mut()
    }
}

impl<M: Means> Stages for Staged<M> {
    fn dim(&self) -> usize {
        self.means().dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.means_mut().reserve(spend)
    }

    fn begin_stage(&mut self, records: u64) -> Result<(), Refused> {
        self.slice = Some(self.means_mut().take_slice(records)?);
        Ok(())
    }

    fn estimate(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let slice = self.slice.as_ref().ok_or(PoolError::NotOpen)?;
        let released = self
            .recursion
            .anchor(point, Over::Slice(slice), noise_multiplier)?;
        Ok(released.estimate())
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.means_mut().settle()
    }

    fn counts(&self) -> Counts {
        self.means().counts()
    }
}
