//! `perturb-and-watch`: descent-ascent that perturbs where its estimate is short, and watches whether that moves it.
//!
//! Xu et al. (arXiv 2602.01339), Algorithm 2 with other thresholds: for losses without second derivatives. See
//! `docs/theory/second-order.md`.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::{Event, NoiseMultiplier, Spend};
use dpopt_solver::{
    Asked, BoundSense, BoundedQuantity, Budget, Closing, EscapeTerms, EscapeTest, Item, NextStep,
    OutputRule, PerturbAndWatch, Plan, PlanError, RunError, SaddleShape, Stop, Terms, Unit, Walk,
};

use crate::blocks::Numbers;
use crate::facts::SaddleFacts;
use crate::rgda::{Schedule, Task};
use crate::solver::{SaddlePlanner, SaddleSolver};
use crate::tracker::Tracker;

const NAME: &str = "perturb-and-watch";
/// Descent-ascent that perturbs and watches.
pub static PERTURB_AND_WATCH: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "smooth saddle losses without second derivatives: a bound on the gradient where y has one curvature, and a test of saddles that proves nothing",
    paper: "Xu et al. 2026 (arXiv 2602.01339), Algorithm 2, repaired",
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    positions: false,
    theory_page: Some("theory/second-order.md#perturb-and-watch"),
    privacy_page: "privacy/minimax.md",
    planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
        let settings = PerturbSettings {
            failure: limits.failure,
            ..PerturbSettings::new(limits.max_steps)
        };
        facts.check_whole()?;
        Ok(Box::new(PerturbAndWatchPlan::new(facts, budget, settings)?))
    }),
};

/// The least decrease of Phi for each release of x, over a^2/L_Phi: `docs/theory/second-order.md`, (3).
const DECREASE: f64 = 0.05;
/// r over eta_H a.
const RADIUS: f64 = 1.0 / 32.0;
/// 100 of iota = ln(100 sqrt d1): tuned.
const SPREAD: f64 = 100.0;
/// alpha_H over L_Phi where rho_Phi is not known. A choice.
const UNKNOWN: f64 = 0.1;

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PerturbSettings {
    /// p: the probability with which a bound may be false.
    pub failure: f64,
    /// alpha_H: saddles of this curvature are tested for; none: sqrt(rho_Phi a), and L_Phi/10 where no rho_Phi is known.
    pub curvature: Option<f64>,
    /// Most releases.
    pub max_steps: u64,
}

impl PerturbSettings {
    /// p = 0.05.
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            failure: 0.05,
            curvature: None,
            max_steps,
        }
    }

    /// Testing for saddles of this curvature.
    #[must_use]
    pub fn with_curvature(self, curvature: f64) -> Self {
        Self {
            curvature: Some(curvature),
            ..self
        }
    }
}

/// A plan for descent-ascent that perturbs and watches.
///
/// # Formula
/// As [`RgdaPlan`](crate::RgdaPlan) while ||g_x|| >= a, with steps of length eta_H a, eta_H = 1/(2 L_Phi). At a shorter estimate an
/// [`Escape`](dpopt_solver::Escape) begins there: a perturbation in the ball of radius eta_H a/32, steps -eta_H g_x, and a break where their mean square is above (eta_H a)^2.
/// Gamma = ceil(2 iota/(eta_H alpha_H)) steps without one, iota = ln(100 sqrt d1), end the run at the point before the perturbation. a is the least
/// whose error a/2 the budget pays for over T = 20 L_Phi F0/a^2 + Gamma + 2 steps of x.
///
/// A run that ends so has ||grad Phi(x)|| <= 3 a/2 with probability 1 - p where y has one curvature (m = L_yy), or there is no y; no bound is stated elsewhere. **Of curvature nothing is proven**: that the
/// walk stayed is a sign that there is no saddle of curvature alpha_H, which [`Plan::warning`] says with the numbers of the proof that there is.
///
/// # Privacy
/// As [`RgdaPlan`](crate::RgdaPlan): perturbation, test and the point that is returned are post-processing of its stream. `docs/privacy/minimax.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct PerturbAndWatchPlan {
    terms: Terms,
    facts: SaddleFacts,
    settings: PerturbSettings,
    schedule: Schedule,
}

impl PerturbAndWatchPlan {
    /// The plan with the least a.
    ///
    /// # Errors
    /// [`PlanError::VacuousSaddle`], [`PlanError::BadFact`] without a finite gap of Phi and for settings out of range; as [`SaddleFacts::check`].
    pub fn new(
        facts: &SaddleFacts,
        budget: &Budget,
        settings: PerturbSettings,
    ) -> Result<Self, PlanError> {
        let failure = settings.failure;
        PlanError::fraction("failure", failure)?;
        facts.check()?;
        PlanError::positive("value_gap", facts.mean.value_gap)?;
        if let Some(curvature) = settings.curvature {
            PlanError::positive("curvature", curvature)?;
        }
        let mu = budget.mu()?.get();
        let smoothness = facts.mean.value_smoothness;
        // What y is behind depends on the length of a step, but for one curvature; clips may shorten what a bound would be of.
        let one = Numbers::new(facts, 1.0).contraction < 1e-9;
        let proven = one && facts.whole;
        let steps = |target: f64| {
            let descents = facts.mean.value_gap * smoothness / (DECREASE * target * target);
            let watched = watched_steps(facts, &settings, target);
            descents.ceil() + watched as f64 + 2.0
        };
        let task = Task {
            facts,
            squared_mu: mu * mu,
            max_steps: settings.max_steps as f64,
            failure: proven.then_some(failure),
            steps: &steps,
            early: 2.0,
            batch: None,
        };
        let trivial = facts.trivial_bound();
        let Some(schedule) = task.least(trivial / 1.5) else {
            let bound = task.least(1e3 * trivial);
            let bound = bound.map_or(f64::INFINITY, |found| 1.5 * found.target);
            return Err(facts.vacuous(NAME, bound, mu));
        };
        let releases = schedule.releases();
        let cap = Event::gaussian(NoiseMultiplier::new(1.0 / mu)?);
        let joint = facts.joint(schedule.scale);
        let terms = Terms::new(&joint, budget, releases as u64, Spend::AtMost(cap))
            .with_gradients(2.0 * facts.records as f64 * releases)
            .with_output(OutputRule::Last)
            .bounding(BoundedQuantity::GradientNorm, BoundSense::WithProbability)
            .stating(proven.then_some(1.5 * schedule.target));
        Ok(Self {
            terms,
            facts: facts.clone(),
            settings,
            schedule,
        })
    }

    /// a: at a released gradient that is shorter the walk is perturbed.
    #[must_use]
    pub fn target(&self) -> f64 {
        self.schedule.target
    }

    /// alpha_H.
    #[must_use]
    pub fn curvature(&self) -> f64 {
        curvature(&self.facts, &self.settings, self.target())
    }

    /// The alpha_H of which the argument of two coupled runs (with p) says something, if it is below L_Phi. It is a sketch,
    /// and no run states it.
    #[must_use]
    pub fn curvature_of_the_argument(&self) -> f64 {
        let (a, rho) = (self.target(), self.facts.mean.value_hessian_lipschitz);
        let dim = self.facts.x_dim as f64;
        // iota = ln(4 R sqrt(d1)/(p r)), R = 4 iota a/alpha_H, alpha_H = sqrt(48 iota^2 rho a).
        let r = RADIUS * a / (2.0 * self.facts.mean.value_smoothness);
        let mut iota = 10.0_f64;
        for _ in 0..20 {
            let reach = 4.0 * iota * a / (48.0 * iota * iota * rho * a).sqrt();
            iota = (4.0 * reach * dim.sqrt() / (self.settings.failure * r)).ln();
        }
        (48.0 * iota * iota * rho * a).sqrt()
    }

    /// The facts that it was made from.
    #[must_use]
    pub fn saddle(&self) -> &SaddleFacts {
        &self.facts
    }

    /// What an escape is made of.
    #[must_use]
    pub fn escape(&self) -> EscapeTerms {
        let size = 0.5 / self.facts.mean.value_smoothness;
        let length = size * self.target();
        EscapeTerms {
            radius: RADIUS * length,
            step_size: size,
            steps: watched_steps(&self.facts, &self.settings, self.target()),
            test: EscapeTest::Movement(length * length),
        }
    }

    /// Most anchors that its proof counts.
    fn anchors(&self) -> u64 {
        let Schedule {
            steps,
            before,
            period,
            ..
        } = self.schedule;
        before + 2 * steps.div_ceil(period.max(1))
    }
}

/// alpha_H for this a.
fn curvature(facts: &SaddleFacts, settings: &PerturbSettings, target: f64) -> f64 {
    let rho = facts.mean.value_hessian_lipschitz;
    let coupled = match rho.is_finite() {
        true => (rho * target).sqrt(),
        false => UNKNOWN * facts.mean.value_smoothness,
    };
    settings.curvature.unwrap_or(coupled)
}

/// Gamma = ceil(2 iota/(eta_H alpha_H)).
fn watched_steps(facts: &SaddleFacts, settings: &PerturbSettings, target: f64) -> u64 {
    let iota = (SPREAD * (facts.x_dim as f64).sqrt()).ln();
    let alpha = curvature(facts, settings, target);
    (4.0 * iota * facts.mean.value_smoothness / alpha).ceil() as u64
}

impl Plan for PerturbAndWatchPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let escape = self.escape();
        let length = escape.step_size * self.schedule.target;
        let mut items = self.schedule.items(length, self.clip());
        items.extend([
            Item::number("curvature_watched_for", self.curvature(), Unit::CURVATURE),
            Item::number("perturbation", escape.radius, Unit::LENGTH),
            Item::count("watched_steps", escape.steps),
        ]);
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
        Ok(Box::new(Watching {
            plan: self,
            tracker: Tracker::new(&self.facts, blocks, ascent, noise, start)?,
            outer: 0,
            watch: PerturbAndWatch::new(self.escape(), self.target()),
            anchor: start.to_vec(),
            best: (f64::INFINITY, start.to_vec()),
        }))
    }

    /// The theorem is about runs that end where the walk stayed.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::SmallEstimate
    }

    fn warning(&self, _: f64) -> Option<String> {
        let (watched, limit) = (self.curvature(), self.facts.mean.value_smoothness);
        let of = self.curvature_of_the_argument();
        let says = match of < limit {
            true => "says something, but is a sketch",
            false => "says nothing",
        };
        Some(format!(
            "{NAME} proves nothing of curvature: it watches for saddles of curvature {watched:.3}, and the argument of its paper would be of \
             {of:.3}, which {says} where L_Phi is {limit:.3}; rgda-anytime certifies"
        ))
    }
}

/// A run on its way.
struct Watching<'a> {
    plan: &'a PerturbAndWatchPlan,
    tracker: Tracker,
    outer: u64,
    watch: PerturbAndWatch,
    /// The joint point of the last anchor of a perturbation.
    anchor: Vec<f64>,
    /// The joint point with the shortest estimate of grad_x.
    best: (f64, Vec<f64>),
}

impl Walk for Watching<'_> {
    fn ask(&mut self, _: u64, _: &[f64], oracle: &mut dyn Oracle) -> Result<Asked<'_>, AskError> {
        let spent = self.tracker.anchors() >= self.plan.anchors();
        if spent || self.outer >= self.plan.schedule.steps {
            return Ok(Asked::Nothing(Stop::StepCap));
        }
        if let Some(by) = self.watch.perturbation(oracle.books())? {
            self.tracker.step(1.0, &by);
            self.outer += 1;
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
            if length < self.best.0 {
                self.best = (length, self.tracker.at().to_vec());
            }
            let size = match self.watch.next(self.tracker.x(), slope) {
                NextStep::Descend => {
                    let size = 0.5 / self.plan.facts.mean.value_smoothness;
                    Some(size * self.plan.schedule.target / length)
                }
                NextStep::Step(size) => Some(size),
                NextStep::Perturb => {
                    self.anchor = self.tracker.at().to_vec();
                    None
                }
                _ => None,
            };
            if let Some(size) = size {
                self.tracker.step(-size, slope);
                self.outer += 1;
            }
        }
        next.copy_from_slice(self.tracker.at());
    }

    fn finished(&self) -> bool {
        self.watch.stayed()
    }

    fn end(&self) -> Stop {
        match self.watch.stayed() {
            true => Stop::SmallEstimate,
            false => Stop::StepCap,
        }
    }

    /// The anchor; where no walk stayed, the point of the shortest estimate.
    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        Ok(Closing::at(match self.watch.stayed() {
            true => std::mem::take(&mut self.anchor),
            false => std::mem::take(&mut self.best.1),
        }))
    }
}
