//! The network against its formula, an independent computation, and the laws of all losses.

use dpopt_linalg::{Design, Row, distance, norm};
use dpopt_privacy::ClipNorm;
use dpopt_testkit::uniforms;
use proptest::prelude::*;

use super::super::Quantile;
use super::super::laws::{changes, gradients_and_constants, passes, second_derivatives};
use super::*;
use crate::records::Records;

const P: usize = 3;

fn pinball(tau: f64) -> Glm {
    Glm::Pinball(Quantile::new(tau).unwrap())
}

fn one(row: Vec<f64>, label: f32) -> Examples {
    let design = Design::dense(row.len(), row).unwrap();
    let examples = Examples::new(design, vec![label], ClipNorm::new(2.0).unwrap()).unwrap();
    examples.with_label_bound(ClipNorm::new(1.0).unwrap())
}

/// Forty rows with classes or numbers as labels, in one of five storages.
fn examples(store: usize, backward: bool) -> Examples {
    let mut next = uniforms(21);
    let mut all: Vec<([f32; P], f32)> = (0..40)
        .map(|_| {
            let row = std::array::from_fn(|_| next() as f32);
            (row, next() as f32)
        })
        .collect();
    if backward {
        all.reverse();
    }
    let flat = || all.iter().flat_map(|(row, _)| *row);
    let byte = |x: f32| (100.0 * x.abs()) as u8;
    let design = match store {
        0 => Design::dense(P, flat().map(f64::from).collect()),
        1 => Design::dense32(P, flat().collect()),
        2 => Design::bytes(P, flat().map(byte).collect(), 0.01),
        _ => {
            let mut design = match store {
                3 => Design::sparse(P),
                _ => Design::one_hot(P, 0.4),
            }
            .unwrap();
            for (row, _) in &all {
                let entries = row.iter().enumerate().filter(|(_, x)| x.abs() > 0.3);
                let entries: Vec<(u32, f32)> = entries.map(|(j, x)| (j as u32, *x)).collect();
                if store == 3 {
                    design.push_row(&entries).unwrap();
                } else {
                    let columns: Vec<u32> = entries.iter().map(|(j, _)| *j).collect();
                    design.push_ones(&columns).unwrap();
                }
            }
            Ok(design)
        }
    };
    let labels = all.iter().map(|(_, label)| *label).collect();
    let examples = Examples::new(design.unwrap(), labels, ClipNorm::new(1.2).unwrap()).unwrap();
    examples.with_label_bound(ClipNorm::new(1.0).unwrap())
}

/// Values and gradients to as many digits as a number has, computed from the formula by mpmath 1.3 with 40 digits: weights sin(1 + 4 c + j), the row
/// (1/2, -1, 1/4).
#[test]
fn values_and_gradients_are_those_of_an_independent_computation() {
    let weights: Vec<f64> = (0..12).map(|i| f64::from(1 + i).sin()).collect();
    let tanh = [
        -0.019_905_243_740_813_5,
        0.076_126_205_711_453_88,
        -0.056_824_641_099_476_13,
        0.019_225_844_349_930_465,
        0.039_810_487_481_627,
        -0.152_252_411_422_907_77,
        0.113_649_282_198_952_26,
        -0.038_451_688_699_860_93,
        -0.009_952_621_870_406_75,
        0.038_063_102_855_726_94,
        -0.028_412_320_549_738_065,
        0.009_612_922_174_965_233,
    ];
    // Two units are off.
    let relu = [
        0.025, -0.025, 0.0, 0.0, -0.05, 0.05, 0.0, 0.0, 0.0125, -0.0125, 0.0, 0.0,
    ];
    for (activation, head, label, value, gradient) in [
        (
            Activation::Relu,
            pinball(0.9),
            0.3,
            0.014_231_522_724_405_08,
            relu,
        ),
        (
            Activation::Tanh,
            Glm::Logistic,
            1.0,
            0.556_937_583_195_125_1,
            tanh,
        ),
    ] {
        let loss = Network::new(4, activation, head).unwrap();
        let data = one(vec![0.5, -1.0, 0.25], label);
        let record = data.record(0);
        // Labels are in single precision.
        let off = if label == 0.3 { 2e-9 } else { 1e-15 };
        assert!((loss.value(record, &weights) - value).abs() < off);
        let mut out = [0.0; 12];
        loss.gradient(record, &weights, &mut out);
        for (found, expected) in out.iter().zip(gradient) {
            assert!((found - expected).abs() < 1e-15, "{out:?}");
        }
    }
}

#[test]
fn it_obeys_the_laws() {
    for (store, activation) in Activation::ALL.into_iter().enumerate() {
        for head in [Glm::Logistic, Glm::Welsch, pinball(0.9), Glm::Absolute] {
            // Four units, a rest; and a whole vector of eight with a rest.
            for units in [4, 18] {
                let loss = Network::new(units, activation, head).unwrap();
                let loss = loss.with_output_scale(1.5).unwrap();
                let (forward, backward) = (examples(store, false), examples(store, true));
                if activation.is_smooth() && loss.constants_on(&forward).smoothness.is_finite() {
                    changes(&loss, &forward, 3.0);
                }
                gradients_and_constants(&loss, &forward, 3.0);
                passes(loss, forward, backward, 0.0);
            }
        }
    }
}

/// L0 where all units are active and the head is steepest: the gradient's norm in closed form.
#[test]
fn the_lipschitz_constant_is_attained() {
    for (tau, units, scale) in [(0.9, 2, 1.0), (0.25, 16, 1.0), (0.5, 6, 3.0)] {
        let loss = Network::new(units, Activation::Relu, pinball(tau)).unwrap();
        let loss = loss.with_output_scale(scale).unwrap();
        // Norm 2, the bound; the output is 0 as pairs have the same weights.
        let data = one(vec![1.2, 1.6], if tau > 0.5 { 1.0 } else { -1.0 });
        let mut gradient = vec![0.0; 2 * units];
        loss.gradient(data.record(0), &vec![0.1; 2 * units], &mut gradient);
        let claimed = loss.constants_on(&data).lipschitz;
        assert!((claimed - tau.max(1.0 - tau) * scale * 2.0).abs() < 1e-15);
        // The row was brought under its bound, which costs a few roundings.
        assert!((norm(&gradient) - claimed).abs() < 1e-12, "{tau} {units}");
    }
    // What is claimed of the activations is what their slopes reach on a grid, and no more than 1e-4 above.
    for activation in Activation::ALL {
        let mut z: Vec<f64> = (0..80_000).map(|i| f64::from(i) * 1e-3 - 40.0).collect();
        let mut slopes = vec![0.0; z.len()];
        activation.apply(&mut z, &mut slopes);
        let steepest = slopes.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let claimed = activation.lipschitz();
        assert!(steepest <= claimed && steepest > claimed * (1.0 - 1e-4));
        let bends = slopes
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).abs() / 1e-3);
        let bend = bends.fold(0.0, f64::max);
        let claimed = activation.smoothness();
        assert!(bend <= claimed * (1.0 + 1e-9), "{activation:?} {bend}");
        assert!(
            claimed.is_infinite() || bend > claimed * (1.0 - 1e-3),
            "{activation:?} {bend}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// |f(W) - f(W')| <= L0 ||W - W'||, near and far, whatever the row and the label are.
    #[test]
    fn values_are_lipschitz(
        row in prop::collection::vec(-3.0..3.0f64, P),
        label in -2.0..2.0f32,
        from in prop::collection::vec(-5.0..5.0f64, P * 6),
        way in prop::collection::vec(-1.0..1.0f64, P * 6),
        exponent in -6i32..3,
    ) {
        let data = one(row, label);
        let to: Vec<f64> = from.iter().zip(&way).map(|(w, s)| w + s * 10f64.powi(exponent)).collect();
        for activation in Activation::ALL {
            for head in Glm::ALL {
                let loss = Network::new(6, activation, head).unwrap();
                let reach = loss.constants_on(&data).lipschitz * distance(&from, &to);
                let (a, b) = (loss.value(data.record(0), &from), loss.value(data.record(0), &to));
                prop_assert!((a - b).abs() <= reach * (1.0 + 1e-9) + 1e-12 * (1.0 + a.abs()), "{head} {activation:?}");
            }
        }
    }
}

/// At the start as at the origin every output is 0, and the start is no stationary point of a network of ReLUs, as the origin is.
#[test]
fn the_start_has_no_output_and_a_gradient() {
    let loss = Network::new(16, Activation::Relu, pinball(0.5)).unwrap();
    let start = loss.start(40, 2.0, 7);
    assert_eq!(start.len(), 640);
    assert_eq!(start, loss.start(40, 2.0, 7));
    assert_ne!(start, loss.start(40, 2.0, 8));
    let mut next = uniforms(5);
    let mut squares = 0.0;
    for _ in 0..200 {
        let row: Vec<f64> = (0..40).map(|_| next()).collect();
        let scale = 2.0 / norm(&row);
        let row: Vec<f64> = row.iter().map(|x| x * scale).collect();
        assert_eq!(loss.output(Row::Dense(&row), &start), 0.0);
        let inputs = loss.inputs(Row::Dense(&row), &start);
        squares += inputs.iter().map(|z| z * z).sum::<f64>() / (16.0 * 200.0);
        let data = one(row, 0.5);
        let record = data.record(0);
        assert_eq!(loss.value(record, &start), loss.value(record, &[0.0; 640]));
        let (mut there, mut origin) = ([0.0; 640], [0.0; 640]);
        loss.gradient(record, &start, &mut there);
        loss.gradient(record, &[0.0; 640], &mut origin);
        assert!(norm(&there) > 0.0 && norm(&origin) == 0.0);
    }
    // Eight independent weights per feature: the mean square of 1600 numbers, 4.5 deviations.
    assert!((squares - 1.0).abs() < 0.3, "{squares}");
    let gap = loss.constants_within(2.0, Some(1.0)).initial_gap;
    assert_eq!(gap, 0.5);
    assert!(loss.constants_within(2.0, None).initial_gap.is_infinite());
}

#[test]
fn impossible_networks_are_refused() {
    for units in [0, 1, 7, Network::MOST_UNITS + 2, usize::MAX] {
        let refused = Network::new(units, Activation::Relu, Glm::Absolute);
        let most = Network::MOST_UNITS;
        assert_eq!(refused, Err(NetworkError::Units { units, most }));
    }
    let fine = Network::new(2, Activation::Relu, Glm::Absolute).unwrap();
    for scale in [0.0, -1.0, f64::INFINITY] {
        assert_eq!(
            fine.with_output_scale(scale),
            Err(NetworkError::Scale(scale))
        );
    }
    assert!(fine.with_output_scale(f64::NAN).is_err());
    for (v, expected) in fine.output_weights().iter().zip([1.0, -1.0]) {
        assert!((v - expected * std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-15);
    }
}

/// Of smooth activations and heads: symmetric, the derivatives of gradients, and within the constants.
#[test]
fn hessians_keep_the_laws_of_second_derivatives() {
    for activation in Activation::ALL.into_iter().filter(|a| a.is_smooth()) {
        for head in [Glm::Logistic, Glm::Welsch, Glm::Cauchy] {
            let network = Network::new(4, activation, head).unwrap();
            let network = network.with_output_scale(1.7).unwrap();
            second_derivatives(&network, &examples(0, false), 1.5);
        }
    }
    let kinks = Network::new(4, Activation::Relu, Glm::Logistic).unwrap();
    let constants = kinks.constants_within(1.0, None);
    assert!(constants.hessian_frobenius.is_infinite() && constants.hessian_lipschitz.is_infinite());
}
