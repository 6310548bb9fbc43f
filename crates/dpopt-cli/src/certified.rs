//! What a certificate says of the result of a saddle problem, in words and as JSON.

use dpopt::minimax::ScoredCertificate;
use serde::{Deserialize, Serialize};

use crate::certificate::four;

/// A certificate of the largest value over y, Phi, at the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Certified {
    /// The gradient of Phi is at most that long.
    pub(crate) gradient: f64,
    /// It is no longer than that by the condition on shares alone, with nothing released.
    #[serde(alias = "gradient_anyway")]
    gradient_by_shares_alone: f64,
    /// y is no further than that from the best one.
    distance_of_dual: f64,
    /// No eigenvalue of the Hessian of Phi is below that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least_curvature: Option<f64>,
    /// The same, by the condition on shares alone.
    #[serde(alias = "least_curvature_anyway")]
    least_curvature_by_shares_alone: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_curvature_because: Option<String>,
    probability: f64,
    /// All of it is for records of which no cell (a class of a group) has more than so many times its share. How likely that is, is in
    /// the probability: over the noise of released shares; for shares of the schema over the draw of the records, where these are
    /// independent draws from where those shares are true.
    #[serde(default = "once")]
    no_cell_exceeds_its_share_by_more_than_factor: f64,
    /// The shares are those of the schema, and nothing was released to see whether the records keep to the factor.
    needs_shares_of_schema: bool,
}

/// The factor of files that name none.
fn once() -> f64 {
    1.0
}

impl Certified {
    /// Of a certificate that holds with this probability, released shares included.
    pub(crate) fn new(of: &ScoredCertificate, probability: f64, shares_released: bool) -> Self {
        Self {
            gradient: of.gradient,
            gradient_by_shares_alone: of.gradient_by_shares_alone,
            distance_of_dual: of.distance,
            least_curvature: of.curvature.as_ref().ok().copied(),
            least_curvature_by_shares_alone: of.curvature_by_shares_alone,
            no_curvature_because: of.curvature.as_ref().err().map(ToString::to_string),
            probability,
            no_cell_exceeds_its_share_by_more_than_factor: of.excess,
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
                "no curvature there is below {} (none is below {} by the shares alone{})",
                down(least),
                down(self.least_curvature_by_shares_alone),
                nothing(least > self.least_curvature_by_shares_alone)
            ),
            (None, Some(why)) => format!("of its curvature nothing is certified: {why}"),
            (None, None) => "of its curvature nothing is certified".to_owned(),
        };
        format!(
            "the gradient norm of the largest value over y is at most {} at the result (it is at most {} by the shares alone{}), \
             and {curvature}; probability {}{}; this is of the mean over these records, and says nothing of other points",
            four(self.gradient),
            four(self.gradient_by_shares_alone),
            nothing(self.gradient < self.gradient_by_shares_alone),
            self.probability,
            if self.needs_shares_of_schema {
                format!(
                    ", if no class of a group has more than {} times its share of the schema among the records: independent draws from \
                     where those shares are true keep to it, but for 1 % that is counted",
                    four(self.no_cell_exceeds_its_share_by_more_than_factor)
                )
            } else {
                String::new()
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
            gradient_by_shares_alone: 0.5,
            distance_of_dual: 0.1,
            least_curvature: Some(-0.2),
            least_curvature_by_shares_alone: -0.1,
            no_curvature_because: None,
            probability: 0.95,
            no_cell_exceeds_its_share_by_more_than_factor: 1.084_11,
            needs_shares_of_schema: false,
        }
    }

    #[test]
    fn a_certificate_says_where_it_says_nothing() {
        let words = certified().words();
        assert!(words.contains(
            "at most 0.1235 at the result (it is at most 0.5000 by the shares alone), and no curvature"
        ));
        assert!(
            words.contains(
                "below -0.2000 (none is below -0.1000 by the shares alone, so this says nothing)"
            ),
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
            "by the shares alone, so this says nothing), and of its curvature nothing is certified: why"
        ));
    }

    /// Shares of a schema are those of what records were drawn from, and the records' own are others.
    #[test]
    fn the_condition_on_shares_is_said_and_files_without_it_are_read() {
        let of_schema = Certified {
            needs_shares_of_schema: true,
            ..certified()
        };
        let words = of_schema.words();
        assert!(
            words.contains("no class of a group has more than 1.085 times its share of the schema"),
            "{words}"
        );
        assert!(!certified().words().contains("schema"));
        let mut json = serde_json::to_value(of_schema).unwrap();
        let of = json.as_object_mut().unwrap();
        let factor = of.remove("no_cell_exceeds_its_share_by_more_than_factor");
        assert_eq!(factor, Some(1.084_11.into()));
        for (old, new) in [
            ("gradient_anyway", "gradient_by_shares_alone"),
            ("least_curvature_anyway", "least_curvature_by_shares_alone"),
        ] {
            let value = of.remove(new).unwrap();
            of.insert(old.to_owned(), value);
        }
        let read: Certified = serde_json::from_value(json).unwrap();
        assert_eq!(
            (
                read.gradient_by_shares_alone,
                read.no_cell_exceeds_its_share_by_more_than_factor
            ),
            (0.5, 1.0)
        );
    }

    #[test]
    fn lower_bounds_are_rounded_down() {
        assert_eq!(down(0.123_49), "0.1234");
        assert_eq!(down(-0.123_41), "-0.1235");
        assert_eq!(down(0.0), "0");
    }
}
