//! Audits of selections: exponential mechanism, permute-and-flip, noisy max, quantile, sparse vector.

use dpopt_privacy::selection::{
    Answer, BaseMeasure, QuantileBins, QuantileSum, Queries, ScoreBound, ScoreSum, SensitiveScores,
    Split, Target,
};
use dpopt_privacy::{Adjacency, Curator, Epsilon, Event, LatticeSum, Refused, Spend};

use super::common::{RELATIONS, bound};
use super::mechanisms::{Record, Run, replay, scored};
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const GROUP: &str = "selection";
/// Each selection's epsilon.
const EPSILON: f64 = 1.0;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let targets: [(&str, Run); 6] = [
        ("exponential", exponential),
        ("permute-and-flip", permute_and_flip),
        ("noisy-max", noisy_max),
        ("quantile", quantile),
        ("above-threshold", above_threshold),
        ("above-threshold-norms", above_threshold_norms),
    ];
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
    let mut chosen = both(curator, records, Curator::exponential)?;
    let based = scores(curator, records, -0.25)?;
    chosen.push(curator.exponential_with_base(&based, &[1, 0, 3], epsilon)?);
    Ok(format!("{chosen:?}"))
}

/// Selects from scores.
type Choose = fn(&mut Curator, &SensitiveScores, Epsilon) -> Result<usize, Refused>;

/// From scores of both signs, and from positive ones.
fn both(
    curator: &mut Curator,
    records: &[Record],
    choose: Choose,
) -> Result<Vec<usize>, CheckError> {
    let mut chosen = Vec::new();
    for low in [-1.0, 0.0] {
        let scores = scores(curator, records, low)?;
        chosen.push(choose(curator, &scores, epsilon()?)?);
    }
    Ok(chosen)
}

fn permute_and_flip(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let event = Event::PermuteAndFlip {
        epsilon: epsilon()?,
    };
    reserve(curator, vec![event.repeated(2)])?;
    Ok(format!(
        "{:?}",
        both(curator, records, Curator::permute_and_flip)?
    ))
}

fn noisy_max(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let event = Event::ReportNoisyMax {
        epsilon: epsilon()?,
    };
    reserve(curator, vec![event.repeated(2)])?;
    Ok(format!(
        "{:?}",
        both(curator, records, Curator::report_noisy_max)?
    ))
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

/// Queries of both signs; the run goes on after refusals, and ends when its answers are used up.
fn above_threshold(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let epsilon = epsilon()?;
    reserve(curator, vec![Event::AboveThreshold { epsilon }.repeated(2)])?;
    let mut shown = String::new();
    for (low, split) in [(-1.0, Split::Half), (0.0, Split::Optimal)] {
        let one = ScoreBound::new(1, low, 1.0)?;
        let mut run = curator.above_threshold(Queries::Scores(one), 1.0, 2, epsilon, split)?;
        for sign in [1.0, -1.0, 1.0, -1.0, 1.0] {
            let mut sum = ScoreSum::new(one);
            records.iter().for_each(|[x, _]| sum.add(&[sign * x]));
            match run.ask_score(&sum.finish(curator.adjacency())) {
                Ok(answer) => shown += &format!("{answer:?} "),
                Err(refused) => shown += &format!("{refused} "),
            }
        }
    }
    Ok(shown)
}

fn above_threshold_norms(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let epsilon = epsilon()?;
    reserve(curator, vec![Event::AboveThreshold { epsilon }])?;
    let queries = Queries::Norms(bound(2)?);
    let mut run = curator.above_threshold(queries, 2.0, 1, epsilon, Split::Half)?;
    let mut shown = String::new();
    for sign in [1.0, -1.0, 1.0] {
        let mut sum = LatticeSum::new(bound(2)?);
        for [x, y] in records {
            sum.add_scaled(1.0, &[sign * x, *y]);
        }
        match run.ask_norm(sum) {
            Ok(answer) => shown += &format!("{answer:?} "),
            Err(refused) => shown += &format!("{refused} "),
        }
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
    let choices: [(&str, Event, Choose); 3] = [
        ("exponential", by_scores.clone(), Curator::exponential),
        (
            "permute-and-flip",
            Event::PermuteAndFlip { epsilon },
            Curator::permute_and_flip,
        ),
        (
            "noisy-max",
            Event::ReportNoisyMax { epsilon },
            Curator::report_noisy_max,
        ),
    ];
    for (name, event, choose) in choices {
        registry.add(selection(name, event, move |curator, world| {
            let chosen = choose(curator, &votes(world)?, epsilon)?;
            Ok(f64::from(u8::from(chosen == 0)))
        }));
    }
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
    let event = Event::AboveThreshold { epsilon };
    registry.add(selection(
        "above-threshold",
        event,
        move |curator, world| {
            let one = ScoreBound::whole(1, 0, 1)?;
            let queries = Queries::Scores(one);
            let mut run = curator.above_threshold(queries, 4.0, 1, epsilon, Split::Half)?;
            // Without the canary all queries lie below; with it they come closer.
            for asked in 0..4 {
                let mut sum = ScoreSum::new(one);
                if world == World::In {
                    sum.add(&[1.0]);
                }
                if run.ask_score(&sum.finish(adjacency))? == Answer::Above {
                    return Ok(f64::from(4 - asked));
                }
            }
            Ok(0.0)
        },
    ));
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
