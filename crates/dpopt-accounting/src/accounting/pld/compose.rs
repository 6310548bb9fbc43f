//! Composition by a fast Fourier transform of the tilted lattice, with everything that the
//! transform gets wrong bounded and added to the result.

use libm::{exp, expm1, log, log1p};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use super::error::PldError;
use super::lattice::Cells;
use super::plan::{Cumulants, Step, Window};

/// Parts of the planned Chernoff exponents that are tried: the plan does not know the lattice.
/// The part 0 gives the total tilted mass, which need not be 1.
const CHERNOFF: [f64; 5] = [1.0, 0.5, 0.25, 0.0625, 0.0];

/// Which side of the truth a composition stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Upper,
    Lower,
}

/// What a composition runs on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// Lattice step.
    pub(super) h: f64,
    /// Tilt.
    pub(super) theta: f64,
    /// What the transform must cover.
    pub(super) window: Window,
    /// Length of the transform, a power of two.
    pub(super) size: usize,
}

/// Spectrum entries below this (as a logarithm) are not computed but counted as error.
const LN_NEGLIGIBLE: f64 = -100.0;

/// The composed loss on the lattice under the tilted law
/// `f(j) = P(loss = j h + offset) e^{theta j h - ln_scale}`, for `j` in `start .. start + f.len()`.
pub(super) struct Composed {
    side: Side,
    f: Vec<f64>,
    start: i64,
    h: f64,
    theta: f64,
    ln_scale: f64,
    /// Bound on the error of each entry of `f`.
    entry_error: f64,
    /// Bound on the tilted mass outside the window, all of which the transform wraps into it.
    wrapped: f64,
    /// Bound on the part of it above the window.
    above: f64,
    /// Bound on the tilted mass in all.
    total: f64,
    /// Bound on the relative error of the masses, as a logarithm.
    ln_slack: f64,
    /// Mass at infinity: at most (upper side), or at least.
    infinite: f64,
    /// The composed loss less the lattice point that stands for it.
    offset: f64,
    /// Bound on the error of the composed loss.
    shift: f64,
}

/// Error of one output of a transform of length `n`, over the sum of the absolute inputs.
///
/// Each input reaches each output along one path of at most log2 n butterflies (and the
/// recombination of the real transform); per butterfly one multiplication by a twiddle factor
/// good to 4 units and one addition: 16 units cover it.
pub(super) fn transform_error(n: usize) -> f64 {
    16.0 * f64::EPSILON * (log(n as f64) / std::f64::consts::LN_2 + 4.0)
}

pub(super) fn power(mut base: Complex<f64>, mut exponent: u64) -> Complex<f64> {
    let mut result = Complex::new(1.0, 0.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// `log sum_i masses[i] e^{t (first + i) h}`, rounded up; infinite when it overflows.
fn ln_moment(masses: &[f64], first: i64, h: f64, t: f64) -> f64 {
    let exponent = |i: usize| t * (first + i as i64) as f64 * h;
    let present = || (0..masses.len()).filter(|&i| masses[i] > 0.0);
    // The exponent is monotone in i.
    let ends = [present().next(), present().next_back()];
    let largest = ends
        .into_iter()
        .flatten()
        .map(exponent)
        .fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let mut sum = 0.0;
    for i in present() {
        // What underflows is covered: each term is off by at most the smallest number.
        sum += masses[i] * exp(exponent(i) - largest) + f64::MIN_POSITIVE;
    }
    let smallest = ends.into_iter().flatten().map(exponent);
    let size = smallest.fold(largest.abs(), |size, e| size.max(e.abs()));
    // The terms are good to 1e-12 and their sum to 2^-53 times their number.
    let value = largest + log(sum) + 2e-12 + f64::EPSILON * (masses.len() as f64 + 8.0 * size);
    if value.is_nan() { f64::INFINITY } else { value }
}

impl Composed {
    /// Composes `steps`, cut into `cells` (one entry per kind of step, all at the grid's step).
    pub(super) fn new(
        side: Side,
        steps: &[Step],
        cells: &[Cells],
        cumulants: &Cumulants,
        grid: &Grid,
        planner: &mut RealFftPlanner<f64>,
    ) -> Result<Self, PldError> {
        let Grid {
            h,
            theta,
            window,
            size,
        } = *grid;
        let offset: f64 = steps
            .iter()
            .zip(cells)
            .map(|(step, cut)| step.count as f64 * cut.offset)
            .sum();
        let start = ((window.low - offset) / h).floor() as i64;
        let forward = planner.plan_fft_forward(size);
        let rounding = transform_error(size);

        let mut spectra: Vec<(Vec<Complex<f64>>, f64, u64)> = Vec::with_capacity(steps.len());
        let (mut ln_scale, mut ln_slack) = (0.0, 0.0);
        let (mut infinite, mut ln_finite) = (0.0, 0.0);
        let mut shift = 4.0
            * f64::EPSILON
            * (1.0 + steps.len() as f64)
            * steps.iter().zip(cells).fold(0.0, |sum, (step, cut)| {
                sum + step.count as f64 * cut.offset.abs()
            });
        // Chernoff exponents of the two sides of the window.
        let mut ln_above = [0.0; CHERNOFF.len()];
        let mut ln_below = [0.0; CHERNOFF.len()];
        // The composed loss cannot exceed the sum of the last points.
        let mut top = 0.0;
        for (index, (step, cut)) in steps.iter().zip(cells).enumerate() {
            let count = step.count as f64;
            let mut masses = match side {
                Side::Upper => cut.spread(),
                Side::Lower => cut.averaged(),
            };
            // Any constant would do; this one makes the tilted masses add up to about 1.
            let ln_total = cumulants.one(index, theta).value - theta * cut.offset;
            let mut exponent = 1.0_f64;
            for (i, mass) in masses.iter_mut().enumerate() {
                if *mass > 0.0 {
                    let tilt = theta * (cut.first + i as i64) as f64 * h;
                    exponent = exponent.max(tilt.abs());
                    let half = exp(0.5 * (tilt - ln_total));
                    // In this order: the square of `half` alone may overflow.
                    *mass = *mass * half * half;
                }
            }
            let total: f64 = masses.iter().sum();
            if !total.is_finite() {
                return Err(PldError::Overflow { theta });
            }
            for (i, part) in CHERNOFF.iter().enumerate() {
                ln_above[i] += count * ln_moment(&masses, cut.first, h, part * window.t_high);
                ln_below[i] += count * ln_moment(&masses, cut.first, h, -part * window.t_low);
            }
            top += count * (cut.first as f64 + masses.len() as f64);

            let mut input = vec![0.0; size];
            for (i, mass) in masses.iter().enumerate() {
                let at = (cut.first + i as i64).rem_euclid(size as i64) as usize;
                input[at] += mass;
            }
            let mut spectrum = forward.make_output_vec();
            forward
                .process(&mut input, &mut spectrum)
                .map_err(|_| PldError::Transform { size })?;
            spectra.push((spectrum, rounding * total * 1.001, step.count));

            ln_scale += count * ln_total;
            let tilt_error = 8.0 * f64::EPSILON * (exponent + ln_total.abs() + 1.0);
            ln_slack += count * (cut.relative_error + tilt_error) * 1.001;
            infinite += count * (cut.above + cut.infinite);
            ln_finite += count * log1p(-cut.infinite_lower.min(1.0));
            shift += count * cut.loss_error;
        }

        let inverse = planner.plan_fft_inverse(size);
        let mut product = inverse.make_input_vec();
        let last = product.len().saturating_sub(1);
        let mut error = 0.0;
        for (k, out) in product.iter_mut().enumerate() {
            let (mut ln_size, mut relative) = (0.0, 0.0);
            for (spectrum, e, count) in &spectra {
                let largest = spectrum[k].norm() * (1.0 + 1e-15) + e;
                ln_size += *count as f64 * log(largest);
                relative += *count as f64 * (e / largest + 4.0 * f64::EPSILON);
            }
            let twice = if k == 0 || k == last { 1.0 } else { 2.0 };
            let bound = exp(ln_size) * 1.001;
            if ln_size < LN_NEGLIGIBLE {
                *out = Complex::new(0.0, 0.0);
                error += twice * bound;
                continue;
            }
            let mut value = Complex::new(1.0, 0.0);
            for (spectrum, _, count) in &spectra {
                value *= power(spectrum[k], *count);
            }
            *out = value;
            error += twice * bound * (relative.min(2.0) + rounding);
        }
        product[0].im = 0.0;
        product[last].im = 0.0;
        drop(spectra);
        let mut raw = inverse.make_output_vec();
        inverse
            .process(&mut product, &mut raw)
            .map_err(|_| PldError::Transform { size })?;
        let scale = 1.0 / size as f64;
        let mut f = vec![0.0; size];
        for (i, slot) in f.iter_mut().enumerate() {
            *slot = raw[(start + i as i64).rem_euclid(size as i64) as usize] * scale;
        }

        if side == Side::Lower {
            // One step with an infinite loss makes an infinite loss.
            infinite = -expm1(ln_finite) * (1.0 - 1e-12);
        }
        let end = (start + size as i64) as f64 * h;
        let begin = start as f64 * h;
        let tail = |ln: &[f64], t: f64| {
            CHERNOFF
                .iter()
                .zip(ln)
                .map(|(part, ln)| exp(ln + part * t + ln_slack) * 1.001)
                .fold(f64::INFINITY, f64::min)
        };
        let above = if top * h * (1.0 + 1e-12) < end {
            0.0
        } else {
            tail(&ln_above, -window.t_high * end)
        };
        let below = tail(&ln_below, window.t_low * begin);
        let total = exp(ln_above[CHERNOFF.len() - 1] + ln_slack) * 1.001;
        let composed = Self {
            side,
            f,
            start,
            h,
            theta,
            ln_scale,
            entry_error: error * scale * 1.001,
            wrapped: above + below,
            above,
            total,
            ln_slack,
            infinite,
            offset,
            shift,
        };
        if composed.entry_error.is_finite() {
            Ok(composed)
        } else {
            Err(PldError::Overflow { theta })
        }
    }

    /// The bound on delta at `epsilon` that this composition certifies.
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        let eps = match self.side {
            Side::Upper => (epsilon - self.offset) - self.shift,
            Side::Lower => (epsilon - self.offset) + self.shift,
        };
        let theta = self.theta;
        let first = ((eps / self.h).floor() as i64 + 1).max(self.start);
        let end = self.start + self.f.len() as i64;
        let (decay, keep) = (exp(-theta * self.h), exp(-self.h));
        let gain = -expm1(-self.h);
        let mut sum = 0.0;
        let (mut fade, mut gap) = (1.0, 0.0);
        let mut ln_unseen = f64::NEG_INFINITY;
        for j in first..end {
            // The recurrences lose a unit per step: begin anew before that adds up.
            if (j - first) % 256 == 0 {
                let x = (j as f64 * self.h - eps).max(0.0);
                fade = exp(-theta * x);
                gap = -expm1(-x);
                if fade < 1e-40 {
                    ln_unseen = -theta * x;
                    break;
                }
            }
            let weight = fade * gap;
            let entry = self.f[(j - self.start) as usize];
            match self.side {
                Side::Upper => sum += weight * (entry + self.entry_error).max(0.0),
                Side::Lower => sum += weight * (entry - self.entry_error).max(0.0),
            }
            fade *= decay;
            gap = gap * keep + gain;
        }
        let ln_front = self.ln_scale - theta * eps;
        let arithmetic = 1e-11
            + 8.0
                * f64::EPSILON
                * (self.f.len() as f64 + self.ln_scale.abs() + (theta * eps).abs());
        match self.side {
            Side::Upper => {
                // Mass above the window weighs at most e^{-theta (end - eps)}, and what lies
                // between eps and a window that begins above it at most 1. In logarithms,
                // lest what a steep tilt makes small vanish.
                let beyond = (end as f64 * self.h - eps).max(0.0);
                let below = if eps < self.start as f64 * self.h {
                    self.wrapped - self.above
                } else {
                    0.0
                };
                let front = ln_front + self.ln_slack + arithmetic;
                let value = exp(front + log(sum + below))
                    + exp(front + log(self.above) - theta * beyond)
                    + exp(front + log(self.total) + ln_unseen)
                    + self.infinite;
                if value.is_nan() { 1.0 } else { value.min(1.0) }
            }
            Side::Lower => {
                // Wrapped mass weighs at most max_x e^{-theta x} (1 - e^{-x}).
                let heaviest = exp(theta * (log(theta) - log1p(theta))) / (1.0 + theta);
                let kept = sum - self.wrapped * heaviest * 1.001;
                let finite = if kept > 0.0 {
                    exp(ln_front - self.ln_slack - arithmetic + log(kept))
                } else {
                    0.0
                };
                (finite + self.infinite).min(1.0)
            }
        }
    }

    /// By bisection from `hint`, an epsilon in `[0, high]` that is certainly at least (upper
    /// side) or at most (lower side) the true one for `delta`. Infinite when the upper side
    /// finds none. Every probe is a certificate by itself, so it does not matter that the
    /// bounds far from the tilt's own epsilon are poor and need not be monotone.
    pub(super) fn epsilon(&self, delta: f64, hint: f64, high: f64) -> f64 {
        let fits = |eps: f64| self.delta(eps) <= delta;
        let hint = hint.clamp(0.0, high);
        // Farther from it than a few of these the tilt hides everything.
        let reach = 1.0 / self.theta;
        let mut stride = (0.01 * hint.max(reach)).min(reach);
        let (mut below, mut above) = (hint, hint);
        if fits(hint) {
            loop {
                below = (below - stride).max(0.0);
                if !fits(below) {
                    break;
                }
                above = below;
                if below == 0.0 {
                    return 0.0;
                }
                stride *= 2.0;
            }
        } else {
            loop {
                above = (above + stride).min(high);
                if fits(above) {
                    break;
                }
                below = above;
                if above >= high {
                    return match self.side {
                        Side::Upper => f64::INFINITY,
                        Side::Lower => high,
                    };
                }
                stride *= 2.0;
            }
        }
        // False position in log delta, every third time the middle.
        let excess = |eps: f64| log(self.delta(eps)) - log(delta);
        let (mut over, mut under) = (excess(below), excess(above));
        for round in 0..120_u32 {
            if above - below <= 1e-9 * above {
                break;
            }
            let share = over / (over - under);
            // A little past the root, to the side that is farther away.
            let push = if share < 0.5 { 3e-10 } else { -3e-10 } * above / (above - below);
            let probe = below + (share + push) * (above - below);
            let middle = if round % 3 != 2 && probe > below && probe < above {
                probe
            } else {
                0.5 * (below + above)
            };
            let value = self.delta(middle);
            if value <= delta {
                (above, under) = (middle, log(value) - log(delta));
            } else {
                (below, over) = (middle, log(value) - log(delta));
            }
        }
        match self.side {
            Side::Upper => above,
            Side::Lower => below,
        }
    }
}
