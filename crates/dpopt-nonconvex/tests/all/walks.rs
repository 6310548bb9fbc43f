//! The walks with the real estimator on small simulated data.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_nonconvex::{
    Budget, DpSgdPlan, DpSgdSchedule, NoObserver, NoisyGdPlan, NoisyGdSchedule, OutputRule,
    Plan as _, Release, RunError, SpiderBoostPlan, SpiderBoostSchedule, Stop,
};
use dpopt_oracle::{Answer, AskError, Counts, Oracle, Question, Running};
use dpopt_privacy::{Adjacency, ClipNorm, Event, Refused, SamplingRate, Spend, Which};

use crate::common::{
    self, DIM, LOSS, ROWS, Through, estimator, exact_gradient, facts_of_few, few,
    is_standard_normal, z,
};

/// Enough for a plan with a bound at 60 records.
fn budget() -> Budget {
    common::budget(1e4)
}

/// A SpiderBoost plan of a stated shape and noise.
fn spiderboost(steps: u64, phase: u64, anchor: f64, variation: f64) -> SpiderBoostPlan {
    let facts = facts_of_few(Adjacency::ReplaceOne);
    let plan = SpiderBoostPlan::new(&facts, &budget(), 1000).unwrap();
    let schedule = SpiderBoostSchedule {
        steps,
        phase,
        anchor_noise_multiplier: z(anchor),
        variation_noise_multiplier: z(variation),
        ..*plan.schedule()
    };
    SpiderBoostPlan::by_hand(&facts, &budget(), schedule)
}

fn noisy_gd(steps: u64, noise: f64) -> NoisyGdPlan {
    let plan = NoisyGdPlan::theory(&facts_of_few(Adjacency::ReplaceOne), &budget(), 1000)
        .unwrap()
        .with_parameters(steps, 0.5, 0.0, LOSS.constants(1.0).lipschitz)
        .unwrap();
    descent(&plan, |schedule| schedule.noise_multiplier = z(noise))
}

/// The same plan with something else in its schedule.
fn spider(
    plan: &SpiderBoostPlan,
    change: impl FnOnce(&mut SpiderBoostSchedule),
) -> SpiderBoostPlan {
    let mut schedule = *plan.schedule();
    change(&mut schedule);
    SpiderBoostPlan::by_hand(plan.facts(), plan.budget(), schedule)
}

fn descent(plan: &NoisyGdPlan, change: impl FnOnce(&mut NoisyGdSchedule)) -> NoisyGdPlan {
    let mut schedule = *plan.schedule();
    change(&mut schedule);
    NoisyGdPlan::by_hand(plan.facts(), plan.budget(), schedule)
}

/// All points at which a gradient was released, and its norms.
#[derive(Default)]
struct Log {
    points: Vec<Vec<f64>>,
    norms: Vec<f64>,
}

impl dpopt_nonconvex::Observer for Log {
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self.points.push(release.point.to_vec());
        self.norms.push(release.norm);
        ControlFlow::Continue(())
    }
}

fn descent_points(steps: u64, step_size: f64) -> Vec<Vec<f64>> {
    let mut points = vec![vec![0.0; DIM]];
    for t in 0..steps as usize {
        let g = exact_gradient(&points[t]);
        let next = points[t].iter().zip(&g).map(|(w, g)| w - step_size * g);
        points.push(next.collect());
    }
    points
}

#[test]
fn without_noise_both_walks_are_gradient_descent() {
    // A multiplier of 1e-9 is noise of 2 lattice steps in a sum of 60 contributions of 2^30.
    // Rounding and noise move a mean by at most about 1e-9 per release and they add up over 24
    // steps; Welsch gradients here do not amplify.
    let data = few(Adjacency::ReplaceOne);
    for phase in [1, 2, 7, 24] {
        let plan = spider(&spiderboost(24, phase, 1e-9, 1e-9), |schedule| {
            schedule.output = OutputRule::Last;
        });
        let mut log = Log::default();
        let outcome = plan.run(&mut estimator(&data, 1), &mut log).unwrap();
        let expected = descent_points(24, plan.schedule().step_size);
        assert!(norm(&expected[24]) > 0.1, "the walk goes somewhere");
        for (seen, expected) in log.points.iter().chain([&outcome.point]).zip(&expected) {
            assert!(distance(seen, expected) < 1e-7, "{seen:?} {expected:?}");
        }
        assert_eq!((outcome.stop, outcome.steps), (Stop::Completed, 24));
    }
    let outcome = noisy_gd(24, 1e-9)
        .run(&mut estimator(&data, 1), &mut NoObserver)
        .unwrap();
    assert!(distance(&outcome.point, &descent_points(24, 0.5)[24]) < 1e-7);
}

#[test]
fn momentum_is_the_heavy_ball() {
    let data = few(Adjacency::ReplaceOne);
    let plan = noisy_gd(20, 1e-9)
        .with_parameters(20, 0.4, 0.7, LOSS.constants(1.0).lipschitz)
        .unwrap();
    let plan = descent(&plan, |schedule| schedule.noise_multiplier = z(1e-9));
    let outcome = plan.run(&mut estimator(&data, 1), &mut NoObserver).unwrap();
    let (mut w, mut last) = (vec![0.0; DIM], vec![0.0; DIM]);
    for _ in 0..20 {
        let g = exact_gradient(&w);
        let next: Vec<f64> = (0..DIM)
            .map(|j| w[j] + 0.7 * (w[j] - last[j]) - 0.4 * g[j])
            .collect();
        last = std::mem::replace(&mut w, next);
    }
    assert!(distance(&outcome.point, &w) < 1e-7);
}

fn dp_sgd(rate: f64) -> DpSgdPlan {
    DpSgdPlan::with_parameters(
        &facts_of_few(Adjacency::ReplaceOne),
        &common::budget(2.0),
        8,
        SamplingRate::new(rate).unwrap(),
        0.5,
        0.5,
        0.3,
    )
    .unwrap()
}

/// Answers over other records than it was asked about.
fn elsewhere<O: Oracle>(
    inner: O,
    over: Which<'static>,
) -> Through<O, impl FnMut(&mut O, Question<'_>) -> Result<Answer, AskError>> {
    Through::new(inner, move |inner: &mut O, question| match question {
        Question::Mean { of, noise, .. } => inner.answer(Question::Mean { of, over, noise }),
        other => inner.answer(other),
    })
}

#[test]
fn another_sampling_rate_is_refused_at_the_first_release() {
    let data = few(Adjacency::ReplaceOne);
    let other = Which::Poisson(SamplingRate::new(0.5).unwrap());
    let refused = |error: RunError| matches!(error, RunError::Refused(Refused::NotReserved { .. }));
    for over in [Which::All, other] {
        let inner = estimator(&data, 1);
        let mut oracle = elsewhere(inner, over);
        let error = dp_sgd(0.25).run(&mut oracle, &mut NoObserver).unwrap_err();
        assert!(refused(error));
        assert_eq!(oracle.inner.curator().spent().release_count(), 0);
        assert_eq!(oracle.inner.counts(), Counts::default());
    }
    // A plan for all records on an oracle that samples.
    let inner = estimator(&data, 1);
    let mut sampling = elsewhere(inner, other);
    let plan = spiderboost(4, 2, 1.0, 1.0);
    assert!(refused(
        plan.run(&mut sampling, &mut NoObserver).unwrap_err()
    ));
    // A plan with another rate than it reserved.
    let schedule = DpSgdSchedule {
        sampling_rate: SamplingRate::new(0.5).unwrap(),
        ..*dp_sgd(0.25).schedule()
    };
    let plan = DpSgdPlan::by_hand(&facts_of_few(Adjacency::ReplaceOne), &budget(), schedule);
    assert_ne!(plan.spend(), dp_sgd(0.25).spend());
}

#[test]
fn each_output_rule_returns_its_point() {
    let data = few(Adjacency::ReplaceOne);
    let run = |rule, seed| {
        let plan = spider(&spiderboost(6, 3, 1.0, 1.0), |schedule| {
            schedule.output = rule;
        });
        let mut log = Log::default();
        let outcome = plan.run(&mut estimator(&data, seed), &mut log).unwrap();
        (outcome.point, log)
    };
    for seed in 0..20 {
        let (point, log) = run(OutputRule::SmallestReleasedNorm, seed);
        let least = (0..6)
            .min_by(|&a, &b| log.norms[a].total_cmp(&log.norms[b]))
            .unwrap();
        assert_eq!(point, log.points[least]);
        let (point, log) = run(OutputRule::Last, seed);
        // One step beyond the last estimate.
        assert!(!log.points.contains(&point));
    }
    let mut hits = [0u32; 6];
    for seed in 0..1200 {
        let (point, log) = run(OutputRule::Uniform, seed);
        hits[log.points.iter().position(|p| *p == point).unwrap()] += 1;
    }
    // Binomial(1200, 1/6): mean 200, deviation 12.9. Six deviations on each of 6 counts have a
    // false-alarm rate below 1e-7; the seeds are fixed anyway.
    assert!(hits.iter().all(|h| h.abs_diff(200) < 78), "{hits:?}");
}

#[test]
fn a_walk_that_leaves_the_range_of_numbers_stops_before() {
    // Gradients at a point that is not finite count as zero, so the releases themselves stay
    // finite and don't give it away.
    let data = few(Adjacency::ReplaceOne);
    for rule in [
        OutputRule::Last,
        OutputRule::Uniform,
        OutputRule::SmallestReleasedNorm,
    ] {
        let spider = spider(&spiderboost(20, 4, 100.0, 100.0), |schedule| {
            (schedule.step_size, schedule.output) = (1e308, rule);
        });
        let plain = descent(&noisy_gd(20, 100.0), |schedule| {
            (schedule.step_size, schedule.output) = (1e308, rule);
        });
        let outcomes = [
            spider.run(&mut estimator(&data, 1), &mut NoObserver),
            plain.run(&mut estimator(&data, 1), &mut NoObserver),
        ];
        for outcome in outcomes {
            let outcome = outcome.unwrap();
            assert_eq!(outcome.stop, Stop::Diverged);
            assert!(outcome.point.iter().all(|w| w.is_finite()), "{outcome:?}");
            // The release at which it happened was made and is charged.
            assert_eq!(outcome.spent.release_count(), outcome.steps);
            assert!(outcome.steps < 20);
        }
    }
}

#[test]
fn another_dimension_is_an_error_before_any_reservation() {
    let data = few(Adjacency::ReplaceOne);
    let mut facts = facts_of_few(Adjacency::ReplaceOne);
    facts.dim = 4;
    let plan = NoisyGdPlan::theory(&facts, &budget(), 10).unwrap();
    let mut estimator = estimator(&data, 1);
    assert!(matches!(
        plan.run(&mut estimator, &mut NoObserver),
        Err(RunError::Dimension { plan: 4, oracle: 3 })
    ));
    assert_eq!(estimator.curator().reserved().release_count(), 0);
}

#[test]
fn a_bad_starting_point_is_an_error_before_any_reservation() {
    let data = few(Adjacency::ReplaceOne);
    let plan = noisy_gd(3, 1.0);
    let mut estimator = estimator(&data, 1);
    assert!(matches!(
        plan.run_from(&[0.0; 2], &mut estimator, &mut NoObserver),
        Err(RunError::StartDimension { plan: 3, start: 2 })
    ));
    assert!(matches!(
        plan.run_from(&[0.0, f64::NAN, 0.0], &mut estimator, &mut NoObserver),
        Err(RunError::Start { coordinate: 1, .. })
    ));
    assert_eq!(estimator.curator().reserved().release_count(), 0);
}

#[test]
fn a_step_of_zero_releases_nothing_and_is_not_charged() {
    let data = few(Adjacency::ReplaceOne);
    let plan = spider(&spiderboost(12, 4, 1.0, 2.0), |schedule| {
        schedule.step_size = 0.0;
    });
    let mut walker = estimator(&data, 1);
    let outcome = plan.run(&mut walker, &mut NoObserver).unwrap();
    assert_eq!(outcome.spent.leaves(), vec![(Event::gaussian(z(1.0)), 3)]);
    assert_eq!(outcome.counts.gradients, 3.0 * ROWS as f64);
    // Also with nothing left to spend.
    let mut held = estimator(&data, 1);
    let event = Event::gaussian(z(1.0));
    held.books().reserve(&Spend::Fixed(event)).unwrap();
    let clip = ClipNorm::new(LOSS.constants(1.0).lipschitz).unwrap();
    let mut running = Running::new(DIM, clip);
    let point = [0.1, -0.2, 0.3];
    let (all, one) = (Which::All, z(1.0));
    let before = running.anchor(&mut held, &point, all, one).unwrap().clone();
    let after = running.vary(&mut held, &point, all, one).unwrap();
    assert_eq!(
        (&after.gradient, after.release_std),
        (&before.gradient, 0.0)
    );
    // A step however small is a release, and refused.
    let near = [0.1, -0.2, 0.3f64.next_up()];
    assert!(running.vary(&mut held, &near, all, one).is_err());
}

#[test]
fn every_release_has_the_stated_law() {
    // Not the accumulated error of a phase: its scale depends on earlier noise, and normalised by
    // it the error is not chi-square. Single releases are, independently.
    for (adjacency, s) in [(Adjacency::ReplaceOne, 2.0), (Adjacency::AddRemove, 1.0)] {
        let data = few(adjacency);
        let constants = LOSS.constants(1.0);
        let plan = spiderboost(1600, 4, 0.7, 1.3);
        let mut seen = Vec::new();
        let mut spy = Through::new(estimator(&data, 11), |inner, question| {
            let Question::Mean { of, over, noise } = question else {
                return inner.answer(question);
            };
            let released = inner.mean(of, over, noise)?;
            let (anchor, point) = (of.before().is_none(), of.point().to_vec());
            seen.push((anchor, point, released.mean.clone(), released.noise_std));
            Ok(Answer::Mean(released))
        });
        plan.run(&mut spy, &mut NoObserver).unwrap();
        let (mut anchors, mut variations) = (Vec::new(), Vec::new());
        for t in 0..seen.len() {
            let (anchor, point, estimate, std) = &seen[t];
            let exact = exact_gradient(point);
            if *anchor {
                let sigma = s * constants.lipschitz * 0.7 / ROWS as f64;
                assert!((std / sigma - 1.0).abs() < 1e-9);
                anchors.extend(estimate.iter().zip(&exact).map(|(e, g)| (e - g) / sigma));
            } else {
                let (_, before, ..) = &seen[t - 1];
                let start = exact_gradient(before);
                let reach = constants.smoothness * distance(point, before);
                let radius = reach.min(2.0 * constants.lipschitz);
                let sigma = s * radius * 1.3 / ROWS as f64;
                assert!((std / sigma - 1.0).abs() < 1e-9);
                for j in 0..DIM {
                    variations.push((estimate[j] - (exact[j] - start[j])) / sigma);
                }
            }
        }
        assert_eq!((anchors.len(), variations.len()), (400 * DIM, 1200 * DIM));
        assert!(is_standard_normal(&anchors) && is_standard_normal(&variations));
    }
}

#[test]
fn the_law_test_sees_ten_per_cent_of_scale() {
    // The control: numbers 10 % too wide are told from it.
    let data = few(Adjacency::ReplaceOne);
    let mut inner = estimator(&data, 13);
    let noise = z(0.7);
    let event = Event::gaussian(noise).repeated(1200);
    inner.books().reserve(&Spend::Fixed(event)).unwrap();
    let clip = ClipNorm::new(LOSS.constants(1.0).lipschitz).unwrap();
    let mut running = Running::new(DIM, clip);
    let exact = exact_gradient(&[0.0; DIM]);
    let sigma = 2.0 * LOSS.constants(1.0).lipschitz * 0.7 / ROWS as f64;
    let mut samples = Vec::new();
    for _ in 0..1200 {
        let estimate = running.anchor(&mut inner, &[0.0; DIM], Which::All, noise);
        let estimate = estimate.unwrap();
        let residual = estimate.gradient.iter().zip(&exact);
        samples.extend(residual.map(|(e, g)| 1.1 * (e - g) / sigma));
    }
    assert!(!is_standard_normal(&samples));
}
