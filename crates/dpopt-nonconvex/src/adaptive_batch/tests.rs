//! Plans against the tables of their page, and at the ends of what can be planned.

use dpopt_privacy::{
    Adjacency, Delta, Epsilon, ErrorMeasure, Event, NoiseMultiplier, Participation, PrefixKind,
    PrefixNoise, Spend,
};
use dpopt_solver::{
    Budget, CurvatureBy, HessianFacts, Plan as _, PlanError, PublicFacts, SecondOrderTargets,
    WalkConstants,
};

use super::gradient::Period;
use super::{AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings};

fn facts(dim: usize, records: u64) -> PublicFacts {
    PublicFacts::unit(records, dim)
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

const HESSIAN: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};

fn settings(constants: WalkConstants) -> AdaptiveBatchSettings {
    AdaptiveBatchSettings::new(1_000_000).with_constants(constants)
}

fn plan(
    dim: usize,
    records: u64,
    settings: AdaptiveBatchSettings,
) -> Result<AdaptiveBatchPlan, PlanError> {
    AdaptiveBatchPlan::new(&facts(dim, records), &HESSIAN, &budget(), settings)
}

/// The tables of `docs/theory/second-order.md`, and what one pass has to reach.
#[test]
fn planned_bounds_are_those_of_the_page() {
    for (constants, dim, records, known) in [
        (WalkConstants::Rigorous, 10, 120_000, 0.734),
        (WalkConstants::Rigorous, 10, 500_000, 0.439),
        (WalkConstants::Rigorous, 10, 2_200_000, 0.265),
        (WalkConstants::Rigorous, 100, 120_000, 0.786),
        (WalkConstants::Rigorous, 100, 500_000, 0.469),
        (WalkConstants::Rigorous, 100, 2_200_000, 0.276),
    ] {
        let plan = plan(dim, records, settings(constants)).unwrap();
        let bound = plan.bound().unwrap();
        let off = bound.value / known - 1.0;
        assert!(off.abs() < 0.01, "{constants} {dim} {records} {bound:?}");
        let coupled = bound.value.sqrt().min(0.9);
        assert!(bound.curvature.unwrap() <= coupled, "{bound:?}");
        assert!(plan.schedule().records <= records);
    }
    for (constants, records, alpha) in [
        (WalkConstants::Rigorous, 120_000, 0.9),
        (WalkConstants::Rigorous, 500_000, 0.5),
        (WalkConstants::Rigorous, 2_200_000, 0.3),
        (WalkConstants::Typical, 12_000, 0.5),
        (WalkConstants::Typical, 60_000, 0.2),
        (WalkConstants::Typical, 300_000, 0.1),
    ] {
        let targets = SecondOrderTargets::coupled(alpha, 1.0);
        let targets = SecondOrderTargets {
            curvature: targets.curvature.min(0.9),
            ..targets
        };
        let plan = plan(10, records, settings(constants).with_targets(targets)).unwrap();
        assert_eq!(plan.schedule().targets, targets);
    }
}

/// Theorem 2 summed up term by term for one schedule: what its page says, from the numbers that the plan shows.
#[test]
fn a_rigorous_plan_adds_up() {
    let targets = SecondOrderTargets {
        gradient: 0.5,
        curvature: 0.7,
    };
    let rigorous = settings(WalkConstants::Rigorous).with_targets(targets);
    let plan = plan(10, 1_000_000, rigorous).unwrap();
    let of = plan.schedule();
    let mu = plan.budget().mu().unwrap().get();
    let (b, kappa, theta) = (of.anchor_batch as f64, of.drift, of.candidate);
    let (k, p) = (of.most_candidates as f64, 0.025 / 8.0);
    // Certificates: p_c = 1/40, shared by 2 K.
    assert!((of.certificate_log - (2.0 * k / 0.025).ln()).abs() < 1e-12);
    // gamma: the martingale of a period, and noise of a Toeplitz factor.
    let path = 60.0 / theta;
    let periods = 1.0 + k + path / kappa.min(1.0);
    let variance = (1.0 + kappa) / b;
    let l = (2.0 * periods / p).ln();
    let sampled = bernstein(l, variance, 2.0 / b);
    let worst = PrefixNoise::new(PrefixKind::Toeplitz, of.period, Participation::Single).unwrap();
    let deviation = 2.0 / (b * mu) * worst.worst_variance().sqrt();
    let noises = periods * of.period as f64;
    let noise = deviation * (10f64.sqrt() + (2.0 * (noises / p).ln()).sqrt());
    let gamma = sampled + noise;
    assert!(
        gamma <= of.error && gamma > 0.999 * of.error,
        "{gamma} {}",
        of.error
    );
    // A candidate's gradient is certified.
    let (bc, noise_c) = (of.norm_batch as f64, 2.0 / (of.norm_batch as f64 * mu));
    let margin = plan.schedule().norm_margin(plan.facts(), noise_c);
    let longer = bernstein((2.0 * k / p).ln(), 1.0 / bc, 2.0 / bc);
    let reached = theta + of.error + longer + margin;
    assert!(
        reached <= 0.5 && reached + 5.5 * noise_c > 0.499,
        "{reached}"
    );
    // A curvature of lambda is certified, or the step along it gains.
    let (bh, noise_h) = (
        of.hessian_batch as f64,
        2.0 / (of.hessian_batch as f64 * mu),
    );
    let matrix = bernstein((10.0 * k / p).ln(), 1.0 / bh, 2.0 / bh);
    let operator = noise_h * (20f64.sqrt() + (2.0 * (k / p).ln()).sqrt()) + matrix;
    assert!((operator / of.operator - 1.0).abs() < 1e-9);
    let left = 0.7 - operator - of.curvature_margin(1.0, noise_h);
    assert!(left > 0.6 * 0.7 && left < 0.9 * 0.7, "{left}");
    let bs = of.sign_batch as f64;
    let sign = (2.0 * (2.0 * k / p).ln() * (1.0 / bs + (2.0 / (bs * mu)).powi(2))).sqrt();
    assert!(sign <= of.sign_error && sign > 0.99 * of.sign_error);
    // Phi, on a grid: the top is flat.
    let falls = |r: f64| left * r * r / 2.0 - r * r * r / 6.0 - of.sign_error * r;
    let phi = (1..20_000)
        .map(|i| falls(f64::from(i) * 1e-4))
        .fold(0.0, f64::max);
    // The count of the theorem, by the best of its free numbers.
    let (n, v) = (1.0 + kappa / theta, variance + 2.0 / b * sampled / 3.0);
    let around = kappa.min(1.0 - 1.0 / b);
    let anchors = 1.0 + 1.0 / kappa;
    let mut best = (f64::INFINITY, 0.0);
    for c in [0.3, 0.4, 0.5, 0.6, 0.7] {
        for m in [3.0, 5.0, 7.0] {
            for e in [0.15, 0.3] {
                let x = (1.0 + 4.0 * e * f64::exp(-m / 2.0) / (1.0 - 2.0 * e)).ln() / e;
                let z = noise / f64::sqrt(m * v);
                let a = (1.0 + z) * m * v + (1.0 + 1.0 / z) * noise * noise;
                let u = (1.0 + z) * v * n / c;
                let delta = (1.0 - c) * theta - a / (c * theta) - u * x / around;
                let psi = 2.0 * phi - u * x;
                let gap = 2.0 + u * (x + (1.0 / p).ln() / e);
                if delta > 0.0 && psi > 0.0 && gap / delta <= path && 1.0 + gap / psi <= k {
                    let by_path = (anchors * b + 1.0 / theta) / delta;
                    let by_escape = (bh + bs + b * anchors + 1.0) / psi;
                    let records = b + gap * by_path.max(by_escape) + bh + bc;
                    if records < best.0 {
                        best = (records, gap / psi.min(delta * theta) + 1.0);
                    }
                }
            }
        }
    }
    let over = of.records as f64 / best.0 - 1.0;
    // The planner rounds, and counts anchors as if b were 100.
    assert!(over > -1e-6 && over < 0.02, "{} {best:?}", of.records);
    let over = of.steps as f64 / best.1 - 1.0;
    assert!(over > 0.0 && over < 0.03, "{} {best:?}", of.steps);
}

/// Steps of curvature are steps: where they gain little there are more of them than of the others, and the last one is a certificate's.
#[test]
fn the_steps_of_a_rigorous_plan_are_those_of_both_kinds() {
    let targets = SecondOrderTargets {
        gradient: 0.5,
        curvature: 0.35,
    };
    let rigorous = settings(WalkConstants::Rigorous).with_targets(targets);
    let plan = plan(10, 100_000_000, rigorous).unwrap();
    let of = plan.schedule();
    // No step of curvature gains more than h^3/(3 rho^2) with h = lambda, from F0 = 1.
    let least = 3.0 / targets.curvature.powi(3);
    assert!(of.steps as f64 > least, "{} {least}", of.steps);
    let limited = |steps| {
        let settings = AdaptiveBatchSettings::new(steps)
            .with_constants(WalkConstants::Rigorous)
            .with_targets(targets);
        self::plan(10, 100_000_000, settings)
    };
    assert!(limited(of.steps).is_ok());
    let refused = limited(of.steps - 1);
    assert!(matches!(refused, Err(PlanError::TooFewSteps { needed, .. }) if needed == of.steps));
}

#[test]
fn typical_plans_of_more_steps_than_are_allowed_say_so() {
    let of = |steps| plan(10, 60_000, AdaptiveBatchSettings::new(steps)).unwrap();
    let planned = of(1_000_000).schedule().steps;
    assert!(planned > 2);
    assert_eq!(of(planned).warning(1.0), None);
    let said = of(planned - 1).warning(1.0).unwrap();
    assert!(said.contains(&planned.to_string()), "{said}");
}

#[test]
fn batches_of_no_records_are_refused() {
    let of = plan(10, 60_000, settings(WalkConstants::Typical)).unwrap();
    type Batch = fn(&mut AdaptiveBatchSchedule) -> &mut u64;
    let batches: [Batch; 4] = [
        |of| &mut of.anchor_batch,
        |of| &mut of.hessian_batch,
        |of| &mut of.norm_batch,
        |of| &mut of.sign_batch,
    ];
    for batch in batches {
        let mut none = *of.schedule();
        *batch(&mut none) = 0;
        let made = AdaptiveBatchPlan::by_hand(
            &facts(10, 60_000),
            &HESSIAN,
            &budget(),
            settings(WalkConstants::Typical),
            none,
        );
        assert!(matches!(made, Err(PlanError::BadFact { .. })), "{made:?}");
    }
}

fn bernstein(log: f64, variance: f64, range: f64) -> f64 {
    let half = range * log / 3.0;
    half + (half * half + 2.0 * log * variance).sqrt()
}

/// The closed form of the Toeplitz factor's worst deviation against the noise that is drawn, and against the other kinds.
#[test]
fn the_noise_of_a_period_is_what_the_planner_takes_it_for() {
    let periods = Period::new();
    for len in [1u64, 2, 3, 7, 16, 100, 1024, 4096, 4097, 16_384] {
        let of = |kind| {
            let noise = PrefixNoise::new(kind, len, Participation::Single).unwrap();
            noise.worst_variance().sqrt()
        };
        let (told, drawn) = (periods.worst(len as f64), of(PrefixKind::Toeplitz));
        assert!(
            told >= drawn * (1.0 - 1e-9) && told < drawn * 1.001,
            "{len} {told} {drawn}"
        );
        let best = PrefixNoise::best(len, Participation::Single, ErrorMeasure::Worst).unwrap();
        assert!(told < best.worst_variance().sqrt() * 1.001, "{len}");
    }
    // As published: S(16), S(64), S(1024).
    for (len, known) in [(16.0, 1.944), (64.0, 2.389), (1024.0, 3.273)] {
        assert!((periods.worst(len) - known).abs() < 6e-4);
    }
}

/// Fewer records never say more, and neither do more dimensions.
#[test]
fn bounds_are_monotone() {
    for constants in [WalkConstants::Typical, WalkConstants::Rigorous] {
        let alpha = |dim, records| {
            let plan = plan(dim, records, settings(constants));
            plan.unwrap().bound().unwrap().value
        };
        let by_records: Vec<f64> = (0..7).map(|k| alpha(10, 150_000 << k)).collect();
        assert!(
            by_records.is_sorted_by(|a, b| *a > 0.98 * b),
            "{by_records:?}"
        );
        let by_dim: Vec<f64> = [2, 10, 50, 250].map(|dim| alpha(dim, 1_000_000)).to_vec();
        assert!(by_dim.is_sorted_by(|a, b| *a < 1.02 * b), "{by_dim:?}");
    }
}

#[test]
fn what_can_not_be_planned_is_refused_with_the_numbers() {
    let rigorous = settings(WalkConstants::Rigorous);
    let Err(PlanError::TooFewToCertify {
        needed: Some(needed),
        reachable: None,
        records: 20_000,
        ..
    }) = plan(10, 20_000, rigorous)
    else {
        panic!();
    };
    // So many are enough, and a tenth fewer are not.
    assert!(plan(10, needed + needed / 100, rigorous).is_ok());
    assert!(plan(10, needed - needed / 10, rigorous).is_err());
    let tight = SecondOrderTargets::coupled(0.05, 1.0);
    let Err(PlanError::TooFewToCertify {
        needed: Some(needed),
        reachable: Some(reachable),
        gradient,
        ..
    }) = plan(10, 500_000, rigorous.with_targets(tight))
    else {
        panic!();
    };
    assert_eq!(gradient, 0.05);
    assert!(needed > 100_000_000 && (reachable.gradient - 0.439).abs() < 0.01);
    assert!(matches!(
        plan(
            2_000,
            500_000,
            rigorous.with_curvature_by(CurvatureBy::Hessians)
        ),
        Err(PlanError::TooManyDimensions { .. })
    ));
}

/// By episodes: so many records as their cap needs, and none where a Hessian is cheaper.
#[test]
fn above_the_limit_of_hessians_episodes_are_planned() {
    for (constants, share) in [
        (WalkConstants::Typical, 0.5),
        (WalkConstants::Rigorous, 1.0),
    ] {
        assert!(
            plan(500, 5_000_000, settings(constants))
                .unwrap()
                .schedule()
                .episode
                .is_none()
        );
        for (dim, records) in [(2_000, 5_000_000), (20_000, 50_000_000)] {
            let plan = plan(dim, records, settings(constants)).unwrap();
            let schedule = plan.schedule();
            let episode = schedule.episode.unwrap();
            let mu = plan.budget().mu().unwrap().get();
            let batch = schedule.hessian_batch as f64;
            let cost = episode.cost(Adjacency::ReplaceOne, batch);
            assert!(share * cost <= mu * mu && share * cost > 0.9 * mu * mu);
            let z = NoiseMultiplier::new(1.0 / mu).unwrap();
            let cap = Spend::at_most_on_each_slice(Event::gaussian(z));
            assert_eq!(plan.spend(), cap);
            // What sampling takes along a direction that is fixed, at half of p_c/(2K).
            let log = schedule.certificate_log + 2f64.ln();
            let sampled = (2.0 * log / batch).sqrt();
            let told = episode.terms.curvature + sampled;
            assert!((told / schedule.targets.curvature - 1.0).abs() < 1e-6);
            assert!(episode.terms.missed <= 0.5 * (-schedule.certificate_log).exp() * (1.0 + 1e-9));
            assert!(episode.bend > schedule.operator);
        }
    }
}

/// A Hessian that hardly changes asks for no curvature that no Hessian tells.
#[test]
fn small_rho_is_planned_for() {
    for constants in [WalkConstants::Typical, WalkConstants::Rigorous] {
        let least = |lipschitz: f64| {
            let hessian = HessianFacts {
                lipschitz,
                frobenius: 1.0,
            };
            let facts = facts(10, 500_000);
            let plan = AdaptiveBatchPlan::new(&facts, &hessian, &budget(), settings(constants));
            plan.unwrap().schedule().targets.gradient
        };
        let usual = least(1.0);
        for rho in [1e-2, 1e-4, 1e-8] {
            assert!(least(rho) < 1.2 * usual, "{constants} {rho} {}", least(rho));
        }
    }
}
