//! The step-size rule of the plans without a bound.
//!
//! Ours; not from a paper. See `docs/auto.md` for how its constants were fixed.
//!
//! Along a direction of little curvature a run of noisy gradient descent adds up its noise: over
//! a total step length (horizon) s the noise in a coordinate has standard deviation s tau, with
//! tau = sensitivity x C / (n mu) **whatever the number of steps**, because the noise per step
//! grows as the root of their number. A row of norm X then sees logit noise of up to s tau X. The
//! rule picks the horizon at which that is [`LOGIT_NOISE`], and the number of steps only for the
//! compute.

use dpopt_solver::PublicFacts;

/// Logit noise, in the least curved directions, at which a run ends: rho in `docs/auto.md`. A
/// tuned constant (on synthetic data).
pub(super) const LOGIT_NOISE: f64 = 1.5;

/// Clip radius over L0. A tuned constant (on synthetic data). For logistic loss the gradient of
/// a full-length record at the origin has norm L0/2.
pub(super) const CLIP_FRACTION: f64 = 0.5;

/// Heavy-ball time constant: with momentum 1 - c/T a run of T steps lasts c time constants. A
/// tuned constant (on synthetic data).
pub(super) const TIME_CONSTANTS: f64 = 10.0;

/// The horizon in units of the plain step 1/L1: how many plain steps the noise allows.
pub(super) fn plain_steps(facts: &PublicFacts, clip: f64, mu: f64) -> f64 {
    let tau = facts.noise_std(clip, 1.0 / mu);
    facts.smoothness * LOGIT_NOISE / (tau * facts.row_norm)
}
