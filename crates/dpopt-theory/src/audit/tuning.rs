//! Audits of a tuning: a choice among whole trainings on hostile rows, and one record in the best
//! of several runs.

use std::num::NonZeroUsize;

use dpopt_certify::{
    EvaluatedLabel, FittedModel, ModelEvaluation, TuningCandidate, TuningPlan, TuningRecords,
    TuningScore,
};
use dpopt_nonconvex::{Budget, ExtraFacts, Limits, Plan, PublicFacts, solver};
use dpopt_oracle::Glm;
use dpopt_privacy::{
    Adjacency, Body, Curator, Delta, Epsilon, Event, InnerRun, LatticeSum, Mu, Part, Spend,
    TuningInParts, Which,
};

use super::common::{DELTA, bound, noise};
use super::labelled::{Labelled, ROWS, design, examples, labelled_pairs};
use super::{Canary, CheckError, Claim, CuratorReplay, Ran, Registry, Statistic, World};

const GROUP: &str = "tuning";
const ADJACENCY: Adjacency = Adjacency::ReplaceOne;
/// The noise multiplier of a run, of the canaries.
const Z: f64 = 8.0;
const HELD: u64 = 3;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for seed in [0, 1] {
        registry.add(replay(seed)?);
    }
    for (name, shape) in [("poisson", f64::INFINITY), ("geometric", 1.0)] {
        registry.add(canary(name, shape)?);
    }
    Ok(())
}

/// Noisy descent and descent on samples, on hostile rows; another split holds other rows out.
fn replay(seed: u64) -> Result<CuratorReplay<Vec<Labelled>>, CheckError> {
    let facts = PublicFacts::glm(
        ROWS as u64 - HELD,
        super::common::DIM,
        ADJACENCY,
        1.0,
        Glm::Logistic.constants(1.0),
    )?;
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(DELTA)?,
    };
    let mut plans: Vec<Box<dyn Plan>> = Vec::new();
    for name in ["noisy-gd", "dp-sgd"] {
        let limits = Limits::steps(3);
        let found = solver(name)?;
        plans.push(found.plan(&facts, &ExtraFacts::default(), &budget, &limits)?);
    }
    let of = EvaluatedLabel::Two(Some(4));
    let evaluation = ModelEvaluation::new((HELD, ADJACENCY), Mu::new(0.25)?, of, 0.05)?;
    Ok(CuratorReplay::new(
        &format!("{GROUP}/replay/{seed}"),
        GROUP,
        ADJACENCY,
        move |_| labelled_pairs(ADJACENCY),
        move |mut curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, ADJACENCY, ROWS)?;
            let (train, held) = data.set_aside(HELD, seed)?;
            let candidates = plans.iter().map(|plan| TuningCandidate {
                plan: &**plan,
                model: FittedModel::Linear(Glm::Logistic),
                weights: None,
                start: None,
            });
            let parts = Part::of_split(ROWS as u64, HELD, seed);
            let plan = TuningPlan::new(
                candidates.collect(),
                (evaluation, TuningScore::Auc),
                (ADJACENCY, parts),
                (3.0, 1.0),
            )?;
            curator.reserve(&plan.spend())?;
            let records = TuningRecords {
                train: &train,
                held: &held,
            };
            let best = plan.run(&[records; 2], &mut curator, NonZeroUsize::MIN)?;
            curator.settle()?;
            Ok(Ran::of(&curator, format!("{best:?}")))
        },
    ))
}

/// The record is among those that are trained on; the score is what the best run has released.
fn canary(name: &str, shape: f64) -> Result<Canary, CheckError> {
    let parts = Part::of_split(ROWS as u64, HELD, 0);
    let (one, two) = (noise(Z)?, noise(2.0 * Z)?);
    let spend = |z| Spend::Fixed(Event::gaussian(z));
    let of = (vec![spend(one), spend(one)], spend(two));
    let tuning = TuningInParts::new(ADJACENCY, parts, of, (4.0, shape))?;
    let claim = Claim::of(&tuning.event(), DELTA, ADJACENCY)?;
    let score = move |world: World, seed: u64| {
        let mut curator = Curator::simulated(ADJACENCY, seed);
        curator.reserve(&Spend::Fixed(tuning.event()))?;
        let best = curator.repeat_and_select_in_parts(&tuning, |mut inner: InnerRun| {
            let released = inner.train.reserve(&spend(one)).and_then(|()| {
                let bound = bound(1).map_err(|_| dpopt_privacy::Refused::InnerRun)?;
                let mut sum = LatticeSum::new(bound);
                sum.add_scaled(if world == World::In { 1.0 } else { -1.0 }, &[1.0]);
                let body = Body::of(ROWS as u64 - HELD).numbered(parts[0].into());
                let ticket = inner.train.grant(Which::All, body, bound, one)?;
                inner.train.redeem(ticket, sum)
            });
            let first = released.map_or(f64::NEG_INFINITY, |released| released[0]);
            (first, first)
        })?;
        Ok(best.map_or(0.0, |best| best.value))
    };
    let name = format!("{GROUP}/canary-{name}");
    let canary = Canary::new(&name, GROUP, claim, Statistic::ApproximateDp, score);
    Ok(canary.with_runs(20_000, 200_000))
}
