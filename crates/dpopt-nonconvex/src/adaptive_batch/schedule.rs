//! What a plan for one pass does.

use dpopt_oracle::{
    Batch, Drift, Level, PeriodAnchor, PeriodTerms, PrefixSettings, Refresh, Schedule, share_of,
};
use dpopt_privacy::{
    ClipNorm, Event, NoiseMultiplier, Participation, PrefixKind, Spend, UnitError,
};
use dpopt_solver::{Episode, PublicFacts, SecondOrderTargets};

/// How a second-order certificate is looked for in one pass: everything fixed, from public facts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveBatchSchedule {
    /// What a certificate says at least.
    pub targets: SecondOrderTargets,
    /// eta.
    pub step_size: f64,
    /// b: records of an anchor.
    pub anchor_batch: u64,
    /// Records of a variation.
    pub variation: Batch,
    /// Where the noise of a period comes from.
    pub noise: PrefixKind,
    /// Most estimates of a period.
    pub period: u64,
    /// kappa/L1: a period ends when the walk has gone so far.
    pub drift: f64,
    /// z of every release.
    pub noise_multiplier: f64,
    /// theta: a point is a candidate where the estimate is at most so long.
    pub candidate: f64,
    /// gamma: how far off an estimate is taken to be, at most or, by typical constants, in root mean square.
    pub error: f64,
    /// What tells curvature in place of a Hessian.
    pub episode: Option<Episode>,
    /// b_H: records of a Hessian, or of an episode.
    pub hessian_batch: u64,
    /// b_c: records of the norm of a certificate.
    pub norm_batch: u64,
    /// b_s: records of the gradient that gives a step of curvature its sign.
    pub sign_batch: u64,
    /// ln(2K/p_c): the margins of a certificate are for this.
    pub certificate_log: f64,
    /// So far may the least eigenvalue of a released Hessian be below the curvature along its vector; of an episode, sampling alone.
    pub operator: f64,
    /// e_s: what the sign of a step along a direction of negative curvature may cost per length.
    pub sign_error: f64,
    /// K: most candidates.
    pub most_candidates: u64,
    /// Steps after which it ends in a certificate; with typical constants but for those of curvature.
    pub steps: u64,
    /// Records after which it does.
    pub records: u64,
}

impl AdaptiveBatchSchedule {
    /// How much longer the true gradient may be than a released norm with this noise.
    #[must_use]
    pub fn norm_margin(&self, facts: &PublicFacts, noise_std: f64) -> f64 {
        let batch = self.norm_batch as f64;
        super::bounds::hoeffding(self.certificate_log, facts.lipschitz, batch, noise_std)
    }

    /// How far the least true eigenvalue may be below that of a released Hessian with this noise, for curvatures of at most `bound`.
    #[must_use]
    pub fn curvature_margin(&self, bound: f64, noise_std: f64) -> f64 {
        let batch = self.hessian_batch as f64;
        super::bounds::hoeffding(self.certificate_log, bound, batch, noise_std)
    }

    /// The estimate that the plan walks on.
    ///
    /// # Errors
    /// [`UnitError`] for a share or noise out of range.
    pub fn estimate(&self, facts: &PublicFacts) -> Result<PrefixSettings, UnitError> {
        let anchor = share_of(facts.lipschitz, self.anchor_batch as f64)?;
        let change = match self.variation {
            Batch::PerLength(rate) => share_of(facts.smoothness, rate)?,
            // Of whatever length.
            Batch::Next(len) => {
                let reach = (facts.smoothness * self.drift).min(2.0 * facts.lipschitz);
                share_of(reach, len as f64)?
            }
            _ => anchor,
        };
        let share = if change.get() > anchor.get() {
            change
        } else {
            anchor
        };
        Ok(PrefixSettings {
            clip: ClipNorm::new(facts.lipschitz)?,
            anchor: PeriodAnchor::FirstStep(Batch::Next(self.anchor_batch)),
            variation: self.variation,
            period: PeriodTerms {
                kind: self.noise,
                len: self.period,
                participation: Participation::Single,
                share,
                noise_multiplier: NoiseMultiplier::new(self.noise_multiplier)?,
            },
            refresh: Refresh::on(Drift::Path(self.drift)),
        })
    }

    /// What one record costs at most: it is in one batch of one release.
    ///
    /// A period that can't be is left out of it, and refused when it is opened.
    pub(super) fn spend(&self, facts: &PublicFacts) -> Result<Spend, UnitError> {
        let settings = self.estimate(facts)?;
        if self.episode.is_some() {
            // Of a slice that an episode reads again and again the multipliers are chosen on the way.
            let cap = Event::gaussian(settings.period.noise_multiplier);
            return Ok(Spend::at_most_on_each_slice(cap));
        }
        let level = |len| Level {
            batch: Batch::Next(len),
            noise_multiplier: settings.period.noise_multiplier,
        };
        let certificate = Schedule::new(facts.records)
            .releases(level(self.hessian_batch), 1)
            .releases(level(self.norm_batch), 1)
            .releases(level(self.sign_batch), 1);
        let all = certificate.clone().prefix(&settings, 1);
        Ok(all.unwrap_or(certificate).spend())
    }
}
