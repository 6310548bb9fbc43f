//! Solvers of second order: what a certificate says, of whom, and what it does not say.

use dpopt::nonconvex::{Item, Outcome, Value};
use serde::{Deserialize, Serialize};

use crate::certificate::four;
use crate::chosen::Chosen;
use crate::class_weights::LabelWeights;
use crate::fit::Fit;
use crate::sosp_args::How;

/// How a solver of second order went about it, and what is certified of its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecondOrder {
    /// Of `sosp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) how: Option<How>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<Certificate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_certificate_because: Option<String>,
}

/// A certificate that a run ended in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Certificate {
    /// The gradient norm is at most that.
    gradient: f64,
    /// No eigenvalue of the Hessian is below that.
    least_eigenvalue: f64,
    /// All of it is true with at least this probability.
    probability: f64,
    /// Of whom: true for the population that the records are independent draws from, false for these records alone.
    of_population: bool,
    /// All of it in words, and what it does not say.
    words: String,
}

impl SecondOrder {
    /// Of a run; none for solvers that certify nothing of second order.
    pub(crate) fn of(chosen: &Chosen, fit: &Fit, outcome: &Outcome) -> Option<Self> {
        if !chosen.solver.needs_hessian() {
            return None;
        }
        let bound = chosen.bound_of(outcome).map_err(|why| why.to_string());
        let found = bound.and_then(|bound| {
            let curvature = bound.curvature.ok_or("no curvature was certified")?;
            let failure = failure(&chosen.plan.items()).ok_or("its plan names no probability")?;
            let of_population = bound.sense.of_population();
            let weights = LabelWeights::of_mean(fit.weights.as_ref());
            Ok(Certificate {
                gradient: bound.value,
                least_eigenvalue: 0.0 - curvature,
                probability: 1.0 - failure,
                of_population,
                words: words((bound.value, curvature), failure, of_population, &weights),
            })
        });
        let (certificate, no_certificate_because) = match found {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why)),
        };
        Some(Self {
            how: chosen.how.clone(),
            certificate,
            no_certificate_because,
        })
    }

    /// What is certified in words, if anything is.
    pub(crate) fn words(&self) -> Option<&str> {
        self.certificate.as_ref().map(|found| &*found.words)
    }
}

/// p of a plan.
fn failure(items: &[Item<'_>]) -> Option<f64> {
    let item = items.iter().find(|item| item.name == "failure")?;
    match item.value {
        Value::Number(number) => number,
        _ => None,
    }
}

fn words(
    (gradient, curvature): (f64, f64),
    failure: f64,
    of_population: bool,
    weights: &str,
) -> String {
    let eigenvalue = match curvature {
        below if below <= 0.0 => format!("at least {}", -below),
        above => format!("at least -{}", four(above)),
    };
    let of = if of_population {
        format!(
            "the mean loss of the population{weights}, if the records are independent draws from it in an order that tells nothing"
        )
    } else {
        format!("the mean loss of these records{weights}")
    };
    let others = if of_population {
        ""
    } else {
        ", nor of the population that the records come from"
    };
    format!(
        "With probability {} the gradient norm is at most {} at the result and the least eigenvalue of the Hessian {eigenvalue}: of {of}. \
         This does not say that the result is a minimum or near one, nor how large the loss is, and nothing of other points{others}.",
        1.0 - failure,
        four(gradient),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_of_whom_and_what_is_not_said() {
        let of_records = words((0.123_41, 0.2), 0.05, false, "");
        assert!(of_records.starts_with(
            "With probability 0.95 the gradient norm is at most 0.1235 at the result and the least eigenvalue of the Hessian at least -0.2000: \
             of the mean loss of these records."
        ), "{of_records}");
        assert!(of_records.contains("nor of the population"));
        let of_all = words((0.1, -0.25), 0.05, true, "");
        assert!(
            of_all.contains("at least 0.25: of the mean loss of the population"),
            "{of_all}"
        );
        assert!(!of_all.contains("these records"));
    }
}
