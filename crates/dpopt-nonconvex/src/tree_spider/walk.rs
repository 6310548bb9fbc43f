//! The walk over the leaves: steps of one length, and a new root after the last leaf of a round.

use dpopt_linalg::norm;
use dpopt_oracle::{Counts, Estimate, Estimator, Tracker};
use dpopt_privacy::{Event, NoiseMultiplier, Refused, Spend};

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

/// A tracker as an estimator: an anchor begins a round, everything else is its next leaf. Records and noise are
/// the tracker's own.
pub(super) struct Rounds<'a>(pub(super) &'a mut dyn Tracker);

impl Estimator for Rounds<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.0.reserve(spend)
    }

    fn refresh(&mut self, point: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.0.begin_phase();
        Ok(self.0.estimate(point)?.estimate)
    }

    fn advance(&mut self, point: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        Ok(self.0.estimate(point)?.estimate)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.0.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.0.settle()
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }
}
