//! Log moments of a composition, and what they say at the best order.

use super::pair::Pair;
use crate::accounting::gdp;
use crate::accounting::moments::{log_inverse_gamma, simple};
use crate::accounting::parts::{Other, Parts};
use crate::accounting::releases::SampledGaussian;
use crate::accounting::without_replacement::WithoutReplacement;
use crate::adjacency::Adjacency;
use crate::units::{Epsilon, Mu};

/// Relative slack for rounding and quadrature, applied upwards to every divergence.
pub(super) const SLACK: f64 = 1e-12;

/// The log moments of a composition, as a function of `alpha - 1`.
pub(super) struct Curve {
    mu_squared: f64,
    pairs: Vec<(Pair, f64)>,
    others: Vec<(Moment, f64)>,
}

impl Curve {
    pub(super) fn new(parts: &Parts, adjacency: Adjacency) -> Self {
        let releases = &parts.releases;
        let pair = |s: &SampledGaussian| {
            let count = s.count as f64;
            (Pair::new(s.rate, s.noise_multiplier, adjacency), count)
        };
        Curve {
            mu_squared: releases.mu_squared(),
            pairs: releases.sampled.iter().map(pair).collect(),
            others: parts
                .others
                .iter()
                .map(|(other, count)| (Moment::new(other, adjacency), *count as f64))
                .collect(),
        }
    }

    pub(super) fn log_moment(&self, x: f64) -> f64 {
        let plain = 0.5 * self.mu_squared * (1.0 + x) * x;
        let sampled: f64 = self
            .pairs
            .iter()
            .map(|(pair, count)| pair.log_moment(x) * count)
            .sum();
        let others: f64 = self
            .others
            .iter()
            .map(|(moment, count)| moment.log_moment(x) * count)
            .sum();
        let total = (plain + sampled + others) * (1.0 + SLACK);
        // What underflows on the way is still not nothing.
        if self.mu_squared > 0.0 || !self.pairs.is_empty() || !self.others.is_empty() {
            total + f64::MIN_POSITIVE
        } else {
            total
        }
    }
}

/// One release, ready for evaluation.
enum Moment {
    Simple(Other),
    WithoutReplacement(WithoutReplacement),
    Selected(Box<Selection>),
    Parallel(Vec<Curve>),
}

impl Moment {
    fn new(other: &Other, adjacency: Adjacency) -> Self {
        match other {
            Other::WithoutReplacement {
                rate,
                noise_multiplier,
            } => Moment::WithoutReplacement(WithoutReplacement::new(*rate, *noise_multiplier)),
            Other::Selected { inner, mean, shape } => {
                Moment::Selected(Box::new(Selection::new(inner, *mean, *shape, adjacency)))
            }
            Other::Parallel(parts) => Moment::Parallel(
                parts
                    .iter()
                    .map(|part| Curve::new(part, adjacency))
                    .collect(),
            ),
            simple => Moment::Simple(simple.clone()),
        }
    }

    /// `K(x)`, or a bound on it; infinite where there is none.
    fn log_moment(&self, x: f64) -> f64 {
        let value = match self {
            Moment::Simple(other) => simple(other, x),
            Moment::WithoutReplacement(bound) => bound.log_moment(x),
            Moment::Selected(selection) => selection.log_moment(x),
            Moment::Parallel(curves) => curves
                .iter()
                .map(|curve| curve.log_moment(x))
                .fold(0.0, f64::max),
        };
        // What underflows on the way is still not nothing.
        value + f64::MIN_POSITIVE
    }
}

/// Releases the best of a random number of runs (Papernot and Steinke 2022, arXiv 2110.03620).
///
/// With the single run's log moment K, mean number m, and for a truncated negative binomial
/// number of shape eta and parameter gamma (Theorem 2)
///
/// `K'(x) = K(x) + log m + x (1 + eta) min over y of (K(y) + log(1/gamma)) / (1 + y)`,
///
/// and for a Poisson number (Theorem 6) `K'(x) = K(x) + log m + x m delta`, where one run is
/// `(log(1 + 1/x), delta)`-DP. The Renyi divergence grows with the order, so that of any larger
/// order may stand in.
struct Selection {
    inner: Curve,
    /// The GDP parameter of one run where that is all of it.
    mu: Option<Mu>,
    mean: f64,
    kind: Repetitions,
}

enum Repetitions {
    Poisson,
    /// The term in x, the x of the least divergence, and that divergence.
    Binomial {
        constant: f64,
        best: f64,
        least: f64,
    },
}

impl Selection {
    fn new(inner: &Parts, mean: f64, shape: f64, adjacency: Adjacency) -> Self {
        let curve = Curve::new(inner, adjacency);
        let mu = match inner.is_gaussian() {
            true => inner.releases.mu().ok().flatten(),
            false => None,
        };
        let kind = if shape == f64::INFINITY {
            Repetitions::Poisson
        } else {
            let penalty = log_inverse_gamma(mean, shape);
            let (_, least) = minimise(|y| (curve.log_moment(y) + penalty) / (1.0 + y));
            // Order 1 is allowed too.
            let constant = (1.0 + shape) * least.min(penalty) * (1.0 + SLACK);
            let (best, least) = minimise(|x| (curve.log_moment(x) + mean.ln()) / x + constant);
            Repetitions::Binomial {
                constant,
                best,
                least,
            }
        };
        Selection {
            inner: curve,
            mu,
            mean,
            kind,
        }
    }

    fn log_moment(&self, x: f64) -> f64 {
        let own = self.inner.log_moment(x) + self.mean.ln();
        let value = match self.kind {
            Repetitions::Binomial {
                constant,
                best,
                least,
            } => {
                let value = own + x * constant;
                if x < best {
                    value.min(x * least)
                } else {
                    value
                }
            }
            Repetitions::Poisson => {
                let delta = match (Epsilon::new((1.0 / x).ln_1p().next_down()), self.mu) {
                    (Ok(epsilon), Some(mu)) => gdp::delta(mu, epsilon),
                    (Ok(epsilon), None) => delta_from(&self.inner, epsilon),
                    (Err(_), _) => 1.0,
                };
                own + x * self.mean * delta
            }
        };
        value * (1.0 + SLACK)
    }
}

/// delta at `epsilon` of a composition with these log moments, minimised over the order and rounded up.
pub(super) fn delta_from(curve: &Curve, epsilon: Epsilon) -> f64 {
    let (_, least) = minimise(|x| log_delta(curve.log_moment(x), x, epsilon.get()));
    least.exp().clamp(f64::from_bits(1), 1.0)
}

/// log delta from the log moment at `x = alpha - 1`, rounded up.
pub(super) fn log_delta(log_moment: f64, x: f64, epsilon: f64) -> f64 {
    let (log_alpha, log_ratio) = (x.ln_1p(), -(1.0 / x).ln_1p());
    let value = log_moment - x * (epsilon - log_ratio) - log_alpha;
    let size = log_moment + x * (epsilon - log_ratio) + log_alpha;
    value + 1e-14 * size
}

/// Minimises a function of `x = alpha - 1` with one local minimum, over `[1e-8, 1e9]`.
pub(super) fn minimise(f: impl Fn(f64) -> f64) -> (f64, f64) {
    const LOW: f64 = -18.5;
    const HIGH: f64 = 21.0;
    const GOLDEN: f64 = 0.381_966_011_250_105_1;
    let g = |v: f64| {
        let value = f(v.exp());
        // An overflow is a useless order, not a good one.
        if value.is_nan() { f64::INFINITY } else { value }
    };
    // Walk downhill from alpha = 9 to a bracket (left, middle, right) in v = log(alpha - 1).
    // Large orders overflow first.
    let mut middle = 2.0;
    let mut at_middle = g(middle);
    while at_middle == f64::INFINITY && middle > LOW {
        middle -= 1.0;
        at_middle = g(middle);
    }
    let (mut left, mut right) = (middle - 0.5, middle + 0.5);
    let (mut at_left, mut at_right) = (g(left), g(right));
    let mut step = 0.5;
    while at_left < at_middle && left > LOW {
        (right, middle, at_middle) = (middle, left, at_left);
        step *= 1.6;
        left = (middle - step).max(LOW);
        at_left = g(left);
    }
    step = 0.5;
    while at_right < at_middle && right < HIGH {
        (left, middle, at_middle) = (middle, right, at_right);
        step *= 1.6;
        right = (middle + step).min(HIGH);
        at_right = g(right);
    }
    // The minimum is flat: an error of 1e-7 in v moves the value by about 1e-14.
    while right - left > 2e-7 {
        let in_left = middle - left > right - middle;
        let probe = if in_left {
            middle - GOLDEN * (middle - left)
        } else {
            middle + GOLDEN * (right - middle)
        };
        let value = g(probe);
        if value <= at_middle {
            if in_left {
                right = middle;
            } else {
                left = middle;
            }
            (middle, at_middle) = (probe, value);
        } else if in_left {
            left = probe;
        } else {
            right = probe;
        }
    }
    (middle.exp(), at_middle)
}
