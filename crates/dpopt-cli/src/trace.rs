//! What a run released, step by step: public values only.

use dpopt::nonconvex::{Release, ReleaseKind, SolverPlan};

/// Most releases kept: all of them at the default numbers of steps.
const MOST: u64 = 100_000;

/// Released values of a run, one entry per kept release.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trace {
    /// Step, counted from 0.
    pub step: Vec<u64>,
    /// Norm of the released estimate.
    pub released_norm: Vec<f64>,
    /// The norm that pure noise would have.
    pub noise_norm: Vec<f64>,
    /// Whether the estimate was a fresh gradient.
    pub anchor: Vec<bool>,
}

/// Fills a trace while a plan runs.
pub(crate) struct Recorder {
    pub(crate) trace: Trace,
    /// For each kept release, the share of the plan's privacy spent after it, in a measure that
    /// adds up.
    pub(crate) spent: Vec<f64>,
    stride: u64,
    anchor_cost: f64,
    variation_cost: f64,
    cost: f64,
}

impl Recorder {
    /// For a run of `plan`.
    pub(crate) fn new(plan: &SolverPlan) -> Self {
        let (anchor_cost, variation_cost) = shares(plan);
        Self {
            stride: plan.steps().div_ceil(MOST).max(1),
            anchor_cost,
            variation_cost,
            trace: Trace::default(),
            spent: Vec::new(),
            cost: 0.0,
        }
    }

    /// Notes a release: every stride-th one, and the last planned one.
    pub(crate) fn add(&mut self, release: &Release<'_>) {
        let anchor = release.kind == ReleaseKind::Anchor;
        self.cost += if anchor {
            self.anchor_cost
        } else {
            self.variation_cost
        };
        let last = release.step + 1 == release.steps;
        if last || release.step.is_multiple_of(self.stride) {
            self.trace.step.push(release.step);
            self.trace.released_norm.push(release.norm);
            self.trace.noise_norm.push(release.noise_norm);
            self.trace.anchor.push(anchor);
            self.spent.push(self.cost.min(1.0));
        }
    }
}

/// Share of the plan's cost that one anchor and one variation take. Squared Gaussian-DP
/// parameters add up, and equal releases cost the same in every measure.
fn shares(plan: &SolverPlan) -> (f64, f64) {
    match plan {
        SolverPlan::SpiderBoost(plan) => {
            let anchor = plan.anchor_noise_multiplier.get().powi(-2);
            let variation = plan.variation_noise_multiplier.get().powi(-2);
            let total = plan.anchors as f64 * anchor + plan.variations as f64 * variation;
            (anchor / total, variation / total)
        }
        // Each record is read once, so the run costs what its first release does.
        SolverPlan::TreeSpider(_) => (1.0, 0.0),
        other => {
            let each = 1.0 / other.steps() as f64;
            (each, each)
        }
    }
}
