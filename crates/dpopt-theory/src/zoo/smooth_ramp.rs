//! A long ramp beside a bowl whose Hessian is Lipschitz: where a second-order walk makes all the steps that its plan pays for.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use dpopt_linalg::{dot, norm};

use crate::problem::{Problem, ProblemConstants, ProblemError, SecondOrderProblem, positive};

/// Slope of the bowl far out, as a share of L0.
const BOWL: f64 = 0.86;
/// The largest third derivative of sqrt(1 + r^2): see [`Wells`](super::Wells).
fn hull() -> f64 {
    48.0 / (25.0 * 5f64.sqrt())
}

/// Bounds on a [`SmoothRamp`], which it meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RampLimits {
    /// L0.
    pub lipschitz: f64,
    /// L1.
    pub smoothness: f64,
    /// rho.
    pub hessian_lipschitz: f64,
    /// C_F.
    pub hessian_frobenius: f64,
    /// F0.
    pub initial_gap: f64,
}

/// The "smooth ramp": [`RampBowl`](super::RampBowl) with a Lipschitz Hessian.
///
/// # Formula
/// w = (z, u) with u in R^(d-1): F(w) = r(z) + A b (sqrt(1 + ||u||^2/b^2) - 1), where r falls with slope s up to z = k and then
/// r'(z) = -(s/2)(1 + cos(pi (z - k)/l)) up to z = k + l, and 0 after. Before z = k the gradient is s long on the axis, and the way there is as
/// long as F0 allows: k = F0/s - l/2. A = 0.86 L0, l = pi max(s/(2 c), sqrt(s/(2 rho))) with c = min(L1, C_F/sqrt 2), and a = A/b = min(L1,
/// C_F/sqrt(2 (d - 1)), sqrt(rho A/h)) is the curvature of the bowl, h = 48/(25 sqrt 5).
///
/// # Constants, everywhere
/// - L0 = sqrt(s^2 + A^2), approached far out before k.
/// - L1 = max(pi s/(2 l), a); it is convex.
/// - rho = max(pi^2 s/(2 l^2), h a^2/A): the two parts have blocks of their own.
/// - C_F = sqrt((pi s/(2 l))^2 + (d - 1) a^2), attained at z = k + l/2, u = 0.
/// - F0 = s k + s l/2, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmoothRamp {
    dim: usize,
    gap: f64,
    slope: f64,
    knee: f64,
    foot: f64,
    /// A and a.
    bowl: (f64, f64),
}

impl SmoothRamp {
    /// In dimension `dim`, within `limits`, with slope s.
    ///
    /// # Errors
    /// [`ProblemError`]: a number that is not positive and finite, a dimension below 2, a slope above [`SmoothRamp::largest_slope`].
    pub fn new(dim: usize, limits: RampLimits, slope: f64) -> Result<Self, ProblemError> {
        if dim < 2 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        for (name, value) in [
            ("lipschitz", limits.lipschitz),
            ("smoothness", limits.smoothness),
            ("hessian_lipschitz", limits.hessian_lipschitz),
            ("hessian_frobenius", limits.hessian_frobenius),
            ("initial_gap", limits.initial_gap),
            ("slope", slope),
        ] {
            positive(name, value)?;
        }
        let limit = Self::largest_slope(limits);
        if slope > limit {
            return Err(ProblemError::SlopeTooLarge { slope, limit });
        }
        let rho = limits.hessian_lipschitz;
        let sharpest = Self::sharpest(limits);
        let foot = PI * (0.5 * slope / sharpest).max((0.5 * slope / rho).sqrt());
        let steep = BOWL * limits.lipschitz;
        let bend = limits
            .smoothness
            .min(limits.hessian_frobenius / (2.0 * (dim - 1) as f64).sqrt())
            .min((rho * steep / hull()).sqrt());
        Ok(Self {
            dim,
            gap: limits.initial_gap,
            slope,
            knee: (limits.initial_gap / slope - 0.5 * foot).max(0.0),
            foot,
            bowl: (steep, bend),
        })
    }

    /// The largest slope: half of L0, or where the foot alone falls by F0.
    #[must_use]
    pub fn largest_slope(limits: RampLimits) -> f64 {
        let gap = limits.initial_gap;
        let by_curvature = (4.0 * Self::sharpest(limits) * gap / PI).sqrt();
        let by_third = (2.0 * gap * (2.0 * limits.hessian_lipschitz).sqrt() / PI).powf(2.0 / 3.0);
        by_curvature.min(by_third).min(0.5 * limits.lipschitz)
    }

    /// c.
    fn sharpest(limits: RampLimits) -> f64 {
        limits
            .smoothness
            .min(limits.hessian_frobenius * FRAC_1_SQRT_2)
    }

    /// s.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// pi (z - k)/l, from 0 to pi.
    fn phase(&self, z: f64) -> f64 {
        (PI * (z - self.knee) / self.foot).clamp(0.0, PI)
    }

    /// r''(z).
    fn ramp_curvature(&self, z: f64) -> f64 {
        let bends = z > self.knee && z < self.knee + self.foot;
        // The sine of pi is not quite 0.
        let sine = if bends { self.phase(z).sin() } else { 0.0 };
        0.5 * PI * self.slope / self.foot * sine
    }

    /// sqrt(1 + ||u||^2/b^2).
    fn rim(&self, point: &[f64]) -> f64 {
        let (steep, bend) = self.bowl;
        (norm(&point[1..]) * bend / steep).hypot(1.0)
    }
}

impl Problem for SmoothRamp {
    fn dim(&self) -> usize {
        self.dim
    }

    fn constants(&self) -> ProblemConstants {
        let (steep, bend) = self.bowl;
        let ramp = 0.5 * PI * self.slope / self.foot;
        let rho = (ramp * PI / self.foot).max(hull() * bend * bend / steep);
        ProblemConstants::first_order(self.slope.hypot(steep), ramp.max(bend), self.gap)
            .with_hessian_lipschitz(rho)
            .with_hessian_frobenius(ramp.hypot(bend * ((self.dim - 1) as f64).sqrt()))
            .with_weak_convexity(0.0)
    }

    /// F(w), with inf F = 0.
    fn value(&self, point: &[f64]) -> f64 {
        let z = point[0];
        let phase = self.phase(z);
        let beyond = self.foot * phase / PI;
        let fallen = self.slope * z.min(self.knee)
            + 0.5 * self.slope * (beyond + self.foot / PI * phase.sin());
        let u = &point[1..];
        // A b (q - 1) = a ||u||^2/(q + 1).
        let bowl = self.bowl.1 * dot(u, u) / (self.rim(point) + 1.0);
        self.gap - fallen + bowl
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out[0] = -0.5 * self.slope * (1.0 + self.phase(point[0]).cos());
        let factor = self.bowl.1 / self.rim(point);
        for (out, u) in out[1..].iter_mut().zip(&point[1..]) {
            *out = factor * u;
        }
    }
}

impl SecondOrderProblem for SmoothRamp {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        out[0] = self.ramp_curvature(point[0]) * direction[0];
        let (steep, bend) = self.bowl;
        let rim = self.rim(point);
        let (u, v) = (&point[1..], &direction[1..]);
        let along = dot(u, v) * (bend / steep / rim).powi(2);
        for ((out, v), u) in out[1..].iter_mut().zip(v).zip(u) {
            *out = bend / rim * (v - along * u);
        }
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let bowl = self.bowl.1 / self.rim(point).powi(3);
        self.ramp_curvature(point[0]).min(bowl)
    }
}
