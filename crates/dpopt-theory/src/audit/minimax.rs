//! Audits of the solvers of saddle problems: replays on hostile records, the transcript meter, a test between two worlds, and twins.

use std::sync::Arc;

use dpopt_linalg::{distance, dot, norm};
use dpopt_minimax::{
    Allowance, Budget, GdaSchedule, NoObserver, PassEstimate, Plan, PlanError, RgdaAnytimePlan,
    RgdaAnytimeSettings, RgdaPassPlan, RgdaPassSchedule, RgdaPlan, SAMPLED_RGDA, SGDA, SOLVERS,
    SaddleFacts, SaddleLimits, SaddleSolver, SampledRgdaSchedule, SgdaPlan,
};
use dpopt_oracle::PrivateData;
use dpopt_privacy::{Accountant, Adjacency, Curator, PrefixKind};

use super::common::{DELTA, RELATIONS, budget, claim_of, noise};
use super::hostile::{private, with_canary};
use super::hostile_saddle::{constants, facts, means, saddle_pairs};
use super::solvers::{some_of, walk};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, Registry, Statistic,
    TranscriptMeter, Watched, WatchedKind, WatchedRelease, World, hostile_pairs,
};

const RECORDS: usize = 8;
/// d1 and d2 of replays.
const DIMS: (usize, usize) = (3, 2);

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for solver in SOLVERS {
            let limits = SaddleLimits::steps(1000);
            let (records, plan): (_, Arc<dyn Plan>) = if solver.positions {
                (12, Arc::new(pass_by_hand(solver.name, adjacency)?))
            } else if *solver == &SAMPLED_RGDA {
                // A sample of fixed size is of as many records as there are.
                (RECORDS, Arc::new(on_samples(adjacency, 3)?))
            } else {
                let planned =
                    |facts: &SaddleFacts, budget: &Budget| solver.plan(facts, budget, &limits);
                (RECORDS, Arc::from(smallest(adjacency, planned)?))
            };
            let accepted = !solver.positions || adjacency.record_count_is_public();
            registry.add(replay(plan, (adjacency, records)).refused_unless(accepted));
        }
        registry.add(TranscriptMeter::saddle(adjacency));
    }
    canary(registry)?;
    for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
        registry.add(on_samples_canary(&SAMPLES[0], adjacency, 1.0)?);
    }
    registry.add(on_samples_canary(&SAMPLES[1], Adjacency::ReplaceOne, 1.0)?);
    for of in &SAMPLES {
        let twin = on_samples_canary(of, Adjacency::ReplaceOne, 0.25)?;
        registry.add(twin.control());
    }
    Ok(())
}

/// The plan for the fewest records that there is one for: dozens of releases, and not thousands.
fn smallest<P>(
    adjacency: Adjacency,
    planned: impl Fn(&SaddleFacts, &Budget) -> Result<P, PlanError>,
) -> Result<P, CheckError> {
    let budget = budget(1.0)?;
    let mut records = 50;
    while records < 10_000_000 {
        match planned(&facts(adjacency, records, DIMS), &budget) {
            Ok(plan) => return Ok(plan),
            Err(PlanError::VacuousSaddle { .. } | PlanError::Unaffordable { .. }) => {
                records += records / 4;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err("no number of records has a plan".into())
}

/// Two periods of two steps of x, on as many records as there are.
fn on_samples(adjacency: Adjacency, batch: u64) -> Result<RgdaPlan, CheckError> {
    let schedule = SampledRgdaSchedule {
        scale: 2.0,
        target: 1e-9,
        steps: 4,
        inner: 2,
        before: 2,
        period: 2,
        batch,
        anchor: noise(4.0)?,
        variation: noise(1.0)?,
    };
    let facts = facts(adjacency, RECORDS as u64, DIMS);
    let allowance = Allowance::all(&budget(1.0)?);
    Ok(RgdaPlan::sampled_by_hand(&facts, &allowance, schedule)?)
}

/// Two periods of two steps of x each, anchors of two records and changes of one to three, and more than there are records for.
fn pass_by_hand(name: &str, adjacency: Adjacency) -> Result<RgdaPassPlan, CheckError> {
    let estimates = [
        PassEstimate::Chain,
        PassEstimate::Prefix(PrefixKind::Toeplitz),
        PassEstimate::Rounds,
    ];
    let of = estimates.into_iter().find(|of| of.solver() == name);
    let schedule = RgdaPassSchedule {
        estimate: of.ok_or("a pass without a plan by hand")?,
        scale: 1.0,
        inner: 1,
        before: 1,
        period: 2,
        periods: 5,
        length: 0.05,
        anchor_batch: 2,
        rate: 20.0,
        noise_multiplier: noise(4.0)?,
    };
    let facts = facts(adjacency, 12, DIMS);
    Ok(RgdaPassPlan::by_hand(&facts, &budget(1.0)?, schedule)?)
}

/// The law of all solvers, on joint fields.
fn replay(
    plan: Arc<dyn Plan>,
    (adjacency, records): (Adjacency, usize),
) -> CuratorReplay<Vec<Hostile>> {
    CuratorReplay::new(
        &format!("{}/replay/{adjacency}", plan.name()),
        plan.name(),
        adjacency,
        move |_| {
            let mut all = hostile_pairs(adjacency, records);
            all.extend(saddle_pairs(adjacency, records, DIMS));
            some_of(all)
        },
        move |curator, hostile: &Vec<Hostile>| {
            let data = private(hostile, adjacency, records)?;
            let means = means(&data, &*plan, curator)?;
            Ok(walk(&*plan, means))
        },
    )
}

/// One record at epsilon 1, present or not, by the likelihood ratio of all means that a run releases: the record points elsewhere at every point, so
/// that it adds as much as it may to changes too.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::AddRemove;
    let budget = budget(1.0)?;
    let crowd = 3000;
    let facts = facts(adjacency, crowd, (1, 1));
    let plan = RgdaAnytimePlan::new(&facts, &budget, RgdaAnytimeSettings::new(1000))?;
    let claim = Claim::gaussian(plan.mu(), DELTA)?;
    // Longer than its clip.
    let canary = Hostile::new(Behaviour::Hashed, 10.0);
    let score = move |world: World, seed: u64| {
        let records = with_canary(world, adjacency, vec![Hostile::nothing()], canary);
        let data = PrivateData::made_up_of(records, adjacency, Some(crowd))?;
        let mut watched = Watched::new(means(&data, &plan, Curator::simulated(adjacency, seed))?);
        plan.run(&mut watched, &mut NoObserver)?;
        let all = watched.releases().iter();
        let of_means = all.filter(|r| r.kind == WatchedKind::Mean);
        Ok(of_means
            .map(|release| {
                let mut added = contribution(&canary, release, plan.scale());
                added.iter_mut().for_each(|x| *x /= crowd as f64);
                let fit = dot(&added, &release.released) - 0.5 * dot(&added, &added);
                fit / release.deviation.powi(2)
            })
            .sum())
    };
    let name = format!("rgda-anytime/canary/{adjacency}");
    let target = Canary::new(&name, "rgda-anytime", claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000).at_least(0.3));
    Ok(())
}

/// Public number of records of canaries on samples.
const CROWD: u64 = 50;

/// A plan on samples with its noise times a factor, and the rates at which its fields and its changes read a record.
struct OnSamples {
    solver: &'static SaddleSolver,
    accountant: Accountant,
    plan: fn(Adjacency, f64) -> Result<Box<dyn Plan>, CheckError>,
    rates: fn(&dyn Plan) -> (f64, f64),
}

/// Poisson samples with the noise of the planner; samples of a fixed size (under replace-one), beside anchors on all.
const SAMPLES: [OnSamples; 2] = [
    OnSamples {
        solver: &SGDA,
        accountant: Accountant::Exact,
        plan: |adjacency, factor| {
            let facts = facts(adjacency, CROWD, (1, 1));
            let allowance = Allowance::all(&budget(1.0)?);
            let mut limits = SaddleLimits::steps(1000);
            limits.exact_steps = Some(16);
            let plan = SgdaPlan::new(&facts, &allowance, &limits)?;
            let noise_multiplier = noise(factor * plan.schedule().noise_multiplier.get())?;
            let schedule = GdaSchedule {
                noise_multiplier,
                ..*plan.schedule()
            };
            let rate = plan.sampling_rate();
            Ok(Box::new(SgdaPlan::by_hand(
                &facts, &allowance, schedule, rate,
            )))
        },
        rates: |plan| {
            let rate = plan.gradients() / (plan.steps() * CROWD) as f64;
            (rate, rate)
        },
    },
    OnSamples {
        solver: &SAMPLED_RGDA,
        accountant: Accountant::Pld,
        plan: |adjacency, factor| {
            let facts = facts(adjacency, CROWD, (1, 1));
            let schedule = SampledRgdaSchedule {
                scale: 2.0,
                target: 1e-9,
                steps: 4,
                inner: 2,
                before: 2,
                period: 2,
                batch: CROWD / 10,
                anchor: noise(10.0 * factor)?,
                variation: noise(1.5 * factor)?,
            };
            let allowance = Allowance::all(&budget(1.0)?);
            let plan = RgdaPlan::sampled_by_hand(&facts, &allowance, schedule)?;
            Ok(Box::new(plan))
        },
        rates: |_| (1.0, 0.1),
    },
];

/// One record that is there or not (another one under replace-one) in releases on samples, by their likelihood ratio: that of mixtures.
fn on_samples_canary(
    of: &'static OnSamples,
    adjacency: Adjacency,
    factor: f64,
) -> Result<Canary, CheckError> {
    let claim = claim_of(&*(of.plan)(adjacency, 1.0)?, adjacency)?;
    let plan = (of.plan)(adjacency, factor)?;
    let scale = plan.blocks().ok_or("no blocks")?.scale;
    let in_place = adjacency.record_count_is_public();
    let (fresh, change) = (of.rates)(&*plan);
    let canary = Hostile::new(Behaviour::Hashed, 10.0);
    let score = move |world: World, seed: u64| {
        let others = if in_place { CROWD as usize - 1 } else { 1 };
        let others = vec![Hostile::nothing(); others];
        let records = with_canary(world, adjacency, others, canary);
        let data = PrivateData::made_up_of(records, adjacency, (!in_place).then_some(CROWD))?;
        let mut watched = Watched::new(means(&data, &*plan, Curator::simulated(adjacency, seed))?);
        plan.run(&mut watched, &mut NoObserver)?;
        let ratio = |release: &WatchedRelease| {
            let rate = if release.from.is_none() {
                fresh
            } else {
                change
            };
            let mut added = contribution(&canary, release, scale);
            let records = rate * CROWD as f64;
            added.iter_mut().for_each(|x| *x /= records);
            let mixed = |sign: f64| {
                let fit = sign * dot(&added, &release.released) - 0.5 * dot(&added, &added);
                (1.0 - rate + rate * (fit / release.deviation.powi(2)).exp()).ln()
            };
            mixed(1.0) - if in_place { mixed(-1.0) } else { 0.0 }
        };
        Ok(watched.releases().iter().map(ratio).sum())
    };
    let statistic = Statistic::Family {
        event: Box::new(move |factor| Ok((of.plan)(adjacency, factor)?.spend().event().clone())),
        accountant: of.accountant,
        adjacency,
    };
    let (name, control) = (of.solver.name, factor < 1.0);
    let twin = if control {
        "-with-too-little-noise"
    } else {
        ""
    };
    let title = format!("{name}/canary{twin}/{adjacency}");
    let target = Canary::new(&title, name, claim, statistic, score).with_runs(80_000, 600_000);
    Ok(if control {
        target
    } else {
        target.at_least(0.3)
    })
}

/// What a record adds to a sum of joint gradients, or of their changes, in two dimensions.
fn contribution(record: &Hostile, release: &WatchedRelease, scale: f64) -> Vec<f64> {
    let of = constants();
    let clip = of.clip(scale);
    let clipped = |mut v: Vec<f64>, radius: f64| {
        let length = norm(&v);
        if length > radius {
            v.iter_mut().for_each(|x| *x *= radius / length);
        }
        v
    };
    let field = |point: &[f64]| {
        let mut out = vec![0.0; 2];
        record.add_gradient(&[point[0], scale * point[1]], &mut out);
        out[1] *= scale;
        clipped(out, clip)
    };
    let new = field(&release.point);
    let Some(from) = &release.from else {
        return new;
    };
    let change = new.iter().zip(field(from)).map(|(a, b)| a - b).collect();
    let reach = of.smoothness(scale) * distance(from, &release.point);
    clipped(change, reach.min(2.0 * clip))
}
