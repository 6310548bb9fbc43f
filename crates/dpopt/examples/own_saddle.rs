//! A saddle loss of one's own: a private location for two kinds of places, of which y raises the price of the kind that is served worse.
//!
//! `cargo run --release -p dpopt --example own_saddle`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::linalg::Domain;
use dpopt::minimax::{MeanFacts, RgdaAnytimePlan, RgdaAnytimeSettings, SaddleFacts};
use dpopt::oracle::{Joint, SaddleConstants, SaddleLoss};
use dpopt::prelude::*;

/// f(x, y; (a, k)) = (1 + k y) q(x - a) - y^2 for k = 1 or -1 and |y| <= 1, with q(u) = u^2/(1 + u^2), |q'| < 0.65, |q''| <= 2.
struct TwoKinds;

const OF_ONE: SaddleConstants = SaddleConstants {
    lipschitz_x: 1.3,
    lipschitz_y: 3.0,
    smooth_xx: 4.0,
    smooth_xy: 0.65,
    smooth_yy: 2.0,
    // The root of 4^2 + 2 0.65^2 + 2^2.
    hessian_frobenius: 4.57,
};

impl SaddleLoss for TwoKinds {
    type Records = Vec<(f64, f64)>;

    fn x_dim(&self, _: &Vec<(f64, f64)>) -> usize {
        1
    }
    fn domain(&self) -> Domain {
        Domain::ball(1, 1.0)
    }
    fn saddle_constants(&self, _: &Vec<(f64, f64)>) -> SaddleConstants {
        OF_ONE
    }
    fn value(&self, (a, kind): &(f64, f64), x: &[f64], y: &[f64]) -> f64 {
        let square = (x[0] - a).powi(2);
        (1.0 + kind * y[0]) * square / (1.0 + square) - y[0] * y[0]
    }
    fn gradient(
        &self,
        (a, kind): &(f64, f64),
        x: &[f64],
        y: &[f64],
        out: (&mut [f64], &mut [f64]),
    ) {
        let (u, square) = (x[0] - a, (x[0] - a).powi(2));
        out.0[0] += (1.0 + kind * y[0]) * 2.0 * u / (1.0 + square).powi(2);
        out.1[0] += kind * square / (1.0 + square) - 2.0 * y[0];
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Nine in ten near 1, the others near 2.
    let places = (0..50_000).map(|i| {
        let off = 0.3 * f64::from(i).sin();
        if i % 10 == 0 {
            (2.0 + off, -1.0)
        } else {
            (1.0 + off, 1.0)
        }
    });
    let data = PrivateData::of(places.collect::<Vec<_>>(), Adjacency::ReplaceOne, None)?;
    let facts = SaddleFacts {
        records: 50_000,
        adjacency: Adjacency::ReplaceOne,
        x_dim: 1,
        domain: TwoKinds.domain(),
        record: OF_ONE,
        mean: MeanFacts {
            strong_concavity: 2.0,
            smooth_yy: 2.0,
            smooth_xy: 0.65,
            // L_xx + L_xy^2/m.
            value_smoothness: 4.0 + 0.65 * 0.65 / 2.0,
            value_gap: 2.0,
            value_hessian_lipschitz: f64::INFINITY,
            joint_hessian_lipschitz: 2.0,
        },
        whole: true,
        rarest: None,
    };
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let settings = RgdaAnytimeSettings::new(10_000).first_order();
    let plan = RgdaAnytimePlan::new(&facts, &budget, settings)?;
    let curator = Curator::protected(Adjacency::ReplaceOne)?;
    let loss = Joint::new(TwoKinds, plan.scale())?;
    let mut oracle = PrivateMean::new(&data, loss, curator)?;
    let outcome = plan.run(&mut oracle, &mut NoObserver)?;
    let (x, y) = facts.blocks(plan.scale()).split(&outcome.point);
    println!("x = {:.2}, y = {:.2}", x[0], y[0]);
    if let Some(bound) = outcome.bound() {
        println!("{} at most {:.3}", bound.subject(), bound.value);
    }
    println!("{}", oracle.curator().guarantee(budget.delta)?.epsilon());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
