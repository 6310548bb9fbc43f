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
    Batches, ConvexFacts, DpAdamPlan, DpMfPlan, DpMfSettings, DpSgdPlan, EnvelopePlan, NoObserver,
    NoisyGdPlan, NoisyGdSchedule, Plan, PublicFacts, RecursiveGdPlan, SOLVERS,
    SampledSpiderBoostPlan, SampledSpiderBoostSchedule, Solver, SpiderBoostPlan,
    SpiderBoostSchedule, TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::{
    AlongRows, Batch, Constants, Convexity, Differentiable, Loss, PrivateData, PrivateMean,
    Segment, SmoothedFields, TwiceDifferentiable,
};
use dpopt_privacy::{Adjacency, Curator, SamplingRate};

use super::common::{budget, claim_of, noise};
use super::hostile::add_as_it_is;
use super::plans::{
    self, goldstein, goldstein_batch, in_periods, one_pass, proximal, sosp, with_all_facts,
};
use super::{Canary, CheckError, Claim, Registry, Statistic, World};
use crate::checks::mixed;
use crate::zoo::{Fingerprint, MeanBall};

const GROUP: &str = "membership";
const DIM: usize = 160;
const RECORDS: u64 = 50;
/// Steps of the plans that take several.
const STEPS: u64 = 4;
const RELATION: Adjacency = Adjacency::ReplaceOne;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for solver in SOLVERS {
        // Passes over single records are made of generalised linear losses only: see `passes`.
        if solver.name != "recursive-sgd" {
            let plan = plan_of(solver)?;
            registry.add(target(solver.name, claim_of(&*plan, RELATION)?, plan));
        }
    }
    let one = one_release()?;
    registry.add(target(
        "one-release",
        claim_of(&one, RELATION)?,
        Box::new(one.clone()),
    ));
    // Claims of the right plans, noise of the wrong ones.
    let quieter = NoisyGdSchedule {
        noise_multiplier: noise(one.schedule().noise_multiplier.get() / 8.0)?,
        ..*one.schedule()
    };
    let quieter = NoisyGdPlan::by_hand(one.facts(), one.budget(), quieter);
    let claim = claim_of(&one, RELATION)?;
    let name = "one-release-with-too-little-noise";
    registry.add(target(name, claim, Box::new(quieter)).control());
    let spider = spider()?;
    // Forgotten, but for what keeps the numbers in range.
    let forgotten = noise(spider.schedule().anchor_noise_multiplier.get() / 1e3)?;
    let quieter = SpiderBoostSchedule {
        anchor_noise_multiplier: forgotten,
        variation_noise_multiplier: forgotten,
        ..*spider.schedule()
    };
    let quieter = SpiderBoostPlan::by_hand(spider.facts(), spider.budget(), quieter);
    let claim = claim_of(&spider, RELATION)?;
    let name = "spiderboost-with-too-little-noise";
    registry.add(target(name, claim, Box::new(quieter)).control());
    Ok(())
}

fn facts() -> Result<PublicFacts, CheckError> {
    let radius = loss()?.record_radius();
    Ok(PublicFacts {
        records: RECORDS,
        initial_gap: 0.5 * radius * radius,
        convexity: Convexity::Convex,
        ..plans::facts(RELATION, DIM)
    })
}

/// A plan with a bound needs many more records; what it costs doesn't depend on them.
fn many() -> Result<PublicFacts, CheckError> {
    Ok(PublicFacts {
        records: 1_000_000,
        ..facts()?
    })
}

/// Of all plans.
const EPSILON: f64 = 2.0;

/// A step to the released mean record.
fn one_release() -> Result<NoisyGdPlan, CheckError> {
    let several = NoisyGdPlan::momentum(&facts()?, &budget(EPSILON)?, STEPS)?;
    let radius = loss()?.record_radius();
    Ok(several.with_parameters(1, 1.0, 0.0, radius * (1.0 + 1e-9))?)
}

fn spider() -> Result<SpiderBoostPlan, CheckError> {
    let (facts, budget) = (many()?, budget(EPSILON)?);
    let each = noise((STEPS as f64).sqrt() / budget.mu()?.get())?;
    let schedule = SpiderBoostSchedule {
        phase: 2,
        steps: STEPS,
        anchor_noise_multiplier: each,
        variation_noise_multiplier: each,
        ..*SpiderBoostPlan::new(&facts, &budget, STEPS)?.schedule()
    };
    Ok(SpiderBoostPlan::by_hand(&facts, &budget, schedule))
}

/// A plan of the solver that moves on so few records; one without a plan by hand here gets what its planner makes of many
/// records.
fn plan_of(solver: &Solver) -> Result<Box<dyn Plan>, CheckError> {
    let (facts, many, budget) = (facts()?, many()?, budget(EPSILON)?);
    let radius = loss()?.record_radius();
    let rate = SamplingRate::new(0.5)?;
    let sgd = || DpSgdPlan::with_parameters(&facts, &budget, STEPS, rate, 1.0, 0.0, 1.0);
    Ok(match solver.name {
        "noisy-gd" => {
            let plan = NoisyGdPlan::momentum(&facts, &budget, STEPS)?;
            Box::new(plan.with_parameters(STEPS, 1.0, 0.0, 1.0)?)
        }
        "dp-sgd" => Box::new(sgd()?),
        "dp-sgd-decay" => Box::new(sgd()?.with_clip_decay(0.5)?),
        "dp-adam" => Box::new(DpAdamPlan::on(sgd()?, 0.99, 1e-8, true)?),
        "dp-mf" | "dp-mf-sampled" => {
            let settings = DpMfSettings {
                epochs: 2,
                batch: RECORDS / 2,
                sampling_rate: (solver.name == "dp-mf-sampled").then_some(rate),
                batches: Batches::Poisson,
                band: None,
                step_size: 1.0,
                momentum: 0.0,
                cool_down: 0.0,
                clip: 1.0,
            };
            Box::new(DpMfPlan::with_settings(&facts, &budget, settings, STEPS)?)
        }
        "spiderboost" => Box::new(spider()?),
        "sampled-spiderboost" => {
            let schedule = SampledSpiderBoostSchedule {
                phase: 2,
                steps: STEPS,
                batch: RECORDS / 5,
                anchor_noise_multiplier: noise(4.0)?,
                variation_noise_multiplier: noise(4.0)?,
                ..*SampledSpiderBoostPlan::new(&many, &budget, STEPS)?.schedule()
            };
            Box::new(SampledSpiderBoostPlan::by_hand(&facts, &budget, schedule))
        }
        "tree-spider" => {
            let settings = TreeSettings::new(TreeTarget::Mean)
                .with_depth(1)
                .even_if_vacuous();
            Box::new(TreeSpiderPlan::new(&facts, &budget, settings, STEPS)?)
        }
        "recursive-gd" => {
            let convex = ConvexFacts {
                public: facts,
                radius: Some(radius),
            };
            Box::new(RecursiveGdPlan::even_if_vacuous(&convex, &budget, STEPS)?)
        }
        "proximal-point" => Box::new(proximal(RELATION, DIM, None)?),
        "goldstein"
        | "goldstein-sampled"
        | "goldstein-pass"
        | "goldstein-zo"
        | "goldstein-zo-sampled"
        | "goldstein-zo-pass" => {
            let batch = goldstein_batch(solver, rate.get(), RECORDS / STEPS)?;
            let directions = solver.needs.values.then_some(8);
            let steps = (STEPS, 2);
            Box::new(goldstein(&facts, &budget, steps, batch, directions)?)
        }
        "goldstein-recursive" => {
            let plan = goldstein(&facts, &budget, (STEPS, 2), Batch::All, None)?;
            // Anchors alone: frames in so many dimensions take long, and changes tell less of a record.
            let fields = SmoothedFields::Gradients;
            Box::new(in_periods(&plan, 1, Batch::All, None, fields)?)
        }
        "sosp" => Box::new(sosp(&many, &budget)?),
        // Two anchors on half of the records each, and a step after each.
        "adaptive-batch" => Box::new(one_pass(&facts, &budget, |schedule| {
            schedule.anchor_batch = RECORDS / 2;
            schedule.candidate = 0.0;
            schedule.drift = 0.0;
            schedule.step_size = 1.0;
        })?),
        "goldstein-envelope" => {
            let base = Box::new(spider()?);
            Box::new(EnvelopePlan::by_hand(&facts, &budget, 1.0, base)?)
        }
        _ => with_all_facts(solver, &many, &budget, (radius, 3 * STEPS))?,
    })
}

/// B = 1.
fn loss() -> Result<MeanBall, CheckError> {
    Ok(MeanBall::new(DIM, 1.0, 1.0)?)
}

fn target(name: &str, claim: Claim, plan: Box<dyn Plan>) -> Canary {
    let statistic = match claim.mu {
        Some(_) => Statistic::GaussianDp,
        None => Statistic::ApproximateDp,
    };
    let score = move |world, seed| {
        let loss = loss()?;
        let size = loss.record_radius() / (DIM as f64).sqrt();
        // One more record than is read: the substitute.
        let drawn = Fingerprint::new(DIM, RECORDS as usize + 1, size, mixed(seed, 0))?;
        let mut records = drawn.records().to_vec();
        let substitute = records.pop();
        if let (World::Out, Some(substitute)) = (world, substitute) {
            records[0] = substitute;
        }
        let point = run(&*plan, records, mixed(seed, 1))?;
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

/// [`MeanBall`], which is smooth and has no rows, with itself as its average along them: for this audit alone, where solvers that
/// ask for such averages are to have an answer.
struct AsItIs(MeanBall);

impl Loss for AsItIs {
    type Records = Vec<Vec<f64>>;
    const MAY_PANIC: bool = MeanBall::MAY_PANIC;

    fn dim(&self, records: &Vec<Vec<f64>>) -> usize {
        self.0.dim(records)
    }

    fn constants_on(&self, records: &Vec<Vec<f64>>) -> Constants {
        self.0.constants_on(records)
    }

    fn value(&self, record: &Vec<f64>, point: &[f64]) -> f64 {
        self.0.value(record, point)
    }
}

impl Differentiable for AsItIs {
    const HAS_ROW_AVERAGES: bool = true;

    fn row_average(&self, record: &Vec<f64>, of: &AlongRows<'_>, out: &mut [f64]) {
        add_as_it_is(self, record, of, out);
    }

    fn gradient(&self, record: &Vec<f64>, point: &[f64], out: &mut [f64]) {
        self.0.gradient(record, point, out);
    }

    fn gradient_change(&self, record: &Vec<f64>, segment: &Segment<'_>, out: &mut [f64]) {
        self.0.gradient_change(record, segment, out);
    }
}

impl TwiceDifferentiable for AsItIs {
    fn hessian_vector(&self, record: &Vec<f64>, point: &[f64], direction: &[f64], out: &mut [f64]) {
        self.0.hessian_vector(record, point, direction, out);
    }
}

/// The point that the plan returns on these records, by the real oracle.
fn run(plan: &dyn Plan, records: Vec<Vec<f64>>, seed: u64) -> Result<Vec<f64>, CheckError> {
    let data = PrivateData::made_up_of(records, RELATION, None)?;
    let curator = Curator::simulated(RELATION, seed);
    let mut means = PrivateMean::new(&data, AsItIs(loss()?), curator)?.with_hessians();
    Ok(plan.run(&mut means, &mut NoObserver)?.point)
}
