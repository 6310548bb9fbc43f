//! Functions of the distance to a centre: all about them is one-dimensional.

use crate::problem::{
    GoldsteinProblem, Problem, ProblemConstants, ProblemError, SecondOrderProblem, positive,
};

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

    /// What holds for phi(||w||) at radii up to `reach`; `centre` and `radius` are filled in by
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
///
/// # References
/// The project's notes on the KL condition (arXiv 2311.13447), section 7.1, and on nonsmooth
/// problems, section 7.1.
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
        if !(reach >= start) {
            return Err(ProblemError::OutOfRange {
                name: "reach",
                value: reach,
                low: start,
                high: f64::INFINITY,
            });
        }
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

    fn lipschitz(&self) -> f64 {
        self.constants().lipschitz
    }

    fn smoothness(&self) -> f64 {
        self.constants().smoothness
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
    /// Let r = ||x - c|| and a the radius. For r <= a the sphere of any small radius around c lies in
    /// the ball, and the mean of its gradients is 0. For r > a, averaging a combination of
    /// gradients over the rotations that fix the axis c-x leaves its axial part and cannot make it
    /// longer, so the least norm is that of an interval on the axis. The points at distance rho
    /// from c lie within the angle t(rho) of the axis, cos t = (r^2 + rho^2 - a^2)/(2 r rho), so the
    /// axial parts are phi'(rho) times [cos t(rho), 1], for rho from r - a to r + a.
    ///
    /// The ends of the interval are found on a grid of 4096 radii, with both sides of each kink, and
    /// refined by golden section: exact up to rounding where phi' has few extrema in the interval.
    fn goldstein_distance(&self, point: &[f64], radius: f64) -> f64 {
        let r = self.radius_of(point);
        let a = radius.max(0.0);
        if r <= a {
            return 0.0;
        }
        if a == 0.0 {
            let sides = sides(&self.profile, r);
            return distance_to_zero(sides.0.min(sides.1), sides.0.max(sides.1));
        }
        let cosine = |rho: f64| ((r * r + rho * rho - a * a) / (2.0 * r * rho)).min(1.0);
        let (from, to) = (r - a, r + a);
        let part = |rho: f64, slope: f64| (slope * cosine(rho), slope);
        let least = |rho: f64| {
            let (x, y) = part(rho, self.profile.slope(rho));
            x.min(y)
        };
        let most = |rho: f64| {
            let (x, y) = part(rho, self.profile.slope(rho));
            x.max(y)
        };
        let mut ends = vec![from, to];
        for kink in self.profile.kinks() {
            if from <= kink && kink <= to {
                ends.push(kink);
            }
        }
        ends.sort_by(f64::total_cmp);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for &end in &ends {
            let (before, after) = sides(&self.profile, end);
            for slope in [before, after] {
                let (x, y) = part(end, slope);
                low = low.min(x).min(y);
                high = high.max(x).max(y);
            }
        }
        for piece in ends.windows(2) {
            low = low.min(-largest(piece[0], piece[1], |rho| -least(rho)));
            high = high.max(largest(piece[0], piece[1], most));
        }
        distance_to_zero(low, high)
    }
}

/// The slopes on both sides of a radius.
fn sides<P: Profile>(profile: &P, r: f64) -> (f64, f64) {
    if profile.kinks().contains(&r) {
        (profile.slope(r.next_down()), profile.slope(r.next_up()))
    } else {
        (profile.slope(r), profile.slope(r))
    }
}

fn distance_to_zero(low: f64, high: f64) -> f64 {
    if low <= 0.0 && high >= 0.0 {
        0.0
    } else {
        low.abs().min(high.abs())
    }
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
