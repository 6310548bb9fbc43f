//! The probe: an attempt to refute what a problem says of itself.
//!
//! A constant that survives is not proved; one that fails is wrong. Points are random at all
//! scales, along axes and across; the best finds are then improved by hill climbing, which is what
//! gets close to a constant that is attained in a corner only.

use dpopt_linalg::{distance, dot, norm, symmetric_spectrum};
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use rand::Rng as _;
use rand_distr::{Distribution as _, StandardNormal};

use crate::problem::{Problem, SecondOrderProblem};

/// The subject of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Audited {
    /// L0: the longest gradient.
    Lipschitz,
    /// L1: the steepest change of the gradient between two points.
    Smoothness,
    /// rho: the steepest change of the Hessian.
    HessianLipschitz,
    /// C_F: the largest Frobenius norm of a Hessian.
    HessianFrobenius,
    /// The largest -<grad F(w) - grad F(v), w - v>/||w - v||^2.
    WeakConvexity,
    /// The largest F(w) - F(v).
    Range,
    /// The largest F(0) - F(w).
    InitialGap,
    /// gamma: the largest (F(w) - inf F)^(1/kappa)/||grad F(w)||.
    Kl,
    /// The relative distance of directional derivatives from difference quotients of values.
    Gradient,
    /// The same for the Hessian and the gradient.
    Hessian,
    /// The distance of the least eigenvalue from that of the assembled Hessian.
    LeastEigenvalue,
}

/// One claim, and the worst that was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The probed constant.
    pub audited: Audited,
    /// The constant that was claimed, or the tolerance.
    pub claimed: f64,
    /// The largest value seen, less what rounding can add to it.
    pub seen: f64,
}

impl Finding {
    /// Whether nothing contradicts the claim.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.seen <= self.claimed * (1.0 + 1e-9) + f64::MIN_POSITIVE
    }

    /// The share of the claim that was reached; 1 for a constant that is attained.
    #[must_use]
    pub fn attained(&self) -> f64 {
        self.seen / self.claimed
    }
}

/// All findings of one probe.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProbeReport {
    /// One for each finite claim.
    pub findings: Vec<Finding>,
}

impl ProbeReport {
    /// Whether nothing contradicts any claim.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.findings.iter().all(Finding::holds)
    }

    /// The claims that are wrong.
    pub fn refuted(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.holds())
    }

    /// The finding about one claim, if it was made.
    #[must_use]
    pub fn about(&self, audited: Audited) -> Option<&Finding> {
        self.findings.iter().find(|f| f.audited == audited)
    }
}

/// How hard to try, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Points are taken within this distance of the centre of the problem's own ball, and within that
    /// ball.
    pub reach: f64,
    /// Random pairs of points for each claim.
    pub pairs: usize,
    /// Steps of hill climbing from each of the eight best pairs.
    pub climb: usize,
    /// Equal seeds give equal probes.
    pub seed: u64,
}

/// The claims that are functions of two points.
type Measure<'a> = &'a dyn Fn(&[f64], &[f64]) -> f64;

/// Relative rounding error that is granted to gradients and values.
const ROUNDING: f64 = 1e-14;
/// How well derivatives must agree with difference quotients, relative to their size, beyond what
/// the quotients' own errors explain.
const TOLERANCE: f64 = 1e-7;

impl Probe {
    /// 2000 pairs and 300 steps, within `reach`.
    #[must_use]
    pub fn new(reach: f64, seed: u64) -> Self {
        Self {
            reach,
            pairs: 2000,
            climb: 300,
            seed,
        }
    }

    /// Probes what a problem says of values and gradients.
    #[must_use]
    pub fn first_order(&self, problem: &dyn Problem) -> ProbeReport {
        let constants = problem.constants();
        let dim = problem.dim();
        let gradient = |w: &[f64]| {
            let mut g = vec![0.0; dim];
            problem.gradient(w, &mut g);
            g
        };
        let origin = problem.value(&vec![0.0; dim]);
        let bottom = origin - constants.initial_gap;
        let change = |w: &[f64], v: &[f64]| {
            let (g, h) = (gradient(w), gradient(v));
            let error = ROUNDING * (norm(&g) + norm(&h));
            let moved: Vec<f64> = g.iter().zip(&h).map(|(g, h)| g - h).collect();
            (moved, error, distance(w, v))
        };
        let lipschitz = |w: &[f64], _: &[f64]| norm(&gradient(w)) * (1.0 - ROUNDING);
        let smoothness = |w: &[f64], v: &[f64]| {
            let (moved, error, apart) = change(w, v);
            (norm(&moved) - error) / apart
        };
        let bend = |w: &[f64], v: &[f64]| {
            let (moved, error, apart) = change(w, v);
            let along: f64 = moved
                .iter()
                .zip(w.iter().zip(v))
                .map(|(m, (w, v))| m * (w - v))
                .sum();
            (-along / apart - error) / apart
        };
        let between = |high: f64, low: f64| high - low - ROUNDING * (high.abs() + low.abs());
        let rise = |w: &[f64], _: &[f64]| between(problem.value(w), origin);
        let gap = |w: &[f64], _: &[f64]| between(origin, problem.value(w));
        let kl = |w: &[f64], _: &[f64]| {
            let kappa = constants.kl.map_or(1.0, |kl| kl.kappa);
            let value = problem.value(w);
            let excess = between(value, bottom) - 10.0 * ROUNDING * origin.abs();
            if excess > 0.0 {
                excess.powf(1.0 / kappa) / norm(&gradient(w))
            } else {
                0.0
            }
        };
        let gamma = constants.kl.map_or(f64::INFINITY, |kl| kl.gamma);
        let claims: [(Audited, f64, Measure<'_>); 5] = [
            (Audited::Lipschitz, constants.lipschitz, &lipschitz),
            (Audited::Smoothness, constants.smoothness, &smoothness),
            (Audited::WeakConvexity, constants.weak_convexity, &bend),
            (Audited::InitialGap, constants.initial_gap, &gap),
            (Audited::Kl, gamma, &kl),
        ];
        let mut findings = Vec::new();
        for (number, (audited, claimed, measure)) in claims.into_iter().enumerate() {
            if claimed.is_finite() {
                let seen = self.worst(problem, number as u32, measure);
                findings.push(Finding {
                    audited,
                    claimed,
                    seen,
                });
            }
        }
        if constants.range.is_finite() {
            findings.push(Finding {
                audited: Audited::Range,
                claimed: constants.range,
                seen: self.worst(problem, 101, &rise) + self.worst(problem, 102, &gap),
            });
        }
        findings.push(self.gradients(problem));
        ProbeReport { findings }
    }

    /// Probes what a problem says of values, gradients and Hessians.
    #[must_use]
    pub fn second_order(&self, problem: &dyn SecondOrderProblem) -> ProbeReport {
        let first: &dyn Problem = problem;
        let mut report = self.first_order(first);
        let claimed = problem.constants().hessian_lipschitz;
        if claimed.is_finite() {
            let measure = |w: &[f64], v: &[f64]| hessian_change(problem, w, v);
            let seen = self.worst(first, 100, &measure);
            report.findings.push(Finding {
                audited: Audited::HessianLipschitz,
                claimed,
                seen,
            });
        }
        let claimed = problem.constants().hessian_frobenius;
        if claimed.is_finite() {
            let measure = |w: &[f64], _: &[f64]| frobenius(problem, w) * (1.0 - ROUNDING);
            let seen = self.worst(first, 103, &measure);
            report.findings.push(Finding {
                audited: Audited::HessianFrobenius,
                claimed,
                seen,
            });
        }
        report.findings.push(self.hessians(problem));
        report.findings.extend(self.eigenvalues(problem));
        report
    }

    /// The largest value of `measure` that random pairs and hill climbing find; 0 at least.
    fn worst(&self, problem: &dyn Problem, number: u32, measure: Measure<'_>) -> f64 {
        let mut places = Places::new(self, problem, number);
        let mut best: Vec<(f64, Vec<f64>, Vec<f64>)> = Vec::new();
        for _ in 0..self.pairs {
            let w = places.point();
            let v = places.near(&w, 1e-5);
            let seen = measure(&w, &v);
            if seen.is_nan() {
                continue;
            }
            let place = best.partition_point(|(other, _, _)| *other >= seen);
            if place < 8 {
                best.insert(place, (seen, w, v));
                best.truncate(8);
            }
        }
        let mut worst = 0.0f64;
        for (mut top, mut w, mut v) in best {
            let mut scale = 0.3;
            for _ in 0..self.climb {
                let (x, y) = places.move_both(&w, &v, scale);
                let seen = measure(&x, &y);
                if seen > top {
                    (top, w, v) = (seen, x, y);
                    scale = (2.0 * scale).min(0.5);
                } else {
                    scale = (0.85 * scale).max(1e-6);
                }
            }
            worst = worst.max(top);
        }
        worst
    }

    /// Directional derivatives against difference quotients.
    fn gradients(&self, problem: &dyn Problem) -> Finding {
        let mut gradient = vec![0.0; problem.dim()];
        let exact = |w: &[f64], u: &[f64]| {
            problem.gradient(w, &mut gradient);
            (vec![dot(&gradient, u)], norm(&gradient))
        };
        let value = |w: &[f64]| vec![problem.value(w)];
        self.derivatives(problem, (Audited::Gradient, 200), exact, value)
    }

    /// Hessian-vector products against difference quotients of gradients.
    fn hessians(&self, problem: &dyn SecondOrderProblem) -> Finding {
        let exact = |w: &[f64], u: &[f64]| {
            let mut product = vec![0.0; w.len()];
            problem.hessian_vector(w, u, &mut product);
            let size = norm(&product);
            (product, size)
        };
        let gradient = |w: &[f64]| {
            let mut g = vec![0.0; w.len()];
            problem.gradient(w, &mut g);
            g
        };
        self.derivatives(problem, (Audited::Hessian, 201), exact, gradient)
    }

    /// Derivatives along a direction, with the size that they are relative to, against difference quotients of `of`.
    fn derivatives(
        &self,
        problem: &dyn Problem,
        (audited, number): (Audited, u32),
        mut exact: impl FnMut(&[f64], &[f64]) -> (Vec<f64>, f64),
        of: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Finding {
        let mut places = Places::new(self, problem, number);
        let mut seen = 0.0f64;
        for _ in 0..self.pairs.div_ceil(10) {
            let (w, u) = (places.interior(), places.direction());
            let (derivative, size) = exact(&w, &u);
            let at = |t: f64| of(&along(&w, t, &u));
            let off = |step: f64| {
                let (quotient, error) = quotient(step, at);
                let rounding = 8.0 * f64::EPSILON * norm(&at(0.0)).max(norm(&at(step))) / step;
                let off = distance(&derivative, &quotient);
                let scale = size.max(norm(&quotient));
                (off - error - rounding) / scale.max(f64::MIN_POSITIVE)
            };
            seen = seen.max(least_of(places.step(&w), off));
        }
        Finding {
            audited,
            claimed: TOLERANCE,
            seen,
        }
    }

    /// The least eigenvalue against the assembled Hessian's, in up to 64 dimensions.
    fn eigenvalues(&self, problem: &dyn SecondOrderProblem) -> Option<Finding> {
        let dim = problem.dim();
        if dim > 64 {
            return None;
        }
        let mut places = Places::new(self, problem, 202);
        let mut matrix = vec![0.0; dim * dim];
        let mut unit = vec![0.0; dim];
        let mut seen = 0.0f64;
        for _ in 0..self.pairs.div_ceil(100) {
            let w = places.point();
            for (j, row) in matrix.chunks_exact_mut(dim).enumerate() {
                unit.fill(0.0);
                unit[j] = 1.0;
                problem.hessian_vector(&w, &unit, row);
            }
            let Ok(spectrum) = symmetric_spectrum(dim, &matrix) else {
                continue;
            };
            let scale = norm(&spectrum.eigenvalues).max(f64::MIN_POSITIVE);
            let off = (problem.least_eigenvalue(&w) - spectrum.eigenvalues[0]).abs();
            // A NaN counts as wrong.
            seen = if off.is_nan() {
                f64::INFINITY
            } else {
                seen.max(off / scale)
            };
        }
        Some(Finding {
            audited: Audited::LeastEigenvalue,
            claimed: 1e-9,
            seen,
        })
    }
}

/// ||hess F(w)||_F, from d products.
fn frobenius(problem: &dyn SecondOrderProblem, w: &[f64]) -> f64 {
    let mut unit = vec![0.0; w.len()];
    let mut column = unit.clone();
    let squares = (0..w.len()).map(|j| {
        unit[j] = 1.0;
        problem.hessian_vector(w, &unit, &mut column);
        unit[j] = 0.0;
        dot(&column, &column)
    });
    squares.sum::<f64>().sqrt()
}

/// ||hess F(w) - hess F(v)||/||w - v|| by a few power steps, less the rounding.
fn hessian_change(problem: &dyn SecondOrderProblem, w: &[f64], v: &[f64]) -> f64 {
    let dim = problem.dim();
    let (mut at_w, mut at_v) = (vec![0.0; dim], vec![0.0; dim]);
    let apart = distance(w, v);
    // Along the way between the points, and a little of everything else.
    let mut u: Vec<f64> = w
        .iter()
        .zip(v)
        .enumerate()
        .map(|(j, (w, v))| (w - v) / apart + 1e-3 * ((j * j + 1) as f64).sin())
        .collect();
    let mut top = 0.0f64;
    for _ in 0..8 {
        let length = norm(&u);
        u.iter_mut().for_each(|x| *x /= length);
        problem.hessian_vector(w, &u, &mut at_w);
        problem.hessian_vector(v, &u, &mut at_v);
        let error = ROUNDING * (norm(&at_w) + norm(&at_v));
        for ((u, a), b) in u.iter_mut().zip(&at_w).zip(&at_v) {
            *u = a - b;
        }
        let change = norm(&u);
        if !(change > 0.0) {
            break;
        }
        top = top.max((change - error) / apart);
    }
    top
}

/// The smaller disagreement of two steps: one that comes from a kink nearby is gone with the
/// smaller step, one that comes from a wrong derivative is not. A NaN counts as wrong.
fn least_of(step: f64, off: impl Fn(f64) -> f64) -> f64 {
    let least = off(step).min(off(0.01 * step));
    if least.is_nan() { f64::INFINITY } else { least }
}

/// The central difference quotient at 0, extrapolated from two steps, and how far the two are
/// apart: at a kink that is as far as the quotient may be off.
fn quotient(step: f64, f: impl Fn(f64) -> Vec<f64>) -> (Vec<f64>, f64) {
    let central = |h: f64| -> Vec<f64> {
        let (up, down) = (f(h), f(-h));
        up.iter()
            .zip(&down)
            .map(|(a, b)| (a - b) / (2.0 * h))
            .collect()
    };
    let (wide, narrow) = (central(step), central(0.5 * step));
    let error = 2.0 * distance(&wide, &narrow);
    let both = narrow.iter().zip(&wide);
    (both.map(|(n, w)| (4.0 * n - w) / 3.0).collect(), error)
}

fn along(w: &[f64], t: f64, u: &[f64]) -> Vec<f64> {
    w.iter().zip(u).map(|(w, u)| w + t * u).collect()
}

/// Random points in the ball where the constants hold.
struct Places {
    centre: Vec<f64>,
    radius: f64,
    stream: KeyedStream,
}

impl Places {
    fn new(probe: &Probe, problem: &dyn Problem, number: u32) -> Self {
        let constants = problem.constants();
        let mut centre = constants.centre;
        centre.resize(problem.dim(), 0.0);
        Self {
            centre,
            radius: probe.reach.min(constants.radius),
            stream: ReplayKeyForTests::from_seed(probe.seed)
                .stream(StreamId::new(Purpose::Perturbation, number)),
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.stream.next_u64() >> 11) as f64 * (0.5 * f64::EPSILON)
    }

    /// A unit vector: along an axis, in a plane of two, or anywhere.
    fn direction(&mut self) -> Vec<f64> {
        let dim = self.centre.len();
        let axes = match (self.uniform() * 3.0) as u32 {
            0 => 1,
            1 => 2,
            _ => dim,
        };
        let mut u = vec![0.0; dim];
        for k in 0..axes {
            let j = if axes == dim {
                k
            } else {
                // Early coordinates are often special.
                let share = self.uniform() * self.uniform();
                (share * dim as f64) as usize
            };
            u[j] = StandardNormal.sample(&mut self.stream);
        }
        let length = norm(&u);
        if !(length > 0.0) {
            u[0] = 1.0;
            return u;
        }
        u.iter_mut().for_each(|x| *x /= length);
        u
    }

    /// A point of the ball, at distances of all orders from the centre.
    fn point(&mut self) -> Vec<f64> {
        let u = self.direction();
        let share = match (self.uniform() * 8.0) as u32 {
            0 => 1.0,
            1..4 => self.uniform(),
            _ => 10f64.powf(-8.0 * self.uniform().powi(2)),
        };
        self.inside(along(&self.centre, self.radius * share, &u))
    }

    /// A point with room for a step around it.
    fn interior(&mut self) -> Vec<f64> {
        let mut point = self.point();
        for (x, c) in point.iter_mut().zip(&self.centre) {
            *x = c + 0.99 * (*x - c);
        }
        point
    }

    /// A point of the ball at a distance from `least` times the radius up.
    fn near(&mut self, w: &[f64], least: f64) -> Vec<f64> {
        let u = self.direction();
        let length = self.radius * least.powf(self.uniform());
        self.inside(along(w, length, &u))
    }

    /// Both points moved, together or apart, and their distance stretched.
    fn move_both(&mut self, w: &[f64], v: &[f64], scale: f64) -> (Vec<f64>, Vec<f64>) {
        let apart = distance(w, v);
        let far = self.direction();
        let size = if self.uniform() < 0.5 {
            scale * self.radius
        } else {
            scale * apart
        };
        let x = self.inside(along(w, size, &far));
        let own = self.direction();
        let stretch = 10f64.powf(self.uniform() - 0.7);
        let y: Vec<f64> = x
            .iter()
            .zip(w.iter().zip(v))
            .zip(&own)
            .map(|((x, (w, v)), u)| x + stretch * ((v - w) + scale * apart * u))
            .collect();
        let y = if distance(&x, &y) < 1e-5 * self.radius {
            along(&x, 1e-5 * self.radius, &own)
        } else {
            y
        };
        let y = self.inside(y);
        if distance(&x, &y) > 0.5e-5 * self.radius {
            (x, y)
        } else {
            (w.to_vec(), v.to_vec())
        }
    }

    /// The nearest point of the ball.
    fn inside(&self, mut point: Vec<f64>) -> Vec<f64> {
        let away = distance(&point, &self.centre);
        if away > self.radius {
            // Rounded inwards.
            let kept = self.radius / away * (1.0 - 4.0 * f64::EPSILON);
            for (x, c) in point.iter_mut().zip(&self.centre) {
                *x = c + kept * (*x - c);
            }
        }
        point
    }

    /// A step for difference quotients at `w`: small against its distance from the centre.
    fn step(&self, w: &[f64]) -> f64 {
        1e-3 * distance(w, &self.centre).clamp(1e-3 * self.radius, self.radius)
    }
}
