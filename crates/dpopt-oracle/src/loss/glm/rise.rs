//! Differences of values, without the rounding of the values.

use super::scalar::{LARGE, clamped_change, logistic_change, positive, sign, within};
use super::{Glm, poisson};

impl Glm {
    /// phi(z + h, y) - phi(z - h, y), to a few units in the last place of it (of h times the steepest slope l, where phi turns
    /// between the two): no difference of long values is left to cancel. Where phi has a kink, or a second derivative that jumps,
    /// between the ends, its place is known to the rounding of z - y and z -+ h, which adds up to l ulp(|z| + |y| + h). Beyond 1e50
    /// it is the difference of the values.
    #[must_use]
    pub fn rise(self, z: f64, h: f64, y: f64) -> f64 {
        let r = z - y;
        if !(r.abs() < LARGE.sqrt() && h.abs() < LARGE.sqrt()) {
            return self.value(z + h, y) - self.value(z - h, y);
        }
        let (a, b) = (r + h, r - h);
        match self {
            Glm::Logistic => {
                let (m, k) = (sign(y) * z, sign(y) * h);
                -rise_of_softplus(m, k.abs()).copysign(k)
            }
            Glm::Sigmoid => {
                let (m, k) = (sign(y) * z, sign(y) * h);
                logistic_change(k - m, -2.0 * k)
            }
            Glm::Hinge => {
                // positive(u) = (|u| + u)/2.
                let k = -sign(y) * h;
                0.5 * rise_of_length(1.0 - sign(y) * z, k) + k
            }
            // e^(-b^2/2) - e^(-a^2/2), and a^2 - b^2 = 4 r h; from the larger of the two.
            Glm::Welsch => {
                let half = 2.0 * r * h;
                if half > 0.0 {
                    -(-0.5 * b * b).exp() * (-half).exp_m1()
                } else {
                    (-0.5 * a * a).exp() * half.exp_m1()
                }
            }
            Glm::GemanMcClure => 4.0 * (r / (1.0 + a * a)) * (h / (1.0 + b * b)),
            Glm::Cauchy => {
                // ln((1 + a^2)/(1 + b^2)), from the smaller of the two.
                let more = 4.0 * r * h;
                if more > 0.0 {
                    (more / (1.0 + b * b)).ln_1p()
                } else {
                    -(-more / (1.0 + a * a)).ln_1p()
                }
            }
            Glm::Tukey(c) => {
                // c^2 (1 - q^3)/6 with q = 1 - u^2, u the clamped share of c.
                let c = c.get();
                let (u, v) = (within(a / c, -1.0, 1.0), within(b / c, -1.0, 1.0));
                let less = clamped_rise(r, h, c) / c * (u + v);
                let (p, q) = ((1.0 - u) * (1.0 + u), (1.0 - v) * (1.0 + v));
                c * c * less * (p * p + p * q + q * q) / 6.0
            }
            Glm::Huber(delta) => {
                // The clamped part's square, and what is beyond it: of both ends, or of those on the side where the middle is.
                let delta = delta.get();
                let inside = clamped_rise(r, h, delta);
                let (u, v) = (within(a, -delta, delta), within(b, -delta, delta));
                let outside = if h.abs() - r.abs() > delta {
                    2.0 * r * sign(h)
                } else {
                    (2.0 * h - inside) * sign(r)
                };
                0.5 * inside * (u + v) + delta * outside
            }
            Glm::Squared(range) => {
                let range = range.get();
                let (u, v) = (within(a, -range, range), within(b, -range, range));
                0.5 * clamped_rise(r, h, range) * (u + v)
            }
            Glm::Absolute => rise_of_length(r, h),
            // |r|/2 + (1/2 - tau) r.
            Glm::Pinball(tau) => 0.5 * rise_of_length(r, h) + (1.0 - 2.0 * tau.get()) * h,
            Glm::Relu => {
                let (ahead, behind) = (positive(z + h), positive(z - h));
                if ahead > 0.0 && behind > 0.0 {
                    return rise_of_length(r, h);
                }
                let half = 0.5 * (ahead - behind);
                rise_of_length(behind + half - y, half)
            }
            Glm::Poisson(largest) => poisson::rise(z, h, y, largest.get()),
        }
    }
}

impl Glm {
    /// The rises over these ways from one middle, each in the place of its way: one decision for all of them.
    pub(super) fn rises(self, z: f64, ways: &mut [f64], y: f64) {
        match self {
            Glm::Absolute => {
                let r = z - y;
                ways.iter_mut().for_each(|h| *h = rise_of_length(r, *h));
            }
            Glm::Pinball(tau) => {
                let (r, lean) = (z - y, 1.0 - 2.0 * tau.get());
                ways.iter_mut()
                    .for_each(|h| *h = 0.5 * rise_of_length(r, *h) + lean * *h);
            }
            Glm::Hinge => {
                let (lack, turn) = (1.0 - sign(y) * z, -sign(y));
                ways.iter_mut().for_each(|h| {
                    let k = turn * *h;
                    *h = 0.5 * rise_of_length(lack, k) + k;
                });
            }
            _ => ways.iter_mut().for_each(|h| *h = self.rise(z, *h, y)),
        }
    }
}

/// ln(1 + e^(-m + k)) - ln(1 + e^(-m - k)) for k >= 0.
fn rise_of_softplus(m: f64, k: f64) -> f64 {
    // Where e^k is a number: the logarithm of the ratio, which is above 1.
    if k < 300.0 {
        let less = (-0.5 * m.max(0.0)).exp();
        let ratio = 2.0 * (k.sinh() * less) * less;
        return (ratio / (m.min(0.0).exp() + (-m.max(0.0) - k).exp())).ln_1p();
    }
    // ln(1 + e^u) = positive(u) + ln(1 + e^(-|u|)), of which the first parts differ by k plus the shorter of -m and k.
    let tail = |u: f64| (-u.abs()).exp().ln_1p();
    (0.5 * rise_of_length(-m, k) + k) + (tail(m - k) - tail(m + k))
}

/// clamp(r + h) - clamp(r - h) to `[-c, c]`: two ways from the middle, none of which is lost where h is shorter than r's last place.
fn clamped_rise(r: f64, h: f64, c: f64) -> f64 {
    clamped_change(r, h, c) - clamped_change(r, -h, c)
}

/// |r + h| - |r - h|: twice the shorter of the two, and exact. NaN stays NaN.
#[inline]
fn rise_of_length(r: f64, h: f64) -> f64 {
    let shorter = 2.0 * r.abs().min(h.abs()) + 0.0 * (r + h);
    shorter.copysign(h) * 1f64.copysign(r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Scale;

    /// With a way so long that little cancels, against the difference; with a short one against the slope at the middle, where
    /// phi is smooth; both to a few units.
    #[test]
    fn rises_are_differences_of_values() {
        for loss in Glm::ALL {
            for y in [-1.0, 1.0, 0.3] {
                for k in -60..=60 {
                    let z = 0.1 * f64::from(k) + 0.0137;
                    for h in [0.37, -0.9, 2.6, -7.0, 1e-3] {
                        let difference = loss.value(z + h, y) - loss.value(z - h, y);
                        let rise = loss.rise(z, h, y);
                        let long = loss.value(z + h, y).abs().max(loss.value(z - h, y).abs());
                        let at = format!("{loss} at {z}, {h}, {y}: {rise} for {difference}");
                        assert!((rise - difference).abs() <= 1e-14 * (1.0 + long), "{at}");
                        let back = loss.rise(z, -h, y);
                        assert!((back + rise).abs() <= 1e-14 * (1.0 + long), "{at}");
                    }
                }
            }
        }
    }

    /// Central differences of smooth pieces are the slope up to h^2, however short the way: a difference of values would be off
    /// by 1e-16/h.
    #[test]
    fn short_ways_keep_their_digits() {
        let h = 1e-9;
        for loss in Glm::ALL {
            for y in [-1.0, 1.0, 0.3] {
                for k in -60..=60 {
                    let z = 0.1 * f64::from(k) + 0.0137;
                    let slope = loss.slope(z, y);
                    // The middle of two slopes, where there is a kink.
                    let off = (loss.rise(z, h, y) / (2.0 * h) - slope).abs();
                    let at = format!("{loss} at {z}, {y}: off by {off}");
                    assert!(off <= 1e-13 * (1.0 + slope.abs()), "{at}");
                }
            }
        }
    }

    /// At the ends of clamped parts and at kinks, with ways from far below the last place of the middle to far above it. Closed
    /// forms: of max(-1, min(r, 1)) over [1 - h, 1 + h] the mean is 1 - h/4, of r up to 1 and 0 beyond it 1/2 - h/4, of the sign of
    /// r >= 0 around 0 it is 0, and of the step at 0 it is 1/2.
    #[test]
    fn ways_below_the_last_place_of_the_middle_are_not_lost() {
        let one = Scale::new(1.0).unwrap();
        for h in [1e-300, 1e-30, 1e-17, 1.2e-16, 3e-16, 1e-12, 1e-3, 0.5] {
            let whole = |loss: Glm, z: f64, y: f64, expected: f64| {
                for (z, y, side) in [(z, y, 1.0), (-z, -y, -1.0)] {
                    for h in [h, -h] {
                        let found = loss.rise(z, h, y) / (2.0 * h);
                        let at = format!("{loss} at {z}, {h}, {y}: {found} for {expected}");
                        assert!((found - side * expected).abs() <= 4e-16, "{at}");
                    }
                }
            };
            whole(Glm::Huber(one), 1.0, 0.0, 1.0 - 0.25 * h);
            whole(Glm::Huber(one), 1.5, 0.5, 1.0 - 0.25 * h);
            whole(Glm::Squared(one), 1.0, 0.0, 0.5 - 0.25 * h);
            whole(Glm::Absolute, 1.0, 1.0, 0.0);
            // Zero up to the kink, and beyond it downhill.
            let relu = |z: f64, y: f64| Glm::Relu.rise(z, h, y) / (2.0 * h);
            for (z, y, expected) in [(0.0, 1.0, -0.5), (1.0, 1.0, 0.0), (1.0, -1.0, 1.0)] {
                let found = relu(z, y);
                let at = format!("relu at {z}, {h}, {y}: {found} for {expected}");
                assert!((found - expected).abs() <= 4e-16, "{at}");
            }
        }
    }

    #[test]
    fn many_rises_are_rises() {
        for loss in Glm::ALL {
            for z in [-2.3, 0.4, 1.0] {
                let ways = [0.3, -1.7, 0.0, 1e-9, 5.0];
                let mut found = ways;
                loss.rises(z, &mut found, -1.0);
                for (found, h) in found.iter().zip(ways) {
                    assert_eq!(*found, loss.rise(z, h, -1.0), "{loss}, {z}, {h}");
                }
            }
            let mut bad = [f64::NAN, f64::INFINITY];
            loss.rises(0.3, &mut bad, 1.0);
            assert!(bad[0].is_nan(), "{loss}: {bad:?}");
        }
    }

    #[test]
    fn no_way_is_no_rise_and_huge_numbers_are_values() {
        for loss in Glm::ALL {
            assert_eq!(loss.rise(0.7, 0.0, 1.0), 0.0, "{loss}");
            // Of numbers too long for a difference of their own it is that of the values, or no number where they are none.
            for z in [1e200, -1e200, -1e308, f64::NAN, f64::INFINITY] {
                for (z, h) in [(z, 1.0), (1.0, z)] {
                    let found = loss.rise(z, h, 1.0);
                    let expected = loss.value(z + h, 1.0) - loss.value(z - h, 1.0);
                    let same = found == expected || found.is_nan() && expected.is_nan();
                    assert!(same, "{loss} at {z}, {h}: {found} for {expected}");
                }
            }
        }
    }

    /// Against 20 digits of another program, where the two values are long, or nearly equal, or next to nothing.
    #[test]
    fn logistic_rises_keep_their_digits() {
        for (z, h, expected) in [
            (-1e8, 1.5, -3.0),
            (-1e8, -400.0, 800.0),
            (-3e7, 0.25, -0.5),
            (-1_200.0, 350.0, -700.0),
            (-50.0, 2.0, -4.0),
            (-0.3, 1.25, -1.415_520_058_735_626_7),
            (2.25, -7.0, 4.758_518_376_728_543),
            (35.0, 3.0, -1.263_277_422_117_361_5e-14),
            (40.0, 0.001, -8.496_709_926_701_334e-21),
            (320.0, 310.0, -4.539_889_921_686_465e-5),
            (600.0, 290.5, -3.853_522_072_758_064e-135),
            (1_000.0, 1_200.0, -200.0),
            (1e4, 9_990.0, -4.539_889_921_686_465e-5),
        ] {
            for y in [1.0, -1.0] {
                let found = y * Glm::Logistic.rise(y * z, h, y);
                let off = (found / expected - 1.0).abs();
                assert!(off <= 1e-15, "{z}, {h}, {y}: {found}, off by {off}");
            }
        }
    }
}
