//! Walks that ask for values alone: how many directions, and how short their slopes are clipped.

use std::f64::consts::PI;

use dpopt_oracle::query::smoothed_gradient_bound;
use dpopt_solver::{PublicFacts, search::geometric};
use libm::erfc;

use super::bound::{Aim, Block, Quality};

/// How far above the least bound a plan may be that asks for fewer values.
const WORSE: f64 = 1.02;

/// m shared directions, and the clip radius C of their slopes as one vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slopes {
    pub(super) directions: usize,
    pub(super) clip: f64,
}

impl Slopes {
    /// With the least radius that clips nothing: kappa_m L.
    fn unclipped(facts: &PublicFacts, directions: usize) -> Self {
        Self {
            directions,
            clip: smoothed_gradient_bound(facts.lipschitz, directions),
        }
    }

    /// A: a bound on the mean squared length of a lifted estimate without noise.
    pub(super) fn square(&self, facts: &PublicFacts) -> f64 {
        let (d, l) = (facts.dim as f64, facts.lipschitz);
        let share = d / self.directions as f64;
        // By the spectral gap of the sphere, or since no frame is longer; the gap says nothing of a line.
        let whole = smoothed_gradient_bound(1.0, facts.dim).powi(2);
        let whole = if facts.dim > 1 {
            whole.min(d / (d - 1.0))
        } else {
            whole
        };
        (share * l * l * whole).min((share * self.clip).powi(2))
    }

    /// N: root mean square length of the noise in the lifted mean over `read` records.
    pub(super) fn noise(&self, facts: &PublicFacts, multiplier: f64, read: f64) -> f64 {
        let spread = facts.dim as f64 / (self.directions as f64).sqrt();
        spread * facts.adjacency.sum_sensitivity() * self.clip * multiplier / read
    }

    /// c: how far the clip may shift the mean, 0 at kappa_m L.
    pub(super) fn clip_bias(&self, facts: &PublicFacts) -> f64 {
        let (d, m) = (facts.dim as f64, self.directions as f64);
        let radius = self.clip / facts.lipschitz;
        if radius >= smoothed_gradient_bound(1.0, self.directions) * (1.0 - 1e-12) {
            return 0.0;
        }
        let mut least = f64::INFINITY;
        if self.directions == 1 && facts.dim >= 2 {
            let tail = erfc(radius * (0.5 * (d - 1.0)).sqrt());
            least = d * (PI / (2.0 * (d - 1.0))).sqrt() * tail;
        }
        let usual = (m / (d - 1.0)).sqrt();
        if facts.dim >= 3 && radius >= usual {
            let tail = erfc((radius - usual) * ((d - 2.0) / 8.0).sqrt());
            least = least.min(d / m * (2.0 * PI / (d - 2.0)).sqrt() * tail);
        }
        facts.lipschitz * least
    }

    /// What an estimate is worth, of the mean over `read` records, all there are, with noise of `multiplier`.
    pub(super) fn quality(&self, facts: &PublicFacts, multiplier: f64, read: f64) -> Quality {
        let size = self
            .square(facts)
            .sqrt()
            .hypot(self.noise(facts, multiplier, read));
        let m = self.directions as f64;
        // Rounding and the slack of the clip, of a lattice in m dimensions.
        let lattice = (m.sqrt() + 1.0) * 2f64.powi(-29) + 2f64.powi(-44);
        Quality {
            size,
            error: size,
            bias: self.clip_bias(facts) + facts.dim as f64 / m * self.clip * lattice,
        }
    }
}

/// What plans on all of so many records have in common.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) aim: &'a Aim,
    pub(super) mu: f64,
    pub(super) records: f64,
    pub(super) max_steps: u64,
}

impl Search<'_> {
    /// The plan that asks for the fewest values among those within 2 % of the least bound, over 1, 2, 4, ... and d
    /// directions; or the plan with so many directions.
    pub(super) fn best(&self, directions: Option<usize>) -> Option<(Slopes, Block)> {
        let dim = self.facts.dim;
        let doubled = std::iter::successors(Some(1), |m| Some(2 * m)).take_while(|m| *m < dim);
        let candidates: Vec<usize> = match directions {
            Some(directions) => vec![directions],
            None => doubled.chain([dim]).collect(),
        };
        let plans: Vec<(Slopes, Block)> = candidates
            .iter()
            .filter_map(|m| self.with_directions(*m))
            .collect();
        let bounds = plans.iter().map(|(_, block)| block.bound);
        let least = bounds.fold(f64::INFINITY, f64::min);
        plans
            .into_iter()
            .filter(|(_, block)| block.bound <= WORSE * least)
            .min_by_key(|(slopes, block)| slopes.directions as u128 * u128::from(block.steps))
    }

    /// The clip of the least bound for m directions: in closed form over a grid, and then as it is.
    fn with_directions(&self, directions: usize) -> Option<(Slopes, Block)> {
        let unclipped = Slopes::unclipped(self.facts, directions);
        // Below their usual length too much of the slopes is cut away.
        let usual = (directions as f64 / (self.facts.dim as f64 - 1.0).max(1.0)).sqrt();
        let lowest = (usual * self.facts.lipschitz).min(unclipped.clip);
        let clipped = geometric(lowest, unclipped.clip, 1.02)
            .map(|clip| Slopes {
                clip: clip.min(unclipped.clip),
                ..unclipped
            })
            .map(|slopes| (slopes, self.in_closed_form(&slopes)))
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        let clipped = clipped.map(|(slopes, _)| slopes);
        [Some(unclipped), clipped]
            .into_iter()
            .flatten()
            .filter_map(|slopes| {
                let block = self
                    .aim
                    .best(self.most(&slopes), |steps| self.quality(&slopes, steps))?;
                Some((slopes, block))
            })
            .min_by(|(_, a), (_, b)| a.bound.total_cmp(&b.bound))
    }

    /// Steps at which the noise has twice the square of the estimate: more gain at most 15 %.
    fn most(&self, slopes: &Slopes) -> u64 {
        let noise = slopes.noise(self.facts, 1.0 / self.mu, self.records);
        let most = 2.0 * slopes.square(self.facts) / (noise * noise);
        (most as u64).min(self.max_steps)
    }

    fn quality(&self, slopes: &Slopes, steps: u64) -> Quality {
        slopes.quality(self.facts, (steps as f64).sqrt() / self.mu, self.records)
    }

    /// 1.5 (F0' k^2/(rho T))^(1/3) + 2 c: the bound if numbers of steps and of blocks needn't be whole.
    fn in_closed_form(&self, slopes: &Slopes) -> f64 {
        let steps = self.most(slopes).max(1);
        let quality = self.quality(slopes, steps);
        let k = self.aim.regret * quality.size + quality.error;
        let cube = self.aim.gap * k * k / (self.aim.spread * steps as f64);
        1.5 * cube.cbrt() + 2.0 * quality.bias
    }
}
