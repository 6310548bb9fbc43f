//! `spider-gda`: steps in proportion to a tracked estimate, a bound in the mean.
//!
//! SpiderBoost (arXiv 2206.00846) on Phi, with y tracked as in arXiv 2602.01339. The bound is ours: `docs/theory/minimax.md`, "spider-gda".

use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::{Event, NoiseMultiplier, Spend};
use dpopt_solver::search::{longest_that_fits, steps_up_to};
use dpopt_solver::{
    Asked, BoundSense, BoundedQuantity, Budget, Closing, Item, Plan, PlanError, RunError,
    SaddleShape, Stop, Terms, Unit, Walk,
};

use crate::blocks::{Numbers, scales, squares};
use crate::facts::SaddleFacts;
use crate::solver::{SaddleLimits, SaddlePlanner, SaddleSolver};
use crate::tracker::{Ascent, Noise, Tracker};

const NAME: &str = "spider-gda";
/// SpiderBoost on the value function.
pub static SPIDER_GDA: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "smooth saddle losses, strongly concave in y: a bound in the mean square",
    paper: "Arora et al. 2022 (arXiv 2206.00846) on the value function, y tracked as by Xu et al. 2026 (arXiv 2602.01339)",
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::RootMeanSquare)),
    positions: false,
    theory_page: Some("theory/minimax.md#all-records"),
    privacy_page: "privacy/minimax.md",
    planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
        Ok(Box::new(SpiderGdaPlan::new(facts, budget, limits)?))
    }),
};

/// Ratio of neighbouring trial values of T.
const GRID_RATIO: f64 = 1.1;
/// theta: what jumps of y at anchors take from its path. A choice; they hardly count.
const JUMPS: f64 = 0.2;
/// theta_2: what the lag of y takes from the noise, where there is one. A choice.
const LAG: f64 = 0.1;
/// r^K is at most one over this. A choice: then the lag takes less than a tenth of what descent leaves.
const INNER: f64 = 16.0;

/// A plan for SpiderBoost on the value function.
///
/// # Formula
/// For t < T: a release at x_t, K steps y <- Proj(y + g_y/L_yy), each followed by a release; v_t = g_x after the last; x_{t+1} = x_t - v_t/(2 L_Phi). An
/// anchor where q divides t, variations otherwise. For t uniform on 0..T-1,
///
/// E||grad Phi(x_t)||^2 <= 4 L_Phi F0/T + (1 + theta_2) R^2 sigma_1^2 + (terms of the start), R = sqrt d1 + w sqrt(d2)/s,
///
/// where q is so small that the noise of variations is paid for by descent. T, q, K, s and the split of the budget are searched. See `docs/theory/minimax.md`.
///
/// # Privacy
/// As many Gaussian releases on all records as are planned, with two multipliers, exactly mu-GDP; a variation over no distance releases nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SpiderGdaPlan {
    terms: Terms,
    facts: SaddleFacts,
    schedule: Schedule,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Schedule {
    scale: f64,
    steps: u64,
    inner: u64,
    before: u64,
    period: u64,
    anchor: f64,
    variation: f64,
    /// On the mean square.
    bound: f64,
}

impl Schedule {
    fn anchors(&self) -> u64 {
        self.before + self.steps.div_ceil(self.period)
    }

    fn variations(&self) -> u64 {
        self.steps * (self.inner + 1) - self.steps.div_ceil(self.period)
    }
}

impl SpiderGdaPlan {
    /// The plan with the least bound.
    ///
    /// # Errors
    /// [`PlanError::VacuousSaddle`] where that says no more than the start satisfies, [`PlanError::BadFact`] without a finite gap of Phi, and as
    /// [`SaddleFacts::check`] and [`SaddleFacts::check_whole`].
    pub fn new(
        facts: &SaddleFacts,
        budget: &Budget,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        facts.check_whole()?;
        PlanError::positive("value_gap", facts.mean.value_gap)?;
        let mu = budget.mu()?.get();
        let trivial = facts.trivial_bound();
        let best = search(facts, mu, limits.max_steps.max(1));
        let Some(schedule) = best.filter(|best| best.bound.sqrt() < trivial) else {
            let bound = best.map_or(f64::INFINITY, |best| best.bound.sqrt());
            return Err(facts.vacuous(NAME, bound, mu));
        };
        let gaussian = |z| Ok::<_, PlanError>(Event::gaussian(NoiseMultiplier::new(z)?));
        let (anchors, variations) = (schedule.anchors(), schedule.variations());
        let mut events = vec![gaussian(schedule.anchor)?.repeated(anchors)];
        if variations > 0 {
            events.push(gaussian(schedule.variation)?.repeated(variations));
        }
        let joint = facts.joint(schedule.scale);
        let spend = Spend::Fixed(Event::composed(events));
        let records = facts.records as f64;
        let terms = Terms::new(&joint, budget, anchors + variations, spend)
            .with_gradients(records * (anchors as f64 + 2.0 * variations as f64))
            .bounding(BoundedQuantity::GradientNorm, BoundSense::RootMeanSquare)
            .stating(Some(schedule.bound.sqrt()));
        Ok(Self {
            terms,
            facts: facts.clone(),
            schedule,
        })
    }

    /// T: steps of x.
    #[must_use]
    pub fn outer_steps(&self) -> u64 {
        self.schedule.steps
    }
}

fn search(facts: &SaddleFacts, mu: f64, most: u64) -> Option<Schedule> {
    let mut best: Option<Schedule> = None;
    for scale in scales(facts) {
        let of = Numbers::new(facts, scale);
        let inner = of.inner_steps(INNER);
        let all = of.inner_steps(1e4 * (1.0 + of.diameter / of.scale));
        let room = most.saturating_sub(all) / (inner + 1);
        if room == 0 {
            continue;
        }
        for steps in steps_up_to(room, GRID_RATIO) {
            let optimisation = 4.0 * of.value_smoothness * facts.mean.value_gap / steps as f64;
            if best.is_some_and(|best| best.bound <= optimisation) {
                continue;
            }
            for percent in (20..=95).step_by(5) {
                let share = f64::from(percent) / 100.0;
                let counts = (steps, inner, all);
                let found = longest(&of, (mu, share), counts, optimisation);
                if let Some(found) = found
                    && best.is_none_or(|best| found.bound < best.bound)
                {
                    best = Some(found);
                }
            }
        }
    }
    best
}

/// The schedule with the longest period that descent pays for.
fn longest(
    of: &Numbers,
    (mu, share): (f64, f64),
    (steps, inner, before): (u64, u64, u64),
    optimisation: f64,
) -> Option<Schedule> {
    let at = |period: u64| {
        let mut schedule = Schedule {
            scale: of.scale,
            steps,
            inner,
            before,
            period,
            anchor: 0.0,
            variation: 0.0,
            bound: f64::INFINITY,
        };
        let (anchors, variations) = (schedule.anchors() as f64, schedule.variations() as f64);
        let share = if variations > 0.0 { share } else { 1.0 };
        schedule.anchor = (anchors / share).sqrt() / mu;
        schedule.variation = match variations > 0.0 {
            true => (variations / (1.0 - share)).sqrt() / mu,
            false => schedule.anchor,
        };
        bounded(of, schedule, optimisation)
    };
    at(1)?;
    at(longest_that_fits(steps, |period| at(period).is_some()))
}

/// The schedule with its bound; none where its condition (D) does not hold.
fn bounded(of: &Numbers, schedule: Schedule, optimisation: f64) -> Option<Schedule> {
    let Schedule {
        steps,
        inner,
        before,
        period,
        ..
    } = schedule;
    let (steps, q) = (steps as f64, period as f64);
    let eta = 0.5 / of.value_smoothness;
    let (sigma, s2l) = (
        of.anchor * schedule.anchor,
        of.variation * schedule.variation,
    );
    let with_y = of.y_dim > 0.0;
    let root_y = of.y_dim.sqrt() / of.scale;
    // The path of y: Y <= first ||V|| eta + once.
    let (mut path, mut once) = (0.0, 0.0);
    if with_y {
        let nu = of.rate * root_y * s2l;
        let contraction = of.contraction + nu / of.scale;
        if !(contraction < 1.0) {
            return None;
        }
        let gain = squares(contraction, inner).sqrt() / (1.0 - contraction.powf(inner as f64));
        let room = 1.0 - gain * nu / of.scale;
        if !(room > 0.0) {
            return None;
        }
        let gain = gain / room;
        path = gain * (of.rate * of.smooth_xy + 2.0 * nu);
        let anchors = (steps / q).ceil();
        let start = of.left(before) * of.diameter
            + std::f64::consts::SQRT_2 * root_y * sigma / of.strong_concavity;
        once = gain * (2.0 * of.rate * root_y * anchors.sqrt() * sigma + start);
    }
    let reach = of.x_dim.sqrt() + of.coupling * root_y;
    let left = of.left(inner);
    let lagging = with_y && left > 0.0;
    let theta = if lagging { LAG } else { 0.0 };
    let behind = of.smooth_xy * left / (1.0 - left);
    let of_lag = |x: f64| {
        if lagging {
            2.0 * (1.0 + 1.0 / LAG) * x * x
        } else {
            0.0
        }
    };
    let squared = (1.0 + theta) * reach * reach;
    let drift = q * s2l * s2l;
    let used = squared * drift * eta * eta * (1.0 + (1.0 + JUMPS) * (path / of.scale).powi(2))
        + of_lag(behind * of.coupling * eta);
    if !(used <= 0.5) {
        return None;
    }
    let start = of.left(before) * of.diameter + root_y * sigma / of.strong_concavity;
    let jumps = drift * (1.0 + 1.0 / JUMPS) * (once / of.scale).powi(2) / steps;
    let bound = optimisation
        + squared * (sigma * sigma + if with_y { jumps } else { 0.0 })
        + of_lag(behind * start) / steps;
    bound.is_finite().then_some(Schedule { bound, ..schedule })
}

impl Plan for SpiderGdaPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let Schedule {
            scale,
            steps,
            inner,
            before,
            period,
            anchor,
            variation,
            ..
        } = self.schedule;
        let step = 0.5 / self.facts.mean.value_smoothness;
        vec![
            Item::count("outer_steps", steps),
            Item::number("step_size", step, Unit::STEP_SIZE),
            Item::count("inner_steps", inner),
            Item::count("steps_of_y_before", before),
            Item::ratio("scale", scale),
            Item::count("period", period),
            Item::count("anchors", self.schedule.anchors()),
            Item::count("variations", self.schedule.variations()),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("anchor_noise_multiplier", anchor),
            Item::ratio("variation_noise_multiplier", variation),
        ]
    }

    fn saddle_shape(&self) -> Option<SaddleShape> {
        self.facts.shape(self.schedule.scale)
    }

    fn trivial_bound(&self) -> f64 {
        self.facts.trivial_bound()
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let Schedule {
            scale,
            inner,
            before,
            period,
            anchor,
            variation,
            ..
        } = self.schedule;
        let multiplier = |z| NoiseMultiplier::new(z).map_err(RunError::Clip);
        let noise = Noise {
            anchor: multiplier(anchor)?,
            variation: multiplier(variation)?,
            period,
            path: f64::INFINITY,
        };
        let ascent = Ascent {
            steps: inner,
            rate: Numbers::new(&self.facts, scale).rate,
            before,
        };
        let blocks = self.facts.blocks(scale);
        Ok(Box::new(Descent {
            plan: self,
            tracker: Tracker::new(&self.facts, blocks, ascent, noise, start)?,
            outer: 0,
            drawn: None,
            output: None,
        }))
    }

    fn share_spent(&self, step: u64) -> f64 {
        let Schedule {
            inner,
            before,
            period,
            anchor,
            variation,
            ..
        } = self.schedule;
        let cost = |anchors: u64, others: u64| {
            anchors as f64 * anchor.powi(-2) + others as f64 * variation.powi(-2)
        };
        let all = cost(self.schedule.anchors(), self.schedule.variations());
        let Some(since) = (step + 1).checked_sub(before + 1) else {
            return cost(step + 1, 0) / all;
        };
        let anchors = since / ((inner + 1) * period) + 1;
        cost(before + anchors, since + 1 - anchors) / all
    }
}

/// A run on its way.
struct Descent<'a> {
    plan: &'a SpiderGdaPlan,
    tracker: Tracker,
    outer: u64,
    /// The step of x whose point is returned: drawn before the first release.
    drawn: Option<u64>,
    output: Option<Vec<f64>>,
}

impl Walk for Descent<'_> {
    fn ask(&mut self, _: u64, _: &[f64], oracle: &mut dyn Oracle) -> Result<Asked<'_>, AskError> {
        if self.drawn.is_none() {
            self.drawn = Some(oracle.books().draw_index(self.plan.schedule.steps));
        }
        Ok(match self.tracker.release(oracle)? {
            Some(kind) => self.tracker.asked(kind),
            None => Asked::Nothing(Stop::BudgetUsed),
        })
    }

    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        if !self.tracker.ascend(gradient) {
            if self.drawn == Some(self.outer) {
                self.output = Some(self.tracker.at().to_vec());
            }
            let slope = self.tracker.x_part(gradient);
            let size = 0.5 / self.plan.facts.mean.value_smoothness;
            self.tracker.step(-size, slope);
            self.outer += 1;
        }
        next.copy_from_slice(self.tracker.at());
    }

    fn finished(&self) -> bool {
        self.outer >= self.plan.schedule.steps
    }

    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        Ok(self.output.take().map(Closing::at).unwrap_or_default())
    }
}
