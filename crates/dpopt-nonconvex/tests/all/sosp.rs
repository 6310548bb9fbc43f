//! Second-order stationary points: from a saddle of private records to a certificate, and what is refused.

use std::ops::ControlFlow;

use dpopt_linalg::{Design, add_scaled, dot, norm};
use dpopt_nonconvex::{
    Budget, HessianFacts, NoObserver, Outcome, Plan as _, PlanError, PublicFacts, Release,
    RunError, SecondOrderTargets, SospPlan, SospSettings, Stop,
};
use dpopt_oracle::{Convexity, Glm, PrivateData, PrivateMean, QuadraticLink};
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, Curator};

use crate::common::budget;

const RECORDS: usize = 30_000;
const DIM: usize = 3;

/// ln(1 + exp(-y <w, x>^2)), y = 1: at the origin a saddle, or a maximum, whose Hessian is -mean(x x^T).
fn loss() -> QuadraticLink {
    QuadraticLink::phase_retrieval(Glm::Logistic, ClipNorm::new(1.0).unwrap())
}

/// Rows along the first axis, but for one in ten.
fn row(i: usize) -> [f64; DIM] {
    match i % 10 {
        0 => [0.1, 0.6, 0.2],
        _ => [0.9, 0.0, 0.1],
    }
}

fn data() -> PrivateData {
    let rows: Vec<f64> = (0..RECORDS).flat_map(row).collect();
    let design = Design::dense(DIM, rows).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let labels = vec![1.0; RECORDS];
    PrivateData::new(design, labels, one, Adjacency::ReplaceOne, None).unwrap()
}

/// On rows and a ball of length 1: |grad q| <= 2 and ||hess q|| = 2 for q = <w, x>^2.
fn facts() -> (PublicFacts, HessianFacts) {
    let facts = PublicFacts {
        records: RECORDS as u64,
        dim: DIM,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 2.0,
        smoothness: 3.0,
        initial_gap: 2f64.ln(),
        row_norm: 1.0,
        convexity: Convexity::Nonconvex,
    };
    let hessian = HessianFacts {
        lipschitz: 8.0 / (6.0 * 3f64.sqrt()) + 3.0,
        frobenius: 3.0,
    };
    (facts, hessian)
}

fn plan(settings: SospSettings, budget: &Budget) -> Result<SospPlan, PlanError> {
    let (facts, hessian) = facts();
    SospPlan::new(&facts, &hessian, budget, settings)
}

fn run(plan: &SospPlan, observer: &mut dyn dpopt_nonconvex::Observer) -> Outcome {
    let data = data();
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let mut means = PrivateMean::new(&data, loss(), curator)
        .unwrap()
        .with_hessians();
    plan.run(&mut means, observer).unwrap()
}

/// The exact gradient of the mean over the records: of -2 t x/(1 + exp(t^2)), t = <w, x>.
fn gradient(point: &[f64]) -> Vec<f64> {
    let mut mean = vec![0.0; DIM];
    for x in (0..10).map(row) {
        let t = dot(&x, point);
        add_scaled(&mut mean, -0.2 * t / (1.0 + (t * t).exp()), &x);
    }
    mean
}

#[test]
fn a_run_from_a_saddle_leaves_it_and_ends_in_a_certificate_that_is_true() {
    let budget = budget(8.0);
    let plan = plan(SospSettings::new(100_000), &budget).unwrap();
    let outcome = run(&plan, &mut NoObserver);
    assert_eq!(outcome.stop, Stop::Certified);
    assert!(
        !outcome.returned_start() && norm(&outcome.point) > 0.3,
        "{outcome:?}"
    );
    let bound = outcome.bound().unwrap();
    assert!(bound.value <= plan.bound().unwrap().value);
    assert!(norm(&gradient(&outcome.point)) <= bound.value);
    assert!(bound.curvature.unwrap() <= plan.level().targets.curvature);
    let (_, epsilon) =
        Accountant::least(&outcome.spent, budget.delta, Adjacency::ReplaceOne).unwrap();
    assert!(epsilon <= 8.0 + 1e-6, "{epsilon}");
}

#[test]
fn a_run_with_targets_ends_there_and_keeps_the_rest_of_its_budget() {
    let budget = budget(8.0);
    let widest = plan(SospSettings::new(100_000), &budget)
        .unwrap()
        .level()
        .targets;
    let targets = SecondOrderTargets {
        gradient: 1.3 * widest.gradient,
        curvature: 1.1 * widest.curvature,
    };
    let plan = plan(SospSettings::new(100_000).with_targets(targets), &budget).unwrap();
    let outcome = run(&plan, &mut NoObserver);
    assert_eq!(outcome.stop, Stop::Certified);
    let (_, epsilon) =
        Accountant::least(&outcome.spent, budget.delta, Adjacency::ReplaceOne).unwrap();
    assert!(epsilon < 7.0, "{epsilon}");
}

/// What was certified before a signal stays certified; before a certificate nothing is stated.
#[test]
fn a_run_that_is_stopped_states_what_it_certified_before() {
    let plan = plan(SospSettings::new(100_000), &budget(8.0)).unwrap();
    let all = run(&plan, &mut NoObserver).steps;
    let (mut none, mut some) = (0, 0);
    for last in [0, all / 2, all.saturating_sub(4)] {
        let mut stop = |release: &Release<'_>| match release.step >= last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let outcome = run(&plan, &mut stop);
        // Another run may end before that step.
        assert!(matches!(outcome.stop, Stop::ByObserver | Stop::Certified));
        match outcome.bound() {
            Some(bound) => {
                some += 1;
                assert!(bound.curvature.is_some() && bound.value > 0.0);
            }
            None => none += 1,
        }
    }
    assert!(none >= 1 && none + some == 3);
}

#[test]
fn an_oracle_without_hessians_is_refused_before_anything_is_reserved() {
    let plan = plan(SospSettings::new(1_000), &budget(8.0)).unwrap();
    let data = data();
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let mut means = PrivateMean::new(&data, loss(), curator).unwrap();
    let error = plan.run(&mut means, &mut NoObserver).unwrap_err();
    assert!(
        matches!(&error, RunError::NotOffered { what, .. } if what == "Hessians"),
        "{error}"
    );
    assert_eq!(means.curator().reserved(), dpopt_privacy::Event::NoOp);
}

#[test]
fn what_can_not_be_certified_is_refused_with_the_numbers() {
    let settings = SospSettings::new(100_000);
    let budget_of = |epsilon| budget(epsilon);
    let with = |gradient, curvature| {
        let targets = SecondOrderTargets {
            gradient,
            curvature,
        };
        plan(settings.with_targets(targets), &budget_of(8.0))
    };
    let (facts, hessian) = facts();
    for (gradient, curvature) in [(facts.trivial_bound(), 0.5), (0.5, facts.smoothness)] {
        let error = with(gradient, curvature).unwrap_err();
        assert!(
            matches!(error, PlanError::EveryPointMeets { .. }),
            "{error}"
        );
    }
    for (gradient, curvature) in [(f64::NAN, 0.5), (0.5, 0.0), (-1.0, 0.5)] {
        let error = with(gradient, curvature).unwrap_err();
        assert!(matches!(error, PlanError::BadFact { .. }), "{error}");
    }
    let error = with(1e-6, 1e-3).unwrap_err();
    let PlanError::Uncertifiable {
        reachable: Some(reachable),
        cost,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert!(cost > 1.0 && reachable.gradient > 1e-6);
    let error = plan(settings, &budget_of(0.01)).unwrap_err();
    assert!(
        matches!(
            error,
            PlanError::Uncertifiable {
                reachable: None,
                ..
            }
        ),
        "{error}"
    );
    for failure in [0.0, 1.0, f64::NAN] {
        let error = plan(settings.with_failure(failure), &budget_of(8.0)).unwrap_err();
        assert!(
            matches!(
                error,
                PlanError::BadFact {
                    name: "failure",
                    ..
                }
            ),
            "{error}"
        );
    }
    let wide = PublicFacts {
        dim: 1_025,
        ..facts
    };
    let error = SospPlan::new(&wide, &hessian, &budget_of(8.0), settings).unwrap_err();
    assert!(
        matches!(error, PlanError::TooManyDimensions { dim: 1_025, .. }),
        "{error}"
    );
    let unknown = HessianFacts {
        lipschitz: f64::INFINITY,
        ..hessian
    };
    let error = SospPlan::new(&facts, &unknown, &budget_of(8.0), settings).unwrap_err();
    assert!(
        matches!(
            error,
            PlanError::BadFact {
                name: "hessian_lipschitz",
                ..
            }
        ),
        "{error}"
    );
}
