//! `dpopt account --curve`: delta at several epsilons, and bounds on what an attacker can do.

use std::fmt::Write as _;

use dpopt::privacy::accounting::AccountingError;
use dpopt::privacy::accounting::curves::{CurvePoint, PrivacyCurve};
use dpopt::privacy::{Accountant, Adjacency, Event};
use serde::Serialize;

/// False positive rates that are reported.
const RATES: [f64; 4] = [0.001, 0.01, 0.1, 0.5];
/// Every so many points of the curve are printed for people.
const STRIDE: usize = 8;

/// Upper bounds on delta and on the success of an attacker who knows all records but one.
#[derive(Debug, Serialize)]
pub(crate) struct CurveReport {
    /// Upper bounds on delta.
    curve: Vec<CurvePoint>,
    attack: Attack,
}

/// Each number is an upper bound: no attacker does better.
#[derive(Debug, Serialize)]
struct Attack {
    /// Largest true positive rate minus false positive rate: delta at epsilon 0.
    advantage: f64,
    /// Probability of guessing right one of two inputs that were equally likely.
    success: f64,
    rates: Vec<Rates>,
}

#[derive(Debug, Serialize)]
struct Rates {
    false_positive_rate: f64,
    true_positive_rate: f64,
    /// Probability that an accused record was there, where it was there with probability 1/2.
    posterior: f64,
}

impl CurveReport {
    pub(crate) fn new(
        accountant: Accountant,
        event: &Event,
        adjacency: Adjacency,
    ) -> Result<Self, AccountingError> {
        let curve = PrivacyCurve::of(accountant, event, adjacency)?;
        let at = |rate: f64| Rates {
            false_positive_rate: rate,
            true_positive_rate: curve.true_positive_rate(rate),
            posterior: curve.posterior(0.5, rate),
        };
        Ok(Self {
            attack: Attack {
                advantage: curve.advantage(),
                success: curve.success(0.5),
                rates: RATES.into_iter().map(at).collect(),
            },
            curve: curve.points().to_vec(),
        })
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut out = "\n   epsilon  delta (at most)\n".to_owned();
        for CurvePoint { epsilon, delta } in self.curve.iter().step_by(STRIDE) {
            let _ = writeln!(out, "{:>10}  {}", up(*epsilon), exponent_up(*delta));
        }
        let _ = writeln!(
            out,
            "\nNo attacker who knows all records but one guesses whether it is the one or the other\n\
             of two possibilities, equally likely before, right with probability above {} (advantage {}).\n\n\
             false positive rate  true positive rate (at most)",
            up(self.attack.success),
            up(self.attack.advantage)
        );
        for rates in &self.attack.rates {
            let rate = rates.false_positive_rate;
            let _ = writeln!(out, "{rate:>19}  {}", up(rates.true_positive_rate));
        }
        out
    }
}

/// Four digits after the point, never below the value.
fn up(value: f64) -> f64 {
    (value * 1e4).ceil() / 1e4
}

/// Three significant digits, never below the value.
fn exponent_up(value: f64) -> String {
    if !(value > 0.0) {
        return "0".to_owned();
    }
    // Adding half a unit of the last digit shown turns rounding to nearest into rounding up.
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    format!("{:.2e}", (value + 0.5 * unit).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::{exponent_up, up};

    #[test]
    fn what_is_shown_is_never_too_small() {
        for value in [1e-9, 1.2345e-5, 1.0051e-3, 0.1234, 0.9999, 1.0, 3.3e-300] {
            let shown: f64 = exponent_up(value).parse().unwrap();
            assert!(shown >= value && shown <= 1.011 * value, "{value} {shown}");
            assert!(up(value) >= value);
        }
        assert_eq!(exponent_up(0.0), "0");
    }
}
