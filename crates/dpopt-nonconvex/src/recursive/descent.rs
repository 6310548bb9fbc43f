//! Recursive regularisation with noisy gradient descent inside.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_oracle::{Access, Schedule, Stages};
use dpopt_privacy::{NoiseMultiplier, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::plan::{BoundSense, Plan};
use crate::run::{Ended, Observer, Outcome, Release, ReleaseKind, RunError, Stop, check_start};

use super::outline::{Given, Search, Solved, Task};
use super::{Centre, ConvexFacts, Outline, StageOutline, slices};

const NAME: &str = "recursive-gd";

/// One stage of [`RecursiveGdPlan`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GdStage {
    /// Its slice, regulariser, ball and risk.
    pub outline: StageOutline,
    /// K noisy gradients, all on the stage's slice.
    pub steps: u64,
    /// eta.
    pub step_size: f64,
    /// sqrt(K)/mu.
    pub noise_multiplier: NoiseMultiplier,
    /// Standard deviation per coordinate of one mean gradient.
    pub noise_std: f64,
}

/// A plan for recursive regularisation with noisy gradient descent.
///
/// # Formula
/// Stage t reads n_t = n/T records K times: w <- P(w - eta (g + M (w - c))), g the noisy clipped mean gradient, P the
/// projection on the ball of radius R_t around the start. It returns the average of the K points after each
/// step with weights (1 - eta M)^-k. With kappa = (L1 + M)/M, D the distance from start to minimiser, A =
/// d s^2 L0^2/(M n_t^2 mu^2) and any rho > 1: K = ceil(kappa ln rho), eta = ln rho/(M K) <= 1/(L1 + M),
///
/// alpha = M D^2/(2 (rho - 1)) + A ln rho + 2 L0^2/(M n_t);
///
/// rho balances the terms. The outer bound is that of [`Outline`].
///
/// # Privacy
/// Each slice is charged K Gaussians of multiplier sqrt(K)/mu, exactly mu-GDP, and slices are disjoint:
/// mu-GDP as a whole. Regularisers, averages and projections are post-processing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecursiveGdPlan {
    /// The facts it was made from.
    pub facts: ConvexFacts,
    /// The privacy it spends.
    pub budget: Budget,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// The weights of the regularisers and the bound.
    pub outline: Outline,
    /// The stages.
    pub stages: Vec<GdStage>,
    /// Bound on E||grad F|| at the output, F the population risk.
    pub predicted_bound: f64,
}

impl RecursiveGdPlan {
    /// The plan with the least bound among those of at most `max_steps` steps a stage.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0), L1 R); [`PlanError::RadiusMissing`],
    /// [`PlanError::NotConvex`], [`PlanError::TooFewRecords`], [`PlanError::NeedsPositions`] under add/remove.
    pub fn new(facts: &ConvexFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::search(facts, budget, max_steps, Search::default())
    }

    /// As [`Self::new`], whatever the bound says.
    ///
    /// # Errors
    /// As [`Self::new`]; [`PlanError::Vacuous`] only when no plan keeps within `max_steps`.
    pub fn even_if_vacuous(
        facts: &ConvexFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::search(
            facts,
            budget,
            max_steps,
            Search {
                allow_vacuous: true,
                ..Search::default()
            },
        )
    }

    /// The plan with the least bound whose weights grow by `growth`, in 1 + floor(log(L1/lambda)) stages, whatever
    /// the bound says: the paper's schedule, with its growth of 2.
    ///
    /// # Errors
    /// As [`Self::even_if_vacuous`]; [`PlanError::BadFact`] unless `growth` is above 1.
    pub fn with_growth(
        facts: &ConvexFacts,
        budget: &Budget,
        max_steps: u64,
        growth: f64,
    ) -> Result<Self, PlanError> {
        if !(growth > 1.0 && growth.is_finite()) {
            return Err(PlanError::BadFact {
                name: "growth",
                value: growth,
            });
        }
        let how = Search {
            growth: Some(growth),
            allow_vacuous: true,
        };
        Self::search(facts, budget, max_steps, how)
    }

    fn search(
        facts: &ConvexFacts,
        budget: &Budget,
        max_steps: u64,
        how: Search,
    ) -> Result<Self, PlanError> {
        let task = Task::new(NAME, facts, budget, 2)?;
        let (outline, plans) = task.search(how, |given| solve(&task, given, max_steps), |_| 1)?;
        let stages = outline.stages.iter().zip(plans).map(|(stage, inner)| {
            let noise_multiplier = NoiseMultiplier::new((inner.steps as f64).sqrt() / task.mu)?;
            let share = task.facts.adjacency.sum_sensitivity() * task.facts.lipschitz;
            Ok(GdStage {
                outline: *stage,
                steps: inner.steps,
                step_size: inner.step_size,
                noise_multiplier,
                noise_std: share * noise_multiplier.get() / stage.records as f64,
            })
        });
        let stages = stages.collect::<Result<Vec<_>, PlanError>>()?;
        Ok(Self {
            facts: *facts,
            budget: *budget,
            clip: task.facts.lipschitz,
            predicted_bound: outline.bound,
            outline,
            stages,
        })
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let all = Schedule::new(self.facts.public.records);
        self.stages
            .iter()
            .fold(all, |all, stage| {
                all.slice(stage.noise_multiplier, stage.steps)
            })
            .spend()
    }

    /// Number of steps, all stages together.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.stages.iter().map(|stage| stage.steps).sum()
    }

    /// Per-record gradients that the plan costs: the sum of n_t K_t.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        let of = |stage: &GdStage| stage.steps as f64 * stage.outline.records as f64;
        self.stages.iter().map(of).sum()
    }

    /// Runs the plan, from the origin. The means below must clip at [`RecursiveGdPlan::clip`].
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    pub fn run(
        &self,
        stages: &mut dyn Stages,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_from(&vec![0.0; self.facts.public.dim], stages, observer)
    }

    /// As [`Self::run`], from `start`: a public point, from which the radius of the facts must be measured. The bound holds if it is.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    pub fn run_from(
        &self,
        start: &[f64],
        stages: &mut dyn Stages,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        check_start(start, self.facts.public.dim, stages.dim())?;
        stages.reserve(&self.spend())?;
        let mut centre = Centre::new(start.len());
        let mut output = start.to_vec();
        let (mut stop, mut done) = (Stop::Completed, 0);
        let (steps, root_dim) = (self.steps(), (start.len() as f64).sqrt());
        'run: for stage in &self.stages {
            stages.begin_stage(stage.outline.records)?;
            centre.add(stage.outline.weight, &output);
            let mut point = output.clone();
            let decay = stage.step_size * centre.modulus;
            // The sum of the weights over the last one: the weights themselves would overflow.
            let mut total = 0.0;
            for _ in 0..stage.steps {
                let estimate = stages.estimate(&point, stage.noise_multiplier)?;
                let released = norm(estimate.gradient);
                if !released.is_finite() {
                    stop = Stop::Diverged;
                    break 'run;
                }
                let flow = observer.on_release(&Release {
                    step: done,
                    steps,
                    kind: ReleaseKind::Anchor,
                    point: &point,
                    norm: released,
                    noise_norm: root_dim * estimate.noise_std,
                });
                for ((w, c), g) in point.iter_mut().zip(&centre.point).zip(estimate.gradient) {
                    *w -= decay * (*w - c) + stage.step_size * g;
                }
                project(&mut point, start, stage.outline.radius);
                total = total * (1.0 - decay) + 1.0;
                for (average, w) in output.iter_mut().zip(&point) {
                    *average += (w - *average) / total;
                }
                done += 1;
                if flow == ControlFlow::Break(()) {
                    stop = Stop::ByObserver;
                    break 'run;
                }
            }
        }
        let spent = stages.settle()?;
        let ended = Ended {
            start,
            point: output,
            stop,
            steps: done,
            spent,
            counts: stages.counts(),
        };
        Ok(ended.outcome(|stop| self.bound_at(stop)))
    }
}

impl Plan for RecursiveGdPlan {
    fn facts(&self) -> &PublicFacts {
        &self.facts.public
    }

    fn steps(&self) -> u64 {
        self.steps()
    }

    fn spend(&self) -> Spend {
        self.spend()
    }

    fn gradients(&self) -> f64 {
        self.gradients()
    }

    fn clip(&self) -> f64 {
        self.clip
    }

    fn access(&self) -> Access {
        slices(self.stages.iter().map(|stage| stage.outline.records))
    }

    fn predicted_bound(&self) -> Option<f64> {
        Some(self.predicted_bound)
    }

    fn bound_sense(&self) -> BoundSense {
        BoundSense::PopulationMean
    }

    fn trivial_bound(&self) -> f64 {
        self.facts.trivial_bound()
    }

    /// All slices cost the same, and the dearest counts: the first.
    fn share_spent(&self, step: u64) -> f64 {
        let first = self.stages.first().map_or(1, |stage| stage.steps.max(1));
        ((step + 1) as f64 / first as f64).min(1.0)
    }
}

struct Inner {
    steps: u64,
    step_size: f64,
}

/// The stage with the least risk, up to a constant factor in its smallest term.
fn solve(task: &Task<'_>, given: &Given, max_steps: u64) -> Option<Solved<Inner>> {
    let (n, modulus) = (given.records as f64, given.modulus);
    if given.records < 1 {
        return None;
    }
    let lipschitz = task.facts.lipschitz;
    let share = task.facts.adjacency.sum_sensitivity() * lipschitz / (n * task.mu);
    let noise = task.facts.dim as f64 * share * share / modulus;
    let sampling = 2.0 * lipschitz * lipschitz / (modulus * n);
    let distance = 0.5 * modulus * given.squared_distance;
    // B/(rho - 1) + A ln rho is least near rho = B/A; what is a tenth of the sampling error needs no more steps.
    let excess = (distance / (noise + 0.1 * sampling)).max(1.0);
    let log = excess.ln_1p();
    let condition = (task.facts.smoothness + modulus) / modulus;
    let steps = (condition * log).ceil().max(1.0);
    (steps <= max_steps as f64).then(|| Solved {
        risk: distance / excess + noise * log + sampling,
        overshoot: 0.0,
        plan: Inner {
            steps: steps as u64,
            step_size: log / (modulus * steps),
        },
    })
}

/// Brings `point` into the ball, along the line to its centre.
pub(super) fn project(point: &mut [f64], origin: &[f64], radius: f64) {
    let length = distance(point, origin);
    if length > radius {
        let keep = radius / length;
        for (w, o) in point.iter_mut().zip(origin) {
            *w = o + keep * (*w - o);
        }
    }
}
