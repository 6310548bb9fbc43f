//! What fresh gradients cost saddle problems: `gda` as its theorem plans it, and `privatediff`, whose y follows fresh gradients.
//!
//! On [`Coupled`] ramp-bowls with d1 = d2 = d, L0 = L1 = 1, F0 = 1/2 of Phi, beta = 1/2 and m = 1: the norm of grad Phi in the mean over the run, the worst
//! over ramps whose slopes are around what the plan aims at.

use dpopt_minimax::{
    GdaPlan, GdaSchedule, Plan, PrivateDiffPlan, PrivateDiffSchedule, SaddleFacts, SaddleLimits,
};
use dpopt_privacy::NoiseMultiplier;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Privacy, Size, completed, half_decades, share};
use super::minimax::{ramp, run};
use crate::checks::{CheckError, Effort};
use crate::minimax::MinimaxProblem;
use crate::simulation::NoiseRule;

const MAX_STEPS: u64 = 1_000_000_000;
/// Ramp slopes over what the plan aims at.
const RATIOS: (f64, f64) = (0.3, 1.5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Gda,
    /// Each of T releases has the noise of one.
    GdaUncomposed,
    PrivateDiff,
    /// y follows gradients without noise.
    PrivateDiffExact,
}

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
    let proof = "docs/theory/privatediff.md";
    let gda = |id, axis, rate| Claim::new(id, axis, rate).by("gda", proof);
    add(gda("gda/n", n, half), Who::Gda);
    add(gda("gda/d", Axis::Dimension, 0.25), Who::Gda);
    add(gda("gda/mu", Axis::Mu, half), Who::Gda);
    let control = gda("gda/composition-forgotten", n, half);
    add(
        control.control("Each of T releases has the noise of one."),
        Who::GdaUncomposed,
    );
    let note = "anchors and changes of x, of a higher order, are still seen";
    let differences = |id| Claim::new(id, n, half).by("privatediff", proof);
    add(
        differences("privatediff/n").within(0.06, 0.12, note),
        Who::PrivateDiff,
    );
    add(
        differences("privatediff/inner-noise-forgotten")
            .control("The fresh gradients that y follows have no noise."),
        Who::PrivateDiffExact,
    );
    all
}

/// A plan, and the norm that it aims at.
type Planned = (Box<dyn Plan>, f64);

impl Fresh {
    fn plan(&self, size: &Size) -> Result<Planned, CheckError> {
        let facts = ramp(size, 0.01)?.facts(size.records);
        let budget = size.budget(DELTA)?;
        let mu = size.mu();
        let mean = facts.mean;
        // 4 L_Phi F0, what T steps of 1/(2 L_Phi) divide.
        let gap = 4.0 * mean.value_smoothness * mean.value_gap;
        let (d, w) = (size.dim as f64, mean.coupling());
        match self.who {
            Who::Gda | Who::GdaUncomposed => {
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
            Who::PrivateDiff | Who::PrivateDiffExact => {
                let limits = SaddleLimits::steps(MAX_STEPS);
                let mut plan = PrivateDiffPlan::new(&facts, &budget, &limits)?;
                if self.who == Who::PrivateDiffExact {
                    let schedule = exact(&facts, *plan.schedule(), (gap, d, mu))?;
                    plan = PrivateDiffPlan::by_hand(&facts, &budget, schedule);
                }
                let steps = plan.schedule().steps as f64;
                Ok((Box::new(plan), (2.0 * gap / steps).sqrt()))
            }
        }
    }
}

/// As long a run as the differences of x alone allow: e^2 is of order d tau^2 sqrt(T).
fn exact(
    facts: &SaddleFacts,
    of: PrivateDiffSchedule,
    (gap, d, mu): (f64, f64, f64),
) -> Result<PrivateDiffSchedule, CheckError> {
    let tau = facts.joint(of.scale).noise_std(of.clip, 1.0 / mu);
    let steps = (gap / (6.0 * d * tau * tau)).powf(2.0 / 3.0).ceil();
    let period = steps.sqrt().ceil();
    let anchors = (steps / period).ceil();
    let multiplier = |count: f64| NoiseMultiplier::new((3.0 * count.max(1.0)).sqrt() / mu);
    Ok(PrivateDiffSchedule {
        steps: steps as u64,
        period: period as u64,
        anchor: multiplier(anchors)?,
        variation: multiplier(steps - anchors)?,
        fresh: NoiseMultiplier::new(1e-9)?,
        ..of
    })
}

impl Experiment for Fresh {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = match (self.claim.axis, self.who) {
            (Axis::Records, Who::GdaUncomposed) => half_decades(300.0, 4),
            (Axis::Records, Who::PrivateDiffExact) => half_decades(1e4, 5),
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
        let size = Size {
            records: 1_000_000,
            dim: 10,
            privacy: match self.claim.axis {
                Axis::Mu => Privacy::Mu(1.0),
                _ => Privacy::Epsilon(1.0),
            },
        };
        let size = size.along(self.claim.axis, trial.x);
        let (plan, aim) = self.plan(&size)?;
        let (low, high) = RATIOS;
        let problem = ramp(&size, aim * low * (high / low).powf(share(trial)))?;
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        let setting = (size.records, NoiseRule::Displacement, trial.seed);
        let outcome = run(&*plan, &problem, setting, &mut |release| {
            let slope = problem.value_slope(&release.point[..size.dim]);
            (sum, squares, count) = (sum + slope, squares + slope * slope, count + 1.0);
        })?;
        completed(outcome.stop)?;
        Ok(Measured::new(sum / count).with_square(squares / count))
    }
}
