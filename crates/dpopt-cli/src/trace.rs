//! What a run released, step by step: public values only.

use dpopt::nonconvex::{Plan, Release, ReleaseKind};

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
    /// Whether there was a release that was no gradient.
    pub passes: bool,
}

impl Trace {
    /// Whether releases were points of passes and no gradients: then norms are how far a pass moved.
    pub(crate) fn of_passes(&self) -> bool {
        self.passes
    }
}

/// Fills a trace while a plan runs.
pub(crate) struct Recorder {
    pub(crate) trace: Trace,
    /// For each kept release, the share of the plan's privacy spent after it, in a measure that
    /// adds up.
    pub(crate) spent: Vec<f64>,
    stride: u64,
}

impl Recorder {
    /// For a run of `plan`.
    pub(crate) fn new(plan: &dyn Plan) -> Self {
        Self {
            stride: plan.steps().div_ceil(MOST).max(1),
            trace: Trace::default(),
            spent: Vec::new(),
        }
    }

    /// Notes a release of `plan`: every stride-th one, and the last planned one.
    pub(crate) fn add(&mut self, release: &Release<'_>, plan: &dyn Plan) {
        // The length of an estimate is shown, not that of the mean alone which an adaptive run asks for before it.
        if release.kind == ReleaseKind::Norm {
            return;
        }
        let last = release.step + 1 == release.steps;
        if last || release.step.is_multiple_of(self.stride) {
            self.trace.step.push(release.step);
            self.trace.released_norm.push(release.norm);
            self.trace.noise_norm.push(release.noise_norm);
            self.trace.anchor.push(release.kind == ReleaseKind::Anchor);
            self.trace.passes |= release.kind == ReleaseKind::Pass;
            self.spent.push(plan.share_spent(release.step).min(1.0));
        }
    }
}
