//! DP-SGD on other batches than Poisson samples: random allocations, and samples with a largest batch.

use dpopt_nonconvex::{
    Access, Batches, DpSgdPlan, ExtraFacts, Limits, NoObserver, Plan as _, PlanError, SOLVERS,
    Value,
};
use dpopt_privacy::{Accountant, Adjacency, Delta, Event, SamplingRate};

use crate::common::{DELTA, budget, estimator, extra, facts_of_few, facts_under, few};

const RELATIONS: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];

fn plan(adjacency: Adjacency, rate: f64, steps: u64) -> DpSgdPlan {
    let (facts, rate) = (
        facts_under(10, 5000, adjacency),
        SamplingRate::new(rate).unwrap(),
    );
    DpSgdPlan::with_parameters(&facts, &budget(2.0), steps, rate, 0.5, 0.9, 1.0).unwrap()
}

fn number(plan: &DpSgdPlan, name: &str) -> f64 {
    let items = plan.items();
    let item = items.iter().find(|item| item.name == name).unwrap();
    match item.value {
        Value::Number(Some(number)) => number,
        Value::Count(count) => count as f64,
        _ => panic!("{name}"),
    }
}

/// Whole epochs, which cost the budget and no more, at about the noise of Poisson samples.
#[test]
fn an_allocated_plan_is_of_whole_epochs_and_costs_the_budget() {
    for adjacency in RELATIONS {
        let poisson = plan(adjacency, 0.0352, 100);
        let allocated = poisson.clone().with_batches(Batches::Allocated).unwrap();
        let schedule = *allocated.schedule();
        assert_eq!(
            (schedule.steps, schedule.sampling_rate.get()),
            (84, 1.0 / 28.0)
        );
        assert_eq!(allocated.access(), Access::Allocated { steps: 28 });
        assert_eq!(allocated.gradients(), 3.0 * 5000.0);
        assert!(allocated.fresh().is_none());
        let epoch = Event::RandomAllocation {
            num_steps: 28,
            num_participations: 1,
            event: Box::new(Event::gaussian(schedule.noise_multiplier)),
        };
        assert_eq!(*allocated.spend().event(), epoch.repeated(3));
        let delta = Delta::new(DELTA).unwrap();
        let (_, epsilon) = Accountant::least(allocated.spend().event(), delta, adjacency).unwrap();
        assert!(epsilon <= 2.0 && epsilon > 1.98, "{epsilon}");
        let z = schedule.noise_multiplier.get();
        let beside = number(&allocated, "poisson_noise_multiplier");
        assert!(z < 1.25 * beside && z > 0.75 * beside, "{z} {beside}");
        // And back.
        let back = allocated.with_batches(Batches::Poisson).unwrap();
        assert!((back.schedule().noise_multiplier.get() / beside - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_limited_plan_pays_for_its_limit_and_refuses_one_below_the_mean() {
    for adjacency in RELATIONS {
        let poisson = plan(adjacency, 0.02, 60);
        let z = poisson.schedule().noise_multiplier.get();
        let limited = |most| poisson.clone().with_batches(Batches::AtMost(most));
        assert!(matches!(
            limited(99),
            Err(PlanError::LargestBatch { most: 99, mean }) if (mean - 100.0).abs() < 1e-9
        ));
        if adjacency == Adjacency::AddRemove {
            let refused = limited(200);
            assert!(matches!(
                refused,
                Err(PlanError::BatchesOfSecretSize { .. })
            ));
            continue;
        }
        let of = |most| limited(most).unwrap().schedule().noise_multiplier.get();
        // Never reached: what Poisson samples need. Reached in half of the steps: clearly more.
        assert!((of(300) / z - 1.0).abs() < 2e-3, "{} {z}", of(300));
        assert!(of(100) > 1.02 * z, "{} {z}", of(100));
        let plan = limited(130).unwrap();
        assert_eq!(number(&plan, "largest_batch"), 130.0);
        assert_eq!(number(&plan, "poisson_noise_multiplier"), z);
    }
}

/// What runs is what was planned: all of it is charged, and nothing else, and a run that is stopped has paid for the epoch it was in.
#[test]
fn runs_spend_what_was_planned() {
    for (adjacency, batches) in [
        (Adjacency::ReplaceOne, Batches::Allocated),
        (Adjacency::ZeroOut, Batches::Allocated),
        (Adjacency::ReplaceOne, Batches::AtMost(30)),
    ] {
        let facts = facts_of_few(adjacency);
        let rate = SamplingRate::new(0.25).unwrap();
        let plan = DpSgdPlan::with_parameters(&facts, &budget(2.0), 8, rate, 0.5, 0.5, 0.3)
            .unwrap()
            .with_batches(batches)
            .unwrap();
        let data = few(adjacency);
        let mut means = estimator(&data, 3);
        let outcome = plan.run(&mut means, &mut NoObserver).unwrap();
        assert_eq!(outcome.steps, 8);
        assert_eq!(outcome.spent, *plan.spend().event());
    }
}

#[test]
fn all_solvers_on_samples_take_batches_by_name() {
    let facts = facts_under(10, 5000, Adjacency::ReplaceOne);
    for solver in SOLVERS.iter().filter(|solver| solver.needs.samples) {
        let plan =
            |extra: &ExtraFacts| solver.plan(&facts, extra, &budget(1.0), &Limits::steps(60));
        let allocated = plan(&extra().with_batches(Batches::Allocated)).unwrap();
        assert!(matches!(
            allocated.access(),
            Access::Allocated { .. } | Access::AllocatedEpochs { .. }
        ));
        let limited = plan(&extra().with_batches(Batches::AtMost(1)));
        assert!(matches!(
            limited,
            Err(PlanError::LargestBatch { .. } | PlanError::LargestBatchOfSlice { .. })
        ));
    }
}
