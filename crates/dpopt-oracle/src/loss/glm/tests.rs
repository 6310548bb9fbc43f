//! The scalar functions against their definitions, difference quotients and calculus.

use proptest::prelude::*;

use super::*;
use crate::loss::Convexity;

fn points() -> impl Strategy<Value = (f64, f64)> {
    (
        -40.0..40.0f64,
        prop_oneof![Just(-1.0), Just(1.0), -3.0..3.0f64],
    )
}

fn scale(x: f64) -> Scale {
    Scale::new(x).unwrap()
}

/// All at their defaults, and some at other parameters.
fn losses() -> Vec<Glm> {
    let mut all = Glm::ALL.to_vec();
    all.extend([
        Glm::Tukey(scale(0.7)),
        Glm::Huber(scale(0.3)),
        Glm::Squared(scale(17.0)),
        Glm::Pinball(Quantile::new(0.9).unwrap()),
        Glm::Poisson(scale(7.0)),
    ]);
    all
}

/// Where the slope or its derivative jumps.
fn joints(loss: Glm, y: f64) -> Vec<f64> {
    match loss {
        Glm::Huber(c) | Glm::Squared(c) | Glm::Tukey(c) => vec![y - c.get(), y + c.get()],
        Glm::Hinge => vec![if y > 0.0 { 1.0 } else { -1.0 }],
        Glm::Absolute | Glm::Pinball(_) => vec![y],
        Glm::Relu => vec![0.0, y],
        Glm::Poisson(largest) => vec![largest.get().ln()],
        _ => vec![],
    }
}

fn away(loss: Glm, z: f64, y: f64, by: f64) -> bool {
    joints(loss, y).iter().all(|joint| (z - joint).abs() > by)
}

/// phi as the table of [`Glm`] writes it.
fn written(loss: Glm, z: f64, y: f64) -> f64 {
    let (class, r) = (if y > 0.0 { 1.0 } else { -1.0 }, z - y);
    let plus = |u: f64| u.max(0.0);
    match loss {
        Glm::Logistic => (1.0 + (-class * z).exp()).ln(),
        Glm::Sigmoid => 1.0 / (1.0 + (class * z).exp()),
        Glm::Hinge => plus(1.0 - class * z),
        Glm::Welsch => 1.0 - (-r * r / 2.0).exp(),
        Glm::GemanMcClure => r * r / (1.0 + r * r),
        Glm::Cauchy => (1.0 + r * r).ln(),
        Glm::Tukey(c) => {
            let c = c.get();
            c * c / 6.0 * (1.0 - plus(1.0 - r * r / (c * c)).powi(3))
        }
        Glm::Huber(d) if r.abs() <= d.get() => r * r / 2.0,
        Glm::Huber(d) => d.get() * (r.abs() - d.get() / 2.0),
        Glm::Squared(b) => (r * r).min(b.get() * b.get()) / 2.0,
        Glm::Absolute => r.abs(),
        Glm::Pinball(tau) => (1.0 - tau.get()) * plus(r) + tau.get() * plus(-r),
        Glm::Relu => (plus(z) - y).abs(),
        Glm::Poisson(largest) => {
            let (largest, end) = (largest.get(), largest.get().ln());
            let count = largest * (1.0 + y.clamp(-1.0, 1.0)) / 2.0;
            let least = if count > 0.0 {
                count - count * count.ln()
            } else {
                0.0
            };
            let convex = if z <= end {
                z.exp()
            } else {
                largest * (1.0 + z - end)
            };
            convex - count * z - least
        }
    }
}

proptest! {
    #[test]
    fn values_are_as_written((z, y) in points()) {
        for loss in losses() {
            let (value, written) = (loss.value(z, y), written(loss, z, y));
            prop_assert!((value - written).abs() <= 1e-13 * (1.0 + written), "{loss} {value} {written}");
        }
    }

    #[test]
    fn slopes_are_derivatives((z, y) in points()) {
        let h = 1e-5;
        for loss in losses() {
            if !away(loss, z, y, h) {
                continue;
            }
            let numeric = (loss.value(z + h, y) - loss.value(z - h, y)) / (2.0 * h);
            prop_assert!((numeric - loss.slope(z, y)).abs() < 1e-8, "{loss} {numeric} {}", loss.slope(z, y));
            let numeric = (loss.slope(z + h, y) - loss.slope(z - h, y)) / (2.0 * h);
            prop_assert!((numeric - loss.curvature(z, y)).abs() < 1e-8, "{loss}");
        }
    }

    #[test]
    fn constants_hold((z, y) in points()) {
        for loss in losses() {
            let constants = loss.constants_within(1.0, Some(3.0));
            prop_assert!(loss.slope(z, y).abs() <= constants.lipschitz * (1.0 + 1e-12));
            prop_assert!(loss.curvature(z, y).abs() <= constants.smoothness * (1.0 + 1e-12));
            prop_assert!(loss.value(z, y) >= 0.0);
            prop_assert!(loss.value(0.0, y) <= constants.initial_gap + 1e-12);
            // More labels allow a larger gap.
            prop_assert!(constants.initial_gap <= loss.constants(1.0).initial_gap);
        }
    }

    #[test]
    fn convex_losses_are_convex((z, y) in points(), w in -40.0..40.0f64, t in 0.0..1.0f64) {
        for loss in losses() {
            if loss.constants(1.0).convexity == Convexity::Convex {
                let chord = t * loss.value(z, y) + (1.0 - t) * loss.value(w, y);
                prop_assert!(loss.value(t * z + (1.0 - t) * w, y) <= chord + 1e-12, "{loss}");
            }
        }
    }

    #[test]
    fn small_changes_follow_the_curvature((z, y) in points(), exponent in -300i32..-9) {
        let dz = 10f64.powi(exponent);
        for loss in losses() {
            if !away(loss, z, y, 1e-8) {
                continue;
            }
            // The change is curvature * dz + O(dz^2); the third derivatives are below 12.
            let linear = loss.curvature(z, y) * dz;
            let change = loss.slope_change(z, dz, y);
            prop_assert!((change - linear).abs() <= 12.0 * dz * dz + 1e-13 * dz, "{loss} {z} {dz:e}");
        }
    }

    #[test]
    fn changes_are_differences((z, y) in points(), dz in prop_oneof![-5.0..5.0f64, -1.0..1.0f64, -90.0..90.0f64]) {
        for loss in losses() {
            if !away(loss, z, y, 1e-12) || !away(loss, z + dz, y, 1e-12) {
                continue;
            }
            let plain = loss.slope(z + dz, y) - loss.slope(z, y);
            let change = loss.slope_change(z, dz, y);
            prop_assert!((change - plain).abs() < 1e-13 * (1.0 + z.abs() + dz.abs()), "{loss} {z} {dz} {change} {plain}");
        }
    }

    #[test]
    fn nothing_blows_up(z in any::<f64>(), dz in any::<f64>(), y in any::<f64>()) {
        for loss in losses() {
            let constants = loss.constants(1.0);
            let slope = loss.slope(z, y);
            prop_assert!(slope.is_nan() || slope.abs() <= constants.lipschitz * (1.0 + 1e-12));
            let _ = (loss.value(z, y), loss.slope_change(z, dz, y), loss.curvature(z, y));
        }
    }
}

/// A kink that a step down to 1e-300 crosses counts whole, and one that it does not cross not at
/// all.
#[test]
fn tiny_steps_across_kinks() {
    for dz in [1e-3, 1e-30, 1e-300] {
        assert_eq!(Glm::Absolute.slope_change(0.0, dz, 0.0), 1.0);
        assert_eq!(Glm::Absolute.slope_change(0.0, -dz, 0.0), -1.0);
        assert_eq!(Glm::Absolute.slope_change(-0.5 * dz, dz, 0.0), 2.0);
        assert_eq!(Glm::Absolute.slope_change(-2.0 * dz, dz, 0.0), 0.0);
        assert_eq!(Glm::Hinge.slope_change(1.0, -dz, 1.0), -1.0);
        assert_eq!(Glm::Hinge.slope_change(-1.0, dz, -1.0), 1.0);
        assert_eq!(Glm::Relu.slope_change(0.0, dz, 2.0), -1.0);
        assert_eq!(Glm::Relu.slope_change(0.0, -dz, 2.0), 0.0);
        let pinball = Glm::Pinball(Quantile::new(0.75).unwrap());
        assert_eq!(pinball.slope_change(-0.5 * dz, dz, 0.0), 1.0);
        // Huber at the end of its quadratic: into it the whole step, out of it none.
        let huber = Glm::Huber(scale(0.5));
        assert_eq!(huber.slope_change(0.5, -dz, 0.0), -dz);
        assert_eq!(huber.slope_change(0.5, dz, 0.0), 0.0);
        assert_eq!(huber.slope_change(-7.0, dz, 0.0), 0.0);
    }
    // All the way through, from outside to outside.
    assert_eq!(Glm::Huber(scale(0.5)).slope_change(-3.0, 9.0, 0.0), 1.0);
}

/// The stated subgradients at kinks lie between the one-sided slopes.
#[test]
fn slopes_at_kinks_are_clarke_subgradients() {
    for loss in losses() {
        for y in [-1.0, 0.5, 1.0] {
            for at in joints(loss, y) {
                let (below, above) = (loss.slope(at - 1e-9, y), loss.slope(at + 1e-9, y));
                let here = loss.slope(at, y);
                let slack = 1e-8;
                assert!(
                    here >= below.min(above) - slack && here <= below.max(above) + slack,
                    "{loss} {y}"
                );
            }
        }
    }
}

#[test]
fn the_constants_are_attained() {
    // Arg-max of each slope and curvature, from calculus.
    let root3 = 3f64.sqrt();
    for (loss, z) in [
        (Glm::Sigmoid, 0.0),
        (Glm::Hinge, 0.0),
        (Glm::Welsch, 1.0),
        (Glm::GemanMcClure, 1.0 / root3),
        (Glm::Cauchy, 1.0),
        (Glm::Tukey(scale(4.685)), 4.685 / 5f64.sqrt()),
        (Glm::Huber(scale(0.3)), 7.0),
        (Glm::Squared(scale(17.0)), -17.0),
        (Glm::Absolute, 1e-9),
        (Glm::Pinball(Quantile::new(0.9).unwrap()), -1.0),
        (Glm::Pinball(Quantile::new(0.2).unwrap()), 1.0),
        (Glm::Relu, 2.0),
        (Glm::Poisson(scale(1.0)), -800.0),
    ] {
        let y = if matches!(loss, Glm::Poisson(_)) || loss.is_classification() {
            1.0
        } else {
            0.0
        };
        let constants = loss.constants(1.0);
        assert!(
            (loss.slope(z, y).abs() - constants.lipschitz).abs() < 1e-15,
            "{loss}"
        );
    }
    let inflection = (2.0 + root3).ln();
    assert!((Glm::Sigmoid.curvature(inflection, 1.0).abs() - 1.0 / (6.0 * root3)).abs() < 1e-15);
    assert_eq!(Glm::Logistic.curvature(0.0, 1.0), 0.25);
    for loss in losses() {
        let constants = loss.constants(1.0);
        if constants.smoothness.is_finite() && !loss.is_classification() {
            let steepest = match loss {
                Glm::Poisson(largest) => largest.get().ln() - 1e-15,
                _ => 0.0,
            };
            let found = loss.curvature(steepest, 0.0);
            assert!((found / constants.smoothness - 1.0).abs() < 4e-15, "{loss}");
        }
        // A gap is attained by the label bound, and infinite only where phi is unbounded.
        let gap = loss.constants_within(1.0, Some(2.0)).initial_gap;
        let reached = [-2.0, 2.0].map(|y| written(loss, 0.0, y));
        assert!((gap - reached[0].max(reached[1])).abs() < 1e-14, "{loss}");
        let unbounded = matches!(
            loss,
            Glm::Cauchy | Glm::Huber(_) | Glm::Absolute | Glm::Pinball(_) | Glm::Relu
        );
        assert_eq!(constants.initial_gap.is_infinite(), unbounded, "{loss}");
    }
}

/// The largest third derivatives: difference quotients on a fine grid never pass them and come
/// within a thousandth.
#[test]
fn the_third_derivatives_are_attained() {
    for loss in [
        Glm::Cauchy,
        Glm::Tukey(scale(4.685)),
        Glm::Tukey(scale(0.7)),
    ] {
        let rho = loss.constants(1.0).hessian_lipschitz;
        let largest = (-30_000..30_000)
            .map(|k| f64::from(k) * 2e-4)
            .filter(|z| away(loss, *z, 0.0, 1e-5))
            .map(|z| (loss.curvature(z + 1e-5, 0.0) - loss.curvature(z - 1e-5, 0.0)).abs() / 2e-5)
            .fold(0.0, f64::max);
        assert!(largest <= rho * (1.0 + 1e-6), "{loss} {largest} {rho}");
        assert!(largest >= rho * (1.0 - 3e-3), "{loss} {largest} {rho}");
    }
}

/// Fifty-digit values of the less plain constants.
#[test]
fn published_numbers() {
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-14, "{a} {b}");
    close(
        Glm::Cauchy.constants(1.0).hessian_lipschitz,
        1.5 + std::f64::consts::SQRT_2,
    );
    close(
        Glm::Welsch.constants(1.0).hessian_lipschitz,
        1.380_119_046_160_749,
    );
    close(
        Glm::GemanMcClure.constants(1.0).hessian_lipschitz,
        4.668_559_284_155_213,
    );
    close(
        Glm::Tukey(scale(4.685)).constants(1.0).lipschitz,
        1.340_925_244_747_073_9,
    );
}

#[test]
fn names_go_there_and_back() {
    for loss in losses() {
        assert_eq!(loss.to_string().parse::<Glm>().unwrap(), loss);
        let json = serde_json::to_string(&loss).unwrap();
        assert_eq!(serde_json::from_str::<Glm>(&json).unwrap(), loss);
    }
    assert_eq!(
        serde_json::to_string(&Glm::GemanMcClure).unwrap(),
        "\"geman-mcclure\""
    );
    assert_eq!("huber:0.5".parse(), Ok(Glm::Huber(scale(0.5))));
    assert_eq!("huber".parse::<Glm>().unwrap().to_string(), "huber:1.345");
    assert_eq!("l2".parse::<Glm>(), Err(LossNameError::Unknown));
    assert_eq!("huber:".parse::<Glm>(), Err(LossNameError::NotANumber));
    assert_eq!(
        "welsch:1".parse::<Glm>(),
        Err(LossNameError::NoParameter(Glm::Welsch))
    );
    for bad in [
        "huber:0",
        "tukey:-1",
        "squared:inf",
        "huber:nan",
        "huber:1e101",
        "pinball:1",
        "pinball:0",
    ] {
        assert!(
            matches!(bad.parse::<Glm>(), Err(LossNameError::Parameter(_))),
            "{bad}"
        );
    }
    assert!(
        LossNameError::Unknown
            .to_string()
            .contains("tukey[:NUMBER], huber")
    );
}
