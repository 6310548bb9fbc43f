//! `rgda`: steps of a fixed length in x against a tracked estimate, until it is short.
//!
//! Xu, Tao, Ding, Fan, Wang, "Finding Differentially Private Second Order Stationary Points in Stochastic Minimax Optimization" (arXiv
//! 2602.01339), Algorithm 2, repaired: see `docs/theory/rgda.md` for the theorem and `docs/theory/errata-minimax.md` for what is not as printed.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Blocks, DomainStamp, Oracle};
use dpopt_privacy::{Event, NoiseMultiplier, Spend};
use dpopt_solver::search::geometric;
use dpopt_solver::{
    Asked, BoundSense, BoundedQuantity, Budget, Item, Plan, PlanError, RunError, Stop, Terms, Unit,
    Value, Walk,
};

use crate::blocks::{Numbers, Split, chi_reach, scales, squares};
use crate::facts::SaddleFacts;
use crate::solver::{SaddleLimits, SaddleSolver};
use crate::tracker::{Ascent, Noise, Tracker};

const NAME: &str = "rgda";
/// Descent-ascent on a tracked estimate, with a bound.
pub static RGDA: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "smooth saddle losses, strongly concave in y: a bound on the gradient of the largest value",
    paper: "Xu et al. 2026 (arXiv 2602.01339), Algorithm 2, repaired",
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    positions: false,
    theory_page: Some("theory/rgda.md"),
    privacy_page: "privacy/minimax.md",
    planner: |facts, budget, limits| Ok(Box::new(RgdaPlan::new(facts, budget, limits)?)),
};

/// Every step of length a/(2 L_Phi) with a released length of at least a, whose error is at most a/2, lowers Phi by a^2/(8 L_Phi).
const STEPS: f64 = 8.0;
/// Share of the error for what y is behind.
const LAG: f64 = 0.05;
/// Factor on the error of y in the practical preset ((4/3) e_y; no statement rests on it).
const PRACTICAL_Y: f64 = 4.0 / 3.0;

/// A plan for descent-ascent with a tracked estimate.
///
/// # Formula
/// At x: K steps y <- Proj(y + g_y/L_yy), each followed by a release. Where ||g_x|| < a the run ends; else x <- x - (a/(2 L_Phi)) g_x/||g_x||. An
/// anchor every q steps of x, or earlier where the squared path since the last would reach a public limit; variations otherwise, with noise in
/// proportion to their displacement. a is the least for which the error of g_x is at most a/2 and the budget pays for T = 8 L_Phi F0/a^2
/// steps; K, q, the scale of y and the two multipliers are searched.
///
/// A run that ends so has ||grad Phi(x)|| <= 3 a/2 with probability 1 - p, p that of the limits. `docs/theory/rgda.md` has the proof, of the preset that
/// states a bound; of curvature nothing is stated.
///
/// # Privacy
/// `Spend::AtMost(Gaussian(1/mu))`: Gaussian releases on all records; an anchor may come earlier than planned, and what the budget does not pay for
/// ends the run. See `docs/privacy/minimax.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct RgdaPlan {
    terms: Terms,
    facts: SaddleFacts,
    schedule: Schedule,
}

/// What an [`RgdaPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Schedule {
    scale: f64,
    target: f64,
    steps: u64,
    inner: u64,
    before: u64,
    period: u64,
    path: f64,
    anchor: f64,
    variation: f64,
    cost: f64,
    proven: bool,
}

/// What a plan is asked for.
struct Task<'a> {
    facts: &'a SaddleFacts,
    squared_mu: f64,
    max_steps: f64,
    /// p; none for the practical preset.
    failure: Option<f64>,
}

impl RgdaPlan {
    /// The plan with the least bound.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] where the bound 3 a/2 says no more than the start satisfies, [`PlanError::BadFact`] without a finite gap of Phi, and as
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
        };
        let trivial = facts.trivial_bound();
        let schedule = task.least(trivial / 1.5);
        let Some(schedule) = schedule else {
            return Err(PlanError::Vacuous {
                solver: NAME,
                bound: task
                    .least(1e3 * trivial)
                    .map_or(f64::INFINITY, |s| 1.5 * s.target),
                trivial,
                records: facts.records,
                dim: facts.x_dim + facts.y_dim(),
                mu,
            });
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

impl Schedule {
    fn releases(&self) -> f64 {
        all_releases(self.steps as f64, self.inner, self.before)
    }

    fn noise(&self) -> Result<Noise, dpopt_privacy::UnitError> {
        Ok(Noise {
            anchor: NoiseMultiplier::new(self.anchor)?,
            variation: NoiseMultiplier::new(self.variation)?,
            period: self.period,
            path: self.path,
        })
    }
}

impl Task<'_> {
    /// The schedule with the least a up to `most`, if there is one.
    fn least(&self, most: f64) -> Option<Schedule> {
        let all = scales(self.facts);
        let mut best: Option<Schedule> = None;
        for scale in all {
            let of = Numbers::new(self.facts, scale);
            let at = |target: f64| {
                self.cheapest(&of, target)
                    .filter(|found| found.cost <= self.squared_mu)
            };
            // Another scale is of interest only where it does better than the best.
            let top = best.map_or(most, |best| best.target);
            let Some(mut found) = at(top) else {
                continue;
            };
            let (mut low, mut high) = (top * 1e-6, top);
            for _ in 0..30 {
                let middle = (low * high).sqrt();
                match at(middle) {
                    Some(better) => (high, found) = (middle, better),
                    None => low = middle,
                }
            }
            best = Some(found);
        }
        best
    }

    /// The cheapest schedule with this a.
    fn cheapest(&self, of: &Numbers, target: f64) -> Option<Schedule> {
        let gap = self.facts.mean.value_gap;
        let steps = (STEPS * of.value_smoothness * gap / (target * target)).ceil() + 1.0;
        let mut best: Option<Schedule> = None;
        let mut factors = vec![1.0 / LAG];
        if self.failure.is_none() || of.contraction > 1e-9 {
            factors = vec![4.0, 16.0, 64.0];
        }
        for factor in factors {
            let inner = of.inner_steps(factor);
            let before =
                of.inner_steps((4.0 * of.smooth_xy * of.diameter / (LAG * target)).max(4.0));
            if all_releases(steps, inner, before) > self.max_steps {
                continue;
            }
            for period in geometric(1.0, steps.max(1.0), 1.12) {
                let counts = (steps, inner, before, period.floor());
                let found = match self.failure {
                    Some(failure) => proven(of, target, counts, failure),
                    None => practical(of, target, counts),
                };
                if let Some(found) = found
                    && best.is_none_or(|old| found.cost < old.cost)
                {
                    best = Some(found);
                }
            }
        }
        best
    }
}

/// With an anchor more than are planned for.
fn all_releases(steps: f64, inner: u64, before: u64) -> f64 {
    (before + 1) as f64 + steps * (inner + 1) as f64
}

/// T, K, K_0 and q.
type Counts = (f64, u64, u64, f64);

/// Anchors and variations.
fn releases((steps, inner, before, period): Counts) -> (f64, f64) {
    let periods = (steps / period).ceil();
    (
        before as f64 + periods,
        steps * (inner + 1) as f64 - periods,
    )
}

/// The schedule with these counts whose errors have typical size: `docs/theory/rgda.md`, "Practical constants".
fn practical(of: &Numbers, target: f64, counts: Counts) -> Option<Schedule> {
    let (steps, inner, before, period) = counts;
    let (anchors, variations) = releases(counts);
    let length = 0.5 * target / of.value_smoothness;
    let reach = of.x_dim.sqrt() + PRACTICAL_Y * of.coupling * of.y_dim.sqrt() / of.scale;
    let movement = 1.0 + of.movement(inner);
    let a = of.anchor * of.anchor;
    let b = of.variation * of.variation * period * movement * length * length;
    let variance = (0.5 * target / reach).powi(2);
    let split = Split::new((a, anchors), (b, variations), variance);
    Some(Schedule {
        scale: of.scale,
        target,
        steps: steps as u64,
        inner,
        before,
        period: period as u64,
        path: f64::INFINITY,
        anchor: split.anchor,
        variation: split.variation,
        cost: split.cost,
        proven: false,
    })
}

/// The schedule with these counts for which the theorem holds; none where its conditions don't.
fn proven(of: &Numbers, target: f64, counts: Counts, failure: f64) -> Option<Schedule> {
    let (steps, inner, before, period) = counts;
    let (anchors, variations) = releases(counts);
    let length = 0.5 * target / of.value_smoothness;
    // Three events share p; a reflection costs a factor of 2.
    let each = failure / 3.0;
    let reach_x = chi_reach(of.x_dim, 0.5 * each / anchors);
    let reach_y = chi_reach(of.y_dim, 0.5 * each / anchors);
    let reach_one = chi_reach(of.y_dim, each / variations.max(1.0));
    // What y is behind.
    let left = of.left(inner);
    let lag = if of.y_dim > 0.0 {
        let behind = of.coupling * length * left / (1.0 - left);
        of.smooth_xy * (behind + of.left(inner + before) * of.diameter)
    } else {
        0.0
    };
    let per_y = of.coupling / of.scale;
    // Of a whole period, rounded: an anchor, and variations whose radii add up to L sqrt(N path).
    let rounded = |path: f64| {
        let changes = (period * (inner + 1) as f64 * path).sqrt();
        of.rounding() * (of.clip + of.smoothness * changes)
    };
    let (mut nu, mut rounded_y) = (0.0, 0.0);
    for _ in 0..40 {
        let contraction = of.contraction + nu / of.scale;
        if !(contraction < 1.0) {
            return None;
        }
        // The path that fits depends on E_y: noise, which is at most what the whole error allows, and rounding.
        let most_y = if per_y > 0.0 {
            0.5 * target / (reach_x + per_y * reach_y) * reach_y / of.scale + rounded_y
        } else {
            0.0
        };
        let path = period * length * length
            + if inner == 0 {
                0.0
            } else {
                let kept = contraction.powf(inner as f64);
                let steady = (of.rate * of.smooth_xy + nu) * length / (1.0 - kept);
                let first = of.left(before) * of.diameter + 2.0 * most_y / of.strong_concavity;
                let jump = 2.0 * of.rate * most_y / (1.0 - kept);
                let excess = first.max(jump) / (1.0 - kept * kept).sqrt();
                let sum = period.sqrt() * steady + excess;
                squares(contraction, inner) * (sum / of.scale).powi(2)
            };
        let path = path * (1.0 + 1e-6);
        let error = 0.5 * target - lag - (1.0 + per_y) * rounded(path);
        if !(error > 0.0) {
            return None;
        }
        let variance = (error / (reach_x + per_y * reach_y)).powi(2);
        let a = of.anchor * of.anchor;
        let b = of.variation * of.variation * path;
        let split = Split::new((a, anchors), (b, variations), variance);
        // lambda x noise of y in one variation over its displacement.
        let single = reach_one * of.variation * split.variation + of.rounding() * of.smoothness;
        let needed = of.rate * single / of.scale;
        let rounding = rounded(path) / of.scale;
        if (needed <= nu && rounding <= rounded_y) || of.y_dim == 0.0 {
            return Some(Schedule {
                scale: of.scale,
                target,
                steps: steps as u64,
                inner,
                before,
                period: period as u64,
                path,
                anchor: split.anchor,
                variation: split.variation,
                cost: split.cost,
                proven: true,
            });
        }
        nu = nu.max(1.02 * needed);
        rounded_y = rounded_y.max(1.02 * rounding);
    }
    None
}

impl Plan for RgdaPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let Schedule {
            scale,
            target,
            steps,
            inner,
            before,
            period,
            path,
            anchor,
            variation,
            proven,
            ..
        } = self.schedule;
        let length = 0.5 * target / self.facts.mean.value_smoothness;
        vec![
            Item::number("target", target, Unit::GRADIENT),
            Item::plain("proven", Value::Flag(proven)),
            Item::count("outer_steps", steps),
            Item::number("step_length", length, Unit::LENGTH),
            Item::count("inner_steps", inner),
            Item::count("steps_of_y_before", before),
            Item::ratio("scale", scale),
            Item::count("period", period),
            Item::maybe(
                "longest_path",
                path.is_finite().then(|| path.sqrt()),
                Unit::LENGTH,
            ),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("anchor_noise_multiplier", anchor),
            Item::ratio("variation_noise_multiplier", variation),
        ]
    }

    fn domain(&self) -> Option<DomainStamp> {
        self.facts.stamp()
    }

    fn blocks(&self) -> Option<Blocks> {
        self.facts.walked_blocks(self.schedule.scale)
    }

    fn trivial_bound(&self) -> f64 {
        self.facts.trivial_bound()
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let Schedule { scale, inner, .. } = self.schedule;
        let ascent = Ascent {
            steps: inner,
            rate: Numbers::new(&self.facts, scale).rate,
            before: self.schedule.before,
        };
        let noise = self.schedule.noise().map_err(RunError::Clip)?;
        let blocks = self.facts.blocks(scale);
        Ok(Box::new(Descent {
            plan: self,
            tracker: Tracker::new(&self.facts, blocks, ascent, noise, start)?,
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
