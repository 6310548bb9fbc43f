//! Second-order stationarity: two numbers.

use serde::Serialize;

/// What makes a point second-order stationary: two numbers, since a gradient and a curvature have different units.
///
/// For a loss whose Hessian is rho-Lipschitz the literature's (alpha, sqrt(rho alpha)) is
/// [`SecondOrderTargets::coupled`]. On factored losses a worst-case rho makes that empty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SecondOrderTargets {
    /// alpha: ||grad F(w)|| <= alpha.
    pub gradient: f64,
    /// lambda: the least eigenvalue of hess F(w) is at least -lambda.
    pub curvature: f64,
}

impl SecondOrderTargets {
    /// A hair below what every point meets, L0 and L1: for the two numbers alone.
    #[must_use]
    pub fn widest(lipschitz: f64, smoothness: f64) -> Self {
        Self {
            gradient: 0.999 * lipschitz,
            curvature: 0.999 * smoothness,
        }
    }

    /// alpha and sqrt(rho alpha): an alpha-second-order stationary point.
    #[must_use]
    pub fn coupled(alpha: f64, hessian_lipschitz: f64) -> Self {
        Self {
            gradient: alpha,
            curvature: (hessian_lipschitz * alpha).sqrt(),
        }
    }
}

/// By which errors of the walk's estimates a plan is made. The certificate's margins are a theorem's with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalkConstants {
    /// Root mean squares: a rule of thumb, by which runs end in a certificate as a rule.
    #[default]
    Typical,
    /// Limits that hold with the planned probability: then a run ends in a certificate with it. Some 10 times the records.
    Rigorous,
}

impl WalkConstants {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Typical, Self::Rigorous];
}

impl std::fmt::Display for WalkConstants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WalkConstants::Typical => "typical",
            WalkConstants::Rigorous => "rigorous",
        })
    }
}
