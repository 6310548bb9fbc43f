//! Audits of solvers end to end: the law that each reservation covers its walk, and canaries.

use std::ops::ControlFlow;
use std::sync::Arc;

use dpopt_nonconvex::{DpSgdPlan, NoObserver, Plan, Release, Run, SOLVERS, Solver, solver};
use dpopt_oracle::{Glm, Loss as _, Offers, Oracle, OutputPerturbed, PrivateData, PrivateMean};
use dpopt_privacy::{Accountant, Adjacency, Curator, Event};

use super::common::{DIM, RELATIONS, claim_of, noise};
use super::hostile::{means, private, with_canary};
use super::labelled::{Labelled, ROWS, design, examples, huber, labelled_pairs};
use super::plans::{dp_sgd, plan_of, records_of};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, HostileLoss, OneRun, Pair, Ran,
    Registry, Statistic, Watched, WatchedRelease, hostile_pairs,
};

/// Public number of records of scored runs.
const CROWD: u64 = 100;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for solver in SOLVERS {
            covered(registry, solver, adjacency)?;
        }
    }
    canaries(registry)?;
    one_runs(registry)
}

/// Runs a plan and shows all that is public.
pub(super) fn walk(plan: &dyn Plan, oracle: impl Oracle) -> Ran {
    walk_from(plan, None, oracle)
}

/// As [`walk`], from a public point; none: from the origin.
pub(super) fn walk_from(plan: &dyn Plan, start: Option<&[f64]>, oracle: impl Oracle) -> Ran {
    let mut text = String::new();
    let mut watched = Watched::new(oracle);
    let mut observer = |release: &Release<'_>| {
        text += &format!("{release:?};");
        ControlFlow::Continue(())
    };
    let run = Run::new(&mut observer).starting_at(start);
    let outcome = plan.run_with(&mut watched, run);
    let counts = watched.books().counts();
    Ran {
        spent: watched.books().curator().spent(),
        refused: outcome.is_err(),
        outcome: format!("{text} {outcome:?} {counts:?} {:?}", watched.releases()),
    }
}

/// The law of all solvers: what a plan reserves covers its walk, and the curator books what was
/// released. The sensitivity of each query is audited by itself, so a few pairs of hostile records
/// are enough.
pub(super) fn walks(
    (solver, what): (&str, &str),
    plan: &Arc<dyn Plan>,
    (adjacency, records): (Adjacency, u64),
) -> CuratorReplay<Vec<Hostile>> {
    let plan = Arc::clone(plan);
    let records = records as usize;
    CuratorReplay::new(
        &format!("{solver}/{what}/{adjacency}"),
        solver,
        adjacency,
        move |_| some_of(hostile_pairs(adjacency, records)),
        move |curator, hostile: &Vec<Hostile>| {
            let data = private(hostile, adjacency, records)?;
            Ok(walk(&*plan, means(&data, curator)?))
        },
    )
}

/// Every 23rd pair: all kinds of records, in other positions.
pub(super) fn some_of<D>(pairs: Vec<Pair<D>>) -> Vec<Pair<D>> {
    pairs.into_iter().step_by(23).collect()
}

/// A solver's plan on hostile records, or on rows where it makes passes over them.
fn covered(
    registry: &mut Registry,
    solver: &Solver,
    adjacency: Adjacency,
) -> Result<(), CheckError> {
    let (name, accepted) = (solver.name, solver.accepts(adjacency));
    let plan: Arc<dyn Plan> = plan_of(solver, adjacency, DIM)?.into();
    if !plan.needs().covers(Offers::PASSES) {
        let target = walks((name, "replay"), &plan, (adjacency, records_of(solver)));
        registry.add(target.refused_unless(accepted));
        return Ok(());
    }
    let target = CuratorReplay::new(
        &format!("{name}/replay-rows/{adjacency}"),
        name,
        adjacency,
        move |_| some_of(labelled_pairs(adjacency)),
        move |curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, adjacency, ROWS)?;
            walk_on_rows(&*plan, &data, curator)
        },
    );
    registry.add(target.refused_unless(accepted));
    Ok(())
}

/// On the oracle that the plan needs.
pub(super) fn walk_on_rows(
    plan: &dyn Plan,
    data: &PrivateData,
    curator: Curator,
) -> Result<Ran, CheckError> {
    if !plan.needs().covers(Offers::PASSES) {
        let means = PrivateMean::new(data, Glm::Sigmoid, curator)?.with_hessians();
        return Ok(walk(plan, means));
    }
    Ok(match OutputPerturbed::new(data, huber()?, curator) {
        Ok(passes) => walk(plan, passes),
        Err(why) => Ran::refusal(why),
    })
}

/// Runs a plan on these records and gives its releases.
fn releases_of(
    plan: &dyn Plan,
    records: Vec<Hostile>,
    public: Option<u64>,
    adjacency: Adjacency,
    seed: u64,
) -> Result<Vec<WatchedRelease>, CheckError> {
    let data = PrivateData::made_up_of(records, adjacency, public)?;
    let curator = Curator::simulated(adjacency, seed);
    let loss = HostileLoss { dim: plan.dim() };
    let means = PrivateMean::new(&data, loss, curator)?.with_hessians();
    let mut watched = Watched::new(means);
    plan.run(&mut watched, &mut NoObserver)?;
    Ok(watched.releases().to_vec())
}

/// What a record adds to a release: its clipped gradient or difference, or its clipped slopes.
fn contribution(record: &Hostile, release: &WatchedRelease, clip: f64) -> Vec<f64> {
    let clipped = |mut v: Vec<f64>, radius: f64| {
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm > radius {
            v.iter_mut().for_each(|x| *x *= radius / norm);
        }
        v
    };
    if let Some(along) = &release.along {
        let of = along.at(&release.point);
        let loss = HostileLoss {
            dim: release.point.len(),
        };
        let mut slopes = vec![0.0; along.directions.count()];
        of.write(|point| loss.value(record, point), &mut slopes);
        return clipped(slopes, clip);
    }
    let gradient = |point: &[f64]| {
        let mut out = vec![0.0; point.len()];
        record.add_gradient(point, &mut out);
        clipped(out, clip)
    };
    let new = gradient(&release.point);
    let Some(from) = &release.from else {
        return new;
    };
    let kept = release.kept;
    let old = gradient(from);
    let change = new.iter().zip(old).map(|(a, b)| a - kept * b).collect();
    // L1 of the hostile loss is stated as 1.
    let reach = dpopt_linalg::distance(from, &release.point).min(2.0 * clip);
    clipped(change, (1.0 - kept) * clip + kept * reach)
}

/// The log-likelihood ratio of a Gaussian release, up to public constants.
fn fit(share: &[f64], release: &WatchedRelease) -> f64 {
    dpopt_linalg::dot(share, &release.released) / release.deviation.powi(2)
}

/// That of all releases of a run, for a record that is read by each of them.
pub(super) fn likelihood(record: &Hostile, releases: &[WatchedRelease], clip: f64) -> f64 {
    let all = releases.iter();
    all.map(|release| fit(&contribution(record, release, clip), release))
        .sum()
}

/// A solver of each kind of release by the likelihood ratio of all that it releases: means,
/// changes, slopes, and means of samples.
fn canaries(registry: &mut Registry) -> Result<(), CheckError> {
    let dim = 8;
    for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
        for name in ["noisy-gd-theory", "spiderboost", "goldstein-zo"] {
            let plan = plan_of(solver(name)?, adjacency, dim)?;
            let claim = claim_of(&*plan, adjacency)?;
            // Slopes of a jump are no longer than those of a steep descent, which has them along every direction.
            let present = if plan.needs().covers(Offers::SLOPES) {
                Hostile::new(Behaviour::Constant, 1e3)
            } else {
                Hostile::new(Behaviour::Hashed, 1.0)
            };
            let canary = by_likelihood(&format!("{name}/canary"), name, plan, claim, present);
            registry.add(canary.with_runs(80_000, 600_000));
        }
    }
    let sgd = dp_sgd(Adjacency::AddRemove, dim)?.with_clip_decay(0.05)?;
    registry.add(sampled_canary("dp-sgd", sgd)?.with_runs(80_000, 600_000));
    Ok(())
}

/// A canary in a plan whose releases are Gaussian ones on all records, by their likelihood ratio.
fn by_likelihood(
    name: &str,
    group: &str,
    plan: Box<dyn Plan>,
    claim: Claim,
    present: Hostile,
) -> Canary {
    let (adjacency, clip) = (plan.facts().adjacency, plan.clip());
    let score = move |world, seed| {
        // So many records that a step is short, and differences as long as their radius.
        let in_place = adjacency.record_count_is_public();
        let others = if in_place { CROWD as usize - 1 } else { 1 };
        let records = vec![Hostile::nothing(); others];
        let records = with_canary(world, adjacency, records, present);
        let public = (!in_place).then_some(CROWD);
        let releases = releases_of(&*plan, records, public, adjacency, seed)?;
        Ok(likelihood(&present, &releases, clip))
    };
    let name = format!("{name}/{adjacency}");
    Canary::new(&name, group, claim, Statistic::GaussianDp, score)
}

/// DP-SGD: the likelihood ratio of a release is that of a mixture.
fn sampled_canary(name: &str, plan: DpSgdPlan) -> Result<Canary, CheckError> {
    let adjacency = Adjacency::AddRemove;
    let schedule = *plan.schedule();
    let (rate, steps) = (schedule.sampling_rate, schedule.steps);
    let z = schedule.noise_multiplier.get();
    let clips: Vec<f64> = (0..steps).map(|step| plan.clip_at(step)).collect();
    let claim = claim_of(&plan, adjacency)?;
    let event = move |scale: f64| -> Result<Event, CheckError> {
        let sampled = Event::gaussian(noise(z * scale)?).poisson_sampled(rate);
        Ok(sampled.repeated(steps))
    };
    let score = move |world, seed| {
        let canary = Hostile::new(Behaviour::Constant, 1.0);
        let records = with_canary(world, adjacency, vec![Hostile::nothing()], canary);
        let releases = releases_of(&plan, records, Some(2), adjacency, seed)?;
        let q = rate.get();
        let scale = 1.0 / (2.0 * q);
        Ok(releases
            .iter()
            .zip(&clips)
            .map(|(release, clip)| {
                let mut share = contribution(&canary, release, *clip);
                share.iter_mut().for_each(|x| *x *= scale);
                let own = dpopt_linalg::dot(&share, &share);
                let ratio = fit(&share, release) - 0.5 * own / release.deviation.powi(2);
                (1.0 - q + q * ratio.exp()).ln()
            })
            .sum())
    };
    Ok(Canary::new(
        &format!("{name}/canary/{adjacency}"),
        name,
        claim,
        Statistic::Family {
            event: Box::new(event),
            accountant: Accountant::Exact,
            adjacency,
        },
        score,
    ))
}

/// One canary for each coordinate, which only that canary moves.
fn one_runs(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ZeroOut;
    for name in ["noisy-gd", "spiderboost"] {
        let solver = solver(name)?;
        let claim = claim_of(&*plan_of(solver, adjacency, 2)?, adjacency)?;
        registry.add(OneRun::new(
            &format!("{name}/one-run/{adjacency}"),
            name,
            claim,
            (600, 2_000),
            move |canaries, seed| {
                let dim = canaries.len();
                let plan = plan_of(solver, adjacency, dim)?;
                let own = |i: usize| Hostile {
                    behaviour: Behaviour::Flip,
                    axis: i,
                    sign: 1.0,
                };
                let records = canaries
                    .iter()
                    .enumerate()
                    .map(|(i, present)| if *present { own(i) } else { Hostile::nothing() })
                    .collect();
                let releases = releases_of(&*plan, records, None, adjacency, seed)?;
                let mut scores = vec![0.0; dim];
                // Of norms nothing is made.
                for release in releases.iter().filter(|r| r.released.len() == dim) {
                    for (i, score) in scores.iter_mut().enumerate() {
                        let share = coordinate(&own(i), release, i);
                        *score += share * release.released[i] / release.deviation.powi(2);
                    }
                }
                Ok(scores)
            },
        ));
    }
    Ok(())
}

/// Coordinate `i` of what a flipping record adds, up to a factor that is the same for all of them.
fn coordinate(record: &Hostile, release: &WatchedRelease, i: usize) -> f64 {
    let at = |point: &[f64]| record.flip(point, i);
    match &release.from {
        None => at(&release.point),
        Some(from) => {
            let change = at(&release.point) - release.kept * at(from);
            let radius = dpopt_linalg::distance(from, &release.point).min(2.0);
            0.5 * ((1.0 - release.kept) + release.kept * radius) * change
        }
    }
}
