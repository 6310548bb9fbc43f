//! DP-MF on samples of slices: what a run costs, its noise against dense matrices, the walk where everybody is drawn, what is refused
//! before anything is drawn, and how many slices the planner takes.

use dpopt_nonconvex::{
    Access, Batches, DP_MF_SAMPLED, DpMfPlan, DpMfSchedule, DpMfSettings, DpSgdPlan, ExtraFacts,
    Limits, NoObserver, Plan, PlanError, RunError,
};
use dpopt_oracle::Oracle as _;
use dpopt_privacy::{Accountant, Adjacency, Event, PrefixKind, SamplingRate, Spend};

use crate::common::{ROWS, budget, estimator, facts, facts_of_few, facts_under, few, z};

/// So many cycles through slices of 10 records.
fn settings(cycles: u64, rate: f64) -> DpMfSettings {
    DpMfSettings {
        epochs: cycles,
        batch: 10,
        sampling_rate: Some(SamplingRate::new(rate).unwrap()),
        batches: Batches::Poisson,
        band: None,
        step_size: 0.5,
        momentum: 0.9,
        cool_down: 0.0,
        clip: 1.0,
    }
}

fn plan(records: u64, settings: DpMfSettings) -> DpMfPlan {
    DpMfPlan::with_settings(&facts(4, records), &budget(1.0), settings, 1 << 20).unwrap()
}

/// All records of each slice, 12 times.
fn without_samples() -> DpMfPlan {
    let sampled = settings(12, 1.0);
    let settings = DpMfSettings {
        sampling_rate: None,
        ..sampled
    };
    plan(400, settings)
}

/// A slice pays for a sample in every cycle: that event is worth the budget, by the accountant that knows the sampled Gaussian exactly, to
/// within the width of the one that calibrated.
#[test]
fn a_slice_pays_for_a_sample_in_every_cycle() {
    let plan = plan(400, settings(12, 0.2));
    let (schedule, rate) = (*plan.schedule(), SamplingRate::new(0.2).unwrap());
    let share = Event::gaussian(schedule.noise_multiplier)
        .poisson_sampled(rate)
        .repeated(12);
    let worth = Accountant::Exact.epsilon(&share, budget(1.0).delta, Adjacency::ReplaceOne);
    let worth = worth.unwrap();
    assert!(worth <= 1.0 + 1e-9 && worth > 0.997, "{worth}");
    let events = vec![share];
    assert_eq!(
        plan.spend(),
        Spend::Fixed(Event::ParallelComposed { events })
    );
    assert!((plan.gradients() / 960.0 - 1.0).abs() < 1e-12);
    assert!(plan.accountant().is_some());
    // Less noise than where nobody is left out, for the same number of cycles.
    let whole = without_samples().schedule().noise_multiplier.get() * 12f64.sqrt();
    assert!(schedule.noise_multiplier.get() < whole);
}

/// Allocations on slices: whole ones, of which each costs a slice one event, worth the budget by the accountant of losses; what runs spends
/// what was planned, and a stopped run no more.
#[test]
fn a_slice_pays_for_whole_allocations() {
    let poisson = plan(400, settings(12, 0.21));
    let plan = poisson.clone().with_batches(Batches::Allocated).unwrap();
    let schedule = *plan.schedule();
    assert_eq!((schedule.epochs, schedule.slices), (10, 40));
    assert_eq!(schedule.sampling_rate.unwrap().get(), 0.2);
    let one = Event::RandomAllocation {
        num_steps: 5,
        num_participations: 1,
        event: Box::new(Event::gaussian(schedule.noise_multiplier)),
    };
    let share = one.repeated(2);
    let worth = Accountant::Pld.epsilon(&share, budget(1.0).delta, Adjacency::ReplaceOne);
    let worth = worth.unwrap();
    assert!(worth <= 1.0 && worth > 0.99, "{worth}");
    let events = vec![share];
    assert_eq!(
        plan.spend(),
        Spend::Fixed(Event::ParallelComposed { events })
    );
    assert_eq!(
        plan.access(),
        Access::AllocatedEpochs {
            slice: 10,
            steps: 5
        }
    );
    assert!((plan.gradients() / 800.0 - 1.0).abs() < 1e-12);
    let back = plan.with_batches(Batches::Poisson).unwrap();
    assert_eq!(back.schedule().epochs, 10);
    let limited = poisson.with_batches(Batches::AtMost(9));
    assert!(matches!(
        limited,
        Err(PlanError::LargestBatchOfSlice { most: 9, .. })
    ));
    let whole = without_samples().with_batches(Batches::Allocated);
    assert!(matches!(
        whole,
        Err(PlanError::BadFact {
            name: "sampling_rate",
            ..
        })
    ));
    for adjacency in [Adjacency::ReplaceOne, Adjacency::ZeroOut] {
        let facts = facts_of_few(adjacency);
        let plan = DpMfPlan::with_settings(&facts, &budget(2.0), settings(6, 0.34), 100).unwrap();
        let plan = plan.with_batches(Batches::Allocated).unwrap();
        let data = few(adjacency);
        let mut oracle = estimator(&data, 3);
        let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
        assert_eq!(outcome.spent, *plan.spend().event());
        // Counted by public sizes.
        assert!((outcome.counts.passes - 2.0).abs() < 1e-12);
    }
}

/// With allocations over one step everybody is in every step: the walk on slices in turn.
#[test]
fn allocations_to_one_step_are_the_walk_on_slices() {
    let data = few(Adjacency::ReplaceOne);
    let facts = facts_of_few(Adjacency::ReplaceOne);
    let sampled = DpMfPlan::with_settings(&facts, &budget(1.0), settings(3, 1.0), 100).unwrap();
    let run = |sampling_rate: Option<SamplingRate>, batches| {
        let schedule = DpMfSchedule {
            sampling_rate,
            batches,
            noise_multiplier: z(1e-9),
            ..*sampled.schedule()
        };
        let plan = DpMfPlan::by_hand(&facts, &budget(1.0), schedule);
        plan.run(&mut estimator(&data, 3), &mut NoObserver).unwrap()
    };
    let all = SamplingRate::new(1.0).ok();
    let (allocated, slices) = (run(all, Batches::Allocated), run(None, Batches::Poisson));
    let each = allocated.point.iter().zip(&slices.point);
    assert!(each.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) < 1e-6);
}

/// Of the columns of the planned factor, those that sample one slice have no row in common, and each is as long as noise is scaled to.
#[test]
fn columns_of_a_slice_have_no_row_in_common() {
    for (cycles, records) in [(1, 60), (4, 60), (8, 30), (5, 10)] {
        let plan = plan(records, settings(cycles, 0.3));
        let (slices, len) = (records as usize / 10, (cycles * records / 10) as usize);
        let PrefixKind::Tuned(factor) = plan.schedule().factor else {
            panic!("a factor that was not tuned");
        };
        let column = factor.coefficients();
        let entry = |i: usize, j: usize| {
            let there = i.checked_sub(j).and_then(|k| column.get(k));
            there.copied().unwrap_or(0.0)
        };
        let mut longest: f64 = 0.0;
        for j in 0..len {
            for k in (j + slices..len).step_by(slices) {
                assert!((0..len).all(|i| entry(i, j) == 0.0 || entry(i, k) == 0.0));
            }
            longest = longest.max((0..len).map(|i| entry(i, j).powi(2)).sum());
        }
        let claimed = plan.schedule().noise().unwrap().sensitivity().powi(2);
        assert!((claimed / longest - 1.0).abs() < 1e-9 && claimed >= longest * (1.0 - 1e-14));
        // Of one record: its share of the expected batch.
        let unit = 2.0 * plan.schedule().noise_multiplier.get() / (0.3 * 10.0);
        let last = plan.schedule().noise().unwrap().variance(len as u64);
        let expected = unit * last.unwrap().sqrt() / len as f64;
        assert!((plan.mean_noise_std().unwrap() / expected - 1.0).abs() < 1e-9);
    }
}

/// Where everybody is drawn, and without noise, the walk is that on slices in turn.
#[test]
fn everybody_drawn_is_the_walk_on_slices() {
    let data = few(Adjacency::ReplaceOne);
    let facts = facts_of_few(Adjacency::ReplaceOne);
    let sampled = DpMfPlan::with_settings(&facts, &budget(1.0), settings(3, 1.0), 100).unwrap();
    let run = |rate: Option<f64>| {
        let schedule = DpMfSchedule {
            sampling_rate: rate.map(|rate| SamplingRate::new(rate).unwrap()),
            noise_multiplier: z(1e-9),
            ..*sampled.schedule()
        };
        let plan = DpMfPlan::by_hand(&facts, &budget(1.0), schedule);
        let mut oracle = estimator(&data, 3);
        plan.run(&mut oracle, &mut NoObserver).unwrap()
    };
    let (everybody, slices, some) = (run(Some(1.0)), run(None), run(Some(0.5)));
    assert_eq!(everybody.counts.passes, 3.0);
    assert_eq!(some.counts.passes, 1.5);
    let far = |a: &[f64], b: &[f64]| {
        let each = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        each.fold(0.0, f64::max)
    };
    assert!(far(&everybody.point, &slices.point) < 1e-6);
    assert!(far(&everybody.point, &some.point) > 1e-3);
}

#[test]
fn numbers_that_no_run_can_have_are_refused_before_anything_is_drawn() {
    let facts = facts(4, 100);
    let refused = |change: fn(&mut DpMfSettings)| {
        let mut settings = settings(4, 0.2);
        change(&mut settings);
        DpMfPlan::with_settings(&facts, &budget(1.0), settings, 100).unwrap_err()
    };
    // Ten slices: eleven bands are fewer than the steps, and meet.
    assert!(matches!(
        refused(|s| s.band = Some(11)),
        PlanError::Contradiction { name: "band", value, limit, .. } if (value, limit) == (11.0, 10.0)
    ));
    assert!(matches!(
        refused(|s| s.epochs = 11),
        PlanError::TooFewSteps { needed: 110, .. }
    ));
    let moving = facts_under(4, 1000, Adjacency::AddRemove);
    let planned = DP_MF_SAMPLED.plan(
        &moving,
        &ExtraFacts::default(),
        &budget(1.0),
        &Limits::steps(1000),
    );
    assert!(matches!(planned, Err(PlanError::NeedsPositions { .. })));
    // By hand, when it is walked.
    let data = few(Adjacency::ReplaceOne);
    let facts = facts_of_few(Adjacency::ReplaceOne);
    let plan = DpMfPlan::with_settings(&facts, &budget(1.0), settings(2, 0.5), 100).unwrap();
    for (factor, known) in [
        (PrefixKind::Banded { band: 7 }, 7.0),
        (PrefixKind::Toeplitz, 12.0),
        (PrefixKind::Tree, 12.0),
    ] {
        let schedule = DpMfSchedule {
            factor,
            ..*plan.schedule()
        };
        let plan = DpMfPlan::by_hand(&facts, &budget(1.0), schedule);
        let mut oracle = estimator(&data, 1);
        let error = plan.run(&mut oracle, &mut NoObserver).unwrap_err();
        assert!(matches!(
            error,
            RunError::Schedule { name: "number of bands", value, .. } if value == known
        ));
        assert_eq!(oracle.books().counts().releases, 0);
        assert_eq!(oracle.books().records_left(), ROWS as u64);
    }
}

/// With one slice and one band it is DP-SGD, so the planned one leaves no more noise in the mean gradient than that does in as many steps
/// and passes.
#[test]
fn the_planner_does_not_lose_to_one_slice() {
    for epsilon in [0.5, 3.0] {
        let facts = facts(20, 20_000);
        let plan = DpMfPlan::sampled(&facts, &budget(epsilon), 2000).unwrap();
        let schedule = plan.schedule();
        let steps = schedule.steps();
        let share = schedule.sampling_rate.unwrap().get() / schedule.slices as f64;
        let rate = SamplingRate::new(share).unwrap();
        let sgd = DpSgdPlan::with_parameters(
            &facts,
            &budget(epsilon),
            steps,
            rate,
            schedule.step_size,
            schedule.momentum,
            schedule.clip,
        );
        let of_sgd = sgd.unwrap().noise_std() / (steps as f64).sqrt();
        let own = plan.mean_noise_std().unwrap();
        assert!(own < 1.01 * of_sgd, "{epsilon}: {own} {of_sgd}");
        assert!((plan.gradients() / (share * steps as f64 * 20_000.0) - 1.0).abs() < 1e-9);
    }
}
