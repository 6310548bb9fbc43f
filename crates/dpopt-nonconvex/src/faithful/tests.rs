//! Plans, against the numbers of the specification worked out by hand.

use dpopt_oracle::Offers;
use dpopt_privacy::{Adjacency, Delta, Epsilon, PrefixKind};
use dpopt_solver::{Budget, HessianFacts, Plan, PlanError, PublicFacts};

use super::{FaithfulPlan, FaithfulSettings};

const HESSIAN: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};

fn facts(records: u64, dim: usize) -> PublicFacts {
    PublicFacts::unit(records, dim)
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn plan(records: u64, settings: FaithfulSettings) -> Result<FaithfulPlan, PlanError> {
    FaithfulPlan::new(&facts(records, 10), &HESSIAN, &budget(), settings)
}

/// alpha = .2, d = 10, epsilon 1, delta 1e-6: mu = .2367, gamma = .0125. In a tree of 320 leaves a leaf is in 9 nodes, and 255, the prefix of most
/// nodes, has 8: deviation sqrt(72) s/mu.
#[test]
fn a_plan_has_the_numbers_of_the_specification() {
    let plan = plan(1 << 40, FaithfulSettings::new(1_000).with_target(0.2)).unwrap();
    let schedule = plan.schedule();
    assert_eq!(schedule.noise, PrefixKind::Tree);
    assert!((schedule.error - 0.0125).abs() < 1e-12);
    assert!((schedule.candidate - 0.0375).abs() < 1e-12);
    assert!((schedule.radius - 0.7 * 0.2f64.sqrt()).abs() < 1e-12);
    // kappa = gamma_s^2/s_g is a hair above G.
    assert!((320..=322).contains(&schedule.period), "{schedule:?}");
    let gamma_p = 0.0125 / 2f64.sqrt();
    let anchor = 2.0 * 72f64.sqrt() * 10f64.sqrt() / (0.2367 * gamma_p);
    let found = schedule.anchor_batch as f64;
    assert!((found / anchor - 1.0).abs() < 1e-3, "{found} {anchor}");
    // 81 episodes share p = .05; X = 2 Xi/(sqrt(2 pi) p eta sigma), 1 + lambda (1 - 1/16).
    let (growth, p) = (0.2f64.sqrt() * 15.0 / 16.0, 0.05 / 81.0);
    let ratio = schedule.radius / (0.0125 / 10f64.sqrt());
    let x = 2.0 * ratio / ((2.0 * std::f64::consts::PI).sqrt() * p);
    let length = (1.0 + x * x * ((1.0 + growth).powi(2) - 1.0)).ln() / (2.0 * (1.0 + growth).ln());
    assert_eq!(schedule.episode, length.ceil() as u64);
    // kappa sqrt rho/(M sqrt alpha) = 2.24.
    assert_eq!(schedule.episodes_per_chain, 2);
}

/// What a chain costs is at most mu^2, its noise is that of an episode, and each link's part is within the share.
#[test]
fn products_are_paid_for_and_their_noise_leaves_saddles() {
    let mu = budget().mu().unwrap().get();
    for (alpha, dim) in [(0.6, 2), (0.2, 10), (0.05, 100), (0.02, 1000)] {
        let facts = facts(1 << 50, dim);
        let settings = FaithfulSettings::new(1_000).with_target(alpha);
        let plan = FaithfulPlan::new(&facts, &HESSIAN, &budget(), settings).unwrap();
        let schedule = plan.schedule();
        let chain = schedule.chain(&facts, &HESSIAN).unwrap();
        let z = schedule.product_noise_multiplier;
        let cost = schedule.products() as f64 / (z * z);
        assert!(cost <= mu * mu * (1.0 + 1e-12), "{alpha} {cost}");
        assert!(schedule.episodes_per_chain >= 1);
        let noise = 2.0 * z * chain.share.get();
        let asked = alpha / 16.0 / (dim as f64).sqrt();
        assert!(
            (noise / asked - 1.0).abs() < 1e-9,
            "{alpha} {noise} {asked}"
        );
        let parts = [
            schedule.radius / schedule.hessian_batch as f64,
            schedule.radius / schedule.hessian_rate,
        ];
        for part in parts {
            assert!(part <= chain.share.get(), "{alpha}");
        }
        // A sum over a chain errs by at most lambda/16: variance 1/b + path/rate, with the path of a period.
        let log = (2.0 * dim as f64 / 0.05).ln();
        let variance = 1.0 / schedule.hessian_batch as f64 + schedule.drift / schedule.hessian_rate;
        assert!(2.0 * log * variance <= alpha / 256.0, "{alpha} {variance}");
        assert!(plan.bound().is_none());
        assert!(plan.needs().covers(Offers::CHAINS));
    }
}

#[test]
fn fewer_records_are_planned_for_more_alpha() {
    let least = |records| plan(records, FaithfulSettings::new(1_000));
    let targets: Vec<f64> = [1 << 36, 1 << 40, 1 << 44]
        .map(|records| least(records).unwrap().schedule().target)
        .into();
    assert!(
        targets[0] > 1.5 * targets[1] && targets[1] > 1.5 * targets[2],
        "{targets:?}"
    );
    for (records, target) in [(1 << 36, targets[0]), (1 << 44, targets[2])] {
        let schedule = *least(records).unwrap().schedule();
        assert!(schedule.records <= records, "{schedule:?}");
        let less = FaithfulSettings::new(1_000).with_target(0.95 * target);
        assert!(plan(records, less).unwrap().schedule().records > records);
    }
    // Less noise than a tree's needs fewer, where noise is what batches are for.
    let settings = FaithfulSettings::new(1_000).with_target(0.5);
    let tree = plan(1 << 44, settings).unwrap();
    let toeplitz = plan(1 << 44, settings.with_noise(PrefixKind::Toeplitz)).unwrap();
    assert!(toeplitz.schedule().records < tree.schedule().records);
    assert!(tree.warning(1.0).is_none());
}

/// The formulas of `docs/theory/adaptive-batch-faithful.md` in another program, with mu = .2367.
#[test]
fn the_worst_case_is_that_of_another_program() {
    for (alpha, anchor, hessian, episode, records) in [
        (0.5, 1.03e4, 1.89e4, 20, 1.01e7),
        (0.2, 2.57e4, 5.37e4, 33, 5.92e7),
        (0.1, 1.02e5, 1.18e5, 49, 3.33e8),
    ] {
        let settings = FaithfulSettings::new(1_000).with_target(alpha);
        let schedule = *plan(1 << 44, settings).unwrap().schedule();
        let near = |found: u64, expected: f64| (found as f64 / expected - 1.0).abs() < 0.01;
        assert!(near(schedule.anchor_batch, anchor), "{schedule:?}");
        assert!(near(schedule.hessian_batch, hessian), "{schedule:?}");
        assert_eq!(schedule.episode, episode);
        assert!(near(schedule.records, records), "{schedule:?}");
    }
}

#[test]
fn what_can_not_be_planned_is_an_error_with_its_numbers() {
    let asked = |records, alpha| plan(records, FaithfulSettings::new(10).with_target(alpha));
    assert!(matches!(
        asked(1 << 40, 1.0),
        Err(PlanError::EveryPointMeets { .. })
    ));
    for alpha in [0.0, -1.0, f64::NAN] {
        assert!(matches!(
            asked(1 << 40, alpha),
            Err(PlanError::BadFact { .. })
        ));
    }
    // Not even the first two anchors.
    let Err(PlanError::TooFewToCertify {
        needed: Some(needed),
        records: 1_000,
        ..
    }) = asked(1_000, 0.2)
    else {
        panic!("planned");
    };
    assert!(asked(needed, 0.2).is_ok() && asked(needed - 1, 0.2).is_err());
    assert!(asked(needed, 0.2).unwrap().warning(1.0).is_some());
    assert!(matches!(
        plan(10_000, FaithfulSettings::new(10)),
        Err(PlanError::TooFewToCertify { .. })
    ));
    let moving = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts(1 << 40, 10)
    };
    let settings = FaithfulSettings::new(10).with_target(0.2);
    assert!(matches!(
        FaithfulPlan::new(&moving, &HESSIAN, &budget(), settings),
        Err(PlanError::NeedsPositions { .. })
    ));
    let rough = HessianFacts {
        lipschitz: f64::INFINITY,
        ..HESSIAN
    };
    assert!(matches!(
        FaithfulPlan::new(&facts(1 << 40, 10), &rough, &budget(), settings),
        Err(PlanError::BadFact {
            name: "hessian_lipschitz",
            ..
        })
    ));
    // tau < 1, as printed (P6), is no plan.
    let planned = asked(1 << 40, 0.2).unwrap();
    let mut printed = *planned.schedule();
    printed.episodes_per_chain = 0;
    let by_hand = FaithfulPlan::by_hand(planned.facts(), &HESSIAN, &budget(), settings, printed);
    assert!(matches!(
        by_hand,
        Err(PlanError::BadFact {
            name: "episodes_per_chain",
            ..
        })
    ));
}
