//! The value of a parameter that just meets a target.
//!
//! | free parameter | function | which value |
//! | --- | --- | --- |
//! | noise multiplier, or any scale of the noise | [`noise_multiplier`] | the least |
//! | number of steps | [`steps`] | the largest |
//! | sampling rate | [`sampling_rate`] | the largest |
//! | epsilon at a delta | [`Accountant::epsilon`] | the least, rounded up |
//! | delta at an epsilon | [`Accountant::delta`] | the least, rounded up |
//!
//! Every accountant serves. The answer **never overshoots**: the accountant's own (rounded up)
//! epsilon at the returned value was computed and is at most the target. It is within 1e-6
//! relative of that accountant's optimum (a number of steps is the optimum itself: with one more
//! the target is passed) as long as the stated epsilon is monotone in the parameter. An
//! accountant with a numerical error, like the privacy-loss distribution, states an epsilon that
//! can waver by its width where the truth is monotone; the answer is then a value that meets the
//! target and has a neighbour, within 1e-6 relative, that does not. Where [`Accountant::Exact`]
//! refuses a value on numerical grounds, far from any plausible answer as a rule, the least of the
//! other bounds is taken there.
//!
//! ```
//! use dpopt_accounting::{Accountant, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, calibrate};
//! let one = Event::gaussian(NoiseMultiplier::new(20.0)?);
//! let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-5)?);
//! let steps = calibrate::steps(Accountant::Gdp, epsilon, delta, Adjacency::AddRemove, |count| {
//!     one.clone().repeated(count)
//! })?;
//! assert_eq!(steps, 28); // (20 / 3.7306...)^2 = 28.7
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod parameter;
mod search;

use super::{Accountant, AccountingError};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon, NoiseMultiplier, SamplingRate};
pub use parameter::Parameter;
use search::{Boundary, boundary};

/// Largest noise multiplier tried.
const MOST_NOISE: f64 = 1e15;
/// Smallest noise multiplier tried.
const LEAST_NOISE: f64 = 1e-6;
/// Largest number of steps tried: numbers up to it are exact as `f64`.
const MOST_STEPS: u64 = 1 << 53;
/// Smallest sampling rate tried.
const LEAST_RATE: f64 = 1e-18;

/// The least noise multiplier at which `event(noise_multiplier)` costs at most `epsilon` at
/// `delta`, according to `accountant`.
///
/// The answer never overshoots and is within 1e-6 relative of the least such value (see the
/// [module](self)). The event's cost must not grow with the noise multiplier, which holds for
/// every event whose noises all have scales proportional to it.
///
/// # Errors
/// [`AccountingError::Unreachable`] when no multiplier up to 1e15 meets the target (the event
/// has a part that does not depend on it, say), [`AccountingError::Unconstrained`] when 1e-6
/// already does, and the accountant's own refusals.
pub fn noise_multiplier(
    accountant: Accountant,
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
    event: impl Fn(NoiseMultiplier) -> Event,
) -> Result<NoiseMultiplier, AccountingError> {
    let goal = Goal::new(accountant, epsilon, delta, adjacency);
    let at = |z: f64| Ok::<_, AccountingError>(event(NoiseMultiplier::new(z)?));
    let parameter = Parameter::NoiseMultiplier;
    match boundary(1.0, MOST_NOISE, LEAST_NOISE, |z| goal.excess(at(z)?))? {
        Boundary::At(z) => Ok(NoiseMultiplier::new(z)?),
        Boundary::NoneFits => Err(goal.unreachable(parameter, MOST_NOISE, at(MOST_NOISE)?)),
        Boundary::AllFit => Err(goal.unconstrained(parameter, LEAST_NOISE)),
    }
}

/// The largest number of steps for which `event(steps)` costs at most `epsilon` at `delta`,
/// according to `accountant`: the next number costs more.
///
/// The event's cost must not fall as the steps grow.
///
/// # Errors
/// [`AccountingError::Unreachable`] when one step costs too much already,
/// [`AccountingError::Unconstrained`] when 2^53 steps don't, and the accountant's own refusals.
pub fn steps(
    accountant: Accountant,
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
    event: impl Fn(u64) -> Event,
) -> Result<u64, AccountingError> {
    let goal = Goal::new(accountant, epsilon, delta, adjacency);
    match boundary(1, 1, MOST_STEPS, |count| goal.excess(event(count)))? {
        Boundary::At(count) => Ok(count),
        Boundary::NoneFits => Err(goal.unreachable(Parameter::Steps, 1.0, event(1))),
        Boundary::AllFit => Err(goal.unconstrained(Parameter::Steps, MOST_STEPS as f64)),
    }
}

/// The largest sampling rate at which `event(rate)` costs at most `epsilon` at `delta`, according
/// to `accountant`; 1 where even that meets the target.
///
/// The answer never overshoots and is within 1e-6 relative of the largest such value (see the
/// [module](self)). The event's cost must not fall as the rate grows, which holds for Poisson
/// sampling.
///
/// # Errors
/// [`AccountingError::Unreachable`] when even a rate of 1e-18 costs too much, and the
/// accountant's own refusals.
pub fn sampling_rate(
    accountant: Accountant,
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
    event: impl Fn(SamplingRate) -> Event,
) -> Result<SamplingRate, AccountingError> {
    let goal = Goal::new(accountant, epsilon, delta, adjacency);
    let at = |rate: f64| Ok::<_, AccountingError>(event(SamplingRate::new(rate)?));
    match boundary(0.01, LEAST_RATE, 1.0, |rate| goal.excess(at(rate)?))? {
        Boundary::At(rate) => Ok(SamplingRate::new(rate)?),
        Boundary::NoneFits => {
            let event = at(LEAST_RATE)?;
            Err(goal.unreachable(Parameter::SamplingRate, LEAST_RATE, event))
        }
        Boundary::AllFit => Ok(SamplingRate::new(1.0)?),
    }
}

/// What an event costs by the rules of this module, and who says so: `accountant`, or where [`Accountant::Exact`] leaves the
/// range of its numerics or has an interval that is wider than a thousandth, whichever accountant has the least bound. Of an event that
/// was found here it is at most the target.
///
/// # Errors
/// The accountants' own refusals.
pub fn cost(
    accountant: Accountant,
    event: &Event,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<(Accountant, f64), AccountingError> {
    if accountant != Accountant::Exact {
        let epsilon = accountant.epsilon(event, delta, adjacency)?;
        return Ok((accountant, epsilon));
    }
    match Accountant::interval(event, delta, adjacency) {
        Ok(bounds) if !bounds.is_wide() => Ok((accountant, bounds.upper)),
        Err(error) if !error.is_numerical() => Err(error),
        _ => Accountant::least_sampled(event, delta, adjacency),
    }
}

/// What an event is to cost at most, and who says what it costs.
struct Goal {
    accountant: Accountant,
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
}

impl Goal {
    fn new(accountant: Accountant, epsilon: Epsilon, delta: Delta, adjacency: Adjacency) -> Self {
        Self {
            accountant,
            epsilon,
            delta,
            adjacency,
        }
    }

    /// As [`cost`], where cheap bounds that settle it are asked first.
    fn cost(&self, event: &Event) -> Result<f64, AccountingError> {
        if self.accountant != Accountant::Exact {
            return self.accountant.epsilon(event, self.delta, self.adjacency);
        }
        match Accountant::interval(event, self.delta, self.adjacency) {
            Ok(bounds) if bounds.upper <= self.epsilon.get() || !bounds.is_wide() => {
                return Ok(bounds.upper);
            }
            Err(error) if !error.is_numerical() => return Err(error),
            _ => {}
        }
        // What the cheap bound admits, the least one admits too.
        match Accountant::Rdp.epsilon(event, self.delta, self.adjacency) {
            Ok(epsilon) if epsilon <= self.epsilon.get() => Ok(epsilon),
            _ => Accountant::least_sampled(event, self.delta, self.adjacency)
                .map(|(_, epsilon)| epsilon),
        }
    }

    /// Logarithm of the cost over the target. Positive: too dear, also where the accountant has
    /// no answer within the range of its numbers.
    fn excess(&self, event: Event) -> Result<f64, AccountingError> {
        let target = self.epsilon.get();
        match self.cost(&event) {
            // The comparison decides; the logarithms only steer.
            Ok(achieved) if achieved <= target => Ok((achieved.ln() - target.ln()).min(0.0)),
            Ok(achieved) => Ok((achieved.ln() - target.ln()).max(f64::MIN_POSITIVE)),
            Err(error) if error.is_numerical() => Ok(f64::INFINITY),
            Err(refusal) => Err(refusal),
        }
    }

    fn unreachable(&self, parameter: Parameter, value: f64, event: Event) -> AccountingError {
        let achieved = self.cost(&event);
        AccountingError::Unreachable {
            target_epsilon: self.epsilon.get(),
            target_delta: self.delta.get(),
            parameter,
            value,
            achieved_epsilon: match achieved {
                Ok(epsilon) => epsilon,
                Err(AccountingError::OutOfRange { .. }) => f64::INFINITY,
                Err(refusal) => return refusal,
            },
        }
    }

    fn unconstrained(&self, parameter: Parameter, value: f64) -> AccountingError {
        AccountingError::Unconstrained {
            target_epsilon: self.epsilon.get(),
            target_delta: self.delta.get(),
            parameter,
            value,
        }
    }
}
