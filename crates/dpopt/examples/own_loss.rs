//! A loss of one's own, as two closures: private location by the Geman-McClure loss, which outliers can't move.
//!
//! `cargo run --release -p dpopt --example own_loss`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::nonconvex::NOISY_GD_THEORY;
use dpopt::oracle::{Constants, Convexity};
use dpopt::prelude::*;

type Place = [f64; 2];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Places near (1, -1), one in ten far away.
    let places: Vec<Place> = (0..5000)
        .map(|i| {
            let turn = f64::from(i);
            if i % 10 == 0 {
                [40.0, 40.0]
            } else {
                [1.0 + 0.3 * turn.sin(), -1.0 + 0.3 * turn.cos()]
            }
        })
        .collect();
    let data = PrivateData::of(places, Adjacency::ReplaceOne, None)?;

    // f(w; x) = |w - x|^2/(1 + |w - x|^2), which is below 1. Its gradient 2u/(1 + |u|^2)^2 is at most 9/(8 sqrt 3) < 0.65 long
    // and 2-Lipschitz. What is claimed here is enforced: a wrong constant costs accuracy, not privacy.
    let constants = Constants::new(0.65, 2.0, 1.0, Convexity::Nonconvex);
    let square = |x: &Place, w: &[f64]| (w[0] - x[0]).powi(2) + (w[1] - x[1]).powi(2);
    let loss = ClosureLoss::new(
        2,
        constants,
        move |x: &Place, w: &[f64]| square(x, w) / (1.0 + square(x, w)),
        move |x: &Place, w: &[f64], out: &mut [f64]| {
            let slope = 2.0 / (1.0 + square(x, w)).powi(2);
            for ((out, w), x) in out.iter_mut().zip(w).zip(x) {
                *out += slope * (w - x);
            }
        },
    );

    let facts = PublicFacts {
        records: 5000,
        dim: 2,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 0.65,
        smoothness: 2.0,
        initial_gap: 1.0,
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    };
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let plan = NOISY_GD_THEORY.plan(
        &facts,
        &ExtraFacts::default(),
        &budget,
        &Limits::steps(2000),
    )?;
    let curator = Curator::protected(Adjacency::ReplaceOne)?;
    let mut oracle = PrivateMean::new(&data, loss, curator)?;
    let outcome = plan.run(&mut oracle, &mut NoObserver)?;
    println!("near ({:.2}, {:.2})", outcome.point[0], outcome.point[1]);
    if let Some(bound) = outcome.bound() {
        println!(
            "{} at most {:.4} ({})",
            bound.quantity, bound.value, bound.sense
        );
    }
    println!("{}", oracle.curator().guarantee(budget.delta)?.epsilon());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
