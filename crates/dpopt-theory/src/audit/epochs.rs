//! Audits of slices that are read again in every epoch under correlated noise: each kind of factor, slices that don't come out even, and
//! broken twins.
//!
//! Hostile pairs differ in each position in turn, so also in the first and in the last record of each slice; a record takes part in
//! the first epoch, in the last, and between.

use std::sync::Arc;

use dpopt_nonconvex::{DpMfPlan, DpMfSchedule, NoObserver, Plan};
use dpopt_oracle::{PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, ChangedRecord, Curator, PrefixKind, TunedFactor};

use super::common::{DIM, RELATIONS, claim_of};
use super::plans::{MANY, dp_mf};
use super::solvers::walks;
use super::twins::{Neighbours, Twin, Z, add, ran};
use super::{
    AuditTape, Behaviour, Canary, CheckError, Hostile, HostileLoss, Registry, Statistic, Watched,
    WatchedKind, World,
};

const GROUP: &str = "dp-mf";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let flat = PrefixKind::Tuned(TunedFactor::new(9, &[1.0, 1.0, 1.0, 0.9, 0.4])?);
    for adjacency in RELATIONS {
        let accepted = adjacency.record_count_is_public();
        let mut add = |what: &str, records, change: fn(&mut DpMfSchedule)| {
            let plan: Arc<dyn Plan> = Arc::new(dp_mf(adjacency, DIM, change)?);
            let target = walks((GROUP, what), &plan, (adjacency, records), None);
            registry.add(target.refused_unless(accepted && records >= MANY));
            Ok::<(), CheckError>(())
        };
        // One epoch under a tree: DP-FTRL as it was first stated.
        add("replay-one-epoch-tree", MANY, |schedule| {
            (schedule.epochs, schedule.factor) = (1, PrefixKind::Tree);
        })?;
        add("replay-trees", MANY, |schedule| {
            schedule.factor = PrefixKind::Honaker;
        })?;
        add("replay-all-bands", MANY, |schedule| {
            schedule.factor = PrefixKind::Toeplitz;
        })?;
        add("replay-independent", MANY, |schedule| {
            schedule.factor = PrefixKind::Independent;
        })?;
        // All records in every step.
        add("replay-one-slice", MANY, |schedule| {
            (schedule.slices, schedule.epochs) = (1, 4);
        })?;
        // A record in each slice.
        add("replay-single-records", MANY, |schedule| {
            (schedule.slices, schedule.epochs) = (MANY, 2);
        })?;
        add("records-run-out", MANY - 1, |_| {})?;
        // Bands over several epochs, nearly level.
        let plan: Arc<dyn Plan> = Arc::new(dp_mf(adjacency, DIM, |s| s.factor = flat)?);
        let target = walks((GROUP, "replay-wide-bands"), &plan, (adjacency, MANY), None);
        registry.add(target.refused_unless(accepted));
    }
    canaries(registry)?;
    for twin in &TWINS {
        self::add(registry, twin)?;
    }
    Ok(())
}

/// A record of the first slice, or of the last, against its opposite, by the likelihood ratio of all releases.
fn canaries(registry: &mut Registry) -> Result<(), CheckError> {
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

/// Of one record that is zero in the other world, in two epochs of two steps under the factor 1, 1/2.
const ERASED: Neighbours = Neighbours(&[1.0, 0.3], &[0.0, 0.3], ChangedRecord::InPlace(0));

/// C x with noise for a record that moves C x by `claimed`.
fn period(tape: &mut AuditTape, steps: [f64; 4], claimed: f64) -> f64 {
    let mut before = 0.0;
    let mut score = 0.0;
    for (step, weight) in steps.into_iter().zip([1.0, 0.5, 1.0, 0.5]) {
        let row = step.clamp(-1.0, 1.0) + 0.5 * before;
        before = step.clamp(-1.0, 1.0);
        score += weight * tape.gaussian(&[row], Z * claimed)[0];
    }
    score
}

const TWINS: [Twin; 3] = [
    Twin {
        // Two epochs, and noise for the norm of one column.
        name: "epochs/sensitivity-of-one-participation",
        data: ERASED,
        run: |tape, data, _| {
            let steps = [data[0], data[1], data[0], data[1]];
            ran(1.0 / Z, period(tape, steps, 1.25f64.sqrt()))
        },
    },
    Twin {
        // The second epoch reads the slices in another order: participations next to each other, and noise for columns that don't meet.
        name: "epochs/another-order-in-the-second",
        data: ERASED,
        run: |tape, data, _| {
            let mut before = 0.0;
            let mut score = 0.0;
            let steps = [data[1], data[0], data[0], data[1]];
            for (step, weight) in steps.into_iter().zip([0.0, 1.0, 1.5, 0.5]) {
                let row = step.clamp(-1.0, 1.0) + 0.5 * before;
                before = step.clamp(-1.0, 1.0);
                score += weight * tape.gaussian(&[row], Z * 2.5f64.sqrt())[0];
            }
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // The noise of the first epoch once more in the second, where the record's gradient points the other way.
        name: "epochs/noise-of-one-epoch-again",
        data: ERASED,
        run: |tape, data, _| {
            let first = tape.gaussian(&[data[0].clamp(-1.0, 1.0)], Z);
            let second = tape.gaussian_with_reused_noise(&[-data[0].clamp(-1.0, 1.0)]);
            ran(2f64.sqrt() / Z, first[0] - second[0])
        },
    },
];
