//! The loss of a Gaussian query answered at every step, where a record takes part in one step of t, drawn uniformly.
//!
//! Against the law Q without the record, the law P with it has the density `S/t`, `S = X_1 + ... + X_t`, and under Q the `X_i` are
//! independent and log-normal: `X = e^{u}`, u normal with mean `-s^2/2` and deviation `s = 1/z`. So `H_a = E_Q (S/t - a)_+`, a convex
//! function of each `X_i` (`docs/privacy/accounting.md`).

use libm::{erfc, exp, expm1, log};

use super::error::PldError;
use super::lattice::Rules;
use super::points::Points;
use super::sums::{FINENESS, Side, Sum};

/// Deviations below which X has mass of 7e-39: one cell, down to 0.
const LOWEST: f64 = -13.0;
/// Largest logarithm of X and of its inverse.
const LARGEST: f64 = 600.0;
const INVERSE_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
/// What the accountant takes of any noise.
const MOST_NOISE: f64 = 1e6;
/// Bound on the error of the logarithm of a value, relative to 1 and to itself.
const LOSS_ERROR: f64 = 1e-15;
/// Bound on the relative error of a mass of a cell, quadrature included.
const MASS_ERROR: f64 = 1e-12;
/// Masses are not worked with beyond this relative error: to the first order it is a bound while it is small.
const MOST_ERROR: f64 = 0.1;
/// More than all that underflows.
const UNDERFLOW: f64 = 1e-200;

/// Upper tail of the standard normal law.
fn tail(x: f64) -> f64 {
    0.5 * erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Places of X from 0 on, equal steps of the normal variable apart up to so many deviations, and what each cell has at its upper and lower
/// end when mass and mean are kept.
fn cells(s: f64, far: f64) -> (Vec<f64>, Vec<(f64, f64)>) {
    let n = ((far - LOWEST) / FINENESS).ceil() as usize;
    let step = (far - LOWEST) / n as f64;
    let place = |i: usize| LOWEST + step * i as f64;
    let x = |y: f64| exp(s * y - 0.5 * s * s);
    let mut places = vec![0.0];
    places.extend((0..=n).map(|i| x(place(i))));
    // All of the mass below as if it stayed, and its mean as well: a little more than there is.
    let below = tail(s - LOWEST) / places[1];
    let mut parts = vec![(below, tail(-LOWEST))];
    let rules = Rules::new();
    let width = expm1(s * step);
    for i in 0..n {
        let (mut up, mut down) = (0.0, 0.0);
        let from = place(i);
        let radius = 1.0 / (1.0 + s + from.abs());
        for &(at, weight) in rules.pick(step, radius) {
            let y = from + step * at;
            let mass = exp(-0.5 * y * y) * weight * step * INVERSE_SQRT_TAU;
            let share = expm1(s * step * at) / width;
            let rest = exp(s * step * at) * expm1(s * step * (1.0 - at)) / width;
            up += mass * share;
            down += mass * rest;
        }
        parts.push((up, down));
    }
    (places, parts)
}

/// The law of S under Q from above and from below, which both directions have.
pub(super) struct Laws {
    noise: f64,
    steps: u64,
    ln_above: f64,
    upper: Sum,
    lower: Sum,
}

impl Laws {
    /// That of one allocation. Masses of P (or Q, where the record is added) beyond `e^{ln_above}` count as infinite losses.
    pub(super) fn new(noise: f64, steps: u64, ln_above: f64) -> Result<Self, PldError> {
        let s = 1.0 / noise;
        let reach = (2.0 - 2.0 * ln_above).max(LOWEST * LOWEST).sqrt();
        let far = s + reach;
        if !(s * (0.5 * s + reach) < LARGEST) {
            return Err(PldError::Noise {
                value: noise,
                smallest: (reach + (reach * reach + 2.0 * LARGEST).sqrt()) / (2.0 * LARGEST),
                largest: MOST_NOISE,
            });
        }
        let (places, parts) = cells(s, far);
        let beyond = (tail(far) * (1.0 + 1e-10), tail(far - s) * (1.0 + 1e-10));
        // A place is `exp` of a number of this size, whose error is relative; and the mean of a cell, where what is below stands, moves with
        // the errors of both parts, by as much of the cell.
        let argument = s * (far - LOWEST) + 0.5 * s * s;
        let cell = places
            .windows(2)
            .skip(1)
            .map(|pair| pair[1] / pair[0] - 1.0);
        let place_error =
            (4.0 + 2.0 * argument) * f64::EPSILON + MASS_ERROR * cell.fold(0.0, f64::max);
        let law = |side| {
            let one = Sum::one(side, &places, &parts, beyond, (MASS_ERROR, place_error));
            one.copies(steps, s, exp(ln_above - 1.0))
        };
        let upper = law(Side::Upper);
        if !(upper.mass_error < MOST_ERROR) {
            return Err(PldError::Allocation {
                steps,
                error: upper.mass_error,
            });
        }
        let lower = law(Side::Lower);
        Ok(Self {
            noise,
            steps,
            ln_above,
            upper,
            lower,
        })
    }

    /// Whether these are the laws that [`Laws::new`] makes of the same numbers.
    pub(super) fn are_of(&self, noise: f64, steps: u64, ln_above: f64) -> bool {
        (self.noise, self.steps, self.ln_above) == (noise, steps, ln_above)
    }

    /// The pair in a direction.
    pub(super) fn points(&self, added: bool) -> Points {
        let (sum, t) = (&self.upper, self.steps as f64);
        let mut infinite = UNDERFLOW;
        if !added {
            infinite += sum.lost * (1.0 + sum.mass_error) / t;
        }
        let error = |sum: &Sum, v: f64| LOSS_ERROR * (1.0 + log(v).abs()) + sum.place_error;
        let mut upper = Vec::with_capacity(sum.at.len());
        for (x, mass) in sum.at.iter().zip(&sum.mass) {
            let (v, mass) = (x / t, mass * (1.0 + sum.mass_error));
            match (v > 0.0, added) {
                (true, false) => upper.push((log(v) + error(sum, v), v * mass)),
                (true, true) => upper.push((error(sum, v) - log(v), mass)),
                (false, true) => infinite += mass,
                (false, false) => {}
            }
        }
        let sum = &self.lower;
        let mut lower = Vec::with_capacity(sum.at.len());
        for (x, mass) in sum.at.iter().zip(&sum.mass) {
            let (v, mass) = (x / t, mass * (1.0 - sum.mass_error));
            if v > 0.0 && mass > 0.0 {
                lower.push(match added {
                    false => (log(v) - error(sum, v), v * mass),
                    true => (-log(v) - error(sum, v), mass),
                });
            }
        }
        if added {
            upper.reverse();
            lower.reverse();
        }
        Points {
            upper,
            lower,
            infinite,
            infinite_lower: 0.0,
            grain: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(x: f64) -> f64 {
        tail(-x)
    }

    /// `E (k - X)_+` and `E (X - k)_+` of one log-normal X.
    fn put_and_call(s: f64, k: f64) -> (f64, f64) {
        if k <= 0.0 {
            return (0.0, 1.0 - k);
        }
        let x = log(k) / s + 0.5 * s;
        (k * below(x) - below(x - s), tail(x - s) - k * tail(x))
    }

    /// Of two steps, by the midpoint rule over the first, each direction by itself.
    #[test]
    fn each_direction_is_what_quadrature_says() {
        let n = 4000;
        let width = 24.0 / f64::from(n);
        for noise in [1.0, 1.5, 4.0] {
            let s = 1.0 / noise;
            let laws = Laws::new(noise, 2, -30.0).unwrap();
            for eps in [-0.3_f64, 0.0, 0.1, 0.4, 1.0] {
                let a = exp(eps);
                let mut truth = [0.0; 2];
                for i in 0..n {
                    let y = -12.0 + width * (f64::from(i) + 0.5);
                    let mass = exp(-0.5 * y * y) * INVERSE_SQRT_TAU * width;
                    let x = exp(s * y - 0.5 * s * s);
                    truth[0] += mass * 0.5 * put_and_call(s, 2.0 * a - x).1;
                    truth[1] += mass * 0.5 * a * put_and_call(s, 2.0 / a - x).0;
                }
                for (added, truth) in [(false, truth[0]), (true, truth[1])] {
                    if truth < 1e-8 {
                        continue;
                    }
                    let law = laws.points(added);
                    let of = |list: &[(f64, f64)]| -> f64 {
                        list.iter()
                            .map(|(loss, mass)| mass * -(eps - loss).min(0.0).exp_m1())
                            .sum()
                    };
                    let (upper, lower) = (of(&law.upper) + law.infinite, of(&law.lower));
                    let at = format!("{noise} {eps} {added} {lower} {truth} {upper}");
                    assert!(upper >= truth * (1.0 - 1e-8), "{at}");
                    assert!(upper <= truth * (1.0 + 1e-3), "{at}");
                    assert!(lower <= truth * (1.0 + 1e-8), "{at}");
                }
            }
        }
    }
}
