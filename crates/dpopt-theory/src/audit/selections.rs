//! Audits of selections: exponential mechanism, permute-and-flip, noisy max, quantile, sparse vector.

use dpopt_privacy::selection::{
    Answer, BaseMeasure, QuantileBins, QuantileSum, Queries, ScoreBound, ScoreSum, SensitiveScores,
    Split, Target,
};
use dpopt_privacy::{Adjacency, Curator, Epsilon, Event, LatticeSum, PoolError, Refused, Spend};

use super::mechanisms::{RELATIONS, Record, bound, pairs};
use super::replay::{CuratorReplay, Ran};
use super::{AuditError, Canary, Claim, Registry, Statistic, World};

const GROUP: &str = "selection";
/// Each selection's epsilon.
const EPSILON: f64 = 1.0;

type Run = fn(&mut Curator, &[Record]) -> Result<String, AuditError>;

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
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
            registry.add(CuratorReplay::new(
                &format!("{name}/replay/{adjacency}"),
                GROUP,
                adjacency,
                move |_| pairs(adjacency),
                move |mut curator, records| {
                    let outcome = run(&mut curator, records)?;
                    Ok(Ran {
                        spent: curator.spent(),
                        outcome,
                        refused: false,
                    })
                },
            ));
        }
    }
    canaries(registry)
}

fn epsilon() -> Result<Epsilon, AuditError> {
    Ok(Epsilon::new(EPSILON)?)
}

fn reserve(curator: &mut Curator, events: Vec<Event>) -> Result<(), AuditError> {
    Ok(curator.reserve(&Spend::Fixed(Event::composed(events)))?)
}

/// Scores of three candidates from [low, 1].
fn scores(curator: &Curator, records: &[Record], low: f64) -> Result<SensitiveScores, AuditError> {
    let mut sum = ScoreSum::new(ScoreBound::new(3, low, 1.0)?);
    for [x, y] in records {
        sum.add(&[*x, *y, -x]);
    }
    Ok(sum.finish(curator.adjacency()))
}

fn exponential(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let epsilon = epsilon()?;
    let event = Event::ExponentialMechanism { epsilon };
    reserve(curator, vec![event.repeated(3)])?;
    let mut chosen = Vec::new();
    for low in [-1.0, 0.0] {
        chosen.push(curator.exponential(&scores(curator, records, low)?, epsilon)?);
    }
    let based = scores(curator, records, -0.25)?;
    chosen.push(curator.exponential_with_base(&based, &[1, 0, 3], epsilon)?);
    Ok(format!("{chosen:?}"))
}

fn permute_and_flip(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let epsilon = epsilon()?;
    reserve(curator, vec![Event::PermuteAndFlip { epsilon }.repeated(2)])?;
    let mut chosen = Vec::new();
    for low in [-1.0, 0.0] {
        chosen.push(curator.permute_and_flip(&scores(curator, records, low)?, epsilon)?);
    }
    Ok(format!("{chosen:?}"))
}

fn noisy_max(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let epsilon = epsilon()?;
    reserve(curator, vec![Event::ReportNoisyMax { epsilon }.repeated(2)])?;
    let mut chosen = Vec::new();
    for low in [-1.0, 0.0] {
        chosen.push(curator.report_noisy_max(&scores(curator, records, low)?, epsilon)?);
    }
    Ok(format!("{chosen:?}"))
}

fn quantile(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
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
fn above_threshold(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
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

fn above_threshold_norms(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
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
fn votes(world: World) -> Result<SensitiveScores, AuditError> {
    let mut sum = ScoreSum::new(ScoreBound::whole(2, 0, 1)?);
    for _ in 0..3 {
        sum.add(&[0.0, 1.0]);
    }
    if world == World::In {
        sum.add(&[1.0, 0.0]);
    }
    Ok(sum.finish(Adjacency::AddRemove))
}

fn canaries(registry: &mut Registry) -> Result<(), AuditError> {
    let adjacency = Adjacency::AddRemove;
    let epsilon = epsilon()?;
    type Choose = fn(&mut Curator, &SensitiveScores, Epsilon) -> Result<usize, Refused>;
    let choices: [(&str, Event, Choose); 3] = [
        (
            "exponential",
            Event::ExponentialMechanism { epsilon },
            Curator::exponential,
        ),
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
        registry.add(selection(name, move |world, seed| {
            let mut curator = Curator::simulated(adjacency, seed);
            curator.reserve(&Spend::Fixed(event.clone()))?;
            let chosen = choose(&mut curator, &votes(world)?, epsilon)?;
            Ok(f64::from(u8::from(chosen == 0)))
        }));
    }
    registry.add(selection("quantile", move |world, seed| {
        let mut curator = Curator::simulated(adjacency, seed);
        let event = Event::ExponentialMechanism { epsilon };
        curator.reserve(&Spend::Fixed(event))?;
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
    registry.add(selection("above-threshold", move |world, seed| {
        let mut curator = Curator::simulated(adjacency, seed);
        curator.reserve(&Spend::Fixed(Event::AboveThreshold { epsilon }))?;
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
    }));
    Ok(())
}

fn selection(
    name: &str,
    score: impl Fn(World, u64) -> Result<f64, AuditError> + Send + Sync + 'static,
) -> Canary {
    Canary::new(
        &format!("{name}/canary/add-remove"),
        GROUP,
        Claim::pure(EPSILON),
        Statistic::ApproximateDp,
        score,
    )
    .with_runs(100_000, 1_000_000)
}

impl From<PoolError> for AuditError {
    fn from(error: PoolError) -> Self {
        AuditError::Refused(error.into())
    }
}
