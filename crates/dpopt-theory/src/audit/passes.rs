//! Audits of passes with output perturbation: by how much one record moves the averaged iterate, against the claim.

use dpopt_nonconvex::{NoObserver, RECURSIVE_SGD};
use dpopt_oracle::{
    Batch, Constants, ConvexGlm, ConvexSmooth, Differentiable, Example, Examples, Glm, Loss,
    Oracle as _, OutputPerturbed, Pass, PrivateData, Schedule,
};
use dpopt_privacy::{Adjacency, ChangedRecord, ClipNorm, Curator};

use super::common::{DIM, RELATIONS, claim_of, noise};
use super::estimators::level;
use super::hostile::neighbours;
use super::labelled::{Labelled, NOBODY, design, examples, huber, labelled_pairs};
use super::plans::plan_of;
use super::solvers::walk_on_rows;
use super::{Canary, CheckError, CuratorReplay, Pair, Ran, Registry, Statistic, World};
use crate::checks::mixed;

const RECORDS: u64 = 8;
/// Noise multiplier of every pass.
const Z: f64 = 2.0;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        by_hand(registry, adjacency)?;
        planned(registry, adjacency)?;
    }
    false_claim(registry);
    canary(registry)
}

fn private(rows: &[Labelled], adjacency: Adjacency) -> Result<PrivateData, CheckError> {
    examples(design(rows)?, adjacency, RECORDS as usize)
}

/// The hostile rows of all losses, and such whose slopes are as long as they may be wherever the point is, against their
/// opposites: with those a pass moves by all that is claimed.
fn pairs(adjacency: Adjacency) -> Vec<Pair<Vec<Labelled>>> {
    let along = |sign: f64| [sign, 0.0, 0.0];
    let straight = vec![(along(1.0), -1e30); RECORDS as usize];
    let near: Vec<Labelled> = (0..RECORDS)
        .map(|i| {
            let angle = 0.7 * i as f64;
            ([angle.cos(), angle.sin(), 0.1], 0.2 - 0.05 * i as f32)
        })
        .collect();
    let contents = [
        ("opposite slopes", (along(1.0), -1e30), (along(1.0), 1e30)),
        (
            "largest labels",
            (along(-1.0), f32::MAX),
            (along(1.0), f32::MIN),
        ),
        ("across", ([0.0, 0.6, 0.8], 1e30), (along(1.0), 0.1)),
    ];
    let mut all = neighbours(adjacency, &[straight, near], &contents, &NOBODY);
    all.extend(labelled_pairs(adjacency));
    all
}

/// Passes that a caller makes.
#[derive(Debug, Clone, Copy)]
struct Made {
    name: &'static str,
    loss: ConvexGlm,
    step_size: f64,
    modulus: f64,
    radius: f64,
    lengths: &'static [u64],
}

fn made() -> Result<Vec<Made>, CheckError> {
    let (huber, logistic) = (huber()?, ConvexGlm::new(Glm::Logistic)?);
    let clipped = huber.with_slope_clip(ClipNorm::new(0.1)?);
    let made = |name, loss, step_size, modulus, radius, lengths| Made {
        name,
        loss,
        step_size,
        modulus,
        radius,
        lengths,
    };
    Ok(vec![
        // One record, which is the first and the last; then some; then all that are left.
        made("from-one-record", huber, 0.3, 0.5, 10.0, &[1, 2, 5]),
        made("unregularised", huber, 0.1, 0.0, 10.0, &[8]),
        // The longest step that there is, in a ball that most steps leave.
        made("longest-step", logistic, 1.0, 0.75, 0.05, &[3, 5]),
        made("clipped", clipped, 0.4, 1.5, 0.5, &[4, 4]),
        // Where rounding is all there is.
        made("all-rounding", huber, 1e-15, 0.5, 2.0, &[2, 6]),
        // More than there are.
        made("records-run-out", huber, 0.3, 0.5, 10.0, &[6, 3]),
    ])
}

/// Each of these passes on all pairs. The last one is refused, alike for all, after a release.
fn by_hand(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    for made in made()? {
        let target = CuratorReplay::new(
            &format!("phased-sgd/{}/{adjacency}", made.name),
            "phased-sgd",
            adjacency,
            move |_| pairs(adjacency),
            move |curator, rows: &Vec<Labelled>| {
                let data = private(rows, adjacency)?;
                passes(&data, made.loss, &made, curator)
            },
        );
        let runs =
            adjacency.record_count_is_public() && made.lengths.iter().sum::<u64>() <= RECORDS;
        registry.add(target.refused_unless(runs));
    }
    Ok(())
}

fn passes<L: ConvexSmooth<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    made: &Made,
    curator: Curator,
) -> Result<Ran, CheckError> {
    let mut perturbed = match OutputPerturbed::new(data, loss, curator) {
        Ok(perturbed) => perturbed,
        Err(why) => return Ok(Ran::refusal(why)),
    };
    let z = noise(Z)?;
    let schedule = Schedule::new(RECORDS);
    let schedule = schedule.releases(level(Batch::Next(1), Z)?, made.lengths.len() as u64);
    perturbed.books().reserve(&schedule.spend())?;
    let (origin, centre) = ([0.01, -0.02, 0.0], [-2.0, 5.0, 1.0]);
    let mut point = vec![0.3, -0.2, 0.1];
    let (mut text, mut stopped) = (String::new(), false);
    for &records in made.lengths {
        let pass = Pass {
            start: &point,
            centre: &centre,
            modulus: made.modulus,
            step_size: made.step_size,
            origin: &origin,
            radius: made.radius,
            records,
        };
        match perturbed.pass(&pass, z) {
            Ok(mean) => {
                text += &format!("{mean:?};");
                point = mean.mean;
            }
            Err(why) => {
                text += &why.to_string();
                stopped = true;
                break;
            }
        }
    }
    Ok(Ran {
        spent: perturbed.books().settle()?,
        outcome: format!("{text} {:?}", perturbed.books().counts()),
        refused: stopped,
    })
}

/// A whole plan of recursive regularisation for so few records, on rows that move it by all that is claimed.
fn planned(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let plan = plan_of(&RECURSIVE_SGD, adjacency, DIM)?;
    let target = CuratorReplay::new(
        &format!("recursive-sgd/plan/{adjacency}"),
        "recursive-sgd",
        adjacency,
        move |_| pairs(adjacency),
        move |curator, rows: &Vec<Labelled>| {
            walk_on_rows(&*plan, &private(rows, adjacency)?, curator)
        },
    );
    registry.add(target.refused_unless(adjacency.record_count_is_public()));
    Ok(())
}

/// One row whose slope is as long as it may be, or the opposite of that: where the plan ends.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let plan = plan_of(&RECURSIVE_SGD, adjacency, DIM)?;
    let claim = claim_of(&*plan, adjacency)?;
    let score = move |world, seed| {
        let mut rows = vec![([1.0, 0.0, 0.0], 0.0); RECORDS as usize];
        let position = (mixed(seed, 0) % RECORDS) as usize;
        rows[position].1 = if world == World::In { 1e30 } else { -1e30 };
        let data = private(&rows, adjacency)?;
        let curator = Curator::simulated(adjacency, mixed(seed, 1));
        let mut passes = OutputPerturbed::new(&data, huber()?, curator)?;
        Ok(plan.run(&mut passes, &mut NoObserver)?.point[0])
    };
    let canary = Canary::new(
        &format!("recursive-sgd/canary/{adjacency}"),
        "recursive-sgd",
        claim,
        Statistic::GaussianDp,
        score,
    );
    registry.add(canary.with_runs(4_000, 80_000));
    Ok(())
}

/// Welsch's loss, said to be convex.
#[derive(Clone, Copy)]
struct FalseClaim;

impl Loss for FalseClaim {
    type Records = Examples;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        Glm::Welsch.constants_on(records)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Loss::value(&Glm::Welsch, record, point)
    }
}

impl Differentiable for FalseClaim {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        Glm::Welsch.gradient(record, point, out);
    }
}

impl ConvexSmooth for FalseClaim {
    const ARGUMENT: &'static str = "a false claim";

    fn gradient_error(&self, _: &Examples, _: f64) -> f64 {
        1e-12
    }
}

/// A loss that is not convex under a claim that it is: two points where the slope falls move apart, and the pass moves by
/// more than was claimed.
fn false_claim(registry: &mut Registry) {
    let adjacency = Adjacency::ReplaceOne;
    let record = |label| ([1.0, 0.0, 0.0], label);
    let mut other = vec![record(-3.0); 200];
    other[0] = record(-1.0);
    let pair = Pair {
        name: "one step ahead".to_owned(),
        recorded: vec![record(-3.0); 200],
        replayed: other,
        changed: ChangedRecord::InPlace(0),
    };
    registry.add(
        CuratorReplay::new(
            "nonconvex-pass/replay",
            "twins",
            adjacency,
            move |_| vec![pair.clone()],
            move |curator, rows: &Vec<Labelled>| {
                let data = private(rows, adjacency)?;
                let mut perturbed = OutputPerturbed::new(&data, FalseClaim, curator)?;
                let schedule = Schedule::new(200).releases(level(Batch::Next(1), Z)?, 1);
                perturbed.books().reserve(&schedule.spend())?;
                let origin = [0.0; DIM];
                let pass = Pass {
                    start: &origin,
                    centre: &origin,
                    modulus: 0.0,
                    step_size: 0.1,
                    origin: &origin,
                    radius: 10.0,
                    records: 200,
                };
                let mean = perturbed.pass(&pass, noise(Z)?)?;
                Ok(Ran {
                    spent: perturbed.books().settle()?,
                    outcome: format!("{mean:?}"),
                    refused: false,
                })
            },
        )
        .control(),
    );
}
