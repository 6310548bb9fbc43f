//! The walk: steps of one length within a phase, which ends early at a short estimate.

use dpopt_linalg::norm;
use dpopt_oracle::{Estimate, Estimator};
use dpopt_privacy::Refused;

use super::KlPhase;
use crate::run::{ReleaseKind, Walk};

pub(super) struct KlWalk<'a> {
    phases: &'a [KlPhase],
    /// The phase, and updates made in it.
    phase: usize,
    updates: u64,
}

impl<'a> KlWalk<'a> {
    pub(super) fn new(phases: &'a [KlPhase]) -> Self {
        Self {
            phases,
            phase: 0,
            updates: 0,
        }
    }

    fn next_phase(&mut self) {
        self.phase += 1;
        self.updates = 0;
    }
}

impl Walk for KlWalk<'_> {
    fn ask<'e>(
        &self,
        _: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        let phase = &self.phases[self.phase];
        Ok(if self.updates == 0 {
            let z = phase.anchor_noise_multiplier;
            (ReleaseKind::Anchor, estimator.refresh(point, z)?)
        } else {
            let z = phase.variation_noise_multiplier;
            (ReleaseKind::Variation, estimator.advance(point, z)?)
        })
    }

    /// A short estimate in the last phase: there is nothing more to do.
    fn stops_at(&self, released_norm: f64) -> bool {
        self.phase + 1 == self.phases.len() && released_norm < self.phases[self.phase].stop_below
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let phase = &self.phases[self.phase];
        let length = norm(gradient);
        if length < phase.stop_below {
            // The estimate certifies this very point.
            next.copy_from_slice(point);
            self.next_phase();
            return;
        }
        let scale = phase.step_length / length;
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - scale * g;
        }
        self.updates += 1;
        if self.updates >= phase.updates {
            self.next_phase();
        }
    }

    fn finished(&self) -> bool {
        self.phase == self.phases.len()
    }
}
