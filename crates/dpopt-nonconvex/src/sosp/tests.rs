//! Plans against the table of the paper's third reading, and their own law.

use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_solver::{Budget, HessianFacts, Plan as _, PlanError, PublicFacts};

use super::{SospPlan, SospSettings};

fn plan(dim: usize, records: u64) -> Result<SospPlan, PlanError> {
    let facts = PublicFacts {
        records,
        dim,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 1.0,
        smoothness: 1.0,
        initial_gap: 0.5,
        row_norm: 1.0,
        convexity: Convexity::Nonconvex,
    };
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 1.0,
    };
    let budget = Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    SospPlan::new(&facts, &hessian, &budget, SospSettings::new(1_000_000))
}

/// 11.4 of the third reading: at most what Spider reaches there, but for the start of the range.
#[test]
fn planned_bounds_are_those_that_were_asked_for() {
    for (dim, records, most) in [
        (10, 10_000, 0.29),
        (10, 100_000, 0.070),
        (10, 1_000_000, 0.019),
        (100, 10_000, 0.36),
        (100, 100_000, 0.088),
        (100, 1_000_000, 0.022),
        (500, 1_000_000, 0.030),
    ] {
        let plan = plan(dim, records).unwrap();
        let bound = plan.bound().unwrap();
        assert!(bound.value <= most, "{dim} {records} {}", bound.value);
        assert_eq!(bound.curvature, Some(bound.value.sqrt()));
    }
    assert!(matches!(
        plan(10, 1_000),
        Err(PlanError::Uncertifiable { .. })
    ));
}
