//! Canaries in slices that are read again in every epoch under correlated noise.

use dpopt_nonconvex::{DpMfPlan, NoObserver, Plan};
use dpopt_oracle::{PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, Curator, PrefixKind};

use super::common::{DIM, claim_of};
use super::plans::{MANY, dp_mf};
use super::{
    Behaviour, Canary, CheckError, Hostile, HostileLoss, Registry, Statistic, Watched, WatchedKind,
    World,
};

const GROUP: &str = "dp-mf";

/// A record of the first slice, or of the last, against its opposite, by the likelihood ratio of all releases.
pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for (name, place) in [("canary", 0), ("canary-at-the-end", MANY as usize - 1)] {
        let adjacency = Adjacency::ReplaceOne;
        let plan = dp_mf(adjacency, DIM, |_| {})?;
        let claim = claim_of(&plan, adjacency)?;
        let score = move |world: World, seed: u64| {
            let sign = match world {
                World::In => 1.0,
                World::Out => -1.0,
            };
            let mut records = vec![Hostile::nothing(); MANY as usize];
            records[place] = Hostile::new(Behaviour::Constant, sign);
            let data = PrivateData::made_up_of(records, adjacency, None)?;
            let curator = Curator::simulated(adjacency, seed);
            let means = PrivateMean::new(&data, HostileLoss { dim: DIM }, curator)?;
            let mut watched = Watched::new(means);
            plan.run(&mut watched, &mut NoObserver)?;
            let steps = watched.releases().iter();
            let sums: Vec<f64> = steps
                .filter(|release| release.kind == WatchedKind::Prefix)
                .map(|release| release.released[0])
                .collect();
            score(&plan, &sums, place as u64)
        };
        let name = format!("{GROUP}/{name}/{adjacency}");
        let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
        // In a shorter slice the share is the whole of what noise is scaled to.
        let target = target.with_runs(20_000, 200_000);
        registry.add(if place == 0 {
            target
        } else {
            target.at_least(0.5)
        });
    }
    Ok(())
}

/// <C r, C g> for the released sums, r being 1 in the steps of a record and g the differences of the sums.
fn score(plan: &DpMfPlan, sums: &[f64], place: u64) -> Result<f64, CheckError> {
    let schedule = plan.schedule();
    let PrefixKind::Tuned(factor) = schedule.factor else {
        return Err("a factor that was not tuned".into());
    };
    let column = factor.coefficients();
    let mut slice = 0;
    let mut end = schedule.records_of(0, MANY);
    while place >= end {
        slice += 1;
        end += schedule.records_of(slice, MANY);
    }
    let encoded = |of: &dyn Fn(usize) -> f64, t: usize| -> f64 {
        let coefficients = column.iter().take(t + 1).enumerate();
        coefficients.map(|(k, c)| c * of(t - k)).sum()
    };
    let takes_part = |t: usize| f64::from(u8::from(t as u64 % schedule.slices == slice));
    let step = |t: usize| sums[t] - if t == 0 { 0.0 } else { sums[t - 1] };
    let all = 0..sums.len();
    Ok(all
        .map(|t| encoded(&takes_part, t) * encoded(&step, t))
        .sum())
}
