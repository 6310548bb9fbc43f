//! Audits of the second-order solver: replays of runs that certify and of runs that escape, the transcript meter, and a test between two worlds.

use std::sync::Arc;

use dpopt_nonconvex::{
    NoObserver, Plan, PlanError, PublicFacts, SecondOrderTargets, SospPlan, SospSettings,
};
use dpopt_oracle::PrivateMean;
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DELTA, DIM, RELATIONS, budget};
use super::hostile::{means, neighbours, private};
use super::plans::{HESSIANS, facts};
use super::solvers::{walk, walks};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, HostileLoss, Registry, Statistic,
    TranscriptMeter, Watched, WatchedKind, World,
};

const GROUP: &str = "sosp";
const RECORDS: u64 = 8;
/// What records are that have a saddle together: a gradient of -1/2 and a curvature of -1/2 along the first axis, everywhere.
const BEND: f64 = -0.5;
/// Certificates that such records don't get, although their gradients are short enough.
const TARGETS: SecondOrderTargets = SecondOrderTargets {
    gradient: 0.8,
    curvature: 0.45,
};

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let facts = PublicFacts {
            records: RECORDS,
            ..facts(adjacency, DIM)
        };
        let plan: Arc<dyn Plan> = Arc::new(least_epsilon(&facts, None)?);
        let scope = (adjacency, RECORDS);
        registry.add(walks((GROUP, "certifying"), &plan, scope, None));
        let escaping = least_epsilon(&facts, Some(TARGETS))?;
        registry.add(CuratorReplay::new(
            &format!("{GROUP}/escaping/{adjacency}"),
            GROUP,
            adjacency,
            move |_| {
                let record = |behaviour, sign| Hostile::new(behaviour, sign);
                let base = vec![record(Behaviour::Constant, BEND); RECORDS as usize];
                let contents = [
                    (
                        "opposite",
                        record(Behaviour::Constant, 100.0),
                        record(Behaviour::Constant, -100.0),
                    ),
                    (
                        "hashed",
                        record(Behaviour::Hashed, 1.0),
                        record(Behaviour::Hashed, -1.0),
                    ),
                    (
                        "not a number along some directions",
                        record(Behaviour::NanSomewhere, 1.0),
                        record(Behaviour::Hashed, 100.0),
                    ),
                    (
                        "panic",
                        record(Behaviour::Panics, 1.0),
                        record(Behaviour::Constant, -1.0),
                    ),
                ];
                neighbours(adjacency, &[base], &contents, &Hostile::nothing())
            },
            move |curator, records: &Vec<Hostile>| {
                let data = private(records, adjacency, RECORDS as usize)?;
                Ok(walk(&escaping, means(&data, curator)?))
            },
        ));
        registry.add(TranscriptMeter::second_order(adjacency));
    }
    canary(registry)
}

/// A plan at the least epsilon, of powers of the root of 2, that pays for one: runs use up most of it.
fn least_epsilon(
    facts: &PublicFacts,
    targets: Option<SecondOrderTargets>,
) -> Result<SospPlan, CheckError> {
    let mut settings = SospSettings::new(10_000);
    settings.targets = targets;
    for power in 0..40 {
        let budget = budget(2f64.powf(0.5 * f64::from(power)))?;
        match SospPlan::new(facts, &HESSIANS, &budget, settings) {
            Ok(plan) => return Ok(plan),
            Err(PlanError::Uncertifiable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("no epsilon pays for a certificate".into())
}

/// One record among others with a saddle, at epsilon 1: told from all gradients, norms and Hessians of a run that escapes until its budget is used.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let budget = budget(1.0)?;
    let settings = SospSettings::new(10_000).with_targets(TARGETS);
    let mut crowd = 100;
    let plan = loop {
        let facts = PublicFacts {
            records: crowd,
            ..facts(adjacency, 1)
        };
        match SospPlan::new(&facts, &HESSIANS, &budget, settings) {
            Ok(plan) => break plan,
            Err(PlanError::Uncertifiable { .. }) if crowd < 1_000_000 => crowd += crowd / 10,
            Err(error) => return Err(error.into()),
        }
    };
    let claim = Claim::gaussian(plan.mu(), DELTA)?;
    let score = move |world: World, seed: u64| {
        let sign = match world {
            World::In => 1.0,
            World::Out => -1.0,
        };
        let mut records = vec![Hostile::new(Behaviour::Constant, BEND); crowd as usize];
        records[0] = Hostile::new(Behaviour::Constant, sign);
        let data = private(&records, adjacency, records.len())?;
        let curator = Curator::simulated(adjacency, seed);
        let means = PrivateMean::new(&data, HostileLoss { dim: 1 }, curator)?.with_hessians();
        let mut watched = Watched::new(means);
        plan.run(&mut watched, &mut NoObserver)?;
        let n = crowd as f64;
        let middle = BEND * (n - 1.0) / n;
        // The gradient and the Hessian are 1/n up or down, and their size the other way.
        let all = watched.releases().iter().map(|release| {
            let up = match release.kind {
                WatchedKind::Norm => -1.0,
                _ => 1.0,
            };
            up * (release.released[0] - up * middle) / (n * release.deviation.powi(2))
        });
        Ok(all.sum())
    };
    let target = Canary::new(
        &format!("{GROUP}/canary/{adjacency}"),
        GROUP,
        claim,
        Statistic::GaussianDp,
        score,
    );
    registry.add(target.with_runs(8_000, 80_000));
    Ok(())
}
