//! What is claimed of second-order stationary points on all records, and the twins that must be caught.
//!
//! `sosp/*`: the alpha of the certificate that a run ends with (the true gradient norm, if that should be longer), on the
//! [`SmoothRamp`] with L0 = L1 = rho = C_F = 1 and F0 = 1/2, the worst over slopes at fixed ratios to the planned bound: around the length at
//! which a point becomes a candidate. A run without a certificate counts as alpha = 1.
//!
//! `sosp-curvature/lambda`: the squared mu of the Hessians that a run to its first certificate releases, at a point where the Hessian is
//! zero, so that the noise has the whole of the spectrum to go below zero; alpha = lambda^2/rho, in so many records that it can be had.

use dpopt_nonconvex::{
    HessianFacts, NoObserver, Plan as _, PublicFacts, SecondOrderTargets, SospPlan, SospSettings,
    Stop,
};
use dpopt_oracle::{Answer, AskError, Convexity, Oracle, Question};
use dpopt_privacy::{Adjacency, NoiseMultiplier};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, five_mus, gradient_norm, half_decades, share};
use crate::around::Around;
use crate::checks::{CheckError, Effort};
use crate::simulation::{ClosedForm, SimulatedOracle};
use crate::zoo::{CubicSaddles, RampLimits, SmoothRamp};

/// L0 = L1 = rho = C_F = 1, F0 = 1/2.
const LIMITS: RampLimits = RampLimits {
    lipschitz: 1.0,
    smoothness: 1.0,
    hessian_lipschitz: 1.0,
    hessian_frobenius: 1.0,
    initial_gap: 0.5,
};
const HESSIANS: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};
const MAX_STEPS: u64 = 100_000_000;
/// Slopes over the planned bound: from runs that are certified at the start to ramps that are left in no time.
const RATIOS: (f64, f64) = (0.1, 3.0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Honest,
    /// Gradients with twice the noise of the plan.
    TwiceTheNoise,
    /// The norm of a certificate counts, too.
    WithNorm,
}

struct RampExperiment {
    claim: Claim,
    twin: Twin,
    plans: Plans<SospPlan>,
}

struct CurvatureExperiment {
    claim: Claim,
    twin: Twin,
    plans: Plans<SospPlan>,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut ramp = |claim, twin| {
        all.push(Box::new(RampExperiment {
            claim,
            twin,
            plans: Plans::new(),
        }));
    };
    for (axis, rate) in [
        (Axis::Records, -0.5),
        (Axis::Dimension, 0.25),
        (Axis::Mu, -0.5),
    ] {
        let id = format!("sosp/{}", axis.symbol());
        let claim = certified(&id, axis, rate).tight(0.3);
        ramp(claim, Twin::Honest);
    }
    let control = certified("sosp/as-spider", Axis::Records, -2.0 / 3.0)
        .control("Fresh gradients under the claim of Spider: can a fit tell the two?");
    ramp(control, Twin::Honest);
    let control = certified("sosp/twice-the-noise", Axis::Records, -0.5)
        .control("Gradients have twice the noise of the plan.");
    ramp(control, Twin::TwiceTheNoise);
    let mut curvature = |claim, twin| {
        all.push(Box::new(CurvatureExperiment {
            claim,
            twin,
            plans: Plans::new(),
        }));
    };
    let claim = |id| {
        Claim::new(id, Axis::Curvature, -2.0)
            .by(
                "sosp",
                "docs/theory/sosp.md, the certificate of a whole Hessian",
            )
            .on("a flat point")
            .measuring("squared mu of the Hessians of a certificate")
            .within(
                0.1,
                0.1,
                "logarithms of the number of escapes that is planned for",
            )
    };
    curvature(claim("sosp-curvature/lambda"), Twin::Honest);
    let control = claim("sosp-curvature/with-the-norm")
        .control("The norm counts, too, whose alpha is lambda^2/rho.");
    curvature(control, Twin::WithNorm);
    all
}

fn certified(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("sosp", "docs/theory/sosp.md, fresh gradients")
        .on("smooth ramp")
        .measuring("certified gradient norm")
        .expecting(Expect::Equal)
        .within(0.07, 0.1, "few levels, a factor of 1.25 apart")
}

fn facts(size: &Size) -> PublicFacts {
    PublicFacts {
        records: size.records,
        dim: size.dim,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: LIMITS.lipschitz,
        smoothness: LIMITS.smoothness,
        initial_gap: LIMITS.initial_gap,
        row_norm: 1.0,
        convexity: Convexity::Nonconvex,
    }
}

fn planned(size: &Size, targets: Option<SecondOrderTargets>) -> Result<SospPlan, CheckError> {
    let mut settings = SospSettings::new(MAX_STEPS);
    settings.targets = targets;
    let budget = size.budget(DELTA)?;
    Ok(SospPlan::new(&facts(size), &HESSIANS, &budget, settings)?)
}

impl RampExperiment {
    fn size(&self, x: f64) -> Size {
        let size = Size {
            records: 1_000_000,
            dim: 10,
            privacy: Privacy::Epsilon(1.0),
        };
        size.along(self.claim.axis, x)
    }
}

impl Experiment for RampExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match self.claim.axis {
            Axis::Records => half_decades(10_000.0, if self.claim.control { 5 } else { 7 }),
            Axis::Dimension => half_decades(10.0, 4),
            _ => five_mus(),
        };
        Design::new(points)
            .with_members(effort.pick(8, 16))
            .with_seeds(effort.pick(2, 6))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let plan = self.plans.at(trial.x, || planned(&size, None))?;
        let bound = plan.level().targets.gradient;
        let (low, high) = RATIOS;
        let slope = bound * low * (high / low).powf(share(trial));
        let slope = slope.min(SmoothRamp::largest_slope(LIMITS));
        let problem = SmoothRamp::new(size.dim, LIMITS, slope)?;
        let population = ClosedForm::new(&problem, size.records).with_hessians();
        let oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
        let mut oracle = Around::new(oracle, louder(self.twin));
        let outcome = plan.run(&mut oracle, &mut NoObserver)?;
        let alpha = match (outcome.stop, outcome.bound()) {
            (Stop::Certified, Some(bound)) => {
                bound.value.max(gradient_norm(&problem, &outcome.point))
            }
            _ => LIMITS.lipschitz,
        };
        Ok(Measured::new(alpha).with_bound(bound))
    }
}

/// What a twin of the oracle answers.
fn louder<O: Oracle>(twin: Twin) -> impl FnMut(&mut O, Question<'_>) -> Result<Answer, AskError> {
    move |inner, question| match question {
        Question::Mean { of, over, noise } if twin == Twin::TwiceTheNoise => {
            let noise = NoiseMultiplier::new(2.0 * noise.get()).unwrap_or(noise);
            inner.answer(Question::Mean { of, over, noise })
        }
        other => inner.answer(other),
    }
}

impl Experiment for CurvatureExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = (0..4).map(|k| 0.6 * 10f64.powf(0.5 * f64::from(k - 3)));
        Design::new(points.collect()).with_seeds(effort.pick(4, 16))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = Self::SIZE;
        let plan = self.plan(trial.x)?;
        // Flat but for a saddle that is nowhere near.
        let problem = CubicSaddles::new(size.dim, 1.0, vec![0.1])?;
        let mut start = vec![0.0; size.dim];
        start[0] = 0.2;
        let population = ClosedForm::new(&problem, size.records).with_hessians();
        let oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
        let mut spent = 0.0;
        let with_norm = self.twin == Twin::WithNorm;
        let mut oracle = Around::new(oracle, |inner: &mut _, question: Question<'_>| {
            match question {
                Question::Hessian { noise, .. } => spent += noise.get().powi(-2),
                Question::Norm { noise, .. } if with_norm => spent += noise.get().powi(-2),
                _ => {}
            }
            Oracle::answer(inner, question)
        });
        let outcome = plan.run_from(&start, &mut oracle, &mut NoObserver)?;
        drop(oracle);
        if outcome.stop != Stop::Certified {
            return Err(format!("the run ended with {:?}", outcome.stop).into());
        }
        Ok(Measured::new(spent))
    }

    /// (q_h + the reach of the operator norm)^2: the logarithms.
    fn correction(&self, x: f64) -> f64 {
        self.plan(x).map_or(f64::NAN, |plan| {
            let level = plan.level();
            (level.curvature_quantile + level.operator).powi(2)
        })
    }
}

impl CurvatureExperiment {
    const SIZE: Size = Size {
        records: 10_000_000_000_000,
        dim: 10,
        privacy: Privacy::Epsilon(1.0),
    };

    fn plan(&self, lambda: f64) -> Result<SospPlan, CheckError> {
        let targets = SecondOrderTargets {
            gradient: lambda * lambda / HESSIANS.lipschitz,
            curvature: lambda,
        };
        self.plans
            .at(lambda, || planned(&Self::SIZE, Some(targets)))
    }
}
