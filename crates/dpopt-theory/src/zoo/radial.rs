//! Functions of the distance to a centre: all about them is one-dimensional.

use crate::problem::{
    GoldsteinProblem, Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range,
    positive,
};
use dpopt_certify::radial_goldstein;

/// A function phi of the radius r >= 0 with its derivatives.
pub trait Profile {
    /// phi(r), with inf phi = 0.
    fn value(&self, r: f64) -> f64;

    /// phi'(r); at a kink, some number between the slopes of its sides.
    fn slope(&self, r: f64) -> f64;

    /// phi''(r), where it exists.
    fn curvature(&self, r: f64) -> f64;

    /// Radii above 0 at which phi' jumps.
    fn kinks(&self) -> Vec<f64> {
        Vec::new()
    }

    /// The constants of phi(||w||) at radii up to `reach`; `centre` and `radius` are filled in by
    /// [`Radial`], `initial_gap` too.
    fn constants(&self, reach: f64) -> ProblemConstants;
}

/// F(w) = phi(||w - c||) in dimension d, with c = (start, 0, ..., 0): a solver that starts at the
/// origin starts at radius `start`.
///
/// # Formula
/// With r = ||w - c|| and e = (w - c)/r: grad F = phi'(r) e, hess F = phi''(r) e e^T +
/// (phi'(r)/r) (I - e e^T). For a unit vector at angle t to e the third derivative is
/// phi''' cos^3 t + 3 k cos t sin^2 t with k = (phi'' - phi'/r)/r.
#[derive(Debug, Clone, PartialEq)]
pub struct Radial<P> {
    profile: P,
    dim: usize,
    start: f64,
    reach: f64,
}

impl<P: Profile> Radial<P> {
    /// The problem in dimension `dim` >= 2, started at radius `start`, with constants for radii up
    /// to `reach` >= `start`.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(profile: P, dim: usize, start: f64, reach: f64) -> Result<Self, ProblemError> {
        if dim < 2 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        positive("start", start)?;
        in_range("reach", reach, start, f64::INFINITY)?;
        Ok(Self {
            profile,
            dim,
            start,
            reach,
        })
    }

    /// phi.
    #[must_use]
    pub fn profile(&self) -> &P {
        &self.profile
    }

    /// ||w - c||.
    #[must_use]
    pub fn radius_of(&self, point: &[f64]) -> f64 {
        let first = point[0] - self.start;
        first.hypot(dpopt_linalg::norm(&point[1..]))
    }

    /// A point at distance `radius` from the centre, on the far side from the start.
    #[must_use]
    pub fn at_radius(&self, radius: f64) -> Vec<f64> {
        let mut point = vec![0.0; self.dim];
        point[0] = self.start + radius;
        point
    }

    fn offset(&self, point: &[f64]) -> Vec<f64> {
        let mut offset = point.to_vec();
        offset[0] -= self.start;
        offset
    }
}

impl<P: Profile> Problem for Radial<P> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn initial_gap(&self) -> f64 {
        self.profile.value(self.start)
    }

    fn constants(&self) -> ProblemConstants {
        let mut constants = self.profile.constants(self.reach);
        constants.initial_gap = self.initial_gap();
        let mut centre = vec![0.0; self.dim];
        centre[0] = self.start;
        constants.within(centre, self.reach)
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.profile.value(self.radius_of(point))
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.copy_from_slice(&self.offset(point));
        let r = self.radius_of(point);
        let factor = if r > 0.0 {
            self.profile.slope(r) / r
        } else {
            0.0
        };
        for x in out {
            *x *= factor;
        }
    }
}

impl<P: Profile> SecondOrderProblem for Radial<P> {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let offset = self.offset(point);
        let r = self.radius_of(point);
        let (radial, tangential) = self.eigenvalues(r);
        let along = if r > 0.0 {
            dpopt_linalg::dot(&offset, direction) / r
        } else {
            0.0
        };
        for ((out, v), x) in out.iter_mut().zip(direction).zip(&offset) {
            let e = if r > 0.0 { x / r } else { 0.0 };
            *out = tangential * v + (radial - tangential) * along * e;
        }
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let (radial, tangential) = self.eigenvalues(self.radius_of(point));
        radial.min(tangential)
    }
}

impl<P: Profile> Radial<P> {
    /// phi''(r) and phi'(r)/r, which are one number at the centre.
    fn eigenvalues(&self, r: f64) -> (f64, f64) {
        let radial = self.profile.curvature(r);
        let tangential = if r > 0.0 {
            self.profile.slope(r) / r
        } else {
            radial
        };
        (radial, tangential)
    }
}

impl<P: Profile> GoldsteinProblem for Radial<P> {
    /// By [`radial_goldstein`], which has the proof; not a number where that fails.
    fn goldstein_distance(&self, point: &[f64], radius: f64) -> f64 {
        let slope = |rho: f64| self.profile.slope(rho);
        let kinks = self.profile.kinks();
        radial_goldstein(self.radius_of(point), radius, slope, &kinks).unwrap_or(f64::NAN)
    }
}

/// The largest value of `f` up to the end of an interval, rounded up.
pub(super) fn supremum(from: f64, to: f64, f: &dyn Fn(f64) -> f64) -> f64 {
    largest(from, to, f).max(f(to)) * (1.0 + 1e-9)
}

/// The largest value of `f` strictly inside an interval: a grid, then golden section around the
/// best place.
pub(crate) fn largest(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    const GRID: usize = 4096;
    let step = (to - from) / GRID as f64;
    let at = |k: usize| from + step * (k as f64 + 0.5);
    let mut best = 0;
    for k in 1..GRID {
        if f(at(k)) > f(at(best)) {
            best = k;
        }
    }
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut low, mut high) = ((at(best) - step).max(from), (at(best) + step).min(to));
    let mut top = f(at(best));
    for _ in 0..60 {
        let width = golden * (high - low);
        let (x, y) = (high - width, low + width);
        let (fx, fy) = (f(x), f(y));
        top = top.max(fx).max(fy);
        if fx < fy {
            low = x;
        } else {
            high = y;
        }
    }
    top
}
