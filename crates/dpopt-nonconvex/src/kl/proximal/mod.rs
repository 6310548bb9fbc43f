//! Private proximal point, for KL losses with an exponent of 2 or more that are weakly convex and need not be smooth.
//!
//! Menart, Ullah, Arora, Bassily and Guzman, "Differentially Private Non-Convex Optimization under the KL Condition with
//! Optimal Rates", Algorithms 2 and 4, repaired. The proof of the bound, and where it differs from the paper, is in
//! `docs/theory/kl-condition.md`.

mod inner;
mod reading;
mod rounds;
mod schedule;
mod walk;

use dpopt_oracle::Convexity;
use dpopt_privacy::{Accountant, Mu, SamplingRate};
use dpopt_solver::{
    Access, Auto, BoundSense, BoundedQuantity, Budget, Item, KlCondition, Needs, Plan, PlanError,
    PublicFacts, RunError, Solver, Terms, Unit, Value, Walk,
};

use inner::{Inner, events};
use reading::{Reading, choose};
use rounds::{Landscape, Step};
use walk::Proximal;

pub use reading::{ProximalReads, ProximalSettings};
pub use schedule::{ProximalRound, ProximalSchedule};

const SOLVER: &str = "proximal-point";
/// Private proximal point.
pub static PROXIMAL_POINT: Solver = Solver {
    name: SOLVER,
    summary: "weakly convex losses under a KL condition with exponent from 2 on, smooth or not",
    paper: "Menart et al. 2023 (arXiv 2311.13447), Algorithms 2 and 4",
    needs: Needs {
        kl: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::ExcessRisk, BoundSense::WithProbability)),
    auto: Auto::Never("it needs a KL condition, which no table has by itself"),
    theory_page: Some("theory/kl-condition.md#proximal-point"),
    privacy_page: "privacy/kl.md",
    planner: |facts, extra, budget, limits| {
        let facts = ProximalFacts {
            public: *facts,
            condition: extra.kl_for(SOLVER)?,
            weak_convexity: extra.weak_convexity,
            failure: extra.failure(),
            region: None,
        };
        let plan = ProximalPlan::new(&facts, budget, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};
/// Rounds that the first search assumes, for the probability of failure that each may have.
const ASSUMED_ROUNDS: f64 = 24.0;
/// Searches with more rounds each time.
const SEARCHES: u32 = 16;
/// By how much the model of a path's cost may be too large.
const MODEL_ERROR: f64 = 1.01;

/// Public facts about a KL loss that is weakly convex.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProximalFacts {
    /// The facts of any problem. The smoothness is not used, and may be infinite; so may the bound on rows.
    pub public: PublicFacts,
    /// gamma and kappa >= 2.
    pub condition: KlCondition,
    /// W: every f(.; x) + (W/2)||.||^2 is convex. 0 for convex losses, for which it may be left out. (A loss with an L1-Lipschitz
    /// gradient has W = L1.)
    pub weak_convexity: Option<f64>,
    /// beta: the probability with which the bound on the risk may fail. Privacy never depends on it.
    pub failure: f64,
    /// Radius of the ball around the starting point in which the constants hold; everywhere, if left out.
    pub region: Option<f64>,
}

impl ProximalFacts {
    fn check(&self) -> Result<f64, PlanError> {
        let public = &self.public;
        public.check_lipschitz()?;
        let kappa = self.condition.kappa();
        if kappa < 2.0 {
            return Err(PlanError::KlExponent {
                solver: SOLVER,
                kappa,
                least: 2.0,
                most: f64::INFINITY,
            });
        }
        let bend = match self.weak_convexity {
            Some(bend) => bend,
            None if public.convexity == Convexity::Convex => 0.0,
            None => return Err(PlanError::WeakConvexityMissing { solver: SOLVER }),
        };
        for (name, value, fits) in [
            ("weak_convexity", bend, bend.is_finite() && bend >= 0.0),
            (
                "failure",
                self.failure,
                self.failure > 0.0 && self.failure < 1.0,
            ),
            (
                "region",
                self.region.unwrap_or(1.0),
                self.region.is_none_or(|radius| radius > 0.0),
            ),
        ] {
            if !fits {
                return Err(PlanError::BadFact { name, value });
            }
        }
        let most = self.condition.excess_bound(public.lipschitz);
        if public.initial_gap > most * (1.0 + 1e-9) {
            return Err(PlanError::KlGap {
                most,
                initial_gap: public.initial_gap,
            });
        }
        Ok(bend)
    }
}

/// A plan for private proximal point.
///
/// # Formula
/// Round t minimises F_t(w) = F(w) + L_t ||w - c||^2 by M_t steps of dual averaging: with c = w_{t-1}, g_s the noisy clipped mean
/// gradient of F at v_s plus W (v_s - c), and P the projection on the ball of radius R_t around c,
///
/// v_1 = c, v_{s+1} = P(c - (1 g_1 + ... + s g_s)/(mu_t (s + 1)(s + 2)/2)), w_t = sum of s v_s/(M (M + 1)/2).
///
/// With probability at least 1 - beta, F(w_t) - min F <= Phi_t for every t: from a gap tau_t of the subproblem,
/// u + a u^(2/kappa)/(4 gamma^2 L) = Phi_{t-1}, a = 2 - W/(2 L), x = u^(1/kappa)/(2 gamma sqrt L), y = sqrt(2 L tau/mu):
///
/// Phi_t = u + tau + 2 x y - y^2 (y <= x),
///
/// which is attained. The planner finds the sequence of targets and weights that needs the fewest steps. L_t grows as
/// Phi_t^(-(kappa - 2)/kappa); with a weight that stays, the risk can't go below the order n^-2.
///
/// # Privacy
/// All steps are releases of one kind: Gaussians of one noise multiplier on all records, exactly mu-GDP together, or on Poisson
/// samples of one rate, calibrated by the named accountant. The regulariser, projections and averages are post-processing of
/// releases. Nothing that is assumed of F takes part.
#[derive(Debug, Clone, PartialEq)]
pub struct ProximalPlan {
    terms: Terms,
    proximal: ProximalFacts,
    schedule: ProximalSchedule,
    noise_std: f64,
    accountant: Option<Accountant>,
    radius: f64,
}

impl ProximalPlan {
    /// The cheapest plan whose bound is near the least one possible, of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::VacuousRisk`] when no round lowers the bound below F0; [`PlanError::KlExponent`], [`PlanError::KlGap`],
    /// [`PlanError::WeakConvexityMissing`], [`PlanError::RegionTooSmall`], [`PlanError::BadFact`].
    pub fn new(facts: &ProximalFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::with_settings(facts, budget, ProximalSettings::new(max_steps))
    }

    /// As [`Self::new`], with other choices.
    ///
    /// # Errors
    /// As [`Self::new`]; an accounting error where samples were asked for that no accountant takes.
    pub fn with_settings(
        facts: &ProximalFacts,
        budget: &Budget,
        settings: ProximalSettings,
    ) -> Result<Self, PlanError> {
        let bend = facts.check()?;
        let public = &facts.public;
        let landscape = Landscape {
            condition: facts.condition,
            bend,
            lipschitz: public.lipschitz,
        };
        let tail = |rounds: f64, sampled| (events(sampled) * rounds / facts.failure).ln();
        let reading = choose(public, budget, &settings, |sampled| {
            tail(ASSUMED_ROUNDS, sampled)
        })?;
        let inner = |rounds: f64| {
            let tail = tail(rounds, reading.batch.is_some());
            reading::inner(public, reading.noise_multiplier.get(), reading.batch, tail)
        };
        let Some(path) = search(&landscape, public.initial_gap, reading.steps, inner) else {
            let inner = inner(1.0);
            let bound = one_round(&landscape, public.initial_gap, reading.steps, &inner);
            return Err(vacuous(public, budget, bound));
        };
        let inner = inner(path.len() as f64);
        let rounds = unroll(&landscape, public.initial_gap, &path, &inner);
        Self::build(facts, budget, &reading, &inner, rounds)
    }

    fn build(
        facts: &ProximalFacts,
        budget: &Budget,
        reading: &Reading,
        inner: &Inner,
        rounds: Vec<ProximalRound>,
    ) -> Result<Self, PlanError> {
        let public = &facts.public;
        let radius: f64 = rounds.iter().map(|round| round.radius).sum();
        let bound = rounds.last().map_or(f64::INFINITY, |round| round.risk);
        if !(bound < public.initial_gap) {
            return Err(vacuous(public, budget, bound));
        }
        if let Some(region) = facts.region
            && radius > region
        {
            return Err(PlanError::RegionTooSmall {
                solver: SOLVER,
                region,
                needed: radius,
            });
        }
        let rate = |batch: f64| SamplingRate::new((batch / public.records as f64).min(1.0));
        let schedule = ProximalSchedule {
            sampling_rate: reading.batch.map(rate).transpose()?,
            noise_multiplier: reading.noise_multiplier,
            rounds,
        };
        let plan = Self::by_hand(facts, budget, schedule);
        Ok(Self {
            terms: plan.terms.stating(Some(bound)),
            noise_std: inner.noise_std,
            accountant: Some(reading.accountant),
            ..plan
        })
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(facts: &ProximalFacts, budget: &Budget, schedule: ProximalSchedule) -> Self {
        let public = &facts.public;
        let ProximalSchedule {
            sampling_rate,
            noise_multiplier,
            rounds,
        } = &schedule;
        let steps = rounds.iter().map(|round| round.steps).sum();
        let access = sampling_rate.map_or(Access::FullBatch, Access::Poisson);
        let rate = sampling_rate.map_or(1.0, SamplingRate::get);
        let spend = reading::spend(public, *sampling_rate, *noise_multiplier, steps);
        let noise = public.noise_std(public.lipschitz, noise_multiplier.get()) / rate;
        Self {
            terms: Terms::new(public, budget, steps, spend)
                .with_gradients(steps as f64 * rate * public.records as f64)
                .with_access(access)
                .bounding(BoundedQuantity::ExcessRisk, BoundSense::WithProbability),
            proximal: *facts,
            noise_std: noise,
            accountant: None,
            radius: rounds.iter().map(|round| round.radius).sum(),
            schedule,
        }
    }

    /// What it was told of the problem.
    #[must_use]
    pub fn proximal_facts(&self) -> &ProximalFacts {
        &self.proximal
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &ProximalSchedule {
        &self.schedule
    }

    /// The rounds.
    #[must_use]
    pub fn rounds(&self) -> &[ProximalRound] {
        &self.schedule.rounds
    }

    /// Noise standard deviation per coordinate of a mean gradient.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// Who calibrated the multiplier; none for a plan by hand.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Everything stays this close to the start, surely. The constants of the facts are needed within.
    #[must_use]
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Phi_T: F(output) - min F is at most this with probability at least 1 - beta; infinite for a plan by hand.
    #[must_use]
    pub fn predicted_risk(&self) -> f64 {
        self.bound().map_or(f64::INFINITY, |bound| bound.value)
    }
}

/// A run that is stopped returns the output of its last whole round, and states no bound.
impl Plan for ProximalPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        let ProximalFacts {
            condition,
            weak_convexity,
            failure,
            region,
            ..
        } = self.proximal;
        let beside = vec![
            Item::ratio("kappa", condition.kappa()),
            Item::maybe("weak_convexity", weak_convexity, Unit::CURVATURE),
            Item::ratio("failure", failure),
            Item::maybe("region", region, Unit::LENGTH),
        ];
        Some(("public", beside))
    }

    fn items(&self) -> Vec<Item<'_>> {
        let round = |round: &ProximalRound| {
            vec![
                Item::number("weight", round.weight, Unit::CURVATURE),
                Item::number("modulus", round.modulus, Unit::CURVATURE),
                Item::number("radius", round.radius, Unit::LENGTH),
                Item::count("steps", round.steps),
                Item::number("gap", round.gap, Unit::LOSS),
                Item::number("risk", round.risk, Unit::LOSS),
            ]
        };
        let schedule = &self.schedule;
        let rate = schedule.sampling_rate.map(SamplingRate::get);
        let mut items = vec![
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::maybe("sampling_rate", rate, Unit::NONE),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::number("noise_std", self.noise_std, Unit::GRADIENT),
        ];
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items.extend([
            Item::plain(
                "rounds",
                Value::Rows(schedule.rounds.iter().map(round).collect()),
            ),
            Item::number("radius", self.radius, Unit::LENGTH),
        ]);
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let bend = self.proximal.weak_convexity.unwrap_or(0.0);
        let walk = Proximal::new(&self.schedule, self.clip(), bend, start)?;
        Ok(Box::new(walk))
    }
}

/// A path of rounds, with the steps of each.
type Path = Vec<(Step, u64)>;

/// The deepest path that fits, with its steps spread over all that there are.
fn search(
    landscape: &Landscape,
    first: f64,
    steps: u64,
    inner: impl Fn(f64) -> Inner,
) -> Option<Path> {
    let mut assumed = ASSUMED_ROUNDS;
    for _ in 0..SEARCHES {
        let inner = inner(assumed);
        let paths = landscape.paths(first, &inner, steps);
        let mut longest = 0;
        for path in paths.deepest_first(steps as f64 * MODEL_ERROR) {
            if path.len() as f64 > assumed {
                longest = path.len();
                break;
            }
            if let Some(path) = exact(landscape, &path, &inner, steps) {
                return Some(path);
            }
        }
        if longest == 0 {
            return None;
        }
        assumed = (1.2 * longest as f64).ceil();
    }
    None
}

/// The steps of each round, if they are not too many; what is left over is shared out.
fn exact(landscape: &Landscape, path: &[(f64, Step)], inner: &Inner, most: u64) -> Option<Path> {
    let (mut taken, mut with_steps) = (0, Vec::with_capacity(path.len()));
    for &(before, step) in path {
        let pull = landscape.pull(step.weight, before);
        let steps = inner.steps(step.product, pull, most - taken)?;
        taken += steps;
        with_steps.push((step, steps));
    }
    let share = most as f64 / taken as f64;
    let mut spare = most - taken;
    for (_, steps) in &mut with_steps {
        let more = ((*steps as f64 * (share - 1.0)) as u64).min(spare);
        *steps += more;
        spare -= more;
    }
    if let Some((_, steps)) = with_steps.last_mut() {
        *steps += spare;
    }
    Some(with_steps)
}

/// What the rounds of a path reach.
fn unroll(
    landscape: &Landscape,
    first: f64,
    path: &[(Step, u64)],
    inner: &Inner,
) -> Vec<ProximalRound> {
    let mut risk = first;
    path.iter()
        .map(|&(Step { weight, .. }, steps)| {
            let (before, modulus) = (risk, landscape.modulus(weight));
            let pull = landscape.pull(weight, before);
            let gap = inner.product(steps as f64, pull) / modulus;
            risk = landscape.after(weight, gap, before);
            ProximalRound {
                weight,
                modulus,
                radius: landscape.reach(weight, before),
                steps,
                gap,
                risk,
            }
        })
        .collect()
}

/// The best that one round with all steps can promise: what a refusal reports.
fn one_round(landscape: &Landscape, first: f64, steps: u64, inner: &Inner) -> f64 {
    let number = landscape.condition.condition_number(1.0, first);
    let after = |k: i32| {
        let weight = (0.5 * landscape.bend).max(1e-12 / number) + f64::from(k).exp2() / number;
        let pull = landscape.pull(weight, first);
        let gap = inner.product(steps as f64, pull) / landscape.modulus(weight);
        landscape.after(weight, gap, first)
    };
    (-8..=24).map(after).fold(f64::INFINITY, f64::min)
}

fn vacuous(public: &PublicFacts, budget: &Budget, bound: f64) -> PlanError {
    // What one round promises at the tail of one round may be a little less than F0.
    let bound = bound.max(public.initial_gap);
    public.vacuous_risk(SOLVER, bound, budget.mu().map_or(f64::NAN, Mu::get))
}
