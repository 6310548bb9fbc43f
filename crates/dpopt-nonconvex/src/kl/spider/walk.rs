//! The walk: steps of one length within a phase, which ends early at a short estimate.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle, Running};
use dpopt_privacy::{ClipNorm, Which};
use dpopt_solver::{Asked, ReleaseKind, RunError, Stop, Walk};

use super::budget::KlPhase;
use crate::spider::descend;

pub(super) struct KlWalk<'a> {
    phases: &'a [KlPhase],
    running: Running,
    /// The phase, and updates made in it.
    phase: usize,
    updates: u64,
}

impl<'a> KlWalk<'a> {
    pub(super) fn new(phases: &'a [KlPhase], dim: usize, clip: f64) -> Result<Self, RunError> {
        let clip = ClipNorm::new(clip).map_err(RunError::Clip)?;
        Ok(Self {
            phases,
            running: Running::new(dim, clip),
            phase: 0,
            updates: 0,
        })
    }

    fn next_phase(&mut self) {
        self.phase += 1;
        self.updates = 0;
    }
}

impl Walk for KlWalk<'_> {
    fn ask(
        &mut self,
        _: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let Some(phase) = self.phases.get(self.phase) else {
            return Ok(Asked::Nothing(Stop::Completed));
        };
        let all = Which::All;
        Ok(if self.updates == 0 {
            let z = phase.anchor_noise_multiplier;
            let released = self.running.anchor(oracle, point, all, z)?;
            Asked::estimate(ReleaseKind::Anchor, released.estimate())
        } else {
            let z = phase.variation_noise_multiplier;
            let released = self.running.vary(oracle, point, all, z)?;
            Asked::estimate(ReleaseKind::Variation, released.estimate())
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
        descend(point, scale, gradient, next);
        self.updates += 1;
        if self.updates >= phase.updates {
            self.next_phase();
        }
    }

    fn finished(&self) -> bool {
        self.phase == self.phases.len()
    }
}
