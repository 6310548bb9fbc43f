//! Plans without a bound in the unit of the label: a label in cents for euros changes nothing but the unit.

use dpopt_nonconvex::{
    DP_ADAM, DP_MF, DP_SGD, DP_SGD_DECAY, Item, Limits, NOISY_GD, NoisyGdPlan, PublicFacts, Unit,
    Value,
};
use dpopt_oracle::{Glm, Quantile, Scale, ScoreUnit};
use dpopt_privacy::Adjacency;

use crate::common::{budget, extra};

fn facts(loss: Glm, label: f64) -> PublicFacts {
    let constants = loss.constants_within(2.0, Some(label));
    PublicFacts::glm(20_000, 12, Adjacency::ReplaceOne, 2.0, constants).unwrap()
}

/// Losses of a residual whose shape follows the label: k times the label and the prediction are another unit of the loss alone.
fn homogeneous(k: f64) -> [Glm; 4] {
    let scale = |of: f64| Scale::new(k * of).unwrap();
    let quantile = Quantile::new(0.3).unwrap();
    [
        Glm::Huber(scale(1.345)),
        Glm::Huber(scale(0.1)),
        Glm::Absolute,
        Glm::Pinball(quantile),
    ]
}

#[test]
fn the_unit_of_the_label_changes_no_plan() {
    for (small, large) in homogeneous(1.0).into_iter().zip(homogeneous(1000.0)) {
        for solver in [&NOISY_GD, &DP_SGD, &DP_SGD_DECAY, &DP_ADAM, &DP_MF] {
            let plan = |loss, label| {
                let limits = Limits::steps(2_000);
                solver.plan(&facts(loss, label), &extra(), &budget(1.0), &limits)
            };
            let (of, scaled) = (plan(small, 1.0).unwrap(), plan(large, 1000.0).unwrap());
            for (a, b) in of.items().iter().zip(scaled.items()) {
                let Item { name, value, unit } = a;
                let same = match (value, &b.value) {
                    (Value::Number(Some(a)), Value::Number(Some(b))) if *unit != Unit::NONE => {
                        // Points have the unit of the label, a step is one of a point over a gradient.
                        let ratio = b / a;
                        [1.0, 1000.0]
                            .iter()
                            .any(|of| (ratio / of - 1.0).abs() < 1e-9)
                    }
                    (Value::Number(Some(a)), Value::Number(Some(b))) => {
                        (a - b).abs() <= 1e-9 * a.abs()
                    }
                    (a, b) => format!("{a:?}") == format!("{b:?}"),
                };
                assert!(same, "{small} {solver}: {name} {a:?} {b:?}");
            }
        }
    }
}

/// The values of rho, C and q in `docs/solvers.md`.
#[test]
fn the_rule_is_the_one_of_the_page() {
    let budget = budget(1.0);
    let mu = budget.mu().unwrap().get();
    let count = Glm::Poisson(Scale::new(20.0).unwrap());
    let residual = |dim: f64| (0.04 * (20_000.0 * mu / (2.0 * dim)).sqrt()).max(0.15);
    let (few, many) = (residual(12.0), residual(2000.0));
    assert!(few > 0.3 && few < 0.6 && many == 0.15, "{few} {many}");
    for (loss, dim, clip, q) in [
        (Glm::Logistic, 12, 0.5 * 2.0, 0.375),
        (
            Glm::Huber(Scale::new(1.345).unwrap()),
            12,
            few * 2.0,
            0.05 / few,
        ),
        (
            Glm::Huber(Scale::new(1.345).unwrap()),
            2000,
            many * 2.0,
            0.05 / many,
        ),
        (Glm::Huber(Scale::new(0.1).unwrap()), 12, 0.05 * 2.0, 1.0),
        (count, 12, 0.2 * 20.0 * 2.0, 1.0),
    ] {
        let facts = PublicFacts {
            dim,
            ..facts(loss, 1.0)
        };
        let plan = NoisyGdPlan::momentum(&facts, &budget, 2_000).unwrap();
        let schedule = plan.schedule();
        assert!((schedule.clip / clip - 1.0).abs() < 1e-12, "{loss}");
        let plain = q * 20_000.0 * mu;
        let steps = (10.0 * (plain / 9.0).sqrt()).ceil();
        assert_eq!(schedule.steps as f64, steps, "{loss}");
    }
}

/// Every loss of a residual has the unit of its label, and no other loss has.
#[test]
fn losses_know_the_unit_of_their_score() {
    for loss in Glm::ALL {
        let of = loss.constants_within(2.0, Some(3.0)).score;
        let expected = match loss.to_string().split(':').next().unwrap() {
            "logistic" | "sigmoid" | "hinge" => ScoreUnit::Logit,
            "poisson" => ScoreUnit::LogCount,
            _ => ScoreUnit::HalfRange(3.0),
        };
        assert_eq!(of, expected, "{loss}");
        assert!(!matches!(
            loss.constants(2.0).score,
            ScoreUnit::HalfRange(_)
        ));
    }
}
