//! KL Spider: phases of private SPIDER under the KL condition, for exponents from 1 to 2.
//!
//! Menart, Ullah, Arora, Bassily and Guzman, "Differentially Private Non-Convex Optimization under the KL Condition
//! with Optimal Rates" (arXiv 2311.13447), Algorithm 1 and Theorem 1, with the errata of `docs/theory/errata-kl.md`. The
//! guarantee is proved in `docs/theory/kl-spider.md`.

mod budget;
mod descent;
mod printed;
mod search;
mod walk;

use dpopt_oracle::{Batch, Estimator, Level, Schedule};
use dpopt_privacy::{NoiseMultiplier, Spend};
use serde::{Deserialize, Serialize};

use super::KlCondition;
use crate::bound::{BoundedQuantity, StatedBound};
use crate::facts::{Budget, PlanError, PublicFacts};
use crate::plan::{BoundSense, Plan};
use crate::run::{Course, Observer, Outcome, OutputRule, RunError, Stop, run};
use budget::{Draft, Tail, squared_mus};
use search::Search;
use walk::KlWalk;

const SOLVER: &str = "kl-spider";

/// How phases are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum KlSpiderVersion {
    /// Step, error and ratio of targets by a public search, phases as long as the worst case needs.
    #[default]
    FreePhases,
    /// The paper's phase lengths and ratio of targets with a = 1/2, b = 1/4 and a budget in proportion to what phases
    /// need.
    PaperPhases,
    /// The printed schedule (K, c, T_k, floor, equal budgets), with noise for the true sensitivities: for comparison.
    PaperConstants,
}

/// What a plan needs to know beside the facts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KlSpiderSettings {
    /// beta: the guarantee holds with probability 1 - beta over the noise.
    pub failure: f64,
    /// How phases are planned.
    pub version: KlSpiderVersion,
    /// L: Lipschitz constant of the gradient of the objective, where it is known and not that of a record's. Steps depend on it, and
    /// what is released does not.
    pub objective_smoothness: Option<f64>,
}

impl KlSpiderSettings {
    /// With failure probability `failure`, planned freely, with L = L1.
    #[must_use]
    pub fn new(failure: f64) -> Self {
        Self {
            failure,
            version: KlSpiderVersion::FreePhases,
            objective_smoothness: None,
        }
    }

    /// Planned in this way.
    #[must_use]
    pub fn with_version(mut self, version: KlSpiderVersion) -> Self {
        self.version = version;
        self
    }

    /// With this L. For a regulariser that reads no record ([`dpopt_oracle::Regularized`]) it is L1 plus its own constant, and the KL
    /// condition and F0 are those of the sum; a mean of records may have a smaller one than each of them.
    #[must_use]
    pub fn with_objective_smoothness(mut self, smoothness: f64) -> Self {
        self.objective_smoothness = Some(smoothness);
        self
    }

    fn check(&self) -> Result<(), PlanError> {
        let failure = self.failure;
        if !(failure > 0.0 && failure < 1.0) {
            return Err(PlanError::BadFact {
                name: "failure",
                value: failure,
            });
        }
        match self.objective_smoothness {
            Some(value) if !(value > 0.0 && value.is_finite()) => Err(PlanError::BadFact {
                name: "objective_smoothness",
                value,
            }),
            _ => Ok(()),
        }
    }
}

/// One phase of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KlPhase {
    /// Phi: the excess at its end is at most this.
    pub target: f64,
    /// N: updates at most, one release before each.
    pub updates: u64,
    /// s: length of a step.
    pub step_length: f64,
    /// An estimate shorter than this ends the phase.
    pub stop_below: f64,
    /// What errors of estimates are below with probability 1 - beta, all of them together.
    pub allowed_error: f64,
    /// mu^2 of all its releases.
    pub squared_mu: f64,
    /// Noise multiplier of the anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of a variation; that of the anchor when there is none.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// Noise per coordinate of the anchor.
    pub anchor_noise_std: f64,
    /// Noise per coordinate of a variation, whose clip radius is L1 s; 0 when there is none.
    pub variation_noise_std: f64,
}

/// A plan for KL Spider.
///
/// # Formula
/// Phases k = 1..K from excess Phi_{k-1} to Phi_k, Phi_0 = F0. With G = Lambda^(1/kappa)/gamma for a level Lambda <= Phi_k: a fresh
/// private gradient, then up to N_k steps of length s = a G/L against the estimate, which private changes of the gradient keep up to date (N_k - 1 of
/// them, clip radius L1 s); an estimate shorter than (1 - b) G ends the phase at its point. If all errors are at most b G,
/// every phase reaches its target. L is the Lipschitz constant of the gradient of the objective, L1 that of a record's.
///
/// With A = s0 L0/n, B = (N - 1) s0 L1 s/n (s0: sensitivity of a sum of unit vectors) and q the quantile of ||N(0, I_d)|| at the phase's
/// share of beta, a phase needs mu^2 = q^2 (A + B)^2/(b G)^2; the planner makes the last target as small as the sum of these allows.
///
/// # Privacy
/// Gaussian releases on all records with multipliers, clips and counts from the plan: exactly mu-GDP for any records and any loss; neither the KL condition nor
/// smoothness is needed. A phase that ends early leaves releases unmade. See `docs/privacy/kl.md`.
///
/// # Guarantee
/// With probability 1 - beta over the noise the excess F(w) - F* of the returned point is at most [`Self::excess_bound`], if the constants are right on the
/// component of {F <= F(start)} that holds the start, or on the ball of [`Self::radius`] around it. It is about the records at hand, not about
/// their population.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KlSpiderPlan {
    /// The facts it was made from.
    pub facts: PublicFacts,
    /// The condition.
    pub kl: KlCondition,
    /// The privacy it spends.
    pub budget: Budget,
    /// How it was planned.
    pub settings: KlSpiderSettings,
    /// The phases, in order.
    pub phases: Vec<KlPhase>,
    /// Per-record clip radius of gradients, L0.
    pub clip: f64,
    /// Phi_K: the excess is at most this with probability 1 - beta.
    pub excess_bound: f64,
    /// No point of any run is farther from the start.
    pub radius: f64,
}

impl KlSpiderPlan {
    /// The plan with the least certified excess among those of at most `max_steps` steps (then the cheapest within 5% of it).
    ///
    /// # Errors
    /// [`PlanError::KlExponent`] for kappa above 2 (see [`KlCondition::weakened`]); [`PlanError::KlGap`] where F0 > (gamma L0)^kappa;
    /// [`PlanError::VacuousRisk`] where no excess below F0 can be certified; [`PlanError::BadFact`].
    pub fn new(
        facts: &PublicFacts,
        kl: &KlCondition,
        budget: &Budget,
        settings: KlSpiderSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        settings.check()?;
        if kl.kappa() > 2.0 {
            return Err(PlanError::KlExponent {
                solver: SOLVER,
                kappa: kl.kappa(),
                least: 1.0,
                most: 2.0,
            });
        }
        let most = kl.excess_bound(facts.lipschitz);
        if facts.initial_gap > most * (1.0 + 1e-9) {
            return Err(PlanError::KlGap {
                most,
                initial_gap: facts.initial_gap,
            });
        }
        let mu = budget.mu()?.get();
        let search = Search {
            facts,
            kl,
            smoothness: settings.objective_smoothness.unwrap_or(facts.smoothness),
            mu,
            failure: settings.failure,
            max_steps,
        };
        let planned = match settings.version {
            KlSpiderVersion::FreePhases => search.best().map(|(_, drafts)| {
                let needs: Vec<f64> =
                    squared_mus(&drafts, facts.dim, settings.failure, Tail::Exact).collect();
                // What the search has left is spread over all phases.
                let scale = mu * mu / needs.iter().sum::<f64>();
                let squared = needs.iter().map(|need| scale * need).collect();
                (drafts, squared, None)
            }),
            KlSpiderVersion::PaperPhases => search.paper_phases(),
            KlSpiderVersion::PaperConstants => search.paper_constants(),
        };
        let (drafts, squared, anchor_share) = planned.map_err(|bound| PlanError::VacuousRisk {
            solver: SOLVER,
            bound,
            initial_gap: facts.initial_gap,
            records: facts.records,
            dim: facts.dim,
            mu,
        })?;
        let walked = |draft: &Draft| draft.updates * draft.step_length;
        Ok(Self {
            facts: *facts,
            kl: *kl,
            budget: *budget,
            settings,
            excess_bound: drafts.last().map_or(facts.initial_gap, |last| last.target),
            radius: drafts.iter().map(walked).sum(),
            phases: budget::phases(&drafts, &squared, anchor_share)?,
            clip: facts.lipschitz,
        })
    }

    /// Steps at most: updates of all phases.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.phases.iter().map(|phase| phase.updates).sum()
    }

    /// Mean gradients over all records that it costs at most: one for each anchor, two for each variation.
    #[must_use]
    pub fn full_gradients(&self) -> f64 {
        2.0 * self.steps() as f64 - self.phases.len() as f64
    }

    /// Per-record gradients that it costs at most.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        self.full_gradients() * self.facts.records as f64
    }

    /// gamma^2 L F0^(-(2 - kappa)/kappa). Below 1/2 a constant is wrong, or F0 a loose bound.
    #[must_use]
    pub fn condition_number(&self) -> f64 {
        let smoothness = self.settings.objective_smoothness;
        let smoothness = smoothness.unwrap_or(self.facts.smoothness);
        self.kl.condition_number(smoothness, self.facts.initial_gap)
    }

    /// The releases that are reserved: for each phase an anchor and all but one of its updates' variations.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let level = |noise_multiplier| Level {
            batch: Batch::Everything,
            noise_multiplier,
        };
        let all = Schedule::new(self.facts.records);
        let add = |schedule: Schedule, phase: &KlPhase| {
            schedule
                .releases(level(phase.anchor_noise_multiplier), 1)
                .releases(
                    level(phase.variation_noise_multiplier),
                    phase.updates.saturating_sub(1),
                )
        };
        self.phases.iter().fold(all, add).spend()
    }

    /// Runs the plan, from the origin, on an estimator that reads all records, clips gradients to [`Self::clip`] and changes
    /// to L1 times the displacement.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    pub fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_from(&vec![0.0; self.facts.dim], estimator, observer)
    }

    /// As [`Self::run`], from `start` and not from the origin: a public point. The guarantee then needs F0
    /// ([`PublicFacts::initial_gap`]) to bound the excess at `start`.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    pub fn run_from(
        &self,
        start: &[f64],
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        let course = Course {
            start,
            dim: self.facts.dim,
            steps: self.steps(),
            spend: self.spend(),
            output: OutputRule::Last,
            bound: &|stop| self.bound_at(stop),
        };
        run(&course, &mut KlWalk::new(&self.phases), estimator, observer)
    }
}

/// Its bound is one on the excess ([`KlSpiderPlan::excess_bound`]), and none on the gradient norm.
impl Plan for KlSpiderPlan {
    fn facts(&self) -> &PublicFacts {
        &self.facts
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

    /// All phases were walked, or the last ended at a short estimate.
    fn bound_covers(&self, stop: Stop) -> bool {
        matches!(stop, Stop::Completed | Stop::SmallEstimate)
    }

    /// [`KlSpiderPlan::excess_bound`].
    fn bound_at(&self, stop: Stop) -> Option<StatedBound> {
        let counted = self.facts.adjacency.record_count_is_public();
        (counted && self.bound_covers(stop)).then_some(StatedBound {
            value: self.excess_bound,
            quantity: BoundedQuantity::ExcessRisk,
            sense: BoundSense::WithProbability,
        })
    }

    /// Of mu^2: all phases before, and of the step's own what its releases so far may have cost.
    fn share_spent(&self, step: u64) -> f64 {
        let mut first = 0;
        let mut spent = 0.0;
        let mut whole = 0.0;
        for phase in &self.phases {
            let anchor = phase.anchor_noise_multiplier.get().powi(-2);
            let variation = phase.variation_noise_multiplier.get().powi(-2);
            let upto = |releases: u64| match releases {
                0 => 0.0,
                n => anchor + (n - 1) as f64 * variation,
            };
            whole += upto(phase.updates);
            spent += upto((step + 1).saturating_sub(first).min(phase.updates));
            first += phase.updates;
        }
        spent / whole
    }
}
