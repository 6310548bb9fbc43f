//! Replays of private proximal point, on all records and on Poisson samples.

use dpopt_nonconvex::{
    Budget, KlCondition, NoObserver, ProximalFacts, ProximalPlan, ProximalReads, ProximalSettings,
    PublicFacts,
};
use dpopt_oracle::{Access, Convexity, Estimator as _, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, SamplingRate};

use super::hostile::{Hostile, HostileLoss, hostile_pairs};
use super::mechanisms::{DELTA, RELATIONS, noise};
use super::replay::{CuratorReplay, Ran};
use super::watch::Watched;
use super::{AuditError, Registry};

const DIM: usize = 3;
const RECORDS: usize = 8;
/// Rounds that are replayed, and the steps of each.
const ROUNDS: usize = 3;
const STEPS: u64 = 4;

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    for adjacency in RELATIONS {
        let all = plan(adjacency)?;
        let mut sampled = all.clone();
        sampled.sampling_rate = Some(SamplingRate::new(0.3)?);
        add(registry, "replay", &all, all.access(), adjacency, false);
        add(
            registry,
            "replay-samples",
            &sampled,
            sampled.access(),
            adjacency,
            false,
        );
        // The spend of a plan covers its own access and no other.
        add(
            registry,
            "refused-samples",
            &all,
            sampled.access(),
            adjacency,
            true,
        );
        add(
            registry,
            "refused-full",
            &sampled,
            all.access(),
            adjacency,
            true,
        );
    }
    Ok(())
}

/// The first rounds of a plan for a large problem, with the whole budget for a few steps of each.
fn plan(adjacency: Adjacency) -> Result<ProximalPlan, AuditError> {
    let facts = ProximalFacts {
        public: PublicFacts {
            records: 100_000,
            dim: DIM,
            adjacency,
            lipschitz: 1.0,
            smoothness: f64::INFINITY,
            initial_gap: 0.5,
            row_norm: 1.0,
            convexity: Convexity::Nonconvex,
        },
        condition: KlCondition::new(1.0, 3.0)?,
        weak_convexity: Some(0.1),
        failure: 0.05,
        region: None,
    };
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(DELTA)?,
    };
    let settings = ProximalSettings::new(1 << 40).reading(ProximalReads::Everything);
    let mut plan = ProximalPlan::with_settings(&facts, &budget, settings)?;
    plan.rounds.truncate(ROUNDS);
    for round in &mut plan.rounds {
        round.steps = STEPS;
    }
    plan.noise_multiplier = noise((plan.steps() as f64).sqrt() / budget.mu()?.get())?;
    Ok(plan)
}

fn add(
    registry: &mut Registry,
    name: &str,
    plan: &ProximalPlan,
    access: Access,
    adjacency: Adjacency,
    refused: bool,
) {
    let plan = plan.clone();
    let declared = (!adjacency.record_count_is_public()).then_some(RECORDS as u64);
    let target = CuratorReplay::new(
        &format!("proximal-point/{name}/{adjacency}"),
        "proximal-point",
        adjacency,
        move |_| hostile_pairs(adjacency, RECORDS),
        move |curator: Curator, records: &Vec<Hostile>| {
            let data = PrivateData::made_up_of(records.clone(), adjacency, declared)?;
            let clip = ClipNorm::new(plan.clip)?;
            let loss = HostileLoss { dim: DIM };
            let estimator =
                PrivateGradient::clipped(&data, loss, curator, clip)?.with_access(access);
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
        },
    );
    registry.add(if refused { target.refused() } else { target });
}
