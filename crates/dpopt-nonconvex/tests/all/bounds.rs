//! What a finished run states: the plan's bound if its proof covers the end that the run came to, and nothing otherwise.

use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    ADAPTIVE_GD, AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, BoundedQuantity, Budget,
    ExtraFacts, GlmRun, JlBranch, JlFacts, JlPlan, KlCondition, KlSpiderPlan, KlSpiderSettings,
    Limits, NOISY_GD_THEORY, NoObserver, NoisyGdPlan, NormQueries, NormalizedSpiderPlan, Observer,
    Outcome, Plan, PlanError, ProximalFacts, ProximalPlan, PublicFacts, PublicRank, Release,
    SOLVERS, SPIDERBOOST, STORM, SampledSpiderBoostPlan, SpiderBoostPlan, Stop, StormPlan,
    TreeSettings, TreeSpiderPlan, TreeTarget, solver,
};
use dpopt_oracle::{Glm, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Curator};

use crate::common::{self, extra};

const RECORDS: usize = 3_000;

fn budget() -> Budget {
    common::budget(20.0)
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
fn tree(target: TreeTarget) -> Box<dyn Plan> {
    let settings = TreeSettings::new(target).even_if_vacuous();
    Box::new(TreeSpiderPlan::new(&facts(), &budget(), settings, 60).unwrap())
}

/// The means under add-remove are over a declared number of records; the proofs are about the true one, which nobody may know.
#[test]
fn no_plan_states_a_bound_where_the_number_of_records_is_private() {
    let mut facts = facts();
    facts.adjacency = Adjacency::AddRemove;
    let mut planned = 0;
    for solver in SOLVERS {
        // Single passes are refused there.
        let Ok(plan) = solver.plan(&facts, &extra(), &budget(), &Limits::steps(200)) else {
            continue;
        };
        for stop in [Stop::Completed, Stop::SmallEstimate, Stop::StepCap] {
            assert_eq!(plan.bound_at(stop), None, "{solver} {stop:?}");
        }
        planned += u32::from(plan.bound().is_some());
    }
    assert!(planned >= 4, "{planned}");
}

fn adaptive(settings: AdaptiveSettings) -> Box<dyn Plan> {
    let settings = settings.with_max_steps(60);
    Box::new(AdaptiveGdPlan::new(&facts(), &budget(), settings).unwrap())
}

/// Every solver by name, and other plans of some.
fn plans() -> Vec<(String, Box<dyn Plan>)> {
    let planned = |extra: &ExtraFacts, max_steps| {
        let (facts, budget, limits) = (facts(), budget(), Limits::steps(max_steps));
        let plan = move |solver: &dpopt_nonconvex::Solver| {
            let plan = solver.plan(&facts, extra, &budget, &limits);
            plan.unwrap_or_else(|error| panic!("{solver}: {error}"))
        };
        SOLVERS
            .iter()
            .map(move |solver| (*solver, plan(solver)))
            .collect::<Vec<_>>()
    };
    let mut plans: Vec<(String, Box<dyn Plan>)> = planned(&extra(), 200)
        .into_iter()
        .map(|(solver, plan)| (solver.to_string(), plan))
        .collect();
    let kl = KlCondition::new(1.0, 2.0).unwrap();
    let settings = KlSpiderSettings::new(0.05);
    let spider = KlSpiderPlan::new(&facts(), &kl, &budget(), settings, 10_000);
    plans.push(("kl-spider, long".to_owned(), Box::new(spider.unwrap())));
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
    let ranked = extra().with_rank(PublicRank::new(2).unwrap());
    for solver in [&SPIDERBOOST, &NOISY_GD_THEORY] {
        let plan = solver.plan(&facts(), &ranked, &budget(), &Limits::steps(60));
        plans.push((format!("{solver} within a rank"), plan.unwrap()));
    }
    let jl = JlFacts {
        facts: facts(),
        rank: None,
        seed: 3,
    };
    for solver in [&SPIDERBOOST, &STORM] {
        let given = JlPlan::given(2, &jl, &budget(), solver, 60).unwrap();
        plans.push((format!("{solver} projected"), Box::new(given)));
        let same = JlPlan::given(3, &jl, &budget(), solver, 60).unwrap();
        assert_eq!(same.branch(), JlBranch::Identity);
        plans.push((format!("{solver} not projected"), Box::new(same)));
    }
    plans
}

fn run(plan: &dyn Plan, data: &PrivateData, observer: &mut dyn Observer) -> Outcome {
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let on = GlmRun::new(data, Glm::Logistic, curator);
    on.run(plan, observer).unwrap().0
}

fn stop_at_once() -> impl Observer {
    |_: &Release<'_>| ControlFlow::Break(())
}

#[test]
fn a_run_that_was_stopped_states_no_bound() {
    let data = data();
    for (name, plan) in plans() {
        // Their first estimate may be short enough to end them.
        if name == "tree-high-probability" || name == "tree-heuristic" {
            continue;
        }
        let mut releases = 0;
        let outcome = run(&*plan, &data, &mut |_: &Release<'_>| {
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
        let outcome = run(&*plan, &data, &mut NoObserver);
        let promised = plan.bound().map(|bound| bound.value);
        // The event that the proof is about makes a walk with a threshold stop: one that did not has left it.
        let stops = name == "tree-high-probability";
        let promised = promised.filter(|_| !stops || outcome.stop == Stop::SmallEstimate);
        let said = outcome.bound().map(|bound| bound.value);
        if matches!(name.as_str(), "sosp" | "adaptive-batch") {
            // What was released there says more than the plan.
            assert_eq!(outcome.stop, Stop::Certified);
            assert!(said > Some(0.0) && said <= promised, "{said:?}");
        } else {
            assert_eq!(said, promised, "{name}");
        }
        let Some(bound) = outcome.bound() else {
            continue;
        };
        stated += 1;
        let quantity = match name.as_str() {
            "proximal-point" => BoundedQuantity::ExcessRisk,
            name if name.starts_with("kl-spider") => BoundedQuantity::ExcessRisk,
            "goldstein-envelope" => BoundedQuantity::ComponentWiseGoldsteinDistance,
            name if solver(name).is_ok_and(|solver| solver.needs.goldstein) => {
                BoundedQuantity::GoldsteinDistance
            }
            _ => BoundedQuantity::GradientNorm,
        };
        assert_eq!(
            (bound.quantity, bound.sense),
            (quantity, plan.bound_sense()),
            "{name}"
        );
    }
    // All named solvers that state one among them.
    let named = SOLVERS
        .iter()
        .filter(|solver| solver.states_a_bound())
        .count();
    assert!(stated >= named + 5, "{stated}");
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
        Stop::Certified,
        Stop::BudgetUsed,
        Stop::RecordsExhausted,
        Stop::Diverged,
    ];
    for (name, plan) in plans() {
        let covered: Vec<Stop> = every
            .into_iter()
            .filter(|stop| plan.bound_at(*stop).is_some())
            .collect();
        let nothing = plan.bound().is_none();
        let expected: &[Stop] = match name.as_str() {
            _ if nothing => &[],
            name if name.starts_with("kl-spider") => &[Stop::Completed, Stop::SmallEstimate],
            "tree-high-probability" => &[Stop::SmallEstimate],
            "sosp" | "adaptive-batch" => &[Stop::Certified],
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

/// A plan by hand states no bound: not even one whose schedule is that of a plan with one.
#[test]
fn a_plan_by_hand_has_no_bound() {
    let (facts, budget) = (facts(), budget());
    let tree = TreeSettings::new(TreeTarget::Mean);
    macro_rules! both {
        ($plan:expr, $of:ident) => {{
            let plan = $plan.unwrap();
            let hand = $of::by_hand(&facts, &budget, plan.schedule().clone());
            (
                Box::new(plan) as Box<dyn Plan>,
                Box::new(hand) as Box<dyn Plan>,
            )
        }};
    }
    let descent = NoisyGdPlan::theory(&facts, &budget, 60);
    let boost = SpiderBoostPlan::new(&facts, &budget, 60);
    let sampled = SampledSpiderBoostPlan::new(&facts, &budget, 60);
    let normalized = NormalizedSpiderPlan::new(&facts, &budget, 60);
    let storm = StormPlan::new(&facts, &budget, 60);
    let trees = TreeSpiderPlan::new(&facts, &budget, tree, 60).unwrap();
    let hand = TreeSpiderPlan::by_hand(&facts, &budget, tree, trees.schedule().clone());
    let data = data();
    for (plan, hand) in [
        both!(descent, NoisyGdPlan),
        both!(boost, SpiderBoostPlan),
        both!(sampled, SampledSpiderBoostPlan),
        both!(normalized, NormalizedSpiderPlan),
        both!(storm, StormPlan),
        (Box::new(trees), Box::new(hand)),
    ] {
        assert!(plan.bound().is_some() && hand.bound().is_none());
        // It is the same plan otherwise.
        assert_eq!(
            (plan.spend(), plan.steps(), plan.gradients(), plan.access()),
            (hand.spend(), hand.steps(), hand.gradients(), hand.access())
        );
        let outcome = run(&*hand, &data, &mut NoObserver);
        assert_eq!((outcome.stop, outcome.bound()), (Stop::Completed, None));
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
        let mut means = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
        plan.run(&mut means, observer).unwrap()
    };
    let whole = once(&mut NoObserver);
    let bound = whole.bound().unwrap();
    assert_eq!(bound.value, plan.predicted_risk());
    assert_eq!(bound.quantity, BoundedQuantity::ExcessRisk);
    assert!(!whole.returned_start());
    let stopped = once(&mut stop_at_once());
    assert_eq!((stopped.stop, stopped.bound()), (Stop::ByObserver, None));
    // No round was whole.
    assert!(stopped.returned_start());
}

/// A plan for more records than there are claims less noise than there is; one for another adjacency is about a number of
/// records that may be hidden.
#[test]
fn a_run_on_other_records_than_planned_states_no_bound() {
    let data = data();
    let add_remove = {
        let design = Design::dense(3, [0.6, 0.0, 0.5].repeat(RECORDS)).unwrap();
        let (labels, one) = (vec![1.0; RECORDS], ClipNorm::new(1.0).unwrap());
        let (adjacency, declared) = (Adjacency::AddRemove, Some(RECORDS as u64));
        PrivateData::new(design, labels, one, adjacency, declared).unwrap()
    };
    let planned_for = |records| {
        let facts = PublicFacts { records, ..facts() };
        SPIDERBOOST
            .plan(&facts, &extra(), &budget(), &Limits::steps(60))
            .unwrap()
    };
    let (right, wrong) = (planned_for(RECORDS as u64), planned_for(30_000));
    for (plan, data, stated) in [
        (&right, &data, true),
        (&wrong, &data, false),
        (&right, &add_remove, false),
    ] {
        let curator = Curator::protected(data.adjacency()).unwrap();
        let on = GlmRun::new(data, Glm::Logistic, curator);
        let (outcome, _) = on.run(&**plan, &mut NoObserver).unwrap();
        assert_eq!(outcome.stop, Stop::Completed);
        assert!(plan.bound().is_some());
        assert_eq!(outcome.bound().is_some(), stated);
    }
}

#[test]
fn a_point_that_is_the_start_is_said_to_be() {
    let data = data();
    for (name, plan) in plans() {
        let outcome = run(&*plan, &data, &mut NoObserver);
        let origin = outcome.point.iter().all(|w| *w == 0.0);
        assert_eq!(outcome.returned_start(), origin, "{name}");
    }
    // From elsewhere: a norm is no step, so the start comes back.
    let start = [0.25, -0.5, 0.125];
    let plan = adaptive(AdaptiveSettings::new());
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let on = GlmRun::new(&data, Glm::Logistic, curator).starting_at(Some(&start));
    let (outcome, _) = on.run(&*plan, &mut stop_at_once()).unwrap();
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
    let base = |f: &PublicFacts, rank| {
        let mut extra = ExtraFacts::default();
        extra.rank = rank;
        ADAPTIVE_GD.plan(f, &extra, &budget(), &Limits::steps(u64::MAX))
    };
    for branch in [JlBranch::Rank, JlBranch::RankFree] {
        let refused = JlPlan::in_branch(branch, &jl, &budget(), &base);
        assert!(
            matches!(refused, Err(PlanError::NoBaseBound)),
            "{branch:?}: {:?}",
            refused.map(|plan| plan.bound_sense())
        );
    }
}
