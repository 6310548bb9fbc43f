//! `privatediff`: differences in x, fresh gradients in y.
//!
//! Zhang, Lei, Ding, Xiang, Xu, Wang, "Improved Rates of Differentially Private Nonconvex-Strongly-Concave Minimax Optimization" (arXiv
//! 2503.18317): its method in structure, on all records, with every record clipped. Numbers are ours: see `docs/theory/privatediff.md`.

use dpopt_oracle::{AskError, Batch, Level, Oracle, Running, Schedule};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{
    Asked, Budget, Item, Plan, PlanError, ReleaseKind, RunError, SaddleShape, Terms, Unit, Walk,
};

use crate::blocks::Numbers;
use crate::facts::SaddleFacts;
use crate::gda::Rule;
use crate::place::{Ascent, Moved, Place};
use crate::solver::{SaddleLimits, SaddlePlanner, SaddleSolver};

const NAME: &str = "privatediff";
/// Differences in x, fresh gradients in y.
pub static PRIVATEDIFF: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "a baseline for smooth saddle losses, strongly concave in y",
    paper: "Zhang et al. 2025 (arXiv 2503.18317), each record clipped",
    bound: None,
    positions: false,
    theory_page: Some("theory/privatediff.md"),
    privacy_page: "privacy/minimax.md",
    planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
        Ok(Box::new(PrivateDiffPlan::new(facts, budget, limits)?))
    }),
};

/// Of the factor by which y is brought nearer at each x. A choice.
const NEARER: f64 = 4.0;

/// A plan for steps of x along a recursive estimate, each after K steps of y along fresh gradients. It states no bound.
///
/// # Formula
/// K times y <- P(y + g_y/L_yy), then x <- x - eta v; T times. Of v an anchor every q = ceil(sqrt T) steps of x, otherwise a change with noise in proportion to
/// the joint displacement. A third of mu^2 each for anchors, changes and the fresh gradients: multipliers sqrt(3 N)/mu, N of each kind. C and s are
/// those of `gda`.
///
/// Where constants hold everywhere and a gap F0 of Phi is known, eta = 1/(2 L_Phi), K brings y nearer by a factor of 4, and T minimises 4 L_Phi F0/T +
/// e^2, e = w sqrt(d2) tau sqrt(3 K T)/s what the noise of fresh gradients does to grad Phi, tau = sensitivity C/(n mu). Otherwise K = 1, and T is the
/// number of plain steps with eta = 1/L_xx after which noise has taken a coordinate of x by the reach of `gda`; where it is cut, so is eta. `docs/theory/privatediff.md` says why T and
/// the error are then as n^1 and n^(-1/2).
///
/// # Privacy
/// T (K + 1) Gaussian releases on all records, multipliers fixed: mu-GDP, and less where there is no y, whose third of mu^2 is left then. Steps are post-processing.
#[derive(Debug, Clone, PartialEq)]
pub struct PrivateDiffPlan {
    terms: Terms,
    schedule: PrivateDiffSchedule,
    facts: SaddleFacts,
}

/// What a [`PrivateDiffPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivateDiffSchedule {
    /// T: steps of x.
    pub steps: u64,
    /// K: steps of y before each.
    pub inner: u64,
    /// q: steps of x to an anchor.
    pub period: u64,
    /// eta.
    pub step_size: f64,
    /// s.
    pub scale: f64,
    /// Joint clip radius C of a record.
    pub clip: f64,
    /// Noise multiplier of an anchor.
    pub anchor: NoiseMultiplier,
    /// That of a change.
    pub variation: NoiseMultiplier,
    /// That of a fresh gradient for y.
    pub fresh: NoiseMultiplier,
}

impl PrivateDiffSchedule {
    /// T (K + 1).
    #[must_use]
    pub fn releases(&self) -> u64 {
        self.steps * (self.inner + 1)
    }

    fn anchors(&self) -> u64 {
        self.steps.div_ceil(self.period)
    }
}

impl PrivateDiffPlan {
    /// By the rule.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] and the like, or an accounting error.
    pub fn new(
        facts: &SaddleFacts,
        budget: &Budget,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let rule = Rule::new(facts, limits)?;
        let scale = rule.scale;
        let of = Numbers::new(facts, scale);
        let gap = facts.mean.value_gap;
        let known = facts.whole && gap.is_finite();
        let inner = match (facts.y_dim(), known) {
            (0, _) => 0,
            (_, true) => of.inner_steps(NEARER),
            (_, false) => 1,
        };
        let tau = rule.unit / mu;
        let (wanted, longest) = if known {
            let of_y = of.coupling * of.y_dim.sqrt() / scale * (inner as f64).sqrt();
            // Without y the noise of changes is what is left: of anchors, at least.
            let worst = of_y.max(of.x_dim.sqrt() / rule.cap.sqrt()) * tau;
            let most = (4.0 * of.value_smoothness * gap / 3.0).sqrt() / worst;
            (most, 0.5 / of.value_smoothness)
        } else {
            let longest = 1.0 / rule.curvature;
            (rule.reach / (tau * 3f64.sqrt() * longest), longest)
        };
        let each = inner + 1;
        let cap = (limits.max_steps / each).max(1) as f64;
        let steps = match limits.exact_steps {
            Some(releases) => (releases / each).max(1) as f64,
            None => wanted.ceil().clamp(1.0, cap),
        };
        let step_size = if known {
            longest
        } else {
            longest.min(rule.reach / (tau * 3f64.sqrt() * steps))
        };
        let period = steps.sqrt().ceil();
        let anchors = (steps / period).ceil();
        let multiplier = |count: f64| NoiseMultiplier::new((3.0 * count.max(1.0)).sqrt() / mu);
        let schedule = PrivateDiffSchedule {
            steps: steps as u64,
            inner,
            period: period as u64,
            step_size,
            scale,
            clip: rule.clip,
            anchor: multiplier(anchors)?,
            variation: multiplier(steps - anchors)?,
            fresh: multiplier(steps * inner as f64)?,
        };
        Ok(Self::by_hand(facts, budget, schedule))
    }

    /// A plan with another schedule.
    #[must_use]
    pub fn by_hand(facts: &SaddleFacts, budget: &Budget, schedule: PrivateDiffSchedule) -> Self {
        let level = |noise_multiplier| Level {
            batch: Batch::All,
            noise_multiplier,
        };
        let PrivateDiffSchedule { steps, inner, .. } = schedule;
        let anchors = schedule.anchors();
        let spend = Schedule::new(facts.records)
            .releases(level(schedule.anchor), anchors)
            .releases(level(schedule.variation), steps - anchors)
            .releases(level(schedule.fresh), steps * inner)
            .spend();
        let records = facts.records as f64;
        let gradients = (steps * inner + 2 * steps - anchors) as f64 * records;
        let joint = facts.joint(schedule.scale);
        Self {
            terms: Terms::new(&joint, budget, schedule.releases(), spend)
                .with_gradients(gradients)
                .with_clip(schedule.clip),
            schedule,
            facts: facts.clone(),
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &PrivateDiffSchedule {
        &self.schedule
    }
}

impl Plan for PrivateDiffPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn saddle_shape(&self) -> Option<SaddleShape> {
        self.facts.shape(self.schedule.scale)
    }

    fn items(&self) -> Vec<Item<'_>> {
        let of = &self.schedule;
        vec![
            Item::count("outer_steps", of.steps),
            Item::count("inner_steps", of.inner),
            Item::count("period", of.period),
            Item::number("step_size", of.step_size, Unit::STEP_SIZE),
            Item::ratio("dual_scale", of.scale),
            Item::number("clip", of.clip, Unit::GRADIENT),
            Item::ratio("anchor_noise_multiplier", of.anchor.get()),
            Item::ratio("variation_noise_multiplier", of.variation.get()),
            Item::ratio("fresh_noise_multiplier", of.fresh.get()),
        ]
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let clip = ClipNorm::new(self.schedule.clip).map_err(RunError::Clip)?;
        let PrivateDiffSchedule { scale, inner, .. } = self.schedule;
        let ascent = Ascent {
            steps: inner,
            rate: Numbers::new(&self.facts, scale).rate,
            before: 0,
        };
        let blocks = self.facts.blocks(scale);
        let ascent = ascent.checked(NAME, blocks)?;
        Ok(Box::new(Differences {
            schedule: self.schedule,
            place: Place::new(&self.facts, blocks, ascent, start)?,
            along: Running::new(start.len(), clip),
            fresh: Running::new(start.len(), clip),
            made: 0,
            outer: 0,
        }))
    }
}

/// A run on its way.
struct Differences {
    schedule: PrivateDiffSchedule,
    place: Place,
    /// What x follows.
    along: Running,
    /// What y follows.
    fresh: Running,
    /// Steps of y at this x.
    made: u64,
    /// Steps of x.
    outer: u64,
}

impl Walk for Differences {
    fn ask(&mut self, _: u64, _: &[f64], oracle: &mut dyn Oracle) -> Result<Asked<'_>, AskError> {
        let (of, at) = (&self.schedule, self.place.at());
        let (kind, released) = if self.made < of.inner {
            let released = self.fresh.anchor(oracle, at, Which::All, of.fresh)?;
            (ReleaseKind::Anchor, released)
        } else if self.outer.is_multiple_of(of.period) {
            let released = self.along.anchor(oracle, at, Which::All, of.anchor)?;
            (ReleaseKind::Anchor, released)
        } else {
            let released = self.along.vary(oracle, at, Which::All, of.variation)?;
            (ReleaseKind::Variation, released)
        };
        Ok(Asked::estimate_at(kind, at, released.estimate()))
    }

    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        if self.place.ascend(gradient) == Moved::Inner {
            self.made += 1;
        } else {
            let slope = self.place.x_part(gradient);
            self.place.step(-self.schedule.step_size, slope);
            (self.made, self.outer) = (0, self.outer + 1);
        }
        next.copy_from_slice(self.place.at());
    }
}
