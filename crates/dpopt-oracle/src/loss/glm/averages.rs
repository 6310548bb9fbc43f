//! Slopes averaged over an interval: of losses averaged along the rows of their records.

use super::Glm;

impl Glm {
    /// (phi(z + h, y) - phi(z - h, y))/(2 h), h >= 0: the slope averaged over [z - h, z + h]; the slope itself at h = 0.
    ///
    /// To a few units in the last place of l plus, where phi has a kink, l ulp(|z| + h)/h: its place is known to the rounding of z - y
    /// and no better. With l the largest slope of phi it is at most l, and Lipschitz in z with constant l/h.
    #[must_use]
    pub fn mean_slope(self, z: f64, h: f64, y: f64) -> f64 {
        if h == 0.0 {
            return self.slope(z, y);
        }
        self.rise(z, h, y) / (2.0 * h)
    }

    /// mean_slope(z + dz, h, y) - mean_slope(z, h, y), to a few units in the last place of l dz/h plus, where phi has a kink, l ulp(|z| + h)/h
    /// (its place is known to the rounding of z + h and no better).
    #[must_use]
    pub fn mean_slope_change(self, z: f64, dz: f64, h: f64, y: f64) -> f64 {
        if h == 0.0 {
            return self.slope_change(z, dz, y);
        }
        // phi rises by about as much at both ends: of short rises no long ones are left to cancel.
        let half = 0.5 * dz;
        if dz.abs() <= h {
            let rise = |end: f64| self.rise(end + half, half, y);
            (rise(z + h) - rise(z - h)) / (2.0 * h)
        } else {
            self.mean_slope(z + dz, h, y) - self.mean_slope(z, h, y)
        }
    }
}
