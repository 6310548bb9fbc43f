//! Accounting of DP-SGD and its kin: `account epsilon|calibrate rdp|exact|pld|allocation|banded`.
//!
//! DP-SGD has rate 0.01, noise multiplier 1, 10,000 steps and delta 1e-5 under add-remove. `allocation` is an epoch of as many steps at noise multiplier
//! 1 under zero-out, `banded` 2,000 steps on samples of 16 slices under 16 bands, at rate 0.16, under replace-one.
//! Work `step`: epsilon, or the noise multiplier for epsilon 1. An answer is below the truth where it is less than the lower end of our interval, or
//! where its noise does not keep epsilon 1 by that end.

use dpopt_benches::release::Failure;
use dpopt_privacy::accounting::pld;
use dpopt_privacy::{
    Accountant, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate, UnitError,
    calibrate,
};

use crate::side::Side;

const RATE: f64 = 0.01;
const STEPS: u64 = 10_000;
const DELTA: f64 = 1e-5;

/// A run at this noise multiplier.
type Run = fn(NoiseMultiplier) -> Result<Event, UnitError>;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    match *words {
        ["account", question @ ("epsilon" | "calibrate"), name, _] => {
            Some(account(question == "epsilon", name))
        }
        _ => None,
    }
}

fn account(ask_epsilon: bool, name: &str) -> Result<(), Failure> {
    let (run, relation, accountant): (Run, _, _) = match name {
        "allocation" => (allocation, Adjacency::ZeroOut, Accountant::Pld),
        "banded" => (banded, Adjacency::ReplaceOne, Accountant::Pld),
        other => (samples, Adjacency::AddRemove, other.parse()?),
    };
    let delta = Delta::new(DELTA)?;
    let least = move |z: f64| -> Result<f64, Failure> {
        let event = run(NoiseMultiplier::new(z)?)?;
        Ok(pld::epsilon(&event, delta, relation)?.lower)
    };
    // Asked once, so that a search needs no answer for rates that are not fine.
    let one = run(NoiseMultiplier::new(1.0)?)?;
    let answer = move || -> Result<f64, Failure> {
        if ask_epsilon {
            return Ok(accountant.epsilon(&one, delta, relation)?);
        }
        let event = |z| run(z).unwrap_or(Event::NonPrivate);
        let target = Epsilon::new(1.0)?;
        let found = calibrate::noise_multiplier(accountant, target, delta, relation, event)?;
        Ok(found.get())
    };
    let again = answer.clone();
    Side::new(vec![("step", Box::new(answer))])
        .with_answer(move || Ok(vec![("value", vec![again()?])]))
        .with_truth(move |value| {
            Ok(match ask_epsilon {
                true => value < least(1.0)?,
                false => least(value)? > 1.0,
            })
        })
        .serve()
}

fn samples(noise: NoiseMultiplier) -> Result<Event, UnitError> {
    let rate = SamplingRate::new(RATE)?;
    Ok(Event::gaussian(noise).poisson_sampled(rate).repeated(STEPS))
}

fn allocation(noise: NoiseMultiplier) -> Result<Event, UnitError> {
    Ok(Event::RandomAllocation {
        num_steps: STEPS,
        num_participations: 1,
        event: Box::new(Event::gaussian(noise)),
    })
}

/// A slice is sampled in every sixteenth of 2,000 steps.
fn banded(noise: NoiseMultiplier) -> Result<Event, UnitError> {
    let rate = SamplingRate::new(16.0 * RATE)?;
    let share = Event::gaussian(noise).poisson_sampled(rate);
    Ok(Event::ParallelComposed {
        events: vec![share.repeated(2000 / 16)],
    })
}
