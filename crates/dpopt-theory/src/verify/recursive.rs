//! What is claimed of recursive regularisation, with both inner solvers, and the twins that must be caught.
//!
//! The rows run the paper's schedule (weights that double), because its logarithms are those of the theorem: T stages
//! on n/T records each, and a sum over T stages, make T^2 of the private and T^(3/2) of the statistical term, T about
//! log2 of one over the error. These corrections were fixed before the first run.
//!
//! Private rows run on [`RampBowl`] in closed form, where samples have no error, at a privacy parameter so small
//! that n mu^2 is far below d. Statistical rows run on samples of [`Coins`], those of the phased solver through the
//! real passes. Its private row begins where the others end: its noise is below the sampling error from
//! n mu^2 = 48 d on, so that x = 2 sqrt(d)/(n mu) is 0.3/sqrt(n) at best, and it takes 10^7 records to see a decade
//! of x below 10^-3. They are drawn as they are read ([`CoinStream`]).

use dpopt_linalg::norm;
use dpopt_nonconvex::{
    Budget, ConvexFacts, NoObserver, PublicFacts, RecursiveGdPlan, RecursiveSgdPlan, Stop,
};
use dpopt_oracle::{
    Constants, Convexity, Counts, Mean, OutputPerturbed, Pass, PassError, Passes, PrivateData,
    Staged, pass_influence,
};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, NoiseMultiplier, Refused, Spend,
};

use super::claim::{Axis, Claim, Design, Effort, Expect, Experiment, Measured, Trial, TrialError};
use crate::problem::Problem as _;
use crate::simulation::{ClosedForm, SimulatedMeans, WeightedLoss, WeightedRecords};
use crate::zoo::{Coins, Ramp, RampBowl};
use dpopt_certify::random::Normals;

/// The paper's growth of the weights.
const GROWTH: f64 = 2.0;
const MAX_STEPS: u64 = 10_000_000;
/// Of the budgets: small, because the private rows have a privacy parameter of 1e-4.
const DELTA: f64 = 1e-10;

/// What is broken, if anything.
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
    use Inner::{NoisyGd, PhasedSgd};
    use Term::{Private, Statistical};
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, inner, term, twin| {
        all.push(Box::new(RecursiveExperiment {
            claim,
            inner,
            term,
            twin,
        }));
    };
    for (axis, predicted) in [
        (Axis::Records, -1.0),
        (Axis::Dimension, 0.5),
        (Axis::Mu, -1.0),
    ] {
        let id = format!("recursive-gd/{}", axis.symbol());
        add(
            claim(&id, axis, predicted, NoisyGd),
            NoisyGd,
            Private,
            Twin::Honest,
        );
    }
    let n = Axis::Records;
    add(
        claim("recursive-gd/n-statistical", n, -0.5, NoisyGd),
        NoisyGd,
        Statistical,
        Twin::Honest,
    );
    add(
        claim("recursive-sgd/n", n, -1.0, PhasedSgd),
        PhasedSgd,
        Private,
        Twin::Honest,
    );
    add(
        claim("recursive-sgd/n-statistical", n, -0.5, PhasedSgd),
        PhasedSgd,
        Statistical,
        Twin::Honest,
    );
    for (id, predicted, inner, term) in [
        ("recursive-gd/fixed-weight", -1.0, NoisyGd, Private),
        (
            "recursive-gd/fixed-weight-statistical",
            -0.5,
            NoisyGd,
            Statistical,
        ),
        (
            "recursive-sgd/fixed-weight-statistical",
            -0.5,
            PhasedSgd,
            Statistical,
        ),
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

/// One size of the problem.
struct Setting {
    records: u64,
    dim: usize,
    mu: f64,
}

impl Setting {
    /// 2 sqrt(d)/(n mu).
    fn private(&self) -> f64 {
        2.0 * (self.dim as f64).sqrt() / (self.records as f64 * self.mu)
    }
}

impl RecursiveExperiment {
    fn setting(&self, x: f64) -> Setting {
        match (self.claim.axis, self.term, self.inner) {
            (Axis::Dimension, ..) => Setting {
                records: 100_000_000,
                dim: x as usize,
                mu: 1e-4,
            },
            (Axis::Mu, ..) => Setting {
                records: 100_000_000,
                dim: 10,
                mu: x,
            },
            (_, Term::Statistical, _) => Setting {
                records: x as u64,
                dim: 2,
                mu: 4.0,
            },
            (_, Term::Private, Inner::NoisyGd) => Setting {
                records: x as u64,
                dim: 10,
                mu: 1e-4,
            },
            (_, Term::Private, Inner::PhasedSgd) => Setting {
                records: x as u64,
                dim: 4,
                mu: 0.0024,
            },
        }
    }

    /// The share of the grid of problems that a trial is at, from 0 to 1.
    fn share(trial: &Trial) -> f64 {
        trial.member as f64 / (trial.members.max(2) - 1) as f64
    }

    fn on_ramp(&self, trial: &Trial, setting: &Setting) -> Result<Measured, TrialError> {
        // The minimiser is at distance F0/g + g/2, which is 1 for every slope g.
        let slope = 0.25 * (0.25 * setting.private() / 0.25).powf(Self::share(trial));
        let gap = slope * (1.0 - 0.5 * slope);
        let problem = RampBowl::new(setting.dim, 1.0, 1.0, gap, Ramp::Straight, slope)?;
        let mut public = problem.facts(setting.records, Adjacency::ReplaceOne);
        public.convexity = Convexity::Convex;
        let facts = ConvexFacts {
            public,
            radius: Some(1.0),
        };
        let plan = self.gd_plan(&facts, setting)?;
        let population = ClosedForm::new(&problem, setting.records);
        let means = SimulatedMeans::new(population, Adjacency::ReplaceOne, trial.seed);
        let mut stages = Staged::new(means, ClipNorm::new(plan.clip)?);
        let outcome = plan.run(&mut stages, &mut NoObserver)?;
        completed(outcome.stop)?;
        let mut gradient = vec![0.0; setting.dim];
        problem.gradient(&outcome.point, &mut gradient);
        Ok(Measured::new(norm(&gradient)).with_bound(plan.predicted_bound))
    }

    fn on_coins(&self, trial: &Trial, setting: &Setting) -> Result<Measured, TrialError> {
        // From a bias that is plain down to one that a sample of this size barely shows.
        let least = 0.5 / (setting.records as f64).sqrt();
        let coins = Coins::new(setting.dim, 0.5 * (least / 0.5).powf(Self::share(trial)))?;
        // Known to whoever plans: the largest bias of the family.
        let radius = Coins::new(setting.dim, 0.5)?.radius();
        let constants = Constants::new(1.0, 1.0, 1.0, Convexity::Convex);
        let public = PublicFacts::glm(
            setting.records,
            setting.dim,
            Adjacency::ReplaceOne,
            1.0,
            constants,
        )?;
        let facts = ConvexFacts {
            public,
            radius: Some(radius),
        };
        let (point, bound) = match self.inner {
            Inner::NoisyGd => {
                let plan = self.gd_plan(&facts, setting)?;
                let (examples, counts) = coins.counted(setting.records, trial.seed)?;
                let data = WeightedRecords::new(examples, counts)?;
                let loss = Coins::loss()?;
                let population = WeightedLoss::new(&loss, &data);
                let means = SimulatedMeans::new(population, Adjacency::ReplaceOne, trial.seed + 1);
                let mut stages = Staged::new(means, ClipNorm::new(plan.clip)?);
                let outcome = plan.run(&mut stages, &mut NoObserver)?;
                completed(outcome.stop)?;
                (outcome.point, plan.predicted_bound)
            }
            Inner::PhasedSgd => {
                let budget = budget_at(setting.mu)?;
                let mut plan = RecursiveSgdPlan::with_growth(&facts, &budget, GROWTH)?;
                if self.twin == Twin::FixedWeight {
                    plan.stages.truncate(1);
                    plan.stages[0].outline.weight = FIXED;
                }
                let outcome = if self.term == Term::Private {
                    let mut passes = CoinStream::new(coins, trial.seed);
                    plan.run(&mut passes, &mut NoObserver)?
                } else {
                    let (design, labels) = coins.sample(setting.records, trial.seed)?;
                    let one = ClipNorm::new(1.0)?;
                    let data =
                        PrivateData::made_up(design, labels, one, Adjacency::ReplaceOne, None)?;
                    let curator = Curator::simulated(Adjacency::ReplaceOne, trial.seed + 1);
                    let mut passes = OutputPerturbed::new(&data, Coins::loss()?, curator)?;
                    plan.run(&mut passes, &mut NoObserver)?
                };
                completed(outcome.stop)?;
                (outcome.point, plan.predicted_bound)
            }
        };
        let mut gradient = vec![0.0; setting.dim];
        coins.gradient(&point, &mut gradient);
        Ok(Measured::new(norm(&gradient)).with_bound(bound))
    }

    fn gd_plan(
        &self,
        facts: &ConvexFacts,
        setting: &Setting,
    ) -> Result<RecursiveGdPlan, TrialError> {
        let budget = budget_at(setting.mu)?;
        let mut plan = RecursiveGdPlan::with_growth(facts, &budget, MAX_STEPS, GROWTH)?;
        if self.twin == Twin::FixedWeight {
            plan.stages.truncate(1);
            plan.stages[0].outline.weight = FIXED;
        }
        Ok(plan)
    }
}

/// The weight of a twin that doesn't lower it.
const FIXED: f64 = 0.1;

pub(super) fn completed(stop: Stop) -> Result<(), TrialError> {
    match stop {
        Stop::Completed => Ok(()),
        other => Err(format!("the run ended with {other:?}").into()),
    }
}

impl Experiment for RecursiveExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let full = effort == Effort::Full;
        let points = match (self.claim.axis, self.term, self.inner) {
            (Axis::Dimension, ..) => half_decades(10.0, 5),
            (Axis::Mu, ..) => (0..9)
                .map(|k| 1e-5 * 2f64.powf(0.5 * f64::from(k)))
                .collect(),
            (_, Term::Private, Inner::NoisyGd) => half_decades(1e7, if full { 7 } else { 5 }),
            (_, Term::Private, Inner::PhasedSgd) => (0..5)
                .map(|k| (1e6 * 10f64.powf(0.375 * f64::from(k))).round())
                .collect(),
            (_, Term::Statistical, _) => half_decades(3e3, if full { 6 } else { 5 }),
        };
        let (members, seeds) = match (self.inner, self.term) {
            (Inner::PhasedSgd, Term::Private) => (2, 2),
            _ => (6, 4),
        };
        Design::new(points)
            .with_members(members)
            .with_seeds(if full { 4 * seeds } else { seeds })
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, TrialError> {
        let setting = self.setting(trial.x);
        match (self.inner, self.term) {
            (Inner::NoisyGd, Term::Private) => self.on_ramp(trial, &setting),
            _ => self.on_coins(trial, &setting),
        }
    }

    fn correction(&self, x: f64) -> f64 {
        let setting = self.setting(x);
        match self.term {
            Term::Private => (1.0 / setting.private()).ln().powi(2),
            Term::Statistical => (0.5 * x.ln()).powf(1.5),
        }
    }
}

/// `count` numbers from `from` on, each sqrt(10) times the one before, rounded to whole ones.
fn half_decades(from: f64, count: i32) -> Vec<f64> {
    (0..count)
        .map(|k| (from * 10f64.powf(0.5 * f64::from(k))).round())
        .collect()
}

/// A budget of this mu, by bisection in epsilon.
pub(super) fn budget_at(mu: f64) -> Result<Budget, TrialError> {
    let at = |epsilon: f64| -> Result<Budget, TrialError> {
        Ok(Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        })
    };
    let (mut low, mut high) = (1e-6f64, 64.0f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if at(middle)?.mu()?.get() < mu {
            low = middle;
        } else {
            high = middle;
        }
    }
    at(high)
}

/// Passes over records of [`Coins`] that are drawn when they are read, with floating-point noise: for sizes that no
/// memory holds. The same recursion and noise level as [`OutputPerturbed`].
struct CoinStream {
    coins: Coins,
    random: Normals,
    spent: Event,
    counts: Counts,
}

impl CoinStream {
    fn new(coins: Coins, seed: u64) -> Self {
        Self {
            coins,
            random: Normals::new(seed),
            spent: Event::NoOp,
            counts: Counts::default(),
        }
    }
}

impl Passes for CoinStream {
    fn dim(&self) -> usize {
        self.coins.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.spent = spend.event().clone();
        Ok(())
    }

    fn pass(
        &mut self,
        pass: &Pass<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, PassError> {
        let decay = pass.step_size * pass.modulus;
        let mut point = pass.start.to_vec();
        let mut average = point.clone();
        let mut total = 0.0;
        for _ in 0..pass.records {
            let (coordinate, label) = self.coins.record(&mut self.random);
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
        let noise_std = noise_multiplier.get() * sensitivity;
        let noise = self.random.vector(average.len());
        for (average, z) in average.iter_mut().zip(noise) {
            *average += noise_std * z;
        }
        Ok(Mean::new(average, noise_std))
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        Ok(self.spent.clone())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
