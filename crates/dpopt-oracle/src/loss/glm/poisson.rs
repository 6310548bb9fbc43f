//! The loss of counts: half the deviance of a Poisson model, linear beyond the largest mean.

use super::Glm;

impl Glm {
    /// The label that a score predicts: the score itself, but for the loss of counts, whose mean is e^z, at most its largest.
    #[must_use]
    pub fn predicted(self, z: f64) -> f64 {
        match self {
            Glm::Poisson(largest) => 2.0 * (mean(z, largest.get()) / largest.get()) - 1.0,
            _ => z,
        }
    }
}

/// The count that a label stands for: from 0 at -1 to the largest at 1.
fn count(y: f64, largest: f64) -> f64 {
    largest * (0.5 * (1.0 + y.clamp(-1.0, 1.0)))
}

/// e^z, at most the largest.
fn mean(z: f64, largest: f64) -> f64 {
    let mean = z.exp();
    if mean > largest { largest } else { mean }
}

pub(super) fn value(z: f64, y: f64, largest: f64) -> f64 {
    let (end, y) = (largest.ln(), count(y, largest));
    // Beyond the end it goes on along its tangent.
    let beyond = if z > end {
        (largest - y) * (z - end)
    } else {
        0.0
    };
    let z = if z > end { end } else { z };
    let mean = mean(z, largest);
    if y == 0.0 {
        return mean + beyond;
    }
    let apart = z - y.ln();
    let inside = if apart.abs() < 1.0 {
        y * (apart.exp_m1() - apart)
    } else {
        mean - y - y * apart
    };
    inside + beyond
}

pub(super) fn slope(z: f64, y: f64, largest: f64) -> f64 {
    mean(z, largest) - count(y, largest)
}

pub(super) fn curvature(z: f64, largest: f64) -> f64 {
    if z > largest.ln() {
        0.0
    } else {
        mean(z, largest)
    }
}

/// The mean at z + dz less that at z.
pub(super) fn slope_change(z: f64, dz: f64, largest: f64) -> f64 {
    let moved = up_to(dz, largest.ln() - z) - up_to(0.0, largest.ln() - z);
    if moved.abs() <= 1.0 {
        mean(z, largest) * moved.exp_m1()
    } else {
        mean(z + dz, largest) - mean(z, largest)
    }
}

pub(super) fn rise(z: f64, h: f64, y: f64, largest: f64) -> f64 {
    let room = largest.ln() - z;
    let inside = up_to(h, room) - up_to(-h, room);
    // From the end where the mean is larger.
    let top = mean(z + h.abs(), largest);
    let rise = -(top * (-inside.abs()).exp_m1()).copysign(-inside);
    rise + largest * (2.0 * h - inside) - count(y, largest) * (2.0 * h)
}

/// The smaller; a NaN stays one.
fn up_to(x: f64, high: f64) -> f64 {
    if x > high { high } else { x }
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn poisson(largest: f64) -> Glm {
        Glm::Poisson(Scale::new(largest).unwrap())
    }

    /// Half the deviance y ln(y/m) - (y - m) of counts, written out, and its tangent at the largest mean.
    #[test]
    fn it_is_half_the_deviance_up_to_the_largest_mean() {
        let largest = 20.0;
        let loss = poisson(largest);
        for y in [0.0, 1.0, 3.0, 7.5, 20.0] {
            let label = 2.0 * y / largest - 1.0;
            let deviance = |m: f64| {
                let of_logarithms = if y > 0.0 { y * (y / m).ln() } else { 0.0 };
                of_logarithms - (y - m)
            };
            for m in [1e-6, 0.3, 1.0, 2.9, 3.0, 12.0, 20.0] {
                let found = loss.value(f64::ln(m), label);
                assert!(
                    (found - deviance(m)).abs() < 1e-12 * (1.0 + found),
                    "{y} {m}"
                );
            }
            for beyond in [0.1, 2.0, 30.0] {
                let found = loss.value(largest.ln() + beyond, label);
                let tangent = deviance(largest) + (largest - y) * beyond;
                assert!(
                    (found - tangent).abs() < 1e-12 * (1.0 + found),
                    "{y} {beyond}"
                );
            }
            // The mean is the prediction, and the least loss is at the count itself.
            if y > 0.0 {
                assert!(loss.value(y.ln(), label).abs() < 1e-14);
                assert!((loss.predicted(y.ln()) - label).abs() < 1e-14);
                assert!(loss.slope(y.ln(), label).abs() < 1e-13);
            }
        }
        assert_eq!(loss.predicted(50.0), 1.0);
        assert_eq!(loss.predicted(-1e9), -1.0);
        assert_eq!(Glm::Absolute.predicted(0.3), 0.3);
    }

    /// L0 = L1 = the largest count, reached: by a count of 0 beyond the largest mean, and just before it.
    #[test]
    fn the_constants_are_reached() {
        for largest in [0.5, 1.0, 20.0] {
            let loss = poisson(largest);
            let constants = loss.constants_within(2.0, Some(1.0));
            assert_eq!(constants.lipschitz, 2.0 * largest);
            assert_eq!(constants.smoothness, 4.0 * largest);
            assert_eq!(loss.slope(50.0, -1.0), largest);
            assert_eq!(loss.slope(-800.0, 1.0), -largest);
            let curvature = loss.curvature(largest.ln() - 1e-12, 0.0);
            assert!((curvature - largest).abs() < 1e-9);
            assert!(constants.hessian_lipschitz.is_infinite());
        }
    }
}
