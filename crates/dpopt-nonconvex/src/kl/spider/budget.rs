//! What a course of phases needs, and how the budget is shared among its releases.

use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::PlanError;

use crate::kl::tail::{closed, noise_reach};

/// One phase before its noise is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Draft {
    /// Phi: what the excess is at most at its end.
    pub(super) target: f64,
    /// Updates N, a whole number.
    pub(super) updates: f64,
    /// Length of a step.
    pub(super) step_length: f64,
    /// Norm below which an estimate ends the phase.
    pub(super) stop_below: f64,
    /// What the error of an estimate may be.
    pub(super) allowed_error: f64,
    /// A: sensitivity of an anchor.
    pub(super) anchor: f64,
    /// Sensitivity of one variation.
    pub(super) variation: f64,
}

impl Draft {
    /// A + B, with B the sum of the sensitivities of all variations.
    fn both(&self) -> f64 {
        self.anchor + self.variations()
    }

    /// B = (N - 1) times that of one.
    fn variations(&self) -> f64 {
        (self.updates - 1.0) * self.variation
    }

    /// (A + B)^2/(allowed error)^2: the squared mu that an error of one standard deviation in one coordinate would cost.
    fn need(&self) -> f64 {
        (self.both() / self.allowed_error).powi(2)
    }
}

/// One phase of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KlPhase {
    /// Phi: the excess at its end is at most this.
    pub target: f64,
    /// N: updates at most, one release before each.
    pub updates: u64,
    /// s: length of a step.
    pub step_length: f64,
    /// An estimate shorter than this ends the phase.
    pub stop_below: f64,
    /// What errors of estimates are below with probability 1 - beta, all of them together.
    pub allowed_error: f64,
    /// mu^2 of all its releases.
    pub squared_mu: f64,
    /// Noise multiplier of the anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of a variation; that of the anchor when there is none.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// Noise per coordinate of the anchor.
    pub anchor_noise_std: f64,
    /// Noise per coordinate of a variation, whose clip radius is L1 s; 0 when there is none.
    pub variation_noise_std: f64,
}

/// Which bound on the length of noise is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// The exact quantile.
    Exact,
    /// A closed bound that is a little larger, for searching.
    Closed,
}

/// The squared mu of each phase, such that all errors are as allowed with probability 1 - `failure`; in the order of the
/// drafts.
///
/// # Formula
/// The failure probability is shared in proportion to the need, which is where the sum of need times q^2 is least to first order
/// (q^2 is 2 ln(1/p) plus less): nearly all of it goes to the last phases, whose noise is the dearest. By Levy's inequality the longest of the
/// partial sums of a phase's noises is above q with at most twice the probability of the last; a phase without variations has
/// one noise only.
pub(super) fn squared_mus<'a>(
    drafts: &'a [Draft],
    dim: usize,
    failure: f64,
    tail: Tail,
) -> impl Iterator<Item = f64> + 'a {
    let total: f64 = drafts.iter().map(Draft::need).sum();
    drafts.iter().map(move |draft| {
        let chance = failure * draft.need() / total;
        let sums = if draft.updates > 1.0 { 2.0 } else { 1.0 };
        let l = (sums / chance).ln();
        let q = match tail {
            Tail::Exact => noise_reach(dim, l),
            Tail::Closed => closed(dim, l),
        };
        draft.need() * q * q
    })
}

/// The phases with their noise, from the squared mu of each and the share of it that the anchor gets (`None`: A/(A + B), which makes the
/// variance at the end of the phase least).
pub(super) fn phases(
    drafts: &[Draft],
    squared_mus: &[f64],
    anchor_share: Option<f64>,
) -> Result<Vec<KlPhase>, PlanError> {
    let phase = |(draft, squared_mu): (&Draft, &f64)| -> Result<KlPhase, PlanError> {
        let variations = draft.updates - 1.0;
        let share = match anchor_share {
            _ if variations == 0.0 => 1.0,
            Some(share) => share,
            None => draft.anchor / draft.both(),
        };
        let anchor = (squared_mu * share).sqrt().recip();
        let variation = if variations > 0.0 {
            // Not 1 - share, which may round to nothing.
            let rest = anchor_share.map_or(draft.variations() / draft.both(), |share| 1.0 - share);
            (variations / (squared_mu * rest)).sqrt()
        } else {
            anchor
        };
        Ok(KlPhase {
            target: draft.target,
            updates: draft.updates as u64,
            step_length: draft.step_length,
            stop_below: draft.stop_below,
            allowed_error: draft.allowed_error,
            squared_mu: *squared_mu,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            variation_noise_multiplier: NoiseMultiplier::new(variation)?,
            anchor_noise_std: anchor * draft.anchor,
            variation_noise_std: if variations > 0.0 {
                variation * draft.variation
            } else {
                0.0
            },
        })
    };
    drafts.iter().zip(squared_mus).map(phase).collect()
}
