//! Differences of values, without the rounding of the values.

use super::Glm;
use super::scalar::{LARGE, clamped_change, logistic_change, positive, sign, within};

impl Glm {
    /// phi(z + h, y) - phi(z - h, y), to a few units in the last place of it (of h times the steepest slope, where phi turns
    /// between the two): no difference of long values is left to cancel.
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
                if k.abs() > 1.0 {
                    return self.value(z + h, y) - self.value(z - h, y);
                }
                // ln((1 + e^(-m - k))/(1 + e^(-m + k)))
                (-2.0 * k.sinh() / (m.exp() + k.exp())).ln_1p()
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
                let less = clamped_change(b, 2.0 * h, c) / c * (u + v);
                let (p, q) = ((1.0 - u) * (1.0 + u), (1.0 - v) * (1.0 + v));
                c * c * less * (p * p + p * q + q * q) / 6.0
            }
            Glm::Huber(delta) => {
                // The clamped part's square, and what is beyond it.
                let delta = delta.get();
                let (u, v) = (within(a, -delta, delta), within(b, -delta, delta));
                let inside = clamped_change(b, 2.0 * h, delta);
                // Of those that lie outside on one side both do, or one by its whole way out.
                let (past, before) = ((a - u).abs(), (b - v).abs());
                let outside = if a - u != 0.0 && b - v != 0.0 && (a > 0.0) == (b > 0.0) {
                    (if a > 0.0 { 2.0 } else { -2.0 }) * h
                } else {
                    past - before
                };
                0.5 * inside * (u + v) + delta * outside
            }
            Glm::Squared(range) => {
                let range = range.get();
                let (u, v) = (within(a, -range, range), within(b, -range, range));
                0.5 * clamped_change(b, 2.0 * h, range) * (u + v)
            }
            Glm::Absolute => rise_of_length(r, h),
            // |r|/2 + (1/2 - tau) r.
            Glm::Pinball(tau) => 0.5 * rise_of_length(r, h) + (1.0 - 2.0 * tau.get()) * h,
            Glm::Relu => {
                let (ahead, behind) = (positive(z + h), positive(z - h));
                let half = if ahead > 0.0 && behind > 0.0 {
                    h
                } else {
                    0.5 * (ahead - behind)
                };
                rise_of_length(behind + half - y, half)
            }
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

/// |r + h| - |r - h|: twice the shorter of the two, and exact. What is no number stays none.
#[inline]
fn rise_of_length(r: f64, h: f64) -> f64 {
    let shorter = 2.0 * r.abs().min(h.abs()) + 0.0 * (r + h);
    shorter.copysign(h) * 1f64.copysign(r)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn no_way_is_no_rise_and_huge_numbers_are_no_panic() {
        for loss in Glm::ALL {
            assert_eq!(loss.rise(0.7, 0.0, 1.0), 0.0, "{loss}");
            for z in [1e200, -1e308, f64::NAN, f64::INFINITY] {
                let _ = loss.rise(z, 1.0, 1.0);
                let _ = loss.rise(1.0, z, 1.0);
            }
        }
    }
}
