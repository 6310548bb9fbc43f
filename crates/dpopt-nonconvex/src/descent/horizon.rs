//! The step-size rule of the plans without a bound.
//!
//! Ours; not from a paper. See `docs/solvers.md` for how its constants were fixed.
//!
//! Along a direction of little curvature a run of noisy gradient descent adds up its noise: over
//! a total step length (horizon) s the noise in a coordinate has standard deviation s tau, with
//! tau = sensitivity x C / (n mu) **whatever the number of steps**, because the noise per step
//! grows as the root of their number. A row of norm X then sees logit noise of up to s tau X. The
//! rule picks the horizon at which that is rho in the unit of the score, which the loss gives
//! ([`ScoreUnit`]), and the number of steps only for the compute. A loss with kinks has no 1/L1: there the gap F0 and L0 give the
//! units.

use dpopt_oracle::ScoreUnit;
use dpopt_solver::{Auto, PlanError, PublicFacts};

/// Of a solver that nobody knows to be better than another, or where.
pub(super) const NO_RULE: Auto = Auto::Never(
    "it states no bound, and no public rule tells where it is better than the one that is taken",
);

/// Logit noise, in the least curved directions, at which a run ends: rho in `docs/solvers.md`. A
/// tuned constant (on synthetic data).
const LOGIT_NOISE: f64 = 1.5;

/// Clip radius over L0. A tuned constant (on synthetic data). For logistic loss the gradient of
/// a full-length record at the origin has norm L0/2.
const CLIP_FRACTION: f64 = 0.5;

/// The noise of the prediction of a label that is a number, in half ranges of it. A tuned constant.
const LABEL_NOISE: f64 = 0.1;

/// The residual, in half ranges, at which the gradient of a full-length record of such a label is clipped: at least the first number, and
/// the second times the root of n mu/(s d). Small clips save noise, and pull skewed labels towards their median where there is
/// little noise to save. Tuned constants.
const LABEL_CLIP: [f64; 2] = [0.15, 0.04];

/// The same two of counts: the noise of the logarithm of a mean count, and the clip radius over L0. Tuned constants.
const LOG_COUNT_NOISE: f64 = 0.4;
const COUNT_CLIP: f64 = 0.2;

/// Heavy-ball time constant: with momentum 1 - c/T a run of T steps lasts c time constants. A
/// tuned constant (on synthetic data).
pub(super) const TIME_CONSTANTS: f64 = 10.0;

/// Of a loss with kinks: how much of the initial gap the noise of the whole run may be worth to a record, whose loss changes by at most
/// L0 times a distance. The first guess: not tuned.
const KINK_NOISE: f64 = 0.025;

/// Of a loss with kinks: the plain step in units of F0/L0^2, which would be 1/L1 if the gap were a parabola's. The first
/// guess: not tuned.
const KINK_STEP: f64 = 0.1;

/// What the plans without a bound are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Horizon {
    /// Clip radius C.
    pub(super) clip: f64,
    /// Clip radius of the first step where it goes down: L0, or 2 C where C is less than L0/2.
    pub(super) first_clip: f64,
    /// Plain step size.
    pub(super) step_size: f64,
    /// How many plain steps the noise allows.
    pub(super) plain_steps: f64,
    /// How far noise may take a coordinate in a run.
    pub(super) reach: f64,
}

impl Horizon {
    /// For a smooth loss eta = 1/L1, and the noise may take the score by rho, a coordinate by rho/X. C and rho are L0/2 and 1.5 of a logit;
    /// for a label in [-h, h] r h L1/X (at most L0/2) and 0.1 h, r = max(0.15, 0.04 sqrt(n mu/(s d))); of counts 0.2 L0 and 0.4. For a loss with kinks
    /// C = L0 (most gradients are of about that length, and a quantile is not that of clipped slopes), eta = 0.1 F0/L0^2, and the noise
    /// may take a coordinate by 0.025 F0/L0.
    pub(super) fn new(facts: &PublicFacts, mu: f64) -> Result<Self, PlanError> {
        facts.check_lipschitz()?;
        let (l, gap) = (facts.lipschitz, facts.initial_gap);
        let (clip, first_clip, step_size, reach) = if facts.smoothness.is_finite() {
            facts.check()?;
            let half = CLIP_FRACTION * l;
            let (clip, noise) = match facts.score {
                ScoreUnit::Logit => (half, LOGIT_NOISE),
                ScoreUnit::HalfRange(h) => {
                    PlanError::positive("label_bound", h)?;
                    let [least, growth] = LABEL_CLIP;
                    // One over the noise of a coordinate of a mean of unit vectors, for each dimension.
                    let known = 1.0 / (facts.noise_std(1.0, 1.0 / mu) * facts.dim as f64);
                    let residual = (growth * known.sqrt()).max(least);
                    let clip = residual * h * facts.smoothness / facts.row_norm;
                    (clip.min(half), LABEL_NOISE * h)
                }
                ScoreUnit::LogCount => (COUNT_CLIP * l, LOG_COUNT_NOISE),
            };
            let step_size = 1.0 / facts.smoothness;
            (
                clip,
                clip / CLIP_FRACTION,
                step_size,
                noise / facts.row_norm,
            )
        } else {
            (l, l, KINK_STEP * gap / (l * l), KINK_NOISE * gap / l)
        };
        let tau = facts.noise_std(clip, 1.0 / mu);
        Ok(Self {
            clip,
            first_clip,
            step_size,
            plain_steps: reach / (tau * step_size),
            reach,
        })
    }
}
