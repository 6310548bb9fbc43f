//! The walk over the leaves: steps of one length, and a new root after the last leaf of a round.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle, TreeRounds};
use dpopt_solver::{Asked, ReleaseKind, Walk};

use super::schedule::TreeSpiderSchedule;
use crate::spider::descend;

pub(super) struct TreeWalk<'a> {
    pub(super) schedule: &'a TreeSpiderSchedule,
    pub(super) estimate: TreeRounds,
}

impl Walk for TreeWalk<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let kind = if step.is_multiple_of(self.schedule.leaves()) {
            self.estimate.begin_phase();
            ReleaseKind::Anchor
        } else {
            ReleaseKind::Variation
        };
        let estimate = self.estimate.estimate(oracle, point)?.estimate;
        Ok(Asked::estimate(kind, estimate))
    }

    fn stops_at(&self, released_norm: f64) -> bool {
        self.schedule
            .threshold
            .is_some_and(|most| released_norm <= most)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let length = norm(gradient);
        // An estimate of zero points nowhere.
        let scale = if length > 0.0 {
            self.schedule.step_length / length
        } else {
            0.0
        };
        descend(point, scale, gradient, next);
    }
}
