//! A Hessian that is carried along a walk: an anchor on a slice, and changes on slices of their own.

use std::sync::Arc;

use dpopt_linalg::distance;
use dpopt_privacy::{ClipNorm, NoiseMultiplier};

use super::batch::Batch;
use crate::error::{AskError, EstimatorError};
use crate::oracle::{Mean, Oracle};
use crate::query::{ChainProduct, HessianLink};

/// Settings of a [`HessianChain`], all from a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainSettings {
    /// M: products with an anchor's Hessians are clipped to M ||v||.
    pub smoothness: f64,
    /// rho: those with changes to rho ||w - w'|| ||v||.
    pub lipschitz: f64,
    /// Records of an anchor.
    pub anchor: u64,
    /// Records of a change, per length.
    pub per_length: f64,
    /// The longest part of one record in a product, for every v that is asked for: M R/anchor or rho R/per_length, whichever
    /// is larger, with ||v|| <= R.
    pub share: ClipNorm,
    /// z of a product.
    pub noise_multiplier: NoiseMultiplier,
}

/// A chained Hessian. Slices are taken as the walk goes; records are read when a product is asked for, and each product is
/// charged to every slice of the chain.
///
/// # Formula
/// H(w_k) = mean over the anchor's slice of hess f(w_0) + sum_(j <= k) mean over slice j of (hess f(w_j) - hess f(w_(j-1))),
/// in products with public vectors alone.
///
/// # Privacy
/// [`ChainProduct`]. Who keeps the links of a chain that has begun anew may go on asking for its products: its slices pay.
pub struct HessianChain {
    settings: ChainSettings,
    links: Vec<Arc<HessianLink>>,
}

impl HessianChain {
    /// A chain without links.
    ///
    /// # Errors
    /// [`EstimatorError::BatchRate`].
    pub fn new(settings: ChainSettings) -> Result<Self, EstimatorError> {
        let rate = settings.per_length;
        if !(rate > 0.0 && rate.is_finite()) {
            return Err(EstimatorError::BatchRate { rate });
        }
        Ok(Self {
            settings,
            links: Vec::new(),
        })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &ChainSettings {
        &self.settings
    }

    /// The links, from the anchor to where the walk is.
    #[must_use]
    pub fn links(&self) -> &[Arc<HessianLink>] {
        &self.links
    }

    /// Whether a new anchor at `point` reads no more records than a change to it would, or there is none.
    #[must_use]
    pub fn wants_anchor(&self, point: &[f64]) -> bool {
        match self.links.last() {
            None => true,
            Some(last) => self.batch(distance(last.at(), point)) >= self.settings.anchor,
        }
    }

    /// Takes a new anchor at `point`; the chain before it ends.
    ///
    /// # Errors
    /// [`AskError`], where too few records are left too; nothing has changed then.
    pub fn anchor(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<(), AskError> {
        oracle.facts().check_point(point)?;
        let slice = oracle.books().take_slice(self.settings.anchor)?;
        let link = HessianLink::anchor(slice, point, self.settings.smoothness);
        self.links.clear();
        self.links.push(Arc::new(link));
        Ok(())
    }

    /// Carries the chain on to `point`; to where it is already, nothing is taken.
    ///
    /// # Errors
    /// As [`HessianChain::anchor`].
    pub fn extend(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<(), AskError> {
        oracle.facts().check_point(point)?;
        let Some(last) = self.links.last().map(Arc::clone) else {
            return self.anchor(oracle, point);
        };
        if last.at() == point {
            return Ok(());
        }
        let len = self.batch(distance(last.at(), point));
        let slice = oracle.books().take_slice(len)?;
        let link = HessianLink::change(slice, last.at(), point, self.settings.lipschitz);
        self.links.push(Arc::new(link));
        Ok(())
    }

    /// The product of these links, which this chain made, with `direction`.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn product(
        &self,
        oracle: &mut dyn Oracle,
        links: &[Arc<HessianLink>],
        direction: &[f64],
    ) -> Result<Mean, AskError> {
        let ChainSettings {
            share,
            noise_multiplier,
            ..
        } = self.settings;
        let of = ChainProduct {
            links,
            direction,
            share,
        };
        oracle.chain(of, noise_multiplier)
    }

    fn batch(&self, length: f64) -> u64 {
        let batch = Batch::PerLength(self.settings.per_length);
        batch.unread(length).unwrap_or(u64::MAX)
    }
}
