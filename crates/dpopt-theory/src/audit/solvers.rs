//! Audits of solvers end to end: plan, estimator, curator, on hostile records.

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    Budget, DpSgdPlan, KlCondition, KlSpiderPlan, KlSpiderSettings, NoObserver, NoisyGdPlan,
    NormalizedSpiderPlan, PublicFacts, SolverPlan, SpiderBoostPlan, StormPlan,
};
use dpopt_oracle::{
    Access, Convexity, Differentiable, Estimator, Glm, Momentum, PrivateData, PrivateGradient,
};
use dpopt_privacy::{
    Accountant, Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, SamplingRate, Spend,
};

use super::hostile::{Behaviour, Hostile, HostileLoss, hostile_pairs, neighbours};
use super::mechanisms::{DELTA, RELATIONS, noise};
use super::replay::{CuratorReplay, Ran};
use super::watch::{Watched, WatchedRelease};
use super::{AuditError, Canary, Claim, OneRun, Registry, Statistic, World};

/// Parameters of replayed runs.
const DIM: usize = 3;
/// Records of replayed runs.
const RECORDS: usize = 8;
/// Public number of records of scored runs.
const CROWD: u64 = 100;
/// Steps of all runs.
const STEPS: u64 = 12;

/// A row of features with a label.
pub(super) type Labelled = ([f64; DIM], f32);

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    for adjacency in RELATIONS {
        for (name, plan) in plans(adjacency, DIM)?
            .into_iter()
            .chain(variants(adjacency)?)
        {
            replays(registry, name, &plan, adjacency)?;
        }
        replays(registry, "kl-spider", &kl_spider(adjacency)?, adjacency)?;
        accesses(registry, adjacency)?;
    }
    canaries(registry)?;
    one_runs(registry)
}

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
        convexity: Convexity::Nonconvex,
    }
}

/// Every solver's plan at epsilon 1, of a dozen steps.
pub(super) fn plans(
    adjacency: Adjacency,
    dim: usize,
) -> Result<Vec<(&'static str, SolverPlan)>, AuditError> {
    let facts = facts(adjacency, dim);
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(DELTA)?,
    };
    let mut spider = SpiderBoostPlan::new(&facts, &budget, STEPS)?;
    // Three phases of four steps, which share the budget equally: so long a plan has one phase for these
    // facts, and restarts are to be audited too.
    spider.phase = 4;
    spider.steps = STEPS;
    spider.anchors = 3;
    spider.variations = 9;
    spider.anchor_noise_multiplier = noise((STEPS as f64).sqrt() / budget.mu()?.get())?;
    spider.variation_noise_multiplier = spider.anchor_noise_multiplier;
    let sgd = DpSgdPlan::with_parameters(
        &facts,
        &budget,
        STEPS,
        SamplingRate::new(0.3)?,
        0.5,
        0.9,
        1.0,
    )?;
    Ok(vec![
        (
            "noisy-gd-theory",
            SolverPlan::NoisyGd(NoisyGdPlan::theory(&facts, &budget, STEPS)?),
        ),
        (
            "noisy-gd-momentum",
            SolverPlan::NoisyGd(NoisyGdPlan::momentum(&facts, &budget, STEPS)?),
        ),
        ("spiderboost", SolverPlan::SpiderBoost(spider)),
        ("dp-sgd", SolverPlan::DpSgd(sgd)),
    ])
}

/// The variants of SpiderBoost, of a dozen steps as well, for replays.
fn variants(adjacency: Adjacency) -> Result<Vec<(&'static str, SolverPlan)>, AuditError> {
    let facts = facts(adjacency, DIM);
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(DELTA)?,
    };
    let mut spider = NormalizedSpiderPlan::new(&facts, &budget, STEPS)?;
    // Three phases, as of SpiderBoost, and steps of which some are under the floor.
    spider.phase = 4;
    spider.steps = STEPS;
    spider.anchors = 3;
    spider.variations = 9;
    spider.step_length = 0.3;
    spider.floor = 0.2;
    spider.anchor_noise_multiplier = noise((STEPS as f64).sqrt() / budget.mu()?.get())?;
    spider.variation_noise_multiplier = spider.anchor_noise_multiplier;
    let mut storm = StormPlan::new(&facts, &budget, STEPS)?;
    storm.momentum = Momentum::new(0.3)?;
    Ok(vec![
        ("normalized-spider", SolverPlan::NormalizedSpider(spider)),
        ("storm", SolverPlan::Storm(storm)),
    ])
}

/// KL Spider in a dozen steps, some of them variations.
fn kl_spider(adjacency: Adjacency) -> Result<SolverPlan, AuditError> {
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(DELTA)?,
    };
    let condition = KlCondition::new(1.0, 1.5)?;
    let settings = KlSpiderSettings::new(0.05);
    let facts = facts(adjacency, DIM);
    let plan = KlSpiderPlan::new(&facts, &condition, &budget, settings, STEPS)?;
    if plan.phases.iter().all(|phase| phase.updates == 1) {
        return Err(AuditError::Other("no variation to audit".to_owned()));
    }
    Ok(SolverPlan::KlSpider(plan))
}

/// Accesses with the names that rows have.
fn every_access() -> Result<[(&'static str, Access); 4], AuditError> {
    Ok([
        ("full", Access::FullBatch),
        ("poisson", Access::Poisson(SamplingRate::new(0.3)?)),
        ("fixed-size", Access::FixedSize(3)),
        (
            "single-pass",
            Access::SinglePass {
                anchor: 2,
                variation: 1,
            },
        ),
    ])
}

fn allowed(access: Access, adjacency: Adjacency) -> bool {
    match access {
        Access::FixedSize(_) => adjacency == Adjacency::ReplaceOne,
        Access::SinglePass { .. } => adjacency.record_count_is_public(),
        _ => true,
    }
}

fn declared(adjacency: Adjacency) -> Option<u64> {
    (!adjacency.record_count_is_public()).then_some(RECORDS as u64)
}

/// One plan on hostile records, on rows, and with the accesses that its spend doesn't cover.
pub(super) fn replays(
    registry: &mut Registry,
    name: &str,
    plan: &SolverPlan,
    adjacency: Adjacency,
) -> Result<(), AuditError> {
    let own = plan.access();
    let hostile = |access: Access| {
        let plan = plan.clone();
        move |curator: Curator, records: &Vec<Hostile>| {
            let data = PrivateData::made_up_of(records.clone(), adjacency, declared(adjacency))?;
            walk_plan(&plan, access, &data, HostileLoss { dim: DIM }, curator)
        }
    };
    registry.add(CuratorReplay::new(
        &format!("{name}/replay/{adjacency}"),
        name,
        adjacency,
        move |_| hostile_pairs(adjacency, RECORDS),
        hostile(own),
    ));
    let rows = {
        let plan = plan.clone();
        move |curator: Curator, records: &Vec<Labelled>| {
            let entries = records.iter().flat_map(|(row, _)| *row).collect();
            let design = Design::dense(DIM, entries)
                .map_err(|error| AuditError::Other(error.to_string()))?;
            let labels = records.iter().map(|(_, label)| *label).collect();
            let norm = ClipNorm::new(1.0)?;
            let data = PrivateData::made_up(design, labels, norm, adjacency, declared(adjacency))?;
            walk_plan(&plan, own, &data, Glm::Sigmoid, curator)
        }
    };
    registry.add(CuratorReplay::new(
        &format!("{name}/replay-rows/{adjacency}"),
        name,
        adjacency,
        move |_| labelled_pairs(adjacency),
        rows,
    ));
    // The spend of a plan covers its own access and no other.
    for (other, access) in every_access()? {
        let same = std::mem::discriminant(&access) == std::mem::discriminant(&own);
        let access = match (same, access) {
            (true, Access::Poisson(_)) => Access::Poisson(SamplingRate::new(0.25)?),
            (true, _) => continue,
            (false, other) => other,
        };
        registry.add(
            CuratorReplay::new(
                &format!("{name}/refused-{other}/{adjacency}"),
                name,
                adjacency,
                move |_| hostile_pairs(adjacency, RECORDS),
                hostile(access),
            )
            .refused(),
        );
    }
    Ok(())
}

pub(super) fn labelled_pairs(adjacency: Adjacency) -> Vec<super::Pair<Vec<Labelled>>> {
    let base = vec![
        ([0.5, 0.1, -0.2], 1.0),
        ([f64::NAN, 0.0, 0.0], 1.0),
        ([0.0, 0.9, 0.1], -1.0),
        ([9.0, -9.0, 3.0], 1.0),
        ([0.0; DIM], 1.0),
        ([0.3, 0.3, 0.3], -1.0),
        ([f64::INFINITY, 1.0, 1.0], -1.0),
        ([1e300, -1e300, 1e300], 1.0),
    ];
    let along = [1.0, 0.0, 0.0];
    let contents = [
        ("labels", (along, 1.0), (along, -1.0)),
        ("not a number", ([f64::NAN, 1.0, 0.0], 1.0), (along, 1.0)),
        ("bad label", (along, f32::NAN), (along, f32::INFINITY)),
        ("huge label", (along, 1e30), (along, -1e30)),
        (
            "infinite",
            ([f64::INFINITY, 0.0, 0.0], 1.0),
            ([-1e308, 0.0, 0.0], 1.0),
        ),
        (
            "tiny",
            ([1e-320, 0.0, 0.0], 1.0),
            ([1e-300, 1e-300, 0.0], -1.0),
        ),
    ];
    let copies = vec![(along, 1.0); RECORDS];
    neighbours(adjacency, &[base, copies], &contents, &([0.0; DIM], 0.0))
}

/// Runs a plan and shows all that is public.
fn walk_plan<L: Differentiable>(
    plan: &SolverPlan,
    access: Access,
    data: &PrivateData<L::Records>,
    loss: L,
    curator: Curator,
) -> Result<Ran, AuditError> {
    let clip = ClipNorm::new(plan.clip())?;
    let estimator = PrivateGradient::clipped(data, loss, curator, clip)?.with_access(access);
    let mut watched = Watched::new(estimator);
    let outcome = plan.run(&mut watched, &mut NoObserver);
    Ok(Ran {
        spent: watched.inner().curator().spent(),
        refused: outcome.is_err(),
        outcome: format!(
            "{outcome:?} {:?} {:?}",
            watched.counts(),
            watched.releases()
        ),
    })
}

/// The estimator by itself, with every access: an anchor, a variation, and so on, until the reservation
/// refuses.
fn accesses(registry: &mut Registry, adjacency: Adjacency) -> Result<(), AuditError> {
    for (name, access) in every_access()? {
        let target = CuratorReplay::new(
            &format!("estimator/{name}/{adjacency}"),
            "estimator",
            adjacency,
            move |_| hostile_pairs(adjacency, RECORDS),
            move |curator, records: &Vec<Hostile>| {
                let data =
                    PrivateData::made_up_of(records.clone(), adjacency, declared(adjacency))?;
                let clip = ClipNorm::new(1.0)?;
                let loss = HostileLoss { dim: DIM };
                let estimator =
                    PrivateGradient::clipped(&data, loss, curator, clip)?.with_access(access);
                let mut watched = Watched::new(estimator);
                let refused = walk(&mut watched, access);
                Ok(Ran {
                    spent: watched.inner().curator().spent(),
                    outcome: format!("{refused:?} {:?}", watched.releases()),
                    refused: true,
                })
            },
        );
        registry.add(if allowed(access, adjacency) {
            target
        } else {
            target.refused()
        });
    }
    Ok(())
}

/// Walks until it is refused.
fn walk(estimator: &mut dyn Estimator, access: Access) -> Result<(), AuditError> {
    let (anchor, variation) = (noise(2.0)?, noise(3.0)?);
    let both = Event::composed(vec![
        event_of(access, anchor).repeated(2),
        event_of(access, variation).repeated(2),
    ]);
    let spend = match access {
        Access::SinglePass { .. } => Event::ParallelComposed { events: vec![both] },
        _ => both,
    };
    estimator.reserve(&Spend::Fixed(spend))?;
    let mut point = vec![0.1; DIM];
    for step in 0..8 {
        let estimate = if step % 2 == 0 {
            estimator.refresh(&point, anchor)?
        } else {
            estimator.advance(&point, variation)?
        };
        for (w, g) in point.iter_mut().zip(estimate.gradient) {
            *w -= 0.01 * g;
        }
    }
    Ok(())
}

fn event_of(access: Access, z: dpopt_privacy::NoiseMultiplier) -> Event {
    match access {
        Access::Poisson(rate) => Event::gaussian(z).poisson_sampled(rate),
        Access::FixedSize(size) => Event::SampledWithoutReplacement {
            source_dataset_size: RECORDS as u64,
            sample_size: size,
            event: Box::new(Event::gaussian(z)),
        },
        _ => Event::gaussian(z),
    }
}

/// Runs a plan on these records and gives its releases.
fn releases_of(
    plan: &SolverPlan,
    records: Vec<Hostile>,
    public: Option<u64>,
    dim: usize,
    adjacency: Adjacency,
    seed: u64,
) -> Result<Vec<WatchedRelease>, AuditError> {
    let data = PrivateData::made_up_of(records, adjacency, public)?;
    let curator = Curator::simulated(adjacency, seed);
    let clip = ClipNorm::new(plan.clip())?;
    let estimator = PrivateGradient::clipped(&data, HostileLoss { dim }, curator, clip)?
        .with_access(plan.access());
    let mut watched = Watched::new(estimator);
    plan.run(&mut watched, &mut NoObserver)?;
    Ok(watched.releases().to_vec())
}

/// What a record adds to a release: its clipped gradient or difference.
pub(super) fn contribution(record: &Hostile, release: &WatchedRelease, clip: f64) -> Vec<f64> {
    let clipped = |mut v: Vec<f64>, radius: f64| {
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm > radius {
            v.iter_mut().for_each(|x| *x *= radius / norm);
        }
        v
    };
    let gradient = |point: &[f64]| {
        let mut out = vec![0.0; point.len()];
        record.add_gradient(point, &mut out);
        clipped(out, clip)
    };
    let new = gradient(&release.point);
    let Some(from) = &release.from else {
        return new;
    };
    let change = new.iter().zip(gradient(from)).map(|(a, b)| a - b).collect();
    // L1 of the hostile loss is stated as 1.
    let length = from
        .iter()
        .zip(&release.point)
        .map(|(a, b)| (a - b).powi(2));
    clipped(change, length.sum::<f64>().sqrt().min(2.0 * clip))
}

fn canaries(registry: &mut Registry) -> Result<(), AuditError> {
    let dim = 8;
    for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
        for (name, plan) in plans(adjacency, dim)? {
            if matches!(plan, SolverPlan::DpSgd(_)) {
                if adjacency == Adjacency::AddRemove {
                    registry.add(sampled_canary(name, plan, dim)?);
                }
                continue;
            }
            let claim = Claim::of(plan.spend().event(), DELTA, adjacency)?;
            let clip = plan.clip();
            let score = move |world, seed| {
                let present = Hostile::new(Behaviour::Hashed, 1.0);
                // So many records that a step is short, and differences as long as their radius.
                let in_place = adjacency.record_count_is_public();
                let others = if in_place { CROWD as usize - 1 } else { 1 };
                let mut records = vec![Hostile::nothing(); others];
                match (world, in_place) {
                    (World::In, _) => records.push(present),
                    (World::Out, true) => records.push(Hostile::new(Behaviour::Hashed, -1.0)),
                    (World::Out, false) => {}
                }
                let public = (!in_place).then_some(CROWD);
                let releases = releases_of(&plan, records, public, dim, adjacency, seed)?;
                // The likelihood ratio of Gaussian releases, up to public constants.
                Ok(releases
                    .iter()
                    .map(|release| {
                        let share = contribution(&present, release, clip);
                        let fit: f64 = share
                            .iter()
                            .zip(&release.released)
                            .map(|(a, b)| a * b)
                            .sum();
                        fit / release.deviation.powi(2)
                    })
                    .sum())
            };
            registry.add(
                Canary::new(
                    &format!("{name}/canary/{adjacency}"),
                    name,
                    claim,
                    Statistic::GaussianDp,
                    score,
                )
                .with_runs(80_000, 600_000),
            );
        }
    }
    Ok(())
}

/// DP-SGD: the likelihood ratio of a release is that of a mixture.
pub(super) fn sampled_canary(
    name: &str,
    plan: SolverPlan,
    dim: usize,
) -> Result<Canary, AuditError> {
    let adjacency = Adjacency::AddRemove;
    let SolverPlan::DpSgd(sgd) = &plan else {
        return Err(AuditError::Other("DP-SGD expected".to_owned()));
    };
    let (rate, steps, z) = (sgd.sampling_rate, sgd.steps, sgd.noise_multiplier.get());
    let clips: Vec<f64> = (0..steps).map(|step| sgd.clip_at(step)).collect();
    let claim = Claim::of(plan.spend().event(), DELTA, adjacency)?;
    let event = move |scale: f64| -> Result<Event, AuditError> {
        let sampled = Event::gaussian(noise(z * scale)?).poisson_sampled(rate);
        Ok(sampled.repeated(steps))
    };
    let score = move |world, seed| {
        let canary = Hostile::new(Behaviour::Constant, 1.0);
        let mut records = vec![Hostile::nothing()];
        if world == World::In {
            records.push(canary);
        }
        let releases = releases_of(&plan, records, Some(2), dim, adjacency, seed)?;
        let q = rate.get();
        let scale = 1.0 / (2.0 * q);
        Ok(releases
            .iter()
            .zip(&clips)
            .map(|(release, clip)| {
                let share = contribution(&canary, release, *clip);
                let variance = release.deviation.powi(2);
                let fit: f64 = share
                    .iter()
                    .zip(&release.released)
                    .map(|(a, b)| scale * a * b)
                    .sum();
                let own: f64 = share.iter().map(|a| (scale * a).powi(2)).sum();
                (1.0 - q + q * ((fit - 0.5 * own) / variance).exp()).ln()
            })
            .sum())
    };
    let canary = Canary::new(
        &format!("{name}/canary/{adjacency}"),
        name,
        claim,
        Statistic::Family {
            event: Box::new(event),
            accountant: Accountant::Exact,
            adjacency,
        },
        score,
    );
    Ok(canary.with_runs(80_000, 600_000))
}

/// One canary for each coordinate, which only that canary moves.
fn one_runs(registry: &mut Registry) -> Result<(), AuditError> {
    let adjacency = Adjacency::ZeroOut;
    for (name, _) in plans(adjacency, 2)? {
        let make = move |dim: usize| -> Result<SolverPlan, AuditError> {
            let mut all = plans_of_full_epsilon(adjacency, dim)?;
            let at = all.iter().position(|(known, _)| *known == name);
            at.map(|at| all.swap_remove(at).1)
                .ok_or_else(|| AuditError::Other(format!("no plan {name}")))
        };
        let claim = Claim::of(make(2)?.spend().event(), DELTA, adjacency)?;
        registry.add(OneRun::new(
            &format!("{name}/one-run/{adjacency}"),
            name,
            claim,
            (600, 2_000),
            move |canaries, seed| {
                let dim = canaries.len();
                let plan = make(dim)?;
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
                let releases = releases_of(&plan, records, None, dim, adjacency, seed)?;
                let mut scores = vec![0.0; dim];
                for release in &releases {
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
            let length = from
                .iter()
                .zip(&release.point)
                .map(|(a, b)| (a - b).powi(2));
            let radius = length.sum::<f64>().sqrt().min(2.0);
            0.5 * radius * (at(&release.point) - at(from))
        }
    }
}

/// The same plans for any dimension: bounds are of no interest, costs are those at dimension 2.
fn plans_of_full_epsilon(
    adjacency: Adjacency,
    dim: usize,
) -> Result<Vec<(&'static str, SolverPlan)>, AuditError> {
    let mut plans = plans(adjacency, 2)?;
    for (_, plan) in &mut plans {
        match plan {
            SolverPlan::NoisyGd(plan) => plan.facts.dim = dim,
            SolverPlan::DpSgd(plan) => plan.facts.dim = dim,
            SolverPlan::SpiderBoost(plan) => plan.facts.dim = dim,
            _ => {}
        }
    }
    Ok(plans)
}
