//! Private SpiderBoost on all records ("SB-exact").
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah, "Faster Rates of Convergence to Stationary
//! Points in Differentially Private Optimization" (arXiv 2206.00846), Algorithm 1 and Theorem 1,
//! with the errata E1 to E8 of `docs/theory/faster-rates.md`: the printed phase length and noise
//! constants give no descent, so both are planned from the exact privacy cost instead.

use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::search::{MOST_STEPS, longest_that_fits, whole};
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, OutputRule, Plan, PlanError,
    PublicFacts, PublicRank, RunError, Solver, Terms, Unit, Walk,
};

use super::{PhasedEstimate, Phases, descend};

const SOLVER: &str = "spiderboost";
/// Private SpiderBoost.
pub static SPIDERBOOST: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses",
    paper: "Arora et al. 2022 (arXiv 2206.00846), Algorithm 1",
    needs: Needs::NOTHING,
    uses_rank: true,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::RootMeanSquare)),
    auto: Auto::ByBound,
    theory_page: Some("theory/faster-rates.md#spiderboost"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, extra, budget, limits| {
        Ok(Box::new(match extra.rank {
            None => SpiderBoostPlan::new(facts, budget, limits.max_steps)?,
            Some(rank) => SpiderBoostPlan::within_rank(facts, budget, limits.max_steps, rank)?,
        }))
    },
};

/// Ratio of neighbouring trial values of T in the planner.
const GRID_RATIO: f64 = 1.01;
/// One in so many of them is tried first.
const COARSE: usize = 20;

/// A plan for private SpiderBoost.
///
/// # Formula
/// Steps t = 0..T, anchors where q divides t (N1 of them), variations elsewhere (N2); step size
/// 1/(2 L1); s = 2 under replace-one, else 1; mu1^2 + mu2^2 = mu^2:
///
/// - anchor noise sigma1 = s L0 sqrt(N1)/(n mu1) per coordinate;
/// - variation noise s2 lambda_t, s2 = s sqrt(N2)/(n mu2), lambda_t = min(L1 ||w_t - w_{t-1}||, 2 L0);
/// - (D): (q - 1) d s2^2 <= 2;
/// - E||grad F(w)||^2 <= 4 L1 F0/T + d sigma1^2 for w uniform on w_0..w_{T-1}.
///
/// The planner minimises the right-hand side over T, the split of mu and q subject to (D).
///
/// # Privacy
/// N1 + N2 Gaussian releases on all records with two noise multipliers, exactly mu-GDP. lambda_t
/// is public (both points are), and the multiplier is constant, so ordinary adaptive composition
/// applies. A step with lambda_t = 0 releases nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SpiderBoostPlan {
    terms: Terms,
    schedule: SpiderBoostSchedule,
    rank: Option<PublicRank>,
}

/// What a [`SpiderBoostPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpiderBoostSchedule {
    /// Number of steps T.
    pub steps: u64,
    /// Phase length q.
    pub phase: u64,
    /// Step size 1/(2 L1).
    pub step_size: f64,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// Noise multiplier of an anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of a variation; that of an anchor when there is none.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

impl SpiderBoostSchedule {
    fn phases(&self) -> Phases {
        Phases {
            steps: self.steps,
            phase: self.phase,
            anchor: self.anchor_noise_multiplier,
            variation: self.variation_noise_multiplier,
        }
    }

    /// Number of anchors N1.
    #[must_use]
    pub fn anchors(&self) -> u64 {
        self.phases().anchors()
    }

    /// Number of variations N2.
    #[must_use]
    pub fn variations(&self) -> u64 {
        self.phases().variations()
    }
}

pub(crate) struct Candidate {
    pub(crate) steps: u64,
    pub(crate) phase: u64,
    pub(crate) share: f64,
    /// On the mean square.
    pub(crate) bound: f64,
}

impl Candidate {
    /// What every candidate is better than.
    pub(crate) fn worst() -> Self {
        Self {
            steps: 1,
            phase: 1,
            share: 1.0,
            bound: f64::INFINITY,
        }
    }
}

impl SpiderBoostPlan {
    /// The plan with the least bound among those of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let best = Self::search(facts, mu, max_steps.max(1));
        Self::checked(facts, budget, mu, &best)
    }

    /// The plan of a candidate, unless its bound says nothing.
    pub(crate) fn checked(
        facts: &PublicFacts,
        budget: &Budget,
        mu: f64,
        best: &Candidate,
    ) -> Result<Self, PlanError> {
        facts.useful(SOLVER, best.bound.sqrt(), mu)?;
        Self::build(facts, budget, mu, best)
    }

    /// The best candidate on a grid of T and of the share in percent. Most of it is left out by lower bounds: with no more
    /// anchors than the longest phase of a range of shares needs, and the largest share of the range.
    fn search(facts: &PublicFacts, mu: f64, max_steps: u64) -> Candidate {
        let grid: Vec<u64> = whole(1.0, MOST_STEPS.min(max_steps as f64), GRID_RATIO).collect();
        let optimisation = |steps: u64| 4.0 * facts.smoothness * facts.initial_gap / steps as f64;
        let noise = |anchors: u64, share: f64| {
            let sigma = facts.noise_std(facts.lipschitz, (anchors as f64 / share).sqrt() / mu);
            facts.dim as f64 * sigma * sigma
        };
        let at = |steps: u64, percent: u32| {
            let share = f64::from(percent) / 100.0;
            let phase = longest_phase(facts, mu, steps, share);
            // One phase has no variations to pay for when T = 1.
            let share = if phase == 1 { 1.0 } else { share };
            Candidate {
                steps,
                phase,
                share,
                bound: optimisation(steps) + noise(steps.div_ceil(phase), share),
            }
        };
        // What some candidate on the grid attains.
        let coarse = grid.iter().step_by(COARSE);
        let attained = coarse
            .flat_map(|&steps| (1..10).map(move |tenth| (steps, 10 * tenth)))
            .map(|(steps, percent)| at(steps, percent).bound)
            .fold(f64::INFINITY, f64::min);
        // No share from `low` to `high` percent has a smaller bound.
        let least = |steps: u64, low: u32, high: u32| {
            let phase = longest_phase(facts, mu, steps, f64::from(low) / 100.0);
            let anchors = steps.div_ceil(phase);
            let some = noise(anchors, f64::from(high) / 100.0);
            optimisation(steps) + some.min(noise(steps, 1.0))
        };
        let mut best = Candidate::worst();
        for &steps in &grid {
            if optimisation(steps) > attained || least(steps, 1, 99) > attained {
                continue;
            }
            for low in (1..100).step_by(11) {
                if least(steps, low, low + 10) > attained {
                    continue;
                }
                for percent in low..low + 11 {
                    let candidate = at(steps, percent);
                    if candidate.bound < best.bound {
                        best = candidate;
                    }
                }
            }
        }
        best
    }

    fn build(
        facts: &PublicFacts,
        budget: &Budget,
        mu: f64,
        best: &Candidate,
    ) -> Result<Self, PlanError> {
        let anchors = best.steps.div_ceil(best.phase);
        let [anchor, variation] =
            Phases::multipliers(anchors, best.steps - anchors, best.share, mu);
        let schedule = SpiderBoostSchedule {
            steps: best.steps,
            phase: best.phase,
            step_size: 0.5 / facts.smoothness,
            clip: facts.lipschitz,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            variation_noise_multiplier: NoiseMultiplier::new(variation)?,
            output: OutputRule::Uniform,
        };
        let plan = Self::by_hand(facts, budget, schedule);
        Ok(Self {
            terms: plan.terms.stating(Some(best.bound.sqrt())),
            ..plan
        })
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(facts: &PublicFacts, budget: &Budget, schedule: SpiderBoostSchedule) -> Self {
        let phases = schedule.phases();
        Self {
            terms: Terms::new(facts, budget, schedule.steps, phases.spend(facts))
                .with_gradients(phases.gradients(facts))
                .with_clip(schedule.clip)
                .with_output(schedule.output),
            schedule,
            rank: None,
        }
    }

    /// The same plan within a rank.
    pub(super) fn with_rank(self, rank: PublicRank) -> Self {
        Self {
            rank: Some(rank),
            ..self
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &SpiderBoostSchedule {
        &self.schedule
    }

    /// The public rank that it was planned for, if one was given.
    #[must_use]
    pub fn rank(&self) -> Option<PublicRank> {
        self.rank
    }

    /// Share of mu^2 that the anchors get.
    #[must_use]
    pub fn anchor_share(&self) -> f64 {
        self.schedule.phases().anchor_share()
    }

    /// sigma1: noise per coordinate of an anchor.
    #[must_use]
    pub fn anchor_noise_std(&self) -> f64 {
        let z = self.schedule.anchor_noise_multiplier.get();
        self.facts().noise_std(self.schedule.clip, z)
    }

    /// s2: noise per coordinate of a variation over its clip radius.
    #[must_use]
    pub fn variation_noise_scale(&self) -> f64 {
        let z = self.schedule.variation_noise_multiplier.get();
        self.facts().noise_std(1.0, z)
    }
}

impl Plan for SpiderBoostPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let mut items = schedule.phases().items(self.anchor_share());
        items.extend([
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::number("anchor_noise_std", self.anchor_noise_std(), Unit::GRADIENT),
            Item::ratio("variation_noise_scale", self.variation_noise_scale()),
        ]);
        items.extend(self.rank.map(|rank| Item::count("rank", rank.get() as u64)));
        items.push(Item::word("output", schedule.output));
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(Spider {
            estimate: PhasedEstimate::new(self.schedule.phases(), start.len(), self.schedule.clip)?,
            step_size: self.schedule.step_size,
        }))
    }

    fn share_spent(&self, step: u64) -> f64 {
        let variation = self.schedule.variation_noise_multiplier.get().powi(-2);
        self.schedule.phases().share_spent(step, variation)
    }
}

/// Anchors at the start of each phase, variations between.
struct Spider {
    estimate: PhasedEstimate,
    step_size: f64,
}

impl Walk for Spider {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.estimate.ask(step, point, oracle)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        descend(point, self.step_size, gradient, next);
    }
}

/// The largest q in 1..=T with (q - 1) d s2^2 <= 2, where s2 depends on q through the number of
/// variations. The left side grows with q, so bisection finds it.
fn longest_phase(facts: &PublicFacts, mu: f64, steps: u64, share: f64) -> u64 {
    let per_variation = facts.dim as f64 * facts.noise_std(1.0, 1.0 / mu).powi(2) / (1.0 - share);
    longest_that_fits(steps, |phase| {
        let variations = (steps - steps.div_ceil(phase)) as f64;
        (phase - 1) as f64 * variations * per_variation <= 2.0
    })
}
