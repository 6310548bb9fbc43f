//! The walk over the leaves: steps of one length, and a new root after the last leaf of a round.

use dpopt_linalg::norm;
use dpopt_oracle::{Estimate, Estimator};
use dpopt_privacy::Refused;

use super::TreeSpiderPlan;
use crate::run::{ReleaseKind, Walk};

pub(super) struct TreeWalk<'a> {
    pub(super) plan: &'a TreeSpiderPlan,
}

impl Walk for TreeWalk<'_> {
    fn ask<'e>(
        &self,
        step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        let z = self.plan.noise_multiplier;
        Ok(if step.is_multiple_of(self.plan.leaves()) {
            (ReleaseKind::Anchor, estimator.refresh(point, z)?)
        } else {
            (ReleaseKind::Variation, estimator.advance(point, z)?)
        })
    }

    fn stops_at(&self, released_norm: f64) -> bool {
        self.plan
            .threshold
            .is_some_and(|most| released_norm <= most)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let length = norm(gradient);
        // An estimate of zero points nowhere.
        let scale = if length > 0.0 {
            self.plan.step_length / length
        } else {
            0.0
        };
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - scale * g;
        }
    }
}
