//! An accountant of one's own: zero-concentrated privacy by hand, from the events of a plan before the run and of the run after it.
//!
//! `cargo run --release -p dpopt --example own_accountant`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::nonconvex::NOISY_GD;
use dpopt::prelude::*;

/// The zCDP parameter rho of Gaussian releases on all records, which is the sum of 1/(2 z^2) under every adjacency: z is relative to
/// the sensitivity under it. None for anything else: an accountant refuses what it does not know.
fn rho(event: &Event) -> Option<f64> {
    let of_one = |(leaf, count): (Event, u64)| match leaf {
        Event::Gaussian { noise_multiplier } => {
            Some(count as f64 / (2.0 * noise_multiplier.get().powi(2)))
        }
        _ => None,
    };
    event.leaves().into_iter().map(of_one).sum()
}

/// Bun and Steinke 2016, Proposition 1.3: rho-zCDP is (rho + 2 sqrt(rho ln(1/delta)), delta)-differentially private.
fn epsilon(rho: f64, delta: Delta) -> f64 {
    rho + 2.0 * (rho * (1.0 / delta.get()).ln()).sqrt()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sign = |i: u16| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let rows = (0..1000).flat_map(|i| [0.8 * f64::from(sign(i)), 0.5]);
    let design = Design::dense(2, rows.collect())?;
    let labels = (0..1000).map(sign).collect();
    let adjacency = Adjacency::ReplaceOne;
    let data = PrivateData::new(design, labels, ClipNorm::new(1.0)?, adjacency, None)?;

    let facts = PublicFacts::glm(1000, 2, adjacency, 1.0, Glm::Logistic.constants(1.0))?;
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let limits = Limits::steps(200);
    let plan = NOISY_GD.plan(&facts, &ExtraFacts::default(), &budget, &limits)?;

    // Before a record is read: what the plan may cost.
    let planned = rho(plan.spend().event()).ok_or("not Gaussian")?;
    println!("planned: epsilon {:.3}", epsilon(planned, budget.delta));

    let run = GlmRun::new(&data, Glm::Logistic, Curator::protected(adjacency)?);
    let (outcome, curator) = run.run(&*plan, &mut NoObserver)?;

    // After it: what was released. The bound is looser than the exact accountant's, never below it.
    let spent = rho(&outcome.spent).ok_or("not Gaussian")?;
    let ours = epsilon(spent, budget.delta);
    let exact = curator.guarantee(budget.delta)?.epsilon();
    println!("spent: epsilon {ours:.3}; exactly {exact:.3}");
    assert!(spent <= planned * (1.0 + 1e-9) && ours >= exact);

    // Samples are another law.
    let sampled =
        Event::gaussian(NoiseMultiplier::new(1.0)?).poisson_sampled(SamplingRate::new(0.1)?);
    assert!(rho(&sampled).is_none());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
