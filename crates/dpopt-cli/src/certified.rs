//! What a certificate says of the result of a saddle problem, in words and as JSON.

use dpopt::minimax::ScoredCertificate;
use serde::{Deserialize, Serialize};

use crate::certificate::four;

/// A certificate of the largest value over y, Phi, at the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Certified {
    /// The gradient of Phi is at most that long.
    pub(crate) gradient: f64,
    /// It is no longer than that, whatever the records are.
    gradient_anyway: f64,
    /// y is no further than that from the best one.
    distance_of_dual: f64,
    /// No eigenvalue of the Hessian of Phi is below that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least_curvature: Option<f64>,
    /// The same, whatever the records are.
    least_curvature_anyway: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_curvature_because: Option<String>,
    probability: f64,
    /// The statement is about the objective with the shares of the schema, and needs them to be those of the records.
    needs_shares_of_schema: bool,
}

impl Certified {
    /// Of a certificate that holds with this probability, released shares included.
    pub(crate) fn new(of: &ScoredCertificate, probability: f64, shares_released: bool) -> Self {
        Self {
            gradient: of.gradient,
            gradient_anyway: of.gradient_anyway,
            distance_of_dual: of.distance,
            least_curvature: of.curvature.as_ref().ok().copied(),
            least_curvature_anyway: of.curvature_anyway,
            no_curvature_because: of.curvature.as_ref().err().map(ToString::to_string),
            probability,
            needs_shares_of_schema: !shares_released,
        }
    }

    /// One sentence.
    pub(crate) fn words(&self) -> String {
        let nothing = |says: bool| {
            if says { "" } else { ", so this says nothing" }
        };
        let curvature = match (self.least_curvature, &self.no_curvature_because) {
            (Some(least), _) => format!(
                "no curvature there is below {} (none is below {} anyway{})",
                down(least),
                down(self.least_curvature_anyway),
                nothing(least > self.least_curvature_anyway)
            ),
            (None, Some(why)) => format!("of its curvature nothing is certified: {why}"),
            (None, None) => "of its curvature nothing is certified".to_owned(),
        };
        format!(
            "the gradient norm of the largest value over y is at most {} at the result (it is at most {} anyway{}), and {curvature}; \
             probability {}{}",
            four(self.gradient),
            four(self.gradient_anyway),
            nothing(self.gradient < self.gradient_anyway),
            self.probability,
            if self.needs_shares_of_schema {
                ", if the shares of the schema are those of the records"
            } else {
                ""
            }
        )
    }
}

/// A lower bound to four digits, rounded down.
fn down(value: f64) -> String {
    if value < 0.0 {
        return format!("-{}", four(-value));
    }
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let unit = 10f64.powi(3 - value.log10().floor() as i32);
    format!("{}", (value * unit).floor() / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certified() -> Certified {
        Certified {
            gradient: 0.123_41,
            gradient_anyway: 0.5,
            distance_of_dual: 0.1,
            least_curvature: Some(-0.2),
            least_curvature_anyway: -0.1,
            no_curvature_because: None,
            probability: 0.95,
            needs_shares_of_schema: false,
        }
    }

    #[test]
    fn a_certificate_says_where_it_says_nothing() {
        let words = certified().words();
        assert!(words.contains(
            "at most 0.1235 at the result (it is at most 0.5000 anyway), and no curvature"
        ));
        assert!(
            words.contains("below -0.2000 (none is below -0.1000 anyway, so this says nothing)"),
            "{words}"
        );
        let none = Certified {
            gradient: 0.6,
            least_curvature: None,
            no_curvature_because: Some("why".to_owned()),
            ..certified()
        };
        let words = none.words();
        assert!(words.contains(
            "anyway, so this says nothing), and of its curvature nothing is certified: why"
        ));
    }

    #[test]
    fn lower_bounds_are_rounded_down() {
        assert_eq!(down(0.123_49), "0.1234");
        assert_eq!(down(-0.123_41), "-0.1235");
        assert_eq!(down(0.0), "0");
    }
}
