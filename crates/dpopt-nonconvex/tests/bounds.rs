//! What a finished run states: the plan's bound if its proof covers the end that the run came to, and nothing otherwise.

use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, BoundSense, BoundedQuantity, Budget,
    ExtraFacts, GlmRun, JlBranch, JlFacts, JlPlan, KlCondition, KlSpiderPlan, KlSpiderSettings,
    NoObserver, NormQueries, NormalizedSpiderPlan, Observer, Outcome, OutputRule, Plan as _,
    PlanError, ProximalFacts, ProximalPlan, PublicFacts, PublicRank, Release, Solver, SolverPlan,
    Stop, TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::{Glm, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};

const RECORDS: usize = 3_000;

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(20.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    }
}

fn facts() -> PublicFacts {
    let (adjacency, constants) = (Adjacency::ReplaceOne, Glm::Logistic.constants(1.0));
    PublicFacts::glm(RECORDS as u64, 3, adjacency, 1.0, constants).unwrap()
}

/// Rows of two features and an intercept, and labels that the first one tells.
fn data() -> PrivateData {
    let rows: Vec<f64> = (0..RECORDS)
        .flat_map(|i| {
            let x = if i % 3 == 0 { 0.6 } else { -0.4 };
            [x, 0.3 * ((i % 7) as f64 / 7.0), 0.5]
        })
        .collect();
    let label = |i| if i % 3 == 0 { 1.0 } else { -1.0 };
    let (labels, one) = (
        (0..RECORDS).map(label).collect(),
        ClipNorm::new(1.0).unwrap(),
    );
    let design = Design::dense(3, rows).unwrap();
    PrivateData::new(design, labels, one, Adjacency::ReplaceOne, None).unwrap()
}

/// One tree of one shape, whatever its bound says.
fn tree(target: TreeTarget) -> SolverPlan {
    let settings = TreeSettings::new(target).even_if_vacuous();
    SolverPlan::TreeSpider(TreeSpiderPlan::new(&facts(), &budget(), settings, 60).unwrap())
}

/// The means under add-remove are over a declared number of records; the proofs are about the true one, which nobody may know.
#[test]
fn no_plan_states_a_bound_where_the_number_of_records_is_private() {
    let mut facts = facts();
    facts.adjacency = Adjacency::AddRemove;
    let extra = ExtraFacts::default().with_radius(1.0);
    let mut planned = 0;
    for solver in Solver::ALL {
        // Single passes are refused there.
        let Ok(plan) = solver.plan_with(&facts, &extra, &budget(), 60) else {
            continue;
        };
        for stop in [Stop::Completed, Stop::SmallEstimate, Stop::StepCap] {
            assert_eq!(plan.bound_at(stop), None, "{solver} {stop:?}");
        }
        planned += u32::from(plan.predicted_bound().is_some());
    }
    assert!(planned >= 4, "{planned}");
}

fn adaptive(settings: AdaptiveSettings) -> SolverPlan {
    let settings = settings.with_max_steps(60);
    SolverPlan::AdaptiveGd(AdaptiveGdPlan::new(&facts(), &budget(), settings).unwrap())
}

/// Every solver by name, and those of the library that no name stands for.
fn plans() -> Vec<(String, SolverPlan)> {
    let extra = ExtraFacts::default().with_radius(1.0);
    let mut plans: Vec<(String, SolverPlan)> = Solver::ALL
        .into_iter()
        .map(|solver| {
            let plan = solver.plan_with(&facts(), &extra, &budget(), 60).unwrap();
            (solver.to_string(), plan)
        })
        .collect();
    let kl = KlCondition::new(1.0, 2.0).unwrap();
    let spider = KlSpiderPlan::new(
        &facts(),
        &kl,
        &budget(),
        KlSpiderSettings::new(0.05),
        10_000,
    );
    plans.push((
        "kl-spider".to_owned(),
        SolverPlan::KlSpider(spider.unwrap()),
    ));
    for (name, target) in [
        (
            "tree-high-probability",
            TreeTarget::HighProbability { failure: 0.05 },
        ),
        ("tree-heuristic", TreeTarget::Heuristic { safety: 1.5 }),
    ] {
        plans.push((name.to_owned(), tree(target)));
    }
    let new = AdaptiveSettings::new;
    for (name, settings) in [
        ("adaptive-fixed", new().with_norms(NormQueries::Fixed)),
        (
            "adaptive-last",
            new().with_selection(AdaptiveSelection::Last),
        ),
    ] {
        plans.push((name.to_owned(), adaptive(settings)));
    }
    let rank = PublicRank::new(2).unwrap();
    for solver in [Solver::SpiderBoost, Solver::NoisyGdTheory] {
        let plan = solver.plan_within(&facts(), Some(rank), &budget(), 60);
        plans.push((format!("{solver} within a rank"), plan.unwrap()));
    }
    let jl = JlFacts {
        facts: facts(),
        rank: None,
        seed: 3,
    };
    for solver in [Solver::SpiderBoost, Solver::Storm] {
        let base = |f: &PublicFacts, rank| solver.plan_within(f, rank, &budget(), 60);
        let given = JlPlan::with_rows(2, &jl, &budget(), &base).unwrap();
        plans.push((
            format!("{solver} projected"),
            SolverPlan::Projected(Box::new(given)),
        ));
        let same = JlPlan::with_rows(3, &jl, &budget(), &base).unwrap();
        assert_eq!(same.branch, JlBranch::Identity);
        plans.push((
            format!("{solver} not projected"),
            SolverPlan::Projected(Box::new(same)),
        ));
    }
    plans
}

fn run(plan: &SolverPlan, data: &PrivateData, observer: &mut dyn Observer) -> Outcome {
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let on = GlmRun::new(data, Glm::Logistic, curator);
    plan.run_on(on, observer).unwrap().0
}

fn stop_at_once() -> impl Observer {
    |_: &Release<'_>| ControlFlow::Break(())
}

#[test]
fn a_run_that_was_stopped_states_no_bound() {
    let data = data();
    for (name, mut plan) in plans() {
        if let SolverPlan::TreeSpider(tree) = &mut plan {
            // No first estimate is as short as that.
            tree.threshold = tree.threshold.map(|_| 1e-12);
        }
        let mut releases = 0;
        let outcome = run(&plan, &data, &mut |_: &Release<'_>| {
            releases += 1;
            ControlFlow::Break(())
        });
        assert_eq!((outcome.stop, releases), (Stop::ByObserver, 1), "{name}");
        assert_eq!(outcome.bound(), None, "{name}");
    }
}

#[test]
fn a_run_to_its_end_states_the_bound_of_its_plan() {
    let data = data();
    let mut stated = 0;
    for (name, plan) in plans() {
        let outcome = run(&plan, &data, &mut NoObserver);
        let promised = match &plan {
            SolverPlan::KlSpider(plan) => Some(plan.excess_bound),
            plan => plan.predicted_bound(),
        };
        // The event that the proof is about makes a walk with a threshold stop: one that did not has left it.
        let stops = name == "tree-high-probability";
        let promised = promised.filter(|_| !stops || outcome.stop == Stop::SmallEstimate);
        assert_eq!(outcome.bound().map(|bound| bound.value), promised, "{name}");
        let Some(bound) = outcome.bound() else {
            continue;
        };
        stated += 1;
        let (quantity, sense) = match &plan {
            SolverPlan::KlSpider(_) => (BoundedQuantity::ExcessRisk, BoundSense::WithProbability),
            plan => (BoundedQuantity::GradientNorm, plan.bound_sense()),
        };
        assert_eq!((bound.quantity, bound.sense), (quantity, sense), "{name}");
    }
    // All nine named solvers that state one among them.
    assert!(stated >= 14, "{stated}");
}

#[test]
fn of_the_stops_only_those_of_the_proof_are_covered() {
    let every = [
        Stop::Completed,
        Stop::ByObserver,
        Stop::SmallEstimate,
        Stop::NormUnpaid,
        Stop::GradientUnpaid,
        Stop::Converged,
        Stop::StepCap,
        Stop::Diverged,
    ];
    for (name, plan) in plans() {
        let covered: Vec<Stop> = every
            .into_iter()
            .filter(|stop| plan.bound_at(*stop).is_some())
            .collect();
        let nothing = plan.predicted_bound().is_none() && name != "kl-spider";
        let expected: &[Stop] = match name.as_str() {
            _ if nothing => &[],
            "kl-spider" => &[Stop::Completed, Stop::SmallEstimate],
            "tree-high-probability" => &[Stop::SmallEstimate],
            name if name.starts_with("adaptive") => &[
                Stop::NormUnpaid,
                Stop::GradientUnpaid,
                Stop::Converged,
                Stop::StepCap,
            ],
            _ => &[Stop::Completed],
        };
        assert_eq!(covered, expected, "{name}");
    }
}

/// A run of all steps that returns another point than the proof is about.
#[test]
fn another_output_than_that_of_the_proof_has_no_bound() {
    let data = data();
    let (facts, budget) = (facts(), budget());
    let mut plan = NormalizedSpiderPlan::new(&facts, &budget, 60).unwrap();
    assert!(plan.bound_at(Stop::Completed).is_some());
    plan.floor = 0.0;
    let outcome = run(
        &SolverPlan::NormalizedSpider(plan.clone()),
        &data,
        &mut NoObserver,
    );
    assert_eq!(
        (outcome.stop, outcome.bound()),
        (Stop::Completed, None),
        "without a floor"
    );
    let changed = |solver: Solver| {
        let mut plan = solver.plan(&facts, &budget, 60).unwrap();
        match &mut plan {
            SolverPlan::NoisyGd(plan) => plan.output = OutputRule::Last,
            SolverPlan::SpiderBoost(plan) => plan.output = OutputRule::Last,
            SolverPlan::SampledSpiderBoost(plan) => plan.output = OutputRule::Last,
            SolverPlan::NormalizedSpider(plan) => plan.output = OutputRule::Last,
            SolverPlan::Storm(plan) => plan.output = OutputRule::Last,
            SolverPlan::TreeSpider(plan) => plan.output = OutputRule::SmallestReleasedNorm,
            other => panic!("{other:?}"),
        }
        plan
    };
    for solver in [
        Solver::NoisyGdTheory,
        Solver::SpiderBoost,
        Solver::SampledSpiderBoost,
        Solver::NormalizedSpider,
        Solver::Storm,
        Solver::TreeSpider,
    ] {
        let outcome = run(&changed(solver), &data, &mut NoObserver);
        assert_eq!(
            (outcome.stop, outcome.bound()),
            (Stop::Completed, None),
            "{solver}"
        );
    }
}

#[test]
fn proximal_rounds_that_were_all_made_have_the_last_bound() {
    let data = data();
    let proximal = ProximalFacts {
        public: facts(),
        condition: KlCondition::new(2.0, 3.0).unwrap(),
        weak_convexity: Some(0.0),
        failure: 0.05,
        region: None,
    };
    let plan = ProximalPlan::new(&proximal, &budget(), 2_000).unwrap();
    let once = |observer: &mut dyn Observer| {
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let clip = ClipNorm::new(plan.clip).unwrap();
        let estimator = PrivateGradient::clipped(&data, Glm::Logistic, curator, clip).unwrap();
        let mut estimator = estimator.with_access(plan.access());
        plan.run(&mut estimator, observer).unwrap()
    };
    let whole = once(&mut NoObserver);
    let bound = whole.bound().unwrap();
    assert_eq!(bound.value, plan.predicted_risk);
    assert_eq!(bound.quantity, BoundedQuantity::ExcessRisk);
    assert!(!whole.returned_start());
    let stopped = once(&mut stop_at_once());
    assert_eq!((stopped.stop, stopped.bound()), (Stop::ByObserver, None));
    // No round was whole.
    assert!(stopped.returned_start());
}

#[test]
fn a_point_that_is_the_start_is_said_to_be() {
    let data = data();
    for (name, plan) in plans() {
        let outcome = run(&plan, &data, &mut NoObserver);
        let origin = outcome.point.iter().all(|w| *w == 0.0);
        assert_eq!(outcome.returned_start(), origin, "{name}");
    }
    // From elsewhere: a norm is no step, so the start comes back.
    let start = [0.25, -0.5, 0.125];
    let plan = adaptive(AdaptiveSettings::new());
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let on = GlmRun::new(&data, Glm::Logistic, curator).from(Some(&start));
    let (outcome, _) = plan.run_on(on, &mut stop_at_once()).unwrap();
    assert_eq!((outcome.steps, outcome.point.as_slice()), (0, &start[..]));
    assert!(outcome.returned_start());
}

/// The distortion of a projection is proved for a bound on the mean, which one that holds with a probability is not.
#[test]
fn a_projection_needs_a_bound_on_the_mean() {
    let jl = JlFacts {
        facts: PublicFacts {
            dim: 200_000,
            records: 100_000_000,
            ..facts()
        },
        rank: Some(PublicRank::new(2).unwrap()),
        seed: 3,
    };
    let base = |f: &PublicFacts, rank| Solver::AdaptiveGd.plan_within(f, rank, &budget(), u64::MAX);
    for branch in [JlBranch::Rank, JlBranch::RankFree] {
        let refused = JlPlan::in_branch(branch, &jl, &budget(), &base);
        assert!(
            matches!(refused, Err(PlanError::NoBaseBound)),
            "{branch:?}: {:?}",
            refused.map(|plan| plan.bound_sense())
        );
    }
}
