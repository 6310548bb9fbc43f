//! Activations of hidden units, with their changes between two arguments.

use dpopt_linalg::{logistic, logistic_changes};
use serde::{Deserialize, Serialize};

/// The activation of a hidden unit, as a function of its input z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Activation {
    /// tanh z.
    Tanh,
    /// 1 / (1 + e^-z).
    Sigmoid,
    /// ln(1 + e^z).
    Softplus,
    /// z / (1 + e^-z).
    Silu,
    /// max(z, 0), with slope 0 at 0.
    Relu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Tanh,
        Self::Sigmoid,
        Self::Softplus,
        Self::Silu,
        Self::Relu,
    ];

    /// Whether it has a continuous second derivative.
    #[must_use]
    pub fn is_smooth(self) -> bool {
        self != Self::Relu
    }

    /// The largest slope; of SiLU rounded up from 1.09984.
    #[must_use]
    pub fn lipschitz(self) -> f64 {
        match self {
            Self::Tanh | Self::Softplus | Self::Relu => 1.0,
            Self::Sigmoid => 0.25,
            Self::Silu => 1.0999,
        }
    }

    /// The largest second derivative; infinite where there is a kink.
    ///
    /// # Formula
    /// tanh'' = -2 tanh (1 - tanh^2), largest at tanh^2 = 1/3; sigmoid'' = s (1 - s)(1 - 2 s), largest at s = (1 - 1/sqrt 3)/2; softplus'' =
    /// s (1 - s); silu'' = s (1 - s)(2 + z (1 - 2 s)), 1/2 at 0.
    #[must_use]
    pub fn smoothness(self) -> f64 {
        let root3 = 3f64.sqrt();
        match self {
            Self::Tanh => 4.0 / (3.0 * root3),
            Self::Sigmoid => 1.0 / (6.0 * root3),
            Self::Softplus => 0.25,
            Self::Silu => 0.5,
            Self::Relu => f64::INFINITY,
        }
    }

    /// The largest third derivative; of SiLU rounded up from 0.308182.
    ///
    /// # Formula
    /// tanh''' = -2 (1 - tanh^2)(1 - 3 tanh^2), 2 at 0; sigmoid''' = s (1 - s)(1 - 6 s (1 - s)), 1/8 at 0; softplus''' = sigmoid''.
    #[must_use]
    pub fn third(self) -> f64 {
        match self {
            Self::Tanh => 2.0,
            Self::Sigmoid => 0.125,
            Self::Softplus => Self::Sigmoid.smoothness(),
            Self::Silu => 0.3082,
            Self::Relu => f64::INFINITY,
        }
    }

    /// Replaces inputs by outputs and fills in the slopes. What becomes of a number depends on it alone.
    pub(in crate::loss) fn apply(self, values: &mut [f64], slopes: &mut [f64]) {
        let both = values.iter_mut().zip(&mut *slopes);
        match self {
            Self::Relu => {
                for (z, slope) in both {
                    *slope = if *z > 0.0 { 1.0 } else { 0.0 };
                    // NaN passes.
                    *z = if *z < 0.0 { 0.0 } else { *z };
                }
            }
            Self::Tanh => {
                for z in values.iter_mut() {
                    *z *= 2.0;
                }
                logistic(values);
                for (z, slope) in values.iter_mut().zip(slopes) {
                    // 1 - tanh^2 z = 4 s (1 - s).
                    *slope = 4.0 * *z * (1.0 - *z);
                    *z = 2.0 * *z - 1.0;
                }
            }
            Self::Sigmoid => {
                logistic(values);
                for (z, slope) in values.iter_mut().zip(slopes) {
                    *slope = *z * (1.0 - *z);
                }
            }
            Self::Softplus => {
                slopes.copy_from_slice(values);
                logistic(slopes);
                for z in values {
                    *z = softplus(*z);
                }
            }
            Self::Silu => {
                slopes.copy_from_slice(values);
                logistic(slopes);
                for (z, slope) in values.iter_mut().zip(slopes) {
                    let s = *slope;
                    *slope = s * (1.0 + *z * (1.0 - s));
                    *z *= s;
                }
            }
        }
    }

    /// [`Activation::apply`], and the second derivatives: see [`Activation::smoothness`].
    pub(in crate::loss) fn apply_twice(
        self,
        values: &mut [f64],
        slopes: &mut [f64],
        bends: &mut [f64],
    ) {
        if self == Self::Silu {
            bends.copy_from_slice(values);
            logistic(bends);
        }
        self.apply(values, slopes);
        let both = values.iter().zip(&*slopes);
        for (bend, (value, slope)) in bends.iter_mut().zip(both) {
            *bend = match self {
                Self::Tanh => -2.0 * value * slope,
                Self::Sigmoid => slope * (1.0 - 2.0 * value),
                // The slope is the logistic function.
                Self::Softplus => slope * (1.0 - slope),
                // So is what stands here, s: z s is the value.
                Self::Silu => (1.0 - *bend) * (2.0 * *bend + value * (1.0 - 2.0 * *bend)),
                Self::Relu => 0.0,
            };
        }
    }

    /// The changes of output and slope from input z to z + `change`, without cancellation: replaces `change`
    /// by that of the output and fills in that of the slope.
    pub(in crate::loss) fn change(self, inputs: &[f64], changes: &mut [f64], slopes: &mut [f64]) {
        if self == Self::Relu {
            for ((&z, dz), slope) in inputs.iter().zip(changes).zip(slopes) {
                let moved = z + *dz;
                let on = |z: f64| if z > 0.0 { 1.0 } else { 0.0 };
                *slope = on(moved) - on(z);
                *dz = match (z > 0.0, moved > 0.0) {
                    // NaN passes.
                    _ if moved.is_nan() => moved,
                    (true, true) => *dz,
                    (false, true) => moved,
                    (true, false) => -z,
                    (false, false) => 0.0,
                };
            }
            return;
        }
        let stretch = if self == Self::Tanh { 2.0 } else { 1.0 };
        let mut before: Vec<f64> = inputs.iter().map(|z| stretch * z).collect();
        let displacements: Vec<f64> = changes.iter().map(|dz| stretch * dz).collect();
        let mut moved = before.clone();
        logistic_changes(&mut moved, &displacements);
        logistic(&mut before);
        for i in 0..inputs.len() {
            // The logistic function s before, its change, and s after.
            let (z, dz, s, ds) = (inputs[i], changes[i], before[i], moved[i]);
            let after = s + ds;
            (changes[i], slopes[i]) = match self {
                Self::Tanh => (2.0 * ds, 4.0 * ds * (1.0 - s - after)),
                Self::Sigmoid => (ds, ds * (1.0 - s - after)),
                Self::Softplus if dz.abs() < 1.0 => ((s * dz.exp_m1()).ln_1p(), ds),
                Self::Softplus => (softplus(z + dz) - softplus(z), ds),
                Self::Silu | Self::Relu => (
                    dz * after + z * ds,
                    ds + dz * after * (1.0 - after) + z * ds * (1.0 - s - after),
                ),
            };
        }
    }
}

impl std::fmt::Display for Activation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Softplus => "softplus",
            Self::Silu => "silu",
            Self::Relu => "relu",
        })
    }
}

fn softplus(z: f64) -> f64 {
    // NaN passes.
    let above = if z < 0.0 { 0.0 } else { z };
    above + (-z.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the functions and their slopes to 17 digits, computed with 50.
    #[test]
    fn values_and_slopes_are_the_functions() {
        let z = 0.75;
        let cases = [
            (
                Activation::Tanh,
                0.635_148_952_387_287_3,
                0.596_585_808_281_331_4,
            ),
            (
                Activation::Sigmoid,
                0.679_178_699_175_393,
                0.217_894_993_761_814_03,
            ),
            (
                Activation::Softplus,
                1.136_871_006_114_899_9,
                0.679_178_699_175_393,
            ),
            (
                Activation::Silu,
                0.509_384_024_381_544_7,
                0.842_599_944_496_753_5,
            ),
            (Activation::Relu, z, 1.0),
        ];
        for (activation, value, slope) in cases {
            let (mut values, mut slopes) = ([z], [f64::NAN]);
            activation.apply(&mut values, &mut slopes);
            assert!(
                (values[0] - value).abs() < 2e-15,
                "{activation:?} {values:?}"
            );
            assert!(
                (slopes[0] - slope).abs() < 2e-15,
                "{activation:?} {slopes:?}"
            );
        }
    }

    /// Second derivatives at 0.75 to 16 digits, computed with 50: -2 tanh (1 - tanh^2) and so on.
    #[test]
    fn bends_are_the_second_derivatives() {
        let cases = [
            (Activation::Tanh, -0.757_841_702_278_021_4),
            (Activation::Sigmoid, -0.078_084_283_078_144_41),
            (Activation::Softplus, 0.217_894_993_761_814_04),
            (Activation::Silu, 0.377_226_775_215_019_74),
            (Activation::Relu, 0.0),
        ];
        for (activation, expected) in cases {
            let (mut values, mut slopes, mut bends) = ([0.75], [f64::NAN], [f64::NAN]);
            activation.apply_twice(&mut values, &mut slopes, &mut bends);
            assert!(
                (bends[0] - expected).abs() < 4e-16,
                "{activation:?} {bends:?}"
            );
            let (mut plain, mut same) = ([0.75], [f64::NAN]);
            activation.apply(&mut plain, &mut same);
            assert_eq!((values, slopes), (plain, same));
        }
    }

    /// Quotients of second derivatives on a grid reach the largest third one, and do not exceed it.
    #[test]
    fn third_derivatives_are_as_large_as_they_are_said_to_be() {
        for activation in Activation::ALL.into_iter().filter(|a| a.is_smooth()) {
            let bend = |z: f64| {
                let mut bend = [f64::NAN];
                activation.apply_twice(&mut [z], &mut [0.0], &mut bend);
                bend[0]
            };
            let h = 1e-4;
            let quotient = |k: i32| {
                let z = f64::from(k) * 1e-3;
                ((bend(z + h) - bend(z - h)) / (2.0 * h)).abs()
            };
            let most = (-8_000..8_000).map(quotient).fold(0.0, f64::max);
            let stated = activation.third();
            assert!(
                most <= stated && most > 0.999 * stated,
                "{activation} {most}"
            );
        }
    }

    #[test]
    fn changes_agree_with_differences_where_those_do_not_cancel_and_with_slopes_where_they_do() {
        for activation in Activation::ALL {
            for z in [-3.0, -0.4, 0.0, 0.3, 2.5] {
                let at = |z: f64| {
                    let (mut values, mut slopes) = ([z], [0.0]);
                    activation.apply(&mut values, &mut slopes);
                    (values[0], slopes[0])
                };
                for dz in [-2.0, -0.5, 0.7, 3.0] {
                    let (mut change, mut slope) = ([dz], [0.0]);
                    activation.change(&[z], &mut change, &mut slope);
                    let (before, after) = (at(z), at(z + dz));
                    assert!((change[0] - (after.0 - before.0)).abs() < 4e-15);
                    assert!((slope[0] - (after.1 - before.1)).abs() < 4e-15);
                }
                if z == 0.0 {
                    continue;
                }
                for exponent in [20, 100, 900] {
                    let dz = 2f64.powi(-exponent);
                    let (mut change, mut slope) = ([dz], [0.0]);
                    activation.change(&[z], &mut change, &mut slope);
                    assert!(
                        (change[0] / dz - at(z).1).abs() < 1e-6,
                        "{activation:?} {z} {exponent}"
                    );
                    assert!(slope[0].abs() <= 2.0 * dz);
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        for activation in Activation::ALL {
            let (mut values, mut slopes) = ([f64::NAN], [0.0]);
            activation.apply(&mut values, &mut slopes);
            assert!(values[0].is_nan());
            let mut change = [f64::NAN];
            activation.change(&[1.0], &mut change, &mut slopes);
            assert!(change[0].is_nan());
        }
    }
}
