//! Plans against the table of their page, and at the ends of what can be planned.

use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_solver::{
    Budget, CurvatureBy, HessianFacts, Plan as _, PlanError, PublicFacts, SecondOrderTargets,
};

use super::{SospPlan, SospSettings};

fn facts(dim: usize, records: u64) -> PublicFacts {
    PublicFacts {
        records,
        dim,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 1.0,
        smoothness: 1.0,
        initial_gap: 0.5,
        row_norm: 1.0,
        convexity: Convexity::Nonconvex,
    }
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn plan(dim: usize, records: u64) -> Result<SospPlan, PlanError> {
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 1.0,
    };
    let settings = SospSettings::new(1_000_000);
    SospPlan::new(&facts(dim, records), &hessian, &budget(), settings)
}

/// The table of `docs/theory/sosp.md`.
#[test]
fn planned_bounds_are_those_of_the_page() {
    for (dim, records, known) in [
        (10, 10_000, 0.257),
        (10, 100_000, 0.0623),
        (10, 1_000_000, 0.0188),
        (100, 10_000, 0.317),
        (100, 100_000, 0.0723),
        (100, 1_000_000, 0.0208),
        (500, 1_000_000, 0.0245),
    ] {
        let plan = plan(dim, records).unwrap();
        let bound = plan.bound().unwrap();
        let off = bound.value / known - 1.0;
        assert!(off.abs() < 0.01, "{dim} {records} {}", bound.value);
        assert_eq!(bound.curvature, Some(bound.value.sqrt()));
    }
    assert!(matches!(
        plan(10, 1_000),
        Err(PlanError::Uncertifiable { .. })
    ));
}

/// The second table of `docs/theory/sosp.md`: by episodes, which are all there is above 1,024 dimensions.
#[test]
fn planned_bounds_by_episodes_are_those_of_the_page() {
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 1.0,
    };
    let by = |dim, records, by| {
        let settings = SospSettings::new(1_000_000).with_curvature_by(by);
        SospPlan::new(&facts(dim, records), &hessian, &budget(), settings)
    };
    for (dim, records, known) in [
        (10, 1_000_000, 0.0370),
        (100, 1_000_000, 0.0504),
        (500, 1_000_000, 0.0699),
        (2_000, 1_000_000, 0.1039),
        (10_000, 10_000_000, 0.0341),
        (100_000, 100_000_000, 0.0318),
    ] {
        let plan = by(dim, records, CurvatureBy::Episodes).unwrap();
        let bound = plan.bound().unwrap();
        let off = bound.value / known - 1.0;
        assert!(off.abs() < 0.01, "{dim} {records} {}", bound.value);
        assert!(plan.level().episode.is_some());
        let told = by(dim, records, CurvatureBy::Cheapest).unwrap();
        assert_eq!(told.level().episode.is_some(), dim > 1024);
    }
    assert!(matches!(
        by(2_000, 1_000_000, CurvatureBy::Hessians),
        Err(PlanError::TooManyDimensions { dim: 2_000, .. })
    ));
    // Hessians of records that are long in Frobenius norm.
    let long = HessianFacts {
        frobenius: 22.0,
        ..hessian
    };
    let settings = SospSettings::new(1_000_000);
    let plan = SospPlan::new(&facts(500, 1_000_000), &long, &budget(), settings).unwrap();
    assert!(plan.level().episode.is_some());
}

/// A Hessian that hardly changes asks for no curvature that nobody can tell, and too few steps are no lack of budget.
#[test]
fn small_rho_and_few_steps_are_planned_for_what_they_are() {
    let least = |rho: f64| {
        let hessian = HessianFacts {
            lipschitz: rho,
            frobenius: 1.0,
        };
        SospPlan::new(
            &facts(10, 100_000),
            &hessian,
            &budget(),
            SospSettings::new(1_000_000),
        )
        .unwrap()
        .level()
        .targets
        .gradient
    };
    let usual = least(1.0);
    for rho in [1e-2, 1e-4, 1e-8] {
        assert!(least(rho) < 1.2 * usual, "{rho} {}", least(rho));
    }
    let targets = SecondOrderTargets {
        gradient: 0.1,
        curvature: 0.4,
    };
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 1.0,
    };
    let few = SospSettings::new(20).with_targets(targets);
    let error = SospPlan::new(&facts(10, 100_000), &hessian, &budget(), few).unwrap_err();
    assert!(
        matches!(error, PlanError::TooFewSteps { most: 20, .. }),
        "{error}"
    );
}
