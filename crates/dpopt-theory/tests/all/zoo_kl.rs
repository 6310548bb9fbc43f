//! The constants of the KL families, attacked, and held against published numbers.
//!
//! As in the tests of the other families, seeds are fixed, and the least share of a constant that must be attained follows
//! from where its page says that it is attained.

use dpopt_theory::{Audited, Probe, Problem as _, Profile as _, Radial, Softplus, TiltedPower};

use crate::attack::audit;

use Audited::{InitialGap, Kl, Lipschitz, Smoothness};

/// Four digits were published: gamma 0.0698, Lipschitz 10.11, L1 99.8, F0 0.706.
#[test]
fn softplus_has_exponent_one() {
    let profile = Softplus::new(20.0, 20.0).unwrap();
    let problem = Radial::new(profile, 4, 1.0, 1.0).unwrap();
    let constants = problem.constants();
    let kl = constants.kl.unwrap();
    assert_eq!(kl.kappa, 1.0);
    for (found, published, digit) in [
        (kl.gamma, 0.0698, 1e-4),
        (constants.lipschitz, 10.11, 1e-2),
        (constants.smoothness, 99.8, 1e-1),
        (constants.initial_gap, 0.706, 1e-3),
    ] {
        assert!((found - published).abs() <= digit, "{found} {published}");
    }
    let least = [
        (Lipschitz, 0.99),
        (Smoothness, 0.95),
        (Kl, 0.99),
        (InitialGap, 0.999),
    ];
    audit(
        "softplus",
        &Probe::new(1.0, 1).second_order(&problem),
        &least,
    );
    // The condition is nearly tight over six orders of magnitude of the excess.
    for r in [0.35, 0.5, 0.7, 0.9] {
        let ratio = profile.value(r) / (kl.gamma * profile.slope(r));
        assert!(ratio > 0.65 && ratio <= 1.0, "{ratio} at {r}");
    }
    assert!(profile.value(0.35) < 1e-5);
    // Computed without cancellation: near the centre a parabola of curvature s^2/(1 + e^(r0 - 1)).
    let bend = 400.0 / (1.0 + 19f64.exp());
    let r = 1e-6;
    assert!((profile.value(r) / (0.5 * bend * r * r) - 1.0).abs() < 1e-6);
}

#[test]
fn tilted_powers_grow_from_a_minimiser_of_the_records() {
    for (tau, reach) in [(2.0, 3.0), (3.0, 1.5), (4.0, 1.4)] {
        let loss = TiltedPower::new(3, 0.9, tau, 1.0, reach).unwrap();
        let mean = vec![0.3, -0.5, 0.2];
        let length = 0.38f64.sqrt();
        let problem = loss.over(mean.clone());
        // The gradient vanishes at the stated distance, opposite to the mean, where F is -F0.
        let factor = -loss.minimiser_norm(length) / length;
        let best: Vec<f64> = mean.iter().map(|m| factor * m).collect();
        let mut gradient = vec![1.0; 3];
        problem.gradient(&best, &mut gradient);
        assert!(gradient.iter().all(|g| g.abs() < 1e-14), "{gradient:?}");
        assert!((problem.value(&best) + problem.initial_gap()).abs() < 1e-14);
        let mut least = vec![(Smoothness, 0.9), (InitialGap, 0.99)];
        if tau == 2.0 {
            // lambda^2 ||w - w*||^2: modulus 2 lambda^2, where growth gives a gamma twice as large as need be.
            least.push((Kl, 0.49));
        }
        audit(
            &format!("tilted power {tau}"),
            &Probe::new(reach, 5).first_order(&problem),
            &least,
        );
    }
    // R has to reach the minimisers of all records.
    assert!(TiltedPower::new(3, 0.9, 3.0, 1.0, 0.3).is_err());
}
