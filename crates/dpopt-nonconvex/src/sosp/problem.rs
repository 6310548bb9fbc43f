//! What the cost of a level hangs on.

use dpopt_solver::{CurvatureBy, HessianFacts, PublicFacts, SecondOrderTargets};
use serde::Serialize;

/// What the cost of a level hangs on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) hessian: &'a HessianFacts,
    pub(super) by: CurvatureBy,
    /// Most gradient releases.
    pub(super) most_steps: u64,
    /// With what probability a certificate of this level may be false.
    pub(super) false_certificate: f64,
    /// With what probability a run may cost more than [`SospLevel::cost`] or end in no certificate, beside that.
    pub(super) failure: f64,
    pub(super) estimates: Estimates,
    pub(super) steps: Steps,
    /// Whether the cost of the level is part of a claim, and not of a run that goes on for as long as it can.
    pub(super) claimed: bool,
}

/// Where the lengths of steps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Steps {
    /// From L1 and rho.
    #[default]
    Planned,
    /// From released changes of values: half as far each time until F is seen to fall. L1 and rho may be infinite. Estimates are fresh, and
    /// nothing is stated before the run; what it certifies is as good.
    Measured,
}

/// Of which kind the estimates of the gradient are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Estimates {
    /// Whichever promises more for the budget, and the same after the first certificate.
    #[default]
    Cheaper,
    /// A fresh gradient at each step.
    Fresh,
    /// Spider: an anchor, and the changes since.
    Recursive,
}

impl Problem<'_> {
    /// z of a Hessian after which the bend h of a saddle is at least `left` lambda, with so many deviations between; none where rounding
    /// leaves no room for noise.
    pub(super) fn hessian_multiplier(
        &self,
        targets: SecondOrderTargets,
        left: f64,
        deviations: f64,
    ) -> Option<f64> {
        let lambda = targets.curvature;
        let (dim, frobenius) = (self.facts.dim, self.hessian.frobenius);
        let rounding = PublicFacts::rounding(frobenius, dim * (dim + 1) / 2)
            // Of the eigenvalue iteration.
            + 16.0 * (dim * dim) as f64 * f64::EPSILON * (frobenius + lambda);
        let std = ((1.0 - left) * lambda - 2.0 * rounding) / deviations;
        (std > 0.0).then(|| std / self.facts.noise_std(frobenius, 1.0))
    }

    /// d sigma^2/alpha^2 so small that the sign of a curvature step costs next to nothing.
    pub(super) fn least_share(&self, targets: SecondOrderTargets) -> f64 {
        let scale = self.hessian.lipschitz * targets.gradient;
        let noise = targets.curvature * targets.curvature / (300.0 * scale);
        // Lower than that no multiplier is in range.
        (self.facts.dim as f64 * noise * noise).clamp(1e-18, 1e-5)
    }
}
