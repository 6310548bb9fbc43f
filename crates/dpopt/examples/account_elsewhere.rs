//! What a training run cost that was made with other software: DP-SGD, from the numbers of its log.
//!
//! `cargo run --release -p dpopt --example account_elsewhere`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::prelude::*;
use dpopt::privacy::calibrate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 60,000 records, Poisson batches of 600 on average, noise multiplier 1.1 over the clip norm, 4,000 steps.
    let rate = SamplingRate::new(600.0 / 60_000.0)?;
    let step = |z: NoiseMultiplier| Event::gaussian(z).poisson_sampled(rate);
    let run = step(NoiseMultiplier::new(1.1)?).repeated(4000);
    let (delta, adjacency) = (Delta::new(1e-5)?, Adjacency::AddRemove);
    let (accountant, epsilon) = Accountant::least(&run, delta, adjacency)?;
    println!("{run}: epsilon {epsilon:.4} at delta {delta}, {adjacency} ({accountant})");

    // And the noise that the same run would need for epsilon 1.
    let wanted = Epsilon::new(1.0)?;
    let z = calibrate::noise_multiplier(accountant, wanted, delta, adjacency, |z| {
        step(z).repeated(4000)
    })?;
    println!("epsilon 1 needs a noise multiplier of {z}");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
