//! What is claimed of second-order stationary points on all records, and the twins that must be caught.
//!
//! `sosp/*`, of recursive estimates, and `sosp-fresh/*`: the alpha of the certificate that a run ends with (the true gradient norm, if that should be longer), on the
//! [`SmoothRamp`] with L0 = L1 = rho = C_F = 1 and F0 = 1/2, the worst over slopes at fixed ratios to the planned bound: around the length at
//! which a point becomes a candidate. A run without a certificate counts as alpha = 1.

use dpopt_nonconvex::{
    Estimates, HessianFacts, NoObserver, Plan as _, PublicFacts, SospPlan, SospSettings, Stop,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::Adjacency;

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, gradient_norm, half_decades, share};
use crate::checks::{CheckError, Effort};
use crate::simulation::{ClosedForm, SimulatedOracle};
use crate::zoo::{RampLimits, SmoothRamp};

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
/// Of recursive estimates, which pay for a way and not for the steps that are made on it.
const MAX_RECURSIVE: u64 = 1_500_000;
/// Slopes over the planned bound: from runs that are certified at the start to ramps that are left in no time.
const RATIOS: (f64, f64) = (0.1, 3.0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Honest,
    /// The mus of all releases may add up to mu, and not the root of their squares.
    AddedMus,
}

struct RampExperiment {
    claim: Claim,
    twin: Twin,
    estimates: Estimates,
    plans: Plans<SospPlan>,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut ramp = |claim, twin, estimates| {
        all.push(Box::new(RampExperiment {
            claim,
            twin,
            estimates,
            plans: Plans::new(),
        }));
    };
    for (axis, rate) in [
        (Axis::Records, -2.0 / 3.0),
        (Axis::Dimension, 1.0 / 3.0),
        (Axis::Mu, -2.0 / 3.0),
    ] {
        let id = format!("sosp/{}", axis.symbol());
        let claim = certified(&id, axis, rate, RECURSIVE).tight(0.2);
        let claim = match axis {
            Axis::Dimension => claim.within(
                0.07,
                0.15,
                "errors are sqrt d and sqrt(2 ln) long, and levels are stairs",
            ),
            _ => claim,
        };
        ramp(claim, Twin::Honest, Estimates::Recursive);
    }
    let fresh = certified("sosp-fresh/n", Axis::Records, -0.5, FRESH).tight(0.3);
    let fresh = fresh.within(0.05, 0.15, STAIRS);
    ramp(fresh, Twin::Honest, Estimates::Fresh);
    let control = certified("sosp/as-spider", Axis::Records, -2.0 / 3.0, FRESH).control(
        "Changes with the noise of 2 L0: each costs more than an anchor, so none is asked for.",
    );
    ramp(control, Twin::Honest, Estimates::Fresh);
    let control = certified("sosp/added-mus", Axis::Records, -0.5, FRESH)
        .control("The sum of 1/z stays below mu, and not that of 1/z^2 below its square.");
    ramp(control, Twin::AddedMus, Estimates::Fresh);
    all
}

const RECURSIVE: &str = "docs/theory/second-order.md, Theorem 4";
const FRESH: &str = "docs/theory/second-order.md, Theorem 2";
const STAIRS: &str = "levels are a factor of 1.25 apart: stairs";

fn certified(id: &str, axis: Axis, predicted: f64, theorem: &str) -> Claim {
    Claim::new(id, axis, predicted)
        .by("sosp", theorem)
        .on("smooth ramp")
        .measuring("certified gradient norm")
        .expecting(Expect::AtMost)
        .within(0.07, 0.15, STAIRS)
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
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    }
}

fn planned(size: &Size, estimates: Estimates) -> Result<SospPlan, CheckError> {
    let most = match estimates {
        Estimates::Recursive => MAX_RECURSIVE,
        _ => MAX_STEPS,
    };
    let settings = SospSettings::new(most).with_estimates(estimates);
    let budget = size.budget(DELTA)?;
    Ok(SospPlan::new(&facts(size), &HESSIANS, &budget, settings)?)
}

/// A plan for so little that as many releases as it may make add up to mu.
fn added(size: &Size) -> Result<SospPlan, CheckError> {
    let mut plan = planned(size, Estimates::Fresh)?;
    for _ in 0..12 {
        let privacy = Privacy::Mu(size.mu() / (2.0 * plan.level().most_steps as f64).sqrt());
        plan = planned(&Size { privacy, ..*size }, Estimates::Fresh)?;
    }
    Ok(plan)
}

impl RampExperiment {
    fn size(&self, x: f64) -> Size {
        let size = Size {
            records: match self.estimates {
                Estimates::Recursive => 100_000,
                _ => 1_000_000,
            },
            dim: 10,
            privacy: match self.claim.axis {
                Axis::Mu => Privacy::Mu(1.0),
                _ => Privacy::Epsilon(1.0),
            },
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
            Axis::Records if self.twin == Twin::AddedMus => half_decades(1e6, 5),
            Axis::Records => half_decades(1e4, 7),
            Axis::Dimension => (0..7)
                .map(|k| (10.0 * 10f64.powf(0.25 * f64::from(k))).round())
                .collect(),
            _ => (0..7)
                .map(|k| 0.2 * 10f64.powf(f64::from(k) / 6.0))
                .collect(),
        };
        // What is certified goes down in stairs, and the worst of few slopes and seeds with them.
        let (members, seeds) = match (self.estimates, self.claim.axis) {
            (Estimates::Recursive, Axis::Mu) => (effort.pick(16, 32), effort.pick(6, 12)),
            (Estimates::Recursive, Axis::Dimension) => (effort.pick(12, 16), effort.pick(6, 16)),
            _ => (effort.pick(8, 16), effort.pick(2, 6)),
        };
        Design::new(points).with_members(members).with_seeds(seeds)
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let plan = self.plans.at(trial.x, || match self.twin {
            Twin::AddedMus => added(&size),
            _ => planned(&size, self.estimates),
        })?;
        let bound = plan.level().targets.gradient;
        let (low, high) = RATIOS;
        let slope = bound * low * (high / low).powf(share(trial));
        let slope = slope.min(SmoothRamp::largest_slope(LIMITS));
        let problem = SmoothRamp::new(size.dim, LIMITS, slope)?;
        let population = ClosedForm::new(&problem, size.records).with_hessians();
        let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, trial.seed);
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
