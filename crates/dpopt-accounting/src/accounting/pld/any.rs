//! The dominating pair of a step, whatever it is.

use std::rc::Rc;

use super::fixed::FixedPair;
use super::laplace::LaplacePair;
use super::law::Law as _;
use super::mixture::Mixture;
use super::pair::Pair;
use super::points::Points;

/// The pair of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnyPair {
    Normal(Pair),
    Laplace(LaplacePair),
    Fixed(FixedPair),
    Mixture(Rc<Mixture>),
    Truncated(Rc<Truncated>),
    Points(Rc<Points>),
}

/// A Gaussian on a Poisson sample of which at most so many records are kept.
///
/// As long as the other records leave room it is the pair of the Poisson sample. Where they don't, the record pushes another one out, as
/// in a sample of fixed size, and the shift is of two clip norms. Whether they do is the same on both sides, so the curve is at most
/// `(1 - overflow)` times one and `overflow` times the other: `docs/privacy/accounting.md`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Truncated {
    pub(super) within: AnyPair,
    pub(super) beyond: AnyPair,
    /// Attained by some records: for the lower bound.
    pub(super) least: AnyPair,
    /// Upper bound on the probability that there is no room.
    pub(super) overflow: f64,
}

impl AnyPair {
    /// Least upper bound of the loss.
    pub(super) fn loss_sup(&self) -> f64 {
        match self {
            AnyPair::Normal(pair) => pair.loss_sup(),
            AnyPair::Laplace(pair) => pair.loss_sup(),
            AnyPair::Fixed(pair) => pair.loss_sup(),
            AnyPair::Mixture(pair) => pair.loss_sup(),
            AnyPair::Truncated(pair) => pair.within.loss_sup().max(pair.beyond.loss_sup()),
            AnyPair::Points(points) => points.supremum(),
        }
    }

    /// A distance between atoms that the lattice had better divide.
    pub(super) fn grain(&self) -> Option<f64> {
        match self {
            AnyPair::Normal(_)
            | AnyPair::Fixed(_)
            | AnyPair::Mixture(_)
            | AnyPair::Truncated(_) => None,
            AnyPair::Laplace(pair) if pair.range => None,
            AnyPair::Laplace(pair) => Some(pair.span()),
            AnyPair::Points(points) => points.grain,
        }
    }

    /// Mass at an infinite loss.
    pub(super) fn infinite(&self) -> f64 {
        match self {
            AnyPair::Points(points) => points.infinite,
            _ => 0.0,
        }
    }
}
