//! What a pass does, and what it costs.

use dpopt_oracle::{
    Batch, EstimatorError, Level, PeriodAnchor, PeriodTerms, PrefixRecursive, PrefixSettings,
    Recursive, RecursiveSettings, Refresh, Schedule, TreeRounds, share_of,
};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Participation, PrefixKind, Spend};
use dpopt_solver::{PlanError, PublicFacts};

use super::estimate::{Estimates, PassEstimate};
use super::period::depth;
use crate::certificate::CertificateNoise;

/// What a [`RgdaPassPlan`](super::plan::RgdaPassPlan) does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RgdaPassSchedule {
    /// How estimates are made.
    pub estimate: PassEstimate,
    /// s.
    pub scale: f64,
    /// K: steps of y for each of x.
    pub inner: u64,
    /// K_0: steps of y before the first of x.
    pub before: u64,
    /// q: steps of x in a period.
    pub period: u64,
    /// P.
    pub periods: u64,
    /// h: the length of a step of x.
    pub length: f64,
    /// b: records of an anchor.
    pub anchor_batch: u64,
    /// beta: records of a change over its length.
    pub rate: f64,
    /// Noise multiplier of every release: 1/mu.
    pub noise_multiplier: NoiseMultiplier,
}

impl RgdaPassSchedule {
    /// T: steps of x.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.periods.saturating_mul(self.period)
    }

    /// Releases of a run.
    #[must_use]
    pub fn releases(&self) -> u64 {
        self.steps()
            .saturating_mul(self.inner + 1)
            .saturating_add(self.before)
    }

    /// Changes of a period.
    #[must_use]
    pub fn variations(&self) -> u64 {
        self.period.saturating_mul(self.inner + 1).saturating_sub(1)
    }

    fn level(&self, batch: Batch) -> Level {
        Level {
            batch,
            noise_multiplier: self.noise_multiplier,
        }
    }

    fn anchor(&self) -> Level {
        self.level(Batch::Next(self.anchor_batch))
    }

    fn variation(&self) -> Level {
        self.level(Batch::PerLength(self.rate))
    }

    fn levels(&self) -> Vec<Level> {
        let depth = depth(self.variations().saturating_add(1));
        std::iter::once(self.anchor())
            .chain((0..depth).map(|_| self.variation()))
            .collect()
    }

    fn prefix(
        &self,
        kind: PrefixKind,
        joint: &PublicFacts,
    ) -> Result<PrefixSettings, EstimatorError> {
        Ok(PrefixSettings {
            clip: ClipNorm::new(joint.lipschitz)?,
            anchor: PeriodAnchor::Apart(self.anchor()),
            variation: self.variation().batch,
            period: PeriodTerms {
                kind,
                len: self.variations().max(1),
                participation: Participation::Single,
                share: share_of(joint.smoothness, self.rate)?,
                noise_multiplier: self.noise_multiplier,
            },
            refresh: Refresh::by_phase(),
        })
    }

    pub(super) fn spend(
        &self,
        joint: &PublicFacts,
        kept: Option<&Reserved>,
    ) -> Result<Spend, PlanError> {
        let all = Schedule::new(joint.records).releases(self.anchor(), self.before + self.periods);
        let all = match self.estimate {
            _ if self.variations() == 0 => all,
            PassEstimate::Prefix(kind) => {
                let bad = || PlanError::BadFact {
                    name: "records of a change over its length",
                    value: self.rate,
                };
                let settings = self.prefix(kind, joint).map_err(|_| bad())?;
                all.prefix(&settings, self.periods).map_err(|_| bad())?
            }
            _ => all.releases(self.variation(), self.periods),
        };
        Ok(match kept {
            None => all,
            Some(kept) => all.slice(kept.noise.x, kept.count()),
        }
        .spend())
    }

    pub(super) fn estimates(&self, joint: &PublicFacts) -> Result<Estimates, EstimatorError> {
        let clip = ClipNorm::new(joint.lipschitz)?;
        Ok(match self.estimate {
            PassEstimate::Chain => {
                let settings = RecursiveSettings {
                    clip,
                    anchor: self.anchor(),
                    variation: self.variation(),
                    refresh: Refresh::by_phase(),
                };
                Estimates::Chain(Recursive::new(joint.dim, settings)?.by_rule_only())
            }
            PassEstimate::Prefix(kind) => {
                let settings = self.prefix(kind, joint)?;
                Estimates::Prefix(Box::new(
                    PrefixRecursive::new(joint.dim, settings)?.by_rule_only(),
                ))
            }
            PassEstimate::Rounds => {
                Estimates::Rounds(TreeRounds::new(joint.dim, clip, self.levels())?)
            }
        })
    }
}

/// What is kept for a certificate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reserved {
    pub(super) records: u64,
    pub(super) noise: CertificateNoise,
}

impl Reserved {
    /// Releases of a certificate.
    pub(super) fn count(&self) -> u64 {
        1 + u64::from(self.noise.y.is_some()) + u64::from(self.noise.hessian.is_some())
    }
}
