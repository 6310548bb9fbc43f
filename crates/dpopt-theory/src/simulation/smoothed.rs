//! Means of the smoothed field, in a simulation.

use dpopt_linalg::add_scaled;
use dpopt_oracle::query::Smoothed;
use dpopt_oracle::{AskError, Linear, Mean, SmoothedDraw, Smoothing};
use dpopt_privacy::{NoiseMultiplier, PoolError, Which};

use super::super::population::Population;
use super::super::weighted::add_clipped;
use super::{Drawn, SimulatedOracle};

impl<P: Population> SimulatedOracle<P> {
    /// (1/size) sum of clip(q(x)) of the smoothed field. Which copies share an offset or a frame has no part in the law: in
    /// order of the distinct records, copy k has number k modulo their count.
    pub(super) fn smoothed_mean(
        &self,
        of: Smoothed<'_>,
        copies: &[u64],
        size: f64,
        radius: f64,
    ) -> Vec<f64> {
        let mut sum = vec![0.0; self.facts.dim];
        let (mut moved, mut out) = (sum.clone(), sum.clone());
        let mut gradient = sum.clone();
        let groups = of.groups() as u64;
        let mut first = 0;
        for (i, &copies) in copies.iter().enumerate() {
            for k in 0..copies.min(groups) {
                out.fill(0.0);
                let slot = ((first + k) % groups) as usize;
                let value = |point: &[f64]| self.population.value(i, point);
                let add = |point: &[f64], out: &mut [f64]| {
                    self.population.gradient(i, point, &mut gradient);
                    add_scaled(out, 1.0, &gradient);
                };
                of.write(slot, value, add, &mut moved, &mut out);
                // Copies k, k + groups, ...
                let shared = (copies - k).div_ceil(groups);
                add_clipped(&out, radius, shared as f64 / size, &mut sum);
            }
            first += copies % groups;
        }
        sum
    }

    pub(super) fn release_smoothed(
        &mut self,
        (of, smoothing): (Linear<'_>, Smoothing),
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        let drawn = &self.draw_smoothed(of, smoothing, over)?;
        let query = smoothing.query(&of, drawn)?;
        let radius = of.radius().get();
        let Drawn { copies, size, std } = self.read(over, radius, noise)?;
        let mut mean = self.smoothed_mean(query, &copies, size, radius);
        for x in &mut mean {
            *x += std * self.normal();
        }
        self.books.count(size, query.gradients(), query.values());
        Ok(Mean::new(mean, std))
    }

    /// What a protected run refuses of a smoothed field, and what it draws.
    pub(super) fn draw_smoothed(
        &mut self,
        of: Linear<'_>,
        smoothing: Smoothing,
        over: Which<'_>,
    ) -> Result<SmoothedDraw, AskError> {
        self.admit(of, &[])?;
        let adjacency = self.facts.adjacency;
        if !adjacency.record_count_is_public() {
            return Err(PoolError::Adjacency { adjacency }.into());
        }
        smoothing.draw(&of, over, (self.facts, &mut self.books))
    }
}
