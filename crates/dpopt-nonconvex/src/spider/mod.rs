//! Walks on running estimates: anchors, and changes added to them.

pub(crate) mod boost;
pub(crate) mod normalized;
mod rank;
pub(crate) mod sampled;
pub(crate) mod storm;
pub(crate) mod tree;

use dpopt_oracle::{AskError, Batch, Level, Oracle, Running, Schedule};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Spend, Which};
use dpopt_solver::{Asked, Item, PublicFacts, ReleaseKind, RunError};

/// Phases on all records: an anchor, then variations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Phases {
    pub(crate) steps: u64,
    pub(crate) phase: u64,
    pub(crate) anchor: NoiseMultiplier,
    pub(crate) variation: NoiseMultiplier,
}

impl Phases {
    /// N1.
    pub(crate) fn anchors(&self) -> u64 {
        self.steps.div_ceil(self.phase.max(1))
    }

    /// N2.
    pub(crate) fn variations(&self) -> u64 {
        self.steps - self.anchors()
    }

    pub(crate) fn spend(&self, facts: &PublicFacts) -> Spend {
        let level = |noise_multiplier| Level {
            batch: Batch::All,
            noise_multiplier,
        };
        Schedule::new(facts.records)
            .releases(level(self.anchor), self.anchors())
            .releases(level(self.variation), self.variations())
            .spend()
    }

    /// N1 n + 2 N2 n.
    pub(crate) fn gradients(&self, facts: &PublicFacts) -> f64 {
        (self.anchors() + 2 * self.variations()) as f64 * facts.records as f64
    }

    /// Share of mu^2 that the anchors get.
    pub(crate) fn anchor_share(&self) -> f64 {
        let square = |z: NoiseMultiplier| z.get().powi(-2);
        self.cost(self.anchors(), 0, square(self.variation))
            / self.cost(self.anchors(), self.variations(), square(self.variation))
    }

    /// Share spent after a step, where a variation costs `variation` in squared mu.
    pub(crate) fn share_spent(&self, step: u64, variation: f64) -> f64 {
        let anchors = step / self.phase.max(1) + 1;
        self.cost(anchors, step + 1 - anchors, variation)
            / self.cost(self.anchors(), self.variations(), variation)
    }

    /// Lengths, numbers and noise, as a plan shows them.
    pub(crate) fn items(&self, anchor_share: f64) -> Vec<Item<'static>> {
        vec![
            Item::count("steps", self.steps),
            Item::count("phase", self.phase),
            Item::count("anchors", self.anchors()),
            Item::count("variations", self.variations()),
            Item::ratio("anchor_share", anchor_share),
            Item::ratio("anchor_noise_multiplier", self.anchor.get()),
            Item::ratio("variation_noise_multiplier", self.variation.get()),
        ]
    }

    fn cost(&self, anchors: u64, variations: u64, variation: f64) -> f64 {
        anchors as f64 * self.anchor.get().powi(-2) + variations as f64 * variation
    }

    /// Noise multipliers with which `anchors` and `variations` spend mu, a `share` of its square on the anchors.
    pub(crate) fn multipliers(anchors: u64, variations: u64, share: f64, mu: f64) -> [f64; 2] {
        let anchor = (anchors as f64 / share).sqrt() / mu;
        let variation = if variations == 0 {
            anchor
        } else {
            (variations as f64 / (1.0 - share)).sqrt() / mu
        };
        [anchor, variation]
    }
}

/// The running estimate of such phases.
pub(crate) struct PhasedEstimate {
    phases: Phases,
    running: Running,
}

impl PhasedEstimate {
    pub(crate) fn new(phases: Phases, dim: usize, clip: f64) -> Result<Self, RunError> {
        let clip = ClipNorm::new(clip).map_err(RunError::Clip)?;
        Ok(Self {
            phases,
            running: Running::new(dim, clip),
        })
    }

    pub(crate) fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let Phases {
            phase,
            anchor,
            variation,
            ..
        } = self.phases;
        Ok(if step.is_multiple_of(phase) {
            let released = self.running.anchor(oracle, point, Which::All, anchor)?;
            Asked::estimate(ReleaseKind::Anchor, released.estimate())
        } else {
            let released = self.running.vary(oracle, point, Which::All, variation)?;
            Asked::estimate(ReleaseKind::Variation, released.estimate())
        })
    }
}

/// next = point - scale x gradient.
pub(crate) fn descend(point: &[f64], scale: f64, gradient: &[f64], next: &mut [f64]) {
    for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
        *next = w - scale * g;
    }
}
