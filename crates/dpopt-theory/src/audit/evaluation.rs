//! Audits of the private evaluation: its release on hostile rows and scores, and one record that is told from it.

use std::num::NonZeroUsize;

use dpopt_certify::{EvaluationSettings, PrivateEvaluation};
use dpopt_linalg::Row;
use dpopt_privacy::{Adjacency, Curator, Event, Mu};

use super::common::{DELTA, RELATIONS};
use super::labelled::{Labelled, ROWS, design, examples, labelled_pairs};
use super::{Canary, CheckError, Claim, CuratorReplay, Ran, Registry, Statistic, World};

const GROUP: &str = "evaluation";

fn plan(
    adjacency: Adjacency,
    records: usize,
    loss_cap: Option<f64>,
    mu: f64,
) -> Result<PrivateEvaluation, CheckError> {
    let of = EvaluationSettings {
        bins: Some(4),
        range: 1.0,
        loss_cap,
        failure: 0.05,
    };
    Ok(PrivateEvaluation::new(
        records as u64,
        adjacency,
        Mu::new(mu)?,
        &of,
    )?)
}

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        if adjacency == Adjacency::ZeroOut {
            continue;
        }
        for (name, cap) in [("replay", None), ("replay-loss", Some(2.0))] {
            registry.add(replay(name, adjacency, plan(adjacency, ROWS, cap, 0.5)?));
        }
        registry.add(canary(adjacency)?);
    }
    Ok(())
}

/// The release, and all that is said of it. Scores that are no numbers, and infinite ones, are among them.
fn replay(
    name: &str,
    adjacency: Adjacency,
    plan: PrivateEvaluation,
) -> CuratorReplay<Vec<Labelled>> {
    CuratorReplay::new(
        &format!("{GROUP}/{name}/{adjacency}"),
        GROUP,
        adjacency,
        move |_| labelled_pairs(adjacency),
        move |mut curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, adjacency, ROWS)?;
            curator.reserve(&plan.spend())?;
            let score = |row: Row<'_>| match row.dot(&[1.0, 1.0, 0.0]) {
                z if z > 0.9 => f64::INFINITY,
                z if z < -0.9 => f64::NAN,
                z => z,
            };
            Ok(
                match plan.release(&data, score, curator, NonZeroUsize::MIN) {
                    Ok((counts, mut curator)) => {
                        curator.settle()?;
                        Ran::of(&curator, format!("{:?}", counts.evaluation()))
                    }
                    Err(why) => Ran::refusal(why),
                },
            )
        },
    )
}

/// Under replace-one another class and the other end of the bins; under add-remove there or not.
fn canary(adjacency: Adjacency) -> Result<Canary, CheckError> {
    let mu = 0.5;
    let plan = plan(adjacency, ROWS, Some(2.0), mu)?;
    let claim = Claim::of(&Event::gaussian(plan.noise_multiplier), DELTA, adjacency)?;
    let score = move |world: World, seed: u64| {
        let mut rows = vec![([0.2, 0.1, 0.0], -1.0); ROWS - 1];
        match (world, adjacency.record_count_is_public()) {
            (World::In, _) => rows.push(([0.9, 0.0, 0.0], 1.0)),
            (World::Out, true) => rows.push(([-0.9, 0.0, 0.0], 1.0)),
            (World::Out, false) => {}
        }
        let data = examples(design(&rows)?, adjacency, ROWS)?;
        let mut curator = Curator::simulated(adjacency, seed);
        curator.reserve(&plan.spend())?;
        let score = |row: Row<'_>| row.dot(&[1.0, 0.0, 0.0]);
        let (counts, _) = plan.release(&data, score, curator, NonZeroUsize::MIN)?;
        let positives = counts.positives();
        let elsewhere = if adjacency.record_count_is_public() {
            positives[0]
        } else {
            0.0
        };
        Ok(positives[3] - elsewhere)
    };
    let name = format!("{GROUP}/canary/{adjacency}");
    let canary = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    Ok(canary.with_runs(20_000, 200_000))
}
