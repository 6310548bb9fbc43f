//! Perturb and watch: which saddles are left, which are returned, and what is stated of it. The numbers of `docs/theory/second-order.md`; seeds are
//! fixed, and shares are held against limits by lower Clopper-Pearson limits at 99.9 %.
#![allow(clippy::print_stdout, reason = "the numbers of the page")]

use dpopt_linalg::norm;
use dpopt_minimax::{PerturbAndWatchPlan, PerturbSettings};
use dpopt_nonconvex::{Budget, NoObserver, Plan, Stop};
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_theory::audit::binomial::upper_tail;
use dpopt_theory::{
    ClosedForm, CosineSaddle, JointProblem, MinimaxProblem as _, SecondOrderMinimax as _,
    SimulatedOracle,
};

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

/// Whether so many hits in so many trials are too many for probability `p`.
fn beyond(hits: u64, trials: u64, p: f64) -> bool {
    upper_tail(hits, trials, p) < 1e-3
}

/// Runs of `plan` from a strict saddle of this curvature: how many return it, of those that ended where the walk stayed, and those that ended otherwise.
fn accepted(plan: &PerturbAndWatchPlan, curvature: f64, records: u64, runs: u64) -> (u64, u64) {
    let problem = CosineSaddle::new(10, 10).unwrap();
    // Phi'' = -(tau - b^2/m) at 0; tau is at most that of the plan.
    let problem = problem.with_cosine(0.25 + curvature, 0.5, 1.0).unwrap();
    assert!((problem.value_least_eigenvalue(&[0.0; 10]) + curvature).abs() < 1e-12);
    let joint = JointProblem::new(&problem, plan_scale(plan));
    let (mut saddles, mut unfinished) = (0, 0);
    for seed in 0..runs {
        let population = ClosedForm::new(&joint, records).with_blocks(joint.blocks());
        let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
        let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
        let x = &outcome.point[..10];
        if outcome.stop != Stop::SmallEstimate {
            unfinished += 1;
        } else {
            // What is stated of the gradient is so of every point that is returned.
            assert!(norm(&problem.value_gradient(x)) <= 1.5 * plan.target());
            saddles += u64::from(problem.value_least_eigenvalue(x) < -0.5 * curvature);
        }
    }
    (saddles, unfinished)
}

fn plan_scale(plan: &PerturbAndWatchPlan) -> f64 {
    plan.blocks().unwrap().scale
}

/// 1,000 runs at each curvature. The control watches for saddles ten times as curved: so short a time that it accepts what it should not.
#[test]
fn strict_saddles_are_left() {
    const RUNS: u64 = 1000;
    let records = 1_000_000;
    let facts = CosineSaddle::new(10, 10).unwrap().facts(records);
    let settings = PerturbSettings::new(100_000_000);
    let plan = PerturbAndWatchPlan::new(&facts, &budget(), settings).unwrap();
    let alpha = plan.curvature();
    assert!((alpha - (1.5 * plan.target()).sqrt()).abs() < 1e-12);
    println!(
        "a = {}, alpha_H = {alpha}, {:?}",
        plan.target(),
        plan.escape()
    );
    println!("the argument: {}", plan.curvature_of_the_argument());
    // Nothing is watched for below alpha_H: there the share is measured and not judged.
    for (times, most) in [(0.5, 1.0), (0.8, 1.0), (1.0, 0.02), (1.5, 0.01)] {
        let (saddles, unfinished) = accepted(&plan, times * alpha, records, RUNS);
        println!("{times} alpha_H: {saddles} of {RUNS} accepted, {unfinished} unfinished");
        assert!(!beyond(saddles, RUNS, most) && unfinished <= 50);
    }
    let short = settings.with_curvature(10.0 * alpha);
    let short = PerturbAndWatchPlan::new(&facts, &budget(), short).unwrap();
    let (saddles, _) = accepted(&short, alpha, records, 200);
    println!("control: {saddles} of 200 accepted, {:?}", short.escape());
    assert!(beyond(saddles, 200, 0.01), "{saddles}");
}
