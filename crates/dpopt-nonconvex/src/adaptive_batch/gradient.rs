//! What both sets of constants plan with: the problem, the noise of periods, and curvature.

use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use dpopt_solver::{
    CurvatureBy, Episode, EpisodeTerms, HessianFacts, PublicFacts, SecondOrderTargets,
};

use super::bounds::fewest;
use crate::saddle::escape_falls;

/// Up to so many times L1 of C_F no episode needs fewer records than a Hessian.
const DENSE: f64 = 4.0;

/// What the number of records hangs on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) hessian: &'a HessianFacts,
    pub(super) mu: f64,
    /// p.
    pub(super) failure: f64,
    pub(super) by: CurvatureBy,
}

/// What sampling of so many records takes of a curvature: along a direction that is fixed, and along any.
type Sampled<'f> = &'f dyn Fn(f64) -> (f64, f64);

/// What an episode on a slice has to keep to.
pub(super) struct Kept {
    /// With what probability it may miss a saddle, and an exit may be less curved than is said.
    pub(super) missed: f64,
    pub(super) false_exit: f64,
    /// Of what it costs at most, what the cap of its slice is planned to pay for.
    pub(super) share: f64,
}

impl Problem<'_> {
    /// Deviation of the noise of one coordinate of a mean over `m` records of vectors within `radius`.
    pub(super) fn noise(&self, radius: f64, m: f64) -> f64 {
        self.facts.adjacency.sum_sensitivity() * radius / (m * self.mu)
    }

    /// What a curvature is at most: the clip sees to C_F, the loss to L1.
    pub(super) fn bend(&self) -> f64 {
        self.facts.smoothness.min(self.hessian.frobenius)
    }

    /// By how much lattices move a mean gradient.
    pub(super) fn rounding(&self) -> f64 {
        PublicFacts::rounding(self.facts.lipschitz, self.facts.dim)
    }

    /// By how much they move a Hessian's eigenvalue, with the error of the iteration that finds it.
    pub(super) fn curvature_rounding(&self, curvature: f64) -> f64 {
        let (dim, frobenius) = (self.facts.dim, self.hessian.frobenius);
        PublicFacts::rounding(frobenius, dim * (dim + 1) / 2)
            + 16.0 * (dim * dim) as f64 * f64::EPSILON * (frobenius + curvature)
    }

    /// About so many times F0 pays for a step of curvature at 3/4 of lambda, and three times as often: K. A choice; a plan that may need more
    /// candidates is none.
    pub(super) fn most_candidates(&self, targets: SecondOrderTargets) -> f64 {
        let (rho, bend) = (self.hessian.lipschitz, 0.75 * targets.curvature);
        // 0.35 h^2/(2 rho), for which a step gains something.
        let falls = escape_falls(rho, bend, 0.175 * bend * bend / rho).unwrap_or(f64::INFINITY);
        (4.0 + 3.0 * self.facts.initial_gap / falls)
            .min(1e12)
            .ceil()
    }

    /// A Hessian after which `left` lambda is left of a curvature that is not certified, and a gradient that gives the step along it a sign
    /// that costs `share` of the length beyond which a step gains nothing. `margin`: what noise and sampling take of a curvature, of so many
    /// records; the second number is the part that is not the certificate's. `sign`: the error of a sign.
    pub(super) fn curvature(
        &self,
        targets: SecondOrderTargets,
        (left, share): (f64, f64),
        margin: impl Fn(f64) -> (f64, f64),
        sign: impl Fn(f64) -> f64,
    ) -> Option<Curvature> {
        let lambda = targets.curvature;
        let room = (1.0 - left) * lambda - 2.0 * self.curvature_rounding(lambda);
        let batch = fewest(room, |m| {
            let (certificate, rest) = margin(m);
            certificate + rest
        })?;
        let (rho, bend) = (self.hessian.lipschitz, left * lambda);
        let sign_error = share * bend * bend / (2.0 * rho);
        let sign_batch = fewest(sign_error - self.rounding(), sign)?;
        Some(Curvature {
            batch,
            sign_batch,
            sign_error,
            operator: margin(batch).1,
            falls: escape_falls(rho, bend, sign_error)?,
            episode: None,
        })
    }

    pub(super) fn by_hessians(&self) -> bool {
        self.facts.dim <= MAX_PRIVATE_HESSIAN_DIM && self.by != CurvatureBy::Episodes
    }

    pub(super) fn by_episodes(&self) -> bool {
        match self.by {
            CurvatureBy::Hessians => false,
            CurvatureBy::Episodes => true,
            _ => {
                let dense = self.hessian.frobenius > DENSE * self.facts.smoothness;
                dense || self.facts.dim > MAX_PRIVATE_HESSIAN_DIM
            }
        }
    }

    /// p where nothing but episodes may tell curvature, and none does even if all failures are its own.
    pub(super) fn hidden(&self, targets: SecondOrderTargets) -> Option<f64> {
        let terms = EpisodeTerms {
            dim: self.facts.dim,
            smoothness: self.facts.smoothness,
            curvature: targets.curvature,
            missed: self.failure,
            false_exit: self.failure,
        };
        // Less than any exit that is planned for.
        let bend = 0.1 * targets.curvature;
        let none = !self.by_hessians() && Episode::cheapest(&terms, bend).is_none();
        none.then_some(terms.missed)
    }

    /// The least lambda that an episode on `m` records tells, about.
    pub(super) fn told_by_episodes(&self, kept: &Kept, sampled: Sampled<'_>, m: f64) -> f64 {
        let noise = self.noise(self.facts.smoothness, m) * kept.share.sqrt();
        let (one, all) = sampled(m);
        Episode::tells(self.facts.dim) * noise + one + 2.0 * all
    }

    /// The same as [`Problem::curvature`] by an episode on so many records.
    pub(super) fn curvature_by_episode(
        &self,
        targets: SecondOrderTargets,
        (left, share): (f64, f64),
        (told, sampled): ((f64, Episode), Sampled<'_>),
        sign: impl Fn(f64) -> f64,
    ) -> Option<Curvature> {
        let (rho, bend) = (self.hessian.lipschitz, left * targets.curvature);
        let sign_error = share * bend * bend / (2.0 * rho);
        let (batch, episode) = told;
        Some(Curvature {
            batch,
            sign_batch: fewest(sign_error - self.rounding(), sign)?,
            sign_error,
            operator: sampled(batch).1,
            falls: escape_falls(rho, bend, sign_error)?,
            episode: Some(episode),
        })
    }

    /// An episode whose exits have `left` of lambda, on as many records as make it cheap enough for the cap of their slice.
    pub(super) fn episode(
        &self,
        targets: SecondOrderTargets,
        left: f64,
        (kept, sampled): (&Kept, Sampled<'_>),
    ) -> Option<(f64, Episode)> {
        let (facts, bend) = (self.facts, left * targets.curvature);
        let planned = |m: f64| {
            let (one, all) = sampled(m);
            let terms = EpisodeTerms {
                dim: facts.dim,
                smoothness: facts.smoothness,
                curvature: targets.curvature - one,
                missed: kept.missed,
                false_exit: kept.false_exit,
            };
            let episode = Episode::cheapest(&terms, bend + all)?;
            let needed = kept.share.sqrt() * episode.records(facts.adjacency, self.mu);
            Some((episode, needed))
        };
        // What is needed falls with what there is: from so many that sampling is little, towards where the two meet.
        let mut batch = fewest(0.05 * targets.curvature, |m| sampled(m).1)?;
        let mut best = None;
        for _ in 0..12 {
            match planned(batch) {
                Some((episode, needed)) if needed <= batch => {
                    best = Some((batch.ceil(), episode));
                    if batch < 1.02 * needed {
                        break;
                    }
                    batch = (batch * needed).sqrt();
                }
                Some((_, needed)) if best.is_none() => batch = 1.01 * needed,
                None if best.is_none() => batch *= 2.0,
                _ => break,
            }
        }
        best
    }
}

/// How a Hessian is released, and what the step that it leads to is worth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curvature {
    /// b_H, b_s.
    pub(super) batch: f64,
    pub(super) sign_batch: f64,
    /// e_s.
    pub(super) sign_error: f64,
    pub(super) operator: f64,
    /// Phi: F falls by so much at least.
    pub(super) falls: f64,
    /// What tells it, in place of a Hessian.
    pub(super) episode: Option<Episode>,
}

impl Curvature {
    /// The one of fewer records.
    pub(super) fn smaller(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let all = [one, other].into_iter().flatten();
        all.min_by(|a, b| a.batch.total_cmp(&b.batch))
    }
}

/// The largest deviation of a prefix sum's noise in a period of `len` steps, over z times the sensitivity of a step:
/// S(T) = sum of the squared coefficients of (1 - x)^(-1/2), the Toeplitz factor's; from 4096 steps on no more than it by 1e-4.
pub(super) struct Period {
    sums: Vec<f64>,
}

const TABLE: usize = 4096;

impl Period {
    pub(super) fn new() -> Self {
        let (mut f, mut sum) = (1.0f64, 0.0f64);
        let sums = (1..=TABLE).map(|k| {
            sum += f * f;
            f *= (2 * k - 1) as f64 / (2 * k) as f64;
            sum
        });
        Self {
            sums: sums.collect(),
        }
    }

    pub(super) fn worst(&self, len: f64) -> f64 {
        let beyond = (len / TABLE as f64).max(1.0).ln() / std::f64::consts::PI;
        let place = (len.max(1.0) as usize).min(TABLE) - 1;
        // f_k^2 < 1/(pi k), and sum over k from 4096 of 1/k is below the logarithm and 1/4096.
        let tail = if beyond > 0.0 { 1e-4 } else { 0.0 };
        self.sums[place] + beyond + tail
    }
}
