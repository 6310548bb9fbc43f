//! How curvature is told at a level: by a whole Hessian, or by an episode of products with it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use dpopt_solver::{CurvatureBy, Episode, EpisodeTerms, PublicFacts, SecondOrderTargets};

use super::problem::Problem;
use crate::saddle::escape_falls;

/// h/lambda to try: what is left of lambda when the noise of the Hessian is taken from it.
pub(super) const LEFT: [f64; 9] = [0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
/// The same of an episode's exits.
const LEFT_BY_EPISODES: [f64; 7] = [0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7];
/// Up to so many times L1 of C_F no episode costs less than a Hessian: sqrt 2 C_F/(L1 (1 - theta)) against 20 and more.
const DENSE: f64 = 4.0;

/// A release of curvature: what it costs in squared mu, and how far F falls at least in the step that it leads to.
pub(super) struct Escape {
    pub(super) cost: f64,
    pub(super) falls: f64,
    /// z of a Hessian, or of a product at its full radius.
    pub(super) multiplier: f64,
    pub(super) episode: Option<Episode>,
}

/// The episodes for one target, each planned once.
pub(super) struct Episodes<'a> {
    of: &'a Problem<'a>,
    targets: SecondOrderTargets,
    known: RefCell<BTreeMap<(u32, usize), Option<Episode>>>,
}

/// What releases of curvature of one level have in common.
pub(super) struct Told {
    /// K, which failures are shared among.
    pub(super) hessians: f64,
    pub(super) sign_error: f64,
    /// Standard deviations of a Hessian's diagonal that are lost of lambda, in all.
    pub(super) deviations: f64,
    /// What one event of the walk may fail by.
    pub(super) event: f64,
}

/// p where nothing but episodes may tell curvature, and none does even if a certificate is all that it is for.
pub(super) fn hidden(of: &Problem<'_>, targets: SecondOrderTargets) -> Option<f64> {
    let episodes = Episodes::new(of, targets);
    let terms = EpisodeTerms {
        dim: of.facts.dim,
        smoothness: of.facts.smoothness,
        curvature: targets.curvature,
        missed: 0.5 * of.false_certificate,
        false_exit: of.failure,
    };
    let bend = LEFT_BY_EPISODES[0] * targets.curvature;
    let none = !episodes.by_hessians() && Episode::cheapest(&terms, bend).is_none();
    none.then_some(terms.missed)
}

impl<'a> Episodes<'a> {
    pub(super) fn new(of: &'a Problem<'a>, targets: SecondOrderTargets) -> Self {
        Self {
            of,
            targets,
            known: RefCell::default(),
        }
    }

    fn by_hessians(&self) -> bool {
        self.of.facts.dim <= MAX_PRIVATE_HESSIAN_DIM && self.of.by != CurvatureBy::Episodes
    }

    fn by_episodes(&self) -> bool {
        match self.of.by {
            CurvatureBy::Hessians => false,
            CurvatureBy::Episodes => true,
            _ => {
                let dense = self.of.hessian.frobenius > DENSE * self.of.facts.smoothness;
                dense || self.of.facts.dim > MAX_PRIVATE_HESSIAN_DIM
            }
        }
    }

    /// All that may be chosen among.
    pub(super) fn escapes(&self, told: &Told) -> Vec<Escape> {
        let mut all = Vec::new();
        if self.by_hessians() {
            all.extend(LEFT.iter().filter_map(|left| self.whole(*left, told)));
        }
        if self.by_episodes() {
            all.extend((0..LEFT_BY_EPISODES.len()).filter_map(|k| self.shifted(k, told)));
        }
        all
    }

    fn falls(&self, bend: f64, told: &Told) -> Option<f64> {
        let rho = self.of.hessian.lipschitz;
        if !(bend * bend > 2.0 * rho * told.sign_error) {
            return None;
        }
        escape_falls(rho, bend, told.sign_error)
    }

    /// A Hessian release after which h is at least `left` lambda.
    fn whole(&self, left: f64, told: &Told) -> Option<Escape> {
        let lambda = self.targets.curvature;
        let (dim, frobenius) = (self.of.facts.dim, self.of.hessian.frobenius);
        let rounding = PublicFacts::rounding(frobenius, dim * (dim + 1) / 2)
            // Of the eigenvalue iteration.
            + 16.0 * (dim * dim) as f64 * f64::EPSILON * (frobenius + lambda);
        let std = ((1.0 - left) * lambda - 2.0 * rounding) / told.deviations;
        let multiplier = std / self.of.facts.noise_std(frobenius, 1.0);
        if !(std > 0.0) {
            return None;
        }
        Some(Escape {
            cost: multiplier.powi(-2),
            falls: self.falls(left * lambda, told)?,
            multiplier,
            episode: None,
        })
    }

    /// An episode whose exits have at least the `k`-th share of lambda, for as many as the next power of 2.
    fn shifted(&self, k: usize, told: &Told) -> Option<Escape> {
        let facts = self.of.facts;
        let power = told.hessians.log2().ceil().max(0.0) as u32;
        let mut known = self.known.borrow_mut();
        let episode = *known.entry((power, k)).or_insert_with(|| {
            let many = f64::from(power).exp2();
            let terms = EpisodeTerms {
                dim: facts.dim,
                smoothness: facts.smoothness,
                curvature: self.targets.curvature,
                missed: 0.5 * self.of.false_certificate / many,
                false_exit: told.event / many,
            };
            Episode::cheapest(&terms, LEFT_BY_EPISODES[k] * self.targets.curvature)
        });
        let (episode, records) = (episode?, facts.records as f64);
        Some(Escape {
            cost: episode.cost(facts.adjacency, records),
            falls: self.falls(episode.bend, told)?,
            multiplier: episode.multiplier(facts.adjacency, records),
            episode: Some(episode),
        })
    }
}
