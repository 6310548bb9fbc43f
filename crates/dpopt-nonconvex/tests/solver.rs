//! All solvers by name: their plans have the same verbs, cost the budget, and run on private records, each on the
//! estimator that it needs.

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, BoundSense, Budget, ExtraFacts, GlmRun,
    JlBranch, JlFacts, JlPlan, NoObserver, Plan, PlanError, PublicFacts, PublicRank, RunError,
    Solver, SolverPlan, Stop,
};
use dpopt_oracle::{
    ConvexGlm, ConvexSmooth, Convexity, Glm, PrivateData, PrivateGradient, PrivateMean,
};
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, Curator, Delta, Epsilon};

const DELTA: f64 = 1e-5;

fn budget(epsilon: f64) -> Budget {
    Budget {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(DELTA).unwrap(),
    }
}

fn facts(dim: usize, records: u64, adjacency: Adjacency) -> PublicFacts {
    PublicFacts {
        records,
        dim,
        adjacency,
        lipschitz: 1.0,
        smoothness: 1.0,
        initial_gap: 0.5,
        row_norm: 1.0,
        convexity: Convexity::Convex,
    }
}

/// What every solver needs.
fn extra() -> ExtraFacts {
    ExtraFacts::default().with_radius(1.0)
}

/// A plan of every solver, one that ends in a private selection, and one under a projection.
fn plans(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Vec<(String, SolverPlan)> {
    let mut plans: Vec<(String, SolverPlan)> = Solver::ALL
        .into_iter()
        .map(|solver| {
            let plan = solver.plan_with(facts, &extra(), budget, max_steps);
            (solver.to_string(), plan.unwrap())
        })
        .collect();
    let selects = AdaptiveSettings::new()
        .with_selection(AdaptiveSelection::Exponential { share: 0.1 })
        .with_max_steps(max_steps);
    let plan = AdaptiveGdPlan::new(facts, budget, selects).unwrap();
    plans.push((
        "adaptive-gd with a selection".to_owned(),
        SolverPlan::AdaptiveGd(plan),
    ));
    let jl = JlFacts {
        facts: *facts,
        rank: None,
        seed: 3,
    };
    let base =
        |facts: &PublicFacts, rank| Solver::SpiderBoost.plan_within(facts, rank, budget, max_steps);
    let plan = JlPlan::with_rows(2, &jl, budget, &base).unwrap();
    plans.push(("jl".to_owned(), SolverPlan::Projected(Box::new(plan))));
    plans
}

#[test]
fn names_are_read_back_and_listed_where_one_is_wrong() {
    for solver in Solver::ALL {
        assert_eq!(solver.name().parse(), Ok(solver));
        // The name in files is that of the command line.
        let written = serde_json::to_value(solver).unwrap();
        assert_eq!(written, solver.name());
        assert_eq!(serde_json::from_value::<Solver>(written).unwrap(), solver);
    }
    let error = "sgd".parse::<Solver>().unwrap_err().to_string();
    for solver in Solver::ALL {
        assert!(error.contains(solver.name()), "{error}");
    }
}

#[test]
fn what_a_plan_spends_is_the_budget_and_adds_up_over_its_steps() {
    let budget = budget(1.0);
    for (name, plan) in plans(&facts(5, 100_000, Adjacency::ReplaceOne), &budget, 2_000) {
        let (_, epsilon) =
            Accountant::least(plan.spend().event(), budget.delta, Adjacency::ReplaceOne).unwrap();
        assert!(epsilon <= 1.0 + 1e-9 && epsilon > 0.95, "{name}: {epsilon}");
        let steps = plan.steps();
        let mut before = 0.0;
        for step in 0..steps {
            let share = plan.share_spent(step);
            assert!(share >= before && share > 0.0, "{name} {step}");
            before = share;
        }
        assert!((before - 1.0).abs() < 1e-9, "{name}: {before}");
        assert!(plan.gradients() > 0.0 && plan.clip() > 0.0, "{name}");
        assert_eq!(plan.facts().dim, 5, "{name}");
        let stated = Solver::ALL
            .into_iter()
            .find(|solver| Some(solver.name()) == name.split(" with ").next())
            .is_some_and(Solver::states_a_bound);
        assert_eq!(plan.predicted_bound().is_some(), stated, "{name}");
        if let Some(bound) = plan.predicted_bound() {
            assert!(bound < plan.as_plan().trivial_bound(), "{name}");
        }
    }
}

#[test]
fn bounds_say_for_what_they_hold() {
    let budget = budget(1.0);
    let facts = facts(5, 100_000, Adjacency::ReplaceOne);
    let sense = |solver: Solver| {
        let plan = solver.plan_with(&facts, &extra(), &budget, 2_000).unwrap();
        plan.bound_sense()
    };
    assert_eq!(sense(Solver::SpiderBoost), BoundSense::RootMeanSquare);
    assert_eq!(
        sense(Solver::SampledSpiderBoost),
        BoundSense::RootMeanSquare
    );
    for solver in [
        Solver::TreeSpider,
        Solver::RecursiveGd,
        Solver::RecursiveSgd,
    ] {
        assert_eq!(sense(solver), BoundSense::PopulationMean);
    }
    let wide = JlFacts {
        facts: PublicFacts {
            dim: 100_000,
            ..facts
        },
        rank: PublicRank::new(5).ok(),
        seed: 1,
    };
    let plan = JlPlan::new(&wide, &budget, Solver::SpiderBoost, 1_000_000).unwrap();
    assert_eq!(plan.branch, JlBranch::Rank);
    assert_eq!(plan.bound_sense(), BoundSense::MeanOverProjections);
}

/// Rows of two features and an intercept, and labels that the first one tells.
fn data(records: usize, adjacency: Adjacency) -> PrivateData {
    let rows: Vec<f64> = (0..records)
        .flat_map(|i| {
            let x = if i % 3 == 0 { 0.6 } else { -0.4 };
            [x, 0.3 * ((i % 7) as f64 / 7.0), 0.5]
        })
        .collect();
    let labels = (0..records)
        .map(|i| if i % 3 == 0 { 1.0 } else { -1.0 })
        .collect();
    let norm = ClipNorm::new(1.0).unwrap();
    let declared = (!adjacency.record_count_is_public()).then_some(records as u64);
    PrivateData::made_up(
        Design::dense(3, rows).unwrap(),
        labels,
        norm,
        adjacency,
        declared,
    )
    .unwrap()
}

#[test]
fn every_plan_runs_on_private_records_and_is_charged_what_it_said() {
    let data = data(3_000, Adjacency::ReplaceOne);
    let facts = PublicFacts::glm(
        3_000,
        3,
        Adjacency::ReplaceOne,
        1.0,
        Glm::Logistic.constants(1.0),
    )
    .unwrap();
    let budget = budget(20.0);
    for (name, plan) in plans(&facts, &budget, 60) {
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let on = GlmRun::new(&data, Glm::Logistic, curator);
        let (outcome, curator) = plan.run_on(on, &mut NoObserver).unwrap();
        // Adaptive solvers may stop when their cap is used up, which is as good an end.
        let broken = matches!(outcome.stop, Stop::Diverged | Stop::ByObserver);
        assert!(!broken, "{name}: {:?}", outcome.stop);
        assert_eq!(outcome.point.len(), 3, "{name}");
        assert!(
            outcome.counts.gradients <= plan.gradients() * (1.0 + 1e-12),
            "{name}"
        );
        let guarantee = curator.guarantee(budget.delta).unwrap();
        assert!(
            guarantee.epsilon() <= 20.0 && guarantee.epsilon() > 18.0,
            "{name}"
        );
        let rests_on: &[&str] = if name == "recursive-sgd" {
            &[<ConvexGlm as ConvexSmooth>::ARGUMENT]
        } else {
            &[]
        };
        assert_eq!(guarantee.rests_on(), rests_on, "{name}");
    }
}

#[test]
fn a_run_can_start_elsewhere_but_not_under_a_projection() {
    let data = data(2_000, Adjacency::ReplaceOne);
    let constants = Glm::Logistic.constants(1.0);
    let facts = PublicFacts::glm(2_000, 3, Adjacency::ReplaceOne, 1.0, constants).unwrap();
    let start = [0.1, -0.2, 0.3];
    for (name, plan) in plans(&facts, &budget(20.0), 30) {
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let on = GlmRun::new(&data, Glm::Logistic, curator).from(Some(&start));
        let mut first = None;
        let result = plan.run_on(on, &mut |release: &dpopt_nonconvex::Release<'_>| {
            first.get_or_insert(release.point.to_vec());
            std::ops::ControlFlow::Continue(())
        });
        if name == "jl" {
            assert!(matches!(result, Err(RunError::OwnEstimator { .. })));
        } else if name == "recursive-sgd" {
            // Its points are shown after a pass only; with the same key, another start is another end.
            let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
            let on = GlmRun::new(&data, Glm::Logistic, curator);
            let (from_origin, _) = plan.run_on(on, &mut NoObserver).unwrap();
            assert_ne!(result.unwrap().0.point, from_origin.point);
        } else {
            assert_eq!(first.as_deref(), Some(&start[..]), "{name}");
        }
    }
}

#[test]
fn an_estimator_of_another_kind_is_refused_before_anything_is_reserved() {
    let data = data(1_000, Adjacency::ReplaceOne);
    let facts = facts(3, 100_000, Adjacency::ReplaceOne);
    for solver in [
        Solver::SampledSpiderBoost,
        Solver::TreeSpider,
        Solver::RecursiveGd,
        Solver::RecursiveSgd,
    ] {
        let plan = solver
            .plan_with(&facts, &extra(), &budget(1.0), 100)
            .unwrap();
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator).unwrap();
        let refused = plan.run(&mut estimator, &mut NoObserver);
        assert!(
            matches!(refused, Err(RunError::OwnEstimator { solver: name }) if name == solver.name())
        );
        let curator = estimator.into_means().into_curator();
        assert_eq!(curator.reserved(), dpopt_privacy::Event::NoOp);
    }
}

#[test]
fn passes_are_refused_for_a_loss_that_is_not_convex() {
    let data = data(2_000, Adjacency::ReplaceOne);
    let facts = facts(3, 2_000, Adjacency::ReplaceOne);
    let plan = Solver::RecursiveSgd
        .plan_with(&facts, &extra(), &budget(20.0), 10)
        .unwrap();
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let on = GlmRun::new(&data, Glm::Sigmoid, curator);
    let refused = plan.run_on(on, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::NotConvexSmooth(_))));
    let mut means = PrivateMean::new(
        &data,
        Glm::Logistic,
        Curator::simulated(Adjacency::ReplaceOne, 1),
    )
    .unwrap();
    let refused = plan.run_over(&mut means, None, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::OwnEstimator { .. })));
}

#[test]
fn what_is_missing_is_said_with_the_numbers() {
    let good = facts(5, 100_000, Adjacency::ReplaceOne);
    for solver in [Solver::RecursiveGd, Solver::RecursiveSgd] {
        let missing = solver.plan(&good, &budget(1.0), 100);
        // min(L0, sqrt(2 L1 F0)) = 1, over L1 = 1.
        assert_eq!(
            missing,
            Err(PlanError::RadiusMissing {
                solver: solver.name(),
                lipschitz: 1.0,
                smoothness: 1.0,
                telling: 1.0
            })
        );
        let bent = PublicFacts {
            convexity: Convexity::Nonconvex,
            ..good
        };
        let refused = solver.plan_with(&bent, &extra(), &budget(1.0), 100);
        assert!(matches!(refused, Err(PlanError::NotConvex { .. })));
    }
    for solver in [
        Solver::TreeSpider,
        Solver::RecursiveGd,
        Solver::RecursiveSgd,
    ] {
        let moved = facts(5, 100_000, Adjacency::AddRemove);
        let refused = solver.plan_with(&moved, &extra(), &budget(1.0), 100_000);
        let fixed = solver
            .plan_with(&good, &extra(), &budget(1.0), 100_000)
            .unwrap();
        let Err(PlanError::NeedsPositions {
            records, slices, ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(records, 100_000);
        match solver {
            // A slice for every leaf.
            Solver::TreeSpider => assert_eq!(slices, fixed.steps()),
            _ => assert!((1..100).contains(&slices), "{solver} {slices}"),
        }
    }
}
