//! The contour integral: abscissa, step and length, the sum, and what bounds its error.

use std::f64::consts::PI;

use realfft::num_complex::Complex64;

use super::error::ExactError;
use super::moments::{Cumulant, Entry, Moments};
use crate::accounting::special::log_one_minus_exp;

/// log of the share of delta that each source of error may take.
const LN_SHARE: f64 = -32.0;
/// Most work on one table, in nodes times arguments.
const MOST_WORK: f64 = 3e7;
/// The same for each kind of release, where there are many.
const MOST_WORK_OF_A_KIND: f64 = 2e5;
/// Most arguments.
const MOST_ARGUMENTS: f64 = 4e5;
/// How far the tail may stay above its share, as a logarithm: then the answer is poor, but one.
const TAIL_SLACK: f64 = 25.0;
/// Range of the search for the saddle point, on either side of 1, as a logarithm.
const LN_THETA: f64 = 30.0;
/// Candidates for the abscissa and for the exponents of the Chernoff bounds, over the saddle
/// point: a geometric sequence.
const CANDIDATES: (f64, f64, f64) = (0.15, 3.0, 1.1);
/// More of them where a far mode may set in.
const CLOSE: [f64; 5] = [0.97, 0.99, 1.0, 1.01, 1.03];
/// How far the integrand on the real axis may exceed delta, and its least value there, as
/// logarithms.
const CANCELLED: (f64, f64) = (8.0, 1.0);
/// Slack of a Chernoff bound, on its logarithm: absolute, and per unit of the cumulant.
const CHERNOFF_SLACK: (f64, f64) = (1e-6, 1e-8);

/// Independent mechanisms.
pub(super) struct Composition {
    pub(super) parts: Vec<Box<dyn Moments>>,
}

/// The saddle point that belongs to an epsilon, and the delta there by Laplace's method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saddle {
    pub(super) theta: f64,
    pub(super) epsilon: f64,
    pub(super) ln_delta: f64,
}

impl Composition {
    pub(super) fn supremum(&self) -> f64 {
        self.parts.iter().map(|part| part.supremum()).sum()
    }

    fn extend(&mut self, theta: f64) -> Result<(), ExactError> {
        self.parts
            .iter_mut()
            .try_for_each(|part| part.extend(theta))
    }

    fn cumulant(&self, theta: f64) -> Cumulant {
        let mut total = Cumulant::default();
        for part in &self.parts {
            let one = part.cumulant(theta);
            total.value += one.value;
            total.mean += one.mean;
            total.variance += one.variance;
        }
        total
    }

    fn value(&self, theta: f64) -> f64 {
        self.parts.iter().map(|part| part.value(theta)).sum()
    }

    fn at(&mut self, theta: f64) -> Result<Saddle, ExactError> {
        self.extend(theta)?;
        let k = self.cumulant(theta);
        let epsilon = k.mean - 1.0 / theta - 1.0 / (1.0 + theta);
        let curvature = k.variance + theta.powi(-2) + (1.0 + theta).powi(-2);
        let ln_delta = k.value
            - theta * epsilon
            - theta.ln()
            - theta.ln_1p()
            - 0.5 * (2.0 * PI * curvature).ln();
        Ok(Saddle {
            theta,
            epsilon,
            ln_delta,
        })
    }

    /// The saddle point at which `too_small` turns false; it is true left of it.
    pub(super) fn saddle(
        &mut self,
        too_small: impl Fn(&Saddle) -> bool,
    ) -> Result<Saddle, ExactError> {
        let mut step = 1.0;
        let mut at = self.at(1.0)?;
        let up = too_small(&at);
        let mut before = at;
        // Bracket.
        while too_small(&at) == up {
            let ln = at.theta.ln() + if up { step } else { -step };
            if ln.abs() > LN_THETA {
                return Err(ExactError::NoSaddle { tilt: ln.exp() });
            }
            step = 1.2;
            before = at;
            at = self.at(ln.exp())?;
        }
        let (mut low, mut high) = if up { (before, at) } else { (at, before) };
        // Where a far mode sets in, a tiny step of theta is a large one of epsilon.
        for _ in 0..60 {
            let wide = high.theta > 1.01 * low.theta;
            if !wide && (high.epsilon - low.epsilon) * low.theta <= 0.5 {
                break;
            }
            at = self.at((low.theta * high.theta).sqrt())?;
            if too_small(&at) {
                low = at;
            } else {
                high = at;
            }
        }
        Ok(at)
    }

    /// Whether delta at `epsilon` is at most `e^{ln_delta}` by a Chernoff bound. Saying no proves
    /// nothing.
    pub(super) fn surely_below(&mut self, epsilon: f64, ln_delta: f64) -> bool {
        let mut least = f64::INFINITY;
        let mut theta = 0.5;
        while self.extend(theta).is_ok() {
            let bound = chernoff(theta, self.value(theta), epsilon);
            if bound <= ln_delta {
                return true;
            }
            // A convex function less a concave one that hardly bends: past its minimum.
            if bound > least + 1.0 {
                return false;
            }
            least = least.min(bound);
            theta *= 1.25;
        }
        false
    }
}

/// `log max_x (1 - e^{-x}) e^{-theta x}`.
fn ln_gain(theta: f64) -> f64 {
    if theta == 0.0 {
        return 0.0;
    }
    // theta log(theta / (1 + theta)) - log(1 + theta)
    -theta * (1.0 / theta).ln_1p() - theta.ln_1p()
}

/// The moment function tabulated on one contour: delta at any epsilon near the one it is for.
pub(super) struct Integral {
    theta: f64,
    h: f64,
    /// `K(theta)`.
    value: f64,
    /// `e^{K(s) - K(theta)} / (s (s + 1))`, halved at the real axis.
    terms: Vec<Complex64>,
    /// Sum of the terms' errors, of their sizes, and of their sizes times `t`.
    error: f64,
    size: f64,
    moment: f64,
    /// Exponents and cumulants for the Chernoff bounds.
    chernoff: Vec<(f64, f64)>,
    supremum: f64,
}

/// delta, as logarithms, with its slope in epsilon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) ln: f64,
    pub(super) ln_lower: f64,
    pub(super) ln_upper: f64,
    /// `- d log delta / d epsilon`.
    pub(super) slope: f64,
}

impl Integral {
    /// A contour for epsilons near that of `saddle`, where delta is about `e^{saddle.ln_delta}`.
    pub(super) fn new(of: &mut Composition, saddle: &Saddle) -> Result<Self, ExactError> {
        let supremum = of.supremum();
        of.extend(saddle.theta * CANDIDATES.1)?;
        let mut chernoff = vec![(0.0, 0.0)];
        let mut ratio = CANDIDATES.0;
        while ratio < CANDIDATES.1 {
            let theta = ratio * saddle.theta;
            chernoff.push((theta, of.value(theta)));
            ratio *= CANDIDATES.2;
        }
        for ratio in CLOSE {
            let theta = ratio * saddle.theta;
            chernoff.push((theta, of.value(theta)));
        }
        let (theta, value, period) = choose(&chernoff, saddle, supremum)?;
        let h = 2.0 * PI / period;
        for part in &mut of.parts {
            part.prepare_decay(theta)?;
        }
        let decay = |t: f64| -> f64 {
            of.parts.iter().map(|part| part.ln_decay(t)).sum::<f64>() - (PI * t).ln()
        };
        // The sum is of this size.
        let wanted = LN_SHARE + saddle.ln_delta - (value - theta * saddle.epsilon);
        let work: f64 = of.parts.iter().map(|part| part.weight()).sum();
        let allowed = MOST_WORK.max(MOST_WORK_OF_A_KIND * of.parts.len() as f64);
        let most = (allowed / work).min(MOST_ARGUMENTS) * h;
        let mut end = 8.0 * h;
        let mut reached = end;
        while decay(end) > wanted && end < most {
            reached = end;
            end *= 1.3;
        }
        for _ in 0..2 {
            let middle = 0.5 * (reached + end);
            if decay(middle) > wanted {
                reached = middle;
            } else {
                end = middle;
            }
        }
        let last = (end / h).ceil();
        if decay(last * h) > wanted + TAIL_SLACK {
            return Err(ExactError::TooManyArguments {
                limit: last as usize,
            });
        }
        let tail = decay(last * h).exp();
        let mut entries = vec![Entry::default(); last as usize + 1];
        for part in &of.parts {
            part.table(theta, h, &mut entries)?;
        }
        let mut out = Self {
            theta,
            h,
            value: entries.first().map_or(value, |e| e.ln.re),
            terms: Vec::with_capacity(entries.len()),
            error: tail * PI / h,
            size: 0.0,
            moment: 0.0,
            chernoff,
            supremum,
        };
        for (k, entry) in entries.iter().enumerate() {
            let t = k as f64 * h;
            let s = Complex64::new(theta, t);
            let below = (s * (s + Complex64::new(1.0, 0.0))).inv();
            let half = if k == 0 { 0.5 } else { 1.0 };
            let term = Complex64::new(entry.ln.re - out.value, entry.ln.im).exp() * below;
            let term = term.scale(half);
            let size = term.norm();
            let error = entry.error + 4.0 * f64::EPSILON * (8.0 + entry.ln.norm());
            if entry.unknown {
                out.error += size * error.exp();
                out.terms.push(Complex64::default());
                continue;
            }
            out.error += size * error.exp_m1();
            out.size += size;
            out.moment += size * t;
            out.terms.push(term);
        }
        Ok(out)
    }

    /// delta at `epsilon`.
    pub(super) fn at(&self, epsilon: f64) -> Value {
        let (mut sum, mut slope) = (0.0, 0.0);
        for (k, term) in self.terms.iter().enumerate() {
            let t = k as f64 * self.h;
            let (sin, cos) = (t * epsilon).sin_cos();
            let re = term.re * cos + term.im * sin;
            let im = term.im * cos - term.re * sin;
            sum += re;
            slope += self.theta * re - t * im;
        }
        let terms = self.terms.len() as f64;
        let rounding = f64::EPSILON
            * ((8.0 + terms.min(64.0) + terms / 64.0) * self.size
                + 2.0 * epsilon.abs() * self.moment);
        let error = self.error + rounding;
        let exponent = self.value - self.theta * epsilon;
        let alias = self.alias(epsilon, exponent) * PI / self.h;
        let shift = exponent + (self.h / PI).ln();
        let slack = 8.0
            * f64::EPSILON
            * (1.0 + self.value.abs() + self.theta * epsilon.abs() + shift.abs());
        let (mut ln_lower, mut ln_upper) = (
            shift + (sum - error - alias).max(0.0).ln() - slack,
            shift + (sum + error).max(0.0).ln() + slack,
        );
        // Where something overflowed nothing is known; `max` would turn a NaN into a zero.
        if !((sum + error + shift + slack).is_finite() && ln_upper.is_finite()) {
            (ln_lower, ln_upper) = (f64::NEG_INFINITY, f64::INFINITY);
        }
        Value {
            ln: shift + sum.ln(),
            ln_lower,
            ln_upper,
            slope: slope / sum,
        }
    }

    /// The aliases, which the trapezoid rule adds to delta, over `e^exponent`: at most this.
    fn alias(&self, epsilon: f64, exponent: f64) -> f64 {
        let period = 2.0 * PI / self.h;
        let (mut above, mut below) = (f64::INFINITY, f64::INFINITY);
        for (theta, value) in &self.chernoff {
            let bound = chernoff(*theta, *value, epsilon) - exponent;
            let distance = (theta - self.theta) * period;
            // The geometric series of the aliases, whose parts may overflow.
            let size = distance.abs();
            let series = (bound - size - log_one_minus_exp(-size)).exp();
            if distance > 0.0 {
                above = above.min(series);
            } else if distance < 0.0 {
                below = below.min(series);
            }
        }
        if epsilon + period >= self.supremum * (1.0 + 1e-12) {
            above = 0.0;
        }
        above + below
    }
}

fn chernoff(theta: f64, value: f64, epsilon: f64) -> f64 {
    value - theta * epsilon + ln_gain(theta) + CHERNOFF_SLACK.0 + CHERNOFF_SLACK.1 * value.abs()
}

/// Abscissa, cumulant there, and the smallest period at which aliases are negligible.
fn choose(
    list: &[(f64, f64)],
    saddle: &Saddle,
    supremum: f64,
) -> Result<(f64, f64, f64), ExactError> {
    let epsilon = saddle.epsilon;
    let room =
        |(theta, value): (f64, f64)| chernoff(theta, value, epsilon) - saddle.ln_delta - LN_SHARE;
    let least = list[1..]
        .iter()
        .map(|(theta, value)| value - theta * epsilon - theta.ln())
        .fold(f64::INFINITY, f64::min);
    let mut best = (saddle.theta, 0.0, f64::INFINITY);
    for &(theta, value) in &list[1..] {
        // What cancels in the sum is lost.
        let cancelled = value - theta * epsilon - theta.ln();
        if cancelled > saddle.ln_delta + CANCELLED.0 && cancelled > least + CANCELLED.1 {
            continue;
        }
        let (mut above, mut below) = (f64::INFINITY, f64::INFINITY);
        for &(other, at_other) in list {
            let need = room((other, at_other)).max(1.0) / (other - theta).abs();
            if other > theta {
                above = above.min(need);
            } else if other < theta {
                below = below.min(need);
            }
        }
        above = above.min((supremum - epsilon).max(0.0) * (1.0 + 1e-9));
        let period = above.max(below);
        if period < best.2 {
            best = (theta, value, period);
        }
    }
    if best.2.is_finite() {
        Ok(best)
    } else {
        Err(ExactError::NoSaddle { tilt: saddle.theta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `f64::max` takes the number rather than the NaN, which would certify a delta of 0.
    #[test]
    fn what_overflowed_certifies_nothing() {
        for (term, error) in [(1.0, f64::NAN), (1.0, f64::INFINITY), (f64::NAN, 0.0)] {
            let integral = Integral {
                theta: 1.0,
                h: 0.1,
                value: 0.0,
                terms: vec![Complex64::new(term, 0.0)],
                error,
                size: 1.0,
                moment: 0.0,
                chernoff: vec![(0.0, 0.0)],
                supremum: f64::INFINITY,
            };
            let at = integral.at(1.0);
            assert_eq!(at.ln_lower, f64::NEG_INFINITY, "{at:?}");
            assert_eq!(at.ln_upper, f64::INFINITY, "{at:?}");
        }
    }
}
