//! A tuning meets what does not go together before anything is charged.

use std::num::NonZeroUsize;

use dpopt_certify::{
    EvaluatedLabel, FittedModel, ModelEvaluation, TuningCandidate, TuningError, TuningFailure,
    TuningPlan, TuningRecords, TuningScore,
};
use dpopt_linalg::Design;
use dpopt_oracle::{ClassWeights, Glm, PrivateData};
use dpopt_privacy::Adjacency::{self, ReplaceOne, ZeroOut};
use dpopt_privacy::{ClipNorm, Curator, Delta, Epsilon, Event, Mu, NoiseMultiplier, Part, Spend};
use dpopt_solver::{Budget, Item, Plan, PublicFacts, RunError, Terms, Walk};

const RECORDS: u64 = 60;
const HELD: u64 = 10;
const SEED: u64 = 3;
const DIM: usize = 2;

/// A plan of one release that can't be walked: a run of it has been charged.
#[derive(Debug)]
struct Standing(Terms);

impl Plan for Standing {
    fn name(&self) -> &'static str {
        "standing"
    }

    fn terms(&self) -> &Terms {
        &self.0
    }

    fn items(&self) -> Vec<Item<'_>> {
        Vec::new()
    }

    fn walk(&self, _: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let solver = self.name();
        Err(RunError::NotOneProduct { solver })
    }
}

fn plan(records: u64, dim: usize, adjacency: Adjacency) -> Standing {
    let constants = Glm::Logistic.constants(1.0);
    let facts = PublicFacts::glm(records, dim, adjacency, 1.0, constants).unwrap();
    let budget = Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    let z = NoiseMultiplier::new(20.0).unwrap();
    let spend = Spend::Fixed(Event::gaussian(z));
    Standing(Terms::new(&facts, &budget, 1, spend))
}

/// The two parts of a table of so many records and columns.
fn parts(records: u64, columns: usize, adjacency: Adjacency) -> (PrivateData, PrivateData) {
    let count = records as usize;
    let rows = (0..count * columns).map(|k| ((k % 7) as f64 - 3.0) / 10.0);
    let design = Design::dense(columns, rows.collect()).unwrap();
    let labels = (0..count).map(|k| if k % 2 == 0 { 1.0 } else { -1.0 });
    let norm = ClipNorm::new(1.0).unwrap();
    let data = PrivateData::made_up(design, labels.collect(), norm, adjacency, None).unwrap();
    data.set_aside(HELD, SEED).unwrap()
}

fn evaluation(held: u64) -> ModelEvaluation {
    let of = EvaluatedLabel::Two(Some(4));
    ModelEvaluation::new((held, ReplaceOne), Mu::new(0.2).unwrap(), of, 0.05).unwrap()
}

/// What a tuning of two such plans does with these records, and whether anything was spent.
fn tuned(
    plans: [&Standing; 2],
    held: u64,
    weights: Option<ClassWeights>,
    (train, held_out): &(PrivateData, PrivateData),
) -> (Result<(), TuningError>, Event) {
    let mut curator = Curator::simulated(ReplaceOne, 1);
    let split = Part::of_split(RECORDS, HELD, SEED);
    let planned = TuningPlan::new(
        plans
            .map(|plan| TuningCandidate {
                plan,
                model: FittedModel::Linear(Glm::Logistic),
                weights: weights.clone(),
                start: None,
            })
            .to_vec(),
        (evaluation(held), TuningScore::Auc),
        (ReplaceOne, split),
        (3.0, 1.0),
    );
    let run = planned.and_then(|planned| {
        curator.reserve(&planned.spend())?;
        let records = TuningRecords {
            train,
            held: held_out,
        };
        let best = planned.run(&[records; 2], &mut curator, NonZeroUsize::MIN)?;
        // A geometric number of runs is at least one, and none of them gets anywhere.
        assert!(matches!(best, Err(TuningFailure::Training(_))), "{best:?}");
        Ok(())
    });
    (run, curator.spent())
}

#[test]
fn what_does_not_go_together_is_refused_before_the_charge() {
    let good = plan(RECORDS - HELD, DIM, ReplaceOne);
    let records = parts(RECORDS, DIM, ReplaceOne);
    let weights = ClassWeights::of_signs(1.0, 3.0).unwrap();
    for weights in [None, Some(weights)] {
        let (run, spent) = tuned([&good, &good], HELD, weights, &records);
        run.unwrap();
        assert_ne!(spent, Event::NoOp);
    }

    let other_count = plan(RECORDS, DIM, ReplaceOne);
    let other_dim = plan(RECORDS - HELD, DIM + 1, ReplaceOne);
    let other_relation = plan(RECORDS - HELD, DIM, ZeroOut);
    let refused = |plans, held, records: &_| {
        let (run, spent) = tuned(plans, held, None, records);
        assert_eq!(spent, Event::NoOp);
        run.unwrap_err()
    };
    let mismatch = |error: TuningError| match error {
        TuningError::Mismatch {
            candidate,
            planned,
            found,
            ..
        } => (candidate, planned, found),
        other => panic!("{other}"),
    };
    let error = refused([&good, &other_count], HELD, &records);
    assert_eq!(mismatch(error), (2, RECORDS, RECORDS - HELD));
    let error = refused([&good, &other_dim], HELD, &records);
    assert_eq!(mismatch(error), (2, DIM as u64 + 1, DIM as u64));
    let error = refused([&good, &good], HELD + 1, &records);
    assert_eq!(mismatch(error), (1, HELD + 1, HELD));
    let wide = parts(RECORDS, DIM + 1, ReplaceOne);
    let error = refused([&good, &good], HELD, &wide);
    assert_eq!(mismatch(error), (1, DIM as u64, DIM as u64 + 1));
    let adjacency = |error: TuningError| match error {
        TuningError::Adjacency {
            candidate,
            planned,
            found,
        } => (candidate, planned, found),
        other => panic!("{other}"),
    };
    let zeroed = parts(RECORDS, DIM, ZeroOut);
    let error = refused([&good, &good], HELD, &zeroed);
    assert_eq!(adjacency(error), (1, ReplaceOne, ZeroOut));
    let error = refused([&good, &other_relation], HELD, &records);
    assert_eq!(adjacency(error), (2, ReplaceOne, ZeroOut));
}
