//! Audits of selections: exponential mechanism and quantile.

use dpopt_privacy::selection::{
    BaseMeasure, QuantileBins, QuantileSum, ScoreBound, ScoreSum, SensitiveScores, Target,
};
use dpopt_privacy::{Adjacency, Curator, Epsilon, Event, Spend};

use super::common::RELATIONS;
use super::mechanisms::{Record, Run, replay, scored};
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const GROUP: &str = "selection";
/// Each selection's epsilon.
const EPSILON: f64 = 1.0;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let targets: [(&str, Run); 2] = [("exponential", exponential), ("quantile", quantile)];
    for (name, run) in targets {
        for adjacency in RELATIONS {
            registry.add(replay(name, GROUP, adjacency, run));
        }
    }
    canaries(registry)
}

fn epsilon() -> Result<Epsilon, CheckError> {
    Ok(Epsilon::new(EPSILON)?)
}

fn reserve(curator: &mut Curator, events: Vec<Event>) -> Result<(), CheckError> {
    Ok(curator.reserve(&Spend::Fixed(Event::composed(events)))?)
}

/// Scores of three candidates from [low, 1].
fn scores(curator: &Curator, records: &[Record], low: f64) -> Result<SensitiveScores, CheckError> {
    let mut sum = ScoreSum::new(ScoreBound::new(3, low, 1.0)?);
    for [x, y] in records {
        sum.add(&[*x, *y, -x]);
    }
    Ok(sum.finish(curator.adjacency()))
}

fn exponential(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let epsilon = epsilon()?;
    let event = Event::ExponentialMechanism { epsilon };
    reserve(curator, vec![event.repeated(3)])?;
    let mut chosen = Vec::new();
    // Scores of both signs, and positive ones.
    for low in [-1.0, 0.0] {
        let scores = scores(curator, records, low)?;
        chosen.push(curator.exponential(&scores, epsilon)?);
    }
    let based = scores(curator, records, -0.25)?;
    chosen.push(curator.exponential_with_base(&based, &[1, 0, 3], epsilon)?);
    Ok(format!("{chosen:?}"))
}

fn quantile(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let epsilon = epsilon()?;
    let targets = [Target::median(), Target::new(9, 10)?, Target::new(1, 100)?];
    let event = Event::ExponentialMechanism { epsilon };
    reserve(curator, vec![event.repeated(3)])?;
    let mut shown = String::new();
    for target in targets {
        let mut sum = QuantileSum::new(QuantileBins::new(&[-2.0, -0.5, 0.0, 0.5, 4.0])?);
        for [x, y] in records {
            // The record that is not there counts nowhere.
            let nobody = *x == 0.0 && *y == 0.0;
            sum.add(if nobody { f64::NAN } else { *x });
        }
        let counts = sum.finish(curator.adjacency());
        let bin = curator.quantile(&counts, target, BaseMeasure::Width, epsilon)?;
        shown += &format!("{bin:?}");
    }
    Ok(shown)
}

/// Votes for two candidates, the first far behind: the canary's vote is for the first.
fn votes(world: World) -> Result<SensitiveScores, CheckError> {
    let mut sum = ScoreSum::new(ScoreBound::whole(2, 0, 1)?);
    for _ in 0..3 {
        sum.add(&[0.0, 1.0]);
    }
    if world == World::In {
        sum.add(&[1.0, 0.0]);
    }
    Ok(sum.finish(Adjacency::AddRemove))
}

fn canaries(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::AddRemove;
    let epsilon = epsilon()?;
    let by_scores = Event::ExponentialMechanism { epsilon };
    registry.add(selection(
        "exponential",
        by_scores.clone(),
        move |curator, world| {
            let chosen = curator.exponential(&votes(world)?, epsilon)?;
            Ok(f64::from(u8::from(chosen == 0)))
        },
    ));
    registry.add(selection("quantile", by_scores, move |curator, world| {
        let mut sum = QuantileSum::new(QuantileBins::new(&[0.0, 1.0, 2.0])?);
        for _ in 0..3 {
            sum.add(0.5);
        }
        if world == World::In {
            sum.add(1.5);
        }
        let counts = sum.finish(adjacency);
        let bin = curator.quantile(&counts, Target::median(), BaseMeasure::Width, epsilon)?;
        Ok(bin.index as f64)
    }));
    Ok(())
}

fn selection(
    name: &str,
    event: Event,
    score: impl Fn(&mut Curator, World) -> Result<f64, CheckError> + Send + Sync + 'static,
) -> Canary {
    let name = format!("{name}/canary/add-remove");
    let score = scored(event, Adjacency::AddRemove, score);
    let claim = Claim::pure(EPSILON);
    Canary::new(&name, GROUP, claim, Statistic::ApproximateDp, score).with_runs(100_000, 1_000_000)
}
