//! Curvature by products with the Hessian: an episode that leaves a saddle, and stays where the Hessian is flat.

mod planner;
#[cfg(test)]
mod tests;
mod walk;

use dpopt_privacy::{Adjacency, Event, NoiseMultiplier, UnitError};
use serde::Serialize;

use crate::facts::PublicFacts;
use crate::plan::Item;
use crate::unit::Unit;

pub use walk::{EpisodeEnd, EpisodeRun, Radii};

/// What an episode has to tell, and how surely.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EpisodeTerms {
    /// d.
    pub dim: usize,
    /// M: no Hessian of a record, and none of the mean, has a larger eigenvalue in size (L1). Products are clipped to M ||v||.
    pub smoothness: f64,
    /// lambda: a least eigenvalue of at most -lambda is to be left.
    pub curvature: f64,
    /// p: with what probability it may be missed, so that a certificate is false.
    pub missed: f64,
    /// p': with what probability the direction of an exit may be less curved than it is said to be.
    pub false_exit: f64,
}

/// How a plan of second order tells curvature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub enum CurvatureBy {
    /// By whole Hessians or by episodes, whichever is planned to cost less; by episodes above 1,024 dimensions.
    #[default]
    Cheapest,
    /// By whole Hessians, in up to 1,024 dimensions.
    Hessians,
    /// By episodes of products.
    Episodes,
}

impl std::fmt::Display for CurvatureBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CurvatureBy::Cheapest => "cheapest",
            CurvatureBy::Hessians => "Hessians",
            CurvatureBy::Episodes => "episodes",
        })
    }
}

/// An episode: a noisy power iteration on I - eta H, shrunk in each step so that what is not curved enough dies out.
///
/// # Formula
/// With eta = 1/M, v_1 = s zeta_0 (public), and exit where ||v|| >= 1:
///
/// v_{t+1} = (v_t - eta (H v_t + q zeta_t))/(1 + eta l),  s = eta q/(1 + eta l),  t = 1..Gamma - 1.
///
/// * No exit by v_Gamma: lambda_min(H) > -lambda, but with probability p.
/// * Exit at v: <v, H v> <= -h ||v||^2, but with probability p'.
///
/// Lattices and the rounding of floats are inside both. Theorem 1 of `docs/theory/second-order.md`, with h = theta l there.
///
/// # Privacy
/// Gamma - 1 products, each clipped to M ||v_t|| < M and released with noise of deviation q: at most (Gamma - 1) (s_1 M/(m q))^2 of mu^2 on m
/// records (s_1 = 2 under replace-one, else 1), and with [`Radii::Realised`] only the squares of the lengths that v had.
/// `docs/privacy/second-order.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Episode {
    /// What it tells.
    pub terms: EpisodeTerms,
    /// l.
    pub shift: f64,
    /// c: eigenvalues of at least -c l die out.
    pub flat: f64,
    /// beta: their part of an exit is at most so long, without rounding.
    pub inside: f64,
    /// h: <v, H v> <= -h ||v||^2 at an exit.
    pub bend: f64,
    /// s: deviation of a step's noise, with an exit at length 1.
    pub noise: f64,
    /// Gamma: the last v that may leave.
    pub steps: u64,
}

/// delta: a product is off by at most delta M beside its noise. The second is for the recursion in floats.
fn rounding(dim: usize) -> f64 {
    PublicFacts::rounding(1.0, dim) + 1e-12
}

/// 2^(1/16): lengths are rounded up to its powers.
const GRID: f64 = 1.044_273_782_427_413_8;
/// Down to 2^-10 of the longest.
const SHORTEST: f64 = 1.0 / 1024.0;

impl Episode {
    /// About (mu m/s) lambda/L1 of an episode whose exits have half of lambda, in d dimensions: a rule of thumb.
    #[must_use]
    pub fn tells(dim: usize) -> f64 {
        45.0 * ((dim as f64).sqrt() + 6.0)
    }

    /// Products that are asked for at most: Gamma - 1, for the first is with 0.
    #[must_use]
    pub fn products(&self) -> u64 {
        self.steps.saturating_sub(1)
    }

    /// q, the deviation of the noise of a product, over M.
    #[must_use]
    pub fn product_noise(&self) -> f64 {
        self.noise * (1.0 + self.shift / self.terms.smoothness)
    }

    /// z of a product clipped to M, over `records` records.
    #[must_use]
    pub fn multiplier(&self, adjacency: Adjacency, records: f64) -> f64 {
        self.product_noise() * records / adjacency.sum_sensitivity()
    }

    /// What it costs at most, in squared mu.
    #[must_use]
    pub fn cost(&self, adjacency: Adjacency, records: f64) -> f64 {
        self.products() as f64 * self.multiplier(adjacency, records).powi(-2)
    }

    /// The share of its cost that it costs at most, but with probability p', where all eigenvalues are at least -c l and lengths are charged as
    /// they were: then no v is longer than b = beta + delta/(eta l (1 - c)) (and a certificate is made).
    #[must_use]
    pub fn flat_share(&self) -> f64 {
        let part = self.shift / self.terms.smoothness;
        let rounded = rounding(self.terms.dim) / (part * (1.0 - self.flat));
        let longest = (self.inside + rounded).max(SHORTEST);
        (longest * GRID).powi(2).min(1.0)
    }

    /// The fewest records for which it costs at most `mu` squared.
    #[must_use]
    pub fn records(&self, adjacency: Adjacency, mu: f64) -> f64 {
        self.cost(adjacency, 1.0).sqrt() / mu
    }

    /// Items of a plan that has it.
    #[must_use]
    pub fn items(episode: Option<&Self>) -> [Item<'static>; 5] {
        let of = |name, field: fn(&Self) -> f64, unit| Item::maybe(name, episode.map(field), unit);
        [
            Item::word(
                "curvature_by",
                match episode {
                    Some(_) => CurvatureBy::Episodes,
                    None => CurvatureBy::Hessians,
                },
            ),
            of("episode_steps", |e| e.steps as f64, Unit::NONE),
            of("episode_shift", |e| e.shift, Unit::CURVATURE),
            of("episode_bend", |e| e.bend, Unit::CURVATURE),
            of("episode_noise", |e| e.noise, Unit::NONE),
        ]
    }

    /// All products at the full radius, as one event: what an episode over `records` records reserves.
    ///
    /// # Errors
    /// [`UnitError`] for noise out of range.
    pub fn event(&self, adjacency: Adjacency, records: f64) -> Result<Event, UnitError> {
        let z = NoiseMultiplier::new(self.multiplier(adjacency, records))?;
        Ok(Event::gaussian(z).repeated(self.products()))
    }
}
