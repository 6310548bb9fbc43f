//! What the planners of walks in blocks have in common.

use std::num::NonZeroUsize;

use dpopt_oracle::Batch;
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::{Budget, PlanError, PublicFacts, search::bisect};

use super::super::bound::{Aim, Block, Quality};
use super::super::schedule::{
    GoldsteinOutput, GoldsteinSchedule, GoldsteinSettings, GoldsteinStep,
};
use super::super::slopes::Slopes;
use super::{GoldsteinPlan, LEAST_SMOOTHING};

/// What a step asks for, and of which records.
#[derive(Clone, Copy)]
pub(super) struct Asks {
    pub(super) batch: Batch,
    /// None: gradients.
    pub(super) slopes: Option<Slopes>,
}

impl Asks {
    pub(super) fn gradients(batch: Batch) -> Self {
        Self {
            batch,
            slopes: None,
        }
    }
}

/// What a planner needs over and over.
pub(super) struct Task<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) budget: &'a Budget,
    pub(super) settings: &'a GoldsteinSettings,
    pub(super) mu: f64,
    pub(super) aim: Aim,
}

impl<'a> Task<'a> {
    pub(super) fn new(
        facts: &'a PublicFacts,
        budget: &'a Budget,
        settings: &'a GoldsteinSettings,
    ) -> Result<Self, PlanError> {
        facts.check_lipschitz()?;
        PlanError::positive("goldstein_radius", settings.radius)?;
        let share = settings.smoothing_share;
        // A smaller one is lost in the rounding of z + u.
        if !(LEAST_SMOOTHING..1.0).contains(&share) {
            return Err(PlanError::BadFact {
                name: "smoothing_share",
                value: share,
            });
        }
        let smoothing = share * settings.radius;
        Ok(Self {
            facts,
            budget,
            settings,
            mu: budget.mu()?.get(),
            aim: Aim {
                gap: facts.initial_gap + facts.lipschitz * smoothing,
                spread: settings.radius - smoothing,
                regret: settings.step.regret(),
            },
        })
    }

    /// On `records` records.
    pub(super) fn over_all(&self, records: f64, max_steps: u64) -> Option<Block> {
        let (d, s) = (
            self.facts.dim as f64,
            self.facts.adjacency.sum_sensitivity(),
        );
        // There the noise is as long as L: more steps gain at most 13 %.
        let most = (records * self.mu / s).powi(2) / d;
        let most = (most as u64).min(max_steps);
        self.aim.best(most, |steps| {
            Quality::new(
                self.facts,
                (steps as f64).sqrt() / self.mu,
                records,
                0.0,
                false,
            )
        })
    }

    /// The plan of `block`, or a refusal if it says nothing.
    pub(super) fn plan(
        &self,
        solver: &'static str,
        block: Option<Block>,
        asks: Asks,
        multiplier: impl FnOnce(u64) -> Result<NoiseMultiplier, PlanError>,
        needed: impl FnOnce() -> Option<u64>,
    ) -> Result<GoldsteinPlan, PlanError> {
        let bound = block.map_or(f64::INFINITY, |block| block.bound);
        let trivial = self.facts.trivial_bound();
        let Some(block) = block.filter(|block| block.bound < trivial) else {
            return Err(self.vacuous(solver, bound, needed()));
        };
        let cap = self.aim.cap(block.len);
        let planned = cap / (block.quality.size * (block.len as f64).sqrt());
        let schedule = GoldsteinSchedule {
            steps: block.steps,
            block: block.len,
            cap,
            step_size: match self.settings.step {
                GoldsteinStep::Planned => planned,
                GoldsteinStep::WithoutReset => 2.0 * planned,
                GoldsteinStep::AdaGradNorm => std::f64::consts::SQRT_2 * cap,
            },
            smoothing: self.settings.smoothing_share * self.settings.radius,
            step: self.settings.step,
            batch: asks.batch,
            directions: asks
                .slopes
                .and_then(|slopes| NonZeroUsize::new(slopes.directions)),
            period: None,
            clip: asks
                .slopes
                .map_or(self.facts.lipschitz, |slopes| slopes.clip),
            noise_multiplier: multiplier(block.steps)?,
            output: self.settings.output,
        };
        let plan = GoldsteinPlan::by_hand(self.facts, self.budget, self.settings, schedule);
        let stated = self.stated(&block, asks);
        Ok(GoldsteinPlan {
            terms: plan.terms.stating(stated),
            ..plan
        })
    }

    /// The refusal of a bound that says nothing.
    pub(super) fn vacuous(
        &self,
        solver: &'static str,
        bound: f64,
        needed: Option<u64>,
    ) -> PlanError {
        PlanError::VacuousGoldstein {
            solver,
            bound,
            radius: self.settings.radius,
            trivial: self.facts.trivial_bound(),
            records: self.facts.records,
            needed,
            dim: self.facts.dim,
            mu: self.mu,
        }
    }

    /// The bound for the point that is returned.
    fn stated(&self, block: &Block, asks: Asks) -> Option<f64> {
        match (self.settings.output, asks.batch) {
            (GoldsteinOutput::UniformBlock, _) => Some(block.bound),
            // The error of directions is no Gaussian vector.
            _ if asks.slopes.is_some() => None,
            // What noise the least of K means of releases may hide: at most that of the largest of K Gaussian vectors.
            (GoldsteinOutput::SmallestReleasedBlock, Batch::All) => {
                let blocks = (block.steps / block.len) as f64;
                let hidden = (2.0 * blocks.ln() / self.facts.dim as f64).sqrt();
                let more = block.quality.error * hidden / (block.len as f64).sqrt();
                Some(block.bound + more).filter(|bound| *bound < self.facts.trivial_bound())
            }
            _ => None,
        }
    }
}

/// For a plan that is refused before its noise is asked for.
pub(super) fn unreachable_multiplier(_: u64) -> Result<NoiseMultiplier, PlanError> {
    Ok(NoiseMultiplier::new(1.0)?)
}

/// The least number from `from` on that fits, where a number fits if a smaller one does; none below 1e15.
pub(super) fn least_that_fits(from: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let mut low = from;
    let mut high = from.saturating_mul(2);
    while !fits(high) {
        if high > 1_000_000_000_000_000 {
            return None;
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    Some(bisect(low, high, |records| !fits(records)) + 1)
}
