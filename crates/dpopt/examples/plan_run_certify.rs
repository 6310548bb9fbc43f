//! Plan from public facts, run on private records, certify the point with a further release, state what it cost.
//!
//! `cargo run --release -p dpopt --example plan_run_certify`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::certify::GradientNormPlan;
use dpopt::prelude::*;
use dpopt::privacy::Mu;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two thousand records: a label that the first feature tells.
    let sign = |i: u16| if i.is_multiple_of(3) { -1.0 } else { 1.0 };
    let rows = (0..2000).flat_map(|i| [0.8 * f64::from(sign(i)), 0.5]);
    let design = Design::dense(2, rows.collect())?;
    let labels = (0..2000).map(sign).collect();
    let norm = ClipNorm::new(1.0)?;
    let data = PrivateData::new(design, labels, norm, Adjacency::ReplaceOne, None)?;

    // Plan. No record is read.
    let loss = Glm::Welsch;
    let facts = PublicFacts::glm(
        data.public_records(),
        data.dim(),
        data.adjacency(),
        data.row_norm(),
        loss.constants(data.row_norm()),
    )?;
    let budget = Budget {
        epsilon: Epsilon::new(2.0)?,
        delta: Delta::new(1e-6)?,
    };
    let choice = auto(
        &facts,
        &ExtraFacts::default(),
        &budget,
        Some(&Limits::steps(1000)),
    )?;
    println!(
        "{}, because {}: at most {} steps",
        choice.solver,
        choice.reason,
        choice.plan.steps()
    );

    // Run.
    let curator = Curator::protected(data.adjacency())?;
    let (outcome, curator) =
        GlmRun::new(&data, loss, curator).run(&*choice.plan, &mut NoObserver)?;
    println!("{:?} after {} steps", outcome.stop, outcome.steps);
    if let Some(bound) = outcome.bound() {
        println!(
            "{} at most {:.4} ({})",
            bound.quantity, bound.value, bound.sense
        );
    }
    println!(
        "epsilon {:.3} of the run",
        curator.guarantee(budget.delta)?.epsilon()
    );

    // Certify: one more release, by a curator of its own, with a 95 % interval.
    let certificate = GradientNormPlan::new(&facts, Mu::new(0.1)?, norm, 0.05, 0.5)?;
    let mut mean = PrivateMean::new(&data, loss, Curator::protected(data.adjacency())?)?;
    mean.curator_mut().reserve(&certificate.spend())?;
    let found = certificate.release(&mut mean, &outcome.point)?;
    println!(
        "gradient norm between {:.4} and {:.4}",
        found.interval.low, found.interval.high
    );
    let both = Event::composed(vec![
        choice.plan.spend().event().clone(),
        certificate.spend().event().clone(),
    ]);
    let (accountant, epsilon) = Accountant::least(&both, budget.delta, data.adjacency())?;
    println!("epsilon {epsilon:.3} of both together ({accountant})");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
