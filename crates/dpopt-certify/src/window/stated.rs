//! The certificate of a window.

use dpopt_linalg::distance;
use dpopt_solver::{Covered, Withheld};
use serde::Serialize;

/// A bound on a mean of gradients at points near [`WindowCertificate::point`], from releases that were made anyway.
///
/// # Formula
/// With [`WindowCertificate::probability`] over the noise (and the samples), for all windows at once: the mean over the window of
/// the gradients is at most `value` = `released` + noise + sampling + rounding long, and its points lie within `radius` of their
/// mean. (`docs/privacy/goldstein.md`.)
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WindowCertificate {
    /// At most so much.
    pub value: f64,
    /// Length of the mean of the window's releases.
    pub released: f64,
    /// The slack added to it.
    #[serde(flatten)]
    pub slack: WindowSlack,
    /// No point of the window is farther from their mean.
    pub radius: f64,
    /// Whether `radius` is the least such number; otherwise it is at most three times that: the points did not fit in memory.
    pub radius_is_exact: bool,
    /// First step of the window, counted from 0.
    pub first_step: u64,
    /// Releases in it.
    pub window: u64,
    /// Windows for which all claims hold at once.
    pub windows: u64,
    /// With at least this probability.
    pub probability: f64,
    /// Subject of the value.
    pub of: WindowSubject,
    /// Whether gradients are those of the population that the records were drawn from, and not those of these records.
    pub population: bool,
    /// The mean of the window's points.
    #[serde(skip)]
    pub point: Vec<f64>,
}

impl WindowCertificate {
    /// A radius around `point` that holds the window too: the same value is certified there. Infinite for a point of another
    /// dimension.
    #[must_use]
    pub fn radius_around(&self, point: &[f64]) -> f64 {
        if point.len() != self.point.len() {
            return f64::INFINITY;
        }
        let rounding = 1.0 + (self.point.len() as f64 + 8.0) * f64::EPSILON;
        self.radius + distance(&self.point, point) * rounding
    }
}

/// Slack added to the length of the mean of a window's releases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WindowSlack {
    /// For the noise.
    pub noise: f64,
    /// For what the samples missed.
    pub sampling: f64,
    /// For rounding to the lattice and the clip's slack.
    pub rounding: f64,
}

impl WindowSlack {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.noise + self.sampling + self.rounding
    }
}

/// The set that a mean over a window belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowSubject {
    /// The Goldstein subdifferential: the value bounds the Goldstein distance.
    GoldsteinDistance,
    /// The mean of the records' own subdifferentials, which may be larger than the subdifferential of the mean where a kink is hit.
    ComponentWise,
    /// The same of gradients that are clipped below the Lipschitz constant of the loss, or that the loss itself shortens: their mean is
    /// not a gradient.
    ClippedGradients,
}

impl WindowSubject {
    /// Of a mean whose premises were compared: `differentiable` where kinks are of no concern.
    pub(crate) fn of(covered: &Result<Covered, Withheld>, differentiable: bool) -> Self {
        match (covered, differentiable) {
            (Err(_), _) => Self::ClippedGradients,
            (Ok(_), true) => Self::GoldsteinDistance,
            (Ok(_), false) => Self::ComponentWise,
        }
    }
}

impl std::fmt::Display for WindowSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WindowSubject::GoldsteinDistance => "Goldstein distance",
            WindowSubject::ComponentWise => "component-wise Goldstein distance",
            WindowSubject::ClippedGradients => "length of a mean of clipped gradients",
        })
    }
}
