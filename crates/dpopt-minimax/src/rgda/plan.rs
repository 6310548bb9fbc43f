//! `rgda`: steps of a fixed length in x against a tracked estimate, until it is short.
//!
//! Xu, Tao, Ding, Fan, Wang, "Finding Differentially Private Second Order Stationary Points in Stochastic Minimax Optimization" (arXiv
//! 2602.01339), Algorithm 2, repaired: see `docs/theory/minimax.md` for the theorem and `docs/theory/minimax.md` for what is not as printed.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::{Accountant, Event, NoiseMultiplier, Spend, Which};
use dpopt_solver::{
    Asked, BoundSense, BoundedQuantity, Budget, Item, Plan, PlanError, RunError, SaddleShape, Stop,
    Terms, Walk,
};

use super::search::{Schedule, Task, descending};
use crate::facts::SaddleFacts;
use crate::solver::{SaddleLimits, SaddlePlanner, SaddleSolver};
use crate::tracker::Tracker;

const NAME: &str = "rgda";
/// The name of plans whose variations read samples.
pub(super) const ON_SAMPLES: &str = "sampled-rgda";
/// Descent-ascent on a tracked estimate, with a bound.
pub static RGDA: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "smooth saddle losses, strongly concave in y: a bound on the gradient of the largest value",
    paper: "Xu et al. 2026 (arXiv 2602.01339), Algorithm 2, repaired",
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    positions: false,
    theory_page: Some("theory/minimax.md#all-records"),
    privacy_page: "privacy/minimax.md",
    planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
        Ok(Box::new(RgdaPlan::new(facts, budget, limits)?))
    }),
};

/// A plan for descent-ascent with a tracked estimate.
///
/// # Formula
/// At x: K steps y <- Proj(y + g_y/L_yy), each followed by a release. Where ||g_x|| < a the run ends; else x <- x - (a/(2 L_Phi)) g_x/||g_x||. An
/// anchor every q steps of x, or earlier where the squared path since the last would reach a public limit; variations otherwise, with noise in
/// proportion to their displacement. a is the least for which the error of g_x is at most a/2 and the budget pays for T = 8 L_Phi F0/a^2
/// steps; K, q, the scale of y and the two multipliers are searched.
///
/// A run that ends so has ||grad Phi(x)|| <= 3 a/2 with probability 1 - p, p that of the limits. `docs/theory/minimax.md` has the proof, of the preset that
/// states a bound; of curvature nothing is stated.
///
/// # Privacy
/// `Spend::AtMost(Gaussian(1/mu))`: Gaussian releases on all records; an anchor may come earlier than planned, and what the budget does not pay for
/// ends the run. Of [`RgdaPlan::sampled`] a fixed number of anchors on all records and of variations on samples. See `docs/privacy/minimax.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct RgdaPlan {
    pub(super) terms: Terms,
    pub(super) facts: SaddleFacts,
    pub(super) schedule: Schedule,
    /// What variations read, where that is not all records.
    pub(super) sample: Option<Sample>,
}

/// What variations read, and who calibrated their noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// b: records of a sample, expected ones of a Poisson sample.
    pub(super) batch: u64,
    pub(super) which: Which<'static>,
    /// None for a plan by hand.
    pub(super) accountant: Option<Accountant>,
}

impl RgdaPlan {
    /// The plan with the least bound.
    ///
    /// # Errors
    /// [`PlanError::VacuousSaddle`] where the bound 3 a/2 says no more than the start satisfies, [`PlanError::BadFact`] without a finite gap of Phi, and as
    /// [`SaddleFacts::check`] and [`SaddleFacts::check_whole`].
    pub fn new(
        facts: &SaddleFacts,
        budget: &Budget,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        let failure = limits.failure;
        PlanError::fraction("failure", failure)?;
        facts.check_whole()?;
        Self::planned(facts, budget, limits, Some(failure))
    }

    /// The plan with the constants that fit simulations: errors without their tails, and those of y times 4/3. It states no bound.
    ///
    /// # Errors
    /// As [`RgdaPlan::new`].
    pub fn practical(
        facts: &SaddleFacts,
        budget: &Budget,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        Self::planned(facts, budget, limits, None)
    }

    fn planned(
        facts: &SaddleFacts,
        budget: &Budget,
        limits: &SaddleLimits,
        failure: Option<f64>,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        PlanError::positive("value_gap", facts.mean.value_gap)?;
        let mu = budget.mu()?.get();
        let task = Task {
            facts,
            squared_mu: mu * mu,
            max_steps: limits.max_steps as f64,
            failure,
            steps: &|target| descending(facts, target),
            early: 1.0,
            batch: None,
        };
        let trivial = facts.trivial_bound();
        let schedule = task.least(trivial / 1.5);
        let Some(schedule) = schedule else {
            let least = task.least(1e3 * trivial);
            let bound = least.map_or(f64::INFINITY, |s| 1.5 * s.target);
            return Err(facts.vacuous(NAME, bound, mu));
        };
        let joint = facts.joint(schedule.scale);
        let releases = schedule.releases();
        let cap = Event::gaussian(NoiseMultiplier::new(1.0 / mu)?);
        let records = facts.records as f64;
        let terms = Terms::new(&joint, budget, releases as u64, Spend::AtMost(cap))
            .with_gradients(2.0 * records * releases)
            .bounding(BoundedQuantity::GradientNorm, BoundSense::WithProbability)
            .stating(failure.map(|_| 1.5 * schedule.target));
        Ok(Self {
            terms,
            facts: facts.clone(),
            schedule,
            sample: None,
        })
    }

    /// a: the run ends at a released gradient that is shorter.
    #[must_use]
    pub fn target(&self) -> f64 {
        self.schedule.target
    }

    /// T: most steps of x.
    #[must_use]
    pub fn outer_steps(&self) -> u64 {
        self.schedule.steps
    }

    /// The facts that it was made from.
    #[must_use]
    pub fn saddle(&self) -> &SaddleFacts {
        &self.facts
    }
}

impl Plan for RgdaPlan {
    fn name(&self) -> &'static str {
        match self.sample {
            Some(_) => ON_SAMPLES,
            None => NAME,
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let length = 0.5 * self.schedule.target / self.facts.mean.value_smoothness;
        let mut items = self.schedule.items(length, self.clip());
        if let Some(sample) = self.sample {
            items.push(Item::count("batch", sample.batch));
            items.extend(sample.accountant.map(|name| Item::word("accountant", name)));
        }
        items
    }

    fn saddle_shape(&self) -> Option<SaddleShape> {
        self.facts.shape(self.schedule.scale)
    }

    fn trivial_bound(&self) -> f64 {
        self.facts.trivial_bound()
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let ascent = self.schedule.ascent(&self.facts);
        let noise = self.schedule.noise().map_err(RunError::Clip)?;
        let blocks = self.facts.blocks(self.schedule.scale);
        Ok(Box::new(Descent {
            plan: self,
            tracker: Tracker::new(&self.facts, blocks, ascent, noise, start)?
                .sampling(self.sample.map_or(Which::All, |of| of.which)),
            outer: 0,
            found: false,
        }))
    }

    /// The theorem is about runs that end at a short estimate.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::SmallEstimate
    }
}

/// A run on its way.
struct Descent<'a> {
    plan: &'a RgdaPlan,
    tracker: Tracker,
    outer: u64,
    found: bool,
}

impl Walk for Descent<'_> {
    fn ask(&mut self, _: u64, _: &[f64], oracle: &mut dyn Oracle) -> Result<Asked<'_>, AskError> {
        if self.found {
            return Ok(Asked::Nothing(Stop::SmallEstimate));
        }
        if self.outer >= self.plan.schedule.steps {
            return Ok(Asked::Nothing(Stop::StepCap));
        }
        Ok(match self.tracker.release(oracle)? {
            Some(kind) => self.tracker.asked(kind),
            None => Asked::Nothing(Stop::BudgetUsed),
        })
    }

    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        if !self.tracker.ascend(gradient) {
            let slope = self.tracker.x_part(gradient);
            let length = norm(slope);
            let target = self.plan.schedule.target;
            if length < target {
                self.found = true;
            } else {
                let step = 0.5 * target / self.plan.facts.mean.value_smoothness;
                self.tracker.step(-step / length, slope);
                self.outer += 1;
            }
        }
        next.copy_from_slice(self.tracker.at());
    }

    fn end(&self) -> Stop {
        if self.found {
            Stop::SmallEstimate
        } else {
            Stop::StepCap
        }
    }
}
