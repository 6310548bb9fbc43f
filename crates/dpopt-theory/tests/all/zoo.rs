//! Every constant of the zoo, attacked; and wrong constants, which must not survive.
//!
//! Random numbers have fixed seeds: a constant is refuted or not, always. The least shares that
//! must be attained follow from what each page says about where the constant is attained.

use dpopt_certify::{GoldsteinSettings, SecondOrderSettings, goldstein, second_order};
use dpopt_theory::{
    Audited, GoldsteinProblem as _, LogPeriodic, Logarithm, Majority, Power, Probe, Problem,
    ProblemConstants, Profile, Radial, Ramp, RampBowl, Ring, SecondOrderProblem, TiltedSquare,
    TwoPoint, WeaklyConvex, Wells,
};

use crate::attack::audit;

use Audited::{
    HessianFrobenius, HessianLipschitz, InitialGap, Kl, Lipschitz, Range, Smoothness, WeakConvexity,
};

#[test]
fn powers() {
    for tau in [1.5, 4.0 / 3.0, 2.0, 2.5, 3.0, 4.0, 11.0] {
        let problem = Radial::new(Power::new(tau).unwrap(), 5, 0.8, 1.0).unwrap();
        let report = Probe::new(10.0, 1).second_order(&problem);
        let mut least = vec![
            (Lipschitz, 0.98),
            (InitialGap, 0.999),
            (Kl, 0.999),
            (Range, 0.97),
        ];
        if tau >= 2.0 {
            least.push((Smoothness, 0.9));
        }
        if tau >= 3.0 {
            least.push((HessianLipschitz, 0.7));
        }
        audit(&format!("power {tau}"), &report, &least);
        let constants = problem.constants();
        let gamma = constants.kl.unwrap().gamma;
        assert!((gamma.powf(tau / (tau - 1.0)) * tau - 1.0).abs() < 1e-12);
    }
}

/// gamma, L1, F0 and the Lipschitz constant to four digits.
#[test]
fn log_periodic_powers() {
    for (scale, tau, omega, gamma, smoothness, gap) in [
        (0.5, 2.0, 4.0, 1.350, 3.062, 0.400),
        (1.0 / 3.0, 3.0, 8.0, 0.928, 6.00, 0.2785),
    ] {
        let profile = LogPeriodic::new(scale, tau, 0.5, omega).unwrap();
        let problem = Radial::new(profile, 4, 1.0, 1.0).unwrap();
        let constants = problem.constants();
        assert!(
            (constants.kl.unwrap().gamma - gamma).abs() < 6e-4,
            "{constants:?}"
        );
        assert!(
            (constants.smoothness - smoothness).abs() < 6e-3,
            "{constants:?}"
        );
        assert!((constants.initial_gap - gap).abs() < 6e-4, "{constants:?}");
        let report = Probe::new(1.0, 2).second_order(&problem);
        assert!((constants.lipschitz - 1.0).abs() < 6e-4, "{constants:?}");
        let mut least = vec![
            (Lipschitz, 0.99),
            (Smoothness, 0.95),
            (WeakConvexity, 0.95),
            (Kl, 0.99),
            (InitialGap, 0.999),
            (Range, 0.999),
        ];
        if tau >= 3.0 {
            least.push((HessianLipschitz, 0.9));
        }
        audit(&format!("log-periodic {tau}"), &report, &least);
    }
}

#[test]
fn weakly_convex_functions() {
    for (tau, gamma, lipschitz, weak, gap) in [
        (1.5, 1.641, 1.192, 2.486, 0.7219),
        (4.0 / 3.0, 1.562, 1.226, 2.654, 0.8052),
    ] {
        let profile = WeaklyConvex::new(tau, 0.03, 10.0).unwrap();
        let problem = Radial::new(profile, 3, 1.0, 1.0).unwrap();
        let constants = problem.constants();
        assert!(
            (constants.kl.unwrap().gamma - gamma).abs() < 6e-4,
            "{constants:?}"
        );
        // These are rounded up there.
        assert!(
            (constants.lipschitz - lipschitz + 5e-4).abs() < 6e-4,
            "{constants:?}"
        );
        assert!(
            (constants.weak_convexity - weak + 5e-4).abs() < 6e-4,
            "{constants:?}"
        );
        assert!(
            (constants.initial_gap - gap + 5e-5).abs() < 6e-5,
            "{constants:?}"
        );
        let report = Probe::new(1.0, 3).second_order(&problem);
        let least = [
            (Lipschitz, 0.99),
            (WeakConvexity, 0.95),
            (Kl, 0.99),
            (InitialGap, 0.99),
        ];
        audit(&format!("weakly convex {tau}"), &report, &least);
    }
}

#[test]
fn kinks() {
    let ring = Radial::new(Ring, 4, 2.0, 3.0).unwrap();
    let report = Probe::new(3.0, 4).second_order(&ring);
    audit(
        "ring",
        &report,
        &[(Lipschitz, 0.999), (InitialGap, 0.999), (Range, 0.97)],
    );
    let logarithm = Radial::new(Logarithm, 4, 2.0, 3.0).unwrap();
    let report = Probe::new(3.0, 5).second_order(&logarithm);
    let least = [
        (Lipschitz, 0.99),
        (InitialGap, 0.99),
        (Kl, 0.97),
        (WeakConvexity, 0.5),
    ];
    audit("logarithm", &report, &least);
}

#[test]
fn wells_and_ramps() {
    let wells = Wells::new(6, 0.1, vec![0.5, 0.25, 0.125]).unwrap();
    let report = Probe::new(12.0, 6).second_order(&wells);
    let least = [
        (Lipschitz, 0.8),
        (Smoothness, 0.8),
        (HessianLipschitz, 0.7),
        (HessianFrobenius, 0.6),
        (WeakConvexity, 0.9),
        (InitialGap, 0.5),
    ];
    audit("wells", &report, &least);
    // The saddle's Hessian is A I - diag(b).
    let least = wells.least_eigenvalue(&[0.0; 6]);
    assert!((least - (0.1 - 0.5)).abs() < 1e-15);
    let mut gradient = [1.0; 6];
    wells.gradient(&[0.0; 6], &mut gradient);
    assert_eq!(gradient, [0.0; 6]);
    // 0.8587 alone: the wells are almost flat.
    let hull = Wells::new(4, 1.0, vec![1e-6]).unwrap();
    let report = Probe::new(4.0, 7).second_order(&hull);
    audit("hull", &report, &[(HessianLipschitz, 0.97)]);

    for (ramp, bends) in [(Ramp::Straight, false), (Ramp::Wavy, true)] {
        let bowl = RampBowl::new(5, 1.0, 1.0, 0.5, ramp, 0.2).unwrap();
        let report = Probe::new(4.0, 8).second_order(&bowl);
        audit(
            "ramp-bowl",
            &report,
            &[(Lipschitz, 0.4), (Smoothness, 0.97), (InitialGap, 0.99)],
        );
        let bend = report.about(WeakConvexity).unwrap().seen;
        assert_eq!(bend > 0.9, bends);
    }
}

#[test]
fn instances_of_lower_bounds() {
    let square = TiltedSquare::new(3, 0.7, 1.3)
        .unwrap()
        .over(vec![0.9, -0.8, 0.4]);
    let report = Probe::new(99.0, 10).second_order(&square);
    let least = [
        (Lipschitz, 0.9),
        (Smoothness, 0.99),
        (InitialGap, 0.99),
        (Kl, 0.999),
    ];
    audit("tilted square", &report, &least);
    for kappa in [2.0, 3.0, 4.0] {
        for bias in [0.02, 0.1] {
            for majority in [Majority::Ones, Majority::MinusOnes] {
                let problem = TwoPoint::new(kappa, bias, majority).unwrap();
                let report = Probe::new(1.0, 11).first_order(&problem);
                // The excess at -a is p^kappa, tight from inside.
                let least = [(Lipschitz, 0.3), (InitialGap, 0.97), (Kl, 0.97)];
                audit(&format!("two points {kappa} {bias}"), &report, &least);
            }
        }
    }
    // floor: (1/8)(m/n)^kappa e^(-m^2 rho) with m = 1/sqrt(rho): 1/(8e) (n sqrt rho)^-kappa = 0.046.
    let problem = TwoPoint::new(3.0, 0.01, Majority::Ones).unwrap();
    let floor = problem.floor(1000, 0.01);
    assert!((floor / (0.045_985 * 1e-6) - 1.0).abs() < 1e-4, "{floor}");
}

/// A problem with one constant, the gradient or the Hessian changed.
struct Wrong<'a, P> {
    truth: &'a P,
    constants: fn(&mut ProblemConstants),
    gradient: f64,
    hessian: f64,
    eigenvalue: f64,
}

impl<P> Clone for Wrong<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Wrong<'_, P> {}

impl<P: Problem> Problem for Wrong<'_, P> {
    fn dim(&self) -> usize {
        self.truth.dim()
    }
    fn constants(&self) -> ProblemConstants {
        let mut constants = self.truth.constants();
        (self.constants)(&mut constants);
        constants
    }
    fn value(&self, point: &[f64]) -> f64 {
        self.truth.value(point)
    }
    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        self.truth.gradient(point, out);
        out[0] *= self.gradient;
    }
}

impl<P: SecondOrderProblem> SecondOrderProblem for Wrong<'_, P> {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        self.truth.hessian_vector(point, direction, out);
        out[0] *= self.hessian;
    }
    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        self.truth.least_eigenvalue(point) + self.eigenvalue
    }
}

#[test]
fn wrong_claims_are_refuted() {
    let profile = LogPeriodic::new(0.5, 2.0, 0.5, 4.0).unwrap();
    let truth = Radial::new(profile, 4, 0.9, 1.0).unwrap();
    let right = Wrong {
        truth: &truth,
        constants: |_| {},
        gradient: 1.0,
        hessian: 1.0,
        eigenvalue: 0.0,
    };
    let refuted = |wrong: Wrong<'_, Radial<LogPeriodic>>| -> Vec<Audited> {
        let report = Probe::new(1.0, 12).second_order(&wrong);
        report.refuted().map(|finding| finding.audited).collect()
    };
    assert_eq!(refuted(right), []);
    type Change = fn(&mut ProblemConstants);
    let changes: [(Audited, Change); 6] = [
        (Audited::Lipschitz, |c| c.lipschitz *= 0.97),
        (Audited::Smoothness, |c| c.smoothness *= 0.93),
        (Audited::WeakConvexity, |c| c.weak_convexity *= 0.85),
        (Audited::Range, |c| c.range *= 0.9),
        (Audited::InitialGap, |c| c.initial_gap *= 0.98),
        (Audited::Kl, |c| {
            if let Some(kl) = &mut c.kl {
                kl.gamma *= 0.97;
            }
        }),
    ];
    for (audited, constants) in changes {
        let found = refuted(Wrong { constants, ..right });
        assert!(found.contains(&audited), "{audited:?}: {found:?}");
    }
    let found = refuted(Wrong {
        gradient: 1.0 + 1e-4,
        ..right
    });
    assert!(found.contains(&Audited::Gradient), "{found:?}");
    let found = refuted(Wrong {
        hessian: 1.0 + 1e-4,
        ..right
    });
    assert!(found.contains(&Audited::Hessian), "{found:?}");
    let found = refuted(Wrong {
        eigenvalue: 1e-6,
        ..right
    });
    assert_eq!(found, [Audited::LeastEigenvalue]);
    // rho of a quartic, too small by a fifth.
    let truth = Radial::new(Power::new(4.0).unwrap(), 3, 0.9, 1.0).unwrap();
    let wrong = Wrong {
        truth: &truth,
        constants: |c| c.hessian_lipschitz *= 0.8,
        gradient: 1.0,
        hessian: 1.0,
        eigenvalue: 0.0,
    };
    let report = Probe::new(1.0, 13).second_order(&wrong);
    assert!(
        !report.about(HessianLipschitz).unwrap().holds(),
        "{report:?}"
    );
}

/// The general formula against the ring's closed form, at radii on both sides.
#[test]
fn goldstein_distances_of_the_ring() {
    let ring = Radial::new(Ring, 7, 1.0, 9.0).unwrap();
    for a in [0.01, 0.1, 0.3, 0.6, 1.2] {
        for r in [
            0.05, 0.2, 0.5, 0.65, 0.95, 1.0, 1.05, 1.2, 1.29, 1.31, 1.7, 3.0, 8.0,
        ] {
            let exact = Ring::goldstein(r, a);
            let seen = ring.goldstein_distance(&ring.at_radius(r), a);
            assert!((seen - exact).abs() < 1e-9, "{r} {a}: {seen} {exact}");
        }
    }
    assert_eq!(Ring::goldstein(1.2, 0.25), 0.0);
}

/// Against the least norm in the hull of gradients at many points of a disc, by Frank-Wolfe: an upper bound
/// that is close where the points are dense.
#[test]
fn goldstein_distances_in_the_plane() {
    let log = Radial::new(Logarithm, 2, 1.0, 9.0).unwrap();
    let profile = LogPeriodic::new(0.5, 2.0, 0.5, 4.0).unwrap();
    let periodic = Radial::new(profile, 2, 1.0, 9.0).unwrap();
    for (r, a) in [(0.8, 0.3), (1.5, 0.7), (0.4, 0.39), (2.0, 0.05)] {
        check_in_the_plane(&log, r, a);
        check_in_the_plane(&periodic, r, a);
    }
}

fn check_in_the_plane<P: Profile>(problem: &Radial<P>, r: f64, a: f64) {
    let centre = problem.at_radius(r);
    let mut gradients = Vec::new();
    for i in 0..60 {
        for j in 0..240 {
            let t = f64::from(j) / 240.0 * std::f64::consts::TAU;
            let s = a * f64::from(i) / 59.0;
            let point = [centre[0] + s * t.cos(), centre[1] + s * t.sin()];
            let mut g = [0.0; 2];
            problem.gradient(&point, &mut g);
            gradients.push(g);
        }
    }
    let mut w = gradients[0];
    for _ in 0..2000 {
        let corner = gradients
            .iter()
            .min_by(|x, y| {
                let along = |g: &[f64; 2]| g[0] * w[0] + g[1] * w[1];
                along(x).total_cmp(&along(y))
            })
            .unwrap();
        let d = [corner[0] - w[0], corner[1] - w[1]];
        let length = d[0] * d[0] + d[1] * d[1];
        let step = (-(w[0] * d[0] + w[1] * d[1]) / length).clamp(0.0, 1.0);
        if !(step > 0.0) {
            break;
        }
        w = [w[0] + step * d[0], w[1] + step * d[1]];
    }
    let hull = w[0].hypot(w[1]);
    let exact = problem.goldstein_distance(&centre, a);
    // Points at 1/60 of the radius: gradients move by less than L1 a/60 between them.
    assert!(hull >= exact - 1e-9, "{r} {a}: {hull} {exact}");
    assert!(hull <= exact + 0.05 * a + 2e-3, "{r} {a}: {hull} {exact}");
}

/// The certificates, which know nothing of closed forms, agree with them.
#[test]
fn certificates_agree_with_closed_forms() {
    let wells = Wells::new(40, 0.1, vec![0.5, 0.25, 0.125]).unwrap();
    let profile = LogPeriodic::new(0.5, 2.0, 0.5, 4.0).unwrap();
    let periodic = Radial::new(profile, 40, 1.0, 9.0).unwrap();
    let mut point = vec![0.05; 40];
    (point[0], point[1], point[2]) = (0.4, -2.0, 3.0);
    let certified = |problem: &dyn SecondOrderProblem, point: &[f64]| {
        let found = second_order(problem, point, &SecondOrderSettings::default()).unwrap();
        assert!((found.least_eigenvalue - problem.least_eigenvalue(point)).abs() < 1e-6);
    };
    certified(&wells, &point);
    certified(&wells, &[0.0; 40]);
    certified(&periodic, &point);
    // The search finds a hull of gradients that is no nearer than the exact distance, and close to it.
    let ring = Radial::new(Ring, 10, 1.0, 9.0).unwrap();
    for (r, a) in [(1.2, 0.25), (1.7, 0.5), (0.6, 0.2)] {
        let point = ring.at_radius(r);
        let found = goldstein(&ring, &point, a, &GoldsteinSettings::default()).unwrap();
        let exact = ring.goldstein_distance(&point, a);
        assert!(found.upper >= exact - 1e-9, "{r} {a}: {found:?} {exact}");
        assert!(found.upper <= exact + 1e-3, "{r} {a}: {found:?} {exact}");
    }
}
