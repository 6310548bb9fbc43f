//! Audits of the second-order solver: replays of runs that certify and of runs that escape, the transcript meter, and a test between two worlds.

use dpopt_nonconvex::{
    NoObserver, Plan, PlanError, PublicFacts, SecondOrderTargets, SospPlan, SospSettings,
};
use dpopt_oracle::{Answer, Mean, Number, Oracle as _, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DELTA, RELATIONS, budget};
use super::hostile::with_canary;
use super::plans::{HESSIANS, facts};
use super::{
    Behaviour, Canary, CheckError, Claim, Hostile, HostileLoss, Registry, Statistic,
    TranscriptMeter, Watched, World,
};
use crate::around::Around;

const GROUP: &str = "sosp";
/// What records are that have a saddle together: a gradient of -1/2 and a curvature of -1/2 along the first axis, everywhere.
const BEND: f64 = -0.5;
/// Certificates that such records don't get, although their gradients are short enough.
const TARGETS: SecondOrderTargets = SecondOrderTargets {
    gradient: 0.8,
    curvature: 0.45,
};

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        registry.add(TranscriptMeter::second_order(adjacency));
        registry.add(TranscriptMeter::second_order_anytime(adjacency));
        registry.add(TranscriptMeter::episodes(adjacency));
    }
    canary(registry)
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
