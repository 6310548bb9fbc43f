//! The positive part of a sum of independent copies of a variable on a lattice, from above.
//!
//! The law is tilted by `e^{l x}` so that the sum is where it passes 0, and added up by one fast Fourier transform. Its error is then one
//! relative to the result, however small that is.

use libm::{exp, log};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use super::compose::{power, transform_error};
use super::error::PldError;

/// Most points of a law.
pub(super) const POINTS: f64 = 32_768.0;
/// Longest transform.
const LONGEST: f64 = 4_194_304.0;
/// Log of what may lie outside the window on a side, of the tilted law; and both, rounded up.
const LN_OUTSIDE: f64 = -45.0;
const OUTSIDE: f64 = 8e-20;
/// Most points that a tilt and a window are planned with.
const PLANNED: usize = 1024;

/// Masses at `(first + i) g`.
pub(super) struct Lattice {
    pub(super) first: i64,
    pub(super) masses: Vec<f64>,
    pub(super) g: f64,
}

/// Of a sum: at least.
pub(super) struct Positive {
    /// The mean of its positive part.
    pub(super) mean: f64,
    /// The probability that it is positive.
    pub(super) probability: f64,
}

/// Few places and logarithms of masses, from above in convex order.
struct Rough(Vec<(f64, f64)>);

impl Rough {
    /// `log E e^{l x}`, and the mean of x under the tilt.
    fn moments(&self, l: f64) -> (f64, f64) {
        let exponents = || self.0.iter().map(|(x, ln)| (*x, l * x + ln));
        let top = exponents().fold(f64::NEG_INFINITY, |top, (_, e)| top.max(e));
        let (mut sum, mut first) = (0.0, 0.0);
        for (x, e) in exponents().filter(|(_, e)| *e > top - 750.0) {
            let term = exp(e - top);
            sum += term;
            first += term * x;
        }
        (top + log(sum), first / sum)
    }

    /// The tilt at which the mean of the positive part gathers.
    fn tilt(&self, steps: f64, scale: f64) -> f64 {
        let (mut low, mut high) = (log(1e-4 / scale), log(1e4 / scale));
        for _ in 0..24 {
            let l = 0.5 * (low + high);
            if steps * self.moments(exp(l)).1 < 2.0 * exp(-l) {
                low = l;
            } else {
                high = l;
            }
        }
        exp(low)
    }
}

impl Lattice {
    /// On every so-manieth point, with mass and mean kept: convex functions can only grow.
    fn rough(&self) -> Rough {
        let by = self.masses.len().div_ceil(PLANNED).max(1);
        let mut out = vec![0.0; self.masses.len() / by + 2];
        for (i, mass) in self.masses.iter().enumerate() {
            let right = (i % by) as f64 / by as f64;
            out[i / by] += mass * (1.0 - right);
            out[i / by + 1] += mass * right;
        }
        let place = |i: usize| (self.first as f64 + (i * by) as f64) * self.g;
        let all = out.iter().enumerate().filter(|(_, mass)| **mass > 0.0);
        Rough(all.map(|(i, mass)| (place(i), log(*mass))).collect())
    }

    /// Of the sum of `steps` of them, which has a deviation of about `scale`.
    pub(super) fn positive(
        &self,
        steps: u64,
        scale: f64,
        planner: &mut RealFftPlanner<f64>,
    ) -> Result<Positive, PldError> {
        let (t, g) = (steps as f64, self.g);
        let rough = self.rough();
        let l = rough.tilt(t, scale);
        // Any constant would do; by this one the tilted masses add up to about 1.
        let (ln_total, _) = rough.moments(l);
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        for i in 0..24 {
            let by = exp(-0.4 * f64::from(i)) * 30.0 / scale;
            let ln = |by: f64| t * (rough.moments(l + by).0 - ln_total) - LN_OUTSIDE;
            low = low.max(-ln(-by) / by);
            high = high.min(ln(by) / by);
        }
        let length = (high - low) / g + 4.0;
        if !(length > 0.0 && length <= LONGEST) {
            return Err(PldError::TooFine {
                cells: length,
                limit: LONGEST,
            });
        }
        let size = (length as usize).max(1024).next_power_of_two();
        let mut input = vec![0.0; size];
        let mut exponent = 1.0_f64;
        let mut total = 0.0;
        for (i, mass) in self.masses.iter().enumerate() {
            if *mass > 0.0 {
                let e = l * (self.first as f64 + i as f64) * g - ln_total;
                exponent = exponent.max(e.abs());
                let tilted = mass * exp(e);
                total += tilted;
                input[i % size] += tilted;
            }
        }
        let forward = planner.plan_fft_forward(size);
        let inverse = planner.plan_fft_inverse(size);
        let mut spectrum = forward.make_output_vec();
        let failed = |_| PldError::Transform { size };
        forward.process(&mut input, &mut spectrum).map_err(failed)?;
        let rounding = transform_error(size);
        let e = rounding * total * 1.001;
        let last = spectrum.len() - 1;
        let mut error = 0.0;
        for (k, value) in spectrum.iter_mut().enumerate() {
            let largest = value.norm() * (1.0 + 1e-15) + e;
            let bound = exp(t * log(largest)) * 1.001;
            let relative = t * (e / largest + 4.0 * f64::EPSILON);
            let twice = if k == 0 || k == last { 1.0 } else { 2.0 };
            error += twice * bound * (relative.min(2.0) + rounding);
            *value = power(*value, steps);
        }
        spectrum[0] = Complex::new(spectrum[0].re, 0.0);
        spectrum[last] = Complex::new(spectrum[last].re, 0.0);
        let mut raw = inverse.make_output_vec();
        inverse.process(&mut spectrum, &mut raw).map_err(failed)?;
        let error = error / size as f64 * 1.001;

        // Places of the sum count from `steps` times the first one.
        let offset = t * self.first as f64;
        let start = (low / g - offset).floor() as i64;
        let begin = (-offset - 1.0).max(start as f64) as i64;
        let (mut mean, mut probability) = (0.0, 0.0);
        for i in begin..start + size as i64 {
            let v = (offset + i as f64) * g;
            let fade = exp(-l * v);
            if fade < 1e-60 {
                break;
            }
            let mass =
                fade * (raw[i.rem_euclid(size as i64) as usize].max(0.0) / size as f64 + error);
            mean += v.max(0.0) * mass;
            probability += mass;
        }
        // What is outside weighs at most `max_v v e^{-l v}`; beyond the end of the loop less than nothing that counts.
        let seen = 1.0 + 1e-11 + f64::EPSILON * size as f64;
        let missing = OUTSIDE + 1e-50 * exp(t * log(total));
        let slack = 8.0 * f64::EPSILON * (t * (exponent + ln_total.abs() + 1.0) + 200.0);
        let front = exp(t * ln_total + slack);
        Ok(Positive {
            mean: front * (mean * seen + missing / (std::f64::consts::E * l)),
            probability: front * (probability * seen + missing),
        })
    }
}
