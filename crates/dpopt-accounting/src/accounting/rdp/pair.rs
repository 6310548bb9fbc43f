//! One Gaussian release on a Poisson sample: its dominating pair, and the moments of it.

use std::f64::consts::LN_2;

use crate::accounting::special::{
    LN_SQRT_2PI, entropy_over_square, exp_minus_linear, exp_minus_linear_over_square, log_add_exp,
    log_one_minus_exp,
};
use crate::adjacency::Adjacency;

/// log of the fraction of the largest term below which nodes are skipped.
const NEGLIGIBLE: f64 = 45.0;

/// Least sigma, in units of the clip norm, for which the quadrature is used.
const LEAST_SIGMA: f64 = 0.02;

/// Largest curvature that the mixture in the denominator adds at a mode of the integrand.
const MOST_BEND: f64 = 8.0;

/// A dominating pair of one-dimensional mixtures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    rate: f64,
    log_rate: f64,
    log_rest: f64,
    sigma: f64,
    two_sided: bool,
}

impl Pair {
    pub(super) fn new(rate: f64, noise_multiplier: f64, adjacency: Adjacency) -> Self {
        let two_sided = adjacency == Adjacency::ReplaceOne;
        Pair {
            rate,
            log_rate: rate.ln(),
            log_rest: (-rate).ln_1p(),
            sigma: noise_multiplier * adjacency.sum_sensitivity(),
            two_sided,
        }
    }

    /// `log E_Q[(P/Q)^(1+x)]`.
    pub(super) fn log_moment(&self, x: f64) -> f64 {
        let alpha = 1.0 + x;
        if self.sigma < LEAST_SIGMA {
            let reach = if self.two_sided { 2.0 } else { 1.0 } / self.sigma;
            return log_add_exp(
                self.log_rest,
                self.log_rate + 0.5 * alpha * x * reach * reach,
            );
        }
        let log_excess = self.log_excess(x, self.step(x));
        if log_excess > 40.0 {
            log_excess + (-log_excess).exp()
        } else {
            log_excess.exp().ln_1p()
        }
    }

    /// Step of the trapezoid rule at order `1 + x`; see the notes of [`super`].
    fn step(&self, x: f64) -> f64 {
        let step = (0.4 * self.sigma).min(0.5);
        if !self.two_sided {
            return step;
        }
        let bend = (0.25 * x / (self.sigma * self.sigma)).min(MOST_BEND);
        step / (1.0 + bend).sqrt()
    }

    /// `log E_Q[g(w)]` by the trapezoid rule of step h, with `g(w) = (1+w)^alpha - 1 - alpha w` and `x = alpha - 1`.
    fn log_excess(&self, x: f64, h: f64) -> f64 {
        let alpha = 1.0 + x;
        // Upper bound on the slope of log(q(z)/phi(z) (r^alpha + alpha)) in z.
        let pull = if self.two_sided { alpha + x } else { alpha } / self.sigma;
        let first = if self.two_sided {
            -(2.0 / self.sigma + 10.0)
        } else {
            -10.0
        };
        let log_alpha = alpha.ln();
        let mut sum = Accumulator::new();
        // Knowing a large term early is what makes skipping effective.
        let mut best = f64::NEG_INFINITY;
        for start in [2.0 / self.sigma, pull] {
            let mut z = start;
            for _ in 0..40 {
                z = self.upper_mode(z, alpha);
            }
            best = best.max(self.term(z, x).0);
        }
        let mut k = (first / h).floor();
        loop {
            let z = k * h;
            let (term, log_ratio, log_density) = self.term(z, x);
            best = best.max(term);
            sum.add(term);
            let tilted = alpha * log_ratio;
            let envelope = log_density
                + if tilted > log_alpha + 40.0 {
                    tilted + 1e-15
                } else {
                    log_add_exp(tilted, log_alpha)
                };
            if best == f64::NEG_INFINITY && z > pull + 100.0 {
                return best;
            }
            let missing = best - NEGLIGIBLE - envelope;
            if missing > 0.0 {
                let slope = pull - z;
                // Past the last mode. All terms are zero only if the whole integral underflows.
                if slope <= 0.0 {
                    break;
                }
                k += (missing / slope / h).floor().max(1.0);
            } else {
                k += 1.0;
            }
        }
        sum.log() + h.ln()
    }

    /// One step of the fixed-point iteration for stationary points of `q r^alpha`.
    fn upper_mode(&self, z: f64, alpha: f64) -> f64 {
        let share = |u: f64| 1.0 / (1.0 + (self.log_rest - self.log_rate - u).exp());
        let shift = 0.5 / (self.sigma * self.sigma);
        let plus = alpha * share(z / self.sigma - shift);
        if self.two_sided {
            (plus + (alpha - 1.0) * share(-z / self.sigma - shift)) / self.sigma
        } else {
            plus / self.sigma
        }
    }

    /// At `z`: log of density times g, log of P/Q, log of the density of Q.
    fn term(&self, z: f64, x: f64) -> (f64, f64, f64) {
        let shift = 0.5 / (self.sigma * self.sigma);
        let u = z / self.sigma - shift;
        let log_phi = -0.5 * z * z - LN_SQRT_2PI;
        if self.two_sided {
            let down = -z / self.sigma - shift;
            let (log_p, log_q) = (self.log_mixture(u), self.log_mixture(down));
            // w = 2 q e^(-shift) sinh(z / sigma) / (1 - q + q e^down)
            let reach = z.abs() / self.sigma;
            let log_w = if reach < 600.0 {
                LN_2 + self.log_rate - shift - log_q + reach.sinh().ln()
            } else {
                log_p.max(log_q) - log_q + log_one_minus_exp(-(log_p - log_q).abs())
            };
            let w = log_w.exp().copysign(z);
            let log_ratio = if w.abs() < 0.5 {
                w.ln_1p()
            } else {
                log_p - log_q
            };
            let log_density = log_phi + log_q;
            let excess = log_excess_of(w, log_w, log_ratio, x);
            (log_density + excess, log_ratio, log_density)
        } else {
            let change = u.exp_m1();
            let log_ratio = self.log_mixture(u);
            let log_w = self.log_rate + change.abs().ln();
            let excess = log_excess_of(self.rate * change, log_w, log_ratio, x);
            (log_phi + excess, log_ratio, log_phi)
        }
    }

    /// `log(1 - q + q e^u)`, with small relative error also near zero.
    fn log_mixture(&self, u: f64) -> f64 {
        if u > 30.0 {
            self.log_rate + u + (self.log_rest - self.log_rate - u).exp().ln_1p()
        } else {
            let change = self.rate * u.exp_m1();
            if change < -0.5 {
                // The rate is above 1/2, so `1 - rate` is exact. Near rate 1 the other form cancels.
                (1.0 - self.rate + self.rate * u.exp()).ln()
            } else {
                change.ln_1p()
            }
        }
    }
}

/// `log((1+w)^(1+x) - 1 - (1+x) w)`, where `l = log(1+w)` and
/// `log_w = log |w|`, which is finite where w underflows. Never a difference of near equals:
/// the function is `(1+w)(e^(xl) - 1 - xl) + x ((1+w) l - w)`, two nonnegative terms.
fn log_excess_of(w: f64, log_w: f64, l: f64, x: f64) -> f64 {
    let y = x * l;
    if y > 30.0 {
        // Divided by (1+w)^(1+x).
        return y + l + (-(1.0 - x * (-l).exp_m1()) * (-y).exp()).ln_1p();
    }
    if w > 1.0 {
        // Divided by 1+w, which may overflow.
        return l + (exp_minus_linear(y) + x * (l + (-l).exp_m1())).ln();
    }
    if w.abs() < 0.1 && y.abs() < 0.5 {
        // Divided by w^2, which may underflow.
        let ratio = if w.abs() < 1e-100 { x } else { y / w };
        let first = (1.0 + w) * ratio * ratio * exp_minus_linear_over_square(y);
        return 2.0 * log_w + (first + x * entropy_over_square(w)).ln();
    }
    let r = l.exp();
    let entropy = if w.abs() < 0.1 {
        w * w * entropy_over_square(w)
    } else {
        r * l - w
    };
    (r * exp_minus_linear(y) + x * entropy).ln()
}

/// Sums numbers given by their logarithms.
struct Accumulator {
    scale: f64,
    sum: f64,
}

impl Accumulator {
    fn new() -> Self {
        Accumulator {
            scale: f64::NEG_INFINITY,
            sum: 0.0,
        }
    }

    fn add(&mut self, term: f64) {
        if term == f64::NEG_INFINITY {
            return;
        }
        if term > self.scale {
            self.sum *= (self.scale - term).exp();
            self.sum += 1.0;
            self.scale = term;
        } else {
            self.sum += (term - self.scale).exp();
        }
    }

    fn log(&self) -> f64 {
        self.scale + self.sum.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 12] = [
        1e-9,
        1e-4,
        0.01,
        0.1,
        0.3,
        0.5,
        0.7,
        0.9,
        0.999,
        1.0 - 1e-7,
        1.0 - 1e-11,
        1.0 - 1.2e-16,
    ];

    #[test]
    fn halving_the_step_changes_nothing() {
        let mut worst = (0.0, String::new());
        for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
            for sigma in [0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.3, 2.0, 5.0, 50.0] {
                for rate in RATES {
                    for x in [
                        1e-6, 0.01, 0.1, 0.5, 1.0, 1.7, 4.2, 9.0, 24.0, 31.5, 127.0, 1000.0,
                    ] {
                        let pair = Pair::new(rate, sigma / adjacency.sum_sensitivity(), adjacency);
                        let coarse = pair.log_excess(x, pair.step(x));
                        let fine = pair.log_excess(x, 0.5 * pair.step(x));
                        let error = (coarse - fine).abs() / fine.abs().max(1.0);
                        if error > worst.0 {
                            worst = (error, format!("{adjacency} {sigma} {rate} {x}"));
                        }
                    }
                }
            }
        }
        assert!(worst.0 < 1e-13, "{worst:?}");
    }
}
