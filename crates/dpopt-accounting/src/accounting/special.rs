//! Tail functions of the normal distribution and stable combinations of logarithms.
//!
//! Everything here keeps its relative accuracy in the tails: no function forms `1 - cdf`.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

/// `log sqrt(2 pi)`.
pub(crate) const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_7;

/// `Phi(x)`, the probability that a standard normal variable is at most `x`.
#[must_use]
pub fn ndtr(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// `log Phi(x)`, with small relative error for every `x`, also where `Phi` underflows.
#[must_use]
pub fn log_ndtr(x: f64) -> f64 {
    if x > 0.0 {
        (-ndtr(-x)).ln_1p()
    } else if x > -5.0 {
        ndtr(x).ln()
    } else {
        mills_ratio(-x).ln() - 0.5 * x * x - LN_SQRT_2PI
    }
}

/// `(1 - Phi(x)) / phi(x)` for `x >= 0`, the Mills ratio of the normal distribution.
#[must_use]
pub fn mills_ratio(x: f64) -> f64 {
    if x < 5.0 {
        return (0.5 * x * x).exp() * libm::erfc(x * FRAC_1_SQRT_2) * (0.5 * PI).sqrt();
    }
    // Laplace's continued fraction x + 1/(x + 2/(x + 3/(x + ...))). At x = 5 the depth of 60
    // leaves less than 1e-17; larger x converge faster.
    let mut tail = x;
    for k in (1..=60_u32).rev() {
        tail = x + f64::from(k) / tail;
    }
    1.0 / tail
}

/// `log(e^a + e^b)`.
#[must_use]
pub fn log_add_exp(a: f64, b: f64) -> f64 {
    let (high, low) = if a >= b { (a, b) } else { (b, a) };
    if high.is_infinite() {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

/// `log(e^a - e^b)` for `a >= b`; minus infinity when they are equal, NaN when `a < b`.
#[must_use]
pub fn log_sub_exp(a: f64, b: f64) -> f64 {
    if b == f64::NEG_INFINITY {
        return a;
    }
    a + log_one_minus_exp(b - a)
}

/// `log(1 - e^x)` for `x <= 0`.
pub(crate) fn log_one_minus_exp(x: f64) -> f64 {
    // Maechler's switch point: each form loses at most a bit on its side of -log 2.
    if x > -LN_2 {
        (-x.exp_m1()).ln()
    } else {
        (-x.exp()).ln_1p()
    }
}

/// `e^y - 1 - y`, without cancellation at small `y`.
pub(crate) fn exp_minus_linear(y: f64) -> f64 {
    if y.abs() > 0.7 {
        return y.exp_m1() - y;
    }
    y * y * exp_minus_linear_over_square(y)
}

/// `(e^y - 1 - y) / y^2` for `|y| <= 0.7`.
pub(crate) fn exp_minus_linear_over_square(y: f64) -> f64 {
    // Taylor with remainder 0.7^16 / 18! relative to 1/2: below 1e-18.
    let mut sum = 0.0;
    for k in (2..=17_u32).rev() {
        sum = (1.0 + y * sum) / f64::from(k);
    }
    sum
}

/// `((1 + w) log(1 + w) - w) / w^2` for `|w| <= 0.1`.
pub(crate) fn entropy_over_square(w: f64) -> f64 {
    // The series is sum over k >= 2 of (-w)^(k-2) / (k (k - 1)).
    let mut sum = 0.0;
    for k in (2..=18_u32).rev() {
        sum = 1.0 / f64::from(k * (k - 1)) - w * sum;
    }
    sum
}

/// The smallest `x` found in `[lo, hi]` at which the decreasing `f` is at most zero.
///
/// `f` returns its value and slope. Newton steps are kept inside the shrinking bracket; the
/// result is always a point at which `f <= 0` was evaluated, provided that `f(hi) <= 0`.
pub(crate) fn decreasing_root(f: impl Fn(f64) -> (f64, f64), mut lo: f64, mut hi: f64) -> f64 {
    let mut x = hi;
    for _ in 0..200 {
        let (value, slope) = f(x);
        if value <= 0.0 {
            hi = x;
        } else {
            lo = x;
        }
        let width = hi - lo;
        if width <= 4.0 * f64::EPSILON * hi.abs().max(lo.abs()) {
            break;
        }
        let mut next = x - value / slope;
        if (next - x).abs() <= 4.0 * f64::EPSILON * x.abs() {
            // Converged from one side: step just past the root so that the other end closes in.
            let nudge = 4.0 * f64::EPSILON * x.abs();
            next = if value <= 0.0 { x - nudge } else { x + nudge };
        }
        x = if next > lo && next < hi {
            next
        } else {
            0.5 * (lo + hi)
        };
        if x <= lo || x >= hi {
            break;
        }
    }
    hi
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, tolerance: f64) {
        assert!(
            (got - want).abs() <= tolerance * want.abs(),
            "got {got:e}, want {want:e}"
        );
    }

    // Values by mpmath at 40 digits.
    #[test]
    fn normal_tails() {
        close(ndtr(-10.0), 7.619_853_024_160_526e-24, 1e-14);
        close(log_ndtr(-100.0), -5_005.524_208_694_205, 1e-15);
        close(log_ndtr(-4.99), -15.013_181_717_689_32, 1e-14);
        close(log_ndtr(-5.01), -15.116_911_800_640_43, 1e-14);
        close(log_ndtr(10.0), -7.619_853_024_160_526e-24, 1e-14);
        close(mills_ratio(5.0), 0.192_808_104_715_315_76, 1e-14);
        close(mills_ratio(1e6), 9.999_999_999_99e-7, 1e-14);
    }

    #[test]
    fn small_arguments_do_not_cancel() {
        close(exp_minus_linear(1e-9), 5.000_000_001_666_667e-19, 1e-14);
        close(exp_minus_linear(-0.5), 0.106_530_659_712_633_42, 1e-14);
        close(exp_minus_linear(0.7), 0.313_752_707_470_476_5, 1e-14);
        close(entropy_over_square(0.1), 0.484_119_778_475_734_6, 1e-14);
        close(entropy_over_square(-0.1), 0.517_553_590_795_632_9, 1e-14);
    }

    #[test]
    fn logarithms_of_sums_and_differences() {
        close(log_add_exp(-1000.0, -1000.0), -1000.0 + LN_2, 1e-15);
        close(log_sub_exp(0.0, -1e-12), -27.631_021_115_929_048, 1e-13);
        assert_eq!(log_sub_exp(3.0, f64::NEG_INFINITY), 3.0);
        assert_eq!(log_sub_exp(3.0, 3.0), f64::NEG_INFINITY);
    }
}
