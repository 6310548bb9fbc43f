//! Accounts a training run that was made with other software, from what its log says.
//!
//! DP-SGD in two phases on 60,000 records under add-remove: 4,000 steps with expected batch 600
//! and noise multiplier 1.1, then 1,000 fine-tuning steps with expected batch 300 and noise
//! multiplier 1.5. Every Poisson sample is drawn afresh; the noise multiplier is the standard
//! deviation over the clip norm, as Opacus, TensorFlow Privacy and JAX Privacy define it.
//!
//! Run with `cargo run --release -p dpopt-accounting --example account_elsewhere`.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt_accounting::accounting::{curves::PrivacyCurve, exact, pld};
use dpopt_accounting::{
    Accountant, AccountingError, Adjacency, Delta, Event, NoiseMultiplier, SamplingRate,
};

fn phase(noise: f64, batch: f64, records: f64, steps: u64) -> Result<Event, AccountingError> {
    let rate = SamplingRate::new(batch / records)?;
    let step = Event::gaussian(NoiseMultiplier::new(noise)?).poisson_sampled(rate);
    Ok(step.repeated(steps))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = Event::composed(vec![
        phase(1.1, 600.0, 60_000.0, 4_000)?,
        phase(1.5, 300.0, 60_000.0, 1_000)?,
    ]);
    let (delta, adjacency) = (Delta::new(1e-5)?, Adjacency::AddRemove);
    println!("{run}");
    println!("delta {delta}, {adjacency}\n");
    println!("{:<6} {:>12} {:>12}", "", "at least", "at most");
    for accountant in Accountant::ALL {
        match accountant.epsilon(&run, delta, adjacency) {
            Ok(upper) if accountant == Accountant::Pld => {
                let lower = pld::epsilon(&run, delta, adjacency)?.lower;
                println!("{accountant:<6} {lower:>12.6} {upper:>12.6}");
            }
            // Its certified interval is narrower than six digits show.
            Ok(upper) if accountant == Accountant::Exact => {
                let lower = exact::epsilon(&run, delta, adjacency)?.lower;
                println!("{accountant:<6} {lower:>12.6} {upper:>12.6}");
            }
            Ok(upper) => println!("{accountant:<6} {:>12} {upper:>12.6}", ""),
            Err(refusal) => println!("{accountant:<6} {refusal}"),
        }
    }
    // What that means for an attacker; an upper bound as well.
    let curve = PrivacyCurve::of(Accountant::Rdp, &run, adjacency)?;
    println!(
        "\nWho accuses one non-member in a hundred finds at most {:.1} % of the members.",
        100.0 * curve.true_positive_rate(0.01)
    );
    Ok(())
}
