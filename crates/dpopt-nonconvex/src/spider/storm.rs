//! Private STORM on all records: recursive momentum with noise.
//!
//! The estimator of Cutkosky and Orabona, "Momentum-Based Variance Reduction in Non-Convex SGD" (arXiv 1905.10018);
//! Arora et al. (arXiv 2206.00846) name the private variant and don't specify it. The bound is derived in
//! `docs/theory/faster-rates.md`.

use dpopt_oracle::{AskError, Batch, Level, Momentum, Oracle, Running, Schedule};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::search::steps_up_to;
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, OutputRule, Plan, PlanError,
    PublicFacts, ReleaseKind, RunError, Solver, Terms, Unit, Walk,
};

use super::descend;

const SOLVER: &str = "storm";
/// Private STORM.
pub static STORM: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses; the least bound of those on all records where no cap cuts its steps, 3 to 4 times those of spiderboost",
    paper: "Cutkosky and Orabona 2019 (arXiv 1905.10018); named in arXiv 2206.00846",
    needs: Needs::NOTHING,
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::RootMeanSquare)),
    auto: Auto::ByBound,
    theory_page: Some("theory/faster-rates.md#storm"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, _, budget, limits| {
        Ok(Box::new(StormPlan::new(facts, budget, limits.max_steps)?))
    },
};
/// Ratio of neighbouring trial values of T in the planner.
const GRID_RATIO: f64 = 1.01;
/// Steps that are tried, in units of 1/L1. A tuned constant: shorter ones are better by 5 % at most, and cost in inverse
/// proportion to their length.
const STEPS: [f64; 2] = [0.25, 0.5];

/// A plan for private STORM.
///
/// # Formula
/// One anchor at w_0, then T - 1 steps of recursive momentum with weight a; step size theta/L1; s = 2 under replace-one,
/// else 1; 1/z0^2 + (T - 1)/z^2 = mu^2:
///
/// - g_0: mean of clipped gradients, noise s L0 z0/n per coordinate;
/// - g_t = (1 - a) g_{t-1} + mean of [clip grad f(w_t) - (1 - a) clip grad f(w_{t-1})] + noise s R_t z/n,
///   R_t = a L0 + (1 - a) min(L1 ||w_t - w_{t-1}||, 2 L0);
/// - w_{t+1} = w_t - (theta/L1) g_t;
/// - (S): (1 + c) (1 - a)^2 theta^2 K <= (1 - theta) a (2 - a), K = d (s z/n)^2, for some c > 0;
/// - E||grad F(w)||^2 <= 2 L1 F0/(theta T) + d (s L0 z0/n)^2/(a (2 - a) T) + (1 + 1/c) K L0^2 a (T - 1)/((2 - a) T)
///   for w uniform on w_0..w_{T-1}.
///
/// The planner minimises the right-hand side over T, theta, c (which gives a by equality in (S)) and the share of the
/// anchor. With a = 1 and theta = 1 it is noisy gradient descent, which is among the candidates.
///
/// # Privacy
/// T Gaussian releases on all records with two noise multipliers, exactly mu-GDP. R_t is public (both points are), and the
/// multipliers are constants, so ordinary adaptive composition applies.
#[derive(Debug, Clone, PartialEq)]
pub struct StormPlan {
    terms: Terms,
    schedule: StormSchedule,
}

/// What a [`StormPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StormSchedule {
    /// Number of steps T.
    pub steps: u64,
    /// a: the weight of the fresh gradient.
    pub momentum: Momentum,
    /// Step size theta/L1.
    pub step_size: f64,
    /// Per-record clip radius of a gradient, L0.
    pub clip: f64,
    /// Noise multiplier of the anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of all other releases; that of the anchor when there is none.
    pub noise_multiplier: NoiseMultiplier,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

impl StormSchedule {
    /// The cost of an anchor and so many other releases, in squared mu.
    fn cost(&self, others: u64) -> f64 {
        let first = self.anchor_noise_multiplier.get().powi(-2);
        let later = self.noise_multiplier.get().powi(-2);
        first + later * others as f64
    }
}

struct Candidate {
    steps: u64,
    fresh: f64,
    theta: f64,
    share: f64,
    /// On the mean square.
    bound: f64,
}

impl StormPlan {
    /// The plan with the least bound among those of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::planned(facts, budget, &STEPS, max_steps)
    }

    /// The same with steps of `theta`/L1 (or of 1/L1 and a = 1, where that is better).
    ///
    /// # Errors
    /// [`PlanError::Vacuous`]; [`PlanError::BadFact`] unless `theta` lies strictly between 0 and 1.
    pub fn with_step(
        facts: &PublicFacts,
        budget: &Budget,
        theta: f64,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        PlanError::fraction("L1 times the step size (below 1)", theta)?;
        Self::planned(facts, budget, &[theta], max_steps)
    }

    fn planned(
        facts: &PublicFacts,
        budget: &Budget,
        thetas: &[f64],
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let best = search(facts, mu, thetas, max_steps.max(1));
        let rms = best.bound.sqrt();
        facts.useful(SOLVER, rms, mu)?;
        let anchor = 1.0 / (best.share.sqrt() * mu);
        let later = if best.steps == 1 {
            anchor
        } else {
            ((best.steps - 1) as f64 / (1.0 - best.share)).sqrt() / mu
        };
        let schedule = StormSchedule {
            steps: best.steps,
            momentum: Momentum::new(best.fresh)?,
            step_size: best.theta / facts.smoothness,
            clip: facts.lipschitz,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            noise_multiplier: NoiseMultiplier::new(later)?,
            output: OutputRule::Uniform,
        };
        let plan = Self::by_hand(facts, budget, schedule);
        Ok(Self {
            terms: plan.terms.stating(Some(rms)),
            ..plan
        })
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(facts: &PublicFacts, budget: &Budget, schedule: StormSchedule) -> Self {
        let level = |noise_multiplier| Level {
            batch: Batch::All,
            noise_multiplier,
        };
        let others = schedule.steps.saturating_sub(1);
        let spend = Schedule::new(facts.records)
            .releases(level(schedule.anchor_noise_multiplier), 1)
            .releases(level(schedule.noise_multiplier), others)
            .spend();
        Self {
            terms: Terms::new(facts, budget, schedule.steps, spend)
                // n + 2 (T - 1) n.
                .with_gradients((2 * others + 1) as f64 * facts.records as f64)
                .with_clip(schedule.clip)
                .with_output(schedule.output),
            schedule,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &StormSchedule {
        &self.schedule
    }

    /// Share of mu^2 that the anchor gets.
    #[must_use]
    pub fn anchor_share(&self) -> f64 {
        let schedule = &self.schedule;
        schedule.cost(0) / schedule.cost(schedule.steps.saturating_sub(1))
    }

    /// Noise per coordinate of the anchor.
    #[must_use]
    pub fn anchor_noise_std(&self) -> f64 {
        let z = self.schedule.anchor_noise_multiplier.get();
        self.facts().noise_std(self.schedule.clip, z)
    }

    /// Noise per coordinate of another release over its clip radius R_t.
    #[must_use]
    pub fn noise_scale(&self) -> f64 {
        let z = self.schedule.noise_multiplier.get();
        self.facts().noise_std(1.0, z)
    }
}

impl Plan for StormPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        vec![
            Item::count("steps", schedule.steps),
            Item::ratio("momentum", schedule.momentum.fresh()),
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::ratio("anchor_share", self.anchor_share()),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio(
                "anchor_noise_multiplier",
                schedule.anchor_noise_multiplier.get(),
            ),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::number("anchor_noise_std", self.anchor_noise_std(), Unit::GRADIENT),
            Item::ratio("noise_scale", self.noise_scale()),
            Item::word("output", schedule.output),
        ]
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let clip = ClipNorm::new(self.schedule.clip).map_err(RunError::Clip)?;
        Ok(Box::new(Storm {
            schedule: &self.schedule,
            running: Running::new(start.len(), clip),
        }))
    }

    fn share_spent(&self, step: u64) -> f64 {
        let schedule = &self.schedule;
        schedule.cost(step) / schedule.cost(schedule.steps.saturating_sub(1))
    }
}

struct Storm<'a> {
    schedule: &'a StormSchedule,
    running: Running,
}

impl Walk for Storm<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        Ok(if step == 0 {
            let z = self.schedule.anchor_noise_multiplier;
            let released = self.running.anchor(oracle, point, Which::All, z)?;
            Asked::estimate(ReleaseKind::Anchor, released.estimate())
        } else {
            let (a, z) = (self.schedule.momentum, self.schedule.noise_multiplier);
            let released = self
                .running
                .vary_with_momentum(oracle, point, Which::All, a, z)?;
            Asked::estimate(ReleaseKind::Variation, released.estimate())
        })
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        descend(point, self.schedule.step_size, gradient, next);
    }
}

fn search(facts: &PublicFacts, mu: f64, thetas: &[f64], max_steps: u64) -> Candidate {
    let mut best = fresh_each_time(facts, mu, 1);
    let mut offer = |next: Candidate| {
        if next.bound < best.bound {
            best = next;
        }
    };
    for steps in steps_up_to(max_steps, GRID_RATIO).skip(1) {
        offer(fresh_each_time(facts, mu, steps));
        for &theta in thetas {
            for power in -8..=8 {
                let c = 2f64.powf(0.25 * f64::from(power));
                offer(recursive(facts, mu, steps, theta, c));
            }
        }
    }
    best
}

/// With a = 1 and theta = 1: noisy gradient descent.
fn fresh_each_time(facts: &PublicFacts, mu: f64, steps: u64) -> Candidate {
    let t = steps as f64;
    let noise = facts.noise_std(facts.lipschitz, t.sqrt() / mu);
    Candidate {
        steps,
        fresh: 1.0,
        theta: 1.0,
        share: 1.0 / t,
        bound: 2.0 * facts.smoothness * facts.initial_gap / t + facts.dim as f64 * noise * noise,
    }
}

/// With the a of equality in (S).
fn recursive(facts: &PublicFacts, mu: f64, steps: u64, theta: f64, c: f64) -> Candidate {
    let t = steps as f64;
    let unit = facts.dim as f64 * facts.noise_std(1.0, 1.0 / mu).powi(2);
    // Every share has a bound of its own. This one is nearly the best: the anchor's part of the bound is
    // P/share, that of the others Q/(1 - share), and Q/P = (1 + 1/c) (a (T - 1))^2.
    let weight = |share: f64| {
        let noise = unit * (t - 1.0) / (1.0 - share);
        // a (2 - a)/(1 - a)^2 = y.
        let y = (1.0 + c) * theta * theta * noise / (1.0 - theta);
        (noise, y / (1.0 + y + (1.0 + y).sqrt()))
    };
    let mut share = 1.0 / t;
    for _ in 0..3 {
        let (_, fresh) = weight(share);
        share = 1.0 / (1.0 + (1.0 + 1.0 / c).sqrt() * fresh * (t - 1.0));
    }
    let (noise, fresh) = weight(share);
    let square = facts.lipschitz * facts.lipschitz;
    Candidate {
        steps,
        fresh,
        theta,
        share,
        bound: 2.0 * facts.smoothness * facts.initial_gap / (theta * t)
            + unit / share * square / (fresh * (2.0 - fresh) * t)
            + (1.0 + 1.0 / c) * noise * square * fresh / (2.0 - fresh) * (t - 1.0) / t,
    }
}
