//! Normalised Spider and STORM: plans from their formulas, and walks with the real estimator on small data.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_nonconvex::{
    NoObserver, NoisyGdPlan, NormalizedSpiderPlan, NormalizedSpiderSchedule, OutputRule, Plan as _,
    PlanError, PublicFacts, Release, SpiderBoostPlan, StormPlan, StormSchedule,
};
use dpopt_oracle::{Answer, Momentum, Oracle, Question};
use dpopt_privacy::{Accountant, Adjacency, Delta, Event, NoiseMultiplier};
use proptest::prelude::*;

use crate::common::{
    DELTA, DIM, LOSS, ROWS, Through, budget, estimator, exact_gradient, facts, facts_of_few, few,
    is_standard_normal, z,
};

const MAX_STEPS: u64 = 100_000_000;

fn spider(f: &PublicFacts) -> NormalizedSpiderPlan {
    NormalizedSpiderPlan::new(f, &budget(1.0), MAX_STEPS).unwrap()
}

fn storm(f: &PublicFacts) -> StormPlan {
    StormPlan::new(f, &budget(1.0), MAX_STEPS).unwrap()
}

/// sqrt(d)/(n mu).
fn x(f: &PublicFacts) -> f64 {
    (f.dim as f64).sqrt() / (f.records as f64 * budget(1.0).mu().unwrap().get())
}

/// Noise per unit of radius, by the definitions: s z/n.
fn unit(f: &PublicFacts, z: NoiseMultiplier) -> f64 {
    f.adjacency.sum_sensitivity() * z.get() / f.records as f64
}

/// The bound of normalised Spider, summed up step by step.
fn spider_bound(f: &PublicFacts, p: &NormalizedSpiderSchedule) -> f64 {
    let fresh = unit(f, p.anchor_noise_multiplier) * f.lipschitz;
    let radius = (f.smoothness * p.step_length).min(2.0 * f.lipschitz);
    let change = unit(f, p.variation_noise_multiplier) * radius;
    let variances = (0..p.steps)
        .map(|t| f.dim as f64 * (fresh.powi(2) + (t % p.phase) as f64 * change.powi(2)));
    let square = variances.sum::<f64>() / p.steps as f64;
    f.initial_gap / (p.step_length * p.steps as f64)
        + 0.5 * p.floor.max(f.smoothness * p.step_length)
        + 0.5 * square / p.floor
}

/// The square of STORM's bound for the best c, and its condition.
fn storm_bound(f: &PublicFacts, p: &StormSchedule) -> f64 {
    let (t, a) = (p.steps as f64, p.momentum.fresh());
    let theta = p.step_size * f.smoothness;
    let d = f.dim as f64;
    let noise = d * unit(f, p.noise_multiplier).powi(2);
    let first = d * (unit(f, p.anchor_noise_multiplier) * f.lipschitz).powi(2);
    // The largest c with (S).
    let c = (1.0 - theta) * a * (2.0 - a) / ((1.0 - a).powi(2) * theta.powi(2) * noise) - 1.0;
    let c = if a == 1.0 { f64::INFINITY } else { c };
    assert!(c > 0.0, "{p:?}");
    2.0 * f.smoothness * f.initial_gap / (theta * t)
        + first / (a * (2.0 - a) * t)
        + (1.0 + 1.0 / c) * noise * f.lipschitz.powi(2) * a / (2.0 - a) * (t - 1.0) / t
}

#[test]
fn bounds_are_their_formulas_and_costs_the_budget() {
    for (dim, records) in [(10, 1_000), (10, 10_000), (100, 10_000), (1_000, 100_000)] {
        let f = facts(dim, records);
        let mu2 = budget(1.0).mu().unwrap().get().powi(2);
        let p = spider(&f);
        let bound = spider_bound(&f, p.schedule());
        assert!((p.predicted_bound().unwrap() / bound - 1.0).abs() < 1e-9);
        let anchors = (0..p.steps())
            .filter(|t| t % p.schedule().phase == 0)
            .count() as u64;
        assert_eq!(
            (p.schedule().anchors(), p.schedule().variations()),
            (anchors, p.steps() - anchors)
        );
        let (z1, z2) = (
            p.schedule().anchor_noise_multiplier,
            p.schedule().variation_noise_multiplier,
        );
        let spent = p.schedule().anchors() as f64 / z1.get().powi(2)
            + p.schedule().variations() as f64 / z2.get().powi(2);
        assert!((spent / mu2 - 1.0).abs() < 1e-12);
        let expected = vec![
            (Event::gaussian(z1), p.schedule().anchors()),
            (Event::gaussian(z2), p.schedule().variations()),
        ];
        assert_eq!(p.spend().event().leaves(), expected);
        costs_one(p.spend().event());
        let p = storm(&f);
        let bound = storm_bound(&f, p.schedule());
        // The planner's c is on a grid; the best one is a little better.
        let ratio = p.predicted_bound().unwrap().powi(2) / bound;
        assert!((1.0 - 1e-9..1.0 + 1e-6).contains(&ratio), "{ratio}");
        let (z0, z) = (
            p.schedule().anchor_noise_multiplier,
            p.schedule().noise_multiplier,
        );
        let spent = z0.get().powi(-2) + (p.steps() - 1) as f64 / z.get().powi(2);
        assert!((spent / mu2 - 1.0).abs() < 1e-12);
        let expected = vec![
            (Event::gaussian(z0), 1),
            (Event::gaussian(z), p.steps() - 1),
        ];
        assert_eq!(p.spend().event().leaves(), expected);
        costs_one(p.spend().event());
    }
}

/// (d, n, bound of normalised Spider, its steps, bound of STORM), for epsilon = 1: from a search in another language, over coarser
/// grids of other parameters (every phase near the best one, the path, the floor; the weight a).
const TABLE: [(usize, u64, f64, f64, f64); 5] = [
    (10, 1_000, 0.1698, 80.0, 0.1229),
    (10, 10_000, 0.03739, 1_583.0, 0.02577),
    (10, 100_000, 0.00809, 37_747.0, 0.005517),
    (100, 10_000, 0.08009, 348.0, 0.05604),
    (1_000, 1_000, 0.6879, 4.0, 0.6242),
];

#[test]
fn bounds_are_those_of_another_search() {
    for (dim, records, normalized, steps, recursive) in TABLE {
        let f = facts(dim, records);
        let plan = spider(&f);
        let bound = plan.predicted_bound().unwrap();
        assert!(
            (bound / normalized - 1.0).abs() < 0.01,
            "{dim} {records}: {bound}"
        );
        // It takes no more steps for it.
        assert!(
            (plan.steps() as f64) < 1.1 * steps + 1.0,
            "{}",
            plan.steps()
        );
        let bound = storm(&f).predicted_bound().unwrap();
        assert!(
            (bound / recursive - 1.0).abs() < 0.01,
            "{dim} {records}: {bound}"
        );
    }
}

/// epsilon recomputed from the ledger's event.
fn costs_one(event: &Event) {
    let delta = Delta::new(DELTA).unwrap();
    let (_, epsilon) = Accountant::least(event, delta, Adjacency::ReplaceOne).unwrap();
    assert!(epsilon <= 1.0 && epsilon > 1.0 - 1e-6, "{epsilon}");
}

/// For many steps: 3 (2 sqrt 2)^(1/3) (F0 L1 L0)^(1/3) x^(2/3), on the mean, and
/// (3/2)^(1/2) 128^(1/6) (1 - theta)^(-1/6) of the same for the root mean square, x = sqrt(d)/(n mu).
#[test]
fn bounds_approach_their_closed_forms() {
    for records in [30_000, 300_000] {
        let f = facts(10, records);
        let scale = 0.5f64.cbrt() * x(&f).powf(2.0 / 3.0);
        let bound = spider(&f).predicted_bound().unwrap() / scale;
        let closed = 3.0 * 8f64.sqrt().cbrt();
        assert!(bound < 1.02 * closed && bound > 0.98 * closed, "{bound}");
        for theta in [0.5, 0.25, 0.125] {
            let plan = StormPlan::with_step(&f, &budget(1.0), theta, MAX_STEPS).unwrap();
            let bound = plan.predicted_bound().unwrap() / scale;
            let closed = 1.5f64.sqrt() * (128.0 / (1.0 - theta)).powf(1.0 / 6.0);
            assert!(bound < 1.03 * closed && bound > closed, "{theta}: {bound}");
        }
        // SpiderBoost's is 3.89.
        let boost = SpiderBoostPlan::new(&f, &budget(1.0), MAX_STEPS).unwrap();
        let ratio = storm(&f).predicted_bound().unwrap() / boost.predicted_bound().unwrap();
        assert!((0.73..0.77).contains(&ratio), "{ratio}");
    }
}

/// The claim of the registry, and what the cap of the command takes from it.
#[test]
fn storm_has_the_least_bound_on_all_records_but_under_a_cap() {
    let bounds = |records, most| {
        let (f, budget) = (facts(10, records), budget(1.0));
        let storm = StormPlan::new(&f, &budget, most).unwrap();
        let boost = SpiderBoostPlan::new(&f, &budget, most).unwrap();
        let normalized = NormalizedSpiderPlan::new(&f, &budget, most).unwrap();
        let descent = NoisyGdPlan::theory(&f, &budget, most).unwrap();
        [
            storm.predicted_bound(),
            boost.predicted_bound(),
            normalized.predicted_bound(),
            descent.predicted_bound(),
        ]
        .map(Option::unwrap)
    };
    for records in [30_000, 300_000, 3_000_000] {
        let [storm, others @ ..] = bounds(records, MAX_STEPS);
        assert!(others.iter().all(|other| storm < *other), "{records}");
    }
    let [storm, _, normalized, _] = bounds(3_000_000, 100_000);
    assert!(normalized < storm);
}

#[test]
fn storm_is_never_worse_than_noisy_gradient_descent() {
    for (dim, records, steps) in [(1_000, 2_000, 50), (1_000, 1_000, MAX_STEPS), (10, 700, 9)] {
        let f = facts(dim, records);
        let plan = StormPlan::new(&f, &budget(1.0), steps);
        let descent = NoisyGdPlan::theory(&f, &budget(1.0), steps);
        let (Ok(plan), Ok(descent)) = (plan, descent) else {
            panic!("vacuous at {dim} {records} {steps}");
        };
        let ratio = plan.predicted_bound().unwrap() / descent.predicted_bound().unwrap();
        assert!(ratio < 1.01, "{dim} {records} {steps}: {ratio}");
        assert!(plan.steps() <= steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// No other choice of parameters has a better bound, by more than the grids miss.
    #[test]
    fn plans_are_the_best_of_many(
        records in 300u64..10_000, dim in 1usize..60,
        scale in prop::collection::vec((0.3f64..3.0, 0.3f64..3.0, 0.3f64..3.0, 0.05f64..0.95), 12),
    ) {
        let f = facts(dim, records);
        if let Ok(plan) = NormalizedSpiderPlan::new(&f, &budget(1.0), MAX_STEPS) {
            let best = plan.predicted_bound().unwrap();
            let mu = plan.budget().mu().unwrap().get();
            for (steps, length, phase, share) in &scale {
                let planned = plan.schedule();
                let mut other = *planned;
                other.steps = ((planned.steps as f64 * steps) as u64).max(1);
                other.phase = ((planned.phase as f64 * phase) as u64).clamp(1, other.steps);
                other.step_length *= length;
                let share = if other.variations() == 0 { 1.0 } else { *share };
                let z = |count: u64, part: f64| {
                    NoiseMultiplier::new((count as f64 / part).sqrt() / mu).unwrap()
                };
                other.anchor_noise_multiplier = z(other.anchors(), share);
                if other.variations() > 0 {
                    other.variation_noise_multiplier = z(other.variations(), 1.0 - share);
                }
                for floor in [0.6, 1.0] {
                    other.floor = planned.floor * floor;
                    prop_assert!(spider_bound(&f, &other) > best * 0.99, "{plan:?} {other:?}");
                }
            }
        }
        if let Ok(plan) = StormPlan::new(&f, &budget(1.0), MAX_STEPS) {
            let best = plan.predicted_bound().unwrap().powi(2);
            let mu = plan.budget().mu().unwrap().get();
            for (steps, fresh, _, share) in &scale {
                let planned = plan.schedule();
                let mut other = *planned;
                other.steps = ((planned.steps as f64 * steps) as u64).max(2);
                let a = planned.momentum.fresh() * fresh;
                if !(a < 1.0) {
                    continue;
                }
                other.momentum = Momentum::new(a).unwrap();
                let z = |count: u64, part: f64| {
                    NoiseMultiplier::new((count as f64 / part).sqrt() / mu).unwrap()
                };
                other.anchor_noise_multiplier = z(1, *share);
                other.noise_multiplier = z(other.steps - 1, 1.0 - share);
                let theta = other.step_size;
                let noise = dim as f64 * unit(&f, other.noise_multiplier).powi(2);
                // Outside of (S) there is no bound.
                if (1.0 - a).powi(2) * theta * theta * noise < (1.0 - theta) * a * (2.0 - a) {
                    prop_assert!(storm_bound(&f, &other) > best * 0.98, "{plan:?} {other:?}");
                }
            }
        }
    }
}

/// Plans of a stated shape and noise.
fn small_spider(steps: u64, phase: u64, noise: (f64, f64)) -> NormalizedSpiderPlan {
    let plan = NormalizedSpiderPlan::new(&facts_of_few(Adjacency::ReplaceOne), &budget(1e4), 1000)
        .unwrap();
    let schedule = NormalizedSpiderSchedule {
        steps,
        phase,
        anchor_noise_multiplier: z(noise.0),
        variation_noise_multiplier: z(noise.1),
        step_length: 0.05,
        ..*plan.schedule()
    };
    NormalizedSpiderPlan::by_hand(&facts_of_few(Adjacency::ReplaceOne), &budget(1e4), schedule)
}

fn small_storm(steps: u64, fresh: f64, noise: (f64, f64)) -> StormPlan {
    let plan = StormPlan::new(&facts_of_few(Adjacency::ReplaceOne), &budget(1e4), 1000).unwrap();
    let schedule = StormSchedule {
        steps,
        momentum: Momentum::new(fresh).unwrap(),
        step_size: 0.5,
        anchor_noise_multiplier: z(noise.0),
        noise_multiplier: z(noise.1),
        ..*plan.schedule()
    };
    StormPlan::by_hand(&facts_of_few(Adjacency::ReplaceOne), &budget(1e4), schedule)
}

/// The same plan with something else in its schedule.
fn with_spider(
    plan: &NormalizedSpiderPlan,
    change: impl FnOnce(&mut NormalizedSpiderSchedule),
) -> NormalizedSpiderPlan {
    let mut schedule = *plan.schedule();
    change(&mut schedule);
    NormalizedSpiderPlan::by_hand(plan.facts(), plan.budget(), schedule)
}

fn to_the_last(plan: &StormPlan) -> StormPlan {
    let mut schedule = *plan.schedule();
    schedule.output = OutputRule::Last;
    StormPlan::by_hand(plan.facts(), plan.budget(), schedule)
}

/// As the law of `walks.rs`: noise of a few lattice steps, which these gradients do not amplify.
#[test]
fn without_noise_the_walks_are_descent() {
    let data = few(Adjacency::ReplaceOne);
    let descend = |length: &dyn Fn(f64) -> f64| {
        let mut points = vec![vec![0.0; DIM]];
        for t in 0..24 {
            let g = exact_gradient(&points[t]);
            let scale = length(norm(&g));
            points.push(
                points[t]
                    .iter()
                    .zip(&g)
                    .map(|(w, g)| w - scale * g)
                    .collect(),
            );
        }
        points
    };
    let compare = |expected: &[Vec<f64>], run: &dyn Fn(&mut Vec<Vec<f64>>) -> Vec<f64>| {
        let mut seen = Vec::new();
        let last = run(&mut seen);
        seen.push(last);
        assert_eq!(seen.len(), expected.len());
        assert!(norm(&expected[24]) > 0.1, "the walk goes somewhere");
        for (seen, expected) in seen.iter().zip(expected) {
            assert!(distance(seen, expected) < 1e-7, "{seen:?} {expected:?}");
        }
    };
    // Pure normalised descent, and with a floor that half of the gradients are under.
    for floor in [0.0, 0.03] {
        let expected = descend(&|g| 0.05 / g.max(floor));
        for phase in [1, 5, 24] {
            let plan = with_spider(&small_spider(24, phase, (1e-9, 1e-9)), |schedule| {
                (schedule.floor, schedule.output) = (floor, OutputRule::Last);
            });
            compare(&expected, &|seen| {
                let mut watch = |release: &Release<'_>| {
                    seen.push(release.point.to_vec());
                    ControlFlow::Continue(())
                };
                plan.run(&mut estimator(&data, 1), &mut watch)
                    .unwrap()
                    .point
            });
        }
    }
    for fresh in [1e-3, 0.3, 1.0] {
        let plan = to_the_last(&small_storm(24, fresh, (1e-9, 1e-9)));
        compare(&descend(&|_| 0.5), &|seen| {
            let mut watch = |release: &Release<'_>| {
                seen.push(release.point.to_vec());
                ControlFlow::Continue(())
            };
            plan.run(&mut estimator(&data, 1), &mut watch)
                .unwrap()
                .point
        });
    }
}

/// What is left of the error after each step, e_t - (1 - a) e_{t-1}, is fresh noise of the stated size: the
/// identity on which the bound of STORM stands. For Spider a = 0 between anchors, all with one and the same deviation.
#[test]
fn errors_shrink_by_the_momentum_and_take_in_fresh_noise() {
    let data = few(Adjacency::ReplaceOne);
    let constants = LOSS.constants(1.0);
    let error = |(point, estimate, _): &(Vec<f64>, Vec<f64>, f64)| -> Vec<f64> {
        let exact = exact_gradient(point);
        estimate.iter().zip(&exact).map(|(g, v)| g - v).collect()
    };
    // (point, estimate, deviation of the release), with the estimates put together from the releases.
    let run = |run: &dyn Fn(&mut dyn Oracle)| {
        let mut seen: Vec<(Vec<f64>, Vec<f64>, f64)> = Vec::new();
        let mut spy = Through::new(estimator(&data, 11), |inner, question| {
            let Question::Mean { of, over, noise } = question else {
                return inner.answer(question);
            };
            let released = inner.mean(of, over, noise)?;
            let mut estimate = released.mean.clone();
            if let (Some((_, momentum)), Some((_, last, _))) = (of.before(), seen.last()) {
                for (sum, last) in estimate.iter_mut().zip(last) {
                    *sum += momentum.kept() * last;
                }
            }
            seen.push((of.point().to_vec(), estimate, released.noise_std));
            Ok(Answer::Mean(released))
        });
        run(&mut spy);
        seen
    };
    for fresh in [0.05, 0.5] {
        let plan = small_storm(1500, fresh, (0.7, 1.3));
        let seen = run(&|spy| drop(plan.run(spy, &mut NoObserver).unwrap()));
        let (mut noise, mut wrong) = (Vec::new(), Vec::new());
        for pair in seen.windows(2) {
            let length = distance(&pair[0].0, &pair[1].0);
            let reach = (constants.smoothness * length).min(2.0 * constants.lipschitz);
            let radius = fresh * constants.lipschitz + (1.0 - fresh) * reach;
            let sigma = 2.0 * radius * 1.3 / ROWS as f64;
            assert!((pair[1].2 / sigma - 1.0).abs() < 1e-9);
            for (new, old) in error(&pair[1]).iter().zip(error(&pair[0])) {
                noise.push((new - (1.0 - fresh) * old) / sigma);
                wrong.push((new - old) / sigma);
            }
        }
        assert!(is_standard_normal(&noise), "{fresh}");
        // The test can tell: without the shrinking it is another law.
        assert!(fresh < 0.1 || !is_standard_normal(&wrong), "{fresh}");
    }
    let plan = with_spider(&small_spider(1200, 4, (0.7, 1.3)), |schedule| {
        schedule.floor = 0.0;
    });
    let seen = run(&|spy| drop(plan.run(spy, &mut NoObserver).unwrap()));
    let sigma = 2.0 * (constants.smoothness * plan.schedule().step_length) * 1.3 / ROWS as f64;
    let mut noise = Vec::new();
    for t in (0..1200).filter(|t| t % 4 != 0) {
        assert!((seen[t].2 / sigma - 1.0).abs() < 1e-9);
        let changes = error(&seen[t]).into_iter().zip(error(&seen[t - 1]));
        noise.extend(changes.map(|(new, old)| (new - old) / sigma));
    }
    assert!(is_standard_normal(&noise));
}

#[test]
fn steps_of_storm_are_shorter_than_one_over_the_smoothness() {
    for theta in [0.0, 1.0, -0.5, f64::NAN] {
        let plan = StormPlan::with_step(&facts(10, 10_000), &budget(1.0), theta, MAX_STEPS);
        assert!(matches!(plan, Err(PlanError::BadFact { .. })), "{plan:?}");
    }
}
