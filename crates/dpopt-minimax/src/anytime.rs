//! `rgda-anytime`: levels that grow finer for as long as the budget lasts, and a certificate of what was reached.
//!
//! Xu et al. (arXiv 2602.01339), repaired, paid for as it goes; certificates and steps along directions of negative curvature in place of the paper's
//! perturbations. See `docs/theory/minimax.md`.

use dpopt_linalg::{dot, norm};
use dpopt_oracle::{AskError, Offers, Oracle};
use dpopt_privacy::{Event, NoiseMultiplier, Spend, Which};
use dpopt_solver::search::geometric;
use dpopt_solver::{
    Asked, BoundSense, BoundedQuantity, Budget, Closing, Item, Plan, PlanError, ReleasedNorm,
    RunError, SaddleShape, Split, Stop, Terms, Unit, Value, Walk,
};

use crate::blocks::{Numbers, scales};
use crate::certificate::{CertificateNoise, Measured, Sampling, knows_hessians, measured, unit};
use crate::facts::SaddleFacts;
use crate::solver::{SaddlePlanner, SaddleSolver};
use crate::tracker::{Ascent, Noise, Tracker};

const NAME: &str = "rgda-anytime";
/// Descent-ascent in levels, with certificates.
pub static RGDA_ANYTIME: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "smooth saddle losses, strongly concave in y: as far as the budget goes, and a certificate of where that is",
    paper: "Xu et al. 2026 (arXiv 2602.01339), repaired; certificates are ours",
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    positions: false,
    theory_page: Some("theory/minimax.md#the-certificate"),
    privacy_page: "privacy/minimax.md",
    planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
        let settings = RgdaAnytimeSettings {
            failure: limits.failure,
            ..RgdaAnytimeSettings::new(limits.max_steps)
        };
        Ok(Box::new(RgdaAnytimePlan::new(facts, budget, settings)?))
    }),
};

/// From one level to the next. A choice.
const FINER: f64 = 0.7;
/// The squared mu of the walk is so far used when a certificate is made on the way. A choice.
const ON_THE_WAY: [f64; 3] = [0.05, 0.2, 0.5];
/// Longest period that is tried.
const LONGEST: f64 = 1e5;
/// Finest level.
const MOST_LEVELS: i32 = 200;

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RgdaAnytimeSettings {
    /// p: the probability with which anything that a run certifies may be false.
    pub failure: f64,
    /// Share of mu^2 that is kept for certificates: the last one, and up to three on the way.
    pub certificate_share: f64,
    /// Whether Hessians are released; without, certificates are of first order, and there are none on the way.
    pub second_order: bool,
    /// Most releases of the walk.
    pub max_steps: u64,
}

impl RgdaAnytimeSettings {
    /// p = 0.05, a fifth for certificates, of second order where the facts allow it.
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            failure: 0.05,
            certificate_share: 0.2,
            second_order: true,
            max_steps,
        }
    }

    /// With this probability of failure.
    #[must_use]
    pub fn with_failure(self, failure: f64) -> Self {
        Self { failure, ..self }
    }

    /// With certificates of first order only.
    #[must_use]
    pub fn first_order(self) -> Self {
        Self {
            second_order: false,
            ..self
        }
    }
}

/// A plan for descent-ascent in levels that states what it certifies.
///
/// # Formula
/// Level j has a_j = 0.7^j a_0 (a_0 half of what the start satisfies): K steps of y for each of x, each followed by a release; x goes
/// a_j/(2 L_Phi) against g_x while ||g_x|| >= a_j, else the next level begins, from an anchor. Its multipliers and period are the cheapest whose
/// error in grad Phi has the typical size a_j/2. When the budget pays for no more, the last point that ended a level is certified with all
/// that is left.
///
/// Up to three certificates are made on the way, where a level ends. Where one finds the Hessian of Phi to have an eigenvalue
/// below -g for a g above its noise, the walk goes g/rho_Phi along its vector, against g_x.
///
/// No bound is stated before the run: the walk needs no gap and no horizon. What a run states is its last certificate, a theorem
/// whatever the walk did.
///
/// # Privacy
/// `Spend::AtMost(Gaussian(1/mu))`: Gaussian releases on all records, whose multipliers and number follow what was released. See
/// `docs/privacy/minimax.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct RgdaAnytimePlan {
    terms: Terms,
    facts: SaddleFacts,
    settings: RgdaAnytimeSettings,
    mu: f64,
    scale: f64,
    ascent: Ascent,
    first: Level,
}

/// One level.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Level {
    number: i32,
    target: f64,
    noise: Noise,
    /// Squared mu of a step of x, on the average.
    cost: f64,
}

impl RgdaAnytimePlan {
    /// The plan.
    ///
    /// # Errors
    /// [`PlanError::Unaffordable`] where the budget does not pay for the first step of x, [`PlanError::BadFact`], and as [`SaddleFacts::check`] and
    /// [`SaddleFacts::check_whole`].
    pub fn new(
        facts: &SaddleFacts,
        budget: &Budget,
        settings: RgdaAnytimeSettings,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        facts.check_whole()?;
        for (name, value) in [
            ("failure", settings.failure),
            ("certificate_share", settings.certificate_share),
        ] {
            PlanError::fraction(name, value)?;
        }
        let settings = RgdaAnytimeSettings {
            second_order: settings.second_order && knows_hessians(facts),
            ..settings
        };
        let mu = budget.mu()?.get();
        let first = 0.5 * facts.trivial_bound();
        // A fine level decides on the scale: coarse ones cost little.
        let cost_of =
            |of: &Numbers| level(of, inner_of(of), 0, 1e-3 * first).map(|level| level.cost);
        let mut best: Option<(f64, Numbers)> = None;
        for scale in scales(facts) {
            let of = Numbers::new(facts, scale);
            if let Some(cost) = cost_of(&of)
                && best.is_none_or(|(old, _)| cost < old)
            {
                best = Some((cost, of));
            }
        }
        let unaffordable = |cost| PlanError::Unaffordable {
            solver: NAME,
            what: "the first step",
            cost,
            squared_mu: (1.0 - settings.certificate_share) * mu * mu,
            records: facts.records,
            dim: facts.x_dim + facts.y_dim(),
        };
        let Some((_, of)) = best else {
            return Err(unaffordable(f64::INFINITY));
        };
        let inner = inner_of(&of);
        let before = of.inner_steps((of.smooth_xy * of.diameter / first).max(4.0));
        let Some(start) = level(&of, inner, 0, first) else {
            return Err(unaffordable(f64::INFINITY));
        };
        let walk = (1.0 - settings.certificate_share) * mu * mu;
        let needed = (before + 1) as f64 * start.noise.anchor.get().powi(-2) + start.cost;
        if !(needed <= walk) {
            return Err(unaffordable(needed));
        }
        let joint = facts.joint(of.scale);
        let cap = Event::gaussian(NoiseMultiplier::new(1.0 / mu)?);
        let terms = Terms::new(&joint, budget, settings.max_steps, Spend::AtMost(cap))
            .with_gradients(2.0 * facts.records as f64 * settings.max_steps as f64)
            .bounding(BoundedQuantity::GradientNorm, BoundSense::WithProbability)
            .certifying();
        Ok(Self {
            terms,
            facts: facts.clone(),
            settings,
            mu,
            scale: of.scale,
            ascent: Ascent {
                steps: inner,
                rate: of.rate,
                before,
            },
            first: start,
        })
    }

    /// The facts that it was made from.
    #[must_use]
    pub fn saddle(&self) -> &SaddleFacts {
        &self.facts
    }

    /// The scale of y: that of the [`dpopt_oracle::Joint`] loss that it is run on.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// mu: cap on all releases together.
    #[must_use]
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// Squared mu for the walk.
    fn walk_budget(&self) -> f64 {
        (1.0 - self.settings.certificate_share) * self.mu * self.mu
    }

    fn level(&self, number: i32) -> Option<Level> {
        let of = Numbers::new(&self.facts, self.scale);
        let target = self.first.target * FINER.powi(number);
        (number <= MOST_LEVELS).then(|| level(&of, self.ascent.steps, number, target))?
    }

    /// Certificates, the last one included.
    fn certificates(&self) -> usize {
        match self.settings.second_order {
            true => ON_THE_WAY.len() + 1,
            false => 1,
        }
    }
}

/// K: after it y lags by at most a quarter of the smoothness of Phi's worth.
fn inner_of(of: &Numbers) -> u64 {
    of.inner_steps((4.0 * of.coupling * of.smooth_xy / of.value_smoothness).max(4.0))
}

/// The cheapest level with this target: an error of typical size a/2.
fn level(of: &Numbers, inner: u64, number: i32, target: f64) -> Option<Level> {
    let length = 0.5 * target / of.value_smoothness;
    let reach = of.x_dim.sqrt() + of.coupling * of.y_dim.sqrt() / of.scale;
    let variance = (0.5 * target / reach).powi(2);
    let movement = (1.0 + of.movement(inner)) * length * length;
    let mut best: Option<(f64, Split)> = None;
    for period in geometric(1.0, LONGEST, 1.1) {
        let period = period.floor();
        let b = of.variation * of.variation * period * movement;
        let anchors = 1.0 / period;
        let variations = (inner + 1) as f64 - anchors;
        let split = Split::new((of.anchor * of.anchor, anchors), (b, variations), variance);
        if best.is_none_or(|(_, old)| split.cost < old.cost) {
            best = Some((period, split));
        }
    }
    let (period, split) = best?;
    Some(Level {
        number,
        target,
        noise: Noise {
            anchor: NoiseMultiplier::new(split.anchor).ok()?,
            variation: NoiseMultiplier::new(split.variation).ok()?,
            period: period as u64,
            path: f64::INFINITY,
        },
        cost: split.cost,
    })
}

impl Plan for RgdaAnytimePlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let Level { target, noise, .. } = self.first;
        vec![
            Item::ratio("mu", self.mu),
            Item::ratio("failure", self.settings.failure),
            Item::ratio("certificate_share", self.settings.certificate_share),
            Item::plain("second_order", Value::Flag(self.settings.second_order)),
            Item::number("first_target", target, Unit::GRADIENT),
            Item::ratio("scale", self.scale),
            Item::count("inner_steps", self.ascent.steps),
            Item::count("steps_of_y_before", self.ascent.before),
            Item::count("period", noise.period),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("anchor_noise_multiplier", noise.anchor.get()),
            Item::ratio("variation_noise_multiplier", noise.variation.get()),
        ]
    }

    fn saddle_shape(&self) -> Option<SaddleShape> {
        self.facts.shape(self.scale)
    }

    fn trivial_bound(&self) -> f64 {
        self.facts.trivial_bound()
    }

    fn needs(&self) -> Offers {
        let all = Offers::MEANS | Offers::NORMS;
        match self.settings.second_order {
            true => all | Offers::HESSIANS,
            false => all,
        }
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let blocks = self.facts.blocks(self.scale);
        let noise = self.first.noise;
        Ok(Box::new(Anytime {
            plan: self,
            tracker: Tracker::new(&self.facts, blocks, self.ascent, noise, start)?,
            level: self.first,
            pending: None,
            best: None,
            certificates: 0,
            on_certificates: 0.0,
            norms: 0,
            norm: None,
            step: 0,
        }))
    }

    /// A certificate is about the point that it was made at.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Certified
    }

    /// All of it: what a step costs is known when it is made.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}

/// A run on its way. All of it is public.
struct Anytime<'a> {
    plan: &'a RgdaAnytimePlan,
    tracker: Tracker,
    level: Level,
    /// The estimate of grad_x where a level has just ended.
    pending: Option<Vec<f64>>,
    /// Where the last level ended.
    best: Option<Vec<f64>>,
    certificates: usize,
    /// Squared mu of certificates so far.
    on_certificates: f64,
    norms: u64,
    norm: Option<ReleasedNorm>,
    step: u64,
}

impl Anytime<'_> {
    /// Squared mu that may still be spent on the walk.
    fn left(&self) -> f64 {
        self.plan.walk_budget() - self.tracker.spent()
    }

    /// A certificate at the joint point, for so much.
    fn certify(
        &mut self,
        point: &[f64],
        cost: f64,
        oracle: &mut dyn Oracle,
    ) -> Result<Option<Measured>, AskError> {
        let RgdaAnytimePlan {
            facts,
            settings,
            scale,
            ..
        } = self.plan;
        let noise = CertificateNoise::for_cost(facts, *scale, cost, settings.second_order);
        let Ok(noise) = noise else {
            return Ok(None);
        };
        let failure = settings.failure / self.plan.certificates() as f64;
        let added = Sampling::none(failure);
        let found = measured(facts, *scale, point, (&noise, &added), Which::All, oracle)?;
        if let Some(found) = &found {
            self.on_certificates += found.cost;
            self.norms += if facts.y_dim() > 0 { 2 } else { 1 };
            self.norm = Some(ReleasedNorm {
                step: self.step.saturating_sub(1),
                ..found.norm
            });
        }
        Ok(found)
    }

    /// What follows where a level ended: a certificate now and then, a step away from a saddle, the next level.
    fn leave(&mut self, slope: &[f64], oracle: &mut dyn Oracle) -> Result<(), AskError> {
        let due = ON_THE_WAY.get(self.certificates);
        let used = self.tracker.spent() / self.plan.walk_budget();
        let rho = self.plan.facts.mean.value_hessian_lipschitz;
        let mut next = self.level.number + 1;
        let mut before = 0;
        if self.plan.settings.second_order && due.is_some_and(|due| used >= *due) {
            let all = self.plan.certificates() as f64;
            let cost = self.plan.settings.certificate_share * self.plan.mu.powi(2) / all;
            let point = self.tracker.at().to_vec();
            let found = self.certify(&point, cost, oracle)?;
            self.certificates += 1;
            let curvature = found.and_then(|found| found.hessian.ok());
            // Below zero by more than the margin that keeps certificates true.
            if let Some(found) = curvature
                && rho.is_finite()
                && 2.0 * found.estimate < found.least
            {
                let bend = -found.estimate;
                let along = unit(&found.direction);
                let sign = if dot(slope, &along) > 0.0 { -1.0 } else { 1.0 };
                self.tracker.step(sign * bend / rho, &along);
                // About the slope where the step ends, if the third derivative is as large as it may be; no finer level than this one's.
                let slope = 0.5 * bend * bend / rho;
                let coarser = (slope / self.plan.first.target).ln() / FINER.ln();
                next = (coarser.ceil().max(0.0) as i32).min(self.level.number);
                before = self.plan.ascent.before;
            }
        }
        if let Some(level) = self.plan.level(next) {
            self.level = level;
            self.tracker.restart(level.noise, before);
        }
        Ok(())
    }
}

impl Walk for Anytime<'_> {
    fn ask(
        &mut self,
        step: u64,
        _: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.step = step;
        if let Some(slope) = self.pending.take() {
            let ended = self.level.number;
            self.leave(&slope, oracle)?;
            if ended == MOST_LEVELS {
                return Ok(Asked::Nothing(Stop::Converged));
            }
        }
        if self.tracker.next_cost() > self.left() {
            return Ok(Asked::Nothing(Stop::BudgetUsed));
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
            if length < self.level.target {
                self.best = Some(self.tracker.at().to_vec());
                self.pending = Some(slope.to_vec());
            } else {
                let step = 0.5 * self.level.target / self.plan.facts.mean.value_smoothness;
                self.tracker.step(-step / length, slope);
            }
        }
        next.copy_from_slice(self.tracker.at());
    }

    fn end(&self) -> Stop {
        Stop::StepCap
    }

    /// The last certificate, with all that is left.
    fn close(&mut self, _: Stop, oracle: &mut dyn Oracle) -> Result<Closing, AskError> {
        let point = match self.best.take() {
            Some(best) => best,
            None => self.tracker.at().to_vec(),
        };
        if !point.iter().all(|w| w.is_finite()) {
            return Ok(Closing::default());
        }
        let mu = self.plan.mu;
        // What is refused for a last digit would be no certificate at all.
        let left = (mu * mu - self.tracker.spent() - self.on_certificates) * (1.0 - 1e-9);
        let found = self.certify(&point, left, oracle)?;
        let mut closing = Closing::at(point);
        closing.certified = found.map(|found| found.certified(&self.plan.facts, self.plan.scale));
        closing.norms = self.norms;
        closing.norm = self.norm;
        Ok(closing)
    }
}
