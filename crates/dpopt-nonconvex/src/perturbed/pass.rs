//! One pass: how many unread records anchors and variations read.

use dpopt_oracle::{Batch, Level, Schedule};
use dpopt_privacy::{NoiseMultiplier, Spend};
use dpopt_solver::{PublicFacts, chi_reach};

use crate::adaptive_batch::bounds::{bernstein, fewest};

/// What the releases of a [`PerturbedPlan`](crate::PerturbedPlan) in one pass read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerturbedPass {
    /// Records of an anchor.
    pub anchor: u64,
    /// Records of a variation.
    pub variation: u64,
    /// Most records of a run.
    pub records: u64,
}

impl PerturbedPass {
    /// What one record costs: it is read by one release, with one of these multipliers.
    pub(super) fn spend(
        &self,
        records: u64,
        (anchor, variation): (NoiseMultiplier, NoiseMultiplier),
    ) -> Spend {
        let level = |len, noise_multiplier| Level {
            batch: Batch::Next(len),
            noise_multiplier,
        };
        let anchors = Schedule::new(records).releases(level(self.anchor, anchor), 1);
        match self.variation {
            0 => anchors,
            len => anchors.releases(level(len, variation), 1),
        }
        .spend()
    }
}

/// What the error of the estimates of a run hangs on: `docs/theory/perturbed.md`, One pass.
pub(super) struct OnePass {
    lipschitz: f64,
    /// L1 sqrt(Lambda): no change of a record's gradient is longer.
    reach: f64,
    /// ln(4 A/p).
    log: f64,
    /// Length of the noise of a mean over one record of vectors of length 1, but with p/(4 A).
    noise: f64,
    anchors: f64,
    steps: f64,
}

impl OnePass {
    /// `path` is Lambda, 0 where every release is an anchor.
    pub(super) fn new(
        facts: &PublicFacts,
        mu: f64,
        failure: f64,
        (anchors, steps): (f64, f64),
        path: f64,
    ) -> Self {
        // A half of p for sampling and a half for noise, and a 2 before either tail.
        let each = 0.25 * failure / anchors;
        Self {
            lipschitz: facts.lipschitz,
            reach: facts.smoothness * path.sqrt(),
            log: (1.0 / each).ln(),
            noise: facts.adjacency.sum_sensitivity() / mu * chi_reach(facts.dim as f64, each),
            anchors,
            steps,
        }
    }

    /// No estimate is farther off, but with p.
    fn error(&self, anchor: f64, variation: f64) -> f64 {
        let of_anchor = self.lipschitz / anchor;
        let (of_change, changes) = match self.reach > 0.0 {
            true => (self.reach / variation, self.reach * self.reach / variation),
            false => (0.0, 0.0),
        };
        let variance = self.lipschitz * of_anchor + changes;
        bernstein(self.log, variance, 2.0 * of_anchor.max(of_change))
            + self.noise * of_anchor.hypot(of_change)
    }

    /// The fewest records for which no estimate is off by more than `error`, of three ways to share them.
    pub(super) fn fewest(&self, error: f64) -> Option<PerturbedPass> {
        let ratio = (self.reach / self.lipschitz).powi(2) * self.anchors / self.steps;
        let mut best: Option<PerturbedPass> = None;
        // The best shares if noise is all there is, and if sampling is.
        for power in [1.0 / 3.0, 0.4, 0.5] {
            let changes = |anchor: f64| match self.reach > 0.0 {
                true => (ratio.powf(power) * anchor).ceil(),
                false => 0.0,
            };
            let anchor = fewest(error, |anchor| self.error(anchor, changes(anchor)))?;
            let variation = changes(anchor);
            let records = self.anchors * anchor + (self.steps - 1.0) * variation;
            // A whole number up to 2^53.
            if records < 9e15 && best.is_none_or(|best| records < best.records as f64) {
                best = Some(PerturbedPass {
                    anchor: anchor as u64,
                    variation: variation as u64,
                    records: records as u64,
                });
            }
        }
        best
    }
}
