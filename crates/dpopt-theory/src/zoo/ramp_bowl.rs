//! A long ramp beside a bowl: where gradient methods are as slow, and as noisy, as their bounds.

use dpopt_linalg::norm;
use dpopt_nonconvex::PublicFacts;
use dpopt_oracle::Convexity;
use dpopt_privacy::Adjacency;

use crate::problem::{Problem, ProblemConstants, ProblemError, SecondOrderProblem, positive};

/// Slope cap of the bowl over L0.
const BOWL_SLOPE: f64 = 0.5;
/// Largest slope of the ramp over L0.
const RAMP_SLOPE: f64 = 0.25;

/// Shape of the ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ramp {
    /// A straight ramp: F is convex.
    Straight,
    /// A ramp whose slope oscillates between g/2 and 3g/2 as fast as the smoothness allows: F is
    /// not convex.
    Wavy,
}

/// The "ramp-bowl" problem.
///
/// # Formula
/// w = (z, u) with u in R^(d-1), a = L1, h = L0/2:
///
/// F(w) = r(z) + H(u), with H the Huber ball, of gradient u min(a, h/||u||), and r a ramp that
/// falls by exactly F0 from z = 0 on:
///
/// - [`Ramp::Straight`]: r'(z) = -g up to z0, then -g + a (z - z0) up to 0, then 0;
/// - [`Ramp::Wavy`]: r'(z) = -g (1 + cos(2 a z/g)/2) up to z0, then rising with slope a up to 0,
///   then 0.
///
/// The gradient is at most sqrt(s^2 + h^2) < L0 long, with s = g or 3g/2 the steepest slope of the
/// ramp; second derivatives are at most L1 in absolute value; F(0) - inf F = F0. All three are
/// audited by tests.
///
/// At a step size eta, a method must cross the ramp (which needs about F0/(eta g^2) steps, while
/// the gradient stays at least g/2) with noise that keeps the bowl's gradient away from zero.
/// The error at a single g is no rate: **the worst mean over a grid of slopes is what a bound is
/// compared with.**
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RampBowl {
    dim: usize,
    lipschitz: f64,
    smoothness: f64,
    initial_gap: f64,
    slope: f64,
    ramp: Ramp,
    knee: f64,
    slope_at_knee: f64,
}

impl RampBowl {
    /// The problem in dimension `dim` with constants L0, L1, F0 and ramp slope g.
    ///
    /// # Errors
    /// [`ProblemError`] when a number is not positive and finite, the dimension is below 2, or
    /// the slope is above [`RampBowl::largest_slope`].
    pub fn new(
        dim: usize,
        lipschitz: f64,
        smoothness: f64,
        initial_gap: f64,
        ramp: Ramp,
        slope: f64,
    ) -> Result<Self, ProblemError> {
        if dim < 2 {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        for (name, value) in [
            ("lipschitz", lipschitz),
            ("smoothness", smoothness),
            ("initial_gap", initial_gap),
            ("slope", slope),
        ] {
            positive(name, value)?;
        }
        let limit = Self::largest_slope(lipschitz, smoothness, initial_gap, ramp);
        if slope > limit {
            return Err(ProblemError::SlopeTooLarge { slope, limit });
        }
        let mut problem = Self {
            dim,
            lipschitz,
            smoothness,
            initial_gap,
            slope,
            ramp,
            knee: 0.0,
            slope_at_knee: slope,
        };
        problem.knee = match ramp {
            // g z0 + g^2/(2a) = F0.
            Ramp::Straight => (initial_gap / slope - slope / (2.0 * smoothness)).max(0.0),
            Ramp::Wavy => problem.wavy_knee(),
        };
        problem.slope_at_knee = -problem.ramp_slope_before_knee(problem.knee);
        Ok(problem)
    }

    /// The largest slope g that the constants allow: L0/4, and a ramp at least as long as its
    /// rounded end: g <= sqrt(2 L1 F0) for the straight ramp, two thirds of it for the wavy one.
    #[must_use]
    pub fn largest_slope(lipschitz: f64, smoothness: f64, initial_gap: f64, ramp: Ramp) -> f64 {
        let by_gap = (2.0 * smoothness * initial_gap).sqrt();
        let by_gap = match ramp {
            Ramp::Straight => by_gap,
            Ramp::Wavy => by_gap / 1.5,
        };
        (RAMP_SLOPE * lipschitz).min(by_gap)
    }

    /// The facts that a planner gets, for `records` records with this loss each.
    #[must_use]
    pub fn facts(&self, records: u64, adjacency: Adjacency) -> PublicFacts {
        PublicFacts {
            records,
            dim: self.dim,
            adjacency,
            lipschitz: self.lipschitz,
            smoothness: self.smoothness,
            initial_gap: self.initial_gap,
            // Not a generalised linear loss; only plans without a bound read this.
            row_norm: 1.0,
            score: Default::default(),
            convexity: match self.ramp {
                Ramp::Straight => Convexity::Convex,
                Ramp::Wavy => Convexity::Nonconvex,
            },
        }
    }

    /// The slope g of the ramp.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// r' for z up to the knee.
    fn ramp_slope_before_knee(&self, z: f64) -> f64 {
        match self.ramp {
            Ramp::Straight => -self.slope,
            Ramp::Wavy => {
                -self.slope * (1.0 + 0.5 * (2.0 * self.smoothness * z / self.slope).cos())
            }
        }
    }

    /// r(z) - r(0) for z up to the knee.
    fn ramp_value_before_knee(&self, z: f64) -> f64 {
        match self.ramp {
            Ramp::Straight => -self.slope * z,
            Ramp::Wavy => {
                let g = self.slope;
                -g * z - g * g / (4.0 * self.smoothness) * (2.0 * self.smoothness * z / g).sin()
            }
        }
    }

    /// The z0 at which the whole drop, -r(z0) + r'(z0)^2/(2a), is F0. The drop never falls with
    /// z0: its derivative is -r'(z0) (1 - sin(2 a z0/g)).
    fn wavy_knee(&self) -> f64 {
        let drop = |z: f64| {
            let slope = self.ramp_slope_before_knee(z);
            slope * slope / (2.0 * self.smoothness) - self.ramp_value_before_knee(z)
        };
        // At the upper end the straight part alone falls by F0 + g^2/(4a).
        let mut low = 0.0;
        let mut high = self.initial_gap / self.slope + self.slope / (2.0 * self.smoothness);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if drop(middle) < self.initial_gap {
                low = middle;
            } else {
                high = middle;
            }
        }
        0.5 * (low + high)
    }

    fn ramp_slope(&self, z: f64) -> f64 {
        if z <= self.knee {
            self.ramp_slope_before_knee(z)
        } else {
            (self.smoothness * (z - self.knee) - self.slope_at_knee).min(0.0)
        }
    }
}

impl Problem for RampBowl {
    fn dim(&self) -> usize {
        self.dim
    }

    /// Convex with a straight ramp; a wavy one bends down by up to L1 (a sine of slope g/2 and frequency
    /// 2 L1/g). The Hessian jumps.
    fn constants(&self) -> ProblemConstants {
        let known =
            ProblemConstants::first_order(self.lipschitz, self.smoothness, self.initial_gap);
        match self.ramp {
            Ramp::Straight => known.with_weak_convexity(0.0),
            Ramp::Wavy => known,
        }
    }

    /// F(w), with inf F = 0.
    fn value(&self, point: &[f64]) -> f64 {
        let (z, a) = (point[0], self.smoothness);
        let ramp = if z <= self.knee {
            self.ramp_value_before_knee(z)
        } else {
            let end = self.slope_at_knee / a;
            let t = (z - self.knee).min(end);
            self.ramp_value_before_knee(self.knee) - self.slope_at_knee * t + 0.5 * a * t * t
        };
        let cap = BOWL_SLOPE * self.lipschitz;
        let radius = norm(&point[1..]);
        let bowl = if a * radius <= cap {
            0.5 * a * radius * radius
        } else {
            cap * (radius - 0.5 * cap / a)
        };
        self.initial_gap + ramp + bowl
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out[0] = self.ramp_slope(point[0]);
        let cap = BOWL_SLOPE * self.lipschitz;
        let radius = norm(&point[1..]);
        let factor = if self.smoothness * radius <= cap {
            self.smoothness
        } else {
            cap / radius
        };
        for (out, u) in out[1..].iter_mut().zip(&point[1..]) {
            *out = factor * u;
        }
    }
}

impl RampBowl {
    /// r''(z), from one side where it jumps.
    fn ramp_curvature(&self, z: f64) -> f64 {
        let a = self.smoothness;
        if z <= self.knee {
            match self.ramp {
                Ramp::Straight => 0.0,
                Ramp::Wavy => a * (2.0 * a * z / self.slope).sin(),
            }
        } else if a * (z - self.knee) < self.slope_at_knee {
            a
        } else {
            0.0
        }
    }
}

impl SecondOrderProblem for RampBowl {
    /// From one side where it jumps: at the ends of the ramp's rounded foot and at the rim of the bowl.
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        out[0] = self.ramp_curvature(point[0]) * direction[0];
        let (u, v) = (&point[1..], &direction[1..]);
        let radius = norm(u);
        let cap = BOWL_SLOPE * self.lipschitz;
        let inside = self.smoothness * radius <= cap;
        let factor = if inside {
            self.smoothness
        } else {
            cap / radius
        };
        let along = if inside {
            0.0
        } else {
            dpopt_linalg::dot(u, v) / (radius * radius)
        };
        for ((out, v), u) in out[1..].iter_mut().zip(v).zip(u) {
            *out = factor * (v - along * u);
        }
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let radius = norm(&point[1..]);
        let inside = self.smoothness * radius <= BOWL_SLOPE * self.lipschitz;
        let bowl = if inside { self.smoothness } else { 0.0 };
        self.ramp_curvature(point[0]).min(bowl)
    }
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::distance;
    use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, StreamId};
    use rand::Rng as _;

    use super::*;

    fn family() -> Vec<RampBowl> {
        let mut all = Vec::new();
        for (l0, l1, f0) in [(1.0, 1.0, 0.5), (3.0, 0.2, 2.0), (0.5, 4.0, 0.01)] {
            for ramp in [Ramp::Straight, Ramp::Wavy] {
                let largest = RampBowl::largest_slope(l0, l1, f0, ramp);
                for share in [1.0, 0.5, 0.1, 0.01] {
                    all.push(RampBowl::new(5, l0, l1, f0, ramp, share * largest).unwrap());
                }
            }
        }
        all
    }

    /// Points spread over the interesting range, some of them close together.
    fn probes(problem: &RampBowl, seed: u64, count: usize) -> Vec<Vec<f64>> {
        let mut stream =
            ReplayKeyForTests::from_seed(seed).stream(StreamId::new(Purpose::Perturbation, 0));
        let mut uniform = move || (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let end = problem.knee + problem.slope_at_knee / problem.smoothness;
        let reach = problem.lipschitz / problem.smoothness;
        let mut points: Vec<Vec<f64>> = Vec::new();
        while points.len() < count {
            let near = points.len() % 2 == 1;
            let scale = 10f64.powf(-4.0 * uniform());
            let point = (0..problem.dim)
                .map(|j| {
                    if near {
                        let last = &points[points.len() - 1];
                        last[j] + scale * problem.slope / problem.smoothness * (uniform() - 0.5)
                    } else if j == 0 {
                        end * (1.4 * uniform() - 0.2)
                    } else {
                        reach * (2.0 * uniform() - 1.0)
                    }
                })
                .collect();
            points.push(point);
        }
        points
    }

    #[test]
    fn the_stated_constants_hold_and_are_nearly_attained() {
        for problem in family() {
            let (mut steepest, mut sharpest, mut least) = (0.0f64, 0.0f64, f64::INFINITY);
            let points = probes(&problem, 1, 4000);
            let mut gradients = vec![vec![0.0; problem.dim]; points.len()];
            for (point, gradient) in points.iter().zip(&mut gradients) {
                problem.gradient(point, gradient);
                steepest = steepest.max(norm(gradient));
                least = least.min(problem.value(point));
            }
            for k in 1..points.len() {
                let apart = distance(&points[k], &points[k - 1]);
                sharpest = sharpest.max(distance(&gradients[k], &gradients[k - 1]) / apart);
            }
            assert!(steepest <= problem.lipschitz && steepest > 0.4 * problem.lipschitz);
            // Rounding of a quotient over a distance of at least 1e-4 g.
            assert!(
                sharpest <= problem.smoothness * (1.0 + 1e-8),
                "{problem:?} {sharpest}"
            );
            assert!(
                sharpest > 0.95 * problem.smoothness,
                "{problem:?} {sharpest}"
            );
            assert!(least >= -1e-12 * problem.initial_gap);
        }
    }

    #[test]
    fn the_drop_is_exactly_the_stated_gap() {
        for problem in family() {
            let origin = vec![0.0; problem.dim];
            let mut bottom = origin.clone();
            bottom[0] = problem.knee + problem.slope_at_knee / problem.smoothness;
            let gap = problem.initial_gap;
            assert!((problem.value(&origin) - gap).abs() < 1e-12 * gap);
            assert!(problem.value(&bottom).abs() < 1e-9 * gap, "{problem:?}");
            let mut gradient = origin.clone();
            bottom[0] *= 1.0 + 1e-12;
            problem.gradient(&bottom, &mut gradient);
            assert!(norm(&gradient) < 1e-9 * problem.slope);
        }
    }

    #[test]
    fn the_gradient_is_the_derivative_of_the_value() {
        for problem in family() {
            let mut gradient = vec![0.0; problem.dim];
            let h = 1e-5 * problem.slope / problem.smoothness;
            for point in probes(&problem, 2, 200) {
                problem.gradient(&point, &mut gradient);
                for j in 0..problem.dim {
                    let (mut up, mut down) = (point.clone(), point.clone());
                    up[j] += h;
                    down[j] -= h;
                    let numeric = (problem.value(&up) - problem.value(&down)) / (2.0 * h);
                    // A kink of the second derivative costs L1 h/2; rounding eps F/h.
                    let rounding = 1e-15 * (problem.value(&point) + problem.initial_gap) / h;
                    let slack = problem.smoothness * h + 4.0 * rounding;
                    assert!((numeric - gradient[j]).abs() < slack, "{problem:?} {j}");
                }
            }
        }
    }

    #[test]
    fn the_wavy_ramp_bends_down_and_the_straight_one_does_not() {
        for problem in family() {
            let mut bends = false;
            let count = 20_000;
            for k in 0..count {
                let z = |k: usize| problem.knee * k as f64 / f64::from(count as u32);
                bends |= problem.ramp_slope(z(k + 1)) < problem.ramp_slope(z(k)) - 1e-12;
            }
            let share = problem.slope
                / RampBowl::largest_slope(
                    problem.lipschitz,
                    problem.smoothness,
                    problem.initial_gap,
                    problem.ramp,
                );
            // At the largest slope the ramp may have no length.
            if share < 0.9 {
                assert_eq!(bends, problem.ramp == Ramp::Wavy, "{problem:?}");
            }
        }
    }

    #[test]
    fn bad_parameters_are_errors() {
        let make = |dim, l0, slope| RampBowl::new(dim, l0, 1.0, 0.5, Ramp::Straight, slope);
        assert_eq!(
            make(1, 1.0, 0.1).err(),
            Some(ProblemError::TooFewDimensions(1))
        );
        assert!(matches!(
            make(2, f64::NAN, 0.1),
            Err(ProblemError::NotPositive { .. })
        ));
        assert!(matches!(
            make(2, 1.0, 0.0),
            Err(ProblemError::NotPositive { .. })
        ));
        assert!(matches!(
            make(2, 1.0, 0.26),
            Err(ProblemError::SlopeTooLarge { .. })
        ));
    }
}
