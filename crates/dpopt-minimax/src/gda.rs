//! Descent in x with momentum, slow ascent in y, on fresh joint gradients: for tables where no plan with a bound says anything.

use dpopt_linalg::Domain;
use dpopt_oracle::{AskError, Batch, Blocks, Level, Oracle, Running, Schedule};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{
    Asked, Budget, FreshReleases, Item, Plan, PlanError, ReleaseKind, RunError, SaddleShape, Terms,
    Unit, Walk,
};

use crate::facts::SaddleFacts;
use crate::place::check_inside;
use crate::solver::{SaddleLimits, SaddlePlanner, SaddleSolver};

const NAME: &str = "gda";
/// Gradient descent ascent.
pub static GDA: SaddleSolver = SaddleSolver {
    name: NAME,
    summary: "saddle losses of real tables",
    paper: "none: a rule of ours, docs/objectives.md",
    bound: None,
    positions: false,
    theory_page: None,
    privacy_page: "privacy/minimax.md#groups-and-shares",
    planner: SaddlePlanner::Gaussian(|facts, budget, limits| {
        Ok(Box::new(GdaPlan::new(facts, budget, limits)?))
    }),
};

/// How far the noise of a run may take a coordinate of x, in units of 1/sqrt(L_xx): for logistic loss, L_xx = X^2/4, it may take a logit
/// by 1.5, as in `noisy-gd`.
const REACH: f64 = 0.75;
/// The time constants of the momentum that a run lasts: that of `noisy-gd`.
const TIME_CONSTANTS: f64 = 10.0;
/// C_y s over C_x. Chosen after a look at Census-Income, as [`SLOWNESS`]: see `docs/objectives.md`.
const SHARE_OF_Y: f64 = 0.25;
/// The time constant of y over that of the momentum, where y's curvature is no less than [`COUPLED`] asks. With 1 and less the pair
/// oscillates to a vertex of the simplex where the regulariser is weak; with 4 it did not for m of 0.5 to 2.
const SLOWNESS: f64 = 4.0;
/// The part of L_xy^2/L_xx, what x that follows y adds to the curvature in y, below which L_yy does not set the pace: y would outrun an x
/// that it moves. Chosen so that for `group-dro` with four groups, where L_xy^2/L_xx = 16, it is 1, the curvature at which the pair was
/// seen to settle.
const COUPLED: f64 = 1.0 / 16.0;

/// A plan for x <- x + beta (x - x_prev) - eta g_x, y <- P(y + lambda g_y), g the noisy mean of the joint field, clipped once.
///
/// # Formula
/// s = C_x/(4 C_y) and C = hypot(C_x, s C_y); eta = 1/L_xx with L_xx = L_Phi - L_xy^2/m (L_Phi where that is not positive), of the mean.
/// Noise in a coordinate adds up to eta q tau over q plain steps, tau = sensitivity C/(n mu), whatever their number; q is such that it is the
/// reach, 0.75/sqrt(L_xx) unless [`SaddleLimits::reach`] says otherwise. With c = 10: T = ceil(q) for q <= c - 1, otherwise T =
/// ceil(c sqrt(q/(c - 1))), at most the cap; beta = 1 - c/T (0 for T <= c). eta is then cut to what makes the run of T steps as long as the reach. lambda = (1 -
/// beta)/(4 max(L_yy, L_xy^2/(16 L_xx))): y needs four times as long as the momentum, or longer where it is coupled to x more strongly than
/// it is curved. (Ours.)
///
/// # Privacy
/// T Gaussian releases on all records, each of noise multiplier sqrt(T)/mu: exactly mu-GDP. Momentum and projections are
/// post-processing.
#[derive(Debug, Clone, PartialEq)]
pub struct GdaPlan {
    terms: Terms,
    schedule: GdaSchedule,
    facts: SaddleFacts,
}

/// What a [`GdaPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GdaSchedule {
    /// Number of steps T, one release each.
    pub steps: u64,
    /// eta.
    pub step_size: f64,
    /// beta; 0 for plain descent.
    pub momentum: f64,
    /// lambda.
    pub dual_step_size: f64,
    /// s.
    pub scale: f64,
    /// Joint clip radius C of a record.
    pub clip: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
}

impl GdaPlan {
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
        let steps = rule.steps(mu);
        let schedule = rule.schedule(steps, mu, NoiseMultiplier::new(steps.sqrt() / mu)?);
        Ok(Self::by_hand(facts, budget, schedule))
    }

    /// A plan with another schedule.
    #[must_use]
    pub fn by_hand(facts: &SaddleFacts, budget: &Budget, schedule: GdaSchedule) -> Self {
        let joint = facts.joint(schedule.scale);
        let noise_multiplier = schedule.noise_multiplier;
        let level = Level {
            batch: Batch::All,
            noise_multiplier,
        };
        let spend = Schedule::new(facts.records)
            .releases(level, schedule.steps)
            .spend();
        let noise_std = joint.noise_std(schedule.clip, noise_multiplier.get());
        Self {
            terms: Terms::new(&joint, budget, schedule.steps, spend)
                .with_clip(schedule.clip)
                .with_fresh(FreshReleases::new(noise_std).of_whole_field(facts.whole)),
            schedule,
            facts: facts.clone(),
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &GdaSchedule {
        &self.schedule
    }

    /// Where a run starts unless told otherwise: x = 0, and y in the middle of its domain.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        let x = vec![0.0; self.facts.x_dim];
        self.split().join(&x, &self.facts.domain.middle())
    }

    fn split(&self) -> Blocks {
        self.facts.blocks(self.schedule.scale)
    }
}

/// The rule of [`GdaPlan`], for full batches and for samples.
pub(crate) struct Rule {
    pub(crate) scale: f64,
    pub(crate) clip: f64,
    /// L_xx of the mean.
    pub(crate) curvature: f64,
    /// How far noise may take a coordinate of x.
    pub(crate) reach: f64,
    /// Noise of a release on all records over its multiplier.
    pub(crate) unit: f64,
    /// The curvature that sets the pace of y; none without y.
    pace: Option<f64>,
    exact: Option<u64>,
    pub(crate) cap: f64,
}

impl Rule {
    pub(crate) fn new(facts: &SaddleFacts, limits: &SaddleLimits) -> Result<Self, PlanError> {
        let (record, mean) = (facts.record, facts.mean);
        let has_y = facts.y_dim() > 0;
        let (scale, clip) = if has_y {
            let scale = SHARE_OF_Y * record.lipschitz_x / record.lipschitz_y;
            (scale, record.clip(scale))
        } else {
            (1.0, record.lipschitz_x)
        };
        PlanError::positive("joint clip", clip)?;
        let rest = if has_y {
            mean.value_smoothness - mean.smooth_xy * mean.coupling()
        } else {
            0.0
        };
        let curvature = if rest > 0.0 {
            rest
        } else {
            mean.value_smoothness
        };
        let reach = limits.reach.unwrap_or(REACH / curvature.sqrt());
        PlanError::positive("reach", reach)?;
        let coupled = COUPLED * mean.smooth_xy * mean.smooth_xy / curvature;
        Ok(Self {
            scale,
            clip,
            curvature,
            reach,
            unit: facts.joint(scale).noise_std(clip, 1.0),
            pace: has_y.then(|| mean.smooth_yy.max(coupled)),
            exact: limits.exact_steps,
            cap: limits.max_steps.max(1) as f64,
        })
    }

    /// T, where all of it is mu-GDP.
    pub(crate) fn steps(&self, mu: f64) -> f64 {
        let (c, plain) = (TIME_CONSTANTS, self.reach * self.curvature * mu / self.unit);
        let by_rule = if plain <= c - 1.0 {
            plain.ceil().max(1.0)
        } else {
            (c * (plain / (c - 1.0)).sqrt()).ceil()
        };
        self.exact
            .map_or(by_rule.min(self.cap), |steps| steps.max(1) as f64)
    }

    /// So many steps whose noise adds up as if all of it were mu-GDP on all records.
    pub(crate) fn schedule(&self, steps: f64, mu: f64, z: NoiseMultiplier) -> GdaSchedule {
        let (c, tau) = (TIME_CONSTANTS, self.unit / mu);
        let (momentum, ideal) = if steps <= c {
            (0.0, self.reach / (tau * steps))
        } else {
            (
                1.0 - c / steps,
                self.reach / tau * c * c / ((c - 1.0) * steps * steps),
            )
        };
        GdaSchedule {
            steps: steps as u64,
            // Fewer steps than the noise allows: a shorter horizon costs accuracy only.
            step_size: ideal.min(1.0 / self.curvature),
            momentum,
            dual_step_size: self
                .pace
                .map_or(0.0, |pace| (1.0 - momentum) / (SLOWNESS * pace)),
            scale: self.scale,
            clip: self.clip,
            noise_multiplier: z,
        }
    }
}

impl Plan for GdaPlan {
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
        let joint = self.facts.joint(of.scale);
        let noise = joint.noise_std(of.clip, of.noise_multiplier.get());
        vec![
            Item::count("steps", of.steps),
            Item::number("step_size", of.step_size, Unit::STEP_SIZE),
            Item::ratio("momentum", of.momentum),
            Item::ratio("dual_step_size", of.dual_step_size),
            Item::ratio("dual_scale", of.scale),
            Item::number("clip", of.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", of.noise_multiplier.get()),
            Item::number("noise_std", noise, Unit::GRADIENT),
            Item::ratio("dual_noise_std", noise / of.scale),
        ]
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let clip = ClipNorm::new(self.schedule.clip).map_err(RunError::Clip)?;
        check_inside(self.split(), &self.facts.domain, start)?;
        Ok(Box::new(Pair {
            running: Running::new(start.len(), clip),
            which: Which::All,
            schedule: self.schedule,
            blocks: self.split(),
            domain: &self.facts.domain,
            velocity: vec![0.0; self.facts.x_dim],
        }))
    }
}

/// Both blocks on their way.
pub(crate) struct Pair<'a> {
    pub(crate) running: Running,
    pub(crate) which: Which<'static>,
    pub(crate) schedule: GdaSchedule,
    pub(crate) blocks: Blocks,
    pub(crate) domain: &'a Domain,
    pub(crate) velocity: Vec<f64>,
}

impl Walk for Pair<'_> {
    fn ask(
        &mut self,
        _: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let z = self.schedule.noise_multiplier;
        let released = self.running.anchor(oracle, point, self.which, z)?;
        Ok(Asked::estimate(ReleaseKind::Anchor, released.estimate()))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let GdaSchedule {
            step_size,
            momentum,
            dual_step_size,
            scale,
            ..
        } = self.schedule;
        for (v, g) in self.velocity.iter_mut().zip(gradient) {
            *v = momentum * *v - step_size * g;
        }
        // Of y/s the field is s g_y: a step of y is lambda/s^2 of it.
        let (x, ascent) = (self.blocks.x, dual_step_size / (scale * scale));
        for (i, next) in next.iter_mut().enumerate() {
            *next = point[i]
                + self
                    .velocity
                    .get(i)
                    .copied()
                    .unwrap_or(ascent * gradient[i]);
        }
        if self.blocks.y > 0 && next.len() > x {
            self.blocks.project(self.domain, next);
        }
    }
}
