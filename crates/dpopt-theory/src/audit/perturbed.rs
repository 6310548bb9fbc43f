//! Audits of the baselines that perturb and watch: replays of both estimates and both tests, on all records.

use std::sync::Arc;

use dpopt_nonconvex::{
    Estimates, PerturbedPlan, PerturbedSettings, PerturbedTest, Plan, PlanError, PublicFacts,
};

use super::common::{DIM, RELATIONS, budget};
use super::plans::{FEW, HESSIANS, facts};
use super::solvers::walks;
use super::{CheckError, Registry};

const GROUP: &str = "perturbed";

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
    }
    Ok(())
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
