//! Plans in other units: a loss in cents for euros, rows in millimetres for metres. What has no unit must not change, and
//! everything else must scale as its item says.

use dpopt_nonconvex::{BoundedQuantity, ConvexFacts};
use dpopt_nonconvex::{
    ExtraFacts, HessianFacts, Item, JlFacts, JlPlan, KlCondition, Limits, Plan, PublicFacts,
    PublicRank, RecursiveGdPlan, RecursiveSgdPlan, SOLVERS, SPIDERBOOST, TreeSettings,
    TreeSpiderPlan, TreeTarget, Unit, Value,
};
use dpopt_oracle::Convexity;

use crate::common::{self, budget};

const STEPS: u64 = 1 << 12;

fn facts(records: u64, dim: usize) -> PublicFacts {
    PublicFacts {
        smoothness: 0.75,
        initial_gap: 0.6,
        convexity: Convexity::Convex,
        ..common::facts(dim, records)
    }
}

/// The loss times `loss` and rows times `rows`, so that points are divided by `rows`.
fn scaled(facts: &PublicFacts, loss: f64, rows: f64) -> PublicFacts {
    PublicFacts {
        lipschitz: facts.lipschitz * loss * rows,
        smoothness: facts.smoothness * loss * rows * rows,
        initial_gap: facts.initial_gap * loss,
        row_norm: facts.row_norm * rows,
        ..*facts
    }
}

/// Every solver's plan, and others of some, in units of `loss` and `rows`.
fn plans(loss: f64, rows: f64) -> Vec<(String, Box<dyn Plan>)> {
    let (base, budget) = (facts(20_000, 12), budget(1.0));
    let facts = scaled(&base, loss, rows);
    let radius = 1.5 / rows;
    let kl = KlCondition::new(1.0, 2.0).unwrap();
    let kl = kl.of_scaled_loss(loss).unwrap();
    let kl = kl.of_scaled_argument(rows).unwrap();
    let rank = PublicRank::new(3).unwrap();
    let mut plans: Vec<(String, Box<dyn Plan>)> = Vec::new();
    for solver in SOLVERS {
        let mut extra = ExtraFacts::default()
            .with_kl(kl)
            .with_weak_convexity(0.5 * loss * rows * rows)
            .with_goldstein_radius(1.5 / rows)
            .with_hessian(HessianFacts {
                lipschitz: 0.5 * loss * rows.powi(3),
                frobenius: loss * rows * rows,
            });
        if solver.needs.radius {
            // Its bound says nothing at this size: planned below.
            continue;
        }
        let plan = solver.plan(&facts, &extra, &budget, &Limits::steps(STEPS));
        let plan = plan.unwrap_or_else(|error| panic!("{solver}: {error}"));
        plans.push((solver.to_string(), plan));
        if solver.uses_rank {
            extra = extra.with_rank(rank);
            let plan = solver.plan(&facts, &extra, &budget, &Limits::steps(STEPS));
            plans.push((format!("{solver} within a rank"), plan.unwrap()));
        }
    }
    let convex = ConvexFacts {
        public: facts,
        radius: Some(radius),
    };
    let gd = RecursiveGdPlan::even_if_vacuous(&convex, &budget, 1 << 40);
    plans.push(("recursive-gd".to_owned(), Box::new(gd.unwrap())));
    let sgd = RecursiveSgdPlan::even_if_vacuous(&convex, &budget);
    plans.push(("recursive-sgd".to_owned(), Box::new(sgd.unwrap())));
    for target in [
        TreeTarget::HighProbability { failure: 0.05 },
        TreeTarget::Heuristic { safety: 1.5 },
    ] {
        let settings = TreeSettings::new(target).even_if_vacuous();
        let plan = TreeSpiderPlan::new(&facts, &budget, settings, STEPS);
        plans.push((format!("{target:?}"), Box::new(plan.unwrap())));
    }
    let wide = PublicFacts {
        dim: 300_000,
        records: 200_000,
        ..facts
    };
    let jl = JlFacts {
        facts: wide,
        rank: Some(rank),
        seed: 1,
    };
    let plan = JlPlan::new(&jl, &budget, &SPIDERBOOST, 1 << 20).unwrap();
    plans.push(("jl".to_owned(), Box::new(plan)));
    plans
}

/// All numbers of a plan, with their units.
fn numbers(plan: &dyn Plan) -> Vec<(String, f64, Unit)> {
    let mut found = Vec::new();
    for item in plan.items() {
        collect("", &item, &mut found);
    }
    let unit = match plan.bound().map(|bound| bound.quantity) {
        Some(BoundedQuantity::ExcessRisk) => Unit::LOSS,
        _ => Unit::GRADIENT,
    };
    if let Some(bound) = plan.bound() {
        found.push(("bound".to_owned(), bound.value, unit));
    }
    found.push(("clip".to_owned(), plan.clip(), Unit::GRADIENT));
    found.push(("gradients".to_owned(), plan.gradients(), Unit::NONE));
    found
}

fn collect(before: &str, item: &Item<'_>, found: &mut Vec<(String, f64, Unit)>) {
    let name = format!("{before}{}", item.name);
    match &item.value {
        Value::Count(count) => found.push((name, *count as f64, Unit::NONE)),
        Value::Number(Some(number)) => found.push((name, *number, item.unit)),
        Value::Counts(counts) => {
            found.extend(counts.iter().map(|n| (name.clone(), *n as f64, Unit::NONE)));
        }
        Value::Group(items) => {
            for item in items {
                collect(&format!("{name}."), item, found);
            }
        }
        Value::Rows(rows) => {
            for (i, row) in rows.iter().enumerate() {
                for item in row {
                    collect(&format!("{name}[{i}]."), item, found);
                }
            }
        }
        Value::Plan(plan) => found.extend(numbers(*plan)),
        _ => {}
    }
}

#[test]
fn plans_follow_their_units() {
    let before = plans(1.0, 1.0);
    // Powers of four: all roundings are the same, those of roots too.
    for (loss, rows) in [
        (2f64.powi(-20), 1.0),
        (1.0, 2f64.powi(14)),
        (2f64.powi(30), 2f64.powi(-9)),
    ] {
        let after = plans(loss, rows);
        for ((name, old), (_, new)) in before.iter().zip(&after) {
            let (old, new) = (numbers(&**old), numbers(&**new));
            assert_eq!(old.len(), new.len(), "{name}, loss {loss}, rows {rows}");
            for ((item, old, unit), (_, new, _)) in old.iter().zip(&new) {
                let factor = loss.powi(i32::from(unit.loss)) * rows.powi(-i32::from(unit.length));
                let expected = old * factor;
                assert!(
                    (new - expected).abs() <= 1e-6 * expected.abs()
                        || new == old && old.is_infinite(),
                    "{name}, loss {loss}, rows {rows}: {item} was {old:?}, times {factor:?} it became {new:?}"
                );
            }
        }
    }
}
