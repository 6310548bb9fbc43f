//! What the two blocks and the curvature of y cost `rgda`: the planner of 9.2, typical errors (`RgdaPlan::practical`).
//!
//! On [`Coupled`] ramp-bowls, L0 = L1 = 1 and F0 = 1/2 of Phi. The aim, 3 a/2, stands in for a bound: nothing is proven of these constants.

use dpopt_linalg::distance;
use dpopt_minimax::{Release, RgdaPlan, SaddleFacts, SaddleLimits, Stop};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, half_decades, share};
use super::minimax::run;
use crate::checks::{CheckError, Effort};
use crate::minimax::MinimaxProblem;
use crate::simulation::NoiseRule;
use crate::zoo::{Coupled, Ramp, RampBowl};

const MAX_STEPS: u64 = 1_000_000_000;
/// Ramp slopes over the target.
const RATIOS: (f64, f64) = (0.7, 1.2);
/// Where all runs end, whatever their errors: those shrink against the target as kappa grows.
const SHORT: (f64, f64) = (0.7, 1.0);
/// Where the error is measured along the run.
const STEEP: (f64, f64) = (1.5, 3.0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Varied {
    /// d2, at d1 = 4.
    Inner,
    /// d2, at d1 = 1000: the error of the estimate.
    InnerFlat,
    /// The largest curvature of y over the least.
    Condition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    None,
    /// The plan takes L_xy for a thousandth of what it is.
    NoiseInYForgotten,
    /// The plan takes the joint error (1 + 4 kappa/3) times.
    JointError,
    /// y answers to nothing.
    YKept,
}

struct Blockwise {
    claim: Claim,
    varied: Varied,
    twin: Twin,
    plans: Plans<RgdaPlan>,
    aims: Plans<RgdaPlan>,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let proof = "docs/theory/minimax.md, practical constants";
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim: Claim, varied, twin| {
        all.push(Box::new(Blockwise {
            claim: claim.by("rgda", proof).on("ramp-bowl, coupled with y"),
            varied,
            twin,
            plans: Plans::new(),
            aims: Plans::new(),
        }));
    };
    let (d, third) = (Axis::Dimension, 1.0 / 3.0);
    let note = "the part of x is still there";
    let inner = |id| Claim::new(id, d, third).within(0.06, 0.12, note);
    add(inner("rgda/d-inner"), Varied::Inner, Twin::None);
    add(
        inner("rgda/noise-in-y-forgotten").control("The plan has no noise of y in its error."),
        Varied::Inner,
        Twin::NoiseInYForgotten,
    );
    let flat = |id| {
        Claim::new(id, d, 0.0)
            .measuring("error of v, root mean square over the run")
            .within(0.05, 0.1, "d2 is far below d1")
            .tight(TIGHT)
    };
    add(flat("rgda/d-inner-flat"), Varied::InnerFlat, Twin::None);
    add(
        flat("rgda/joint-error")
            .measuring("norm of the gradient of Phi, against the aim of the plan by blocks")
            .control("The plan takes (1 + 4 kappa/3) times the joint error."),
        Varied::InnerFlat,
        Twin::JointError,
    );
    let kappa = |id| {
        Claim::new(id, Axis::Kappa, KAPPA)
            .expecting(Expect::Equal)
            .within(
                0.08,
                0.15,
                "the planner's slope on this family, and its whole K",
            )
    };
    add(kappa("rgda/kappa"), Varied::Condition, Twin::None);
    add(
        kappa("rgda/y-kept").control("y stays where noise takes it, and does not follow x."),
        Varied::Condition,
        Twin::YKept,
    );
    all
}

/// The part of a/2 that errors have to reach in the mean square.
const TIGHT: f64 = 0.4;
/// The exponent in kappa: the planner's slope on another family, [`CosineSaddle`](crate::CosineSaddle) with its y bent.
const KAPPA: f64 = 0.42;

impl Blockwise {
    /// d1, d2, m and kappa.
    fn numbers(&self, x: f64) -> (usize, usize, f64, f64) {
        match self.varied {
            Varied::Inner => (4, x as usize, 0.25, 1.0),
            Varied::InnerFlat => (1000, x as usize, 1.0, 1.0),
            Varied::Condition => (10, 10, 1.0, x),
        }
    }

    fn problem(&self, x: f64, slope: f64) -> Result<Coupled<RampBowl>, CheckError> {
        let (d1, d2, m, kappa) = self.numbers(x);
        let most = RampBowl::largest_slope(1.0, 1.0, 0.5, Ramp::Straight);
        let ramp = RampBowl::new(d1, 1.0, 1.0, 0.5, Ramp::Straight, slope.min(most))?;
        Ok(Coupled::new(ramp, d2, 0.5, m)?.with_condition(kappa)?)
    }

    fn records(&self) -> u64 {
        match self.varied {
            Varied::InnerFlat => 300_000,
            _ => 1_000_000,
        }
    }

    fn told(&self, x: f64) -> Result<SaddleFacts, CheckError> {
        let mut facts = self.problem(x, 0.01)?.facts(self.records());
        match self.twin {
            Twin::NoiseInYForgotten => facts.mean.smooth_xy *= 1e-3,
            // a goes as the error over n: as if there were so many fewer.
            Twin::JointError => facts.records = (facts.records as f64 / (7.0 / 3.0)) as u64,
            Twin::None | Twin::YKept => {}
        }
        Ok(facts)
    }
}

impl Experiment for Blockwise {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match self.varied {
            Varied::Inner => half_decades(100.0, 5),
            Varied::InnerFlat => vec![1.0, 2.0, 5.0, 11.0, 30.0],
            Varied::Condition => (0..9)
                .map(|k| 2.0 * 10f64.powf(f64::from(k) / 8.0))
                .collect(),
        };
        let members = match self.varied {
            Varied::Condition => effort.pick(5, 9),
            _ => effort.pick(3, 9),
        };
        Design::new(points)
            .with_members(members)
            .with_seeds(effort.pick(2, 4))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let (x, (d1, ..)) = (trial.x, self.numbers(trial.x));
        let size = Size {
            records: self.records(),
            dim: d1,
            privacy: Privacy::Epsilon(1.0),
        };
        let plan = self.plans.at(x, || {
            let limits = SaddleLimits::steps(MAX_STEPS);
            let budget = size.budget(DELTA)?;
            Ok(RgdaPlan::practical(&self.told(x)?, &budget, &limits)?)
        })?;
        let of_errors = self.varied == Varied::InnerFlat && self.twin == Twin::None;
        let (low, high) = match self.varied {
            _ if of_errors => STEEP,
            Varied::Condition => SHORT,
            _ => RATIOS,
        };
        let ratio = low * (high / low).powf(share(trial));
        let problem = self.problem(x, plan.target() * ratio)?;
        let (mut squares, mut count) = (0.0, 0.0);
        let mut watch = |release: &Release<'_>| {
            if of_errors && super::minimax::settled(release) {
                let off = distance(
                    &release.vector[..d1],
                    &problem.value_gradient(&release.point[..d1]),
                );
                squares += off * off;
                count += 1.0;
            }
        };
        let setting = (size.records, NoiseRule::Displacement, trial.seed);
        let outcome = match self.twin {
            Twin::YKept => run(&plan, &Kept(&problem), setting, &mut watch)?,
            _ => run(&plan, &problem, setting, &mut watch)?,
        };
        if of_errors {
            let error = (squares / f64::max(count, 1.0)).sqrt();
            return Ok(Measured::new(error).with_bound(0.5 * plan.target()));
        }
        if !matches!(outcome.stop, Stop::SmallEstimate) && self.twin == Twin::None {
            return Err(format!("the run ended with {:?}", outcome.stop).into());
        }
        let slope = problem.value_slope(&outcome.point[..d1]);
        // What the plan by blocks aims at, whatever was walked.
        let aim = match self.twin {
            Twin::JointError => self.aims.at(x, || {
                let limits = SaddleLimits::steps(MAX_STEPS);
                let facts = self.problem(x, 0.01)?.facts(self.records());
                Ok(RgdaPlan::practical(&facts, &size.budget(DELTA)?, &limits)?)
            })?,
            _ => plan,
        };
        Ok(Measured::new(slope).with_bound(1.5 * aim.target()))
    }
}

/// A problem whose grad_y is asked for and comes back as zero.
struct Kept<'a>(&'a Coupled<RampBowl>);

impl MinimaxProblem for Kept<'_> {
    fn x_dim(&self) -> usize {
        self.0.x_dim()
    }

    fn domain(&self) -> dpopt_linalg::Domain {
        self.0.domain()
    }

    fn record(&self) -> dpopt_oracle::SaddleConstants {
        self.0.record()
    }

    fn mean(&self) -> dpopt_minimax::MeanFacts {
        self.0.mean()
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        self.0.value(x, y)
    }

    fn gradient(&self, x: &[f64], y: &[f64], (of_x, of_y): (&mut [f64], &mut [f64])) {
        self.0.gradient(x, y, (of_x, &mut *of_y));
        of_y.fill(0.0);
    }

    fn best_response(&self, x: &[f64]) -> Vec<f64> {
        self.0.best_response(x)
    }
}
