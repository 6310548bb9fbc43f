//! Membership by fingerprints: does the point that a solver returns lean towards the records that it has read?
//!
//! Records are signs with random biases p ([`Fingerprint`]), the loss is [`MeanBall`], the instance of the lower bound. In
//! one world record 0 is the target, in the other an independent draw of the same law stands in its place. The score
//! is the statistic of the lower bound's proof, <w/s - p, x/s - p> for the returned point w and the target x. It
//! has mean 0 where w does not depend on x, and about 2d/(3n) for a member if w is the mean record.
//!
//! For every data set, target and substitute the two runs are on neighbours, so the claim's trade-off curve holds
//! for the test given these; the curve is convex, so it holds for the averages over them as well. A score sees the returned point alone and not the releases
//! before it, so it finds less than the likelihood ratios of the other canaries; what it must find is a solver without
//! enough noise. There the spread of the other records hides a member by sqrt(n/d) only, so d is above n.

use dpopt_nonconvex::{
    Budget, ConvexFacts, DpSgdPlan, NoObserver, NoisyGdPlan, PublicFacts, RecursiveGdPlan,
    SolverPlan, SpiderBoostPlan, TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::{Convexity, PrivateData, PrivateGradient, PrivateMean, Staged};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, SamplingRate};

use super::mechanisms::{DELTA, noise};
use super::{AuditError, Canary, Claim, Registry, Statistic, World};
use crate::zoo::{Fingerprint, MeanBall};

const GROUP: &str = "membership";
const DIM: usize = 160;
const RECORDS: u64 = 50;
/// Steps of the plans that take several.
const STEPS: u64 = 4;
const RELATION: Adjacency = Adjacency::ReplaceOne;

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    for (name, plan) in plans()? {
        let claim = Claim::of(&plan.event(), DELTA, RELATION)?;
        let statistic = match claim.mu {
            Some(_) => Statistic::GaussianDp,
            None => Statistic::ApproximateDp,
        };
        registry.add(target(name, claim, statistic, plan));
    }
    // Claims of the right plans, noise of the wrong ones.
    let plans = plans()?;
    for (name, plan) in plans {
        let quieter = match (name, plan.clone()) {
            ("one-release", Plan::Walk(SolverPlan::NoisyGd(mut walk))) => {
                walk.noise_multiplier = noise(walk.noise_multiplier.get() / 8.0)?;
                Plan::Walk(SolverPlan::NoisyGd(walk))
            }
            ("spiderboost", Plan::Walk(SolverPlan::SpiderBoost(mut walk))) => {
                // Forgotten, but for what keeps the numbers in range.
                walk.anchor_noise_multiplier = noise(walk.anchor_noise_multiplier.get() / 1e3)?;
                walk.variation_noise_multiplier =
                    noise(walk.variation_noise_multiplier.get() / 1e3)?;
                Plan::Walk(SolverPlan::SpiderBoost(walk))
            }
            _ => continue,
        };
        let claim = Claim::of(&plan.event(), DELTA, RELATION)?;
        let name = format!("{name}-with-too-little-noise");
        registry.add(target(&name, claim, Statistic::GaussianDp, quieter).control());
    }
    Ok(())
}

/// A plan of any kind.
#[derive(Clone)]
enum Plan {
    Walk(SolverPlan),
    Recursive(RecursiveGdPlan),
}

impl Plan {
    fn event(&self) -> Event {
        match self {
            Plan::Walk(plan) => plan.spend().event().clone(),
            Plan::Recursive(plan) => plan.spend().event().clone(),
        }
    }
}

/// Plans at epsilon 2.
fn plans() -> Result<Vec<(&'static str, Plan)>, AuditError> {
    let loss = loss()?;
    let radius = loss.record_radius();
    let facts = PublicFacts {
        records: RECORDS,
        dim: DIM,
        adjacency: RELATION,
        lipschitz: 1.0,
        smoothness: 1.0,
        initial_gap: 0.5 * radius * radius,
        row_norm: 1.0,
        convexity: Convexity::Convex,
    };
    let budget = Budget {
        epsilon: Epsilon::new(2.0)?,
        delta: Delta::new(DELTA)?,
    };
    let several = NoisyGdPlan::momentum(&facts, &budget, STEPS)?;
    let one = several.with_parameters(1, 1.0, 0.0, radius * (1.0 + 1e-9))?;
    let walk = several.with_parameters(STEPS, 1.0, 0.0, 1.0)?;
    // A plan with a bound needs many more records; what it costs doesn't depend on them.
    let many = PublicFacts {
        records: 1_000_000,
        ..facts
    };
    let mut spider = SpiderBoostPlan::new(&many, &budget, STEPS)?;
    (spider.phase, spider.steps) = (2, STEPS);
    (spider.anchors, spider.variations) = (STEPS / 2, STEPS / 2);
    spider.anchor_noise_multiplier = noise((STEPS as f64).sqrt() / budget.mu()?.get())?;
    spider.variation_noise_multiplier = spider.anchor_noise_multiplier;
    let rate = SamplingRate::new(0.5)?;
    let sgd = DpSgdPlan::with_parameters(&facts, &budget, STEPS, rate, 1.0, 0.0, 1.0)?;
    let settings = TreeSettings::new(TreeTarget::Mean)
        .with_depth(1)
        .even_if_vacuous();
    let tree = TreeSpiderPlan::new(&facts, &budget, settings, STEPS)?;
    let convex = ConvexFacts {
        public: facts,
        radius: Some(radius),
    };
    let recursive = RecursiveGdPlan::even_if_vacuous(&convex, &budget, STEPS)?;
    Ok(vec![
        ("one-release", Plan::Walk(SolverPlan::NoisyGd(one))),
        ("noisy-gd", Plan::Walk(SolverPlan::NoisyGd(walk))),
        ("spiderboost", Plan::Walk(SolverPlan::SpiderBoost(spider))),
        ("dp-sgd", Plan::Walk(SolverPlan::DpSgd(sgd))),
        ("tree-spider", Plan::Walk(SolverPlan::TreeSpider(tree))),
        ("recursive-gd", Plan::Recursive(recursive)),
    ])
}

/// B = 1.
fn loss() -> Result<MeanBall, AuditError> {
    MeanBall::new(DIM, 1.0, 1.0).map_err(|error| AuditError::Other(error.to_string()))
}

fn target(name: &str, claim: Claim, statistic: Statistic, plan: Plan) -> Canary {
    let score = move |world, seed| {
        let loss = loss()?;
        let size = loss.record_radius() / (DIM as f64).sqrt();
        // One more record than is read: the substitute.
        let drawn = Fingerprint::new(DIM, RECORDS as usize + 1, size, super::mixed(seed, 0))
            .map_err(|error| AuditError::Other(error.to_string()))?;
        let mut records = drawn.records().to_vec();
        let substitute = records.pop();
        if let (World::Out, Some(substitute)) = (world, substitute) {
            records[0] = substitute;
        }
        let point = run(&plan, records, super::mixed(seed, 1))?;
        Ok(drawn.statistic(&point, &drawn.records()[0]))
    };
    Canary::new(
        &format!("{GROUP}/{name}/{RELATION}"),
        GROUP,
        claim,
        statistic,
        score,
    )
    .with_runs(4_000, 80_000)
}

/// The point that the plan returns on these records, by the real estimators.
fn run(plan: &Plan, records: Vec<Vec<f64>>, seed: u64) -> Result<Vec<f64>, AuditError> {
    let data = PrivateData::made_up_of(records, RELATION, None)?;
    let curator = Curator::simulated(RELATION, seed);
    let loss = loss()?;
    let outcome = match plan {
        Plan::Walk(SolverPlan::TreeSpider(plan)) => {
            let mut tracker = plan.estimator(PrivateMean::new(&data, loss, curator)?)?;
            plan.run(&mut tracker, &mut NoObserver)?
        }
        Plan::Walk(plan) => {
            let clip = ClipNorm::new(plan.clip())?;
            let mut estimator =
                PrivateGradient::clipped(&data, loss, curator, clip)?.with_access(plan.access());
            plan.run(&mut estimator, &mut NoObserver)?
        }
        Plan::Recursive(plan) => {
            let means = PrivateMean::new(&data, loss, curator)?;
            let mut stages = Staged::new(means, ClipNorm::new(plan.clip)?);
            plan.run(&mut stages, &mut NoObserver)?
        }
    };
    Ok(outcome.point)
}
