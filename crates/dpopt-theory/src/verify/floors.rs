//! Lower bounds as experiments: what no solver can be below, the rates there, and twins that are below.
//!
//! Two instances. On [`MeanBall`] over records of random signs with random biases (Theorem 2 of arXiv 2206.00846) a
//! private solver has to release a mean; the floor is 0.3 L0 sqrt(d)/(n mu). On [`LeCam`]'s two populations (Theorem 7) no solver can tell
//! which it has; the floor is 3 L0/(32 sqrt n), for the worse of the two. A row whose error is below its floor fails.
//!
//! The floor of the first has the slopes -1, 1/2, -1 in n, d, mu, and so has the Gaussian mechanism that knows how
//! short the records are: one step of noisy gradient descent with a clip of L0/4. Solvers planned for all problems with
//! these constants keep the rates of their plans there, -1/2 and -2/3: they stay above the floor, and don't follow it.
//!
//! The rate -1 belongs to SpiderBoost too where the second term of its bound rules: F0 L1/L0^2 below x = sqrt(d)/(n mu).
//! With F0 fixed no sequence of n stays there, so F0 = (x/4) L0^2/L1 goes along: few anchors, and as many steps as their noise
//! allows. (Far below x, say F0 = 20 x^2, the bound is the error of the one anchor and is met with equality, so that a lucky mean of runs
//! is above it as often as not.)

use dpopt_nonconvex::{Budget, NoisyGdPlan, NoisyGdSchedule, Plan, PublicFacts, SpiderBoostPlan};
use dpopt_oracle::{Convexity, Oracle};
use dpopt_privacy::{Adjacency, NoiseMultiplier};

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Points, Privacy, Size, five_mus, gradient_norm, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::problem::Problem;
use crate::simulation::{SimulatedOracle, WeightedRecords};
use crate::zoo::{Fingerprint, LeCam, Majority, MeanBall, Ramp, RampBowl};

const MAX_STEPS: u64 = 100_000_000;
/// F0 L1/L0^2 over x in the rows of the second term.
const SECOND_TERM: f64 = 0.25;
/// Runs of one trial on [`LeCam`], whose error is their mean.
const REPEATS: u64 = 50;
/// By how much the sample of the twin on [`LeCam`] is larger than it says.
const UNSAID: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// One step of noisy gradient descent, clipped to what records can be.
    OneRelease,
    /// With half of the noise that it pays for.
    HalfTheNoise,
    /// Noisy gradient descent as planned.
    NoisyGd,
    /// SpiderBoost as planned.
    SpiderBoost,
    /// SpiderBoost where F0 goes with x.
    SecondTerm,
    /// SpiderBoost where it does not, under the same claim.
    FirstTerm,
    /// One step on a sample of signs.
    Signs,
    /// On a larger sample than it says.
    MoreRecords,
}

struct FloorExperiment {
    claim: Claim,
    who: Who,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, who| all.push(Box::new(FloorExperiment { claim, who }));
    let n = Axis::Records;
    let release = "one Gaussian release";
    for (axis, predicted) in [(n, -1.0), (Axis::Dimension, 0.5), (Axis::Mu, -1.0)] {
        let id = |row: &str| format!("{row}/{}", axis.symbol());
        let claim = on_balls(&id("mean-ball"), axis, predicted, release);
        add(claim, Who::OneRelease);
        let claim = second_term(&id("spiderboost-second-term"), axis, predicted);
        add(claim.tight(0.5), Who::SecondTerm);
    }
    let claim = on_balls("mean-ball/noisy-gd", n, -0.5, "noisy-gd-theory");
    add(claim, Who::NoisyGd);
    let claim = on_balls("mean-ball/spiderboost", n, -2.0 / 3.0, "spiderboost");
    add(claim, Who::SpiderBoost);
    let on_signs = |id: &str| {
        Claim::new(id, n, -0.5)
            .by(release, "arXiv 2206.00846, Theorem 7")
            .on("Le Cam's two populations")
    };
    let note = "lucky means of the worst of six populations";
    add(on_signs("le-cam/n").within(0.06, 0.12, note), Who::Signs);
    let control = on_balls("mean-ball/half-the-noise", n, -1.0, release)
        .control("Half of the noise that was paid for.");
    add(control, Who::HalfTheNoise);
    let control = second_term("spiderboost-second-term/first-term", n, -1.0)
        .control("F0 stays 1/2: the first term rules. Can a fit tell the two?");
    add(control, Who::FirstTerm);
    let control =
        on_signs("le-cam/more-records").control("The sample is 64 times as large as it says.");
    add(control, Who::MoreRecords);
    all
}

fn on_balls(id: &str, axis: Axis, predicted: f64, solver: &str) -> Claim {
    Claim::new(id, axis, predicted)
        .by(solver, "arXiv 2206.00846, Theorem 2")
        .on("balls around random signs")
        .within(0.06, 0.12, "random data, one release")
}

fn second_term(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by(
            "spiderboost",
            "arXiv 2206.00846, Theorem 1, repaired: its second term",
        )
        .on("ramp-bowl of small F0")
        .within(0.06, 0.12, "one anchor's luck makes the error of a run")
}

impl FloorExperiment {
    fn size(&self, x: f64) -> Size {
        let (records, dim, epsilon) = match self.who {
            Who::SecondTerm | Who::FirstTerm => (100_000, 400, 1.0),
            Who::Signs | Who::MoreRecords => (1_000, 1, 4.0),
            _ => (5_000, 10, 1.0),
        };
        let size = Size {
            records,
            dim,
            privacy: Privacy::Epsilon(epsilon),
        };
        size.along(self.claim.axis, x)
    }

    fn on_signs(&self, trial: &Trial, size: &Size) -> Result<Measured, CheckError> {
        let majority = if trial.member.is_multiple_of(2) {
            Majority::Ones
        } else {
            Majority::MinusOnes
        };
        let hardest = LeCam::hardest_bias(size.records);
        let share = (trial.member / 2) as f64 / ((trial.members / 2).max(2) - 1) as f64;
        let problem = LeCam::new(1.0, 1.0, hardest * (0.5 / hardest).powf(share), majority)?;
        let facts = facts_of(&problem, size, 0.125);
        let plan = one_release(&facts, &size.budget(DELTA)?, 0.5)?;
        let drawn = match self.who {
            Who::MoreRecords => UNSAID * size.records,
            _ => size.records,
        };
        let mut sum = 0.0;
        for run in 0..REPEATS {
            let seed = trial.seed.wrapping_add(run);
            let counts = problem.counted(drawn, seed).to_vec();
            let data = WeightedRecords::new(vec![1.0, -1.0], counts)?;
            let oracle = SimulatedOracle::weighted(&problem, &data, Adjacency::ReplaceOne, seed);
            sum += error_of(&plan, oracle, &problem)?.error;
        }
        let floor = problem.floor(size.records);
        Ok(Measured::new(sum / REPEATS as f64).with_floor(floor))
    }

    fn on_balls(&self, trial: &Trial, size: &Size) -> Result<Measured, CheckError> {
        let loss = MeanBall::new(size.dim, 1.0, 1.0)?;
        let entry = loss.record_radius() / (size.dim as f64).sqrt();
        let data = Fingerprint::new(size.dim, size.records as usize, entry, trial.seed)?;
        let problem = loss.over(data.records().to_vec())?;
        let facts = facts_of(&problem, size, 1.0 / 32.0);
        let budget = size.budget(DELTA)?;
        let plan: Box<dyn Plan> = match self.who {
            Who::NoisyGd => Box::new(NoisyGdPlan::theory(&facts, &budget, MAX_STEPS)?),
            Who::SpiderBoost => Box::new(SpiderBoostPlan::new(&facts, &budget, MAX_STEPS)?),
            Who::HalfTheNoise => {
                let plan = one_release(&facts, &budget, 0.25)?;
                let half = 0.5 * plan.schedule().noise_multiplier.get();
                let schedule = NoisyGdSchedule {
                    noise_multiplier: NoiseMultiplier::new(half)?,
                    ..*plan.schedule()
                };
                Box::new(NoisyGdPlan::by_hand(&facts, &budget, schedule))
            }
            _ => Box::new(one_release(&facts, &budget, 0.25)?),
        };
        let oracle =
            SimulatedOracle::new(&problem, size.records, Adjacency::ReplaceOne, trial.seed);
        let measured = error_of(&*plan, oracle, &problem)?;
        let floor = loss.floor(size.records, size.mu());
        Ok(measured.with_floor(floor))
    }

    fn on_ramp(&self, trial: &Trial, size: &Size) -> Result<Measured, CheckError> {
        let gap = match self.who {
            Who::FirstTerm => 0.5,
            _ => SECOND_TERM * size.relative_noise(),
        };
        let limit = RampBowl::largest_slope(1.0, 1.0, gap, Ramp::Straight);
        let least = match self.who {
            Who::FirstTerm => 0.01,
            _ => 0.03,
        };
        let slope = limit * f64::powf(least, share(trial));
        let problem = RampBowl::new(size.dim, 1.0, 1.0, gap, Ramp::Straight, slope)?;
        let facts = problem.facts(size.records, Adjacency::ReplaceOne);
        let plan = SpiderBoostPlan::new(&facts, &size.budget(DELTA)?, MAX_STEPS)?;
        let oracle =
            SimulatedOracle::new(&problem, size.records, Adjacency::ReplaceOne, trial.seed);
        error_of(&plan, oracle, &problem)
    }
}

impl Experiment for FloorExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.who) {
            (Axis::Dimension, Who::SecondTerm) => half_decades(100.0, 4),
            (Axis::Dimension, _) => half_decades(10.0, 4),
            (Axis::Mu, _) => five_mus(),
            (_, Who::SecondTerm) => half_decades(1e4, effort.pick(5, 6)),
            (_, Who::FirstTerm) => half_decades(1e4, 4),
            (_, Who::Signs | Who::MoreRecords) => half_decades(1e3, effort.pick(7, 9)),
            (_, Who::NoisyGd | Who::SpiderBoost) => half_decades(1e3, effort.pick(4, 5)),
            _ => half_decades(300.0, 5),
        };
        let (members, seeds) = match self.who {
            Who::OneRelease | Who::HalfTheNoise => (1, 32),
            Who::NoisyGd | Who::SpiderBoost => (1, 8),
            Who::SecondTerm => (3, 8),
            Who::FirstTerm => (4, 1),
            Who::Signs | Who::MoreRecords => (6, 8),
        };
        Design::new(points)
            .with_members(members)
            .with_seeds(effort.pick(seeds, 4 * seeds))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        match self.who {
            Who::Signs | Who::MoreRecords => self.on_signs(trial, &size),
            Who::SecondTerm | Who::FirstTerm => self.on_ramp(trial, &size),
            _ => self.on_balls(trial, &size),
        }
    }
}

fn facts_of(problem: &dyn Problem, size: &Size, initial_gap: f64) -> PublicFacts {
    PublicFacts {
        initial_gap,
        convexity: Convexity::Convex,
        ..size.facts(problem)
    }
}

/// A step of 1/L1 with the whole budget, clipped to this share of L0.
fn one_release(
    facts: &PublicFacts,
    budget: &Budget,
    share: f64,
) -> Result<NoisyGdPlan, CheckError> {
    let any = NoisyGdPlan::momentum(facts, budget, 1)?;
    let clip = share * facts.lipschitz * (1.0 + 1e-12);
    Ok(any.with_parameters(1, 1.0 / facts.smoothness, 0.0, clip)?)
}

/// The gradient norm at the output; where that is drawn uniformly from the points of a run, its expectation
/// given the run.
fn error_of(
    plan: &dyn Plan,
    mut oracle: impl Oracle,
    problem: &dyn Problem,
) -> Result<Measured, CheckError> {
    let points = Points::of(plan, &mut oracle, |point| gradient_norm(problem, point))?;
    match plan.predicted_bound() {
        Some(bound) => points.under(Some(bound)),
        None => Ok(Measured::new(gradient_norm(problem, &points.outcome.point))),
    }
}
