//! What a plan of the faithful algorithm does.

use dpopt_oracle::{
    Batch, ChainSettings, Drift, PeriodAnchor, PeriodTerms, PrefixSettings, Refresh, Schedule,
    share_of,
};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Participation, PrefixKind, Spend, UnitError};
use dpopt_solver::{HessianFacts, PublicFacts};

/// All numbers of the faithful algorithm: fixed, from public facts. Letters are those of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaithfulSchedule {
    /// alpha, which all else hangs on. Nothing is certified.
    pub target: f64,
    /// eta.
    pub step_size: f64,
    /// b: records of O1.
    pub anchor_batch: u64,
    /// Records of O2, per length of the step that was made.
    pub variation_rate: f64,
    /// Where the noise of a period comes from: the tree, in the paper.
    pub noise: PrefixKind,
    /// T_e: most estimates of a period.
    pub period: u64,
    /// kappa/M: a period ends when the walk has gone so far.
    pub drift: f64,
    /// z of a period.
    pub noise_multiplier: f64,
    /// theta: an episode begins where the estimate is at most so long.
    pub candidate: f64,
    /// gamma: how far off an estimate is taken to be, in root mean square.
    pub error: f64,
    /// b^H: records of O3.
    pub hessian_batch: u64,
    /// Records of O4, per length.
    pub hessian_rate: f64,
    /// z of each product with the chained Hessian.
    pub product_noise_multiplier: f64,
    /// Gamma: most steps of an episode.
    pub episode: u64,
    /// Xi: an episode that comes so far has left.
    pub radius: f64,
    /// tau: most episodes of one chain.
    pub episodes_per_chain: u64,
    /// T: most steps.
    pub steps: u64,
    /// N: what the worst case of the planned drift reads. A run may need more, and end before.
    pub records: u64,
}

impl FaithfulSchedule {
    /// The estimate of gradients: O1, O2 and TREE.
    ///
    /// # Errors
    /// [`UnitError`] for a share or noise out of range.
    pub fn estimate(&self, facts: &PublicFacts) -> Result<PrefixSettings, UnitError> {
        let anchor = share_of(facts.lipschitz, self.anchor_batch as f64)?;
        let change = share_of(facts.smoothness, self.variation_rate)?;
        Ok(PrefixSettings {
            clip: ClipNorm::new(facts.lipschitz)?,
            anchor: PeriodAnchor::FirstStep(Batch::Next(self.anchor_batch)),
            variation: Batch::PerLength(self.variation_rate),
            period: PeriodTerms {
                kind: self.noise,
                len: self.period,
                participation: Participation::Single,
                share: longer(anchor, change),
                noise_multiplier: NoiseMultiplier::new(self.noise_multiplier)?,
            },
            refresh: Refresh::on(Drift::Path(self.drift)),
        })
    }

    /// The chained Hessian: O3 and O4.
    ///
    /// # Errors
    /// [`UnitError`] for a share or noise out of range.
    pub fn chain(
        &self,
        facts: &PublicFacts,
        hessian: &HessianFacts,
    ) -> Result<ChainSettings, UnitError> {
        let anchor = share_of(facts.smoothness * self.radius, self.hessian_batch as f64)?;
        let change = share_of(hessian.lipschitz * self.radius, self.hessian_rate)?;
        Ok(ChainSettings {
            smoothness: facts.smoothness,
            lipschitz: hessian.lipschitz,
            anchor: self.hessian_batch,
            per_length: self.hessian_rate,
            share: longer(anchor, change),
            noise_multiplier: NoiseMultiplier::new(self.product_noise_multiplier)?,
        })
    }

    /// Products that one slice of a chain pays for at most: Gamma tau.
    #[must_use]
    pub fn products(&self) -> u64 {
        self.episode.saturating_mul(self.episodes_per_chain)
    }

    /// What one record costs at most: a step of one period, or all products of one chain.
    ///
    /// A period that can't be is left out of it, and refused when it is opened.
    pub(super) fn spend(&self, facts: &PublicFacts) -> Result<Spend, UnitError> {
        let products = NoiseMultiplier::new(self.product_noise_multiplier)?;
        let chain = Schedule::new(facts.records).slice(products, self.products());
        let all = chain.clone().prefix(&self.estimate(facts)?, 1);
        Ok(all.unwrap_or(chain).spend())
    }
}

fn longer(one: ClipNorm, other: ClipNorm) -> ClipNorm {
    if other.get() > one.get() { other } else { one }
}
