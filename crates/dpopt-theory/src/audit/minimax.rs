//! Audits of the solvers of saddle problems: the law that each reservation covers its walk, and a
//! canary.

use std::sync::Arc;

use dpopt_linalg::{distance, dot, norm};
use dpopt_minimax::{
    Allowance, Budget, GDA, NoObserver, PassEstimate, Plan, PlanError, RgdaAnytimePlan,
    RgdaAnytimeSettings, RgdaPassPlan, RgdaPassSchedule, RgdaPlan, SAMPLED_RGDA, SOLVERS,
    SaddleFacts, SaddleLimits, SampledRgdaSchedule,
};
use dpopt_oracle::PrivateData;
use dpopt_privacy::{Adjacency, Curator, PrefixKind};

use super::common::{DELTA, RELATIONS, budget, noise};
use super::hostile::{private, with_canary};
use super::hostile_saddle::{constants, facts, means, saddle_pairs};
use super::solvers::{some_of, walk};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, Registry, Statistic, Watched,
    WatchedKind, WatchedRelease, World, hostile_pairs,
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
    }
    canary(registry)
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

/// Two periods of two steps of x each, anchors of two records and changes of one to three, and more
/// than there are records for.
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
    let whole = plan.name() == GDA.name;
    CuratorReplay::new(
        &format!("{}/replay/{adjacency}", plan.name()),
        plan.name(),
        adjacency,
        move |_| {
            let mut all = hostile_pairs(adjacency, records);
            all.extend(saddle_pairs(adjacency, records, DIMS));
            // The joint fields themselves are audited on all pairs.
            if whole { all } else { some_of(all) }
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
