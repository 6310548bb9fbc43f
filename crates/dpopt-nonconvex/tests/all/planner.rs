//! The planners against the table of their paper's specification, and their own constraints.

use dpopt_nonconvex::{
    Limits, NoisyGdPlan, Plan, PlanError, PublicFacts, SOLVERS, Solver, SpiderBoostPlan,
};
use dpopt_privacy::{Accountant, Adjacency};
use proptest::prelude::*;

use crate::common::{budget, extra, facts_under};

const MAX_STEPS: u64 = 1_000_000;

/// With a KL condition that any solver takes.
fn planned(solver: &Solver, facts: &PublicFacts, epsilon: f64) -> Result<Box<dyn Plan>, PlanError> {
    let extra = extra().with_goldstein_radius(1.0);
    solver.plan(facts, &extra, &budget(epsilon), &Limits::steps(MAX_STEPS))
}

fn spiderboost(dim: usize, records: u64) -> SpiderBoostPlan {
    let facts = facts_under(dim, records, Adjacency::ReplaceOne);
    SpiderBoostPlan::new(&facts, &budget(1.0), MAX_STEPS).unwrap()
}

fn noisy_gd(dim: usize, records: u64) -> NoisyGdPlan {
    let facts = facts_under(dim, records, Adjacency::ReplaceOne);
    NoisyGdPlan::theory(&facts, &budget(1.0), MAX_STEPS).unwrap()
}

/// (d, n, bound on a fine grid, bound on a coarse grid, noisy gradient descent's bound), for
/// L0 = L1 = 1, F0 = 1/2, epsilon = 1, delta = 1e-5, replace-one. Computed apart.
const TABLE: [(usize, u64, f64, f64, f64); 6] = [
    (10, 1_000, 0.157, 0.160, 0.217),
    (10, 10_000, 0.0343, 0.0345, 0.0687),
    (10, 100_000, 0.00742, 0.0074, 0.0217),
    (100, 10_000, 0.0736, 0.0744, 0.122),
    (1_000, 100_000, 0.0343, 0.0345, 0.0687),
    (1_000, 1_000, 0.689, 0.720, 0.688),
];

#[test]
fn bounds_agree_with_the_specification() {
    for (dim, records, fine, coarse, descent) in TABLE {
        let bound = spiderboost(dim, records).predicted_bound().unwrap();
        assert!(
            (bound / fine - 1.0).abs() < 0.05,
            "{dim} {records}: {bound} against {fine}"
        );
        // One-sided: a finer grid finds nothing worse, but for half of the last digit printed.
        let last_digit = if coarse < 0.1 { 5e-5 } else { 5e-4 };
        assert!(bound <= coarse + last_digit, "{dim} {records}: {bound}");
        let bound = noisy_gd(dim, records).predicted_bound().unwrap();
        assert!(
            (bound / descent - 1.0).abs() < 0.02,
            "{dim} {records}: {bound} against {descent}"
        );
    }
}

#[test]
fn bounds_approach_their_closed_forms() {
    // Even split and large T, q: RMS <= 3.89 (F0 L1 L0)^(1/3) (sqrt d/(n mu))^(2/3). A free split
    // can only be better; the phases of whole steps cost little at these sizes.
    for records in [100_000, 300_000] {
        let plan = spiderboost(10, records);
        let mu = budget(1.0).mu().unwrap().get();
        let alpha = 10f64.sqrt() / (records as f64 * mu);
        let closed = 3.89 * 0.5f64.cbrt() * alpha.powf(2.0 / 3.0);
        let bound = plan.predicted_bound().unwrap();
        assert!(bound < closed && bound > 0.9 * closed, "{bound} {closed}");
        // Noisy gradient descent: the minimum over real T is 5.66 sqrt(L1 F0) L0 sqrt d/(n mu).
        let bound = noisy_gd(10, records).predicted_bound().unwrap();
        let closed = (32f64.sqrt() * 0.5f64.sqrt() * alpha).sqrt();
        assert!((bound / closed - 1.0).abs() < 1e-3, "{bound} {closed}");
    }
}

/// The bound from scratch: 4 L1 F0/T + d sigma1^2.
fn squared_bound(f: &PublicFacts, mu: f64, steps: u64, phase: u64, share: f64) -> f64 {
    let anchors = steps.div_ceil(phase) as f64;
    let sensitivity = f.adjacency.sum_sensitivity() * f.lipschitz / f.records as f64;
    let sigma = sensitivity * (anchors / share).sqrt() / mu;
    4.0 * f.smoothness * f.initial_gap / steps as f64 + f.dim as f64 * sigma * sigma
}

/// (q - 1) d s2^2 from scratch; 0 without variations.
fn drift(f: &PublicFacts, mu: f64, steps: u64, phase: u64, share: f64) -> f64 {
    let variations = steps - steps.div_ceil(phase);
    if variations == 0 {
        return 0.0;
    }
    let sensitivity = f.adjacency.sum_sensitivity() / f.records as f64;
    let s2 = sensitivity * (variations as f64 / (1.0 - share)).sqrt() / mu;
    (phase - 1) as f64 * f.dim as f64 * s2 * s2
}

fn check(plan: &SpiderBoostPlan) {
    let f = &plan.facts();
    let mu = plan.budget().mu().unwrap().get();
    let (steps, phase, share) = (plan.steps(), plan.schedule().phase, plan.anchor_share());
    // Counting the loop.
    let anchors = (0..steps).filter(|t| t % phase == 0).count() as u64;
    assert_eq!(
        (plan.schedule().anchors(), plan.schedule().variations()),
        (anchors, steps - anchors)
    );
    assert!(phase >= 1 && phase <= steps);
    // (D) holds, and the phase is the longest for which it does.
    assert!(drift(f, mu, steps, phase, share) <= 2.0 * (1.0 + 1e-12));
    if phase < steps && share < 1.0 {
        assert!(drift(f, mu, steps, phase + 1, share) > 2.0 * (1.0 - 1e-12));
    }
    let expected = squared_bound(f, mu, steps, phase, share);
    let squared = plan.predicted_bound().unwrap().powi(2);
    assert!((squared / expected - 1.0).abs() < 1e-12);
    // sigma1 and s2 from their definitions.
    let s = f.adjacency.sum_sensitivity();
    let sigma1 = s * f.lipschitz * plan.schedule().anchor_noise_multiplier.get() / f.records as f64;
    assert!((plan.anchor_noise_std() / sigma1 - 1.0).abs() < 1e-12);
    let s2 = s * plan.schedule().variation_noise_multiplier.get() / f.records as f64;
    assert!((plan.variation_noise_scale() / s2 - 1.0).abs() < 1e-12);
    let from_plan = 4.0 * f.smoothness * f.initial_gap / steps as f64
        + f.dim as f64 * plan.anchor_noise_std().powi(2);
    assert!((from_plan / squared - 1.0).abs() < 1e-12);
    assert_eq!(plan.schedule().step_size, 0.5 / f.smoothness);
    assert_eq!(
        plan.gradients(),
        ((plan.schedule().anchors() + 2 * plan.schedule().variations()) * f.records) as f64
    );
    // The whole of mu is spent: N1/z1^2 + N2/z2^2 = mu^2.
    let spent = plan.schedule().anchors() as f64
        / plan.schedule().anchor_noise_multiplier.get().powi(2)
        + plan.schedule().variations() as f64
            / plan.schedule().variation_noise_multiplier.get().powi(2);
    assert!((spent / (mu * mu) - 1.0).abs() < 1e-12, "{spent} {mu}");
}

#[test]
fn plans_meet_their_constraints() {
    for (dim, records, ..) in TABLE {
        check(&spiderboost(dim, records));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn plans_meet_their_constraints_at_random(
        dim in 1usize..300,
        log_records in 0.0..14.0f64,
        constants in (0.01..100.0f64, 0.01..100.0f64, 0.001..10.0f64),
        epsilon in 0.05..10.0f64,
        add_remove in any::<bool>(),
        max_steps in 1u64..100_000,
    ) {
        let adjacency = if add_remove { Adjacency::AddRemove } else { Adjacency::ReplaceOne };
        let f = PublicFacts {
            lipschitz: constants.0,
            smoothness: constants.1,
            initial_gap: constants.2,
            ..facts_under(dim, log_records.exp() as u64, adjacency)
        };
        match SpiderBoostPlan::new(&f, &budget(epsilon), max_steps) {
            Ok(plan) => {
                check(&plan);
                prop_assert!(plan.steps() <= max_steps);
                prop_assert!(plan.predicted_bound().unwrap() < f.trivial_bound());
                let spent = Accountant::Gdp
                    .epsilon(plan.spend().event(), plan.budget().delta, adjacency)
                    .unwrap();
                prop_assert!(spent <= epsilon && spent > 0.999 * epsilon, "{spent} {epsilon}");
            }
            Err(PlanError::Vacuous { bound, trivial, .. }) => prop_assert!(bound >= trivial),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn no_point_of_a_brute_force_grid_is_better() {
    // All T up to 400, all q and shares twice as fine as the planner's. Its grid of T loses less
    // than one per cent in the square.
    let f = facts_under(10, 1_000, Adjacency::ReplaceOne);
    let mu = budget(1.0).mu().unwrap().get();
    let mut best = f64::INFINITY;
    for steps in 1..400u64 {
        for phase in 1..=steps.min(60) {
            for share in (1..200).map(|k| f64::from(k) / 200.0) {
                if drift(&f, mu, steps, phase, share) <= 2.0 {
                    best = best.min(squared_bound(&f, mu, steps, phase, share));
                }
            }
        }
    }
    let planned = spiderboost(10, 1_000).predicted_bound().unwrap().powi(2);
    assert!(
        planned <= 1.01 * best && planned >= 0.99 * best,
        "{planned} {best}"
    );
}

#[test]
fn noisy_gradient_descent_takes_the_best_number_of_steps() {
    for (dim, records, ..) in TABLE {
        let plan = noisy_gd(dim, records);
        let f = &plan.facts();
        let mu = plan.budget().mu().unwrap().get();
        let squared = |steps: u64| {
            let sigma = 2.0 * f.lipschitz * (steps as f64).sqrt() / (f.records as f64 * mu);
            2.0 * f.smoothness * f.initial_gap / steps as f64 + f.dim as f64 * sigma * sigma
        };
        let at = squared(plan.steps());
        assert!((plan.predicted_bound().unwrap().powi(2) / at - 1.0).abs() < 1e-12);
        for other in plan.steps().saturating_sub(50).max(1)..plan.steps() + 50 {
            assert!(squared(other) >= at * (1.0 - 1e-12));
        }
        assert_eq!(plan.schedule().step_size, 1.0 / f.smoothness);
        assert_eq!(plan.gradients(), (plan.steps() * records) as f64);
    }
}

#[test]
fn add_remove_halves_the_noise() {
    let (replace, remove) = (
        facts_under(10, 10_000, Adjacency::ReplaceOne),
        facts_under(10, 10_000, Adjacency::AddRemove),
    );
    let ratio = replace.noise_std(1.0, 3.0) / remove.noise_std(1.0, 3.0);
    assert_eq!(ratio, 2.0);
    // At the same steps; the multipliers are the same, only the sensitivity differs.
    let at = |f: &PublicFacts| {
        NoisyGdPlan::theory(f, &budget(1.0), MAX_STEPS)
            .unwrap()
            .with_parameters(100, 1.0, 0.0, 1.0)
            .unwrap()
    };
    assert_eq!(
        at(&replace).schedule().noise_multiplier,
        at(&remove).schedule().noise_multiplier
    );
    assert_eq!(at(&replace).noise_std(), 2.0 * at(&remove).noise_std());
    // Half the sensitivity is as good as twice the records.
    let twice = facts_under(10, 20_000, Adjacency::ReplaceOne);
    let plan = |f: &PublicFacts| SpiderBoostPlan::new(f, &budget(1.0), MAX_STEPS).unwrap();
    let (a, b) = (plan(&remove), plan(&twice));
    assert_eq!(
        (a.steps(), a.schedule().phase, a.anchor_share()),
        (b.steps(), b.schedule().phase, b.anchor_share())
    );
    assert!((a.anchor_noise_std() / b.anchor_noise_std() - 1.0).abs() < 1e-12);
}

#[test]
fn bad_facts_are_named() {
    let good = facts_under(10, 10_000, Adjacency::ReplaceOne);
    let mut bad = [
        "records",
        "dim",
        "lipschitz",
        "smoothness",
        "initial_gap",
        "row_norm",
    ]
    .map(|name| (name, good));
    bad[0].1.records = 0;
    bad[1].1.dim = 0;
    bad[2].1.lipschitz = f64::NAN;
    bad[3].1.smoothness = -1.0;
    bad[4].1.initial_gap = f64::INFINITY;
    bad[5].1.row_norm = 0.0;
    for (expected, facts) in bad {
        for solver in SOLVERS.iter().copied() {
            let error = planned(solver, &facts, 1.0).unwrap_err();
            assert!(
                matches!(error, PlanError::BadFact { name, .. } if name == expected),
                "{solver:?} {expected}: {error}"
            );
        }
    }
    let plan = noisy_gd(10, 10_000);
    for (steps, step_size, momentum, clip) in [
        (0, 1.0, 0.0, 1.0),
        (1, 0.0, 0.0, 1.0),
        (1, 1.0, 1.0, 1.0),
        (1, 1.0, -0.1, 1.0),
        (1, 1.0, f64::NAN, 1.0),
        (1, 1.0, 0.0, f64::INFINITY),
    ] {
        assert!(
            plan.with_parameters(steps, step_size, momentum, clip)
                .is_err()
        );
    }
}
