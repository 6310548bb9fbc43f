//! Walks on a fresh estimate at every step.

pub(crate) mod dp_adam;
pub(crate) mod dp_mf;
pub(crate) mod dp_sgd;
mod horizon;
pub(crate) mod noisy_gd;

use dpopt_oracle::{AskError, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{Asked, PlanError, ReleaseKind, RunError};

/// A fresh estimate for each step, with the clip radius of that step.
pub(crate) struct Fresh {
    running: Running,
    over: Which<'static>,
    noise_multiplier: NoiseMultiplier,
    clips: Vec<ClipNorm>,
}

impl Fresh {
    /// With one clip radius for all steps, or one for each.
    pub(crate) fn new(
        dim: usize,
        over: Which<'static>,
        noise_multiplier: NoiseMultiplier,
        clips: impl IntoIterator<Item = f64>,
    ) -> Result<Self, RunError> {
        let clips = clips.into_iter().map(ClipNorm::new);
        let clips: Vec<ClipNorm> = clips.collect::<Result<_, _>>().map_err(RunError::Clip)?;
        // A plan without steps asks for nothing.
        let first = clips
            .first()
            .copied()
            .unwrap_or(ClipNorm::new(1.0).map_err(RunError::Clip)?);
        Ok(Self {
            running: Running::new(dim, first),
            over,
            noise_multiplier,
            clips,
        })
    }

    pub(crate) fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        if let Some(clip) = self.clips.get(step as usize) {
            self.running.set_clip(*clip);
        }
        let z = self.noise_multiplier;
        let released = self.running.anchor(oracle, point, self.over, z)?;
        Ok(Asked::estimate(ReleaseKind::Anchor, released.estimate()))
    }
}

/// w <- w + beta (w - w_prev) - eta g.
pub(crate) struct HeavyBall {
    step_size: f64,
    momentum: f64,
    velocity: Vec<f64>,
}

impl HeavyBall {
    pub(crate) fn new(dim: usize, step_size: f64, momentum: f64) -> Self {
        Self {
            step_size,
            momentum,
            velocity: vec![0.0; dim],
        }
    }

    pub(crate) fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for (v, g) in self.velocity.iter_mut().zip(gradient) {
            *v = self.momentum * *v - self.step_size * g;
        }
        for ((next, w), v) in next.iter_mut().zip(point).zip(&self.velocity) {
            *next = w + v;
        }
    }
}

/// Refuses numbers that no descent can have.
fn check(steps: u64, step_size: f64, momentum: f64, clip: f64) -> Result<(), PlanError> {
    for (name, value) in [
        ("steps", steps as f64),
        ("step_size", step_size),
        ("clip", clip),
        ("1 - momentum", 1.0 - momentum),
    ] {
        PlanError::positive(name, value)?;
    }
    if momentum < 0.0 {
        return Err(PlanError::BadFact {
            name: "momentum",
            value: momentum,
        });
    }
    Ok(())
}
