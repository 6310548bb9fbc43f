//! DP-MF: slices of the records, again and again, under noise that is correlated over all steps (DP-FTRL).

mod sampled;
mod schedule;
mod walk;
mod workload;

use dpopt_oracle::{Offers, Schedule};
use dpopt_privacy::{
    Accountant, ClipNorm, NoiseMultiplier, PrefixError, PrefixKind, PrefixNoise, SamplingRate,
    TunedFactor,
};
use dpopt_solver::{
    Access, Batches, Budget, Item, Needs, OutputRule, Plan, PlanError, PublicFacts, RunError,
    Solver, Terms, Unit, Walk,
};

use super::check;
use super::horizon::{Horizon, NO_RULE};
use walk::Epochs;
use workload::{COOL_DOWN, Knots, MOMENTUM, Workload, bands};

pub use schedule::DpMfSchedule;

const SOLVER: &str = "dp-mf";
/// DP-MF.
pub static DP_MF: Solver = Solver {
    name: SOLVER,
    summary: "generalised linear losses and networks, kinks or not, in a few passes without samples: correlated noise",
    paper: "Choquette-Choo et al. 2023 (arXiv 2306.08153); Kairouz et al. 2021 (arXiv 2103.00039)",
    needs: Needs {
        positions: true,
        no_constants: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: None,
    auto: NO_RULE,
    theory_page: None,
    privacy_page: "privacy/sums.md#prefix-sums",
    planner: |facts, extra, budget, limits| {
        let units = extra.units(facts);
        let plan = DpMfPlan::in_units(facts, &units, budget, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

/// The same on samples of slices.
pub static DP_MF_SAMPLED: Solver = Solver {
    name: "dp-mf-sampled",
    summary: "generalised linear losses and networks, kinks or not, on samples: correlated noise",
    paper: "Choquette-Choo et al. 2023 (arXiv 2306.08153)",
    privacy_page: "privacy/sums.md#banded-noise-on-samples",
    needs: Needs {
        samples: true,
        ..DP_MF.needs
    },
    planner: |facts, extra, budget, limits| {
        let units = extra.units(facts);
        let plan = DpMfPlan::sampled_in_units(facts, &units, budget, limits.max_steps)?;
        Ok(Box::new(plan.with_batches(extra.batches)?))
    },
    ..DP_MF
};

/// Numbers of epochs that the default plan chooses from.
const EPOCHS: [u64; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// So much noise, over that of steps on all records, is worth passes that are saved. A choice.
const WORTH: f64 = 1.25;

/// A plan for w <- w + v, v <- beta v - eta_t g_t, where g_1 + ... + g_t are released prefix sums of mean gradients of slices. It states
/// no bound on the gradient.
///
/// # Formula
/// The records are cut by position into m slices of n/m records, rounded down or up; step t reads slice t mod m, so every record takes part
/// once in each of k epochs, any two of its steps m apart. With S_t the sum of the clipped mean gradients so far the steps
/// release S_t + N_t, N the noise of a period of prefix sums, and g_t is the difference of two releases. eta_t is eta, and falls on a line
/// over the last steps where there is a cool-down.
///
/// # Privacy
/// One Gaussian release of multiplier z = 1/mu for each record, exactly mu-GDP, for repeated participation: no sampling, and no
/// assumption on the order. With a sampling rate, k Poisson-sampled Gaussian releases for each slice, where no band is longer than m, or
/// random allocations of its records to its steps. Momentum, cool-down and the choice of g_t are a public linear map of the releases. Needs fixed positions, so not
/// under add-remove. (`docs/privacy/sums.md`.)
///
/// # Complexity
/// k passes; memory O(band d) and as much time a step, for the noise.
#[derive(Debug, Clone, PartialEq)]
pub struct DpMfPlan {
    terms: Terms,
    schedule: DpMfSchedule,
    accountant: Option<Accountant>,
    /// What Poisson samples at the same rate and steps would need, where others are drawn.
    poisson: Option<NoiseMultiplier>,
}

/// What may be chosen of a [`DpMfPlan`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DpMfSettings {
    /// How often each slice is read.
    pub epochs: u64,
    /// Records of a slice, at least; the n/batch slices, rounded down, share what is left over.
    pub batch: u64,
    /// Probability with which a record of the slice enters a step; none: all do.
    pub sampling_rate: Option<SamplingRate>,
    /// How these samples are drawn.
    pub batches: Batches,
    /// Bands of the factor; none: as many as an epoch has steps, which is best or nearly so, within what memory allows.
    pub band: Option<u64>,
    /// Step size.
    pub step_size: f64,
    /// Heavy-ball momentum.
    pub momentum: f64,
    /// Share of the steps, at the end, over which the step size falls to zero. The factor is searched for it, as for the momentum.
    pub cool_down: f64,
    /// Per-record clip radius.
    pub clip: f64,
}

impl DpMfPlan {
    /// The default plan for generalised linear losses and networks.
    ///
    /// # Formula
    /// C, eta, momentum and horizon q as [`DpSgdPlan`](crate::DpSgdPlan). Noise along a flat direction at the end is kappa (taken for 1 where it is less) times that of
    /// as many steps on all records, at the same horizon; so T = (1 - 0.9) q/kappa, in k epochs of m steps, at most `max_steps`.
    /// kappa depends on the bands that 2^26 numbers allow in so many dimensions, and falls as k grows: k is the least of 1, 2, 3, 4, 6, 8, 12, ..., 128 for which it is at most 1.25 (with the square root of
    /// the workload as the factor), or that with the least kappa. Then the coefficients of the factor, of as many bands as an epoch has steps,
    /// are searched for the least mean squared error of the points. (Ours; `docs/solvers.md`.)
    ///
    /// # Complexity
    /// The search takes tens of milliseconds for a thousand steps, in proportion to their number.
    ///
    /// # Errors
    /// [`PlanError`]; [`PlanError::NeedsPositions`] under add-remove.
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::in_units(facts, facts, budget, max_steps)
    }

    /// As [`DpMfPlan::new`], with the constants of `units` in the rule: of a loss that has none
    /// ([`ExtraFacts::units`](dpopt_solver::ExtraFacts::units)).
    ///
    /// # Errors
    /// As [`DpMfPlan::new`].
    pub fn in_units(
        facts: &PublicFacts,
        units: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        PlanError::positions(SOLVER, (facts.adjacency, facts.records), |adjacency| {
            let fixed = |facts: &PublicFacts| PublicFacts {
                adjacency,
                ..*facts
            };
            let plan = Self::in_units(&fixed(facts), &fixed(units), budget, max_steps).ok()?;
            Some(plan.schedule.slices)
        })?;
        let Horizon {
            clip,
            step_size,
            plain_steps,
            ..
        } = Horizon::new(units, budget.mu()?.get())?;
        let (epochs, slices) = shape(plain_steps, max_steps.max(1), facts);
        let batch = (facts.records / slices).max(1);
        let settings = DpMfSettings {
            epochs,
            // Where slices so short are more of them than were asked for, longer ones.
            batch: batch + u64::from(facts.records / batch > slices),
            sampling_rate: None,
            batches: Batches::Poisson,
            band: None,
            step_size,
            momentum: MOMENTUM,
            cool_down: COOL_DOWN,
            clip,
        };
        Self::with_settings(facts, budget, settings, max_steps)
    }

    /// The default plan on Poisson samples of slices.
    ///
    /// # Formula
    /// As [`DpMfPlan::new`] and in as many passes as [`DpSgdPlan`](crate::DpSgdPlan): a step reads 1.5 mu/sqrt(T) of all records in expectation.
    /// With m slices and as many bands the rate within a slice is m times that: more bands, less noise at a multiplier, and a larger multiplier.
    /// m is the power of two, or the largest number, with the least noise along a flat direction at the end; m = 1 is DP-SGD.
    ///
    /// # Errors
    /// As [`DpMfPlan::new`].
    pub fn sampled(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::sampled_in_units(facts, facts, budget, max_steps)
    }

    /// As [`DpMfPlan::sampled`], with the constants of `units` in the rule.
    ///
    /// # Errors
    /// As [`DpMfPlan::new`].
    pub fn sampled_in_units(
        facts: &PublicFacts,
        units: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        PlanError::positions(DP_MF_SAMPLED.name, (facts.adjacency, facts.records), |_| {
            Some(1)
        })?;
        let Horizon {
            clip,
            step_size,
            plain_steps,
            ..
        } = Horizon::new(units, budget.mu()?.get())?;
        let wanted = (1.0 - MOMENTUM) * plain_steps / (1.0 - COOL_DOWN / 2.0);
        let shape = sampled::shape(facts, budget, wanted, max_steps)?;
        let settings = DpMfSettings {
            epochs: shape.cycles,
            batch: facts.records / shape.slices,
            sampling_rate: Some(shape.rate),
            batches: Batches::Poisson,
            band: None,
            step_size,
            momentum: MOMENTUM,
            cool_down: COOL_DOWN,
            clip,
        };
        Self::with_slices(facts, budget, settings, (shape.slices, max_steps))
    }

    /// The same plan with samples that are drawn so, and the noise that they need: in whole allocations over 1/rate steps on each slice, rounded. A plan of
    /// Poisson samples stays as it is; another one says what noise they would need at the same steps and rate.
    ///
    /// # Errors
    /// [`PlanError::LargestBatchOfSlice`] for a largest batch, and [`PlanError::BadFact`] for slices without samples, which have no batches to
    /// draw; what accountants refuse.
    pub fn with_batches(self, batches: Batches) -> Result<Self, PlanError> {
        let old = self.schedule;
        if batches == old.batches {
            return Ok(self);
        }
        let Some(rate) = old.sampling_rate else {
            return Err(PlanError::BadFact {
                name: "sampling_rate",
                value: 0.0,
            });
        };
        let (cycles, rate) = batches.fitted(old.epochs, rate)?;
        let settings = DpMfSettings {
            epochs: cycles,
            batch: 0,
            sampling_rate: Some(rate),
            batches,
            band: old.band().map(|band| band.min(old.slices)),
            step_size: old.step_size,
            momentum: old.momentum,
            cool_down: old.cool_down,
            clip: old.clip,
        };
        Self::with_slices(
            self.facts(),
            self.budget(),
            settings,
            (old.slices, old.steps()),
        )
    }

    /// A plan with given settings, of at most `max_steps` steps; the noise is calibrated to the budget, and the coefficients of the
    /// factor are searched.
    ///
    /// # Errors
    /// [`PlanError::NeedsPositions`] under add-remove; [`PlanError::BadFact`] and [`PlanError::Contradiction`] for numbers that no run
    /// can have: no epoch, a batch of no or too many records, a band of no diagonal or of more than there are steps (with samples, than an
    /// epoch has; or [`TunedFactor::MAX_BAND`]), a momentum or cool-down outside of its range; [`PlanError::TooFewSteps`] where the
    /// slices of all epochs are more than `max_steps`.
    pub fn with_settings(
        facts: &PublicFacts,
        budget: &Budget,
        settings: DpMfSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let batch = settings.batch;
        PlanError::positive("batch", batch as f64)?;
        at_most("batch", batch as f64, ("records", facts.records as f64))?;
        Self::with_slices(facts, budget, settings, (facts.records / batch, max_steps))
    }

    /// The same with so many slices, whatever the batch is.
    fn with_slices(
        facts: &PublicFacts,
        budget: &Budget,
        settings: DpMfSettings,
        (slices, max_steps): (u64, u64),
    ) -> Result<Self, PlanError> {
        facts.check_clipped()?;
        let DpMfSettings {
            epochs,
            sampling_rate,
            batches,
            band,
            step_size,
            momentum,
            cool_down,
            clip,
            ..
        } = settings;
        if let Batches::AtMost(most) = batches {
            return Err(PlanError::LargestBatchOfSlice {
                solver: DP_MF_SAMPLED.name,
                most,
            });
        }
        PlanError::positive("epochs", epochs as f64)?;
        for (name, value) in [("momentum", momentum), ("cool_down", cool_down)] {
            if value.is_nan() || value < 0.0 {
                return Err(contradiction(name, value, ("the least", 0.0)));
            }
        }
        if momentum >= 1.0 {
            return Err(contradiction("momentum", momentum, ("its limit", 1.0)));
        }
        at_most("cool_down", cool_down, ("the largest", 1.0))?;
        let solver = if sampling_rate.is_some() {
            DP_MF_SAMPLED.name
        } else {
            SOLVER
        };
        PlanError::positions(solver, (facts.adjacency, facts.records), |_| Some(slices))?;
        let needed = epochs.saturating_mul(slices);
        check(needed, step_size, momentum, clip)?;
        if needed > max_steps || needed > PrefixNoise::MAX_LEN {
            return Err(PlanError::TooFewSteps {
                solver,
                needed,
                most: max_steps.min(PrefixNoise::MAX_LEN),
            });
        }
        if let Some(band) = band {
            PlanError::positive("band", band as f64)?;
            at_most("band", band as f64, ("the number of steps", needed as f64))?;
            let widest = TunedFactor::MAX_BAND;
            at_most("band", band as f64, ("the widest", widest as f64))?;
            if sampling_rate.is_some() {
                // A record's samples are apart only where its bands don't meet.
                let limit = ("the number of slices", slices as f64);
                at_most("band", band as f64, limit)?;
            }
        }
        let band = band.unwrap_or_else(|| bands(slices, facts.dim));
        let workload = Workload {
            epochs,
            slices,
            momentum,
            cool_down,
            sampled: sampling_rate.is_some(),
        };
        let calibrated = |batches, rate| {
            let event = |z| sampled::event(z, (batches, rate), epochs);
            budget.calibrated(facts.adjacency, event)
        };
        let (accountant, noise_multiplier) = match sampling_rate {
            None => (None, NoiseMultiplier::new(1.0 / budget.mu()?.get())?),
            Some(rate) => {
                let (name, z) = calibrated(batches, rate)?;
                (Some(name), z)
            }
        };
        let poisson = match sampling_rate {
            Some(rate) if batches != Batches::Poisson => {
                Some(calibrated(Batches::Poisson, rate)?.1)
            }
            _ => None,
        };
        // What the search finds is a factor.
        let factor = workload.tuned(band).factor();
        let schedule = DpMfSchedule {
            epochs,
            slices,
            sampling_rate,
            batches,
            factor: factor.map_or(PrefixKind::Banded { band }, PrefixKind::Tuned),
            step_size,
            momentum,
            cool_down,
            clip,
            noise_multiplier,
            output: OutputRule::Last,
        };
        Ok(Self {
            accountant,
            poisson,
            ..Self::by_hand(facts, budget, schedule)
        })
    }

    /// A plan with another schedule, whose noise nobody calibrated. One that no run can have is refused when it is walked.
    #[must_use]
    pub fn by_hand(facts: &PublicFacts, budget: &Budget, schedule: DpMfSchedule) -> Self {
        let records = facts.records;
        let batch = schedule.records_of(schedule.slices, records);
        let none = || Schedule::new(records).spend();
        let spend = schedule.spend(records).unwrap_or_else(none);
        let read = schedule.epochs as f64 * records as f64;
        let (access, gradients) = match schedule.sampling_rate {
            None => (Access::Epochs { batch }, read),
            Some(rate) => {
                let slice = batch;
                let access = match schedule.batches {
                    Batches::Allocated => Access::AllocatedEpochs {
                        slice,
                        steps: Batches::epoch(rate).steps,
                    },
                    _ => Access::SampledEpochs { slice, rate },
                };
                (access, read * rate.get())
            }
        };
        Self {
            terms: Terms::new(facts, budget, schedule.steps(), spend)
                .with_gradients(gradients)
                .with_clip(schedule.clip)
                .with_access(access)
                .with_unread(records)
                .with_output(schedule.output),
            schedule,
            accountant: None,
            poisson: None,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &DpMfSchedule {
        &self.schedule
    }

    /// Who calibrated the multiplier to samples; none without them, and for a plan by hand.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Noise standard deviation per coordinate of the mean of all steps' gradients; none for a schedule that no run can have.
    #[must_use]
    pub fn mean_noise_std(&self) -> Option<f64> {
        let (schedule, facts) = (&self.schedule, self.facts());
        let steps = schedule.steps();
        let variance = schedule.noise().ok()?.variance(steps)?;
        let share = schedule.period(facts.records).ok()?.share.get();
        let unit = schedule.noise_multiplier.get() * facts.adjacency.sum_sensitivity() * share;
        Some(unit * variance.sqrt() / steps as f64)
    }
}

impl Plan for DpMfPlan {
    fn name(&self) -> &'static str {
        match self.schedule.sampling_rate {
            None => SOLVER,
            Some(_) => DP_MF_SAMPLED.name,
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let steps = schedule.steps();
        let band = schedule.band();
        let batch = schedule.records_of(schedule.slices, self.facts().records);
        let mut items = vec![
            Item::count("steps", steps),
            Item::count("epochs", schedule.epochs),
            Item::count("slices", schedule.slices),
            Item::count("batch", batch),
            Item::word("factor", schedule.factor),
        ];
        let rate = schedule.sampling_rate;
        items.extend(rate.map(|rate| Item::ratio("sampling_rate", rate.get())));
        items.extend(band.map(|band| Item::count("band", band.min(steps))));
        items.extend([
            Item::number("step_size", schedule.step_size, Unit::STEP_SIZE),
            Item::ratio("momentum", schedule.momentum),
            Item::ratio("cool_down", schedule.cool_down),
            Item::number("clip", schedule.clip, Unit::GRADIENT),
            Item::ratio("noise_multiplier", schedule.noise_multiplier.get()),
            Item::maybe("mean_noise_std", self.mean_noise_std(), Unit::GRADIENT),
        ]);
        items.extend(
            self.poisson
                .map(|z| Item::ratio("poisson_noise_multiplier", z.get())),
        );
        items.extend(self.accountant.map(|name| Item::word("accountant", name)));
        items.push(Item::word("output", schedule.output));
        items
    }

    fn needs(&self) -> Offers {
        Offers::MEANS | Offers::PERIODS
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let (schedule, records) = (&self.schedule, self.facts().records);
        let refuse = |name, value| RunError::Schedule {
            solver: self.name(),
            name,
            value,
        };
        if schedule.slices > records {
            return Err(refuse("number of slices", schedule.slices as f64));
        }
        if !(0.0..1.0).contains(&schedule.momentum) {
            return Err(refuse("momentum", schedule.momentum));
        }
        if !(0.0..=1.0).contains(&schedule.cool_down) {
            return Err(refuse("cool-down", schedule.cool_down));
        }
        if !(schedule.step_size > 0.0 && schedule.step_size.is_finite()) {
            return Err(refuse("step size", schedule.step_size));
        }
        let steps = schedule.steps();
        let clip = ClipNorm::new(schedule.clip).map_err(RunError::Clip)?;
        let noise = schedule.noise().map_err(|why| match why {
            PrefixError::BandsMeet { band, .. } => refuse("number of bands", band as f64),
            _ => refuse("number of steps", steps as f64),
        })?;
        Ok(Box::new(Epochs::new(
            schedule,
            (schedule.period(records).map_err(RunError::Clip)?, clip),
            records,
            noise,
            start.len(),
        )))
    }
}

/// Epochs and steps of an epoch for a horizon of so many plain steps.
fn shape(plain_steps: f64, max_steps: u64, facts: &PublicFacts) -> (u64, u64) {
    let max_steps = max_steps.min(PrefixNoise::MAX_LEN);
    let wanted = (1.0 - MOMENTUM) * plain_steps / (1.0 - COOL_DOWN / 2.0);
    let mut best = (1, 1, f64::INFINITY);
    for epochs in EPOCHS.into_iter().filter(|&epochs| epochs <= max_steps) {
        let most = (max_steps / epochs).min(facts.records);
        let mut relative = 1.0;
        let mut slices = 1;
        // kappa changes with the logarithm of the number of steps.
        for _ in 0..3 {
            let ideal = (wanted / (relative * epochs as f64)).round();
            slices = (ideal as u64).clamp(1, most.max(1));
            let workload = Workload {
                epochs,
                slices,
                momentum: MOMENTUM,
                cool_down: COOL_DOWN,
                sampled: false,
            };
            let band = bands(slices, facts.dim);
            let error = workload.error(&Knots::square_root(band, MOMENTUM));
            relative = workload.relative(&error).max(1.0);
        }
        if relative < best.2 {
            best = (epochs, slices, relative);
        }
        // More epochs than the horizon has steps are a longer walk, and a noisier one.
        if relative <= WORTH || epochs as f64 >= wanted {
            break;
        }
    }
    (best.0, best.1)
}

fn at_most(name: &'static str, value: f64, limit: (&'static str, f64)) -> Result<(), PlanError> {
    if value <= limit.1 {
        return Ok(());
    }
    Err(contradiction(name, value, limit))
}

fn contradiction(
    name: &'static str,
    value: f64,
    (limit_name, limit): (&'static str, f64),
) -> PlanError {
    PlanError::Contradiction {
        name,
        value,
        limit_name,
        limit,
    }
}
