//! Audits of the baselines that perturb and watch: replays of both estimates and both tests, on all records; in one pass to the last record.

use std::sync::Arc;

use dpopt_nonconvex::{
    Estimates, PerturbedPlan, PerturbedSettings, PerturbedTest, Plan, PlanError, PublicFacts,
};
use dpopt_privacy::Adjacency;

use super::common::{DIM, RELATIONS, budget};
use super::plans::{ALWAYS, FEW, HESSIANS, MANY, facts};
use super::solvers::walks;
use super::{CheckError, Registry};

const GROUP: &str = "perturbed";
const PASS: &str = "perturbed-pass";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let facts = PublicFacts {
            records: FEW,
            ..facts(adjacency, DIM)
        };
        for (name, estimates, test) in [
            ("fresh", Estimates::Fresh, PerturbedTest::Movement),
            ("fresh-drift", Estimates::Fresh, PerturbedTest::Drift),
            ("spider", Estimates::Recursive, PerturbedTest::Movement),
            ("spider-drift", Estimates::Recursive, PerturbedTest::Drift),
        ] {
            let settings = PerturbedSettings::new(10_000)
                .with_estimates(estimates)
                .with_test(test);
            let plan: Arc<dyn Plan> = Arc::new(least_epsilon(&facts, settings)?);
            registry.add(walks((GROUP, name), &plan, (adjacency, FEW), None));
        }
        let facts = PublicFacts {
            records: MANY,
            ..facts
        };
        for (name, estimates, (target, anchor, variation)) in [
            ("fresh", Estimates::Fresh, (0.0, 3, 0)),
            ("fresh-watching", Estimates::Fresh, (ALWAYS, 1, 0)),
            ("spider", Estimates::Recursive, (0.0, 3, 2)),
            ("spider-watching", Estimates::Recursive, (ALWAYS, 2, 1)),
        ] {
            let plan: Arc<dyn Plan> =
                Arc::new(one_pass(&facts, estimates, (target, anchor, variation))?);
            let target = walks((PASS, name), &plan, (adjacency, MANY), None);
            registry.add(target.refused_unless(adjacency.record_count_is_public()));
        }
    }
    Ok(())
}

/// A plan by hand with this target and these batches: a period is three or four steps long, and a try longer than the records.
fn one_pass(
    facts: &PublicFacts,
    estimates: Estimates,
    (target, anchor, variation): (f64, u64, u64),
) -> Result<PerturbedPlan, CheckError> {
    let many = PublicFacts {
        records: 1 << 40,
        adjacency: Adjacency::ReplaceOne,
        ..*facts
    };
    let (budget, settings) = (budget(1.0)?, PerturbedSettings::new(10_000));
    let settings = settings.with_estimates(estimates).in_one_pass();
    let planned = PerturbedPlan::new(&many, HESSIANS.lipschitz, &budget, settings)?;
    let mut schedule = *planned.schedule();
    (schedule.target, schedule.step_size) = (target, 0.3);
    (schedule.radius, schedule.watched) = (0.1, 100);
    if let Some(pass) = &mut schedule.pass {
        (pass.anchor, pass.variation) = (anchor, variation);
    }
    if let Some(spider) = &mut schedule.spider {
        (spider.path, spider.most_anchors) = (0.3, 100);
    }
    Ok(PerturbedPlan::by_hand(facts, &budget, settings, schedule)?)
}

/// A plan at the least epsilon, of powers of the root of 2, that pays for one: runs use up most of it.
fn least_epsilon(
    facts: &PublicFacts,
    settings: PerturbedSettings,
) -> Result<PerturbedPlan, CheckError> {
    for power in 0..60 {
        let budget = budget(2f64.powf(0.5 * f64::from(power)))?;
        match PerturbedPlan::new(facts, HESSIANS.lipschitz, &budget, settings) {
            Ok(plan) => return Ok(plan),
            Err(PlanError::Vacuous { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("no epsilon pays for a plan".into())
}
