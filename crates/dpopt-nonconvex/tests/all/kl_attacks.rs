//! Hostile facts for the planners of KL losses: certificates worked out again from the released constants alone, by other formulas
//! than the planner's; refusals that must not contradict themselves; noise within the good event that brings a run to its bound.

use std::ops::ControlFlow;

use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, Budget, KlCondition, KlSpiderPlan,
    KlSpiderSettings, KlSpiderVersion, NoObserver, NormQueries, Plan as _, PlanError,
    ProximalFacts, ProximalPlan, ProximalReads, ProximalSettings, PublicFacts, Release, Stop,
};
use dpopt_oracle::{
    Answer, AskError, Convexity, FnOracle, Mean, Number, Offers, Oracle, OracleFacts, Question,
};
use dpopt_privacy::{Adjacency, Curator};

use crate::common::{self, budget_at};

const BETA: f64 = 0.05;
const VERSIONS: [KlSpiderVersion; 3] = [
    KlSpiderVersion::FreePhases,
    KlSpiderVersion::PaperPhases,
    KlSpiderVersion::PaperConstants,
];

fn budget(epsilon: f64) -> Budget {
    budget_at(epsilon, 1e-6)
}

fn facts(records: u64, dim: usize, smoothness: f64, initial_gap: f64) -> PublicFacts {
    PublicFacts {
        lipschitz: 2.0,
        smoothness,
        initial_gap,
        convexity: Convexity::Convex,
        ..common::facts(dim, records)
    }
}

/// P(||N(0, I_d)|| >= y): a finite sum for even d, Simpson's rule for d = 1.
fn survival(dim: usize, y: f64) -> f64 {
    if dim == 1 {
        let (steps, width) = (20_000, 12.0);
        let h = width / f64::from(steps);
        let density = |k: i32| (-0.5 * (y + h * f64::from(k)).powi(2)).exp();
        let inner: f64 = (1..steps)
            .map(|k| density(k) * if k % 2 == 0 { 2.0 } else { 4.0 })
            .sum();
        let whole = h / 3.0 * (density(0) + inner + density(steps));
        return whole * (2.0 / std::f64::consts::PI).sqrt();
    }
    assert_eq!(dim % 2, 0);
    let x = 0.5 * y * y;
    let (mut log, mut sum) = (-x, 0.0);
    for k in 0..dim / 2 {
        if k > 0 {
            log += (x / k as f64).ln();
        }
        sum += log.exp();
    }
    sum
}

/// What one step can leave of an excess of at most `most`, over a grid of what it may be, from steps, errors and the constants.
fn worst_after(plan: &KlSpiderPlan, step: f64, error: f64, stop_below: f64, most: f64) -> f64 {
    let smoothness = plan
        .settings()
        .objective_smoothness
        .unwrap_or(plan.facts().smoothness);
    let loss = 0.5 * smoothness * step * step;
    let level = plan.kl().excess_bound(error + stop_below);
    // Below the level: <grad F, g>/||g|| is at least ||g|| - ||e||, and ||g|| at least the threshold.
    let mut worst = level.min(most) + (loss - step * (stop_below - error)).max(0.0);
    for k in 0..=48 {
        let excess = level + (most - level) * f64::from(k) / 48.0;
        if excess >= level {
            let norm = plan.kl().gradient_norm_at(excess);
            worst = worst.max(excess + loss - step * (norm * norm - error * error).sqrt());
        }
    }
    worst
}

#[test]
fn certificates_of_kl_spider_hold_on_hostile_facts() {
    let mut planned = 0;
    for kappa in [1.0, 1.05, 1.5, 2.0] {
        for (records, dim) in [(1, 1), (3_000, 1), (300_000, 20), (3_000_000, 1000)] {
            for ratio in [0.03, 1.0, 20.0] {
                // All that the condition allows at the start, and next to nothing.
                for share in [1.0, 1e-9] {
                    let kl = KlCondition::new(0.7, kappa).unwrap();
                    let gap = kl.excess_bound(2.0) * share;
                    let settings = KlSpiderSettings::new(BETA).with_objective_smoothness(ratio);
                    let facts = facts(records, dim, 1.0, gap);
                    match KlSpiderPlan::new(&facts, &kl, &budget(2.0), settings, 4_000) {
                        Ok(plan) => {
                            check(&plan);
                            planned += 1;
                        }
                        Err(PlanError::VacuousRisk { bound, .. }) => assert!(bound >= gap),
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }
    assert!(planned > 20, "{planned}");
}

fn check(plan: &KlSpiderPlan) {
    let mu = plan.budget().mu().unwrap().get();
    let (mut cost, mut failure, mut excess) = (0.0, 0.0, plan.facts().initial_gap);
    for phase in plan.phases() {
        let changes = (phase.updates - 1) as f64;
        let z = phase.variation_noise_multiplier.get();
        cost += phase.anchor_noise_multiplier.get().powi(-2) + changes * z.powi(-2);
        // Noise from multipliers and clips, not from what the plan says of it.
        let unit = 2.0 / plan.facts().records as f64;
        let clip = (plan.facts().smoothness * phase.step_length).min(2.0 * plan.clip());
        let anchor = phase.anchor_noise_multiplier.get() * unit * plan.clip();
        let change = z * unit * clip;
        let variance = anchor * anchor + changes * change * change;
        let sums = if changes > 0.0 { 2.0 } else { 1.0 };
        failure += sums * survival(plan.facts().dim, phase.allowed_error / variance.sqrt());
        let (error, stop) = (phase.allowed_error, phase.stop_below);
        let before = excess;
        for _ in 0..phase.updates {
            if excess <= phase.target {
                break;
            }
            excess = worst_after(plan, phase.step_length, error, stop, excess);
        }
        assert!(excess <= phase.target * (1.0 + 1e-9), "{excess} {phase:?}");
        // A target that is met stays met, and an early stop is within it.
        let after = worst_after(plan, phase.step_length, error, stop, phase.target);
        assert!(after <= phase.target * (1.0 + 1e-9), "{after} {phase:?}");
        assert!(phase.target < before);
        excess = phase.target;
    }
    assert_eq!(excess, plan.excess_bound());
    assert!(cost <= mu * mu * (1.0 + 1e-12) && cost > mu * mu * (1.0 - 1e-9));
    assert!(failure <= BETA * (1.0 + 1e-6), "{failure}");
}

/// "No useful plan: the best bound is 0.02, and the start satisfies 0.5" is no reason. Where the steps are too few there is no bound.
#[test]
fn a_refusal_names_no_bound_below_the_gap() {
    let kl = KlCondition::polyak_lojasiewicz(1.0).unwrap();
    for version in VERSIONS {
        for most_steps in [0, 1, 3] {
            let settings = KlSpiderSettings::new(BETA)
                .with_version(version)
                .with_objective_smoothness(40.0);
            let facts = facts(1_000_000, 20, 40.0, 0.5);
            match KlSpiderPlan::new(&facts, &kl, &budget(4.0), settings, most_steps) {
                Ok(plan) => assert!(plan.steps() <= most_steps && plan.excess_bound() < 0.5),
                Err(PlanError::VacuousRisk { bound, .. }) => assert!(bound >= 0.5, "{bound}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// The paper's phases are as many as the condition number times a logarithm: planning must not take the square of that, and a ratio of
/// targets that rounds to 1 makes no plan.
#[test]
fn ill_conditioned_losses_are_planned_or_refused() {
    let kl = KlCondition::new(1.0, 2.0).unwrap();
    let plan = |smoothness| {
        let settings = KlSpiderSettings::new(BETA)
            .with_version(KlSpiderVersion::PaperPhases)
            .with_objective_smoothness(smoothness);
        let facts = facts(4_000_000_000, 1, 1.0, 0.5);
        KlSpiderPlan::new(&facts, &kl, &budget(4.0), settings, 150_000)
    };
    let long = plan(3e4).unwrap();
    assert_eq!(long.steps(), 150_000);
    assert!(long.excess_bound() < 0.5);
    assert!(matches!(plan(1e18), Err(PlanError::VacuousRisk { bound, .. }) if bound >= 0.5));
}

/// A change of the gradient that is far shorter than the gradient: its share of the budget is not what is left of 1.
#[test]
fn short_changes_have_noise_of_their_own() {
    let kl = KlCondition::new(1.0, 1.5).unwrap();
    for records_smoothness in [1e-6, 1e-12, 1e-15, 1e-17] {
        let settings = KlSpiderSettings::new(BETA).with_objective_smoothness(1.0);
        let facts = facts(300_000, 2, records_smoothness, 0.5);
        let plan = KlSpiderPlan::new(&facts, &kl, &budget(2.0), settings, 20_000).unwrap();
        assert!(plan.steps() > plan.phases().len() as u64);
        check(&plan);
    }
}

/// Answers with one gradient.
fn silent(gradient: [f64; 4]) -> impl Oracle {
    let facts = OracleFacts::new(4, 100_000, Adjacency::ReplaceOne, Offers::MEANS);
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    FnOracle::new(facts, curator, move |_, _| {
        Ok(Answer::Mean(Mean::new(gradient.to_vec(), 0.0)))
    })
}

fn proximal(kappa: f64, records: u64, weak_convexity: f64) -> ProximalFacts {
    let condition = KlCondition::new(0.7, kappa).unwrap();
    ProximalFacts {
        public: facts(records, 4, 1.0, condition.excess_bound(2.0)),
        condition,
        weak_convexity: Some(weak_convexity),
        failure: BETA,
        region: None,
    }
}

/// Far from the origin a point of the ball around a centre is rounded out of it: no reason to end the process.
#[test]
fn a_far_start_is_no_panic() {
    let settings = ProximalSettings::new(300).reading(ProximalReads::Everything);
    let plan = ProximalPlan::with_settings(&proximal(3.0, 100_000, 0.0), &budget(4.0), settings);
    let plan = plan.unwrap();
    for (far, length) in [(1e12, 2.0), (1e12, 1e300), (-1e300, 1.0)] {
        let run = plan.run_from(&[far; 4], &mut silent([length; 4]), &mut NoObserver);
        let run = run.unwrap();
        assert!(run.point.iter().all(|w| w.is_finite()), "{:?}", run.stop);
    }
}

#[test]
fn proximal_plans_of_extreme_facts_are_made_or_refused_with_numbers() {
    for kappa in [2.0, 2.000_000_1, 10.0, 1000.0] {
        for weak_convexity in [0.0, 1e-300, 1e3, 1e12, 1e300] {
            for records in [1, 3, 100_000] {
                let facts = proximal(kappa, records, weak_convexity);
                let gap = facts.public.initial_gap;
                match ProximalPlan::new(&facts, &budget(4.0), 3_000) {
                    Ok(plan) => {
                        assert!(plan.predicted_risk() < gap && plan.steps() <= 3_000);
                        assert!(plan.radius().is_finite());
                    }
                    Err(PlanError::VacuousRisk { bound, .. }) => {
                        assert!(
                            bound >= gap,
                            "{kappa} {weak_convexity} {records}: {bound} {gap}"
                        );
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

/// F = |w|^2/2 in effect: where fixed norms end a run as converged, the true norm is at most N + psi, and its excess within the bound. The
/// multipliers that are compared are rounded down to a grid, and N is not.
#[test]
fn the_largest_norm_that_counts_as_converged_is_within_the_bound() {
    let kl = KlCondition::polyak_lojasiewicz(1.0).unwrap();
    let plan = |gap| {
        let settings = AdaptiveSettings::new()
            .with_norms(NormQueries::Fixed)
            .with_selection(AdaptiveSelection::Last);
        AdaptiveGdPlan::new(&facts(10_000, 42_025, 1.0, gap), &budget(4.3), settings).unwrap()
    };
    let first = plan(0.5);
    let ends = |norm: f64| {
        let mut asked = None;
        let offers = Offers::MEANS | Offers::NORMS;
        let facts = OracleFacts::new(42_025, 10_000, Adjacency::ReplaceOne, offers);
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut oracle = FnOracle::new(facts, curator, |_, question| {
            let Question::Norm { noise, .. } = question else {
                return Err(AskError::NotOffered {
                    what: question.kind(),
                });
            };
            asked = Some(noise.get());
            Ok(Answer::Number(Number::new(
                norm,
                noise.get() * 2.0 * 2.0 / 1e4,
            )))
        });
        let run = first.run(&mut oracle, &mut NoObserver);
        let converged = run.is_ok_and(|run| run.stop == Stop::Converged);
        drop(oracle);
        (converged, asked.unwrap())
    };
    let (mut low, mut high) = (0.0, 2.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if ends(middle).0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let psi = first.tail(0) * ends(low).1 * first.sensitivity();
    let excess = kl.excess_bound(low + psi);
    // Started there, with a gap that is no larger than it has to be, this is how the run ends.
    match plan(1.0001 * excess).risk_bound(&kl) {
        Ok(bound) => assert!(bound >= excess, "{bound} {excess}"),
        Err(PlanError::VacuousRisk { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// An exponent next to 2, where the integral of 1/x would be a quotient of rounding errors.
#[test]
fn bounds_do_not_jump_next_to_kappa_two() {
    for norms in [NormQueries::Fixed, NormQueries::Relative] {
        for steps in [30, u64::MAX] {
            let settings = AdaptiveSettings::new()
                .with_norms(norms)
                .with_max_steps(steps);
            let plan = AdaptiveGdPlan::new(&facts(3_000_000, 20, 1.0, 0.5), &budget(2.0), settings)
                .unwrap();
            let bound = |kappa| {
                plan.risk_bound(&KlCondition::new(0.75, kappa).unwrap())
                    .unwrap()
            };
            let two = bound(2.0);
            for off in [4.5e-16, 1e-15, 1e-13, 1e-10, 1e-7, 1e-6, 1e-5] {
                let near = bound(2.0 - off);
                assert!((near / two - 1.0).abs() < 1e-3, "{off:e}: {near:e} {two:e}");
                // Weaker, so no better.
                assert!(near >= two * (1.0 - 1e-9), "{off:e}: {near:e} {two:e}");
            }
        }
    }
}

/// An observer that ends a run makes no difference to what the run may return.
#[test]
fn a_watched_proximal_run_returns_its_start_before_the_first_round_is_done() {
    let plan = ProximalPlan::new(&proximal(3.0, 100_000, 0.0), &budget(4.0), 300).unwrap();
    let mut stop = |_: &Release<'_>| ControlFlow::Break(());
    let run = plan.run_from(&[7.0; 4], &mut silent([1.0; 4]), &mut stop);
    assert_eq!(run.unwrap().point, [7.0; 4]);
}
