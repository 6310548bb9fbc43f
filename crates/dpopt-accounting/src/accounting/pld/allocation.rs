//! The loss of a Gaussian query answered at every step, where a record takes part in one step of t, drawn uniformly.
//!
//! Against the law Q without the record, the law P with it has the density `S/t`, `S = X_1 + ... + X_t`, and under Q the `X_i` are
//! independent and log-normal: `X = e^{u}`, u normal with mean `-s^2/2` and deviation `s = 1/z`. So `H_a = E_Q (S/t - a)_+`, a convex
//! function of each `X_i` (`docs/privacy/random-allocation.md`).

use libm::{erfc, exp, log};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use super::compose::{power, transform_error};
use super::error::PldError;
use super::lattice::Rules;
use super::points::Points;

/// Log of what may lie outside the window.
const LN_OUTSIDE: f64 = -45.0;
/// The same, rounded up.
pub(super) const OUTSIDE: f64 = 4e-20;
/// Distance of lattice points over the deviation of X, unless there would be more of them than the second number in the window;
/// and the longest transform. Tuned.
const FINENESS: f64 = 0.003;
pub(super) const POINTS: f64 = 262_144.0;
pub(super) const LONGEST: f64 = 4_194_304.0;

/// Most points that a window is planned with.
const PLANNED: usize = 2048;

/// Deviations below which X has mass of `e^{-800}`.
const LOWEST: f64 = -40.0;

/// X in cells `[i g, (i+1) g]`: what keeps mass and mean.
struct Cells {
    up: Vec<f64>,
    down: Vec<f64>,
}

/// Upper tail of the standard normal law.
fn tail(x: f64) -> f64 {
    0.5 * erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

impl Cells {
    fn new(s: f64, g: f64, most: f64) -> Self {
        let n = (most / g).ceil() as usize + 1;
        let (mut up, mut down) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let place = |x: f64| (log(x) + 0.5 * s * s) / s;
        let first = place(g);
        up.push(tail(s - first) / g);
        down.push((tail(-first) - tail(s - first) / g).max(0.0));
        let rules = Rules::new();
        let mut from = first;
        for i in 1..n {
            let to = place((i + 1) as f64 * g);
            if to <= LOWEST {
                // Less than the error of the cells near the mean.
                up.push(0.0);
                down.push(0.0);
                from = to;
                continue;
            }
            from = from.max(LOWEST);
            let (mut high, mut low, mut a) = (0.0, 0.0, from);
            while a < to {
                let radius = 1.0 / (1.0 + s + a.abs());
                let b = to.min(a + 0.2 * radius);
                if b <= a {
                    break;
                }
                for &(x, weight) in rules.pick(b - a, radius) {
                    let y = a + (b - a) * x;
                    let mass = exp(-0.5 * y * y) * weight * (b - a) * INVERSE_SQRT_TAU;
                    let part = (exp(s * y - 0.5 * s * s) / g - i as f64).clamp(0.0, 1.0);
                    high += mass * part;
                    low += mass * (1.0 - part);
                }
                a = b;
            }
            up.push(high);
            down.push(low);
            from = to;
        }
        Self { up, down }
    }

    /// Spread to the ends of the cells: a convex function can only grow.
    fn spread(&self, excess: f64) -> Vec<f64> {
        let mut out = vec![0.0; self.up.len() + 1];
        for (i, (up, down)) in self.up.iter().zip(&self.down).enumerate() {
            out[i] += down * (1.0 + excess);
            out[i + 1] += up * (1.0 + excess);
        }
        out
    }

    /// Each point stands for parts of the two cells beside it whose mean is not below it: a convex function that does not
    /// fall can only shrink.
    fn averaged(&self, excess: f64) -> Vec<f64> {
        let n = self.up.len();
        let mut out = vec![0.0; n + 1];
        let mut lifted = 0.0_f64;
        for k in (0..n).rev() {
            let mass = (self.up[k] + self.down[k]) * (1.0 - excess);
            out[k + 1] += lifted * mass;
            out[k] += (1.0 - lifted) * mass;
            if k == 0 {
                break;
            }
            let cost = self.down[k - 1];
            let gain = (1.0 - lifted) * self.up[k] * (1.0 - 4.0 * excess);
            let smooth = self.up[k] / (self.up[k] + cost);
            let share = smooth.min(gain / cost);
            lifted = if share.is_finite() {
                share.clamp(0.0, 1.0) * (1.0 - excess)
            } else {
                0.0
            };
        }
        out
    }
}

const INVERSE_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
/// Bound on the error of the logarithm of a value near 1.
const LOSS_ERROR: f64 = 1e-15;
/// Bound on the relative error of a mass of a cell, quadrature included.
const MASS_ERROR: f64 = 1e-13;

/// `log E e^{l X}` and `log E X e^{l X}` of a law on the lattice, given by the logarithms of its masses.
fn moments(ln_masses: &[f64], g: f64, l: f64) -> (f64, f64) {
    let exponent = |(i, ln): (usize, &f64)| l * i as f64 * g + ln;
    let top = ln_masses
        .iter()
        .enumerate()
        .map(exponent)
        .fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut first) = (0.0, 0.0);
    for (i, ln) in ln_masses.iter().enumerate() {
        let term = exp(exponent((i, ln)) - top);
        sum += term;
        first += term * i as f64 * g;
    }
    (top + log(sum), top + log(first))
}

/// The sum of `steps` of them, from below and above, in units of g: outside, P and Q have mass of at most
/// `e^{LN_OUTSIDE}`.
fn window(masses: &[f64], g: f64, steps: f64, spread: f64) -> (f64, f64) {
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    let ln_masses: Vec<f64> = masses.iter().map(|mass| log(*mass)).collect();
    for i in 0..24 {
        let l = exp(-0.4 * f64::from(i)) * 30.0 / spread;
        let (ln, _) = moments(&ln_masses, g, -l);
        low = low.max((-steps * ln + LN_OUTSIDE) / l - g);
        let (ln, first) = moments(&ln_masses, g, l);
        high = high.min((first + (steps - 1.0) * ln - LN_OUTSIDE) / l + g);
    }
    (low, high)
}

/// Masses on every so-manieth point, with mass and mean kept: convex functions can only grow.
fn apart(masses: &[f64], by: usize) -> Vec<f64> {
    let mut out = vec![0.0; masses.len() / by + 2];
    for (i, mass) in masses.iter().enumerate() {
        let right = (i % by) as f64 / by as f64;
        out[i / by] += mass * (1.0 - right);
        out[i / by + 1] += mass * right;
    }
    out
}

/// The law of the sum by a fast Fourier transform: first place, entries, and a bound on the error of each, wrapped mass
/// included.
pub(super) fn sum(
    masses: &[f64],
    g: f64,
    steps: u64,
    spread: f64,
) -> Result<(i64, Vec<f64>, f64), PldError> {
    let coarse = masses.len().div_ceil(PLANNED);
    let (low, high) = match coarse {
        0 | 1 => window(masses, g, steps as f64, spread),
        _ => window(
            &apart(masses, coarse),
            g * coarse as f64,
            steps as f64,
            spread,
        ),
    };
    let length = (high - low) / g + 2.0;
    if !(length > 0.0 && length <= LONGEST) {
        return Err(PldError::TooFine {
            cells: length,
            limit: LONGEST,
        });
    }
    let size = (length as usize).max(1024).next_power_of_two();
    let mut planner = RealFftPlanner::<f64>::new();
    let (forward, inverse) = (
        planner.plan_fft_forward(size),
        planner.plan_fft_inverse(size),
    );
    let mut input = vec![0.0; size];
    for (i, mass) in masses.iter().enumerate() {
        input[i % size] += mass;
    }
    let total: f64 = masses.iter().sum();
    let mut spectrum = forward.make_output_vec();
    let failed = |_| PldError::Transform { size };
    forward.process(&mut input, &mut spectrum).map_err(failed)?;
    let rounding = transform_error(size);
    let e = rounding * total * 1.001;
    let last = spectrum.len() - 1;
    let mut error = 0.0;
    for (k, value) in spectrum.iter_mut().enumerate() {
        let largest = value.norm() * (1.0 + 1e-15) + e;
        let bound = exp(steps as f64 * log(largest)) * 1.001;
        let relative = steps as f64 * (e / largest + 4.0 * f64::EPSILON);
        let twice = if k == 0 || k == last { 1.0 } else { 2.0 };
        error += twice * bound * (relative.min(2.0) + rounding);
        *value = power(*value, steps);
    }
    spectrum[0] = Complex::new(spectrum[0].re, 0.0);
    spectrum[last] = Complex::new(spectrum[last].re, 0.0);
    let mut raw = inverse.make_output_vec();
    inverse.process(&mut spectrum, &mut raw).map_err(failed)?;
    let start = (low / g).floor() as i64;
    let entries = (0..size)
        .map(|i| raw[(start + i as i64).rem_euclid(size as i64) as usize] / size as f64)
        .collect();
    Ok((start, entries, error / size as f64 * 1.001 + 2.0 * OUTSIDE))
}

/// The pair of one allocation in a direction; masses of P (or Q, where the record is `added`) beyond `e^{ln_above}` count as
/// infinite losses.
pub(super) fn points(
    noise: f64,
    steps: u64,
    added: bool,
    ln_above: f64,
) -> Result<Points, PldError> {
    let s = 1.0 / noise;
    let far = (-2.0 * ln_above).max(1.0).sqrt();
    let most = exp(0.5 * s * s + s * far);
    let spread = libm::sqrt(libm::expm1(s * s));
    let scale = spread * libm::sqrt(steps as f64);
    let g = (FINENESS * spread).max((most + 20.0 * scale) / POINTS);
    if !(g < 0.3 * spread) || steps < 2 {
        return Err(PldError::TooFine {
            cells: (most + 20.0 * scale) / (0.3 * spread),
            limit: POINTS,
        });
    }
    let cells = Cells::new(s, g, most);
    // What is beyond the last cell counts as nothing for S, and its share of P is infinite.
    let cut = cells.up.len() as f64 * g;
    let beyond = tail((log(cut) - 0.5 * s * s) / s) * (1.0 + 1e-10);
    let mut masses = cells.spread(MASS_ERROR);
    masses[0] += tail((log(cut) + 0.5 * s * s) / s) * (1.0 + 1e-10);
    let (start, entries, error) = sum(&masses, g, steps, scale)?;
    let value = |i: usize| (start + i as i64) as f64 * g / steps as f64;
    let mut upper = Vec::with_capacity(entries.len());
    let mut infinite = if added { 0.0 } else { beyond };
    infinite += 2.0 * OUTSIDE;
    for (i, entry) in entries.iter().enumerate() {
        let (v, mass) = (value(i), entry.max(0.0) + error);
        match (v > 0.0, added) {
            (true, false) => upper.push((log(v) + LOSS_ERROR, v * mass)),
            (true, true) => upper.push((LOSS_ERROR - log(v), mass)),
            (false, true) => infinite += mass,
            (false, false) => {}
        }
    }
    let mut lower = vec![(0.0, 1.0)];
    if added {
        upper.reverse();
    } else {
        let masses = cells.averaged(MASS_ERROR);
        let (start, entries, error) = sum(&masses, g, steps, scale)?;
        lower.clear();
        for (i, entry) in entries.iter().enumerate() {
            let v = (start + i as i64) as f64 * g / steps as f64;
            let mass = entry - error;
            if v > 0.0 && mass > 0.0 {
                lower.push((log(v) - LOSS_ERROR, v * mass));
            }
        }
    }
    Ok(Points {
        upper,
        lower,
        infinite,
        infinite_lower: 0.0,
        grain: None,
    })
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
                    let law = points(noise, 2, added, -30.0).unwrap();
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
