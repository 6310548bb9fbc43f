//! Audits of one pass to a second-order certificate: each way through the walk, to its last record, with one record changed in each place of
//! every batch.
//!
//! What a walk may do wrong (read a slice again, add up a period in pieces, release an exact number) is among the twins.

use dpopt_nonconvex::{NoObserver, Plan, PublicFacts};
use dpopt_oracle::{PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DELTA, DIM, RELATIONS, budget};
use super::plans::{MANY, facts, one_pass};
use super::{
    Behaviour, Canary, CheckError, Claim, Hostile, HostileLoss, Registry, Statistic,
    TranscriptMeter, Watched, WatchedKind, World,
};

const GROUP: &str = "adaptive-batch";
pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        if adjacency.record_count_is_public() {
            registry.add(TranscriptMeter::slice_caps(adjacency));
        }
    }
    canary(registry)
}

/// A whole run, in which the first record of the batch that gives a step its sign is turned round: told from that release.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let facts = PublicFacts {
        records: MANY,
        ..facts(adjacency, DIM)
    };
    let budget = budget(1.0)?;
    let plan = one_pass(&facts, &budget, |_| {})?;
    let claim = Claim::gaussian(budget.mu()?.get(), DELTA)?;
    let score = move |world: World, seed: u64| {
        let sign = match world {
            World::In => 1.0,
            World::Out => -1.0,
        };
        // After three of an anchor and two of a Hessian.
        let mut records = vec![Hostile::nothing(); MANY as usize];
        records[5] = Hostile::new(Behaviour::Constant, sign);
        let data = PrivateData::made_up_of(records, adjacency, None)?;
        let curator = Curator::simulated(adjacency, seed);
        let means = PrivateMean::new(&data, HostileLoss { dim: DIM }, curator)?.with_hessians();
        let mut watched = Watched::new(means);
        plan.run(&mut watched, &mut NoObserver)?;
        let mut means = watched.releases().iter();
        let first = means.find(|release| release.kind == WatchedKind::Mean);
        Ok(first.ok_or("no gradient was released")?.released[0])
    };
    let name = format!("{GROUP}/canary/{adjacency}");
    let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000));
    Ok(())
}
