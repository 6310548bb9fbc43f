//! The dominating pair of a step, whatever it is.

use std::rc::Rc;

use super::fixed::FixedPair;
use super::laplace::LaplacePair;
use super::law::Law as _;
use super::mixture::Mixture;
use super::pair::Pair;
use super::points::Points;
use super::truncated::Truncated;

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
