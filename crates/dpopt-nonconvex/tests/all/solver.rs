//! All solvers by name: their plans have the same verbs, cost the budget, and run on private records, each on the
//! estimator that it needs.

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    ADAPTIVE_BATCH, AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, BoundSense, Budget,
    ExtraFacts, GlmRun, JlBranch, JlFacts, JlPlan, Limits, NoObserver, Plan, PlanError,
    PublicFacts, PublicRank, RECURSIVE_GD, RECURSIVE_SGD, RunError, SAMPLED_SPIDERBOOST, SOLVERS,
    SPIDERBOOST, Solver, Stop, TREE_SPIDER, TypicalConstants, solver,
};
use dpopt_oracle::{
    ConvexGlm, ConvexSmooth, Convexity, FnOracle, Glm, Offers, Oracle as _, OracleFacts,
    PrivateData, PrivateMean,
};
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, Curator};

use crate::common::{budget, extra, facts_under};

fn facts(dim: usize, records: u64, adjacency: Adjacency) -> PublicFacts {
    PublicFacts {
        convexity: Convexity::Convex,
        ..facts_under(dim, records, adjacency)
    }
}

fn planned(
    solver: &Solver,
    facts: &PublicFacts,
    budget: &Budget,
    max_steps: u64,
) -> Result<Box<dyn Plan>, PlanError> {
    solver.plan(facts, &extra(), budget, &Limits::steps(max_steps))
}

/// A plan of every solver, one that ends in a private selection, and one under a projection.
fn plans(
    facts: &PublicFacts,
    budget: &Budget,
    max_steps: u64,
) -> Vec<(&'static str, Box<dyn Plan>)> {
    let mut plans: Vec<(&'static str, Box<dyn Plan>)> = SOLVERS
        .iter()
        .filter(|solver| solver.accepts(facts.adjacency))
        .map(|solver| {
            let plan = planned(solver, facts, budget, max_steps);
            (
                solver.name,
                plan.unwrap_or_else(|e| panic!("{solver}: {e}")),
            )
        })
        .collect();
    let selects = AdaptiveSettings::new()
        .with_selection(AdaptiveSelection::Exponential { share: 0.1 })
        .with_max_steps(max_steps);
    let plan = AdaptiveGdPlan::new(facts, budget, selects).unwrap();
    plans.push(("adaptive-gd with a selection", Box::new(plan)));
    let jl = JlFacts {
        facts: *facts,
        rank: None,
        seed: 3,
    };
    let plan = JlPlan::given(2, &jl, budget, &SPIDERBOOST, max_steps).unwrap();
    plans.push(("jl", Box::new(plan)));
    plans
}

#[test]
fn names_are_read_back_and_listed_where_one_is_wrong() {
    for known in SOLVERS {
        assert_eq!(solver(known.name), Ok(*known));
        // The name in files is that of the command line.
        let written = serde_json::to_value(known).unwrap();
        assert_eq!(written, known.name);
    }
    let error = solver("sgd").unwrap_err().to_string();
    for known in SOLVERS {
        assert!(error.contains(known.name), "{error}");
    }
    let mut names: Vec<&str> = SOLVERS.iter().map(|solver| solver.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SOLVERS.len());
}

/// What a registry entry says of its plans is what they say of themselves.
#[test]
fn plans_are_what_their_solver_promises() {
    let facts = facts(5, 100_000, Adjacency::ReplaceOne);
    for (solver, (name, plan)) in SOLVERS.iter().zip(plans(&facts, &budget(1.0), 2_000)) {
        assert_eq!(solver.name, name);
        assert_eq!(plan.name(), name);
        assert_eq!(plan.bound().is_some(), solver.states_a_bound(), "{name}");
        if let (Some(bound), Some(promised)) = (plan.bound(), solver.bound) {
            assert_eq!((bound.quantity, bound.sense), promised, "{name}");
        }
        assert_eq!(
            plan.needs().covers(Offers::PASSES),
            solver.needs.memory,
            "{name}"
        );
        for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
            let moved = PublicFacts { adjacency, ..facts };
            let other = planned(solver, &moved, &budget(1.0), 2_000);
            assert_eq!(other.is_ok(), solver.accepts(adjacency), "{name}");
        }
        let limits = Limits::steps(2_000);
        let told = |extra: &ExtraFacts| solver.plan(&facts, extra, &budget(1.0), &limits);
        let mut without = extra();
        without.radius = None;
        assert_eq!(told(&without).is_err(), solver.needs.radius, "{name}");
        let mut without = extra();
        without.kl = None;
        assert_eq!(told(&without).is_err(), solver.needs.kl, "{name}");
        let mut without = extra();
        without.goldstein_radius = None;
        let missing = told(&without).err();
        assert_eq!(
            matches!(missing, Some(PlanError::GoldsteinRadiusMissing { .. })),
            solver.needs.goldstein,
            "{name}"
        );
        let mut without = extra();
        without.hessian = None;
        let missing = told(&without).err();
        assert_eq!(
            matches!(missing, Some(PlanError::HessianFactsMissing { .. })),
            solver.needs.hessian,
            "{name}"
        );
        // A loss without constants: nothing without units; with them the plan of a loss that has these constants, without a bound.
        let free = PublicFacts {
            lipschitz: f64::INFINITY,
            smoothness: f64::INFINITY,
            convexity: Convexity::Nonconvex,
            ..facts
        };
        let unbounded = |extra: &ExtraFacts| solver.plan(&free, extra, &budget(1.0), &limits);
        assert!(unbounded(&extra()).is_err(), "{name}");
        let mut typical = extra();
        typical.typical = Some(TypicalConstants {
            lipschitz: facts.lipschitz,
            smoothness: facts.smoothness,
            row_norm: facts.row_norm,
        });
        let found = unbounded(&typical);
        assert_eq!(found.is_ok(), solver.needs.no_constants, "{name}");
        if let Ok(found) = found {
            assert!(found.bound().is_none(), "{name}");
            let shown = |plan: &dyn Plan| format!("{:?}", plan.items());
            assert_eq!(shown(&*found), shown(&*plan), "{name}");
            assert_eq!(found.clip(), plan.clip(), "{name}");
            assert_eq!(found.spend().event(), plan.spend().event(), "{name}");
        }
        let bent = PublicFacts {
            convexity: Convexity::Nonconvex,
            ..facts
        };
        let weakly = extra().with_weak_convexity(1.0);
        let bent = solver.plan(&bent, &weakly, &budget(1.0), &limits);
        assert_eq!(bent.is_err(), solver.needs.convex, "{name}");
        let ranked = extra().with_rank(PublicRank::new(2).unwrap());
        let ranked = told(&ranked).unwrap();
        let shows = |plan: &dyn Plan| plan.items().iter().any(|item| item.name == "rank");
        assert_eq!(shows(&*ranked), solver.uses_rank, "{name}");
    }
}

/// A plan as JSON has its facts, its budget, its items by name, and its bound.
#[test]
fn plans_are_written_by_name() {
    let facts = facts(5, 100_000, Adjacency::ReplaceOne);
    for (name, plan) in plans(&facts, &budget(1.0), 2_000) {
        let written = serde_json::to_value(&*plan).unwrap();
        let object = written.as_object().unwrap();
        assert!(object.contains_key("facts") && object.contains_key("budget"));
        let items = plan.items();
        for item in &items {
            assert!(object.contains_key(item.name), "{name}: {}", item.name);
        }
        // Two items of one name would be one key.
        assert_eq!(object.len(), items.len() + 3, "{name}");
        let names = [
            "predicted_bound",
            "excess_bound",
            "goldstein_bound",
            "component_wise_goldstein_bound",
        ];
        let stated = names.into_iter().find_map(|name| object.get(name));
        let bound = plan.bound().map(|bound| bound.value);
        assert_eq!(stated.unwrap().as_f64(), bound, "{name}");
    }
}

#[test]
fn what_a_plan_spends_is_the_budget_and_adds_up_over_its_steps() {
    let budget = budget(1.0);
    let relations = [
        Adjacency::ReplaceOne,
        Adjacency::ZeroOut,
        Adjacency::AddRemove,
    ];
    let under = |adjacency| {
        let plans = plans(&facts(5, 100_000, adjacency), &budget, 2_000).into_iter();
        plans.map(move |(name, plan)| (adjacency, name, plan))
    };
    for (adjacency, name, plan) in relations.into_iter().flat_map(under) {
        let (_, epsilon) =
            Accountant::least(plan.spend().event(), budget.delta, adjacency).unwrap();
        // Releases and a selection are planned by adding up their epsilons, and together cost less.
        let least = if name.contains("selection") {
            0.9
        } else {
            0.95
        };
        assert!(
            epsilon <= 1.0 + 1e-9 && epsilon > least,
            "{name}: {epsilon}"
        );
        let steps = plan.steps();
        let mut before = 0.0;
        for step in 0..steps {
            let share = plan.share_spent(step);
            assert!(share >= before && share > 0.0, "{name} {step}");
            before = share;
        }
        assert!((before - 1.0).abs() < 1e-9, "{name}: {before}");
        let asks = plan.gradients() > 0.0 || plan.needs().covers(Offers::SLOPES);
        assert!(asks && plan.clip() > 0.0, "{name}");
        assert_eq!(plan.facts().dim, 5, "{name}");
        if let Some(bound) = plan.predicted_bound() {
            assert!(bound < plan.trivial_bound(), "{name}");
        } else if let Some(bound) = plan.bound() {
            assert!(bound.value < plan.facts().initial_gap, "{name}");
        }
    }
}

#[test]
fn bounds_say_for_what_they_hold() {
    let budget = budget(1.0);
    let facts = facts(5, 100_000, Adjacency::ReplaceOne);
    let sense = |solver: &Solver| {
        let plan = planned(solver, &facts, &budget, 2_000).unwrap();
        plan.bound_sense()
    };
    assert_eq!(sense(&SPIDERBOOST), BoundSense::RootMeanSquare);
    assert_eq!(sense(&SAMPLED_SPIDERBOOST), BoundSense::RootMeanSquare);
    for solver in [&TREE_SPIDER, &RECURSIVE_GD, &RECURSIVE_SGD] {
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
    let plan = JlPlan::new(&wide, &budget, &SPIDERBOOST, 1_000_000).unwrap();
    assert_eq!(plan.branch(), JlBranch::Rank);
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
        let (outcome, curator) = on.run(&*plan, &mut NoObserver).unwrap();
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
    let data = data(3_000, Adjacency::ReplaceOne);
    let constants = Glm::Logistic.constants(1.0);
    let facts = PublicFacts::glm(3_000, 3, Adjacency::ReplaceOne, 1.0, constants).unwrap();
    let start = [0.1, -0.2, 0.3];
    for (name, plan) in plans(&facts, &budget(20.0), 30) {
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let on = GlmRun::new(&data, Glm::Logistic, curator).starting_at(Some(&start));
        let mut first = None;
        let mut watch = |release: &dpopt_nonconvex::Release<'_>| {
            first.get_or_insert(release.point.to_vec());
            std::ops::ControlFlow::Continue(())
        };
        let result = on.run(&*plan, &mut watch);
        if name == "jl" {
            assert!(matches!(result, Err(RunError::StartProjected { .. })));
        } else if name == "recursive-sgd" {
            // Its points are shown after a pass only; with the same key, another start is another end.
            let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
            let on = GlmRun::new(&data, Glm::Logistic, curator);
            let (from_origin, _) = on.run(&*plan, &mut NoObserver).unwrap();
            assert_ne!(result.unwrap().0.point, from_origin.point);
        } else {
            // Some ask beside their point: within a thousandth of the Goldstein radius.
            let goldstein = solver(name).is_ok_and(|solver| solver.needs.goldstein);
            let reach = if goldstein { 3e-3 } else { 0.0 };
            let off = dpopt_linalg::distance(&first.unwrap(), &start);
            assert!(off <= reach, "{name}: {off}");
        }
    }
}

#[test]
fn an_oracle_of_another_kind_is_refused_before_anything_is_reserved() {
    let facts = facts(3, 100_000, Adjacency::ReplaceOne);
    for (name, plan) in plans(&facts, &budget(1.0), 100) {
        // It answers all that the plan does not ask, and nothing else.
        let other = if plan.needs().covers(Offers::MEANS) {
            Offers::PASSES | Offers::VALUES
        } else {
            Offers::MEANS | Offers::NORMS
        };
        let facts = OracleFacts::new(plan.dim(), 100_000, Adjacency::ReplaceOne, other);
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let mut oracle = FnOracle::new(facts, curator, |_, question| panic!("{question:?}"));
        let refused = plan.run(&mut oracle, &mut NoObserver);
        assert!(
            matches!(refused, Err(RunError::NotOffered { solver, .. }) if solver == plan.name()),
            "{name}"
        );
        let curator = oracle.books().curator();
        assert_eq!(curator.reserved(), dpopt_privacy::Event::NoOp);
    }
}

#[test]
fn passes_are_refused_for_a_loss_that_is_not_convex() {
    let data = data(2_000, Adjacency::ReplaceOne);
    let facts = facts(3, 2_000, Adjacency::ReplaceOne);
    let plan = planned(&RECURSIVE_SGD, &facts, &budget(20.0), 10).unwrap();
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let on = GlmRun::new(&data, Glm::Sigmoid, curator);
    let refused = on.run(&*plan, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::NotConvexSmooth(_))));
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut means = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
    let refused = plan.run(&mut means, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::NotOffered { .. })));
}

#[test]
fn what_is_missing_is_said_with_the_numbers() {
    let good = facts(5, 100_000, Adjacency::ReplaceOne);
    for solver in [&TREE_SPIDER, &RECURSIVE_GD, &RECURSIVE_SGD, &ADAPTIVE_BATCH] {
        let moved = facts(5, 100_000, Adjacency::AddRemove);
        let refused = planned(solver, &moved, &budget(1.0), 100_000);
        let fixed = planned(solver, &good, &budget(1.0), 100_000).unwrap();
        let Err(PlanError::NeedsPositions {
            records, slices, ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(records, 100_000);
        if solver == &TREE_SPIDER {
            // A slice for every leaf.
            assert_eq!(slices, fixed.steps());
        } else if solver == &ADAPTIVE_BATCH {
            // One for each estimate.
            assert!((10..1_000).contains(&slices), "{slices}");
        } else {
            assert!((1..100).contains(&slices), "{solver} {slices}");
        }
    }
}
