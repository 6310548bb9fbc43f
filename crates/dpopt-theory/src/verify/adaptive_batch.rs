//! What is claimed of one pass to a second-order certificate, and the twins that must be caught.
//!
//! `adaptive-batch/*`: records that the walk's estimates read until the run is certified (beside those of the certificate), on the [`Slide`] with
//! L0 = L1 = rho = C_F = F0 = 1, the worst over slopes around the length at which a point becomes a candidate. `/alpha`: real records, the
//! slide and random waves, at a mu at which noise is of no account. `/alpha-private`, `/d`, `/mu`: all records alike, at mus at which sampling would be.

use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings, HessianFacts, NoObserver,
    Plan as _, PublicFacts, SecondOrderTargets, Stop,
};
use dpopt_oracle::{Batch, Oracle, Question};
use dpopt_privacy::{Adjacency, Participation, PrefixKind, PrefixNoise, Which};

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, share};
use crate::around::Around;
use crate::checks::{CheckError, Effort};
use crate::simulation::{ClosedForm, SimulatedOracle, WeightedLoss};
use crate::zoo::{Slide, Tilt, TiltedProblem};

const HESSIANS: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};
const MAX_STEPS: u64 = 100_000_000;
/// More than any run reads.
const EACH: u64 = 1 << 46;
/// Slopes over theta, from those that are found short now and then.
const RATIOS: (f64, f64) = (0.85, 1.6);
/// Along d: so steep that no estimate is short by luck, of which there is more in few dimensions.
const STEEP: (f64, f64) = (1.4, 1.8);
/// Noise is of no account, and sampling would be.
const LITTLE_NOISE: f64 = 8.0;
const MUCH_NOISE: f64 = 1e-3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Honest,
    /// Every variation reads what the longest step needs.
    FixedBatches,
    /// Noise of its own for each step of a period, of the same size at its end.
    IndependentNoise,
    /// Both.
    Neither,
}

struct SlideExperiment {
    claim: Claim,
    twin: Twin,
    private: bool,
    plans: Plans<AdaptiveBatchPlan>,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim: Claim, twin, private| {
        all.push(Box::new(SlideExperiment {
            claim: claim
                .by(
                    "adaptive-batch",
                    "docs/theory/second-order.md, Rates; LT25, Lemma 3.15",
                )
                .on("slide")
                .measuring("records of the walk"),
            twin,
            private,
            plans: Plans::new(),
        }));
    };
    let stairs = "kappa/L0 and the candidate's share of alpha are from lists: stairs";
    let row = |id: &str, axis, predicted, tolerance| {
        Claim::new(&format!("adaptive-batch/{id}"), axis, predicted).within(
            tolerance,
            2.0 * tolerance,
            stairs,
        )
    };
    let (alpha, d, mu) = (Axis::Accuracy, Axis::Dimension, Axis::Mu);
    add(row("alpha", alpha, -3.0, 0.12), Twin::Honest, false);
    add(row("alpha-private", alpha, -2.0, 0.12), Twin::Honest, true);
    add(row("d", d, 0.5, 0.06), Twin::Honest, true);
    add(row("mu", mu, -1.0, 0.06), Twin::Honest, true);
    let fixed = row("fixed-batches", alpha, -3.0, 0.12).control(
        "Each variation reads as many records as one of the longest step: another 1/alpha.",
    );
    add(fixed, Twin::FixedBatches, false);
    let fixed = row("fixed-batches-private", alpha, -2.0, 0.12)
        .control("The same, where noise is all that counts.");
    add(fixed, Twin::FixedBatches, true);
    let independent = row("independent-noise", alpha, -2.0, 0.12)
        .control("Noise of its own at each step of a period: another alpha^(-1/2).");
    add(independent, Twin::IndependentNoise, true);
    let neither = row("fixed-batches-independent-noise", alpha, -2.0, 0.12)
        .control("Both of these: another alpha^(-3/2).");
    add(neither, Twin::Neither, true);
    all
}

/// The worst deviation of a period's noise.
fn worst(kind: PrefixKind, len: u64) -> Result<f64, CheckError> {
    let noise = PrefixNoise::new(kind, len, Participation::Single)?;
    Ok(noise.worst_variance().sqrt())
}

impl SlideExperiment {
    fn size(&self, x: f64) -> Size {
        let mu = if self.private {
            MUCH_NOISE
        } else {
            LITTLE_NOISE
        };
        let size = Size {
            records: 40 * EACH,
            dim: if self.private { 30 } else { 10 },
            privacy: Privacy::Mu(mu),
        };
        size.along(self.claim.axis, x)
    }

    fn alpha(&self, x: f64) -> f64 {
        match self.claim.axis {
            Axis::Accuracy => x,
            _ => 0.05,
        }
    }

    fn plan(&self, x: f64) -> Result<AdaptiveBatchPlan, CheckError> {
        let (size, alpha) = (self.size(x), self.alpha(x));
        let facts = PublicFacts::unit(size.records, size.dim);
        let budget = size.budget(DELTA)?;
        let targets = SecondOrderTargets::coupled(alpha, HESSIANS.lipschitz);
        let settings = AdaptiveBatchSettings::new(MAX_STEPS).with_targets(targets);
        let plan = AdaptiveBatchPlan::new(&facts, &HESSIANS, &budget, settings)?;
        let schedule = *plan.schedule();
        let b = schedule.anchor_batch;
        let changed = match self.twin {
            Twin::Honest => return Ok(plan),
            Twin::FixedBatches => AdaptiveBatchSchedule {
                variation: Batch::Next(b),
                ..schedule
            },
            Twin::IndependentNoise | Twin::Neither => {
                let len = schedule.period;
                let more = worst(PrefixKind::Independent, len)? / worst(schedule.noise, len)?;
                let b = (b as f64 * more).ceil();
                AdaptiveBatchSchedule {
                    anchor_batch: b as u64,
                    variation: match self.twin {
                        Twin::Neither => Batch::Next(b as u64),
                        _ => Batch::PerLength(b),
                    },
                    noise: PrefixKind::Independent,
                    ..schedule
                }
            }
        };
        Ok(AdaptiveBatchPlan::by_hand(
            &facts, &HESSIANS, &budget, settings, changed,
        )?)
    }
}

/// Records that steps of periods read until a run is certified.
fn walked<O: Oracle>(plan: &AdaptiveBatchPlan, oracle: O) -> Result<f64, CheckError> {
    let mut read = 0u64;
    let mut oracle = Around::new(oracle, |inner: &mut O, question: Question<'_>| {
        if let Question::Step {
            over: Which::Next(len),
            ..
        } = &question
        {
            read += len;
        }
        inner.answer(question)
    });
    let stop = plan.run(&mut oracle, &mut NoObserver)?.stop;
    drop(oracle);
    match stop {
        Stop::Certified => Ok(read as f64),
        other => Err(format!("the run ended with {other:?}").into()),
    }
}

impl Experiment for SlideExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let between = |from: f64, to: f64, count: i32| -> Vec<f64> {
            let ratio = (to / from).powf(1.0 / f64::from(count - 1));
            (0..count).map(|k| from * ratio.powi(k)).collect()
        };
        let points = match self.claim.axis {
            Axis::Dimension => between(10.0, 316.0, 10).iter().map(|d| d.round()).collect(),
            Axis::Mu => between(3e-4, 3e-3, 7),
            _ if self.private => between(0.01, 0.3, 10),
            _ => between(0.04, 0.4, 19),
        };
        Design::new(points)
            .with_members(effort.pick(4, 8))
            .with_seeds(effort.pick(12, 24))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let plan = self.plans.at(trial.x, || self.plan(trial.x))?;
        let (low, high) = match self.claim.axis {
            Axis::Dimension => STEEP,
            _ => RATIOS,
        };
        let slope = plan.schedule().candidate * low * (high / low).powf(share(trial));
        let slide = Slide::new(size.dim, 1.0, slope)?;
        if self.private {
            let population = ClosedForm::new(&slide, size.records).with_hessians();
            let oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
            return Ok(Measured::new(walked(&plan, oracle)?));
        }
        let loss = TiltedProblem::new(slide, 0.0, 0.0, 1.0 - slope)?;
        let records = TiltedProblem::<Slide>::opposites(&Tilt::waves(size.dim, 20), EACH)?;
        let population = WeightedLoss::new(&loss, &records).with_hessians();
        let oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
        Ok(Measured::new(walked(&plan, oracle)?))
    }

    /// The deviation of a period's noise, which grows with the logarithm of its length.
    fn correction(&self, x: f64) -> f64 {
        let worst = || {
            let plan = self.plans.at(x, || self.plan(x)).ok()?;
            worst(PrefixKind::Toeplitz, plan.schedule().period).ok()
        };
        match (self.private, self.claim.axis) {
            (true, Axis::Accuracy) => worst().unwrap_or(1.0),
            _ => 1.0,
        }
    }
}
