//! Plans: sizes, rates, refusals.

use dpopt_nonconvex::{
    BoundSense, Budget, EscapeTest, Estimates, PerturbedPlan, PerturbedSettings, PerturbedTest,
    Plan, PlanError, PublicFacts,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, Spend};

fn facts(records: u64, dim: usize) -> PublicFacts {
    PublicFacts {
        records,
        dim,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 1.0,
        smoothness: 1.0,
        initial_gap: 0.5,
        row_norm: 1.0,
        score: Default::default(),
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

/// In one pass n^(-1/3) where sampling is all there is, (sqrt d/(n mu))^(3/7) where noise is, and a ~ n^(-1/4) with fresh estimates of records
/// alone.
#[test]
fn rates_of_one_pass() {
    let at = |records: f64, dim, epsilon, estimates| {
        let settings = settings().in_one_pass().with_estimates(estimates);
        let budget = Budget {
            epsilon: Epsilon::new(epsilon).unwrap(),
            ..budget()
        };
        let facts = facts(records as u64, dim);
        let plan = PerturbedPlan::new(&facts, 1.0, &budget, settings).unwrap();
        plan.schedule().target
    };
    for (estimates, dim, epsilon, n, rate) in [
        (Estimates::Recursive, 10, 1e3, 1e9, -1.0 / 3.0),
        (Estimates::Recursive, 1_000_000, 1e-2, 1e11, -3.0 / 7.0),
        (Estimates::Fresh, 10, 1e3, 1e9, -0.25),
        (Estimates::Fresh, 1_000_000, 1e-2, 1e12, -1.0 / 3.0),
    ] {
        let of = |n| at(n, dim, epsilon, estimates);
        let slope = (of(100.0 * n) / of(n)).log10() / 2.0;
        assert!(
            (slope - rate).abs() < 0.03,
            "{estimates:?} {dim}: {slope} {rate}"
        );
    }
}

/// One pass adds up: the records of a run, and Pinelis' tail and that of the noise at the batches that the plan shows.
#[test]
fn one_pass_adds_up() {
    for (estimates, test) in [
        (Estimates::Fresh, PerturbedTest::Movement),
        (Estimates::Recursive, PerturbedTest::Drift),
    ] {
        let settings = settings().in_one_pass().with_estimates(estimates);
        let plan = plan(300_000, 20, settings.with_test(test));
        let (schedule, mu) = (plan.schedule(), plan.mu());
        assert_eq!(plan.name(), "perturbed-pass");
        let pass = schedule.pass.unwrap();
        let steps = schedule.steps as f64;
        let (anchors, path) = match schedule.spider {
            Some(spider) => (spider.most_anchors as f64, spider.path),
            None => (steps, 0.0),
        };
        let (b, c) = (pass.anchor as f64, pass.variation as f64);
        assert_eq!(pass.records as f64, anchors * b + (steps - 1.0) * c);
        assert!(
            pass.records <= 300_000 && pass.records > 290_000,
            "{pass:?}"
        );
        // An anchor and changes of squared lengths up to the path: each record's part of the variance, and the longest part.
        let variance = 1.0 / b + if path > 0.0 { path / c } else { 0.0 };
        let jump = f64::max(
            2.0 / b,
            if path > 0.0 {
                2.0 * path.sqrt() / c
            } else {
                0.0
            },
        );
        let left = |t: f64| 2.0 * (-t * t / (2.0 * (variance + jump * t / 3.0))).exp();
        let share = 0.5 * 0.05 / anchors;
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if left(middle) > share {
                low = middle;
            } else {
                high = middle;
            }
        }
        // Chernoff of a chi-square with 20 degrees, at half the share.
        let (mut u, step) = (1.0f64, 1e-5);
        while (-10.0 * (u - 1.0 - u.ln())).exp() > 0.5 * share {
            u += step;
        }
        let per_coordinate =
            2.0 / mu * (b.recip().powi(2) + if path > 0.0 { path / (c * c) } else { 0.0 }).sqrt();
        let error = high + per_coordinate * (20.0 * u).sqrt();
        let allowed = 0.5 * schedule.target;
        assert!(
            error < 1.0001 * allowed && error > 0.98 * allowed,
            "{error} {allowed}"
        );
        // One Gaussian of all of mu for each record.
        assert_eq!((schedule.anchor, schedule.cost), (1.0 / mu, mu * mu));
        let z = NoiseMultiplier::new(1.0 / mu).unwrap();
        let events = vec![Event::gaussian(z)];
        assert_eq!(
            plan.spend(),
            Spend::Fixed(Event::ParallelComposed { events })
        );
        let bound = plan.bound().unwrap();
        assert_eq!(
            (bound.sense, bound.curvature),
            (BoundSense::PopulationWithProbability, None)
        );
        assert!(plan.warning(1.0).unwrap().contains("adaptive-batch"));
    }
}

/// Batches of no records, and one pass where positions are not fixed.
#[test]
fn what_is_no_pass_is_refused() {
    let settings = settings().in_one_pass();
    let few = PerturbedPlan::new(&facts(3_000, 10), 1.0, &budget(), settings);
    assert!(
        matches!(
            few,
            Err(PlanError::Vacuous {
                solver: "perturbed-pass",
                ..
            })
        ),
        "{few:?}"
    );
    let facts = facts(300_000, 10);
    let add_remove = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts
    };
    let refused = PerturbedPlan::new(&add_remove, 1.0, &budget(), settings);
    assert!(
        matches!(refused, Err(PlanError::NeedsPositions { records: 300_000, slices, .. }) if slices > 50),
        "{refused:?}"
    );
    let planned = *plan(300_000, 10, settings).schedule();
    for anchor in [true, false] {
        let mut none = planned;
        let pass = none.pass.as_mut().unwrap();
        *(if anchor {
            &mut pass.anchor
        } else {
            &mut pass.variation
        }) = 0;
        let made = PerturbedPlan::by_hand(&facts, &budget(), settings, none);
        assert!(matches!(made, Err(PlanError::BadFact { .. })), "{made:?}");
    }
    let made = PerturbedPlan::by_hand(&facts, &budget(), settings, planned).unwrap();
    assert_eq!((made.predicted_bound(), made.unread()), (None, 300_000));
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
