//! Renyi bound for a Gaussian on a sample drawn without replacement, under replace-one.
//!
//! With rate q = m/n and noise multiplier z over the **replace-one** sensitivity (2C for sums of
//! vectors of norm at most C: the sample holds the one record or the other), for whole alpha
//!
//! `e^K <= 1 + sum over j = 2..alpha of C(alpha, j) q^j T_j`, with
//! `T_2 = min(4 (e^(1/z^2) - 1), 2 e^(1/z^2))` and
//! `T_j = min(4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))), 2 e^(j (j-1) / (2 z^2)))`,
//!
//! where `B(l) = E[(e^(Z/z - 1/(2 z^2)) - 1)^l]`, Z standard normal (Wang, Balle and Kasiviswanathan
//! 2019, arXiv 1808.00087, Theorem 27). Between whole orders K is interpolated, since it is convex
//! (their Corollary 10). It is never above the value without sampling: with the two samples coupled,
//! the moment is jointly convex in the pair.
//!
//! `dp_accounting` takes z over C here too, so its values belong to ours at half the multiplier
//! (its issue 378).

use std::cell::RefCell;
use std::f64::consts::LN_2;

use super::special::{LN_SQRT_2PI, log_add_exp};

/// Largest order at which the bound is used.
const MOST: usize = 1024;

/// Largest order of the moments B.
const MOST_B: usize = 256;

/// Absolute rounding of each logarithm.
const ROUNDING: f64 = 2e-11;

pub(super) struct WithoutReplacement {
    log_rate: f64,
    /// Inverse noise multiplier.
    shift: f64,
    /// `log T_j` from j = 2 on.
    terms: RefCell<Vec<f64>>,
    /// `log B(l)` for even l from 2 on.
    moments: RefCell<Vec<f64>>,
    /// K at whole orders from 2 on; NaN where it is not known yet.
    known: RefCell<Vec<f64>>,
}

impl WithoutReplacement {
    pub(super) fn new(rate: f64, noise_multiplier: f64) -> Self {
        WithoutReplacement {
            log_rate: rate.ln(),
            shift: 1.0 / noise_multiplier,
            terms: RefCell::new(Vec::new()),
            moments: RefCell::new(Vec::new()),
            known: RefCell::new(vec![f64::NAN; MOST + 1]),
        }
    }

    /// A bound on K at order `1 + x`.
    pub(super) fn log_moment(&self, x: f64) -> f64 {
        let plain = 0.5 * x * (1.0 + x) * self.shift * self.shift * (1.0 + 1e-14);
        if x + 1.0 > MOST as f64 {
            return plain;
        }
        let below = x.floor();
        let part = x - below;
        let low = self.at(below as usize + 1);
        let value = if part == 0.0 {
            low
        } else {
            (1.0 - part) * low + part * self.at(below as usize + 2)
        };
        value.min(plain)
    }

    fn at(&self, alpha: usize) -> f64 {
        if alpha < 2 {
            return 0.0;
        }
        if alpha > MOST {
            return f64::INFINITY;
        }
        if let Some(&value) = self.known.borrow().get(alpha)
            && !value.is_nan()
        {
            return value;
        }
        let n = alpha as f64;
        let mut log_sum = f64::NEG_INFINITY;
        for j in 2..=alpha {
            let term = self.log_choose(n, j as f64) + j as f64 * self.log_rate + self.term(j);
            log_sum = log_add_exp(log_sum, term);
        }
        log_sum += ROUNDING;
        let value = if log_sum > 40.0 {
            log_sum + (-log_sum).exp()
        } else {
            log_sum.exp().ln_1p()
        };
        if let Some(place) = self.known.borrow_mut().get_mut(alpha) {
            *place = value;
        }
        value
    }

    fn log_choose(&self, n: f64, j: f64) -> f64 {
        libm::lgamma(n + 1.0) - libm::lgamma(j + 1.0) - libm::lgamma(n - j + 1.0)
    }

    /// `log T_j`.
    fn term(&self, j: usize) -> f64 {
        let mut terms = self.terms.borrow_mut();
        while terms.len() + 2 <= j {
            let next = terms.len() + 2;
            let square = self.shift * self.shift;
            let convex = LN_2 + 0.5 * (next * (next - 1)) as f64 * square;
            let value = if next == 2 {
                // log(e^y - 1) with y = 1/z^2.
                let log_excess = if square > 30.0 {
                    square + (-(-square).exp()).ln_1p()
                } else {
                    square.exp_m1().ln()
                };
                convex.min(2.0 * LN_2 + log_excess)
            } else if next <= MOST_B {
                let (even, other) = (next / 2, next.div_ceil(2));
                let root = 0.5 * (self.log_b(even) + self.log_b(other));
                convex.min(2.0 * LN_2 + root)
            } else {
                convex
            };
            terms.push(value);
        }
        terms.get(j - 2).copied().unwrap_or(f64::INFINITY)
    }

    /// `log B(2 half)`.
    fn log_b(&self, half: usize) -> f64 {
        let mut moments = self.moments.borrow_mut();
        while moments.len() < half {
            let power = 2.0 * (moments.len() + 1) as f64;
            moments.push(log_even_moment(self.shift, power));
        }
        moments.get(half - 1).copied().unwrap_or(f64::INFINITY)
    }
}

/// `log E[(e^(s Z - s^2/2) - 1)^l]` for even l, by the trapezoid rule over Z.
///
/// The integrand is entire, and on the line `Im z = 12` at most about e^144 times what it is on the
/// real axis, so at step 1/4 the error is below e^-150 of the value.
fn log_even_moment(s: f64, power: f64) -> f64 {
    const STEP: f64 = 0.25;
    let reach = power.sqrt() + 12.0;
    let first = -(reach / STEP).ceil() as i64;
    let last = ((reach + s * power + s) / STEP).ceil();
    if last > 1e6 {
        return f64::INFINITY;
    }
    let logs: Vec<f64> = (first..=last as i64)
        .map(|k| {
            let z = k as f64 * STEP;
            let u = s * z - 0.5 * s * s;
            let log_ratio = if u > 30.0 {
                u + (-(-u).exp()).ln_1p()
            } else {
                u.exp_m1().abs().ln()
            };
            power * log_ratio - 0.5 * z * z
        })
        .collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|value| (value - most).exp()).sum();
    most + sum.ln() + STEP.ln() - LN_SQRT_2PI
}
