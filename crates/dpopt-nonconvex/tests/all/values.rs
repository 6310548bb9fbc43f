//! Runs from values alone: on samples, on slices, without a bound, and on programs that have no gradient.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use dpopt_linalg::{Design, distance};
use dpopt_nonconvex::{
    BoundSense, BoundedValues, GOLDSTEIN_ZO, GOLDSTEIN_ZO_PASS, GOLDSTEIN_ZO_SAMPLED,
    GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings, Limits, NOISY_GD, NoObserver, Plan,
    PlanError, PublicFacts, Release, Run, RunError, SOLVERS, Stop, Withheld,
};
use dpopt_oracle::{
    Activation, Answer, ClosureLoss, Constants, Convexity, FnOracle, Head, Loss, Mean, Mlp, Offers,
    Oracle, OracleFacts, PrivateData, PrivateMean, PrivateValues, Question, Regularizer, Scale,
};
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, Curator, Event};

use crate::common::{self, budget, extra, facts};

const RECORDS: u64 = 4_000;

/// A cost of 1 on the wrong side of a line through the origin; it panics at some points.
fn program() -> impl Loss<Records = Vec<[f64; 2]>> {
    with_slopes_up_to(f64::INFINITY)
}

/// The same, said to have these.
fn with_slopes_up_to(lipschitz: f64) -> impl Loss<Records = Vec<[f64; 2]>> {
    let constants = Constants::new(lipschitz, f64::INFINITY, 1.0, Convexity::Nonconvex);
    ClosureLoss::values(2, constants, |x: &[f64; 2], w: &[f64]| {
        assert!(w[0] < 1e3, "a record that must not be told");
        f64::from(u8::from((x[0] * w[0] + x[1] * w[1] > 0.0) != (x[0] > 0.0)))
    })
}

fn records() -> Vec<[f64; 2]> {
    (0..RECORDS)
        .map(|i| {
            let turn = i as f64 * 0.7;
            [turn.cos(), turn.sin()]
        })
        .collect()
}

/// Of which no constant is known.
fn nothing_known(adjacency: Adjacency) -> PublicFacts {
    PublicFacts {
        adjacency,
        lipschitz: f64::INFINITY,
        smoothness: f64::INFINITY,
        initial_gap: f64::INFINITY,
        row_norm: f64::INFINITY,
        ..facts(2, RECORDS)
    }
}

#[test]
fn a_program_without_a_gradient_is_planned_run_and_bounded() {
    let bounded = BoundedValues {
        range: 1.0,
        smoothing: 0.5,
    };
    let extra = extra().with_bounded_values(bounded);
    let limits = Limits::steps(1_500);
    for adjacency in [Adjacency::ReplaceOne, Adjacency::AddRemove] {
        let declared = (adjacency == Adjacency::AddRemove).then_some(RECORDS);
        let data = PrivateData::of(records(), adjacency, declared).unwrap();
        for solver in [&GOLDSTEIN_ZO, &GOLDSTEIN_ZO_SAMPLED, &GOLDSTEIN_ZO_PASS] {
            if !solver.accepts(adjacency) {
                continue;
            }
            let facts = nothing_known(adjacency);
            let plan = solver.plan(&facts, &extra, &budget(4.0), &limits).unwrap();
            let curator = Curator::protected(adjacency).unwrap();
            let mut oracle = PrivateValues::new(&data, program(), curator).unwrap();
            let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
            assert_eq!(outcome.stop, Stop::Completed, "{solver}");
            assert_eq!(outcome.counts.gradients, 0.0, "{solver}");
            let cost =
                |event: &Event| Accountant::least(event, budget(4.0).delta, adjacency).unwrap();
            assert_eq!(cost(&outcome.spent), cost(plan.spend().event()), "{solver}");
            let stated = outcome.bound();
            assert_eq!(stated.is_some(), adjacency == Adjacency::ReplaceOne);
            let Some(bound) = stated else { continue };
            assert_eq!(bound.smoothing, Some(0.5), "{solver}");
            assert!(bound.subject().contains("of the smoothed loss F_a"));
            let population = bound.sense == BoundSense::PopulationMean;
            assert_eq!(population, solver.needs.positions, "{solver}");
        }
    }
}

/// A regulariser is not smoothed, and the walk's proof takes gradients of the field that it follows to be at most L long, as those of
/// the sum are not: (lambda/2) w^2 has slopes of any length. So nothing is proven of the sum, smoothed loss or not.
#[test]
fn a_goldstein_bound_is_none_with_a_regulariser() {
    let facts = PublicFacts {
        lipschitz: 4.0,
        ..nothing_known(Adjacency::ReplaceOne)
    };
    let bounded = BoundedValues {
        range: 1.0,
        smoothing: 0.5,
    };
    let data = PrivateData::of(records(), Adjacency::ReplaceOne, None).unwrap();
    let ridge = Regularizer::Ridge(Scale::new(1e-3).unwrap());
    let limits = Limits::steps(300);
    for (extra, known) in [
        (extra().with_bounded_values(bounded), facts),
        (extra(), common::facts(2, RECORDS)),
    ] {
        let plan = GOLDSTEIN_ZO.plan(&known, &extra, &budget(4.0), &limits);
        let plan = plan.unwrap();
        for regularizer in [None, Some(ridge)] {
            let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
            let loss = with_slopes_up_to(1.0);
            let mut oracle = PrivateValues::new(&data, loss, curator).unwrap();
            let mut observer = NoObserver;
            let mut run = Run::new(&mut observer);
            if let Some(regularizer) = regularizer {
                run = run.with_regularizer(regularizer);
            }
            let outcome = plan.run_with(&mut oracle, run).unwrap();
            assert_eq!(outcome.stop, Stop::Completed);
            let expected = regularizer.is_none();
            assert_eq!(outcome.bound().is_some(), expected, "{regularizer:?}");
        }
    }
}

/// Gradients of perceptrons are summed in single precision, and slopes are not: in neither oracle that stands against the bound of a run from
/// slopes. What does is that no constant of a perceptron is known.
#[test]
fn sums_of_slopes_are_exact_on_networks_too() {
    let loss = || Mlp::new(&[2, 2], Activation::Tanh, Head::Softmax).unwrap();
    let rows: Vec<f64> = (0..2 * RECORDS).map(|i| 0.5 * (i as f64).sin()).collect();
    let labels = (0..RECORDS).map(|i| (i % 2) as f32).collect();
    let design = Design::dense(2, rows).unwrap();
    let data = PrivateData::made_up(
        design,
        labels,
        ClipNorm::new(1.0).unwrap(),
        Adjacency::ReplaceOne,
        None,
    )
    .unwrap();
    let curator = || Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut means = PrivateMean::new(&data, loss(), curator()).unwrap();
    let mut values = PrivateValues::new(&data, loss(), curator()).unwrap();
    assert!(!means.facts().exact_for(Offers::MEANS));
    assert!(!means.facts().exact_for(Offers::MEANS | Offers::SLOPES));
    let facts = common::facts(means.facts().dim, RECORDS);
    let plan = GOLDSTEIN_ZO
        .plan(&facts, &extra(), &budget(8.0), &Limits::steps(50))
        .unwrap();
    for oracle in [&mut means as &mut dyn Oracle, &mut values] {
        assert!(oracle.facts().exact_for(plan.needs()));
        let outcome = plan.run(oracle, &mut NoObserver).unwrap();
        let why = outcome.withheld();
        assert!(
            matches!(why, Some(Withheld::Constant { name: "L0", .. })),
            "{why:?}"
        );
    }
}

/// Typed, before anything is reserved.
#[test]
fn solvers_that_need_gradients_refuse_a_program() {
    let data = PrivateData::of(records(), Adjacency::ReplaceOne, None).unwrap();
    let facts = facts(2, RECORDS);
    let (mut refusing, mut running) = (0, 0);
    for solver in SOLVERS {
        let Ok(plan) = solver.plan(&facts, &extra(), &budget(4.0), &Limits::steps(50)) else {
            continue;
        };
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let mut oracle = PrivateValues::new(&data, program(), curator).unwrap();
        let run = plan.run(&mut oracle, &mut NoObserver);
        if solver.needs.values {
            assert!(run.is_ok(), "{solver}");
            running += 1;
            continue;
        }
        let refused =
            matches!(run, Err(RunError::NotOffered { solver: name, .. }) if name == plan.name());
        assert!(refused, "{solver}");
        assert_eq!(oracle.curator().reserved(), Event::NoOp, "{solver}");
        refusing += 1;
    }
    // Others have no plan that says something on so few records.
    let values = SOLVERS.iter().filter(|solver| solver.needs.values).count();
    assert_eq!(running, values);
    assert!(4 * refusing >= 3 * (SOLVERS.len() - values), "{refusing}");
    // With no constants there is not even a plan.
    let nothing = nothing_known(Adjacency::ReplaceOne);
    let plan = NOISY_GD.plan(&nothing, &extra(), &budget(4.0), &Limits::steps(50));
    assert!(matches!(
        plan,
        Err(PlanError::BadFact {
            name: "lipschitz",
            ..
        })
    ));
}

/// The smoothed loss of a jump may have no gradient at the origin: the walk starts beside it, by another vector for another key, and
/// where there is a Lipschitz constant at it.
#[test]
fn the_start_of_a_program_is_moved() {
    let first = |bounded: bool, seed: u64| {
        let bounds = BoundedValues {
            range: 1.0,
            smoothing: 0.5,
        };
        let (known, extra) = if bounded {
            let extra = extra().with_bounded_values(bounds);
            (nothing_known(Adjacency::ReplaceOne), extra)
        } else {
            (facts(2, RECORDS), extra())
        };
        let limits = Limits::steps(500);
        let plan = GOLDSTEIN_ZO
            .plan(&known, &extra, &budget(4.0), &limits)
            .unwrap();
        let of = OracleFacts::new(2, RECORDS, Adjacency::ReplaceOne, Offers::SLOPES);
        let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        let mut oracle = FnOracle::new(of, curator, |_, question| {
            let Question::Slopes { of, .. } = question else {
                panic!("{question:?}");
            };
            Ok(Answer::Mean(Mean::new(
                vec![0.0; of.directions.count()],
                0.0,
            )))
        });
        let mut asked = Vec::new();
        let outcome = plan
            .run(&mut oracle, &mut |release: &Release<'_>| {
                asked.push(release.point.to_vec());
                ControlFlow::Continue(())
            })
            .unwrap();
        // Nothing pulls: all points are the start, and so is what is returned.
        assert!(asked.iter().all(|point| distance(point, &asked[0]) < 1e-12));
        assert!(distance(&outcome.point, &asked[0]) < 1e-12);
        asked.swap_remove(0)
    };
    assert_eq!(first(false, 1), [0.0, 0.0]);
    let (one, other) = (first(true, 1), first(true, 2));
    assert_ne!(one, other);
    for start in [one, other] {
        let length = distance(&start, &[0.0, 0.0]);
        assert!(length > 0.0 && length <= 0.5e-6, "{length}");
    }
}

/// There are no more orthonormal directions than dimensions. Refused before anything is reserved.
#[test]
fn plans_by_hand_of_too_many_directions_are_not_walked() {
    let facts = facts(3, RECORDS);
    let settings = GoldsteinSettings::at_radius(3.0).from_values(None);
    let planned = GoldsteinPlan::new(&facts, &budget(4.0), &settings, 200).unwrap();
    for count in [3, 4, 1_000] {
        let directions = NonZeroUsize::new(count).unwrap();
        let schedule = GoldsteinSchedule {
            directions: Some(directions),
            ..*planned.schedule()
        };
        let by_hand = GoldsteinPlan::by_hand(&facts, &budget(4.0), planned.settings(), schedule);
        let refused = match by_hand.walk(&[0.0; 3]) {
            Ok(_) => false,
            Err(RunError::Schedule {
                solver,
                name: "directions",
                value,
            }) => solver == by_hand.name() && value == count as f64,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(refused, count > 3, "along {count}");
    }
}

#[test]
fn more_directions_than_dimensions_are_not_planned() {
    let facts = facts(16, 20_000);
    let seventeen = extra().with_directions(17);
    let refused = GOLDSTEIN_ZO.plan(&facts, &seventeen, &budget(1.0), &Limits::steps(100));
    assert!(matches!(
        refused,
        Err(PlanError::Directions {
            directions: 17,
            dim: 16
        })
    ));
}
