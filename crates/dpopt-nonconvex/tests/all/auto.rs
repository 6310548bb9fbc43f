//! The rule of `auto` for smooth losses: what it takes, and what it waits for.

use dpopt_nonconvex::{
    Auto, AutoReason, Choice, ExtraFacts, Limits, NoisyGdPlan, Plan, PublicFacts, SOLVERS, auto,
    auto_in_passes, auto_names,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::Accountant;

use crate::common::{budget, facts};

/// The rule for smooth losses that are not convex, from the plans themselves: of all that take part, the cheapest of those within 1.25 of
/// the least bound.
#[test]
fn auto_takes_the_cheapest_of_the_nearly_least_bounds() {
    let (extra, limits) = (ExtraFacts::default(), Limits::steps(100_000));
    let mut taken = Vec::new();
    for (records, dim) in [
        (1_000, 10),
        (10_000, 100),
        (100_000, 10),
        (100_000, 1000),
        (50, 100),
    ] {
        let facts = PublicFacts {
            convexity: Convexity::Nonconvex,
            smoothness: 1.0,
            dim,
            ..facts(dim, records)
        };
        let found = auto(&facts, &extra, &budget(1.0), Some(&limits)).unwrap();
        let by_bound = SOLVERS.iter().filter(|solver| solver.auto == Auto::ByBound);
        let plans: Vec<_> = by_bound
            .filter_map(|solver| solver.plan(&facts, &extra, &budget(1.0), &limits).ok())
            .collect();
        let of = |plan: &dyn Plan| plan.bound().unwrap().value;
        let bounds = plans.iter().map(|plan| of(&**plan));
        let least = bounds.fold(f64::INFINITY, f64::min);
        let good = plans.iter().filter(|plan| of(&***plan) <= 1.25 * least);
        let cheapest = good.min_by(|a, b| a.gradients().total_cmp(&b.gradients()));
        let (name, reason) = match cheapest {
            Some(plan) => (plan.name(), AutoReason::NearlyLeastBound),
            None => ("noisy-gd", AutoReason::NoBoundHolds),
        };
        assert_eq!(
            (found.plan.name(), found.reason),
            (name, reason),
            "{records} {dim}"
        );
        taken.push(name);
    }
    assert!(taken.contains(&"noisy-gd") && taken.len() > 2, "{taken:?}");
    assert!(auto_names(Auto::ByBound).contains("storm"));
}

/// Five million records and seven columns: some seconds, and not two thousand passes. Ten thousand records get what the noise allows.
#[test]
fn auto_weighs_the_time_of_convex_problems() {
    let of = |records: u64, dim: usize| {
        let facts = PublicFacts {
            convexity: Convexity::Convex,
            smoothness: 0.25,
            dim,
            ..facts(dim, records)
        };
        let extra = ExtraFacts::default();
        let found = auto(&facts, &extra, &budget(1.0), None).unwrap();
        let named = NoisyGdPlan::momentum(&facts, &budget(1.0), 2_000).unwrap();
        // A number of steps that is asked for is kept to.
        let limits = Limits::steps(2_000);
        let asked = auto(&facts, &extra, &budget(1.0), Some(&limits)).unwrap();
        assert_eq!(asked.plan.steps(), named.schedule().steps);
        (found.plan.steps(), named.schedule().steps)
    };
    // A horizon of 14,000 plain steps: 10 sqrt(14000/9) = 394.4, rounded up.
    assert_eq!(of(5_000_000, 7), (395, 2_000));
    let (steps, named) = of(10_000, 30);
    assert_eq!(steps, named);
    // Many columns need a long horizon, whatever it takes.
    let (steps, named) = of(500_000, 2_000);
    assert_eq!(steps, named);
}

/// A million records and ten columns: solvers with a bound would take a hundred thousand steps on all of them, 2e12 multiply-adds and more.
/// What is taken keeps to 2e11, or to the passes of a run without a bound, and its bound is still one of so many steps.
#[test]
fn auto_weighs_the_time_of_bounds() {
    let extra = ExtraFacts::default();
    for (records, dim) in [(1_000_000, 10), (10_000, 10)] {
        let of = PublicFacts {
            convexity: Convexity::Nonconvex,
            smoothness: 1.0,
            ..facts(dim, records)
        };
        let found = auto(&of, &extra, &budget(1.0), None).unwrap();
        // 10 sqrt(2000 d/9) steps on all records.
        let passes = (10.0 * (2000.0 * dim as f64 / 9.0).sqrt()).ceil();
        let work = found.plan.gradients() * dim as f64;
        let most = (2e11_f64).max(passes * records as f64 * dim as f64);
        assert!(work <= most * (1.0 + 1e-9), "{records} {dim}: {work:e}");
        let by_bound = SOLVERS.iter().filter(|solver| solver.auto == Auto::ByBound);
        let unhurried: Vec<_> = by_bound
            .filter_map(|solver| {
                let limits = solver.usual_limits();
                let plan = solver.plan(&of, &extra, &budget(1.0), &limits).ok()?;
                Some((solver.name, plan))
            })
            .collect();
        let slow = |(_, plan): &(_, Box<dyn Plan>)| plan.gradients() * dim as f64 > most;
        let any = unhurried.iter().any(slow);
        let words = found.reason.to_string();
        assert_eq!(words.contains("a limit on time or passes"), any, "{words}");
        assert_eq!(any, records > 10_000);
        // Fewer steps prove no more than all of them.
        let bound = found.plan.bound().unwrap().value;
        let (_, same) = unhurried
            .iter()
            .find(|(name, _)| *name == found.solver.name)
            .unwrap();
        assert!(bound >= same.bound().unwrap().value * (1.0 - 1e-9));
        assert!(bound < found.plan.trivial_bound());
        // No budget is left over, and none is exceeded.
        let spend = |plan: &dyn Plan| plan.spend().event().clone();
        let epsilon = |plan: &dyn Plan| {
            Accountant::least(&spend(plan), budget(1.0).delta, of.adjacency)
                .unwrap()
                .1
        };
        let spent = epsilon(&*found.plan);
        assert!(spent <= 1.0 + 1e-9 && spent > 0.99, "{spent}");
    }
    // A number of steps that is asked for lifts it.
    let of = PublicFacts {
        convexity: Convexity::Nonconvex,
        smoothness: 1.0,
        ..facts(10, 1_000_000)
    };
    let limits = Limits::steps(100_000);
    let asked = auto(&of, &extra, &budget(1.0), Some(&limits)).unwrap();
    assert_eq!(asked.reason, AutoReason::NearlyLeastBound);
    assert!(asked.plan.gradients() * 10.0 > 2e11);
}

/// A number of passes just below those of the plan that is taken without one: a bound of that size, and no more passes.
#[test]
fn passes_that_are_asked_for_are_weighed_as_passes() {
    let extra = ExtraFacts::default();
    let of = PublicFacts {
        convexity: Convexity::Nonconvex,
        smoothness: 1.0,
        ..facts(10, 1_000_000)
    };
    let records = of.records as f64;
    let bound = |choice: &Choice| choice.plan.bound().unwrap().value;
    let free = auto(&of, &extra, &budget(1.0), None).unwrap();
    let taken = free.plan.gradients() / records;
    for share in [0.999, 0.5, 0.1] {
        let found = auto_in_passes(&of, &extra, &budget(1.0), share * taken).unwrap();
        assert!(found.plan.gradients() <= share * taken * records);
        assert!(bound(&found) < found.plan.trivial_bound(), "{share}");
        // A hair fewer passes: 1.25 for the cheapest, and what whole steps cost. By steps instead of passes the bound was nine times as large.
        if share > 0.9 {
            assert!(bound(&found) <= 2.0 * bound(&free), "{share}");
        }
    }
}
