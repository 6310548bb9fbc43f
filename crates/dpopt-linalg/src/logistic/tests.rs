//! The vectorised logistic function against decimal arithmetic and its own laws.

use proptest::prelude::*;

use super::*;
use dpopt_lanes::each_width;

// Written with Python's decimal module at 60 digits: 1 / (1 + exp(-z)), and its differences.
const LOGISTIC: [(f64, f64); 30] = [
    (-708.0, 3.307553003638408e-308),
    (-700.25, 7.678723813110872e-305),
    (-300.1, 4.658284196779334e-131),
    (-100.0, 3.720075976020836e-44),
    (-36.7, 1.1518409493076095e-16),
    (-20.5, 1.2501528648238605e-09),
    (-10.0, 4.5397868702434395e-05),
    (-5.3, 0.004966801650056961),
    (-2.0, 0.11920292202211756),
    (-1.0, 0.2689414213699951),
    (-0.6875, 0.334589441253186),
    (-0.34657359027997264, 0.41421356237309503),
    (-0.1, 0.47502081252106),
    (-0.001, 0.4997500000208333),
    (-1e-09, 0.49999999975),
    (-1e-17, 0.5),
    (1e-17, 0.5),
    (1e-09, 0.50000000025),
    (0.001, 0.5002499999791666),
    (0.1, 0.52497918747894),
    (0.3465735902799727, 0.585786437626905),
    (0.6875, 0.665410558746814),
    (1.0, 0.7310585786300049),
    (2.0, 0.8807970779778824),
    (5.3, 0.9950331983499431),
    (10.0, 0.9999546021312976),
    (20.5, 0.9999999987498471),
    (36.7, 0.9999999999999999),
    (100.0, 1.0),
    (700.0, 1.0),
];
const CHANGES: [(f64, f64, f64); 18] = [
    (0.0, 1.0, 0.23105857863000487),
    (0.0, -1.0, -0.23105857863000487),
    (0.0, 1e-12, 2.5e-13),
    (1.0, 1e-300, 1.9661193324148185e-301),
    (-3.0, 1e-08, 4.5176659935370004e-10),
    (2.5, -1e-05, -7.010401388496434e-07),
    (10.0, 0.5, 1.7862177587850925e-05),
    (-10.0, -0.5, -1.7862177587850925e-05),
    (30.0, 4.0, 9.186232125685098e-14),
    (-30.0, -4.0, -9.186232125685098e-14),
    (5.0, -10.0, -0.9866142981514303),
    (-5.0, 10.0, 0.9866142981514303),
    (-200.0, 400.0, 1.0),
    (0.25, 0.34375, 0.08204860560057155),
    (0.25, 0.359375, 0.08562171706631225),
    (-600.0, 1.0, 4.554128235237798e-261),
    (600.0, -1.0, -4.554128235237798e-261),
    (0.5, -0.703125, -0.17306669673709493),
];

// Written likewise: ln(1 + exp(-m)).
const LOSSES: [(f64, f64); 24] = [
    (-700.25, 700.25),
    (-100.0, 100.0),
    (-36.7, 36.7),
    (-5.3, 5.304979177204327),
    (-2.0, 2.1269280110429727),
    (-1.0, 1.3132616875182228),
    (-0.1, 0.7443966600735709),
    (-1e-09, 0.6931471810599453),
    (0.0, std::f64::consts::LN_2),
    (1e-17, std::f64::consts::LN_2),
    (0.001, 0.6926473055599401),
    (0.1, 0.6443966600735709),
    (0.3465735902799727, 0.5347999967395703),
    (0.8813735870195429, 0.3465735902799727),
    (0.881373587019543, 0.34657359027997264),
    (1.0, 0.3132616875182228),
    (2.0, 0.1269280110429725),
    (5.3, 0.004979177204327231),
    (10.0, 4.539889921686465e-05),
    (20.5, 1.2501528656053015e-09),
    (36.7, 1.1518409493076095e-16),
    (100.0, 3.720075976020836e-44),
    (300.1, 4.658284196779334e-131),
    (700.25, 7.678723813110872e-305),
];

fn ulps(a: f64, b: f64) -> f64 {
    (a - b).abs() / (b.abs() * f64::EPSILON).max(f64::MIN_POSITIVE)
}

fn one(z: f64) -> f64 {
    let mut values = [z];
    logistic(&mut values);
    values[0]
}

fn loss(margin: f64) -> (f64, f64) {
    let (mut values, mut losses) = ([margin], [0.0]);
    logistic_losses(&mut values, &mut losses);
    (values[0], losses[0])
}

fn pair(z: f64) -> (f64, f64) {
    let (mut values, mut others) = ([z], [0.0]);
    logistic_pairs(&mut values, &mut others);
    (values[0], others[0])
}

fn change(z: f64, dz: f64) -> f64 {
    let mut values = [z];
    logistic_changes(&mut values, &[dz]);
    values[0]
}

#[test]
fn values_agree_with_fifty_digit_arithmetic() {
    for (z, expected) in LOGISTIC {
        assert!(ulps(one(z), expected) <= 4.0, "{z}: {} {expected}", one(z));
    }
    for (z, dz, expected) in CHANGES {
        let got = change(z, dz);
        assert!(ulps(got, expected) <= 12.0, "{z} {dz}: {got} {expected}");
    }
    for (margin, expected) in LOSSES {
        let (_, got) = loss(margin);
        assert!(ulps(got, expected) <= 4.0, "{margin}: {got} {expected}");
    }
    for (z, expected) in LOGISTIC {
        let (found, slope) = (pair(z), loss(-z).0);
        for got in [found.0, pair(-z).1, slope] {
            assert!(ulps(got, expected) <= 4.0, "{z}: {got} {expected}");
        }
    }
}

#[test]
fn the_ends_are_reached_and_nan_passes() {
    assert_eq!(one(f64::INFINITY), 1.0);
    assert!(one(f64::NEG_INFINITY) <= 2f64.powi(-1021));
    assert_eq!(one(0.0), 0.5);
    assert_eq!(one(-0.0), 0.5);
    assert!(one(f64::NAN).is_nan());
    assert_eq!(pair(f64::INFINITY).0, 1.0);
    assert!(pair(f64::INFINITY).1 <= 2f64.powi(-1021));
    assert_eq!(loss(f64::NEG_INFINITY), (1.0, f64::INFINITY));
    assert!(loss(f64::INFINITY).1 <= 2f64.powi(-1021));
    let (nans, lost) = (pair(f64::NAN), loss(f64::NAN));
    assert!([nans.0, nans.1, lost.0, lost.1].iter().all(|x| x.is_nan()));
    assert_eq!(change(3.0, 0.0), 0.0);
    assert!(change(f64::NAN, 1.0).is_nan());
    assert!(change(1.0, f64::NAN).is_nan());
    assert_eq!(change(-800.0, 1600.0), 1.0);
    assert_eq!(change(800.0, -1600.0), -1.0);
    assert!(change(0.0, 1e-300) > 0.2499e-300);
}

/// All widths, the last lanes and the middle ones: fused widths agree to the bit, the plain one
/// is within its own bound.
#[test]
fn neither_place_nor_width_changes_a_result() {
    let z: Vec<f64> = (0..61).map(|k| f64::from(k * k) * 0.37 - 600.0).collect();
    let dz: Vec<f64> = (0..61).map(|k| f64::from(k - 30) * 0.11).collect();
    let alone: Vec<u64> = z.iter().map(|&z| one(z).to_bits()).collect();
    for length in 1..=z.len() {
        let mut values = z[..length].to_vec();
        logistic(&mut values);
        let bits: Vec<u64> = values.iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, alone[..length]);
        let mut values = z[..length].to_vec();
        logistic_changes(&mut values, &dz);
        for k in 0..length {
            assert_eq!(values[k].to_bits(), change(z[k], dz[k]).to_bits());
        }
        let (mut values, mut beside) = (z[..length].to_vec(), vec![0.0; length]);
        logistic_losses(&mut values, &mut beside);
        for k in 0..length {
            assert_eq!((values[k], beside[k]), loss(z[k]));
        }
        values.copy_from_slice(&z[..length]);
        logistic_pairs(&mut values, &mut beside);
        for k in 0..length {
            assert_eq!((values[k], beside[k]), pair(z[k]));
        }
    }
    struct Owned(Vec<f64>);
    impl Kernel for Owned {
        type Output = Vec<f64>;
        fn run<L: Lanes>(mut self, lanes: L) -> Vec<f64> {
            Logistic(&mut self.0).run(lanes);
            self.0
        }
    }
    let widths = each_width(|| Owned(z.clone()));
    for (width, values) in &widths[1..] {
        assert_eq!(*values, widths[1].1, "{width:?}");
    }
    for (plain, fused) in widths[0].1.iter().zip(&widths[1].1) {
        assert!(ulps(*plain, *fused) <= 8.0);
    }
}

proptest! {
    #[test]
    fn logistic_agrees_with_the_standard_library(z in -708.0..708.0f64) {
        let expected = if z < 0.0 { z.exp() / (1.0 + z.exp()) } else { 1.0 / (1.0 + (-z).exp()) };
        prop_assert!(ulps(one(z), expected) <= 6.0);
    }

    /// A logistic that moves by at most |dz| / 4, with the sign of dz, and is odd under exchange.
    #[test]
    fn changes_obey_the_laws_of_the_function(z in -300.0..300.0f64, exponent in -300i32..2, sign in any::<bool>()) {
        let dz = 10f64.powi(exponent) * if sign { 1.0 } else { -1.0 };
        let d = change(z, dz);
        prop_assert!(d == 0.0 || d.signum() == dz.signum());
        prop_assert!(d.abs() <= 0.25 * dz.abs() * (1.0 + 1e-14));
        if exponent < -20 && z.abs() < 30.0 {
            let slope = one(z) * one(-z);
            prop_assert!((d / dz - slope).abs() <= 1e-13 * slope);
        }
    }
}
