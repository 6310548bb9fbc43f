//! Tuning accounted by privacy profiles: a mechanism is run a random number of times, and the best answer is released.
//!
//! Let `delta_Q` be the profile of one run: (e, `delta_Q(e)`)-DP for every e >= 0. Where the number K of runs has a truncated negative binomial law
//! of shape eta > -1 and parameter gamma, and where `(1 - gamma) delta_Q(c) <= gamma (e^c - 1)`,
//!
//! ```text
//! delta(e + (eta + 1) c) <= E[K] delta_Q(e);     K Poisson of mean m:   delta(e + m delta_Q(0)) <= m delta_Q(e).
//! ```
//!
//! (Koskela, Redberg and Wang 2024 for the idea; proof in `docs/privacy/selection.md`.) Papernot and Steinke's Renyi bound, which
//! [`Accountant::Rdp`] has, needs two orders of the divergence; where the profile is known more closely than the divergence this is the smaller one.

use super::moments::log_inverse_gamma;
use super::{Accountant, AccountingError};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon};

/// Upper bound on the epsilon at `delta` of one [`Event::RepeatAndSelect`] by the profile of its inner event.
///
/// # Errors
/// [`AccountingError::UnsupportedEvent`] for another event, the refusals of the accountants for the inner one,
/// [`AccountingError::OutOfRange`] where no finite number holds.
pub fn epsilon(event: &Event, delta: Delta, adjacency: Adjacency) -> Result<f64, AccountingError> {
    event.check()?;
    let Event::RepeatAndSelect { event, mean, shape } = event else {
        return Err(AccountingError::UnsupportedEvent {
            accountant: Accountant::Pld,
            path: String::new(),
            event: Box::new(event.clone()),
        });
    };
    let mean = *mean;
    if matches!(**event, Event::RepeatAndSelect { .. }) {
        return Err(AccountingError::UnsupportedEvent {
            accountant: Accountant::Pld,
            path: "event".to_owned(),
            event: event.clone(),
        });
    }
    let accountant = Accountant::tightest_for(event, adjacency)?;
    let profile = |e: f64| -> Result<f64, AccountingError> {
        accountant.delta(event, Epsilon::new(e)?, adjacency)
    };
    let part = Delta::new((delta.get() / mean).min(0.5).next_down())?;
    let (_, base) = Accountant::least(event, part, adjacency)?;
    let extra = if shape.is_infinite() {
        // delta falls by at most e^a - e^b from b to a.
        const TINY: f64 = 1e-12;
        mean * (profile(TINY)? + 2.0 * TINY)
    } else {
        // Rounded down: the condition is harder to meet then.
        let gamma = libm::exp(-log_inverse_gamma(mean, *shape) * (1.0 + 1e-12)) * (1.0 - 1e-9);
        let fits = |c: f64| -> Result<bool, AccountingError> {
            Ok((1.0 - gamma) * profile(c)? <= gamma * libm::expm1(c) * (1.0 - 1e-12))
        };
        let (mut low, mut high) = (0.0, 1e-3);
        while !fits(high)? {
            low = high;
            high *= 2.0;
            if high > 1e4 {
                return Err(AccountingError::OutOfRange {
                    quantity: "epsilon of a selection",
                    value: f64::INFINITY,
                });
            }
        }
        for _ in 0..40 {
            if high - low <= 1e-4 * high {
                break;
            }
            let middle = 0.5 * (low + high);
            if fits(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        (shape + 1.0) * high
    };
    Ok((base + extra) * (1.0 + 8.0 * f64::EPSILON))
}
