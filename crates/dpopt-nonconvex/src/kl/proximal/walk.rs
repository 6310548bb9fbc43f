//! The walk of private proximal point: dual averaging inside, proximal centres outside.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::Which;
use dpopt_solver::{Asked, Closing, RunError, Stop, Walk};

use super::schedule::{ProximalRound, ProximalSchedule};
use crate::descent::Fresh;

pub(super) struct Proximal<'a> {
    rounds: &'a [ProximalRound],
    estimate: Fresh,
    bend: f64,
    round: usize,
    /// s: the step in the round, from 1 on.
    step: u64,
    /// c: the output of the last whole round.
    centre: Vec<f64>,
    /// g_1 + 2 g_2 + ... + s g_s.
    sum: Vec<f64>,
    /// The average of the points at which gradients were asked for, with weights 1, 2, ...
    average: Vec<f64>,
}

impl<'a> Proximal<'a> {
    /// The walk of a schedule with this clip radius and W, from `start`.
    pub(super) fn new(
        schedule: &'a ProximalSchedule,
        clip: f64,
        bend: f64,
        start: &[f64],
    ) -> Result<Self, RunError> {
        let over = schedule.sampling_rate.map_or(Which::All, Which::Poisson);
        let z = schedule.noise_multiplier;
        Ok(Self {
            rounds: &schedule.rounds,
            estimate: Fresh::new(start.len(), over, z, [clip])?,
            bend,
            round: 0,
            step: 1,
            centre: start.to_vec(),
            sum: vec![0.0; start.len()],
            average: start.to_vec(),
        })
    }
}

impl Walk for Proximal<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.estimate.ask(step, point, oracle)
    }

    /// The output of the last whole round.
    fn close(&mut self, stop: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        Ok(match stop {
            Stop::Completed => Closing::default(),
            _ => Closing::at(self.centre.clone()),
        })
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let Some(round) = self.rounds.get(self.round) else {
            next.copy_from_slice(point);
            return;
        };
        let s = self.step as f64;
        // s over 1 + 2 + ... + s.
        let share = 2.0 / (s + 1.0);
        for (average, w) in self.average.iter_mut().zip(point) {
            *average += share * (w - *average);
        }
        for ((sum, g), (w, c)) in self
            .sum
            .iter_mut()
            .zip(gradient)
            .zip(point.iter().zip(&self.centre))
        {
            *sum += s * (g + self.bend * (w - c));
        }
        if self.step >= round.steps {
            self.centre.copy_from_slice(&self.average);
            next.copy_from_slice(&self.average);
            self.sum.fill(0.0);
            self.round += 1;
            self.step = 1;
            return;
        }
        let scale = 2.0 / (round.modulus * (s + 1.0) * (s + 2.0));
        towards(&self.centre, &self.sum, scale, round, next);
        self.step += 1;
    }
}

/// c - scale x sum, brought into the ball around c.
fn towards(centre: &[f64], sum: &[f64], scale: f64, round: &ProximalRound, next: &mut [f64]) {
    let length = scale * norm(sum);
    let kept = if length > round.radius {
        scale * (round.radius / length)
    } else {
        scale
    };
    for ((next, c), sum) in next.iter_mut().zip(centre).zip(sum) {
        *next = c - kept * sum;
    }
}
