//! DP-ZO: descent on noisy clipped slopes along random directions, on Poisson samples: values alone.

use std::num::NonZeroUsize;

use dpopt_oracle::query::smoothed_gradient_bound;
use dpopt_oracle::{AskError, Batch, FreshSlopes, Level, Offers, Oracle, Schedule};
use dpopt_privacy::{Accountant, ClipNorm, NoiseMultiplier, SamplingRate};
use dpopt_solver::{
    Access, Asked, Auto, Budget, Item, Needs, OutputRule, Plan, PlanError, PublicFacts,
    ReleaseKind, RunError, Solver, Terms, Unit, Walk,
};

use super::dp_sgd::{DP_SGD, rate_for};
use super::horizon::Horizon;
use super::{HeavyBall, check};

const SOLVER: &str = "dp-zo";
/// DP-ZO.
pub static DP_ZO: Solver = Solver {
    name: SOLVER,
    summary: "generalised linear losses, from values alone",
    paper: "Zhang et al. 2024 (DPZero, arXiv 2310.09639) with one direction, DP-AggZO with several",
    needs: Needs {
        values: true,
        ..Needs::NOTHING
    },
    planner: |facts, extra, budget, limits| {
        let directions = extra.directions_in(facts.dim)?;
        let directions = directions.unwrap_or(NonZeroUsize::MIN);
        let plan = DpZoPlan::new(facts, budget, directions, limits.max_steps)?;
        Ok(Box::new(plan))
    },
    privacy_page: "privacy/goldstein.md",
    auto: Auto::Never("it is for losses that are programs without a gradient"),
    ..DP_SGD
};

/// Clip radius over the root mean square length of the slopes of a record whose gradient is as long as L0. Not measured.
const CLIP: f64 = 2.0;
/// Half of the way that a slope is taken over, in units of one over the bound on rows. Not measured.
const SMOOTHING: f64 = 1e-3;

/// A plan for descent from values alone, a baseline for the walks with a bound: DPZero with one direction, DP-AggZO with several
/// (here orthonormal ones, there independent). It states no bound.
///
/// # Formula
/// w <- w - eta g, g = (d/m) sum_j y_j (1/B) (sum over a Poisson sample of clip(b, C) + noise)_j, with
/// b_j = (f(w + a y_j) - f(w - a y_j))/(2 a), y_1..y_m orthonormal, uniform among such m-tuples and fresh at every step, the same for all
/// records, and clip and noise in R^m: one number for DPZero.
///
/// # Privacy
/// T Gaussian releases in R^m, each on a fresh Poisson sample, calibrated by the named accountant for the stated adjacency. The
/// directions are public. (`docs/privacy/goldstein.md`.)
#[derive(Debug, Clone, PartialEq)]
pub struct DpZoPlan {
    terms: Terms,
    schedule: DpZoSchedule,
    accountant: Option<Accountant>,
}

/// What a [`DpZoPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DpZoSchedule {
    /// Number of steps T, one release each.
    pub steps: u64,
    /// Probability with which a record enters a step.
    pub sampling_rate: SamplingRate,
    /// Step size.
    pub step_size: f64,
    /// m.
    pub directions: NonZeroUsize,
    /// a.
    pub smoothing: f64,
    /// Per-record clip radius C of the slopes as one vector.
    pub clip: f64,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
}

impl DpZoPlan {
    /// The default plan for generalised linear losses.
    ///
    /// # Formula
    /// C = 2 L0 sqrt(m/d), or kappa_m L0 if that is less: slopes of a gradient of length L0 are L0 sqrt(m/d) long in the root mean
    /// square. The noise of the lifted slopes is then that of gradients clipped to 2 L0, and allows the horizon q of
    /// [`DpSgdPlan::new`](crate::DpSgdPlan::new). An estimate has d/m times the mean square of a gradient, so eta is at most m/d plain
    /// steps: T = ceil(q d/m), at most `max_steps`, eta = min(q/T, m/d) plain steps. The sampling rate is that of DP-SGD, a = 0.001/X. (Rules of
    /// ours; not measured on real data.)
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(
        facts: &PublicFacts,
        budget: &Budget,
        directions: NonZeroUsize,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let mu = budget.mu()?.get();
        let horizon = Horizon::new(facts, mu)?;
        let share = directions.get().min(facts.dim) as f64 / facts.dim as f64;
        let usual = CLIP * facts.lipschitz * share.sqrt();
        let clip = usual.min(smoothed_gradient_bound(facts.lipschitz, directions.get()));
        let plain = horizon.plain_steps * horizon.clip * share.sqrt() / clip;
        let most = max_steps.max(1) as f64;
        let steps = (plain / share).ceil().clamp(1.0, most);
        let step_size = (plain / steps).min(share) * horizon.step_size;
        let steps = steps as u64;
        let sampling_rate = rate_for(facts, mu, steps)?;
        let schedule = DpZoSchedule {
            steps,
            sampling_rate,
            step_size,
            directions,
            smoothing: SMOOTHING / facts.row_norm,
            clip,
            // Until it is calibrated.
            noise_multiplier: NoiseMultiplier::new(1.0)?,
        };
        Self::calibrated(facts, budget, schedule)
    }

    /// A plan with another schedule but for its noise, which is calibrated to the budget.
    ///
    /// # Errors
    /// [`PlanError`]; [`PlanError::Directions`] for more than there are dimensions.
    pub fn calibrated(
        facts: &PublicFacts,
        budget: &Budget,
        schedule: DpZoSchedule,
    ) -> Result<Self, PlanError> {
        check(schedule.steps, schedule.step_size, 0.0, schedule.clip)?;
        PlanError::positive("smoothing", schedule.smoothing)?;
        if schedule.directions.get() > facts.dim {
            return Err(PlanError::Directions {
                directions: schedule.directions.get() as u64,
                dim: facts.dim,
            });
        }
        let event = |noise_multiplier| {
            let level = Level {
                noise_multiplier,
                ..schedule.level()
            };
            let spend = Schedule::new(facts.records).releases(level, schedule.steps);
            spend.spend().event().clone()
        };
        let (accountant, noise_multiplier) = budget.calibrated(facts.adjacency, event)?;
        let schedule = DpZoSchedule {
            noise_multiplier,
            ..schedule
        };
        Ok(Self {
            accountant: Some(accountant),
            ..Self::by_hand(facts, budget, schedule)
        })
    }

    /// A plan with another schedule, whose noise nobody calibrated.
    #[must_use]
    pub fn by_hand(facts: &PublicFacts, budget: &Budget, schedule: DpZoSchedule) -> Self {
        let spend = Schedule::new(facts.records).releases(schedule.level(), schedule.steps);
        Self {
            terms: Terms::new(facts, budget, schedule.steps, spend.spend())
                .with_gradients(0.0)
                .with_clip(schedule.clip)
                .with_access(Access::Poisson(schedule.sampling_rate)),
            schedule,
            accountant: None,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &DpZoSchedule {
        &self.schedule
    }

    /// Who calibrated the multiplier; none for a plan by hand.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Nominal number of per-record values.
    #[must_use]
    pub fn values(&self) -> f64 {
        let DpZoSchedule {
            steps,
            sampling_rate,
            directions,
            ..
        } = self.schedule;
        let read = sampling_rate.get() * self.facts().records as f64;
        2.0 * directions.get() as f64 * steps as f64 * read
    }

    /// Noise standard deviation per coordinate of an estimate, the root mean square over the coordinates.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        let facts = self.facts();
        let schedule = &self.schedule;
        let lifted = (facts.dim as f64 / schedule.directions.get() as f64).sqrt();
        let of_sum = facts.noise_std(schedule.clip, schedule.noise_multiplier.get());
        lifted * of_sum / schedule.sampling_rate.get()
    }
}

impl DpZoSchedule {
    fn level(&self) -> Level {
        Level {
            batch: Batch::Poisson(self.sampling_rate),
            noise_multiplier: self.noise_multiplier,
        }
    }
}

impl Plan for DpZoPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let mut items = vec![
            Item::count("steps", schedule.steps),
            Item::ratio("sampling_rate", schedule.sampling_rate.get()),
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::number("smoothing", schedule.smoothing, Unit::LENGTH),
            Item::count("directions", schedule.directions.get() as u64),
            Item::ratio("values", self.values()),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::number("noise_std", self.noise_std(), Unit::GRADIENT),
        ];
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items.push(Item::word("output", OutputRule::Last));
        items
    }

    fn needs(&self) -> Offers {
        Offers::SLOPES
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let schedule = &self.schedule;
        if schedule.directions.get() > start.len() {
            return Err(RunError::Schedule {
                solver: SOLVER,
                name: "directions",
                value: schedule.directions.get() as f64,
            });
        }
        let clip = ClipNorm::new(schedule.clip).map_err(RunError::Clip)?;
        let by = (schedule.directions, schedule.smoothing);
        Ok(Box::new(OnSlopes {
            estimate: FreshSlopes::new(start.len(), by, clip, schedule.level())?,
            ball: HeavyBall::new(start.len(), schedule.step_size, 0.0),
        }))
    }
}

struct OnSlopes {
    estimate: FreshSlopes,
    ball: HeavyBall,
}

impl Walk for OnSlopes {
    fn ask(
        &mut self,
        _: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let estimate = self.estimate.estimate(oracle, point)?.estimate;
        Ok(Asked::estimate(ReleaseKind::Anchor, estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        self.ball.step(point, gradient, next);
    }
}
