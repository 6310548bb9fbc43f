//! What fresh gradients cost saddle problems: `gda` as its theorem plans it, and `privatediff`, whose y follows fresh gradients.
//!
//! On [`Coupled`] ramp-bowls with d1 = d2 = d, L0 = L1 = 1, F0 = 1/2 of Phi and m = 1: the norm of grad Phi in the mean over the run, the worst
//! over ramps whose slopes are around what the plan aims at. beta = 1/2, but 2 for the exponent of `privatediff`: the noise of y rules its bound where
//! beta is large, and elsewhere from sizes on that no run has.

use dpopt_minimax::{
    GdaPlan, GdaSchedule, Plan, PrivateDiffPlan, PrivateDiffSchedule, SaddleFacts, SaddleLimits,
};
use dpopt_privacy::NoiseMultiplier;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Privacy, Size, completed, half_decades, share};
use super::minimax::run;
use crate::checks::{CheckError, Effort};
use crate::minimax::MinimaxProblem;
use crate::simulation::NoiseRule;
use crate::zoo::{Coupled, Ramp, RampBowl};

const MAX_STEPS: u64 = 1_000_000_000;
/// Ramp slopes over what the plan aims at.
const RATIOS: (f64, f64) = (0.3, 1.5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Gda,
    /// Each of T releases has the noise of one.
    GdaUncomposed,
    PrivateDiff,
    /// Where grad_x changes much with y.
    PrivateDiffCoupled,
    /// So, and y follows gradients without noise.
    PrivateDiffExact,
}

impl Who {
    /// L_xy.
    fn beta(self) -> f64 {
        match self {
            Self::PrivateDiffCoupled | Self::PrivateDiffExact => 2.0,
            _ => 0.5,
        }
    }
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
    let differences = |id, rate| Claim::new(id, n, rate).by("privatediff", proof);
    let note = "anchors and changes of x, of a higher order";
    add(
        differences("privatediff/n", half).within(0.06, 0.12, note),
        Who::PrivateDiffCoupled,
    );
    add(
        differences("privatediff/inner-noise-forgotten", half)
            .control("The fresh gradients that y follows have no noise."),
        Who::PrivateDiffExact,
    );
    let note = "the error over the bound of the theorem: a constant where the bound's slope is that of the runs";
    add(
        differences("privatediff/n-planned", 0.0).within(0.06, 0.12, note),
        Who::PrivateDiff,
    );
    all
}

/// A plan, the norm that it aims at, and what the theorem says of it.
type Planned = (Box<dyn Plan>, f64, Option<f64>);

impl Fresh {
    fn ramp(&self, size: &Size, slope: f64) -> Result<Coupled<RampBowl>, CheckError> {
        let most = RampBowl::largest_slope(1.0, 1.0, 0.5, Ramp::Straight);
        let ramp = RampBowl::new(size.dim, 1.0, 1.0, 0.5, Ramp::Straight, slope.min(most))?;
        Ok(Coupled::new(ramp, size.dim, self.who.beta(), 1.0)?)
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
                Ok((Box::new(plan), (2.0 * gap / steps).sqrt(), None))
            }
            Who::PrivateDiff | Who::PrivateDiffCoupled | Who::PrivateDiffExact => {
                let limits = SaddleLimits::steps(MAX_STEPS);
                let mut plan = PrivateDiffPlan::new(&facts, &budget, &limits)?;
                if self.who == Who::PrivateDiffExact {
                    let schedule = exact(&facts, *plan.schedule(), (gap, d, mu))?;
                    plan = PrivateDiffPlan::by_hand(&facts, &budget, schedule);
                }
                let steps = plan.schedule().steps as f64;
                let bound = match self.who {
                    Who::PrivateDiffExact => None,
                    _ => Some(proved(&facts, plan.schedule(), gap)?),
                };
                Ok((Box::new(plan), (2.0 * gap / steps).sqrt(), bound))
            }
        }
    }
}

/// The theorem of `docs/theory/privatediff.md`, on the root of the mean square. `gap` is 4 L_Phi F0.
fn proved(facts: &SaddleFacts, of: &PrivateDiffSchedule, gap: f64) -> Result<f64, CheckError> {
    let (joint, mean, s) = (facts.joint(of.scale), facts.mean, of.scale);
    let std = |radius, multiplier: NoiseMultiplier| joint.noise_std(radius, multiplier.get());
    let (d1, d2) = (facts.x_dim as f64, facts.y_dim() as f64);
    let nu = std(joint.smoothness, of.variation).powi(2);
    let noise = d2 * (std(of.clip, of.fresh) / (s * mean.strong_concavity)).powi(2);
    let changes = of.period as f64 - 1.0;
    let coupled = 1.0 + 3.0 * (mean.coupling() / s).powi(2);
    let moved = d1 * changes * nu * of.step_size.powi(2) * coupled;
    let anchors = std(of.clip, of.anchor).powi(2);
    let still = d1 * (anchors + 1.25 * changes * nu * noise / (s * s));
    if moved >= 0.5 {
        return Err("the theorem says nothing of so few records".into());
    }
    let of_y = mean.smooth_xy * noise.sqrt();
    let x = still.sqrt().max(of_y * moved / (0.5 - moved));
    let saved = if moved > 0.0 {
        (x * x - still) / (2.0 * moved)
    } else {
        0.0
    };
    let error = (x + of_y).powi(2) - saved;
    Ok((gap / of.steps as f64 + error).sqrt())
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
            (Axis::Records, Who::PrivateDiffExact) => half_decades(3e4, 4),
            (Axis::Records, Who::PrivateDiffCoupled) => half_decades(1e5, 7),
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

    fn correction(&self, x: f64) -> f64 {
        if self.claim.predicted != 0.0 {
            return 1.0;
        }
        let planned = self.plan(&self.size(x));
        planned.map_or(f64::NAN, |planned| planned.2.unwrap_or(f64::NAN))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let (plan, aim, bound) = self.plan(&size)?;
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
        let measured = Measured::new(sum / count).with_square(squares / count);
        Ok(bound.map_or(measured, |bound| measured.with_bound(bound)))
    }
}
