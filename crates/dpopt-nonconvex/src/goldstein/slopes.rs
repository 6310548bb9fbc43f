//! Walks that ask for values alone: how many directions, and how short their slopes are clipped.

use std::f64::consts::PI;

use dpopt_oracle::query::smoothed_gradient_bound;
use dpopt_solver::{PublicFacts, search::geometric};
use libm::{erfc, lgamma};

use super::bound::{Aim, Block, Quality, Reading};

/// How far above the least bound a plan may be that asks for fewer values.
const WORSE: f64 = 1.02;

/// m shared directions, and the clip radius C of their slopes as one vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slopes {
    pub(super) directions: usize,
    pub(super) clip: f64,
    pub(super) known: Known,
}

/// What keeps slopes short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Known {
    /// The loss is Lipschitz, as the facts say.
    Lipschitz,
    /// No slope is longer than this, c0/(2 a), since values are bounded. The Lipschitz constant of the facts is that of the smoothed
    /// loss.
    Each(f64),
}

impl Slopes {
    /// With the least radius that clips nothing: kappa_m L, or sqrt(m) c0/(2 a).
    pub(super) fn unclipped(facts: &PublicFacts, known: Known, directions: usize) -> Self {
        let clip = match known {
            Known::Lipschitz => smoothed_gradient_bound(facts.lipschitz, directions),
            Known::Each(slope) => (directions as f64).sqrt() * slope * (1.0 + 1e-12),
        };
        Self {
            directions,
            clip,
            known,
        }
    }

    /// sqrt A: a bound on the root mean square length of a lifted estimate without noise.
    pub(super) fn length(&self, facts: &PublicFacts) -> f64 {
        let d = facts.dim as f64;
        let share = d / self.directions as f64;
        let clipped = share * self.clip;
        if let Known::Each(_) = self.known {
            return clipped;
        }
        // By the spectral gap of the sphere, or since no frame is longer; the gap says nothing of a line.
        let whole = smoothed_gradient_bound(1.0, facts.dim);
        let whole = if facts.dim > 1 {
            whole.min((d / (d - 1.0)).sqrt())
        } else {
            whole
        };
        (share.sqrt() * whole * facts.lipschitz).min(clipped)
    }

    /// N: root mean square length of the noise in the lifted mean.
    pub(super) fn noise(&self, facts: &PublicFacts, reading: &Reading) -> f64 {
        let spread = facts.dim as f64 / (self.directions as f64).sqrt();
        let sensitivity = facts.adjacency.sum_sensitivity() * self.clip;
        spread * sensitivity * reading.multiplier / reading.read
    }

    /// c: how far the clip may shift the mean, 0 where it clips nothing.
    pub(super) fn clip_bias(&self, facts: &PublicFacts) -> f64 {
        let (d, m) = (facts.dim as f64, self.directions as f64);
        let sure = Self::unclipped(facts, self.known, self.directions).clip;
        if self.clip >= sure * (1.0 - 1e-12) {
            return 0.0;
        }
        if let Known::Each(slope) = self.known {
            // What is cut off a vector of slopes that are all as long as they can be.
            return d / m * (m.sqrt() * slope - self.clip);
        }
        let radius = self.clip / facts.lipschitz;
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

    /// What an estimate is worth.
    pub(super) fn quality(&self, facts: &PublicFacts, reading: &Reading) -> Quality {
        // The size of a Poisson sample varies, and the estimate with it. What its records differ by is in the square already.
        let varying = if reading.poisson {
            (1.0 + reading.chance / reading.read).sqrt()
        } else {
            1.0
        };
        let size = (varying * self.length(facts)).hypot(self.noise(facts, reading));
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

/// c_d = d E|y_1|, y uniform on the sphere: the Lipschitz constant of the mean over a ball of radius a of values between -a and a.
pub(super) fn steepest_mean(dim: usize) -> f64 {
    let half = 0.5 * dim as f64;
    2.0 / PI.sqrt() * (lgamma(half + 1.0) - lgamma(half + 0.5)).exp()
}

/// How the estimates of a walk are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reads {
    /// All records at every step: all steps share `mu`.
    All { mu: f64 },
    /// As this says, whatever the number of steps is.
    Sample(Reading),
    /// Unread records, each of which pays `mu`; how many is planned.
    Pass { mu: f64 },
}

/// Slopes, how they are read, and the block of the least bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) slopes: Slopes,
    pub(super) batch: u64,
    pub(super) block: Block,
}

impl Found {
    /// Values that a walk asks for, up to a factor that is the same for all.
    fn values(&self) -> f64 {
        self.slopes.directions as f64 * self.block.steps as f64 * self.batch as f64
    }
}

/// What plans from values have in common.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) known: Known,
    pub(super) aim: &'a Aim,
    pub(super) reads: Reads,
    pub(super) max_steps: u64,
}

impl Search<'_> {
    /// The plan that asks for the fewest values among those within 2 % of the least bound, over 1, 2, 4, ... and d
    /// directions; or the plan with so many directions.
    pub(super) fn best(&self, directions: Option<usize>) -> Option<Found> {
        let dim = self.facts.dim;
        let doubled = std::iter::successors(Some(1), |m| Some(2 * m)).take_while(|m| *m < dim);
        let candidates: Vec<usize> = match directions {
            Some(directions) => vec![directions],
            None => doubled.chain([dim]).collect(),
        };
        let plans = candidates
            .iter()
            .filter_map(|m| self.with_directions(*m))
            .collect::<Vec<Found>>();
        let bounds = plans.iter().map(|found| found.block.bound);
        let least = bounds.fold(f64::INFINITY, f64::min);
        plans
            .into_iter()
            .filter(|found| found.block.bound <= WORSE * least)
            .min_by(|a, b| a.values().total_cmp(&b.values()))
    }

    /// The clip of the least bound for m directions: in closed form over a grid, and then as it is.
    fn with_directions(&self, directions: usize) -> Option<Found> {
        let unclipped = Slopes::unclipped(self.facts, self.known, directions);
        // Below their usual length too much of the slopes is cut away.
        let usual = (directions as f64 / (self.facts.dim as f64 - 1.0).max(1.0)).sqrt();
        let lowest = match self.known {
            Known::Lipschitz => (usual * self.facts.lipschitz).min(unclipped.clip),
            // Of a shorter one nothing is proven.
            Known::Each(_) => unclipped.clip,
        };
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
            .filter_map(|slopes| self.with_slopes(slopes))
            .min_by(|a, b| a.block.bound.total_cmp(&b.block.bound))
    }

    fn with_slopes(&self, slopes: Slopes) -> Option<Found> {
        let of = |batch: u64| {
            let most = self.most(&slopes, batch);
            let block = self
                .aim
                .best(most, |steps| self.quality(&slopes, batch, steps))?;
            Some(Found {
                slopes,
                batch,
                block,
            })
        };
        let batch = self.batch(&slopes);
        let Reads::Pass { .. } = self.reads else {
            return of(batch);
        };
        // The best batch is flat: a third around it is searched for what whole numbers of steps and blocks gain.
        let most = (self.facts.records / 2).max(1);
        geometric(batch as f64 / 1.3, batch as f64 * 1.3, 1.02)
            .filter_map(|trial| of((trial as u64).clamp(1, most)))
            .min_by(|a, b| a.block.bound.total_cmp(&b.block.bound))
    }

    /// Records of a step. In one pass k^2/T is least where the noise is as long as the rest: it goes as B + (N B)^2/(A B).
    fn batch(&self, slopes: &Slopes) -> u64 {
        match self.reads {
            Reads::All { .. } => self.facts.records,
            Reads::Sample(reading) => reading.read.ceil() as u64,
            Reads::Pass { mu } => {
                let of_one = slopes.noise(self.facts, &Reading::unread(1.0, mu));
                let batch = of_one / slopes.length(self.facts);
                (batch as u64).clamp(1, (self.facts.records / 2).max(1))
            }
        }
    }

    /// Most steps. With all records those at which the noise has twice the square of the estimate: more gain at most 15 %.
    fn most(&self, slopes: &Slopes, batch: u64) -> u64 {
        match self.reads {
            Reads::All { mu } => {
                let records = self.facts.records as f64;
                let noise = slopes.noise(self.facts, &Reading::all(records, mu, 1));
                let most = 2.0 * (slopes.length(self.facts) / noise).powi(2);
                (most as u64).min(self.max_steps)
            }
            Reads::Sample(_) => self.max_steps,
            Reads::Pass { .. } => self.max_steps.min(self.facts.records / batch),
        }
    }

    fn quality(&self, slopes: &Slopes, batch: u64, steps: u64) -> Quality {
        let reading = match self.reads {
            Reads::All { mu } => Reading::all(batch as f64, mu, steps),
            Reads::Sample(reading) => reading,
            Reads::Pass { mu } => Reading::unread(batch as f64, mu),
        };
        slopes.quality(self.facts, &reading)
    }

    /// 1.5 (F0' k^2/(rho T))^(1/3) + 2 c: the bound if numbers of steps and of blocks needn't be whole.
    fn in_closed_form(&self, slopes: &Slopes) -> f64 {
        let batch = self.batch(slopes);
        let steps = self.most(slopes, batch).max(1);
        let quality = self.quality(slopes, batch, steps);
        let k = quality.size + quality.error;
        let cube = self.aim.gap * k * k / (self.aim.spread * steps as f64);
        1.5 * cube.cbrt() + 2.0 * quality.bias
    }
}
