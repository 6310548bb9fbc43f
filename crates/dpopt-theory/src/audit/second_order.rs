//! Audits of the second-order solver: replays of runs that certify and of runs that escape, the transcript meter, and a test between two worlds.

use std::sync::Arc;

use dpopt_nonconvex::{
    CurvatureBy, Estimates, NoObserver, Plan, PlanError, PublicFacts, SecondOrderTargets, SospPlan,
    SospSettings,
};
use dpopt_oracle::{Answer, Mean, Number, Oracle as _, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DELTA, DIM, RELATIONS, budget};
use super::hostile::{means, neighbours, private, with_canary};
use super::plans::{HESSIANS, facts};
use super::solvers::{walk, walks};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, HostileLoss, Registry, Statistic,
    TranscriptMeter, Watched, World,
};
use crate::around::Around;

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
        let scope = (adjacency, RECORDS);
        for (certifying, escaping, settings) in kinds() {
            let plan: Arc<dyn Plan> = Arc::new(least_epsilon(&facts, settings)?);
            registry.add(walks((GROUP, certifying), &plan, scope, None));
            let plan = least_epsilon(&facts, settings.with_targets(TARGETS))?;
            registry.add(escapes(escaping, adjacency, plan));
        }
        registry.add(TranscriptMeter::second_order(adjacency));
        registry.add(TranscriptMeter::second_order_anytime(adjacency));
        registry.add(TranscriptMeter::episodes(adjacency));
    }
    canary(registry)
}

/// What a plan can be made of: names of runs that go on from certificate to certificate, and of runs at a saddle.
fn kinds() -> [(&'static str, &'static str, SospSettings); 4] {
    let settings = SospSettings::new(10_000);
    [
        (
            "certifying",
            "escaping",
            settings.with_estimates(Estimates::Fresh),
        ),
        (
            "certifying-by-episodes",
            "escaping-by-episodes",
            settings.with_curvature_by(CurvatureBy::Episodes),
        ),
        (
            "recursive-certifying",
            "recursive-escaping",
            settings.with_estimates(Estimates::Recursive),
        ),
        (
            "measured-certifying",
            "measured-escaping",
            settings.with_measured_steps(),
        ),
    ]
}

/// A replay of runs at a saddle.
fn escapes(name: &str, adjacency: Adjacency, plan: SospPlan) -> CuratorReplay<Vec<Hostile>> {
    CuratorReplay::new(
        &format!("{GROUP}/{name}/{adjacency}"),
        GROUP,
        adjacency,
        move |_| {
            let record = |behaviour, sign| Hostile::new(behaviour, sign);
            let base = vec![record(Behaviour::Constant, BEND); RECORDS as usize];
            let contents = [
                (
                    "opposite",
                    record(Behaviour::Constant, -100.0),
                    record(Behaviour::Constant, 100.0),
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
            Ok(walk(&plan, means(&data, curator)?))
        },
    )
}

/// A plan at the least epsilon, of powers of the root of 2, that pays for one: runs use up most of it.
fn least_epsilon(facts: &PublicFacts, settings: SospSettings) -> Result<SospPlan, CheckError> {
    let at = |power: i32| -> Result<Option<SospPlan>, CheckError> {
        let budget = budget(2f64.powf(0.5 * f64::from(power)))?;
        match SospPlan::new(facts, &HESSIANS, &budget, settings) {
            Ok(plan) => Ok(Some(plan)),
            Err(PlanError::Uncertifiable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    // A refusal takes longer than a plan: it says how many records would do.
    let mut high = 0;
    let mut found = at(high)?;
    while found.is_none() && high < 56 {
        high += 8;
        found = at(high)?;
    }
    let mut found = found.ok_or("no epsilon pays for a certificate")?;
    let mut low = high - 8;
    while high - low > 1 && high > 0 {
        let middle = low + (high - low) / 2;
        match at(middle)? {
            Some(plan) => (high, found) = (middle, plan),
            None => low = middle,
        }
    }
    Ok(found)
}

/// One record at epsilon 1, present or not: told from all gradients, norms and Hessians of a run that escapes until its budget is used. What
/// makes every point a saddle is public, and added to what is released.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::AddRemove;
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
            Err(PlanError::Uncertifiable {
                enough: Some(enough),
                ..
            }) if crowd < enough && enough < 1_000_000 => crowd = enough,
            Err(error) => return Err(error.into()),
        }
    };
    let claim = Claim::gaussian(plan.mu(), DELTA)?;
    let score = move |world: World, seed: u64| {
        let canary = Hostile::new(Behaviour::Constant, 1.0);
        let records = with_canary(world, adjacency, vec![Hostile::nothing()], canary);
        let data = PrivateData::made_up_of(records, adjacency, Some(crowd))?;
        let curator = Curator::simulated(adjacency, seed);
        let means = PrivateMean::new(&data, HostileLoss { dim: 1 }, curator)?.with_hessians();
        let mut bent = Around::new(Watched::new(means), |inner: &mut Watched<_>, question| {
            Ok(match inner.answer(question)? {
                Answer::Mean(x) => Answer::Mean(Mean::new(vec![x.mean[0] + BEND], x.noise_std)),
                Answer::Number(x) => Answer::Number(Number::new(x.number - BEND, x.noise_std)),
                other => other,
            })
        });
        plan.run(&mut bent, &mut NoObserver)?;
        // Each release is 1/n up in the one world.
        let all = bent.inner().releases().iter();
        Ok(all.map(|r| r.released[0] / r.deviation.powi(2)).sum())
    };
    let name = format!("{GROUP}/canary/{adjacency}");
    let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000));
    Ok(())
}
