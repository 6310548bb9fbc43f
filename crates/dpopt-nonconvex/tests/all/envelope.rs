//! Runs on losses averaged along rows: what the bound says of points that were returned, measured from values.

use dpopt_linalg::{Design, norm};
use dpopt_nonconvex::{
    BoundedQuantity, DP_SGD, EnvelopePlan, GlmRun, Limits, NoObserver, Plan, PlanError,
    PublicFacts, Run, SPIDERBOOST, SpiderBoostPlan, TREE_SPIDER,
};
use dpopt_oracle::{Glm, PrivateData, PrivateMean, Quantile, Regularizer, Scale};
use dpopt_privacy::{Adjacency, ClipNorm, Curator};

use crate::common::budget;

const RECORDS: usize = 4_000;
const RADIUS: f64 = 0.2;
/// The two rows there are, with their labels: half of the records each, of two kinks.
const ROWS: [([f64; 2], f64); 2] = [([1.0, 0.0], 0.5), ([0.6, 0.64], -0.25)];

fn data() -> PrivateData {
    let (rows, labels): (Vec<[f64; 2]>, Vec<f32>) = (0..RECORDS)
        .map(|i| (ROWS[i % 2].0, ROWS[i % 2].1 as f32))
        .unzip();
    let design = Design::dense(2, rows.concat()).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    PrivateData::made_up(design, labels, one, Adjacency::ReplaceOne, None)
        .unwrap()
        .with_label_bound(one)
}

fn facts(loss: Glm) -> PublicFacts {
    let constants = loss.constants_within(1.0, Some(1.0));
    PublicFacts::glm(RECORDS as u64, 2, Adjacency::ReplaceOne, 1.0, constants).unwrap()
}

fn planned(loss: Glm) -> EnvelopePlan {
    let limits = Limits::steps(1_000);
    EnvelopePlan::new(&facts(loss), &budget(20.0), RADIUS, &SPIDERBOOST, &limits).unwrap()
}

/// ||grad F^r(w)|| from values: the mean of (phi(z + h) - phi(z - h))/(2 h) x with h = r ||x||.
fn averaged_gradient(loss: Glm, point: &[f64], reach: f64) -> f64 {
    let mut mean = [0.0; 2];
    for (row, label) in ROWS {
        let product = row[0] * point[0] + row[1] * point[1];
        let h = reach * norm(&row);
        let slope = (loss.value(product + h, label) - loss.value(product - h, label)) / (2.0 * h);
        for (mean, x) in mean.iter_mut().zip(row) {
            *mean += 0.5 * slope * x;
        }
    }
    norm(&mean)
}

/// The root mean square over runs of the length at `radius` at the point returned.
fn measured(plan: &EnvelopePlan, loss: Glm, radius: f64) -> f64 {
    let data = data();
    let runs = 4;
    let squares = (0..runs).map(|seed| {
        let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        let run = GlmRun::new(&data, loss, curator);
        let (outcome, _) = run.run(plan, &mut NoObserver).unwrap();
        averaged_gradient(loss, &outcome.point, radius).powi(2)
    });
    (squares.sum::<f64>() / runs as f64).sqrt()
}

/// On kinked rows the plan's points keep its bound. The twin is the same walk on averages over a tenth of the reach, whose gradients
/// change ten times as fast as is said.
#[test]
fn points_of_kinked_rows_keep_the_bound_and_those_of_a_broken_reach_do_not() {
    let pinball = Glm::Pinball(Quantile::new(0.7).unwrap());
    for loss in [Glm::Absolute, pinball] {
        let plan = planned(loss);
        let bound = plan.bound().unwrap().value;
        let trivial = facts(loss).lipschitz;
        assert!(bound < 0.5 * trivial, "{loss}: {bound}");
        let found = measured(&plan, loss, RADIUS);
        assert!(found <= bound, "{loss}: {found} of {bound}");
        // The base as it was planned for the whole reach.
        let averaged = EnvelopePlan::averaged(&facts(loss), RADIUS).unwrap();
        let base = SpiderBoostPlan::new(&averaged, &budget(20.0), 1_000).unwrap();
        let (facts, tenth) = (facts(loss), RADIUS / 10.0);
        let twin = EnvelopePlan::by_hand(&facts, &budget(20.0), tenth, Box::new(base)).unwrap();
        let broken = measured(&twin, loss, RADIUS);
        assert!(broken > bound, "{loss}: {broken} of {bound}");
    }
}

/// A base states a bound on the gradient norm over these records: dp-sgd states none, and that of tree-spider, about the population,
/// says nothing here for so few records and is none of these where there are more.
#[test]
fn bases_without_a_bound_on_these_records_are_refused() {
    let of = |solver, records| {
        let facts = PublicFacts {
            records,
            ..facts(Glm::Absolute)
        };
        let limits = Limits::steps(1 << 20);
        EnvelopePlan::new(&facts, &budget(20.0), RADIUS, solver, &limits).unwrap_err()
    };
    let none = of(&DP_SGD, 4_000);
    assert!(matches!(none, PlanError::NoBaseBound), "{none}");
    let population = of(&TREE_SPIDER, 1 << 40);
    assert!(matches!(population, PlanError::NoBaseBound), "{population}");
    let few = of(&TREE_SPIDER, 100);
    assert!(matches!(few, PlanError::VacuousGoldstein { .. }), "{few}");
}

/// The sum with a regulariser is averaged along no row: nothing is stated of it, and without one a bound is.
#[test]
fn no_bound_is_stated_with_a_regulariser() {
    let data = data();
    let plan = planned(Glm::Absolute);
    let ridge = Regularizer::Ridge(Scale::new(1.0).unwrap());
    for regularizer in [None, Some(ridge)] {
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut means = PrivateMean::new(&data, Glm::Absolute, curator).unwrap();
        let mut observer = NoObserver;
        let mut run = Run::new(&mut observer);
        if let Some(regularizer) = regularizer {
            run = run.with_regularizer(regularizer);
        }
        let stated = plan.run_with(&mut means, run).unwrap().bound();
        assert_eq!(stated.is_some(), regularizer.is_none());
        let component_wise = BoundedQuantity::ComponentWiseGoldsteinDistance;
        assert!(stated.is_none_or(|bound| bound.quantity == component_wise));
    }
}
