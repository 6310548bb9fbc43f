//! What a finished run is proven to have reached.

use serde::Serialize;

use crate::plan::BoundSense;

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
}

impl std::fmt::Display for BoundedQuantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BoundedQuantity::GradientNorm => "gradient norm",
            BoundedQuantity::ExcessRisk => "excess risk",
        })
    }
}
