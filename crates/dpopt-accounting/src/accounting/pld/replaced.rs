//! The loss of a Gaussian query answered at every step, where a record takes part in one step of t, drawn uniformly, and is replaced by
//! another, which is drawn for itself.
//!
//! With `f(u) = e^{s u - s^2/2} - a e^{-s u - s^2/2}`, s = C/sigma and independent standard normal `u_i`, `H_a = E (f(u_1) + ... + f(u_t))_+ / t`
//! (`docs/privacy/accounting.md`). Each a needs a sum of its own: the curve is bounded at points, and by the broken line between.

use libm::{erfc, exp, expm1, log, sqrt};
use realfft::RealFftPlanner;

use super::error::PldError;
use super::points::Points;
use super::tilted::{Lattice, POINTS};

/// Distance of lattice points over the deviation of f, or of its positive part, unless there would be more of them than [`POINTS`]; and of the
/// places between which the law is spread, over that of u. Tuned.
const FINENESS: f64 = 0.02;
/// Distance of the points of the curve over the deviation of the loss, and how it grows with the loss. Tuned.
const SPACING: f64 = 0.06;
const GROWTH: f64 = 0.02;
/// Most that the logarithm of the curve falls between two points, about: a line between them is then within 3e-3. Tuned.
const FALL: f64 = 0.16;
/// Most points of the curve.
const MOST: usize = 4096;
/// For the error of `erfc` and of sums of a few terms, relative.
const UNITS: f64 = 16.0 * f64::EPSILON;

/// The relative error of `tail(x)`: that of the argument of `erfc`, an error of x/sqrt(2) by one rounding, is enlarged by x^2.
fn units(x: f64) -> f64 {
    UNITS * (1.0 + 0.25 * x * x)
}

/// Upper tail of the standard normal law.
fn tail(x: f64) -> f64 {
    0.5 * erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// A point, and the mass beyond it on the side where that is smaller.
#[derive(Clone, Copy)]
struct Edge(f64, f64);

impl Edge {
    fn new(x: f64) -> Self {
        Self(x, tail(x.abs()))
    }

    /// The mass from here to there, and a bound on its error.
    fn to(self, end: Self) -> (f64, f64) {
        let mass = match (self.0 < 0.0, end.0 < 0.0) {
            (true, false) => 1.0 - self.1 - end.1,
            _ => (self.1 - end.1).abs(),
        };
        let whole = f64::from(u8::from((self.0 < 0.0) != (end.0 < 0.0)));
        (
            mass,
            units(self.0) * self.1 + units(end.0) * end.1 + UNITS * whole,
        )
    }
}

struct Query {
    s: f64,
    a: f64,
}

impl Query {
    fn value(&self, u: f64) -> f64 {
        let half = 0.5 * self.s * self.s;
        exp(self.s * u - half) - self.a * exp(-self.s * u - half)
    }

    /// Where f takes this value.
    fn place(&self, value: f64) -> f64 {
        let w = value * exp(0.5 * self.s * self.s);
        let root = sqrt(w * w + 4.0 * self.a);
        let y = if w >= 0.0 {
            0.5 * (w + root)
        } else {
            2.0 * self.a / (root - w)
        };
        log(y) / self.s
    }

    fn variance(&self) -> f64 {
        let square = self.s * self.s;
        (1.0 + self.a * self.a) * expm1(square) - 2.0 * self.a * expm1(-square)
    }

    /// `E f_+^2`.
    fn positive_square(&self) -> f64 {
        let (s, zero) = (self.s, self.place(0.0));
        let grown = exp(s * s);
        let up = grown * tail(zero - 2.0 * s) - 2.0 * self.a * tail(zero) / grown;
        up + self.a * self.a * grown * tail(zero + 2.0 * s)
    }

    /// Masses of at least those of f spread to the ends of cells from i g to (i+1) g, or of longer ones, which keeps mass and mean; the first i. What is above
    /// `high` counts as 0, what is below `low` as no less than there.
    fn masses(&self, g: f64, low: f64, high: f64) -> (i64, Vec<f64>) {
        let first = (self.value(low) / g).floor();
        let n = (self.value(high) / g - first).ceil().max(1.0) as usize + 1;
        let mut out = vec![0.0; n + 1];
        let edges = |x: f64| [x, x - self.s, x + self.s].map(Edge::new);
        let (mut i, mut from) = (0, edges(low));
        while i < n && from[0].0 < high {
            // Where f is steep, to the ends of several cells at once.
            let wide = self.value(from[0].0 + FINENESS) / g - first;
            let end = (wide as usize).clamp(i + 1, n);
            let at = first + i as f64;
            let to = edges(self.place((first + end as f64) * g).clamp(from[0].0, high));
            let (mass, error) = from[0].to(to[0]);
            let (up, up_error) = from[1].to(to[1]);
            let (down, down_error) = from[2].to(to[2]);
            let share = ((up - self.a * down) / g - at * mass) / (end - i) as f64;
            let slack = (up_error + self.a * down_error) / g + (at.abs() + 2.0) * error;
            let right = share.clamp(0.0, mass);
            out[i] += mass - right + slack;
            out[end] += right + slack;
            (i, from) = (end, to);
        }
        out[1] += tail(-low) * (1.0 + units(low));
        let zero = (-first).clamp(0.0, n as f64) as usize;
        out[zero] += tail(high) * (1.0 + units(high));
        (first as i64, out)
    }

    /// An upper bound on `H_a`, with what is beyond P-mass `e^{ln_above}` in a step counted in full.
    fn above(
        &self,
        steps: u64,
        ln_above: f64,
        planner: &mut RealFftPlanner<f64>,
    ) -> Result<f64, PldError> {
        let far = (-2.0 * ln_above).max(16.0).sqrt();
        let high = self.s + far;
        let beyond = tail(far) * (1.0 + units(far));
        if self.value(high) <= 0.0 {
            return Ok(beyond);
        }
        let t = steps as f64;
        // From there on down the sum is negative whatever the others are.
        let low = self.place((1.0 - t) * self.value(high)).max(-high);
        let spread = sqrt(self.variance());
        let scale = spread * sqrt(t);
        let range = self.value(high) - self.value(low);
        // Of few steps it is one that makes the sum positive.
        let one = sqrt(t * self.positive_square().max(0.0));
        let fine = one.max(0.25 * spread).min(spread);
        let g = (FINENESS * fine).max(range / POINTS);
        if !(g < 0.3 * spread) {
            return Err(PldError::TooFine {
                cells: range / (0.3 * spread),
                limit: POINTS,
            });
        }
        let (first, masses) = self.masses(g, low, high);
        let sum = Lattice { first, masses, g }.positive(steps, scale, planner)?;
        // Ends of cells are good to some units, and so is a.
        let rounding = 1e-14 * (1.0 + self.a) * sum.probability;
        Ok(sum.mean / t + beyond + rounding)
    }
}

/// The pair of one allocation, which is its own mirror image. The lower law is that of a record that is replaced by one without
/// contribution, and is left to the caller.
pub(super) fn points(noise: f64, steps: u64, ln_above: f64) -> Result<Points, PldError> {
    let s = 0.5 / noise;
    let deviation = 2.0 * sqrt(expm1(s * s) / steps as f64);
    if !(deviation > 0.0 && deviation < POINTS) {
        return Err(PldError::TooFine {
            cells: f64::INFINITY,
            limit: POINTS,
        });
    }
    let mut planner = RealFftPlanner::new();
    let mut curve: Vec<(f64, f64)> = Vec::new();
    let mut epsilon = 0.0;
    while curve.len() < MOST {
        let query = Query { s, a: exp(epsilon) };
        let value = match query.above(steps, ln_above, &mut planner) {
            Ok(value) => value.min(1.0),
            // What is left there is infinite loss.
            Err(_) if !curve.is_empty() => break,
            Err(error) => return Err(error),
        };
        // Where nothing but errors is left.
        if curve.last().is_some_and(|last| value > 0.999 * last.1) {
            break;
        }
        let steepness = curve
            .last()
            .map_or(0.0, |last| log(last.1 / value) / (epsilon - last.0));
        curve.push((epsilon, value));
        if value <= 2.0 * exp(ln_above) {
            break;
        }
        let by = SPACING * deviation + GROWTH * epsilon;
        epsilon += by.min(FALL / steepness);
    }
    Ok(Points::through(&curve))
}
