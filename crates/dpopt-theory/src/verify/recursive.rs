//! Claims about recursive regularisation, with both inner solvers, and the twins that must be caught.
//!
//! The rows run the paper's schedule (weights that double), because its logarithms are those of the theorem: T stages
//! on n/T records each, and a sum over T stages, make T^2 of the private and T^(3/2) of the statistical term, T about
//! log2 of one over the error. These corrections were fixed before the first run.
//!
//! Private rows run on [`RampBowl`] in closed form, where samples have no error, at a privacy parameter so small
//! that n mu^2 is far below d. Statistical rows run on samples of [`Coins`], those of the phased solver through the
//! real passes. Its private row begins where the others end: its noise is below the sampling error from
//! n mu^2 = 48 d on, so that x = 2 sqrt(d)/(n mu) is 0.3/sqrt(n) at best, and it takes 10^7 records to see a decade
//! of x below 10^-3. They are drawn as they are read ([`coin_stream`]).

use dpopt_linalg::norm;
use dpopt_nonconvex::{
    ConvexFacts, NoObserver, Plan as _, PublicFacts, RecursiveGdPlan, RecursiveSgdPlan,
};
use dpopt_oracle::{
    Answer, AskError, Constants, Convexity, FnOracle, Mean, Offers, Oracle, OracleFacts,
    OutputPerturbed, Pass, PrivateData, Question, pass_influence,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, NoiseMultiplier};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{Privacy, Size, completed, gradient_norm, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::simulation::{SimulatedOracle, WeightedRecords};
use crate::zoo::{Coins, Ramp, RampBowl};
use dpopt_certify::random::Normals;

/// The paper's growth of the weights.
const GROWTH: f64 = 2.0;
const MAX_STEPS: u64 = 10_000_000;
/// The delta of the budgets: small, because the private rows have a privacy parameter of 1e-4.
const DELTA: f64 = 1e-10;

/// The broken part, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Honest,
    /// The first weight does not go down with n.
    FixedWeight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Private,
    Statistical,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inner {
    NoisyGd,
    PhasedSgd,
}

struct RecursiveExperiment {
    claim: Claim,
    inner: Inner,
    term: Term,
    twin: Twin,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let (gd, sgd) = (Inner::NoisyGd, Inner::PhasedSgd);
    let (noise, sample) = (Term::Private, Term::Statistical);
    let (n, d, mu) = (Axis::Records, Axis::Dimension, Axis::Mu);
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, inner, term, twin| {
        all.push(Box::new(RecursiveExperiment {
            claim,
            inner,
            term,
            twin,
        }));
    };
    for (id, axis, predicted, inner, term) in [
        ("recursive-gd/n", n, -1.0, gd, noise),
        ("recursive-gd/d", d, 0.5, gd, noise),
        ("recursive-gd/mu", mu, -1.0, gd, noise),
        ("recursive-gd/n-statistical", n, -0.5, gd, sample),
        ("recursive-sgd/n", n, -1.0, sgd, noise),
        ("recursive-sgd/n-statistical", n, -0.5, sgd, sample),
    ] {
        let claim = claim(id, axis, predicted, inner);
        add(claim, inner, term, Twin::Honest);
    }
    for (id, predicted, inner, term) in [
        ("recursive-gd/fixed-weight", -1.0, gd, noise),
        ("recursive-gd/fixed-weight-statistical", -0.5, gd, sample),
        ("recursive-sgd/fixed-weight-statistical", -0.5, sgd, sample),
    ] {
        let control = claim(id, n, predicted, inner)
            .control("The first regulariser has the same weight for every n: its bias stays.");
        add(control, inner, term, Twin::FixedWeight);
    }
    all
}

fn claim(id: &str, axis: Axis, predicted: f64, inner: Inner) -> Claim {
    let solver = match inner {
        Inner::NoisyGd => "recursive-noisy-gd",
        Inner::PhasedSgd => "recursive-phased-sgd",
    };
    Claim::new(id, axis, predicted)
        .by(solver, "arXiv 2206.00846, Theorem 5, repaired")
        .on(if predicted == -0.5 || inner == Inner::PhasedSgd {
            "coins"
        } else {
            "ramp-bowl"
        })
        .expecting(Expect::AtMost)
        .within(
            0.1,
            0.5,
            "an upper bound with logarithms, of which the correction is a model",
        )
}

impl RecursiveExperiment {
    fn size(&self, x: f64) -> Size {
        let (dim, mu) = match (self.term, self.inner) {
            (Term::Statistical, _) => (2, 4.0),
            (Term::Private, Inner::NoisyGd) => (10, 1e-4),
            (Term::Private, Inner::PhasedSgd) => (4, 0.0024),
        };
        let size = Size {
            records: 100_000_000,
            dim,
            privacy: Privacy::Mu(mu),
        };
        size.along(self.claim.axis, x)
    }

    /// 2 sqrt(d)/(n mu).
    fn private(&self, x: f64) -> f64 {
        2.0 * self.size(x).relative_noise()
    }

    fn on_ramp(&self, trial: &Trial, size: &Size) -> Result<Measured, CheckError> {
        // The minimiser is at distance F0/g + g/2, which is 1 for every slope g.
        let slope = 0.25 * self.private(trial.x).powf(share(trial));
        let gap = slope * (1.0 - 0.5 * slope);
        let problem = RampBowl::new(size.dim, 1.0, 1.0, gap, Ramp::Straight, slope)?;
        let mut public = problem.facts(size.records, Adjacency::ReplaceOne);
        public.convexity = Convexity::Convex;
        let facts = ConvexFacts {
            public,
            radius: Some(1.0),
        };
        let (plan, bound) = self.gd_plan(&facts, size)?;
        let mut oracle =
            SimulatedOracle::new(&problem, size.records, Adjacency::ReplaceOne, trial.seed);
        let outcome = plan.run(&mut oracle, &mut NoObserver)?;
        completed(outcome.stop)?;
        Ok(Measured::new(gradient_norm(&problem, &outcome.point)).with_bound(bound))
    }

    fn on_coins(&self, trial: &Trial, size: &Size) -> Result<Measured, CheckError> {
        // From a bias that is plain down to one that a sample of this size barely shows.
        let least = 0.5 / (size.records as f64).sqrt();
        let coins = Coins::new(size.dim, 0.5 * (least / 0.5).powf(share(trial)))?;
        // Known to whoever plans: the largest bias of the family.
        let radius = Coins::new(size.dim, 0.5)?.radius();
        let constants = Constants::new(1.0, 1.0, 1.0, Convexity::Convex);
        let public = PublicFacts::glm(
            size.records,
            size.dim,
            Adjacency::ReplaceOne,
            1.0,
            constants,
        )?;
        let facts = ConvexFacts {
            public,
            radius: Some(radius),
        };
        let (outcome, bound) = match self.inner {
            Inner::NoisyGd => {
                let (plan, bound) = self.gd_plan(&facts, size)?;
                let (examples, counts) = coins.counted(size.records, trial.seed)?;
                let data = WeightedRecords::new(examples, counts)?;
                let loss = Coins::loss()?;
                let (one, seed) = (Adjacency::ReplaceOne, trial.seed + 1);
                let mut oracle = SimulatedOracle::weighted(&loss, &data, one, seed);
                (plan.run(&mut oracle, &mut NoObserver)?, bound)
            }
            Inner::PhasedSgd => {
                let budget = size.budget(DELTA)?;
                let mut plan = RecursiveSgdPlan::with_growth(&facts, &budget, GROWTH)?;
                let bound = plan.predicted_bound().ok_or("the plan states no bound")?;
                if self.twin == Twin::FixedWeight {
                    let mut stages = plan.stages().to_vec();
                    stages.truncate(1);
                    stages[0].outline.weight = FIXED;
                    let (outline, z) = (plan.outline().clone(), plan.noise_multiplier());
                    plan = RecursiveSgdPlan::by_hand(&facts, &budget, outline, stages, z);
                }
                let outcome = if self.term == Term::Private {
                    plan.run(&mut coin_stream(coins, trial.seed), &mut NoObserver)?
                } else {
                    let (design, labels) = coins.sample(size.records, trial.seed)?;
                    let one = ClipNorm::new(1.0)?;
                    let data =
                        PrivateData::made_up(design, labels, one, Adjacency::ReplaceOne, None)?;
                    let curator = Curator::simulated(Adjacency::ReplaceOne, trial.seed + 1);
                    let mut passes = OutputPerturbed::new(&data, Coins::loss()?, curator)?;
                    plan.run(&mut passes, &mut NoObserver)?
                };
                (outcome, bound)
            }
        };
        completed(outcome.stop)?;
        let mut gradient = vec![0.0; size.dim];
        coins.gradient(&outcome.point, &mut gradient);
        Ok(Measured::new(norm(&gradient)).with_bound(bound))
    }

    /// The plan, or its twin; and the bound that either is held against.
    fn gd_plan(
        &self,
        facts: &ConvexFacts,
        size: &Size,
    ) -> Result<(RecursiveGdPlan, f64), CheckError> {
        let budget = size.budget(DELTA)?;
        let mut plan = RecursiveGdPlan::with_growth(facts, &budget, MAX_STEPS, GROWTH)?;
        let bound = plan.predicted_bound().ok_or("the plan states no bound")?;
        if self.twin == Twin::FixedWeight {
            let mut stages = plan.stages().to_vec();
            stages.truncate(1);
            stages[0].outline.weight = FIXED;
            plan = RecursiveGdPlan::by_hand(facts, &budget, plan.outline().clone(), stages);
        }
        Ok((plan, bound))
    }
}

/// The weight of a twin that doesn't lower it.
const FIXED: f64 = 0.1;

impl Experiment for RecursiveExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.term, self.inner) {
            (Axis::Dimension, ..) => half_decades(10.0, 5),
            (Axis::Mu, ..) => (0..9)
                .map(|k| 1e-5 * 2f64.powf(0.5 * f64::from(k)))
                .collect(),
            (_, Term::Private, Inner::NoisyGd) => half_decades(1e7, effort.pick(5, 7)),
            (_, Term::Private, Inner::PhasedSgd) => (0..5)
                .map(|k| (1e6 * 10f64.powf(0.375 * f64::from(k))).round())
                .collect(),
            (_, Term::Statistical, _) => half_decades(3e3, effort.pick(5, 6)),
        };
        let (members, seeds) = match (self.inner, self.term) {
            (Inner::PhasedSgd, Term::Private) => (2, 2),
            _ => (6, 4),
        };
        Design::new(points)
            .with_members(members)
            .with_seeds(effort.pick(seeds, 4 * seeds))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        match (self.inner, self.term) {
            (Inner::NoisyGd, Term::Private) => self.on_ramp(trial, &size),
            _ => self.on_coins(trial, &size),
        }
    }

    fn correction(&self, x: f64) -> f64 {
        match self.term {
            Term::Private => (1.0 / self.private(x)).ln().powi(2),
            Term::Statistical => (0.5 * x.ln()).powf(1.5),
        }
    }
}

/// Passes over records of [`Coins`] that are drawn when they are read, with floating-point noise: for sizes that no
/// memory holds. The same recursion and noise level as [`OutputPerturbed`].
fn coin_stream(coins: Coins, seed: u64) -> impl Oracle {
    let adjacency = Adjacency::ReplaceOne;
    let mut random = Normals::new(seed);
    FnOracle::new(
        OracleFacts::new(coins.dim(), u64::MAX, adjacency, Offers::PASSES),
        Curator::simulated(adjacency, seed),
        move |_, question| match question {
            Question::Pass { pass, noise } => {
                Ok(Answer::Mean(coin_pass(&coins, &mut random, &pass, noise)))
            }
            other => Err(AskError::NotOffered { what: other.kind() }),
        },
    )
}

fn coin_pass(coins: &Coins, random: &mut Normals, pass: &Pass<'_>, z: NoiseMultiplier) -> Mean {
    let decay = pass.step_size * pass.modulus;
    let mut point = pass.start.to_vec();
    let mut average = point.clone();
    let mut total = 0.0;
    for _ in 0..pass.records {
        let (coordinate, label) = coins.record(random);
        let slope = (point[coordinate] - label).clamp(-1.0, 1.0);
        let mut squares = 0.0;
        for ((w, c), o) in point.iter_mut().zip(pass.centre).zip(pass.origin) {
            *w -= decay * (*w - c);
            squares += (*w - o) * (*w - o);
        }
        let w = &mut point[coordinate];
        let away = *w - pass.origin[coordinate];
        *w -= pass.step_size * slope;
        let now = *w - pass.origin[coordinate];
        let length = (squares - away * away + now * now).max(0.0).sqrt();
        if length > pass.radius {
            for (w, o) in point.iter_mut().zip(pass.origin) {
                *w = o + pass.radius / length * (*w - o);
            }
        }
        total = total * (1.0 - decay) + 1.0;
        let share = 1.0 / total;
        for (average, w) in average.iter_mut().zip(&point) {
            *average += share * (w - *average);
        }
    }
    let sensitivity = 2.0 * pass.step_size * pass_influence(decay, pass.records);
    let noise_std = z.get() * sensitivity;
    let noise = random.vector(average.len());
    for (average, z) in average.iter_mut().zip(noise) {
        *average += noise_std * z;
    }
    Mean::new(average, noise_std)
}
