//! The pair of a Gaussian on a Poisson sample for several records at once.
//!
//! `P = sum_j B(j; m, q) N(j, s^2)` against `Q = sum_j B(j; l, q) N(-j, s^2)`, B being the binomial law: m records that P has alone pull
//! one way, l that Q has alone the other way. Why it dominates: `docs/privacy/accounting.md`.

use libm::{erfc, exp, expm1, log, log1p, sqrt};

use super::law::Law;

const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;
/// Log of the mass beyond which the table ends.
const LN_FAR: f64 = -640.0;
/// Points of the table from which the inverse starts.
const TABLE: usize = 4096;
/// Most records: their binomial coefficients are numbers.
pub(super) const MOST_RECORDS: u64 = 1000;
/// Exponents that may be summed as they are.
const LARGE: f64 = 500.0;

/// Binomial weights with their logarithms.
#[derive(Debug, Clone, PartialEq)]
struct Side(Vec<(f64, f64)>);

impl Side {
    fn new(records: u64, q: f64) -> Self {
        let n = records as f64;
        let mut choices = 1.0;
        let mut list = Vec::with_capacity(records as usize + 1);
        for j in 0..=records {
            let j = j as f64;
            let ln = j * log(q) + (n - j) * log1p(-q) + log(choices);
            list.push((exp(ln), ln));
            choices *= (n - j) / (j + 1.0);
        }
        Self(list)
    }

    /// `log sum_j w_j e^{u_j}`, `u_j = j (2 y - j) / (2 s^2)`, and a bound on the derivative of it in y, in units of `1/s^2`,
    /// that leaves nothing of the error of the sum out.
    fn log_mix(&self, y: f64, s2: f64) -> (f64, f64) {
        let u = |j: f64| j * (2.0 * y - j) / (2.0 * s2);
        // The exponent is largest where j is nearest to y.
        let last = (self.0.len() - 1) as f64;
        if u(y.round().clamp(0.0, last)) <= LARGE {
            // Terms count as no smaller than their weights: differences from 1 are summed.
            let (mut gain, mut slope) = (0.0, 0.0);
            for (j, (weight, _)) in self.0.iter().enumerate().skip(1) {
                let more = expm1(u(j as f64));
                gain += weight * more;
                slope += weight * j as f64 * (1.0 + more.max(0.0));
            }
            if gain >= -0.5 {
                return (log1p(gain), slope / (1.0 + gain));
            }
        }
        // Terms are summed themselves where they are large or little is left of 1: all are positive, so nothing cancels, and to what
        // the exponents get wrong comes only the error of the weights.
        let exponent = |j: usize| self.0[j].1 + u(j as f64);
        let top = (0..self.0.len())
            .map(exponent)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut slope) = (0.0, 0.0);
        for j in 0..self.0.len() {
            let term = exp(exponent(j) - top);
            sum += term;
            slope += term * j as f64;
        }
        let of_weights = s2 / (y.abs() + last.max(1.0));
        (top + log(sum), slope / sum + of_weights)
    }

    /// `sum_j w_j T(j)`.
    fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.0
            .iter()
            .enumerate()
            .map(|(j, (weight, _))| weight * of(j as f64))
            .sum()
    }
}

/// Upper tail of the standard normal law, rounded up.
fn tail(t: f64) -> f64 {
    0.5 * erfc(t * std::f64::consts::FRAC_1_SQRT_2) * (1.0 + 1e-12) + f64::MIN_POSITIVE
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mixture {
    q: f64,
    s: f64,
    plus: Side,
    minus: Side,
    /// (loss, y), increasing.
    table: Vec<(f64, f64)>,
}

impl Mixture {
    /// `plus` records on the side of P, `minus` on that of Q, at a rate below 1.
    pub(super) fn new(plus: u64, minus: u64, q: f64, s: f64) -> Self {
        let mut new = Self {
            q,
            s,
            plus: Side::new(plus, q),
            minus: Side::new(minus, q),
            table: Vec::new(),
        };
        let (low, high) = (new.lower_point(LN_FAR), new.upper_point(LN_FAR));
        new.table = (0..=TABLE)
            .map(|i| {
                let y = low + (high - low) * i as f64 / TABLE as f64;
                (new.loss(y), y)
            })
            .collect();
        new
    }

    /// Standard deviation of each Gaussian.
    pub(super) fn scale(&self) -> f64 {
        self.s
    }

    fn records(&self) -> (f64, f64) {
        let count = |side: &Side| (side.0.len() - 1) as f64;
        (count(&self.plus), count(&self.minus))
    }

    /// Error of a weight, in units of 16 of those of a double.
    fn weight_error(&self) -> f64 {
        let (plus, minus) = self.records();
        let ln = (plus + minus) * (1.0 + log1p(-self.q).abs() + log(self.q).abs());
        1.0 + 0.5 * ln
    }

    /// Losses end here, from below.
    fn loss_inf(&self) -> f64 {
        let (plus, minus) = self.records();
        if minus == 0.0 {
            plus * log1p(-self.q)
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl Law for Mixture {
    fn loss(&self, y: f64) -> f64 {
        let s2 = self.s * self.s;
        self.plus.log_mix(y, s2).0 - self.minus.log_mix(-y, s2).0
    }

    fn log_density_and_loss(&self, y: f64) -> (f64, f64) {
        let s2 = self.s * self.s;
        let base = -0.5 * (y / self.s) * (y / self.s) - log(self.s) - LN_SQRT_2PI;
        let right = self.plus.log_mix(y, s2).0;
        (base + right, right - self.minus.log_mix(-y, s2).0)
    }

    fn slope(&self, y: f64) -> f64 {
        let s2 = self.s * self.s;
        let both = self.plus.log_mix(y, s2).1 + self.minus.log_mix(-y, s2).1;
        both / s2 * self.weight_error()
    }

    fn inverse(&self, l: f64) -> f64 {
        if l >= self.loss_sup() {
            return f64::INFINITY;
        }
        if l <= self.loss_inf() {
            return f64::NEG_INFINITY;
        }
        let after = self.table.partition_point(|(loss, _)| *loss <= l);
        let ends = |i: usize| self.table.get(i).map_or(f64::NAN, |entry| entry.1);
        let (mut low, mut high) = (ends(after.wrapping_sub(1)), ends(after));
        let width = self.s.max(1.0);
        for i in 0..60 {
            if low.is_nan() || high.is_nan() {
                let end = if low.is_nan() { high } else { low };
                let step = width * exp(f64::from(i));
                if low.is_nan() && self.loss(end - step) <= l {
                    low = end - step;
                } else if high.is_nan() && self.loss(end + step) > l {
                    high = end + step;
                }
            }
        }
        if low.is_nan() {
            return f64::NEG_INFINITY;
        }
        if high.is_nan() {
            return f64::INFINITY;
        }
        // Secants within the bracket; what is left is measured where the point is used.
        let (mut below, mut above) = (self.loss(low) - l, self.loss(high) - l);
        let mut last = f64::INFINITY;
        for round in 0..200 {
            let wide = high - low;
            if below == 0.0 || !(wide > 2.0 * f64::EPSILON * (low.abs() + high.abs())) {
                return low;
            }
            let share = below / (below - above);
            let at = if round % 4 == 3 || !(share > 0.0 && share < 1.0) {
                0.5
            } else {
                share
            };
            let middle = low + at * wide;
            let excess = self.loss(middle) - l;
            if excess.abs() <= f64::EPSILON * l.abs()
                || (middle - last).abs() <= f64::EPSILON * middle.abs()
            {
                return middle;
            }
            last = middle;
            if excess <= 0.0 {
                (low, below) = (middle, excess);
                above *= 0.5;
            } else {
                (high, above) = (middle, excess);
                below *= 0.5;
            }
        }
        low
    }

    fn upper_tail(&self, y: f64) -> f64 {
        self.plus.mean(|j| tail((y - j) / self.s)) * (1.0 + 1e-11)
    }

    fn lower_tail(&self, y: f64) -> f64 {
        self.plus.mean(|j| tail((j - y) / self.s)) * (1.0 + 1e-11)
    }

    fn upper_point(&self, ln_mass: f64) -> f64 {
        let (n, each) = (self.plus.0.len() as f64, &self.plus.0);
        let far = |(j, (_, ln)): (usize, &(f64, f64))| {
            let rest = (-2.0 * (ln_mass - log(n) - ln)).max(0.0);
            let here = if rest > 0.0 { j as f64 } else { 0.0 };
            here + self.s * sqrt(rest)
        };
        each.iter().enumerate().map(far).fold(0.0, f64::max)
    }

    fn lower_point(&self, ln_mass: f64) -> f64 {
        -self.s * sqrt((-2.0 * ln_mass).max(0.0))
    }

    fn loss_sup(&self) -> f64 {
        let (plus, minus) = self.records();
        if plus == 0.0 {
            -minus * log1p(-self.q)
        } else {
            f64::INFINITY
        }
    }

    fn reach(&self, y: f64) -> f64 {
        let (plus, minus) = self.records();
        y.abs() + plus.max(minus)
    }

    fn radius(&self, y: f64) -> f64 {
        self.s.min(self.s * self.s / self.reach(y))
    }

    fn atoms(&self) -> [f64; 2] {
        [0.0; 2]
    }

    /// Of the weights, which come out of sums of logarithms, and of `-y^2/2s^2 + u_j`, of which little may be left.
    fn density_error(&self) -> f64 {
        let far = self.upper_point(LN_FAR).max(-self.lower_point(LN_FAR)) / self.s;
        f64::EPSILON * (16.0 * self.weight_error() + 8.0 * far * far)
    }
}
