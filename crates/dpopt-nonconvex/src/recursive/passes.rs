//! Recursive regularisation with phases of output-perturbed passes inside: linear time.

use std::ops::ControlFlow;

use dpopt_linalg::distance;
use dpopt_oracle::{Access, Batch, Level, Pass, Passes, Schedule, pass_influence};
use dpopt_privacy::{NoiseMultiplier, Spend};
use serde::Serialize;

use crate::facts::{Budget, PlanError, PublicFacts};
use crate::plan::{BoundSense, Plan};
use crate::run::{Ended, Observer, Outcome, Release, ReleaseKind, RunError, Stop, check_start};

use super::outline::{Given, Search, Solved, Task};
use super::{Centre, ConvexFacts, Outline, StageOutline, slices};

const NAME: &str = "recursive-sgd";

/// One phase: one pass over a slice of its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PassPlan {
    /// Records it reads.
    pub records: u64,
    /// eta_k = 4^(1-k) eta_1.
    pub step_size: f64,
    /// Standard deviation per coordinate of the noise on its output, rounding apart.
    pub noise_std: f64,
}

/// One stage of [`RecursiveSgdPlan`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SgdStage {
    /// Its records, regulariser, ball and risk.
    pub outline: StageOutline,
    /// Its phases.
    pub phases: Vec<PassPlan>,
}

/// A plan for recursive regularisation with phased stochastic gradient descent: one pass over the records.
///
/// # Formula
/// Stage t has phases k = 1, 2, ... of m_k = floor(n_t/2^k) unread records each, with step sizes eta_k = 4^(1-k) eta_1; phase k
/// releases the weighted average of its pass ([`dpopt_oracle::OutputPerturbed`]) with noise of standard deviation
/// sigma_k = s L0 eta_k i_k/mu, i_k = [`pass_influence`] (eta_k M, m_k). With r_k = (1 - eta_k M)^-m_k - 1:
///
/// alpha = M D^2/(2 r_1) + sum_k eta_k L0^2 + sum_{k>1} M d sigma_{k-1}^2/(2 r_k) + (L1 + M) d sigma_last^2/2,
///
/// for eta_1 <= 1/(L1 + M); eta_1 and the number of phases make it small. The outer bound is that of [`Outline`].
///
/// # Privacy
/// Every pass is one Gaussian release of multiplier 1/mu on a slice of its own: mu-GDP as a whole, **for losses
/// that are convex and smooth for every record**. `docs/privacy/phased-sgd.md`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecursiveSgdPlan {
    /// The facts it was made from.
    pub facts: ConvexFacts,
    /// The privacy it spends.
    pub budget: Budget,
    /// The weights of the regularisers and the bound.
    pub outline: Outline,
    /// The stages.
    pub stages: Vec<SgdStage>,
    /// Noise multiplier of every pass, 1/mu.
    pub noise_multiplier: NoiseMultiplier,
    /// Bound on E||grad F|| at the output, F the population risk.
    pub predicted_bound: f64,
}

impl RecursiveSgdPlan {
    /// The plan with the least bound.
    ///
    /// # Errors
    /// As [`super::RecursiveGdPlan::new`].
    pub fn new(facts: &ConvexFacts, budget: &Budget) -> Result<Self, PlanError> {
        Self::search(facts, budget, Search::default())
    }

    /// As [`Self::new`], whatever the bound says.
    ///
    /// # Errors
    /// As [`super::RecursiveGdPlan::new`], [`PlanError::Vacuous`] excepted.
    pub fn even_if_vacuous(facts: &ConvexFacts, budget: &Budget) -> Result<Self, PlanError> {
        Self::search(
            facts,
            budget,
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
        Self::search(facts, budget, how)
    }

    fn search(facts: &ConvexFacts, budget: &Budget, how: Search) -> Result<Self, PlanError> {
        let task = Task::new(NAME, facts, budget, 2)?;
        let (outline, plans) = task.search(how, |given| solve(&task, given), Vec::len)?;
        let stages = outline.stages.iter().zip(plans);
        let stages = stages
            .map(|(stage, phases)| SgdStage {
                outline: *stage,
                phases,
            })
            .collect();
        Ok(Self {
            facts: *facts,
            budget: *budget,
            predicted_bound: outline.bound,
            outline,
            stages,
            noise_multiplier: NoiseMultiplier::new(1.0 / task.mu)?,
        })
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let level = Level {
            batch: Batch::Next(1),
            noise_multiplier: self.noise_multiplier,
        };
        Schedule::new(self.facts.public.records)
            .releases(level, self.passes())
            .spend()
    }

    /// Number of passes, all stages together.
    #[must_use]
    pub fn passes(&self) -> u64 {
        let of = |stage: &SgdStage| stage.phases.len() as u64;
        self.stages.iter().map(of).sum()
    }

    /// Per-record gradients that the plan costs: one for each record that it reads.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        let phases = self.stages.iter().flat_map(|stage| &stage.phases);
        phases.map(|phase| phase.records as f64).sum()
    }

    /// Runs the plan, from the origin.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    pub fn run(
        &self,
        passes: &mut dyn Passes,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_from(&vec![0.0; self.facts.public.dim], passes, observer)
    }

    /// As [`Self::run`], from `start`: a public point, from which the radius of the facts must be measured.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    pub fn run_from(
        &self,
        start: &[f64],
        passes: &mut dyn Passes,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        check_start(start, self.facts.public.dim, passes.dim())?;
        passes.reserve(&self.spend())?;
        let mut centre = Centre::new(start.len());
        let mut point = start.to_vec();
        let (mut stop, mut done) = (Stop::Completed, 0);
        let (steps, root_dim) = (self.passes(), (start.len() as f64).sqrt());
        'run: for stage in &self.stages {
            centre.add(stage.outline.weight, &point);
            for phase in &stage.phases {
                let pass = Pass {
                    start: &point,
                    centre: &centre.point,
                    modulus: centre.modulus,
                    step_size: phase.step_size,
                    origin: start,
                    radius: stage.outline.radius,
                    records: phase.records,
                };
                let released = passes.pass(&pass, self.noise_multiplier)?;
                if !released.mean.iter().all(|w| w.is_finite()) {
                    stop = Stop::Diverged;
                    break 'run;
                }
                let moved = distance(&released.mean, &point);
                point = released.mean;
                let flow = observer.on_release(&Release {
                    step: done,
                    steps,
                    kind: ReleaseKind::Pass,
                    point: &point,
                    norm: moved,
                    noise_norm: root_dim * released.noise_std,
                });
                done += 1;
                if flow == ControlFlow::Break(()) {
                    stop = Stop::ByObserver;
                    break 'run;
                }
            }
        }
        let spent = passes.settle()?;
        let ended = Ended {
            start,
            point,
            stop,
            steps: done,
            spent,
            counts: passes.counts(),
        };
        Ok(ended.outcome(|stop| self.bound_at(stop)))
    }
}

impl Plan for RecursiveSgdPlan {
    fn facts(&self) -> &PublicFacts {
        &self.facts.public
    }

    fn steps(&self) -> u64 {
        self.passes()
    }

    fn spend(&self) -> Spend {
        self.spend()
    }

    fn gradients(&self) -> f64 {
        self.gradients()
    }

    /// L0, at which nothing is clipped.
    fn clip(&self) -> f64 {
        self.facts.public.lipschitz
    }

    fn access(&self) -> Access {
        let phases = self.stages.iter().flat_map(|stage| &stage.phases);
        slices(phases.map(|phase| phase.records))
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

    /// Each record is read once: the run costs what its first pass does.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}

/// The phases of one stage and their risk.
fn solve(task: &Task<'_>, given: &Given) -> Option<Solved<Vec<PassPlan>>> {
    let first = given.records / 2;
    if first == 0 {
        return None;
    }
    let (m, modulus, dim) = (first as f64, given.modulus, task.facts.dim as f64);
    let lipschitz = task.facts.lipschitz;
    let smooth = task.facts.smoothness + modulus;
    let share = task.facts.adjacency.sum_sensitivity() * lipschitz / task.mu;
    let distance = 0.5 * modulus * given.squared_distance;
    // What the other terms cost for each unit of ln rho, rho = e^(eta_1 M m_1); then B/(rho - 1) + C ln rho is least
    // near rho = B/C.
    let slope = (4.0 / 3.0 * lipschitz * lipschitz + 8.0 * dim * share * share / m) / (modulus * m);
    let log = (distance / slope)
        .max(1.0)
        .ln_1p()
        .min(modulus * m / smooth);
    let mut step_size = log / (modulus * m);
    let (mut records, mut before, mut risk) = (first, 0.0, 0.0);
    let mut phases: Vec<PassPlan> = Vec::new();
    let mut best: Option<(f64, usize)> = None;
    while records > 0 {
        let decay = (step_size * modulus).min(1.0);
        // (1 - eta M)^-m - 1; infinite where one step does it all.
        let rate = (-(records as f64) * (-decay).ln_1p()).exp_m1();
        let start = if phases.is_empty() {
            distance
        } else {
            0.5 * modulus * dim * before
        };
        risk += start / rate + step_size * lipschitz * lipschitz;
        let noise_std = share * step_size * pass_influence(decay, records);
        before = noise_std * noise_std;
        let whole = risk + 0.5 * smooth * dim * before;
        phases.push(PassPlan {
            records,
            step_size,
            noise_std,
        });
        if best.is_none_or(|(least, _)| whole < least) {
            best = Some((whole, phases.len()));
        } else {
            break;
        }
        records /= 2;
        step_size *= 0.25;
    }
    let (risk, count) = best?;
    phases.truncate(count);
    let last = phases.last()?.noise_std;
    risk.is_finite().then(|| Solved {
        risk,
        overshoot: last * (dim.sqrt() + 6.0),
        plan: phases,
    })
}
