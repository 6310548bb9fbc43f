//! Fresh gradients on saddle problems: `gda` as its theorem plans it.
//!
//! On [`Coupled`] ramp-bowls with d1 = d2 = d, L0 = L1 = 1, F0 = 1/2 of Phi and m = 1: the norm of grad Phi in the mean over the run, the worst
//! over ramps whose slopes are around what the plan aims at. beta = 1/2.

use dpopt_minimax::{GdaPlan, GdaSchedule, Plan};
use dpopt_privacy::NoiseMultiplier;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Privacy, Size, completed, half_decades, share};
use super::minimax::run;
use crate::checks::{CheckError, Effort};
use crate::minimax::MinimaxProblem;
use crate::simulation::NoiseRule;
use crate::zoo::{Coupled, Ramp, RampBowl};

/// Ramp slopes over what the plan aims at.
const RATIOS: (f64, f64) = (0.3, 1.5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Gda,
    /// Each of T releases has the noise of one.
    GdaUncomposed,
}

/// L_xy.
const BETA: f64 = 0.5;

struct Fresh {
    claim: Claim,
    who: Who,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim: Claim, who| {
        let claim = claim.on("ramp-bowl, coupled with y");
        let claim = claim.measuring("norm of the gradient of Phi, mean over the run");
        all.push(Box::new(Fresh { claim, who }));
    };
    let (n, half) = (Axis::Records, -0.5);
    let proof = "docs/theory/minimax.md";
    let gda = |id, axis, rate| Claim::new(id, axis, rate).by("gda", proof);
    add(gda("gda/n", n, half), Who::Gda);
    add(gda("gda/d", Axis::Dimension, 0.25), Who::Gda);
    add(gda("gda/mu", Axis::Mu, half), Who::Gda);
    let control = gda("gda/composition-forgotten", n, half);
    add(
        control.control("Each of T releases has the noise of one."),
        Who::GdaUncomposed,
    );
    all
}

/// A plan, and the norm that it aims at.
type Planned = (Box<dyn Plan>, f64);

impl Fresh {
    fn ramp(&self, size: &Size, slope: f64) -> Result<Coupled<RampBowl>, CheckError> {
        let most = RampBowl::largest_slope(1.0, 1.0, 0.5, Ramp::Straight);
        let ramp = RampBowl::new(size.dim, 1.0, 1.0, 0.5, Ramp::Straight, slope.min(most))?;
        Ok(Coupled::new(ramp, size.dim, BETA, 1.0)?)
    }

    fn size(&self, x: f64) -> Size {
        let size = Size {
            records: 1_000_000,
            dim: 10,
            privacy: match self.claim.axis {
                Axis::Mu => Privacy::Mu(1.0),
                _ => Privacy::Epsilon(1.0),
            },
        };
        size.along(self.claim.axis, x)
    }

    fn plan(&self, size: &Size) -> Result<Planned, CheckError> {
        let facts = self.ramp(size, 0.01)?.facts(size.records);
        let budget = size.budget(DELTA)?;
        let mu = size.mu();
        let mean = facts.mean;
        // 4 L_Phi F0, what T steps of 1/(2 L_Phi) divide.
        let gap = 4.0 * mean.value_smoothness * mean.value_gap;
        let (d, w) = (facts.x_dim as f64, mean.coupling());
        // Where d1 = d2, the scale of y under which the noise in grad Phi is the least.
        let scale = (w * facts.record.lipschitz_x / facts.record.lipschitz_y).sqrt();
        let clip = facts.record.clip(scale);
        // Of a run of one release.
        let tau = facts.joint(scale).noise_std(clip, 1.0 / mu);
        let error = d.sqrt() * tau * 1f64.hypot(w / scale);
        let composed = self.who == Who::Gda;
        let steps = if composed {
            gap.sqrt() / error
        } else {
            gap / (error * error)
        };
        let steps = steps.ceil().max(1.0);
        let multiplier = if composed {
            steps.sqrt() / mu
        } else {
            1.0 / mu
        };
        let schedule = GdaSchedule {
            steps: steps as u64,
            step_size: 0.5 / mean.value_smoothness,
            momentum: 0.0,
            dual_step_size: 1.0 / mean.smooth_yy,
            scale,
            clip,
            noise_multiplier: NoiseMultiplier::new(multiplier)?,
        };
        let plan = GdaPlan::by_hand(&facts, &budget, schedule);
        Ok((Box::new(plan), (2.0 * gap / steps).sqrt()))
    }
}

impl Experiment for Fresh {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.who) {
            (Axis::Records, Who::GdaUncomposed) => half_decades(300.0, 4),
            (Axis::Records, _) => half_decades(1e4, 7),
            (Axis::Dimension, _) => half_decades(3.0, 5),
            _ => (0..5)
                .map(|k| 0.02 * 10f64.powf(0.5 * f64::from(k)))
                .collect(),
        };
        Design::new(points)
            .with_members(effort.pick(5, 11))
            .with_seeds(effort.pick(1, 3))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let (plan, aim) = self.plan(&size)?;
        let (low, high) = RATIOS;
        let problem = self.ramp(&size, aim * low * (high / low).powf(share(trial)))?;
        let x_dim = problem.x_dim();
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        let setting = (size.records, NoiseRule::Displacement, trial.seed);
        let outcome = run(&*plan, &problem, setting, &mut |release| {
            let slope = problem.value_slope(&release.point[..x_dim]);
            (sum, squares, count) = (sum + slope, squares + slope * slope, count + 1.0);
        })?;
        completed(outcome.stop)?;
        Ok(Measured::new(sum / count).with_square(squares / count))
    }
}
