//! What a finished run is proven to have reached.

use dpopt_oracle::NoSample;
use dpopt_privacy::Adjacency;
use serde::{Deserialize, Serialize};

use crate::premises::SaddleShape;

/// A proven bound at the point that a run returned.
///
/// It holds for the facts that the plan was made from: the constants of the loss, and the initial gap (or the radius)
/// **at the point where the run started**.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StatedBound {
    /// At most so much.
    pub value: f64,
    /// Of what.
    pub quantity: BoundedQuantity,
    /// In which sense.
    pub sense: BoundSense,
    /// Of a Goldstein distance the radius, in the unit of a point's length.
    pub radius: Option<f64>,
    /// a, in the same unit, where the bound is not about the loss itself but about its mean over a ball of this radius; none for
    /// the loss itself.
    pub smoothing: Option<f64>,
    /// lambda, where the bound is one of second order: the least eigenvalue of the Hessian at the point is at least -lambda, on the
    /// same event. Below 0 where a minimum was certified.
    pub curvature: Option<f64>,
    /// Whether it is on the largest value over y, Phi(x) = max F(x, y), of a saddle problem.
    #[serde(skip)]
    pub of_largest_value: bool,
    /// Whether it is for records of which each group and class has exactly its public share (a bound for the population: in that).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub given_shares: bool,
}

impl StatedBound {
    /// A bound of `value` on `quantity`.
    #[must_use]
    pub fn new(value: f64, quantity: BoundedQuantity, sense: BoundSense) -> Self {
        Self {
            value,
            quantity,
            sense,
            radius: None,
            smoothing: None,
            curvature: None,
            of_largest_value: false,
            given_shares: false,
        }
    }

    /// The same, of this saddle problem.
    #[must_use]
    pub(crate) fn of_saddle(self, shape: Option<SaddleShape>) -> Self {
        Self {
            given_shares: shape.is_some_and(|shape| shape.given_shares),
            ..self.of_largest_value(shape.is_some())
        }
    }

    /// The same, of the largest value over y.
    #[must_use]
    pub fn of_largest_value(self, of_largest_value: bool) -> Self {
        Self {
            of_largest_value,
            ..self
        }
    }

    /// What it is on, in words: "gradient norm", "gradient norm of the largest value over y", "Goldstein distance at radius 0.5", "Goldstein distance at radius 0.5 of the
    /// smoothed loss F_a, at smoothing a = 0.1".
    #[must_use]
    pub fn subject(&self) -> String {
        let mut subject = self.quantity.to_string();
        if self.of_largest_value {
            subject += " of the largest value over y";
        }
        if let Some(radius) = self.radius {
            subject += &format!(" at radius {radius}");
        }
        if let Some(smoothing) = self.smoothing {
            subject += &format!(" of the smoothed loss F_a, at smoothing a = {smoothing}");
        }
        if self.given_shares {
            let of = match self.sense.of_population() {
                true => "the population",
                false => "the records",
            };
            subject +=
                &format!(", where each group and class has exactly its public share of {of},");
        }
        subject
    }

    /// What follows the value in words: " and the least eigenvalue of the Hessian there at least -0.25", or nothing.
    #[must_use]
    pub fn of_curvature(&self) -> String {
        match self.curvature {
            // No eigenvalue below zero was within reach of the noise.
            Some(0.0) => " and the least eigenvalue of the Hessian there at least 0".to_owned(),
            Some(curvature) if curvature < 0.0 => format!(
                " and the least eigenvalue of the Hessian there at least {}",
                rounded_down(-curvature)
            ),
            Some(curvature) => format!(
                " and the least eigenvalue of the Hessian there at least -{}",
                rounded_up(curvature)
            ),
            None => String::new(),
        }
    }

    /// The same, of the mean of the loss over a ball of radius `smoothing`, if there is one.
    #[must_use]
    pub fn of_smoothed(self, smoothing: Option<f64>) -> Self {
        Self { smoothing, ..self }
    }

    /// The same, of second order: with the least eigenvalue of the Hessian at least `-curvature`.
    #[must_use]
    pub fn with_curvature(self, curvature: Option<f64>) -> Self {
        Self { curvature, ..self }
    }

    /// The same, of a Goldstein distance at this radius.
    #[must_use]
    pub fn at_radius(self, radius: Option<f64>) -> Self {
        Self { radius, ..self }
    }
}

/// Four digits, never below the number.
fn rounded_up(number: f64) -> f64 {
    let digits = 10f64.powf(3.0 - number.log10().floor());
    let up = (number * digits).ceil() / digits;
    // Of numbers with no such digits.
    if up >= number { up } else { number }
}

/// Four digits, never above the number.
fn rounded_down(number: f64) -> f64 {
    let digits = 10f64.powf(3.0 - number.log10().floor());
    let down = (number * digits).floor() / digits;
    if down <= number { down } else { number }
}

/// What a bound is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BoundedQuantity {
    /// The norm of the gradient, in the unit of the loss over that of the point.
    GradientNorm,
    /// F less its minimum, in the unit of the loss.
    ExcessRisk,
    /// The Goldstein distance at a radius r: the length of the shortest mean of gradients at points within r, in the unit of
    /// a gradient.
    GoldsteinDistance,
    /// The component-wise Goldstein distance at a radius r: as the Goldstein distance, each record's gradient taken at points of
    /// its own, in the unit of a gradient. At most the Goldstein distance.
    ComponentWiseGoldsteinDistance,
}

impl std::fmt::Display for BoundedQuantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BoundedQuantity::GradientNorm => "gradient norm",
            BoundedQuantity::ExcessRisk => "excess risk",
            BoundedQuantity::GoldsteinDistance => "Goldstein distance",
            BoundedQuantity::ComponentWiseGoldsteinDistance => "component-wise Goldstein distance",
        })
    }
}

/// In which sense a bound holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BoundSense {
    /// Root mean square over noise, samples and the drawn output, for the mean over these records.
    RootMeanSquare,
    /// Mean over noise and the drawn output, for the mean over these records.
    Mean,
    /// With the planned probability over noise, for the mean over these records.
    WithProbability,
    /// Mean over noise and projection, for the mean over these records.
    MeanOverProjections,
    /// Mean over noise and over the records as a sample, for the population that they were drawn from.
    PopulationMean,
    /// With the planned probability over noise and records, for the population.
    PopulationWithProbability,
}

impl BoundSense {
    /// Whether there may be a bound in this sense under this adjacency: one for the population is under replace-one only, since an erased
    /// record is no draw from it ([`NoSample`]).
    #[must_use]
    pub fn holds_under(self, adjacency: Adjacency) -> bool {
        !self.of_population() || NoSample::refuse(adjacency).is_ok()
    }

    /// Whether the bound is for the population that the records were drawn from.
    #[must_use]
    pub fn of_population(self) -> bool {
        matches!(
            self,
            BoundSense::PopulationMean | BoundSense::PopulationWithProbability
        )
    }
}

impl std::fmt::Display for BoundSense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BoundSense::RootMeanSquare => "root mean square",
            BoundSense::Mean => "mean",
            BoundSense::WithProbability => "with the planned probability",
            BoundSense::MeanOverProjections => "mean, over the projection too",
            BoundSense::PopulationMean => {
                "mean, for the population that the records were drawn from"
            }
            BoundSense::PopulationWithProbability => {
                "with the planned probability, for the population that the records were drawn from"
            }
        })
    }
}
