//! Audits of saddle problems: gradient descent ascent on each objective and on hostile joint fields, and the release of shares.

use std::sync::Arc;

use dpopt_linalg::{Design, Domain};
use dpopt_minimax::{GdaPlan, SaddleFacts, SaddleLimits, SharesPlan};
use dpopt_nonconvex::{NoObserver, Plan};
use dpopt_oracle::{
    AucSaddle, Cell, CellCounts, CellShares, Differentiable as _, EqualOpportunity, Examples,
    GroupDro, Joint, Oracle as _, PrivateData, PrivateMean, Records as _, Running, SaddleConstants,
    SaddleLoss, ScoreSaddle, Scored,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, Spend, Which};

use super::common::{DELTA, DIM, RELATIONS, budget, claim_of, declared, noise};
use super::hostile::neighbours;
use super::labelled::{Labelled, NOBODY, ROWS, design, examples};
use super::solvers::walk_from;
use super::{
    Canary, CheckError, Claim, CuratorReplay, Pair, Ran, Registry, Statistic, Watched, World,
};

const GROUP: &str = "gda";
const SHARES: &str = "group-shares";
/// Public number of records of scored runs.
const CROWD: u64 = 100;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let shares = shares()?;
    for adjacency in RELATIONS {
        objective(
            registry,
            "group-dro",
            adjacency,
            GroupDro::new(&shares, true, 1.0)?,
        )?;
        objective(
            registry,
            "equal-opportunity",
            adjacency,
            EqualOpportunity::new(&shares, 1.0)?,
        )?;
        objective(registry, "auc", adjacency, AucSaddle::new(&shares)?)?;
        joint(registry, adjacency)?;
        histogram(registry, adjacency)?;
    }
    canaries(registry)
}

/// Two groups, and a class of one of them that is rare enough to weigh a hundredfold.
pub(super) fn shares() -> Result<CellShares, CheckError> {
    Ok(CellShares::new(vec![
        [Some(0.6), Some(0.01)],
        [Some(0.3), Some(0.09)],
    ])?)
}

fn label(positive: bool, group: usize) -> f32 {
    Cell { positive, group }.label()
}

/// Neighbours of eight rows with cells, whose numbers break what they can.
pub(super) fn pairs(adjacency: Adjacency) -> Vec<Pair<Vec<Labelled>>> {
    let base = vec![
        ([0.5, 0.1, -0.2], label(true, 0)),
        ([f64::NAN, 0.0, 0.0], label(true, 1)),
        ([0.0, 0.9, 0.1], label(false, 0)),
        ([9.0, -9.0, 3.0], label(true, 1)),
        ([0.0; DIM], label(false, 1)),
        ([0.3, 0.3, 0.3], label(false, 0)),
        ([f64::INFINITY, 1.0, 1.0], label(false, 1)),
        ([1e300, -1e300, 1e300], label(true, 0)),
    ];
    let along = [1.0, 0.0, 0.0];
    let against = [-1.0, 0.0, 0.0];
    let contents = [
        ("classes", (along, label(true, 0)), (along, label(false, 0))),
        (
            "another group",
            (along, label(true, 0)),
            (along, label(true, 1)),
        ),
        (
            "long in x",
            (along, label(true, 0)),
            (against, label(true, 0)),
        ),
        // A row of zeros says nothing of the weights, and all of y.
        (
            "long in y",
            ([0.0; DIM], label(true, 0)),
            ([0.0; DIM], label(false, 1)),
        ),
        (
            "a group that nobody else is in",
            (along, label(true, 2)),
            (along, label(true, 0)),
        ),
        (
            "a group that nobody knows",
            (along, label(true, 7)),
            (along, label(true, 0)),
        ),
        ("bad label", (along, f32::NAN), (along, f32::INFINITY)),
        ("huge label", (along, 1e30), (along, -1e30)),
        (
            "not a number",
            ([f64::NAN, 1.0, 0.0], label(true, 0)),
            (along, label(true, 0)),
        ),
    ];
    let copies = vec![(along, label(true, 0)); ROWS];
    neighbours(adjacency, &[base, copies], &contents, &NOBODY)
}

fn limits() -> SaddleLimits {
    SaddleLimits::steps(6)
}

/// The plan of an objective at epsilon 1, and where it starts.
fn plan_of<S: ScoreSaddle>(
    loss: &Scored<S>,
    adjacency: Adjacency,
    records: u64,
) -> Result<(GdaPlan, Vec<f64>), CheckError> {
    let facts = SaddleFacts::scored(records, adjacency, DIM, 1.0, loss);
    let plan = GdaPlan::new(&facts, &budget(1.0)?, &limits())?;
    let start = plan.start();
    Ok((plan, start))
}

fn objective<S: ScoreSaddle + Clone + Send + 'static>(
    registry: &mut Registry,
    name: &str,
    adjacency: Adjacency,
    objective: S,
) -> Result<(), CheckError> {
    let loss = Scored::with_own_clips(objective, 1.0);
    let (plan, start) = plan_of(&loss, adjacency, ROWS as u64)?;
    let target = CuratorReplay::new(
        &format!("{GROUP}/replay-{name}/{adjacency}"),
        GROUP,
        adjacency,
        move |_| pairs(adjacency),
        move |curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, adjacency, ROWS)?;
            let joint = Joint::new(loss.clone(), plan.schedule().scale)?;
            Ok(match PrivateMean::new(&data, joint, curator) {
                Ok(means) => walk_from(&plan, Some(&start), means),
                Err(why) => Ran::refusal(why),
            })
        },
    );
    // The loss of a row of zeros hangs on y, so it does not vanish.
    registry.add(target.refused_unless(adjacency != Adjacency::ZeroOut));
    Ok(())
}

/// A field that does not depend on the point: two numbers in x, one in y.
type Field = [f64; 3];

struct Constant;

impl SaddleLoss for Constant {
    type Records = Vec<Field>;

    fn x_dim(&self, _: &Vec<Field>) -> usize {
        2
    }

    fn domain(&self) -> Domain {
        Domain::ball(1, 1.0)
    }

    fn saddle_constants(&self, _: &Vec<Field>) -> SaddleConstants {
        SaddleConstants {
            lipschitz_x: 1.0,
            lipschitz_y: 1.0,
            smooth_xx: 1.0,
            smooth_xy: 1.0,
            smooth_yy: 1.0,
            hessian_frobenius: 2.0,
        }
    }

    fn value(&self, field: &Field, x: &[f64], y: &[f64]) -> f64 {
        field[0] * x[0] + field[1] * x[1] + field[2] * y[0]
    }

    fn gradient(&self, field: &Field, _: &[f64], _: &[f64], out: (&mut [f64], &mut [f64])) {
        out.0.copy_from_slice(&field[..2]);
        out.1[0] = field[2];
    }
}

/// Records that are long in one block or in both, and no number in one.
fn joint(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let shares = shares()?;
    // Any facts of two coordinates and one: the releases are what counts.
    let loss = Scored::with_own_clips(AucSaddle::new(&shares)?, 1.0);
    let mut facts = SaddleFacts::scored(ROWS as u64, adjacency, 0, 1.0, &loss);
    facts.domain = Domain::ball(1, 1.0);
    let plan = GdaPlan::new(&facts, &budget(1.0)?, &limits())?;
    let scale = plan.schedule().scale;
    let nan = f64::NAN;
    registry.add(CuratorReplay::new(
        &format!("{GROUP}/replay-joint/{adjacency}"),
        GROUP,
        adjacency,
        move |_| {
            let base: Vec<Field> = (0..ROWS).map(|i| [0.1 * i as f64, -0.2, 0.3]).collect();
            let contents = [
                ("long in x only", [1e9, 0.0, 0.0], [-1e9, 0.0, 0.0]),
                ("long in y only", [0.0, 0.0, 1e9], [0.0, 0.0, -1e9]),
                ("long in both", [1e9, 1e9, 1e9], [-1e9, -1e9, -1e9]),
                (
                    "opposite in one block",
                    [0.5, 0.0, 0.5 / scale],
                    [0.5, 0.0, -0.5 / scale],
                ),
                ("no number in x", [nan, 0.0, 1e9], [0.0, 0.0, -1e9]),
                ("no number in y", [1e9, 0.0, nan], [-1e9, 0.0, 0.0]),
            ];
            neighbours(adjacency, &[base], &contents, &[0.0; 3])
        },
        move |curator, records: &Vec<Field>| {
            let public = declared(adjacency, ROWS);
            let data = PrivateData::made_up_of(records.clone(), adjacency, public)?;
            let means = PrivateMean::new(&data, Joint::new(Constant, scale)?, curator)?;
            Ok(walk_from(&plan, None, means))
        },
    ));
    Ok(())
}

/// The release of shares, and the shares that follow: under noise in which a cell is seen that has a good part of the few records, so that runs end
/// in an error after the release too, and under one in which all are. (What a plan makes at epsilon 1 is refused of so few.)
fn histogram(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let planned = SharesPlan::new(&budget(1.0)?)?;
    for (name, multiplier) in [("replay", 0.4), ("replay-seen", 0.01)] {
        let plan = SharesPlan {
            noise_multiplier: noise(multiplier)?,
            ..planned
        };
        let target = CuratorReplay::new(
            &format!("{SHARES}/{name}/{adjacency}"),
            SHARES,
            adjacency,
            move |_| pairs(adjacency),
            move |curator: Curator, records: &Vec<Labelled>| {
                let data = examples(design(records)?, adjacency, ROWS)?;
                // What follows is named, and not made.
                let after = Spend::Fixed(Event::gaussian(noise(5.0)?));
                Ok(match plan.release(&data, 3, curator, &[after]) {
                    Ok((shares, curator)) => Ran::of(&curator, format!("{shares:?}")),
                    Err(failed) if *failed.spent == Event::NoOp => Ran::refusal(failed.why),
                    Err(failed) => Ran {
                        spent: *failed.spent,
                        outcome: failed.why.to_string(),
                        refused: false,
                    },
                })
            },
        );
        registry.add(target.refused_unless(adjacency != Adjacency::ZeroOut));
    }
    Ok(())
}

/// One record, there or not, at epsilon 1: told from all joint releases of a run, and from the shares.
fn canaries(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::AddRemove;
    let rows = |world: World| {
        let mut rows = vec![([0.2, 0.1, 0.0], label(false, 0))];
        if world == World::In {
            rows.push(([1.0, 0.0, 0.0], label(true, 0)));
        }
        rows
    };
    let loss = Scored::with_own_clips(GroupDro::new(&shares()?, true, 1.0)?, 1.0);
    let (plan, start) = plan_of(&loss, adjacency, CROWD)?;
    let joint = Joint::new(loss, plan.schedule().scale)?;
    let clip = plan.schedule().clip;
    let claim = claim_of(&plan, adjacency)?;
    let alone = Examples::new(
        Design::dense(DIM, vec![1.0, 0.0, 0.0])?,
        vec![label(true, 0)],
        ClipNorm::new(1.0)?,
    )?;
    let run = Arc::new((plan, start, joint, alone));
    let score = move |world: World, seed: u64| {
        let (plan, start, joint, alone) = &*run;
        let data = examples(design(&rows(world))?, adjacency, CROWD as usize)?;
        let curator = Curator::simulated(adjacency, seed);
        let mut watched = Watched::new(PrivateMean::new(&data, joint.clone(), curator)?);
        plan.run_from(start, &mut watched, &mut NoObserver)?;
        let mut sum = 0.0;
        for release in watched.releases() {
            let mut own = vec![0.0; release.point.len()];
            joint.gradient(alone.record(0), &release.point, &mut own);
            let norm = dpopt_linalg::norm(&own);
            let factor = (clip / norm).min(1.0);
            sum += factor * dpopt_linalg::dot(&own, &release.released) / release.deviation.powi(2);
        }
        Ok(sum)
    };
    let name = format!("{GROUP}/canary/{adjacency}");
    let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000));

    let mu = 0.25;
    let z = noise(1.0 / mu)?;
    let score = move |world: World, seed: u64| {
        let data = examples(design(&rows(world))?, adjacency, CROWD as usize)?;
        let curator = Curator::simulated(adjacency, seed);
        let mut means = PrivateMean::new(&data, CellCounts { groups: 2 }, curator)?;
        means.books().reserve(&Spend::Fixed(Event::gaussian(z)))?;
        let mut running = Running::new(4, ClipNorm::new(1.0)?);
        let released = running.anchor(&mut means, &[0.0; 4], Which::All, z)?;
        Ok(released.estimate().gradient[1])
    };
    let name = format!("{SHARES}/canary/{adjacency}");
    let claim = Claim::gaussian(mu, DELTA)?;
    let target = Canary::new(&name, SHARES, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000));
    Ok(())
}
