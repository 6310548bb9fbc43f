//! The walk: heavy-ball steps against differences of released prefix sums.

use dpopt_oracle::{AskError, Estimate, Linear, Oracle, Period, PeriodTerms};
use dpopt_privacy::{ClipNorm, PrefixNoise, Slice, Which};
use dpopt_solver::{Asked, ReleaseKind, Walk};

use super::super::HeavyBall;
use super::schedule::DpMfSchedule;

/// Reads the slices in turn, epoch after epoch, in one period of prefix sums.
pub(super) struct Epochs<'a> {
    schedule: &'a DpMfSchedule,
    terms: PeriodTerms,
    clip: ClipNorm,
    records: u64,
    noise: PrefixNoise,
    period: Option<Period>,
    slices: Vec<Slice>,
    /// The last release, and its difference to the one before.
    sum: Vec<f64>,
    gradient: Vec<f64>,
    ball: HeavyBall,
    done: u64,
}

impl<'a> Epochs<'a> {
    pub(super) fn new(
        schedule: &'a DpMfSchedule,
        (terms, clip): (PeriodTerms, ClipNorm),
        records: u64,
        noise: PrefixNoise,
        dim: usize,
    ) -> Self {
        Self {
            schedule,
            terms,
            clip,
            records,
            noise,
            period: None,
            slices: Vec::new(),
            sum: vec![0.0; dim],
            gradient: vec![0.0; dim],
            ball: HeavyBall::new(dim, schedule.step_size, schedule.momentum),
            done: 0,
        }
    }

    /// The deviation of the noise in a difference of two releases over that in the later one.
    fn of_step(&self, step: u64) -> f64 {
        let variances = self
            .noise
            .step_variance(step)
            .zip(self.noise.variance(step));
        variances.map_or(1.0, |(step, sum)| (step / sum).sqrt())
    }
}

impl Walk for Epochs<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let number = step % self.schedule.slices;
        if number as usize >= self.slices.len() {
            let len = self.schedule.records_of(number, self.records);
            self.slices.push(oracle.books().take_slice(len)?);
        }
        let period = match &mut self.period {
            Some(period) => period,
            none => none.insert(oracle.open_period(&self.terms)?),
        };
        let slice = &self.slices[number as usize];
        let over = match self.schedule.sampling_rate {
            Some(rate) => self.schedule.batches.within(slice, rate),
            None => Some(Which::Slice(slice)),
        };
        let what = "samples of slices with a largest batch";
        let over = over.ok_or(AskError::NotOffered { what })?;
        let released = oracle.step(period, Linear::field(point, self.clip), over)?;
        let sums = self.sum.iter_mut().zip(&released.mean);
        for (gradient, (sum, &next)) in self.gradient.iter_mut().zip(sums) {
            *gradient = next - *sum;
            *sum = next;
        }
        let noise_std = released.noise_std * self.of_step(step + 1);
        let estimate = Estimate::new(&self.gradient, noise_std, released.noise_std);
        Ok(Asked::estimate(ReleaseKind::Anchor, estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        self.ball.step_size = self.schedule.step_size_at(self.done);
        self.done += 1;
        self.ball.step(point, gradient, next);
    }
}
