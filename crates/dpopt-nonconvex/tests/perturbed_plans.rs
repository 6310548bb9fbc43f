//! Plans: sizes, rates, refusals.

use dpopt_nonconvex::{
    Budget, EscapeTest, Estimates, PerturbedPlan, PerturbedSettings, PerturbedTest, Plan,
    PlanError, PublicFacts,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};

fn facts(records: u64, dim: usize) -> PublicFacts {
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

fn plan(records: u64, dim: usize, settings: PerturbedSettings) -> PerturbedPlan {
    PerturbedPlan::new(&facts(records, dim), 1.0, &budget(), settings).unwrap()
}

fn settings() -> PerturbedSettings {
    PerturbedSettings::new(1 << 50)
}

/// a ~ n^(-1/2) with fresh estimates, n^(-2/3) with Spider, both over two decades: logarithms bend them a little.
#[test]
fn rates_of_plans() {
    for (estimates, rate) in [(Estimates::Fresh, -0.5), (Estimates::Recursive, -2.0 / 3.0)] {
        let settings = settings().with_estimates(estimates);
        let at = |n| plan(n, 10, settings).schedule().target;
        let slope = (at(100_000_000) / at(1_000_000)).log10() / 2.0;
        assert!((slope - rate).abs() < 0.06, "{estimates:?}: {slope}");
    }
}

/// What a plan may cost is what its budget is, and the numbers of a try are those of the page.
#[test]
fn plans_cost_their_budget() {
    for test in [PerturbedTest::Movement, PerturbedTest::Drift] {
        for estimates in [Estimates::Fresh, Estimates::Recursive] {
            let plan = plan(
                100_000,
                20,
                settings().with_test(test).with_estimates(estimates),
            );
            let schedule = plan.schedule();
            let share = schedule.cost / (plan.mu() * plan.mu());
            assert!(share <= 1.0 && share > 0.97, "{share}");
            let escape = plan.escape();
            assert_eq!(escape.step_size, 0.5);
            let length = 0.5 * schedule.target;
            assert!((escape.radius - length / 32.0).abs() < 1e-15);
            let gamma = escape.steps as f64;
            match escape.test {
                EscapeTest::Movement(mean) => assert!((mean - length * length).abs() < 1e-15),
                EscapeTest::Distance(most) => {
                    assert!((most - gamma * length - escape.radius).abs() < 1e-12);
                }
                _ => panic!(),
            }
            // 2 iota/(eta alpha_H), iota = ln(100 sqrt 20) = 6.103.
            let known = 4.0 * 6.103_036_32 / schedule.target.sqrt();
            assert!((gamma - known).abs() <= 1.0, "{gamma} {known}");
            let needed = 20.0 * 0.5 / schedule.target.powi(2) + gamma;
            assert!((schedule.steps as f64 - needed).abs() <= 4.0);
            assert_eq!(plan.predicted_bound(), Some(1.5 * schedule.target));
        }
    }
}

/// The theorem on curvature says nothing: at usual sizes for its logarithms, at large ones for the rounding of releases.
#[test]
fn curvature_is_not_stated() {
    for estimates in [Estimates::Fresh, Estimates::Recursive] {
        for records in [1_000_000, 1_000_000_000_000] {
            let plan = plan(records, 10, settings().with_estimates(estimates));
            assert!(!plan.schedule().proven && plan.warning(1.0).is_some());
            assert_eq!(plan.bound().unwrap().curvature, None);
        }
    }
}

#[test]
fn what_says_nothing_is_refused() {
    let few = PerturbedPlan::new(&facts(500, 10), 1.0, &budget(), settings());
    assert!(matches!(few, Err(PlanError::Vacuous { .. })), "{few:?}");
    // Too few steps, and no lack of records: with as many as it names there is a plan.
    let many = |most| {
        PerturbedPlan::new(
            &facts(1_000_000, 10),
            1.0,
            &budget(),
            PerturbedSettings::new(most),
        )
    };
    let short = many(30);
    let Err(PlanError::TooFewSteps {
        needed, most: 30, ..
    }) = short
    else {
        panic!("{short:?}");
    };
    assert!(needed > 30 && many(needed).is_ok() && many(needed - 1).is_err());
    for rho in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let bad = PerturbedPlan::new(&facts(100_000, 10), rho, &budget(), settings());
        assert!(matches!(bad, Err(PlanError::BadFact { .. })), "{bad:?}");
    }
    for failure in [0.0, 1.0, f64::NAN] {
        let mut settings = settings();
        settings.failure = failure;
        let bad = PerturbedPlan::new(&facts(100_000, 10), 1.0, &budget(), settings);
        assert!(matches!(
            bad,
            Err(PlanError::BadFact {
                name: "failure",
                ..
            })
        ));
    }
}
