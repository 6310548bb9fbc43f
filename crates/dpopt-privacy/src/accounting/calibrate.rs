//! The least noise that meets a target.

use super::{Accountant, AccountingError};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon, NoiseMultiplier};

/// Largest noise multiplier tried.
const MOST_NOISE: f64 = 1e15;
/// Smallest noise multiplier tried.
const LEAST_NOISE: f64 = 1e-6;
/// Relative width of the final bracket.
const TOLERANCE: f64 = 2e-7;

/// The least noise multiplier at which `event(noise_multiplier)` costs at most `epsilon` at
/// `delta`, according to `accountant`.
///
/// The answer never overshoots: the accountant's (rounded up) epsilon at the returned value is
/// at most the target. It is within 1e-6 relative of the least such value. The event's cost
/// must not grow with the noise multiplier, which holds for every event whose Gaussians all
/// have multipliers proportional to it; otherwise the answer meets the target but may not be
/// the least.
///
/// Where [`Accountant::Exact`] refuses a noise multiplier on numerical grounds (far below or above any
/// plausible answer, as a rule), the least of the other bounds is taken there.
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
    let target = epsilon.get();
    // Positive: too little noise. An epsilon beyond f64 is too large, not a failure.
    let excess = |z: f64| -> Result<f64, AccountingError> {
        let event = event(NoiseMultiplier::new(z)?);
        let answer = match accountant.epsilon(&event, delta, adjacency) {
            // Out of the range of its numerics, not of its theorems: another bound serves.
            Err(AccountingError::Exact(_)) => {
                Accountant::least(&event, delta, adjacency).map(|(_, epsilon)| epsilon)
            }
            answer => answer,
        };
        match answer {
            Ok(achieved) => {
                let excess = achieved.ln() - target.ln();
                // The logarithms of neighbouring numbers may be equal.
                Ok(if achieved <= target {
                    excess.min(0.0)
                } else {
                    excess.max(f64::EPSILON)
                })
            }
            Err(AccountingError::OutOfRange { .. }) => Ok(f64::INFINITY),
            Err(refusal) => Err(refusal),
        }
    };
    let (mut low, mut high) = (1.0, 1.0);
    let mut at_high = excess(high)?;
    let mut at_low = at_high;
    let mut factor = 2.0;
    while at_high > 0.0 {
        if high >= MOST_NOISE {
            return Err(AccountingError::Unreachable {
                target_epsilon: target,
                target_delta: delta.get(),
                noise_multiplier: high,
                achieved_epsilon: accountant
                    .epsilon(&event(NoiseMultiplier::new(high)?), delta, adjacency)
                    .unwrap_or(f64::NAN),
            });
        }
        (low, at_low) = (high, at_high);
        high = (high * factor).min(MOST_NOISE);
        factor *= factor.min(16.0);
        at_high = excess(high)?;
    }
    factor = 2.0;
    while at_low <= 0.0 {
        if low <= LEAST_NOISE {
            return Err(AccountingError::Unconstrained {
                target_epsilon: target,
                target_delta: delta.get(),
                noise_multiplier: low,
            });
        }
        (high, at_high) = (low, at_low);
        low = (low / factor).max(LEAST_NOISE);
        factor *= factor.min(4.0);
        at_low = excess(low)?;
    }
    // False position in log-log coordinates, alternating with bisection so that the bracket
    // closes from both ends.
    for round in 0..200_u32 {
        if high <= low * (1.0 + TOLERANCE) {
            break;
        }
        let width = (high / low).ln();
        let share = at_low / (at_low - at_high);
        let middle = if round % 3 == 2 || !share.is_finite() {
            (low * high).sqrt()
        } else {
            // Aim a little past the root, to the side that is farther away.
            let push = if share < 0.5 { 0.3 } else { -0.3 } * TOLERANCE / width;
            low * (width * (share + push).clamp(0.0, 1.0)).exp()
        };
        let middle = if middle > low && middle < high {
            middle
        } else {
            (low * high).sqrt()
        };
        let value = excess(middle)?;
        if value > 0.0 {
            (low, at_low) = (middle, value);
        } else {
            (high, at_high) = (middle, value);
        }
    }
    Ok(NoiseMultiplier::new(high)?)
}
