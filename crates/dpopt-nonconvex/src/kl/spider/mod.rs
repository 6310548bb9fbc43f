//! KL Spider: phases of private SPIDER under the KL condition, for exponents from 1 to 2.
//!
//! Menart, Ullah, Arora, Bassily and Guzman, "Differentially Private Non-Convex Optimization under the KL Condition
//! with Optimal Rates" (arXiv 2311.13447), Algorithm 1 and Theorem 1, with the errata of `docs/theory/kl-condition.md`. The
//! guarantee is proved in `docs/theory/kl-condition.md`.

mod budget;
mod descent;
mod printed;
mod search;
mod walk;

use dpopt_oracle::{Batch, Level, Schedule};
use dpopt_solver::{
    Auto, BoundSense, BoundedQuantity, Budget, Item, KlCondition, Needs, Plan, PlanError,
    PublicFacts, RunError, Solver, Stop, Terms, Unit, Value, Walk,
};
use serde::{Deserialize, Serialize};

use budget::{Draft, Tail, squared_mus};
use search::Search;
use walk::KlWalk;

pub use budget::KlPhase;

const SOLVER: &str = "kl-spider";
/// KL Spider, planned freely.
pub static KL_SPIDER: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses under a KL condition with exponent from 1 to 2",
    paper: "Menart et al. 2023 (arXiv 2311.13447), Algorithm 1",
    needs: Needs {
        kl: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::ExcessRisk, BoundSense::WithProbability)),
    auto: Auto::Never("it needs a KL condition, which no table has by itself"),
    theory_page: Some("theory/kl-condition.md#kl-spider"),
    privacy_page: "privacy/kl.md",
    planner: |facts, extra, budget, limits| {
        let kl = extra.kl_for(SOLVER)?;
        let settings = KlSpiderSettings::new(extra.failure());
        let plan = KlSpiderPlan::new(facts, &kl, budget, settings, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

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
        PlanError::fraction("failure", self.failure)?;
        match self.objective_smoothness {
            Some(value) if !(value > 0.0 && value.is_finite()) => Err(PlanError::BadFact {
                name: "objective_smoothness",
                value,
            }),
            _ => Ok(()),
        }
    }
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
#[derive(Debug, Clone, PartialEq)]
pub struct KlSpiderPlan {
    terms: Terms,
    kl: KlCondition,
    settings: KlSpiderSettings,
    phases: Vec<KlPhase>,
    radius: f64,
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
        let (drafts, squared, anchor_share) =
            planned.map_err(|bound| facts.vacuous_risk(SOLVER, bound, mu))?;
        let walked = |draft: &Draft| draft.updates * draft.step_length;
        let radius = drafts.iter().map(walked).sum();
        let bound = drafts.last().map_or(facts.initial_gap, |last| last.target);
        let phases = budget::phases(&drafts, &squared, anchor_share)?;
        let plan = Self::by_hand(facts, kl, budget, settings, phases);
        Ok(Self {
            terms: plan.terms.stating(Some(bound)),
            radius,
            ..plan
        })
    }

    /// A plan with other phases. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &PublicFacts,
        kl: &KlCondition,
        budget: &Budget,
        settings: KlSpiderSettings,
        phases: Vec<KlPhase>,
    ) -> Self {
        let level = |noise_multiplier| Level {
            batch: Batch::All,
            noise_multiplier,
        };
        // For each phase an anchor and all but one of its updates' variations.
        let add = |schedule: Schedule, phase: &KlPhase| {
            schedule
                .releases(level(phase.anchor_noise_multiplier), 1)
                .releases(
                    level(phase.variation_noise_multiplier),
                    phase.updates.saturating_sub(1),
                )
        };
        let spend = phases
            .iter()
            .fold(Schedule::new(facts.records), add)
            .spend();
        let steps = phases.iter().map(|phase| phase.updates).sum();
        let terms = Terms::new(facts, budget, steps, spend)
            .bounding(BoundedQuantity::ExcessRisk, BoundSense::WithProbability);
        let full = full_gradients(steps, &phases);
        Self {
            terms: terms.with_gradients(full * facts.records as f64),
            kl: *kl,
            settings,
            radius: phases
                .iter()
                .map(|phase| phase.updates as f64 * phase.step_length)
                .sum(),
            phases,
        }
    }

    /// The condition.
    #[must_use]
    pub fn kl(&self) -> &KlCondition {
        &self.kl
    }

    /// How it was planned.
    #[must_use]
    pub fn settings(&self) -> &KlSpiderSettings {
        &self.settings
    }

    /// The phases, in order.
    #[must_use]
    pub fn phases(&self) -> &[KlPhase] {
        &self.phases
    }

    /// Phi_K: the excess is at most this with probability 1 - beta; infinite for a plan by hand.
    #[must_use]
    pub fn excess_bound(&self) -> f64 {
        self.bound().map_or(f64::INFINITY, |bound| bound.value)
    }

    /// No point of any run is farther from the start.
    #[must_use]
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Mean gradients over all records that it costs at most: one for each anchor, two for each variation.
    #[must_use]
    pub fn full_gradients(&self) -> f64 {
        full_gradients(self.steps(), &self.phases)
    }

    /// gamma^2 L F0^(-(2 - kappa)/kappa). Below 1/2 a constant is wrong, or F0 a loose bound.
    #[must_use]
    pub fn condition_number(&self) -> f64 {
        let facts = self.facts();
        let smoothness = self.settings.objective_smoothness;
        let smoothness = smoothness.unwrap_or(facts.smoothness);
        self.kl.condition_number(smoothness, facts.initial_gap)
    }
}

fn full_gradients(steps: u64, phases: &[KlPhase]) -> f64 {
    2.0 * steps as f64 - phases.len() as f64
}

/// Its bound is one on the excess ([`KlSpiderPlan::excess_bound`]), not on the gradient norm.
impl Plan for KlSpiderPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let phase = |phase: &KlPhase| {
            vec![
                Item::number("target", phase.target, Unit::LOSS),
                Item::count("updates", phase.updates),
                Item::number("step_length", phase.step_length, Unit::LENGTH),
                Item::number("stop_below", phase.stop_below, Unit::GRADIENT),
                Item::number("allowed_error", phase.allowed_error, Unit::GRADIENT),
                Item::ratio("squared_mu", phase.squared_mu),
                Item::ratio(
                    "anchor_noise_multiplier",
                    phase.anchor_noise_multiplier.get(),
                ),
                Item::ratio(
                    "variation_noise_multiplier",
                    phase.variation_noise_multiplier.get(),
                ),
                Item::number("anchor_noise_std", phase.anchor_noise_std, Unit::GRADIENT),
                Item::number(
                    "variation_noise_std",
                    phase.variation_noise_std,
                    Unit::GRADIENT,
                ),
            ]
        };
        vec![
            Item::ratio("kappa", self.kl.kappa()),
            Item::ratio("failure", self.settings.failure),
            Item::plain(
                "phases",
                Value::Rows(self.phases.iter().map(phase).collect()),
            ),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::number("radius", self.radius, Unit::LENGTH),
        ]
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(KlWalk::new(
            &self.phases,
            start.len(),
            self.clip(),
        )?))
    }

    /// All phases were walked, or the last ended at a short estimate.
    fn bound_covers(&self, stop: Stop) -> bool {
        matches!(stop, Stop::Completed | Stop::SmallEstimate)
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
