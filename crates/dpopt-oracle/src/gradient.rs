//! Private gradients for a loop of one's own.

use std::num::NonZeroUsize;

use dpopt_privacy::{ClipNorm, Curator, Event, NoiseMultiplier, Refused, Spend, Which};

use crate::data::PrivateData;
use crate::error::{AskError, EstimatorError};
use crate::estimator::{Estimate, Released, Running};
use crate::loss::{Differentiable, Glm, Momentum};
use crate::oracle::{Counts, Oracle, PrivateMean};

/// Private records with a running estimate of their mean gradient at hand: for a training loop of one's own. Plans
/// don't need it; they run on any [`Oracle`], such as [`PrivateMean`].
///
/// # Formula
/// [`PrivateGradient::refresh`]: (1/m) (sum of clip(grad f(w; x), C) + noise), with m the public number of records
/// read. [`PrivateGradient::advance`]: the same for differences of clipped gradients, of radius
/// min(L1 ||w - w'||, 2C), added to the running estimate.
///
/// # Privacy
/// Each call is one event of the curator: a Gaussian release with the given noise multiplier, on all records, on one
/// sample, or on one fresh slice. Sensitivities are enforced, not assumed; a wrong constant of the loss costs accuracy
/// only. See `docs/privacy/estimator.md`.
pub struct PrivateGradient<'a, L: Differentiable = Glm> {
    mean: PrivateMean<'a, L>,
    running: Running,
    anchor: Which<'static>,
    variation: Which<'static>,
}

impl<'a, L: Differentiable> PrivateGradient<'a, L> {
    /// On all records, clipping to the loss's own Lipschitz constant (so that no gradient is shortened), on one thread.
    ///
    /// # Errors
    /// [`EstimatorError`]; a loss without a finite Lipschitz constant needs [`PrivateGradient::clipped`].
    pub fn new(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, EstimatorError> {
        let clip = ClipNorm::new(loss.constants_on(data.records()).lipschitz)?;
        Self::clipped(data, loss, curator, clip)
    }

    /// On all records, clipping to `clip`, on one thread.
    ///
    /// # Errors
    /// [`EstimatorError`].
    pub fn clipped(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
        clip: ClipNorm,
    ) -> Result<Self, EstimatorError> {
        let mean = PrivateMean::new(data, loss, curator)?;
        Ok(Self {
            running: Running::new(mean.dim(), clip),
            mean,
            anchor: Which::All,
            variation: Which::All,
        })
    }

    /// Uses up to `threads` threads; results do not depend on it. See [`PrivateMean::with_threads`].
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.mean = self.mean.with_threads(threads);
        self
    }

    /// Clips gradients to `clip` instead.
    #[must_use]
    pub fn with_clip(mut self, clip: ClipNorm) -> Self {
        self.running.set_clip(clip);
        self
    }

    /// Reads these records for a fresh estimate, and those for a difference: all, a sample, or unread ones.
    #[must_use]
    pub fn reading(self, anchor: Which<'static>, variation: Which<'static>) -> Self {
        Self {
            anchor,
            variation,
            ..self
        }
    }

    /// Sets aside what will be spent, before the first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    pub fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.mean.books().reserve(spend)
    }

    /// A fresh estimate at `point`.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, AskError> {
        let over = self.anchor;
        let released = self
            .running
            .anchor(&mut self.mean, point, over, noise_multiplier)?;
        Ok(released.estimate())
    }

    /// Moves the estimate to `point` by a released difference. A point equal to the last one releases nothing and costs
    /// nothing. Without a refresh before it the estimate starts at zero at the origin.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, AskError> {
        let over = self.variation;
        let released = self
            .running
            .vary(&mut self.mean, point, over, noise_multiplier)?;
        Ok(released.estimate())
    }

    /// Moves the estimate to `point` by a step of recursive momentum ([`Running::vary_with_momentum`]).
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn advance_with_momentum(
        &mut self,
        point: &[f64],
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, AskError> {
        let over = self.variation;
        let released = self.running.vary_with_momentum(
            &mut self.mean,
            point,
            over,
            momentum,
            noise_multiplier,
        )?;
        Ok(released.estimate())
    }

    /// The estimate and where it is.
    #[must_use]
    pub fn released(&self) -> &Released {
        self.running.released()
    }

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    pub fn settle(&mut self) -> Result<Event, Refused> {
        self.mean.books().settle()
    }

    /// Nominal counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.mean.counts()
    }

    /// The records, for other questions at public points.
    pub fn mean(&mut self) -> &mut PrivateMean<'a, L> {
        &mut self.mean
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        self.mean.curator()
    }
}
