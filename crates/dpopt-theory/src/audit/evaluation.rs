//! Audits of the private evaluation: its release on hostile rows and scores, and one record that is told from it.

use std::num::NonZeroUsize;

use dpopt_certify::{
    ClassesPlan, EvaluationError, EvaluationSettings, NumberPlan, PrivateEvaluation, TallyPlan,
};
use dpopt_linalg::Row;
use dpopt_oracle::PrivateData;
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
        let of = (ROWS as u64, adjacency);
        let classes = ClassesPlan::new(of, Mu::new(0.5)?, 3, (Some(2.0), 0.05))?;
        let outputs =
            |row: Row<'_>| vec![row.dot(&[1.0, 0.0, 0.0]), row.dot(&[0.0, 1.0, 0.0]), 0.1];
        let several = move |data: &PrivateData, curator| {
            let (counts, curator) = classes.release(data, outputs, curator, NonZeroUsize::MIN)?;
            Ok((format!("{:?}", counts.evaluation()), curator))
        };
        registry.add(released("classes", adjacency, classes.tally, several));
        let number = NumberPlan::new(of, Mu::new(0.5)?, 3.0, 0.05)?;
        let errors = move |data: &PrivateData, curator| {
            let (sums, curator) = number.release(data, hostile, curator, NonZeroUsize::MIN)?;
            Ok((format!("{:?}", sums.evaluation()), curator))
        };
        registry.add(released("numbers", adjacency, number.tally, errors));
        registry.add(canary(adjacency)?);
        registry.add(canary_of_classes(adjacency, classes)?);
    }
    Ok(())
}

/// Scores that are no numbers, and infinite ones.
fn hostile(row: Row<'_>) -> f64 {
    match row.dot(&[1.0, 1.0, 0.0]) {
        z if z > 0.9 => f64::INFINITY,
        z if z < -0.9 => f64::NAN,
        z => z,
    }
}

/// The release, and all that is said of it.
fn replay(
    name: &str,
    adjacency: Adjacency,
    plan: PrivateEvaluation,
) -> CuratorReplay<Vec<Labelled>> {
    let of = move |data: &PrivateData, curator| {
        let (counts, curator) = plan.release(data, hostile, curator, NonZeroUsize::MIN)?;
        Ok((format!("{:?}", counts.evaluation()), curator))
    };
    released(name, adjacency, plan.tally, of)
}

fn released(
    name: &str,
    adjacency: Adjacency,
    tally: TallyPlan,
    release: impl Fn(&PrivateData, Curator) -> Result<(String, Curator), EvaluationError>
    + Send
    + Sync
    + 'static,
) -> CuratorReplay<Vec<Labelled>> {
    CuratorReplay::new(
        &format!("{GROUP}/{name}/{adjacency}"),
        GROUP,
        adjacency,
        move |_| labelled_pairs(adjacency),
        move |mut curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, adjacency, ROWS)?;
            curator.reserve(&tally.spend())?;
            Ok(match release(&data, curator) {
                Ok((told, mut curator)) => {
                    curator.settle()?;
                    Ran::of(&curator, told)
                }
                Err(why) => Ran::refusal(why),
            })
        },
    )
}

/// Under replace-one another class and the other end of the bins; under add-remove there or not.
fn canary(adjacency: Adjacency) -> Result<Canary, CheckError> {
    let mu = 0.5;
    let plan = plan(adjacency, ROWS, Some(2.0), mu)?;
    let claim = Claim::of(
        &Event::gaussian(plan.tally.noise_multiplier),
        DELTA,
        adjacency,
    )?;
    let score = move |world: World, seed: u64| {
        let mut rows = vec![([0.2, 0.1, 0.0], -1.0); ROWS - 1];
        match (world, adjacency.record_count_is_public()) {
            (World::In, _) => rows.push(([0.9, 0.0, 0.0], 1.0)),
            (World::Out, true) => rows.push(([-0.9, 0.0, 0.0], 1.0)),
            (World::Out, false) => {}
        }
        let data = examples(design(&rows)?, adjacency, ROWS)?;
        let mut curator = Curator::simulated(adjacency, seed);
        curator.reserve(&plan.tally.spend())?;
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

/// Under replace-one another class, rightly called or with the largest loss; under add-remove there or not.
fn canary_of_classes(adjacency: Adjacency, plan: ClassesPlan) -> Result<Canary, CheckError> {
    let event = Event::gaussian(plan.tally.noise_multiplier);
    let claim = Claim::of(&event, DELTA, adjacency)?;
    let score = move |world: World, seed: u64| {
        let mut rows = vec![([0.0, 0.1, 0.0], 1.0); ROWS - 1];
        match (world, adjacency.record_count_is_public()) {
            (World::In, _) => rows.push(([0.9, 0.0, 0.0], 0.0)),
            (World::Out, true) => rows.push(([0.9, 0.0, 0.0], 2.0)),
            (World::Out, false) => {}
        }
        let data = examples(design(&rows)?, adjacency, ROWS)?;
        let mut curator = Curator::simulated(adjacency, seed);
        curator.reserve(&plan.tally.spend())?;
        let outputs = |row: Row<'_>| {
            let z = 9.0 * row.dot(&[1.0, 0.0, 0.0]);
            vec![z, 0.0, -z]
        };
        let (counts, _) = plan.release(&data, outputs, curator, NonZeroUsize::MIN)?;
        let table = counts.evaluation().confusion;
        let table = table.map_or_else(Vec::new, |table| table.counts);
        let at = |class: usize| table.get(class).map_or(0.0, |row| row[0]);
        let elsewhere = match adjacency.record_count_is_public() {
            true => at(2),
            false => 0.0,
        };
        Ok(at(0) - elsewhere)
    };
    let name = format!("{GROUP}/canary-classes/{adjacency}");
    let canary = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    Ok(canary.with_runs(20_000, 200_000))
}
