//! Plans within a public rank, and through a random projection.

use dpopt_linalg::{Design, norm};
use dpopt_nonconvex::{
    Budget, ExtraFacts, JlBranch, JlFacts, JlPlan, Limits, NOISY_GD, NOISY_GD_THEORY, NoObserver,
    NoisyGdPlan, Plan, PlanError, PublicFacts, PublicRank, SPIDERBOOST, Solver, SpiderBoostPlan,
    TREE_SPIDER,
};
use dpopt_oracle::{Glm, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};

use crate::common::{budget, facts};

const STEPS: u64 = 10_000_000;

fn jl(records: u64, dim: usize, rank: Option<usize>) -> JlFacts {
    JlFacts {
        facts: facts(dim, records),
        rank: rank.map(|r| PublicRank::new(r).unwrap()),
        seed: 1,
    }
}

fn rank(r: usize) -> PublicRank {
    PublicRank::new(r).unwrap()
}

/// A solver as the base of a projected plan.
fn base<'a>(
    solver: &'a Solver,
    budget: &'a Budget,
    max_steps: u64,
) -> impl Fn(&PublicFacts, Option<PublicRank>) -> Result<Box<dyn Plan>, PlanError> + 'a {
    move |facts, rank| {
        let mut extra = ExtraFacts::default();
        extra.rank = rank;
        solver.plan(facts, &extra, budget, &Limits::steps(max_steps))
    }
}

/// (D') and the bound of a plan, recomputed by summing the recursion of the proof step by step.
#[test]
fn a_plan_within_a_rank_satisfies_its_proof() {
    for (n, d, r) in [
        (10_000, 4_000, 5),
        (100_000, 1_000, 20),
        (1_000_000, 100_000, 3),
    ] {
        let plan =
            SpiderBoostPlan::within_rank(&facts(d, n), &budget(1.0), STEPS, rank(r)).unwrap();
        let m = (d - r) as f64;
        let r = r as f64;
        let theta = plan.variation_noise_scale().powi(2) / 4.0;
        let sigma2 = plan.anchor_noise_std().powi(2);
        // U_j <= sigma1^2 rho^j; a step's g adds theta to the U of all later ones.
        let (mut u, mut noise, mut drift) = (sigma2, 0.0, 0.0);
        let mut growth = 1.0;
        for j in 0..plan.schedule().phase {
            noise += r * u / plan.schedule().phase as f64;
            u *= 1.0 + m * theta;
            if j > 0 {
                drift += r * theta * growth;
                growth *= 1.0 + m * theta;
            }
        }
        assert!(drift <= 0.5 * (1.0 + 1e-9), "{drift}");
        let bound = (2.0 / plan.steps() as f64 + noise).sqrt();
        assert!((bound / plan.predicted_bound().unwrap() - 1.0).abs() < 1e-9);
        // All of the budget: N1/z1^2 + N2/z2^2 = mu^2.
        let share = |count: u64, z: f64| count as f64 / (z * z);
        let spent = share(
            plan.schedule().anchors(),
            plan.schedule().anchor_noise_multiplier.get(),
        ) + share(
            plan.schedule().variations(),
            plan.schedule().variation_noise_multiplier.get(),
        );
        assert!((spent.sqrt() / budget(1.0).mu().unwrap().get() - 1.0).abs() < 1e-12);
        let plain = SpiderBoostPlan::new(&facts(d, n), &budget(1.0), STEPS);
        if let Ok(plain) = plain {
            assert!(plan.predicted_bound() < plain.predicted_bound());
        }
    }
}

#[test]
fn at_full_rank_the_plans_are_the_plain_ones() {
    let facts = facts(50, 100_000);
    let plain = SpiderBoostPlan::new(&facts, &budget(1.0), STEPS).unwrap();
    assert_eq!(
        SpiderBoostPlan::within_rank(&facts, &budget(1.0), STEPS, rank(50)).unwrap(),
        plain
    );
    // One below: nearly the same bound, from the other planner.
    let near = SpiderBoostPlan::within_rank(&facts, &budget(1.0), STEPS, rank(49)).unwrap();
    let ratio = near.predicted_bound().unwrap() / plain.predicted_bound().unwrap();
    assert!((0.97..1.01).contains(&ratio), "{ratio}");
    let gd = NoisyGdPlan::within_rank(&facts, &budget(1.0), STEPS, rank(60)).unwrap();
    let plain = NoisyGdPlan::theory(&facts, &budget(1.0), STEPS).unwrap();
    assert_eq!(gd.predicted_bound(), plain.predicted_bound());
    // d noise coordinates of which r count.
    let few = NoisyGdPlan::within_rank(&facts, &budget(1.0), STEPS, rank(2)).unwrap();
    let exact = 1.0 / few.steps() as f64 + 2.0 * few.noise_std().powi(2);
    assert!((few.predicted_bound().unwrap() - exact.sqrt()).abs() < 1e-12);
    assert!(matches!(PublicRank::new(0), Err(PlanError::BadFact { .. })));
}

#[test]
fn branches_are_compared_by_their_bounds() {
    // So few columns that no projection helps.
    let plan = JlPlan::new(&jl(10_000, 100, Some(5)), &budget(1.0), &SPIDERBOOST, STEPS).unwrap();
    assert_eq!(
        (
            plan.branch(),
            plan.shape().embedded_dim,
            plan.shape().stretch
        ),
        (JlBranch::Identity, 100, 1.0)
    );
    assert!(plan.map().unwrap().is_identity());
    // Many columns of low rank.
    let wide = jl(100_000, 100_000, Some(5));
    let plan = JlPlan::new(&wide, &budget(1.0), &SPIDERBOOST, STEPS).unwrap();
    assert_eq!(plan.branch(), JlBranch::Rank);
    // Many columns and nothing known of the rank.
    let free = JlPlan::new(
        &jl(1_000_000, 1_000_000, None),
        &budget(1.0),
        &SPIDERBOOST,
        STEPS,
    )
    .unwrap();
    assert_eq!(free.branch(), JlBranch::RankFree);
    for plan in [&plan, &free] {
        let base = plan.base().predicted_bound().unwrap();
        let bound = plan.distortion() * base + plan.slack();
        assert_eq!(plan.predicted_bound(), Some(bound));
        assert_eq!(plan.base().facts().dim, plan.shape().embedded_dim);
        // Constants of rows of norm sqrt(tau) X, and tau by its equation.
        let embedded = plan.base().facts();
        assert!((embedded.lipschitz - plan.shape().stretch.sqrt()).abs() < 1e-12);
        assert!((embedded.smoothness - plan.shape().stretch).abs() < 1e-12);
        assert_eq!(plan.shape().row_norm.get(), embedded.row_norm);
        let n = plan.facts().records as f64;
        let excess = plan.shape().stretch - 1.0 - plan.shape().stretch.ln();
        assert!((excess - 4.0 * n.ln() / plan.shape().embedded_dim as f64).abs() < 1e-9);
        assert_eq!(plan.spend(), plan.base().spend());
        let mu = budget(1.0).mu().unwrap().get();
        let rank = plan
            .jl_facts()
            .rank
            .unwrap_or(rank(plan.shape().embedded_dim));
        let facts = plan.base().facts();
        let spider = SpiderBoostPlan::within_rank(facts, &budget(1.0), STEPS, rank).unwrap();
        let spider = spider.schedule();
        let spent = spider.anchors() as f64 / spider.anchor_noise_multiplier.get().powi(2)
            + spider.variations() as f64 / spider.variation_noise_multiplier.get().powi(2);
        assert!((spent.sqrt() / mu - 1.0).abs() < 1e-12, "all of the budget");
    }
}

#[test]
fn what_is_missing_or_vacuous_is_said() {
    let budget = budget(1.0);
    let base_of = |solver: &'static Solver, steps| base(solver, &budget, steps);
    let base = base_of(&SPIDERBOOST, STEPS);
    let missing = JlPlan::in_branch(JlBranch::Rank, &jl(10_000, 5_000, None), &budget, &base);
    assert_eq!(missing.err(), Some(PlanError::RankMissing));
    let vacuous = JlPlan::new(&jl(500, 100_000, None), &budget, &SPIDERBOOST, STEPS);
    assert!(
        matches!(vacuous, Err(PlanError::Vacuous { .. })),
        "{vacuous:?}"
    );
    let unbound = base_of(&NOISY_GD, 100);
    let wide = jl(10_000, 5_000, Some(5));
    let refused = JlPlan::in_branch(JlBranch::RankFree, &wide, &budget, &unbound);
    assert_eq!(refused.err(), Some(PlanError::NoBaseBound));
    // With a given k it runs, and states no bound.
    let given = JlPlan::with_embedded_dim(50, &wide, &budget, &unbound).unwrap();
    assert_eq!(
        (
            given.branch(),
            given.predicted_bound(),
            given.shape().embedded_dim
        ),
        (JlBranch::Given, None, 50)
    );
    let full = JlPlan::with_embedded_dim(5_000, &wide, &budget, &unbound).unwrap();
    assert_eq!(full.branch(), JlBranch::Identity);
    // No k of the rank branch lies below d.
    let small =
        JlPlan::in_branch(JlBranch::Rank, &jl(100_000, 20, Some(5)), &budget, &base).unwrap();
    assert_eq!(small.branch(), JlBranch::Identity);
}

/// The bound of a tree is on the gradient of the population, and the distortions are proved for that of the records.
#[test]
fn a_population_bound_chooses_no_projection() {
    let wide = jl(1_000_000, 1_000_000, Some(5));
    let refused = JlPlan::new(&wide, &budget(1.0), &TREE_SPIDER, STEPS);
    assert_eq!(refused.err(), Some(PlanError::NoBaseBound));
    let budget = budget(1.0);
    let tree = base(&TREE_SPIDER, &budget, STEPS);
    for branch in [JlBranch::Rank, JlBranch::RankFree] {
        let refused = JlPlan::in_branch(branch, &wide, &budget, &tree);
        assert_eq!(refused.err(), Some(PlanError::NoBaseBound));
    }
    let given = JlPlan::with_embedded_dim(200, &wide, &budget, &tree).unwrap();
    assert_eq!(given.predicted_bound(), None);
}

#[test]
fn a_rank_is_checked_wherever_it_comes_from() {
    assert_eq!(serde_json::from_str::<PublicRank>("5").unwrap(), rank(5));
    assert_eq!(serde_json::to_string(&rank(5)).unwrap(), "5");
    assert!(serde_json::from_str::<PublicRank>("0").is_err());
}

/// A protected run from planning to a lifted point. The rank is 40 where 2 was claimed: the guarantee is the
/// budget's all the same.
#[test]
fn a_rank_bound_that_is_wrong_costs_no_privacy() {
    let (n, d) = (3_000, 900);
    let mut design = Design::sparse(d).unwrap();
    for i in 0..n as u32 {
        design
            .push_row(&[(i % 40, 0.8), (40 + i % 7, 0.5)])
            .unwrap();
    }
    let labels = (0..n).map(|i| (i % 5) as f32 / 5.0).collect();
    let row_norm = ClipNorm::new(1.0).unwrap();
    let data = PrivateData::new(design, labels, row_norm, Adjacency::ReplaceOne, None).unwrap();
    let facts = PublicFacts::glm(
        n as u64,
        d,
        data.adjacency(),
        1.0,
        Glm::Welsch.constants_within(1.0, Some(1.0)),
    )
    .unwrap();
    let budget = Budget {
        epsilon: Epsilon::new(8.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let jl = JlFacts {
        facts,
        rank: Some(rank(2)),
        seed: 77,
    };
    let base = base(&NOISY_GD_THEORY, &budget, 60);
    let plan = JlPlan::in_branch(JlBranch::Rank, &jl, &budget, &base).unwrap();
    assert!(
        plan.shape().embedded_dim < d && plan.branch() == JlBranch::Rank,
        "{}",
        plan.shape().embedded_dim
    );
    let embedded = plan.embedded(&data).unwrap();
    assert_eq!(embedded.dim(), plan.shape().embedded_dim);
    let curator = Curator::protected(data.adjacency()).unwrap();
    let mut estimator = PrivateMean::new(&embedded, Glm::Welsch, curator).unwrap();
    let outcome = plan.run(&mut estimator, &mut NoObserver).unwrap();
    assert_eq!(outcome.point.len(), d);
    // One of the points is drawn, the start among them.
    assert_eq!(outcome.returned_start(), norm(&outcome.point) == 0.0);
    let guarantee = estimator.curator().guarantee(budget.delta).unwrap();
    assert!(guarantee.epsilon() <= 8.0 && guarantee.epsilon() > 7.9);
    // An estimator over the records as they are does not fit.
    let curator = Curator::protected(data.adjacency()).unwrap();
    let mut wrong = PrivateMean::new(&data, Glm::Welsch, curator).unwrap();
    assert!(plan.run(&mut wrong, &mut NoObserver).is_err());
}
