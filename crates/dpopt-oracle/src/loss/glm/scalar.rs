//! The scalar functions: value, slope, curvature, and the change of the slope.

use super::{Glm, poisson};

impl Glm {
    /// phi(z, y).
    #[must_use]
    pub fn value(self, z: f64, y: f64) -> f64 {
        let r = z - y;
        match self {
            // ln(1 + e^-m) without overflow.
            Glm::Logistic => {
                let m = sign(y) * z;
                (-m).max(0.0) + (-m.abs()).exp().ln_1p()
            }
            Glm::Sigmoid => logistic(-sign(y) * z),
            Glm::Hinge => positive(1.0 - sign(y) * z),
            Glm::Welsch => -(-0.5 * r * r).exp_m1(),
            Glm::GemanMcClure => {
                let square = r * r;
                if square.is_infinite() {
                    1.0
                } else {
                    square / (1.0 + square)
                }
            }
            Glm::Cauchy => {
                if r.abs() > LARGE {
                    2.0 * r.abs().ln()
                } else {
                    (r * r).ln_1p()
                }
            }
            Glm::Tukey(c) => {
                let c = c.get();
                let u = within(r / c, -1.0, 1.0);
                let square = u * u;
                // (1 - (1 - s)^3)/6 = s (1 - s + s^2/3)/2
                c * c * (0.5 * square * (1.0 - square + square * square / 3.0))
            }
            Glm::Huber(delta) => {
                let (delta, size) = (delta.get(), r.abs());
                if size <= delta {
                    0.5 * r * r
                } else {
                    delta * (size - 0.5 * delta)
                }
            }
            Glm::Squared(b) => {
                let r = within(r, -b.get(), b.get());
                0.5 * r * r
            }
            Glm::Absolute => r.abs(),
            Glm::Pinball(tau) => {
                if r > 0.0 {
                    (1.0 - tau.get()) * r
                } else {
                    -tau.get() * r
                }
            }
            Glm::Relu => (positive(z) - y).abs(),
            Glm::Poisson(largest) => poisson::value(z, y, largest.get()),
        }
    }

    /// The derivative of phi in z; at a kink the subgradient that [`Glm`] states.
    #[must_use]
    pub fn slope(self, z: f64, y: f64) -> f64 {
        match self {
            Glm::Logistic => {
                let y = sign(y);
                -y * logistic(-y * z)
            }
            Glm::Sigmoid => {
                let y = sign(y);
                -y * logistic(z) * logistic(-z)
            }
            Glm::Hinge => hinge_slope(1.0 - sign(y) * z, sign(y)),
            Glm::Welsch => welsch_slope(z - y),
            Glm::GemanMcClure => geman_mcclure_slope(z - y),
            Glm::Cauchy => cauchy_slope(z - y),
            Glm::Tukey(c) => tukey_slope(z - y, c.get()),
            Glm::Huber(delta) => within(z - y, -delta.get(), delta.get()),
            Glm::Squared(b) => squared_slope(z - y, b.get()),
            Glm::Absolute => step(z - y, -1.0, 1.0),
            Glm::Pinball(tau) => step(z - y, -tau.get(), 1.0 - tau.get()),
            Glm::Relu => relu_slope(z, z - y),
            Glm::Poisson(largest) => poisson::slope(z, y, largest.get()),
        }
    }

    /// The second derivative of phi in z, where there is one; at the ends of pieces, one of the
    /// two one-sided values. The pieces of piecewise linear losses have none.
    #[must_use]
    pub fn curvature(self, z: f64, y: f64) -> f64 {
        let r = z - y;
        match self {
            Glm::Logistic => logistic(z) * logistic(-z),
            Glm::Sigmoid => {
                let (p, q) = (logistic(z), logistic(-z));
                -sign(y) * p * q * (q - p)
            }
            Glm::Welsch => {
                let square = r * r;
                let weight = (-0.5 * square).exp();
                if weight == 0.0 {
                    0.0
                } else {
                    (1.0 - square) * weight
                }
            }
            Glm::GemanMcClure => {
                let tail = 1.0 / (1.0 + r * r);
                if tail == 0.0 {
                    0.0
                } else {
                    2.0 * (tail - 4.0 * (r * tail) * (r * tail)) * tail
                }
            }
            Glm::Cauchy => {
                // 2 (1 - r^2)/(1 + r^2)^2, with r/(1 + r^2) as half the slope.
                let (tail, half) = (1.0 / (1.0 + r * r), 0.5 * cauchy_slope(r));
                2.0 * (tail - half) * (tail + half)
            }
            Glm::Tukey(c) => {
                let square = (r / c.get()) * (r / c.get());
                if square < 1.0 {
                    (1.0 - square) * (1.0 - 5.0 * square)
                } else {
                    0.0
                }
            }
            Glm::Huber(scale) | Glm::Squared(scale) => f64::from(u8::from(r.abs() <= scale.get())),
            Glm::Poisson(largest) => poisson::curvature(z, largest.get()),
            Glm::Hinge | Glm::Absolute | Glm::Pinball(_) | Glm::Relu => 0.0,
        }
    }

    /// slope(z + dz, y) - slope(z, y), without cancellation when `dz` is small: where the slope is
    /// smooth the error stays at a few units in the last place of `dz` times the largest curvature,
    /// for `dz` down to the smallest normal number. A kink between the two counts whole.
    #[must_use]
    pub fn slope_change(self, z: f64, dz: f64, y: f64) -> f64 {
        let a = z - y;
        let b = a + dz;
        match self {
            Glm::Logistic => logistic_change(z, dz),
            Glm::Sigmoid => {
                // d/dz of p q with q = 1 - p: the change of p (1 - p) is dp (1 - p1 - p0).
                let (p0, p1) = (logistic(z), logistic(z + dz));
                let centre = if p0 + p1 > 1.0 {
                    // 1 - p0 - p1 from the small complements.
                    logistic(-z) - p1
                } else {
                    1.0 - p0 - p1
                };
                -sign(y) * logistic_change(z, dz) * centre
            }
            Glm::Hinge => {
                let y = sign(y);
                let margin = 1.0 - y * z;
                hinge_slope(margin - y * dz, y) - hinge_slope(margin, y)
            }
            Glm::Welsch => {
                if dz.abs() > 1.0 {
                    return welsch_slope(b) - welsch_slope(a);
                }
                // b e^(-b^2/2) - a e^(-a^2/2)
                //   = dz e^(-b^2/2) + a e^(-a^2/2) (e^(-(a dz + dz^2/2)) - 1)
                dz * (-0.5 * b * b).exp() + welsch_slope(a) * (-(a + 0.5 * dz) * dz).exp_m1()
            }
            Glm::GemanMcClure => {
                if dz.abs() > 1.0 || a.abs() > 1e60 {
                    return geman_mcclure_slope(b) - geman_mcclure_slope(a);
                }
                // 2 [b (1+a^2)^2 - a (1+b^2)^2] / ((1+a^2)^2 (1+b^2)^2), and the bracket is
                // dz (1 - ab (2 + a^2 + ab + b^2)).
                let (ta, tb) = (1.0 / (1.0 + a * a), 1.0 / (1.0 + b * b));
                let ab = a * b;
                2.0 * dz * (ta * tb - ab * ((2.0 + a * a + ab + b * b) * ta * tb)) * (ta * tb)
            }
            Glm::Cauchy => {
                let (sa, sb) = (cauchy_slope(a), cauchy_slope(b));
                if dz.abs() > 1.0 {
                    return sb - sa;
                }
                // 2 [b (1+a^2) - a (1+b^2)] / ((1+a^2)(1+b^2)), and the bracket is dz (1 - ab).
                let tails = (1.0 / (1.0 + a * a)) * (1.0 / (1.0 + b * b));
                2.0 * dz * (tails - 0.25 * sa * sb)
            }
            Glm::Tukey(c) => {
                // The slope is that of the clamped residual, and s(b) - s(a) = (b - a) times the
                // divided difference of r - 2 r^3/c^2 + r^5/c^4.
                let c = c.get();
                let moved = clamped_change(a, dz, c);
                let u = within(a / c, -1.0, 1.0);
                let v = within(u + moved / c, -1.0, 1.0);
                let (uu, uv, vv) = (u * u, u * v, v * v);
                moved * (1.0 - 2.0 * (uu + uv + vv) + (uu * uu + (uu + uv + vv) * uv + vv * vv))
            }
            Glm::Huber(delta) => clamped_change(a, dz, delta.get()),
            Glm::Squared(range) => {
                let range = range.get();
                if a.abs() <= range && b.abs() <= range {
                    dz
                } else {
                    squared_slope(b, range) - squared_slope(a, range)
                }
            }
            Glm::Absolute => step(b, -1.0, 1.0) - step(a, -1.0, 1.0),
            Glm::Pinball(tau) => {
                let (low, high) = (-tau.get(), 1.0 - tau.get());
                step(b, low, high) - step(a, low, high)
            }
            Glm::Relu => relu_slope(z + dz, b) - relu_slope(z, a),
            Glm::Poisson(largest) => poisson::slope_change(z, dz, largest.get()),
        }
    }
}

/// Above this, 1 + r^2 is r^2 to the last bit and r^2 is still finite.
pub(super) const LARGE: f64 = 1e100;

/// The label as a class: +1 for positive numbers, -1 otherwise.
pub(super) fn sign(y: f64) -> f64 {
    if y > 0.0 { 1.0 } else { -1.0 }
}

/// 1 / (1 + e^-z), accurate in both tails.
fn logistic(z: f64) -> f64 {
    if z >= 0.0 {
        1.0 / (1.0 + (-z).exp())
    } else {
        let e = z.exp();
        e / (1.0 + e)
    }
}

/// logistic(z + dz) - logistic(z) = (e^dz - 1) logistic(z) logistic(-(z + dz)).
pub(super) fn logistic_change(z: f64, dz: f64) -> f64 {
    if dz.abs() > 1.0 {
        // No cancellation to speak of, and e^dz could overflow.
        if z + dz > 0.0 && z > 0.0 {
            logistic(-z) - logistic(-(z + dz))
        } else {
            logistic(z + dz) - logistic(z)
        }
    } else {
        dz.exp_m1() * logistic(z) * logistic(-(z + dz))
    }
}

fn welsch_slope(r: f64) -> f64 {
    let weight = (-0.5 * r * r).exp();
    if weight == 0.0 { 0.0 } else { r * weight }
}

fn geman_mcclure_slope(r: f64) -> f64 {
    let tail = 1.0 / (1.0 + r * r);
    if tail == 0.0 {
        0.0
    } else {
        2.0 * (r * tail) * tail
    }
}

/// 2r/(1 + r^2), for any r.
fn cauchy_slope(r: f64) -> f64 {
    if r.abs() > 1.0 {
        2.0 / (r + 1.0 / r)
    } else {
        2.0 * r / (1.0 + r * r)
    }
}

fn tukey_slope(r: f64, c: f64) -> f64 {
    let u = within(r / c, -1.0, 1.0);
    let rest = (1.0 - u) * (1.0 + u);
    c * u * rest * rest
}

fn squared_slope(r: f64, range: f64) -> f64 {
    if r.abs() > range { 0.0 } else { r }
}

/// -y where the margin is short of 1 by a positive `lack`, else 0.
fn hinge_slope(lack: f64, y: f64) -> f64 {
    if lack > 0.0 { -y } else { 0.0 }
}

/// The sign of r = z - y where the unit is active.
fn relu_slope(z: f64, r: f64) -> f64 {
    if z > 0.0 { step(r, -1.0, 1.0) } else { 0.0 }
}

/// `low` below zero, `high` above, 0 at zero.
fn step(r: f64, low: f64, high: f64) -> f64 {
    if r > 0.0 {
        high
    } else if r < 0.0 {
        low
    } else {
        0.0
    }
}

pub(super) fn positive(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

/// `x` clamped; unlike `f64::clamp` it never panics, and a NaN stays one.
pub(super) fn within(x: f64, low: f64, high: f64) -> f64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// clamp(a + da) - clamp(a) to `[-c, c]`: what of the way from `a` to `a + da` is inside.
pub(super) fn clamped_change(a: f64, da: f64, c: f64) -> f64 {
    let (low, high) = (-c - a, c - a);
    within(da, low, high) - within(0.0, low, high)
}
