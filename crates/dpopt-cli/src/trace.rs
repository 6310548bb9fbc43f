//! What a run released, thinned for plots: public values only.

use dpopt::nonconvex::{Release, ReleaseKind};

/// Most points kept.
const MOST: u64 = 2_000;

/// Released gradient norms and noise levels, one entry per kept release.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub(crate) step: Vec<u64>,
    pub(crate) released_norm: Vec<f64>,
    pub(crate) noise_norm: Vec<f64>,
    pub(crate) anchor: Vec<bool>,
    stride: u64,
}

impl Trace {
    /// For a run of at most `steps` steps.
    pub(crate) fn new(steps: u64) -> Self {
        Self {
            stride: steps.div_ceil(MOST).max(1),
            ..Self::default()
        }
    }

    /// Keeps every stride-th release and the last planned one.
    pub(crate) fn add(&mut self, release: &Release<'_>) {
        let last = release.step + 1 == release.steps;
        let keep = release.step.is_multiple_of(self.stride) || last;
        if keep {
            if self.step.len() as u64 >= MOST {
                self.pop();
            }
            self.step.push(release.step);
            self.released_norm.push(release.norm);
            self.noise_norm.push(release.noise_norm);
            self.anchor.push(release.kind == ReleaseKind::Anchor);
        }
    }

    fn pop(&mut self) {
        self.step.pop();
        self.released_norm.pop();
        self.noise_norm.pop();
        self.anchor.pop();
    }
}
