//! Generalised linear losses f(w; (x, y)) = phi(<w, x>, y), with exact constants.
//!
//! The constants belong to the loss and to the enforced bounds on ||x|| and |y|; they are never
//! measured on data.

mod averages;
mod constants;
mod names;
mod parameters;
mod passes;
mod poisson;
mod rays;
mod rise;
mod scalar;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use names::LossNameError;
pub use parameters::{ParameterError, Quantile, Scale};
pub(crate) use passes::add_multiple;

/// A loss of one inner product.
///
/// # Formula
/// With z = <w, x>. For the three classification losses y is in {-1, +1} (the sign of the label;
/// zero counts as -1); for the regression losses r = z - y. `[u]+` is max(u, 0).
///
/// | loss | phi | max abs phi' | max abs phi'' | max abs phi''' | convex |
/// | --- | --- | --- | --- | --- | --- |
/// | logistic | ln(1 + e^(-yz)) | 1 | 1/4 | 1/(6 sqrt 3) | yes |
/// | sigmoid | 1 / (1 + e^(yz)) | 1/4 | 1/(6 sqrt 3) | 1/8 | no |
/// | hinge | `[1 - yz]+` | 1 | kink | kink | yes |
/// | Welsch | 1 - e^(-r^2/2) | e^(-1/2) | 1 | 1.380 | no |
/// | Geman-McClure | r^2 / (1 + r^2) | 3 sqrt(3)/8 | 2 | 4.669 | no |
/// | Cauchy | ln(1 + r^2) | 1 | 2 | 2.914 | no |
/// | Tukey biweight | (c^2/6) (1 - `[1 - r^2/c^2]+`^3) | 16 c / (25 sqrt 5) | 1 | 8/c | no |
/// | Huber | r^2/2 for abs r <= delta, else delta (abs r - delta/2) | delta | 1 | kink of phi' | yes |
/// | squared, residual clamped | min(r^2, b^2)/2 | b | kink | kink | no |
/// | absolute | abs r | 1 | kink | kink | yes |
/// | pinball | (1 - tau) `[r]+` + tau `[-r]+` | max(tau, 1 - tau) | kink | kink | yes |
/// | ReLU regression | abs(`[z]+` - y) | 1 | kink | kink | no |
/// | Poisson | m - k - k ln(m/k), m = e^z, up to m = K; then its tangent | K | K | kink of phi'' | yes |
///
/// The Poisson loss is half the deviance of a count k from 0 to K with mean e^z. A label y in [-1, 1], clamped to that, stands for the
/// count k = K (1 + y)/2. Beyond z = ln K the loss goes on along its tangent, so that slopes are bounded by K.
///
/// Where phi has a kink, the slope is a fixed element of Clarke's subdifferential: 0 for hinge (at
/// yz = 1), absolute, pinball (at r = 0) and ReLU regression (at z = 0 and at z = y), and r itself
/// for the clamped square (at abs r = b). A loss that is flat beyond a range and smooth does not grow like a
/// square up to its end: Tukey's biweight is the smooth one of that shape.
///
/// # Privacy
/// Evaluation never panics and has no state; what it returns for a record depends on that record
/// and the point alone.
///
/// # References
/// Huber 1964 (Huber's loss); Holland and Welsch 1977 (Welsch, Cauchy, Tukey, and the default
/// scales); Geman and McClure 1987; Koenker and Bassett 1978 (pinball).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Glm {
    /// Logistic loss (convex).
    Logistic,
    /// Sigmoid loss (bounded, nonconvex).
    Sigmoid,
    /// Hinge loss (convex, with a kink).
    Hinge,
    /// Welsch loss (bounded, nonconvex).
    Welsch,
    /// Geman-McClure loss (bounded, nonconvex).
    GemanMcClure,
    /// Cauchy (Lorentzian) loss (nonconvex).
    Cauchy,
    /// Tukey's biweight, flat beyond the scale c (bounded, nonconvex).
    Tukey(Scale),
    /// Huber's loss, linear beyond the scale delta (convex).
    Huber(Scale),
    /// Half the square of the residual clamped to `[-b, b]` (bounded, nonconvex, with kinks).
    Squared(Scale),
    /// Absolute error (convex, with a kink).
    Absolute,
    /// Pinball loss, whose least mean is at the quantile tau (convex, with a kink).
    Pinball(Quantile),
    /// Absolute error of a rectified linear unit (nonconvex, with kinks).
    Relu,
    /// Half the deviance of counts up to the largest, with mean e^z (convex).
    Poisson(Scale),
}

impl Glm {
    /// All losses, those with a parameter at its default: c = 4.685 for Tukey and delta = 1.345
    /// for Huber, at which the efficiency for normal residuals of unit variance is 95 %; b = 1;
    /// tau = 1/2; K = 1.
    pub const ALL: [Glm; 13] = [
        Glm::Logistic,
        Glm::Sigmoid,
        Glm::Hinge,
        Glm::Welsch,
        Glm::GemanMcClure,
        Glm::Cauchy,
        Glm::Tukey(Scale::TUKEY),
        Glm::Huber(Scale::HUBER),
        Glm::Squared(Scale::ONE),
        Glm::Absolute,
        Glm::Pinball(Quantile::MEDIAN),
        Glm::Relu,
        Glm::Poisson(Scale::ONE),
    ];

    /// The losses with a Lipschitz gradient and a Lipschitz second derivative.
    pub const SMOOTH: [Glm; 6] = [
        Glm::Logistic,
        Glm::Sigmoid,
        Glm::Welsch,
        Glm::GemanMcClure,
        Glm::Cauchy,
        Glm::Tukey(Scale::TUKEY),
    ];

    /// Whether the label is a class, of which only the sign counts.
    #[must_use]
    pub fn is_classification(self) -> bool {
        matches!(self, Glm::Logistic | Glm::Sigmoid | Glm::Hinge)
    }
}
