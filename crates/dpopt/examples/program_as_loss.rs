//! A program as a loss: what a rule of thumb costs, case by case. It jumps, so it has no gradient and no Lipschitz constant, and all
//! that is known of it is that a case costs between 0 and 1. A linear score is learnt from its values alone.
//!
//! `cargo run --release -p dpopt --example program_as_loss`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::nonconvex::{BoundedValues, GOLDSTEIN, GOLDSTEIN_ZO_SAMPLED, NOISY_GD, RunError};
use dpopt::oracle::{Constants, Convexity};
use dpopt::prelude::*;

struct Case {
    /// Two measurements, and a 1.
    features: [f64; 3],
    faulty: bool,
}

/// A part that is faulty and not found costs 1, one that is fine and taken apart a fifth of that.
fn cost(case: &Case, w: &[f64]) -> f64 {
    let score: f64 = case.features.iter().zip(w).map(|(x, w)| x * w).sum();
    match (score > 0.0, case.faulty) {
        (false, true) => 1.0,
        (true, false) => 0.2,
        _ => 0.0,
    }
}

/// Made-up parts: faults go by the measurements, with exceptions.
fn cases(from: u32, count: u32) -> Vec<Case> {
    let part = |i: u32| {
        let (turn, other) = (f64::from(i) * 0.618_034, f64::from(i) * 0.414_214);
        let (x, y) = (2.0 * turn.fract() - 1.0, 2.0 * other.fract() - 1.0);
        Case {
            features: [x, y, 1.0],
            faulty: (1.5 * x - y > 0.6) != i.is_multiple_of(20),
        }
    };
    (from..from + count).map(part).collect()
}

fn mean_cost(cases: &[Case], w: &[f64]) -> f64 {
    cases.iter().map(|case| cost(case, w)).sum::<f64>() / cases.len() as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records = 5_000;
    let data = PrivateData::of(cases(0, records), Adjacency::ReplaceOne, None)?;
    let constants = Constants::new(f64::INFINITY, f64::INFINITY, 1.0, Convexity::Nonconvex);
    let loss = || ClosureLoss::values(3, constants, cost);

    // Nothing is known of slopes. Of the mean of the cost over a ball of radius 1/2 around a score they are known by the range of costs.
    let facts = PublicFacts {
        records: u64::from(records),
        dim: 3,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: f64::INFINITY,
        smoothness: f64::INFINITY,
        initial_gap: 1.0,
        row_norm: f64::INFINITY,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    };
    let bounded = BoundedValues {
        range: 1.0,
        smoothing: 0.5,
    };
    let extra = ExtraFacts::default()
        .with_goldstein_radius(0.5)
        .with_bounded_values(bounded);
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let limits = Limits::steps(4_000);
    let plan = GOLDSTEIN_ZO_SAMPLED.plan(&facts, &extra, &budget, &limits)?;
    let curator = Curator::protected(Adjacency::ReplaceOne)?;
    let mut oracle = PrivateValues::new(&data, loss(), curator)?;
    let outcome = plan.run(&mut oracle, &mut NoObserver)?;

    // Parts that nobody has seen.
    let fresh = cases(1_000_000, 20_000);
    println!(
        "a part costs {:.3}; {:.3} if none is taken apart, {:.3} if all are",
        mean_cost(&fresh, &outcome.point),
        mean_cost(&fresh, &[0.0, 0.0, -1.0]),
        mean_cost(&fresh, &[0.0, 0.0, 1.0]),
    );
    if let Some(bound) = outcome.bound() {
        println!(
            "{}: at most {:.3} ({})",
            bound.subject(),
            bound.value,
            bound.sense
        );
    }
    println!("{:.0} values asked for", outcome.counts.values);
    println!("{}", oracle.curator().guarantee(budget.delta)?.epsilon());

    // Solvers that need gradients have no plan for such a loss, and no run on it.
    if let Err(why) = GOLDSTEIN.plan(&facts, &extra, &budget, &limits) {
        println!("{why}");
    }
    let smooth = PublicFacts {
        lipschitz: 1.0,
        smoothness: 1.0,
        row_norm: 1.0,
        ..facts
    };
    let plan = NOISY_GD.plan(&smooth, &ExtraFacts::default(), &budget, &limits)?;
    let curator = Curator::protected(Adjacency::ReplaceOne)?;
    let mut oracle = PrivateValues::new(&data, loss(), curator)?;
    match plan.run(&mut oracle, &mut NoObserver) {
        Err(why @ RunError::NotOffered { .. }) => println!("{why}"),
        other => return Err(format!("a loss without a gradient gave one: {other:?}").into()),
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
