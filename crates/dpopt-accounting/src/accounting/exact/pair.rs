//! A Poisson-sampled Gaussian on a line `x + i y` parallel to the real axis.
//!
//! `x` is the Gaussian variable in units of its standard deviation. With
//! `m(x) = 1 - q + q e^{x/sigma - 1/(2 sigma^2)}` the moment function is
//!
//! - remove: `E[m^{1+s}]`, loss `log m`;
//! - add: `E[m^{-s}]`, loss `-log m`;
//! - replace: `E[m(x)^{1+s} m(-x)^{-s}]`, loss `log m(x) - log m(-x)`
//!
//! under a standard normal x.

use realfft::num_complex::Complex64;

use crate::accounting::special::LN_SQRT_2PI;

/// Unit of rounding.
pub(super) const ULP: f64 = f64::EPSILON;
/// Nodes at which everything is below `e^-NEGLIGIBLE` are left out.
pub(super) const NEGLIGIBLE: f64 = 80.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Remove,
    Add,
    Replace,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) direction: Direction,
    pub(super) rate: f64,
    pub(super) sigma: f64,
}

/// One node of the trapezoid rule on a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Logarithm and angle of step times density of P.
    pub(super) ln_weight: f64,
    pub(super) angle: f64,
    /// The privacy loss; its imaginary part is not negative.
    pub(super) loss: Complex64,
    /// Step times density times what remains of the loss when its first-order term, whose
    /// mean is zero, is taken away.
    pub(super) rest: Complex64,
    /// Relative error of weight and loss.
    pub(super) error: f64,
    /// Bound on the rounding error of `rest`.
    pub(super) rest_error: f64,
}

/// `m` at one point: `log m`, `m - 1`, and whether the latter is small.
struct Mix {
    ln: Complex64,
    change: Complex64,
    small: bool,
}

/// `(log(1 + w) (1 + w) - w) / w^2` when `times` and `(w - log(1 + w)) / w^2` otherwise, for
/// |w| < 0.1 (the remainder of the series is below 1e-18).
fn second_order(w: Complex64, times: bool) -> Complex64 {
    let mut sum = Complex64::default();
    for k in (2..=20_u32).rev() {
        let k = f64::from(k);
        let coefficient = if times {
            1.0 / (k * (k - 1.0))
        } else {
            1.0 / k
        };
        sum = Complex64::new(coefficient, 0.0) - w * sum;
    }
    sum * w * w
}

impl Pair {
    /// 1 where a power of a mixture stands in the denominator.
    pub(super) fn denominator(&self) -> f64 {
        if self.direction == Direction::Remove {
            0.0
        } else {
            1.0
        }
    }

    /// Least upper bound of the loss.
    pub(super) fn supremum(&self) -> f64 {
        match self.direction {
            Direction::Add => -(-self.rate).ln_1p(),
            _ => f64::INFINITY,
        }
    }

    /// Highest line on which the strip arguments hold, as a multiple of sigma.
    pub(super) fn highest(&self) -> f64 {
        match self.direction {
            Direction::Remove => std::f64::consts::FRAC_PI_2,
            _ => 0.4 * std::f64::consts::PI,
        }
    }

    /// log of a bound on `|F(x + i y)| / F_theta(x)`, F the integrand of the moment function:
    /// `e^{y^2/2} cos(y/(2 sigma))^{-theta}`, the second factor for denominators only.
    pub(super) fn ln_growth(&self, y: f64, theta: f64) -> f64 {
        let mut growth = 0.5 * y * y;
        if self.direction != Direction::Remove {
            growth -= theta * (0.5 * y / self.sigma).cos().ln();
        }
        growth
    }

    /// Exponent `u` of the likelihood ratio of the shifted Gaussian at `x`.
    fn exponent(&self, x: f64) -> f64 {
        (x - 0.5 / self.sigma) / self.sigma
    }

    fn mix(&self, u: f64, v: f64) -> Mix {
        let q = self.rate;
        if u > 30.0 {
            let tail = polar(-u, -v).scale((1.0 - q) / q);
            return Mix {
                ln: Complex64::new(q.ln() + u, v) + ln_1p(tail),
                change: Complex64::default(),
                small: false,
            };
        }
        let (sin, cos) = v.sin_cos();
        let half = (0.5 * v).sin();
        let change = Complex64::new(
            q * (u.exp_m1() * cos - 2.0 * half * half),
            q * u.exp() * sin,
        );
        let size = change.norm();
        let ln = if size < 0.5 {
            ln_1p(change)
        } else {
            // The sum itself: near q = 1 it cancels less than 1 + change does.
            Complex64::new(1.0 - q + q * u.exp() * cos, change.im).ln()
        };
        Mix {
            ln,
            change,
            small: size < 0.1,
        }
    }

    /// The node at `x + i y`, `y >= 0` (for the add direction: at `x - i y`, so that the
    /// imaginary part of the loss is not negative there either).
    pub(super) fn node(&self, x: f64, y: f64, step: f64) -> Node {
        let v = y / self.sigma;
        let ln_phi = step.ln() - 0.5 * (x * x - y * y) - LN_SQRT_2PI;
        let phi = polar(ln_phi, -x * y);
        let up = self.mix(self.exponent(x), v);
        let reach = x.abs() / self.sigma + 0.5 / (self.sigma * self.sigma);
        let error = ULP * (16.0 + x * x + 12.0 * reach);
        let one = Complex64::new(1.0, 0.0);
        let times_mix = |mix: &Mix| polar(ln_phi + mix.ln.re, mix.ln.im - x * y);
        let (ln_weight, angle, loss, rest, size) = match self.direction {
            Direction::Remove => {
                let weight = times_mix(&up);
                let (rest, size) = if up.small {
                    let rest = phi * second_order(up.change, true);
                    (rest, rest.norm())
                } else {
                    let loss_part = weight * (up.ln - one);
                    (loss_part + phi, loss_part.norm() + phi.norm())
                };
                (ln_phi + up.ln.re, up.ln.im - x * y, up.ln, rest, size)
            }
            Direction::Add => {
                let loss = -up.ln;
                let (rest, size) = if up.small {
                    let rest = phi * second_order(up.change, false);
                    (rest, rest.norm())
                } else {
                    let shifted = times_mix(&up);
                    let loss_part = phi * (loss - one);
                    (shifted + loss_part, shifted.norm() + loss_part.norm())
                };
                (ln_phi, x * y, loss.conj(), rest.conj(), size)
            }
            Direction::Replace => {
                let down = self.mix(self.exponent(-x), -v);
                let loss = up.ln - down.ln;
                let (rest, size) = if up.small && down.small {
                    let parts = [
                        second_order(up.change, true),
                        second_order(down.change, false),
                        -(up.change * down.ln),
                    ];
                    let size = parts.iter().map(|p| p.norm()).sum::<f64>() * phi.norm();
                    (phi * (parts[0] + parts[1] + parts[2]), size)
                } else {
                    let (weight, other) = (times_mix(&up), times_mix(&down));
                    let loss_part = weight * (loss - one);
                    (loss_part + other, loss_part.norm() + other.norm())
                };
                (ln_phi + up.ln.re, up.ln.im - x * y, loss, rest, size)
            }
        };
        Node {
            ln_weight,
            angle,
            loss,
            rest,
            error,
            rest_error: 4.0 * error * size,
        }
    }

    /// Numbers k such that the nodes `k step` carry everything above `e^-NEGLIGIBLE` for all
    /// exponents up to `theta`; none when more than `most` would have to be looked at.
    ///
    /// Left out are only nodes at which every part of the integrand is below that: from a node
    /// that is `missing` below it the next one that matters is at least `missing / slope` away.
    pub(super) fn reach(&self, step: f64, theta: f64, most: usize) -> Option<Vec<i64>> {
        let pull = (1.0 + 2.0 * theta) / self.sigma;
        let size = |x: f64| {
            let up = self.mix(self.exponent(x), 0.0).ln.re;
            let down = self.mix(self.exponent(-x), 0.0).ln.re;
            let most = match self.direction {
                Direction::Remove => up.max((1.0 + theta) * up),
                Direction::Add => up.max(-theta * up),
                Direction::Replace => up.max(down).max((1.0 + theta) * up - theta * down),
            };
            most.max(0.0) - 0.5 * x * x
        };
        let mut out = Vec::new();
        let mut looked = 0_usize;
        for sign in [1.0, -1.0] {
            let mut k = if sign > 0.0 { 0.0 } else { 1.0 };
            loop {
                let x = k * step;
                looked += 1;
                if looked > most || k > 1e15 {
                    return None;
                }
                let missing = -NEGLIGIBLE - size(sign * x);
                if missing <= 0.0 {
                    out.push((sign * k) as i64);
                    k += 1.0;
                    continue;
                }
                let slope = pull - x;
                if slope <= -1.0 {
                    break;
                }
                k += if slope <= 0.0 {
                    1.0
                } else {
                    (missing / slope / step).floor().max(1.0)
                };
            }
        }
        Some(out)
    }
}

/// `e^{ln_size + i angle}`.
pub(super) fn polar(ln_size: f64, angle: f64) -> Complex64 {
    Complex64::from_polar(ln_size.exp(), angle)
}

/// `log(1 + z)`, relatively accurate near zero.
pub(super) fn ln_1p(z: Complex64) -> Complex64 {
    if z.re.abs() > 0.5 || z.im.abs() > 0.5 {
        return (z + Complex64::new(1.0, 0.0)).ln();
    }
    let excess = 2.0 * z.re + z.re * z.re + z.im * z.im;
    Complex64::new(0.5 * excess.ln_1p(), z.im.atan2(1.0 + z.re))
}
