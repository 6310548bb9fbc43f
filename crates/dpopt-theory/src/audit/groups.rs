//! Audits of saddle problems: gradient descent ascent on each objective, and the release of shares.

use dpopt_minimax::{GdaPlan, SaddleFacts, SaddleLimits, SharesPlan};
use dpopt_oracle::{
    AucSaddle, Cell, CellShares, EqualOpportunity, GroupDro, Joint, PrivateMean, ScoreSaddle,
    Scored,
};
use dpopt_privacy::{Adjacency, Curator, Event, Spend};

use super::common::{DIM, RELATIONS, budget, noise};
use super::hostile::neighbours;
use super::labelled::{Labelled, NOBODY, ROWS, design, examples};
use super::solvers::walk_from;
use super::{CheckError, CuratorReplay, Pair, Ran, Registry};

const GROUP: &str = "gda";
const SHARES: &str = "group-shares";

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
        histogram(registry, adjacency)?;
    }
    Ok(())
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
