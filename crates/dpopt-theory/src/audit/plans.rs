//! A plan of every solver that is small enough to be audited: a dozen steps or so, at epsilon 1.

use std::num::NonZeroUsize;

use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings, Batches, Budget, ConvexFacts,
    DpAdamPlan, DpMfPlan, DpMfSchedule, DpMfSettings, DpSgdPlan, EnvelopePlan, Episode,
    EpisodeTerms, ExtraFacts, GoldsteinPeriod, GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings,
    HessianFacts, KlCondition, Limits, NoisyGdPlan, NormalizedSpiderPlan, NormalizedSpiderSchedule,
    Plan, ProximalFacts, ProximalPlan, ProximalReads, ProximalSchedule, ProximalSettings,
    PublicFacts, RecursiveGdPlan, RecursiveSgdPlan, SampledSpiderBoostPlan,
    SampledSpiderBoostSchedule, SecondOrderTargets, Solver, SospPlan, SospSettings,
    SpiderBoostPlan, SpiderBoostSchedule, StormPlan, StormSchedule, TreeSettings, TreeSpiderPlan,
    TreeSpiderSchedule, TreeTarget,
};
use dpopt_oracle::{Batch, Convexity, Momentum, SmoothedFields};
use dpopt_privacy::{Adjacency, NoiseMultiplier, SamplingRate};

use super::common::{DIM, budget, noise};
use crate::checks::CheckError;

/// Steps of most plans.
const STEPS: u64 = 12;
/// Records of runs that don't read slices.
pub(super) const FEW: u64 = 8;
/// Records of runs on slices.
pub(super) const MANY: u64 = 14;
const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
/// Schedules are made for so many dimensions at most: bounds are of no interest, and costs don't depend on them.
const PLANNED_DIMS: usize = 8;

/// Facts of a large problem, so that plans are not vacuous. What a run costs doesn't depend on how many
/// records it reads, and audits read few.
pub(super) fn facts(adjacency: Adjacency, dim: usize) -> PublicFacts {
    PublicFacts {
        records: 100_000,
        dim,
        adjacency,
        lipschitz: 1.0,
        smoothness: 1.0,
        initial_gap: 0.5,
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    }
}

/// What the solver's own planner makes of all facts that one may ask for: the radius, and the number of steps at most, are given.
pub(super) fn with_all_facts(
    solver: &Solver,
    facts: &PublicFacts,
    budget: &Budget,
    (radius, steps): (f64, u64),
) -> Result<Box<dyn Plan>, CheckError> {
    let extra = ExtraFacts::default()
        .with_radius(radius)
        .with_kl(KlCondition::new(1.0, 1.5)?)
        .with_weak_convexity(0.1)
        .with_goldstein_radius(1.0)
        .with_hessian(HESSIANS);
    Ok(solver.plan(facts, &extra, budget, &Limits::steps(steps))?)
}

/// An adjacency that a planner for slices by position takes, where `adjacency` is none: whether the run refuses is audited.
pub(super) fn with_positions(adjacency: Adjacency) -> Adjacency {
    if adjacency.record_count_is_public() {
        adjacency
    } else {
        Adjacency::ReplaceOne
    }
}

/// The number of records that a plan of [`plan_of`] is run on.
pub(super) fn records_of(solver: &Solver) -> u64 {
    if solver.needs.positions { MANY } else { FEW }
}

/// A plan of this solver. One without a plan by hand here gets what its planner makes of all facts that a solver may ask for.
pub(super) fn plan_of(
    solver: &Solver,
    adjacency: Adjacency,
    dim: usize,
) -> Result<Box<dyn Plan>, CheckError> {
    let (all, few) = (
        facts(adjacency, dim),
        facts(adjacency, dim.min(PLANNED_DIMS)),
    );
    let budget = budget(1.0)?;
    Ok(match solver.name {
        "noisy-gd" => {
            let plan = NoisyGdPlan::momentum(&few, &budget, STEPS)?;
            Box::new(NoisyGdPlan::by_hand(&all, &budget, *plan.schedule()))
        }
        "noisy-gd-theory" => {
            let plan = NoisyGdPlan::theory(&few, &budget, STEPS)?;
            Box::new(NoisyGdPlan::by_hand(&all, &budget, *plan.schedule()))
        }
        "dp-sgd" => Box::new(dp_sgd(adjacency, dim)?),
        // Clips that go down to a twentieth.
        "dp-sgd-decay" => Box::new(dp_sgd(adjacency, dim)?.with_clip_decay(0.05)?),
        "dp-adam" => {
            let decaying = dp_sgd(adjacency, dim)?.with_clip_decay(0.05)?;
            Box::new(DpAdamPlan::on(decaying, 0.99, 1e-8, true)?)
        }
        "dp-mf" => Box::new(dp_mf(adjacency, dim, |_| {})?),
        "dp-mf-sampled" => {
            let rate = Some(SamplingRate::new(0.4)?);
            Box::new(dp_mf(adjacency, dim, |schedule| {
                schedule.sampling_rate = rate;
            })?)
        }
        "spiderboost" => Box::new(spider(adjacency, dim, 1.0)?),
        "normalized-spider" => {
            let z = of_each_step(&budget)?;
            let plan = NormalizedSpiderPlan::new(&few, &budget, STEPS)?;
            // Three phases, as of SpiderBoost, and steps of which some are under the floor.
            let schedule = NormalizedSpiderSchedule {
                phase: 4,
                steps: STEPS,
                step_length: 0.3,
                floor: 0.2,
                anchor_noise_multiplier: z,
                variation_noise_multiplier: z,
                ..*plan.schedule()
            };
            Box::new(NormalizedSpiderPlan::by_hand(&all, &budget, schedule))
        }
        "storm" => {
            let plan = StormPlan::new(&few, &budget, STEPS)?;
            let schedule = StormSchedule {
                momentum: Momentum::new(0.3)?,
                ..*plan.schedule()
            };
            Box::new(StormPlan::by_hand(&all, &budget, schedule))
        }
        "sampled-spiderboost" => Box::new(sampled(adjacency, dim)?),
        "tree-spider" => Box::new(tree(adjacency, dim, |_, _| {})?),
        "recursive-gd" => Box::new(stages(adjacency, dim, &[(4, 3), (5, 2), (4, 3)])?),
        "recursive-sgd" => {
            let convex = convex_facts(adjacency, dim, FEW);
            Box::new(RecursiveSgdPlan::with_growth(&convex, &budget, 4.0)?)
        }
        "proximal-point" => Box::new(proximal(adjacency, dim)?),
        "goldstein"
        | "goldstein-sampled"
        | "goldstein-pass"
        | "goldstein-zo"
        | "goldstein-zo-sampled"
        | "goldstein-zo-pass" => {
            let batch = match solver.name {
                _ if solver.needs.positions => Batch::Next(1),
                "goldstein" | "goldstein-zo" => Batch::All,
                _ => Batch::Poisson(SamplingRate::new(0.4)?),
            };
            Box::new(goldstein(&all, &budget, batch, solver.needs.values)?)
        }
        "goldstein-recursive" => {
            let plan = goldstein(&all, &budget, Batch::All, false)?;
            Box::new(in_periods(&plan))
        }
        "goldstein-envelope" => {
            // So that the averaged loss is 1-smooth, as hostile records are said to be.
            let base = spider(adjacency, dim, 1.0)?;
            let plan = EnvelopePlan::by_hand(&all, &budget, 1.0, Box::new(base))?;
            Box::new(plan)
        }
        "sosp" => Box::new(sosp(&all, &budget)?),
        // Each candidate is a saddle: a Hessian, and the gradient of its sign.
        "adaptive-batch" => {
            let many = PublicFacts {
                records: MANY,
                ..all
            };
            Box::new(one_pass(&many, &budget, |_| {})?)
        }
        _ => with_all_facts(solver, &all, &budget, (1.0, STEPS))?,
    })
}

/// rho and C_F of what is audited.
pub(super) const HESSIANS: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};

/// A plan for a certificate that says hardly anything: dozens of steps, and not thousands.
pub(super) fn sosp(facts: &PublicFacts, budget: &Budget) -> Result<SospPlan, CheckError> {
    let targets = SecondOrderTargets {
        gradient: 0.95 * facts.trivial_bound(),
        curvature: 0.95 * facts.smoothness,
    };
    let settings = SospSettings::new(1000).with_targets(targets);
    Ok(SospPlan::new(facts, &HESSIANS, budget, settings)?)
}

/// No number of an audit is as large.
pub(super) const ALWAYS: f64 = 1e9;

/// A plan by hand on 14 records, whose runs find no certificate: anchors over three records, periods of three estimates, two records for a
/// Hessian and for the gradient of each sign.
pub(super) fn one_pass(
    facts: &PublicFacts,
    budget: &Budget,
    change: impl FnOnce(&mut AdaptiveBatchSchedule),
) -> Result<AdaptiveBatchPlan, CheckError> {
    let settings = AdaptiveBatchSettings::new(100);
    let many = PublicFacts {
        records: 1_000_000,
        adjacency: Adjacency::ReplaceOne,
        dim: facts.dim.min(8),
        ..*facts
    };
    let planned = AdaptiveBatchPlan::new(&many, &HESSIANS, budget, settings)?;
    let mut schedule = AdaptiveBatchSchedule {
        targets: SecondOrderTargets {
            gradient: 0.5,
            curvature: -ALWAYS,
        },
        step_size: 0.3,
        anchor_batch: 3,
        variation: Batch::PerLength(3.0),
        period: 3,
        drift: 5.0,
        candidate: ALWAYS,
        hessian_batch: 2,
        norm_batch: 2,
        sign_batch: 2,
        operator: 0.0,
        ..*planned.schedule()
    };
    change(&mut schedule);
    Ok(AdaptiveBatchPlan::by_hand(
        facts, &HESSIANS, budget, settings, schedule,
    )?)
}

/// An episode of so many steps with noise of this deviation in a unit ball, in [`DIM`] dimensions; it proves nothing.
pub(super) fn episode(noise: f64, steps: u64) -> Result<Episode, CheckError> {
    let terms = EpisodeTerms {
        dim: DIM,
        smoothness: 1.0,
        curvature: 0.5,
        missed: 0.5,
        false_exit: 0.5,
    };
    Ok(Episode {
        noise,
        steps,
        ..Episode::cheapest(&terms, 0.1).ok_or("no episode to audit")?
    })
}

/// The noise multiplier of a plan that gives all of its steps equal shares.
fn of_each_step(budget: &Budget) -> Result<NoiseMultiplier, CheckError> {
    noise((STEPS as f64).sqrt() / budget.mu()?.get())
}

/// SpiderBoost in three phases of four steps, which share the budget equally: so long a plan has one phase for these
/// facts, and restarts are to be audited too.
pub(super) fn spider(
    adjacency: Adjacency,
    dim: usize,
    clip: f64,
) -> Result<SpiderBoostPlan, CheckError> {
    let budget = budget(1.0)?;
    let few = facts(adjacency, dim.min(PLANNED_DIMS));
    let z = of_each_step(&budget)?;
    let schedule = SpiderBoostSchedule {
        phase: 4,
        steps: STEPS,
        clip,
        anchor_noise_multiplier: z,
        variation_noise_multiplier: z,
        ..*SpiderBoostPlan::new(&few, &budget, STEPS)?.schedule()
    };
    let facts = facts(adjacency, dim);
    Ok(SpiderBoostPlan::by_hand(&facts, &budget, schedule))
}

/// DP-SGD on three records in ten.
pub(super) fn dp_sgd(adjacency: Adjacency, dim: usize) -> Result<DpSgdPlan, CheckError> {
    let (facts, rate) = (facts(adjacency, dim), SamplingRate::new(0.3)?);
    let budget = budget(1.0)?;
    Ok(DpSgdPlan::with_parameters(
        &facts, &budget, STEPS, rate, 0.5, 0.9, 1.0,
    )?)
}

/// DP-MF in three epochs of four steps, on slices of 4, 4, 3 and 3 of [`MANY`] records, or what becomes of it.
pub(super) fn dp_mf(
    adjacency: Adjacency,
    dim: usize,
    change: impl FnOnce(&mut DpMfSchedule),
) -> Result<DpMfPlan, CheckError> {
    let facts = PublicFacts {
        records: MANY,
        ..facts(with_positions(adjacency), dim)
    };
    let settings = DpMfSettings {
        epochs: 3,
        batch: 3,
        sampling_rate: None,
        batches: Batches::Poisson,
        band: None,
        step_size: 0.5,
        momentum: 0.9,
        cool_down: 0.3,
        clip: 1.0,
    };
    let budget = budget(1.0)?;
    let plan = DpMfPlan::with_settings(&facts, &budget, settings, STEPS)?;
    let mut schedule = *plan.schedule();
    change(&mut schedule);
    Ok(DpMfPlan::by_hand(&facts, &budget, schedule))
}

/// Three phases of four steps, variations on samples of two records.
fn sampled(adjacency: Adjacency, dim: usize) -> Result<SampledSpiderBoostPlan, CheckError> {
    let few = facts(adjacency, dim.min(PLANNED_DIMS));
    let facts = PublicFacts {
        records: FEW,
        ..facts(adjacency, dim)
    };
    let schedule = SampledSpiderBoostSchedule {
        steps: STEPS,
        phase: 4,
        batch: 2,
        anchor_noise_multiplier: noise(2.0)?,
        variation_noise_multiplier: noise(3.0)?,
        fixed_size: adjacency == Adjacency::ReplaceOne,
        ..*SampledSpiderBoostPlan::new(&few, &budget(1.0)?, STEPS)?.schedule()
    };
    Ok(SampledSpiderBoostPlan::by_hand(
        &facts,
        &budget(1.0)?,
        schedule,
    ))
}

/// Two rounds of four leaves on fourteen records, or what becomes of them.
pub(super) fn tree(
    adjacency: Adjacency,
    dim: usize,
    change: impl FnOnce(&mut TreeSettings, &mut TreeSpiderSchedule),
) -> Result<TreeSpiderPlan, CheckError> {
    let mut settings = TreeSettings::new(TreeTarget::Mean).even_if_vacuous();
    // Few records are planned for in no time, and the plan is replaced.
    let facts = PublicFacts {
        records: 100,
        ..facts(with_positions(adjacency), dim)
    };
    let budget = budget(1.0)?;
    let plan = TreeSpiderPlan::new(&facts, &budget, settings, 100)?;
    let mut schedule = TreeSpiderSchedule {
        rounds: 2,
        depth: 2,
        batches: vec![3, 2, 1],
        reach: 1.2,
        step_length: 0.3,
        noise_multiplier: noise(2.0)?,
        ..plan.schedule().clone()
    };
    change(&mut settings, &mut schedule);
    Ok(TreeSpiderPlan::by_hand(&facts, &budget, settings, schedule))
}

fn convex_facts(adjacency: Adjacency, dim: usize, records: u64) -> ConvexFacts {
    ConvexFacts {
        public: PublicFacts {
            records,
            convexity: Convexity::Convex,
            ..facts(with_positions(adjacency), dim)
        },
        radius: Some(1.0),
    }
}

/// Stages on slices of their own: records and steps of each.
pub(super) fn stages(
    adjacency: Adjacency,
    dim: usize,
    slices: &[(u64, u64)],
) -> Result<RecursiveGdPlan, CheckError> {
    let convex = convex_facts(adjacency, dim, 100_000);
    let budget = budget(1.0)?;
    let plan = RecursiveGdPlan::with_growth(&convex, &budget, 1 << 40, 2.0)?;
    let first = plan.stages().first().copied();
    let first = first.ok_or("a plan without stages")?;
    let stage = |&(records, steps): &(u64, u64)| {
        let mut stage = first;
        stage.outline.records = records;
        stage.outline.weight = 0.5;
        stage.outline.radius = 0.8;
        stage.steps = steps;
        stage.step_size = 0.3;
        stage.noise_multiplier = noise(2.0 * (steps as f64).sqrt())?;
        Ok(stage)
    };
    let stages = slices
        .iter()
        .map(stage)
        .collect::<Result<_, CheckError>>()?;
    let outline = plan.outline().clone();
    Ok(RecursiveGdPlan::by_hand(&convex, &budget, outline, stages))
}

/// Blocks of a walk of so many steps, some as long as the cap; from slopes along two shared
/// directions, or from gradients.
fn goldstein(
    facts: &PublicFacts,
    budget: &Budget,
    batch: Batch,
    from_values: bool,
) -> Result<GoldsteinPlan, CheckError> {
    let (cap, block) = (0.3, 4);
    let schedule = GoldsteinSchedule {
        steps: STEPS,
        block,
        cap,
        step_size: 0.4,
        smoothing: 0.1,
        batch,
        directions: from_values.then_some(TWO),
        period: None,
        clip: facts.lipschitz,
        noise_multiplier: of_each_step(budget)?,
    };
    let settings = GoldsteinSettings::at_radius(cap * block as f64);
    Ok(GoldsteinPlan::by_hand(facts, budget, &settings, schedule))
}

/// The same walk in periods of four steps, two offsets and frames for all records.
fn in_periods(plan: &GoldsteinPlan) -> GoldsteinPlan {
    let schedule = plan.schedule();
    let period = GoldsteinPeriod {
        len: 4,
        changes: Batch::All,
        prefix: None,
        noise_multiplier: schedule.noise_multiplier,
        lipschitz: schedule.clip,
        fields: SmoothedFields::Gradients,
        offsets: TWO,
        frames: TWO,
    };
    let schedule = GoldsteinSchedule {
        // Some moves are as long as changes are clipped to in any case, and most are not.
        smoothing: 0.5,
        period: Some(period),
        ..*schedule
    };
    GoldsteinPlan::by_hand(plan.facts(), plan.budget(), plan.settings(), schedule)
}

/// Three rounds of four steps of a plan for a large problem, on all records.
fn proximal(adjacency: Adjacency, dim: usize) -> Result<ProximalPlan, CheckError> {
    let facts = ProximalFacts {
        public: PublicFacts {
            smoothness: f64::INFINITY,
            ..facts(adjacency, dim)
        },
        condition: KlCondition::new(1.0, 3.0)?,
        weak_convexity: Some(0.1),
        failure: 0.05,
        region: None,
    };
    let planned_for = ProximalFacts {
        public: PublicFacts {
            dim: dim.min(PLANNED_DIMS),
            ..facts.public
        },
        ..facts
    };
    let budget = budget(1.0)?;
    let settings = ProximalSettings::new(1 << 40).reading(ProximalReads::Everything);
    let plan = ProximalPlan::with_settings(&planned_for, &budget, settings)?;
    let mut schedule = ProximalSchedule {
        sampling_rate: None,
        noise_multiplier: of_each_step(&budget)?,
        ..plan.schedule().clone()
    };
    schedule.rounds.truncate(3);
    for round in &mut schedule.rounds {
        round.steps = STEPS / 3;
    }
    Ok(ProximalPlan::by_hand(&facts, &budget, schedule))
}
