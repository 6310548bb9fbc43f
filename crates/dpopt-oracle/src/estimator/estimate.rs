//! Released estimates: public, and free to be kept and copied.

use serde::Serialize;

/// A released estimate of the mean field at a public point: public, and free to be kept and copied.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Released {
    /// The point w.
    pub point: Vec<f64>,
    /// The estimate at w, one number per coordinate.
    pub gradient: Vec<f64>,
    /// Variance, per coordinate, of all the noise in it.
    pub noise_variance: f64,
    /// Standard deviation per coordinate of the last release alone; 0 when nothing was released.
    pub release_std: f64,
}

impl Released {
    /// Zero, without noise, at the origin.
    pub(super) fn nothing(dim: usize) -> Self {
        Self {
            point: vec![0.0; dim],
            gradient: vec![0.0; dim],
            noise_variance: 0.0,
            release_std: 0.0,
        }
    }

    /// Becomes the estimate at `point`.
    pub(super) fn move_to(
        &mut self,
        point: &[f64],
        gradient: Vec<f64>,
        noise_variance: f64,
        release_std: f64,
    ) {
        self.point.copy_from_slice(point);
        self.gradient = gradient;
        self.noise_variance = noise_variance;
        self.release_std = release_std;
    }

    /// The estimate and its noise.
    #[must_use]
    pub fn estimate(&self) -> Estimate<'_> {
        Estimate::new(&self.gradient, self.noise_variance.sqrt(), self.release_std)
    }
}

/// A released estimate of the mean gradient.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Estimate<'a> {
    /// The estimate, one number per coordinate.
    pub gradient: &'a [f64],
    /// Standard deviation, per coordinate, of all the noise that this estimate carries: that of
    /// the anchor and of every difference added since.
    pub noise_std: f64,
    /// Standard deviation per coordinate of the last release alone; 0 when nothing was released.
    pub release_std: f64,
}

impl<'a> Estimate<'a> {
    /// The estimate, the standard deviation per coordinate of all its noise, and that of the last release alone.
    #[must_use]
    pub fn new(gradient: &'a [f64], noise_std: f64, release_std: f64) -> Self {
        Self {
            gradient,
            noise_std,
            release_std,
        }
    }
}

/// How an estimate came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StepKind {
    /// The field at the point was released.
    Anchor,
    /// A change was released and added.
    Variation,
    /// The point is where the estimate was: nothing was released and nothing charged.
    Held,
}

/// An estimate, and how it came about.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Tracked<'a> {
    /// The estimate at the point that was asked for.
    pub estimate: Estimate<'a>,
    /// The release behind it.
    pub kind: StepKind,
}

impl<'a> Tracked<'a> {
    pub(super) fn new(estimate: Estimate<'a>, kind: StepKind) -> Self {
        Self { estimate, kind }
    }
}
