//! Recursive regularisation: stationary points of convex population risks.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah (arXiv 2206.00846), Algorithm 3 with its two inner solvers,
//! Algorithm 7 ([`RecursiveGdPlan`]) and Algorithms 5 and 6 ([`RecursiveSgdPlan`]), repaired. The proof of the
//! bounds, and where they differ from the paper, is in `docs/theory/recursive-regularization.md`.

mod descent;
mod outline;
mod passes;
#[cfg(test)]
mod tests;

use dpopt_solver::{Access, BoundSense, BoundedQuantity, Item, PublicFacts, Terms, Unit, Value};

pub use descent::{GdStage, RECURSIVE_GD, RecursiveGdPlan};
pub use outline::{Outline, StageOutline};
pub use passes::{PassPlan, RECURSIVE_SGD, RecursiveSgdPlan, SgdStage};

/// Public facts about a convex problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvexFacts {
    /// The facts of any problem.
    pub public: PublicFacts,
    /// R: a bound on the distance from the starting point to some minimiser of the population risk. A fact that the
    /// caller must know; it can't be measured on the records for free.
    pub radius: Option<f64>,
}

impl ConvexFacts {
    /// What the starting point satisfies already: ||grad F|| <= min(L0, sqrt(2 L1 F0), L1 R).
    #[must_use]
    pub fn trivial_bound(&self) -> f64 {
        let radius = self.radius.unwrap_or(f64::INFINITY);
        let public = self.public.trivial_bound();
        public.min(self.public.smoothness * radius)
    }

    /// As a plan shows them.
    fn items(&self) -> (&'static str, Vec<Item<'static>>) {
        let radius = Item::maybe("radius", self.radius, Unit::LENGTH);
        ("public", vec![radius])
    }
}

/// Terms with the sense of these bounds.
fn for_population(terms: Terms) -> Terms {
    terms.bounding(BoundedQuantity::GradientNorm, BoundSense::PopulationMean)
}

impl StageOutline {
    /// As a plan shows them.
    fn items(&self) -> Vec<Item<'static>> {
        vec![
            Item::count("records", self.records),
            Item::number("modulus", self.modulus, Unit::CURVATURE),
            Item::number("weight", self.weight, Unit::CURVATURE),
            Item::number("radius", self.radius, Unit::LENGTH),
            Item::number("risk", self.risk, Unit::LOSS),
        ]
    }
}

impl Outline {
    /// As a plan shows them.
    fn items(&self) -> Vec<Item<'static>> {
        let stages = self.stages.iter().map(StageOutline::items).collect();
        vec![
            Item::number("weight", self.weight, Unit::CURVATURE),
            Item::ratio("growth", self.growth),
            Item::number("bound", self.bound, Unit::GRADIENT),
            Item::plain("stages", Value::Rows(stages)),
        ]
    }
}

/// What plans on slices of these lengths read.
fn slices(lengths: impl Iterator<Item = u64>) -> Access {
    let longest = lengths.max().unwrap_or(0);
    Access::SinglePass {
        anchor: longest,
        variation: longest,
    }
}

/// The point c and the modulus M of the sum of all regularisers so far.
struct Centre {
    weighted: Vec<f64>,
    modulus: f64,
    point: Vec<f64>,
}

impl Centre {
    fn new(dim: usize) -> Self {
        Self {
            weighted: vec![0.0; dim],
            modulus: 0.0,
            point: vec![0.0; dim],
        }
    }

    /// Adds (weight/2) ||w - point||^2.
    fn add(&mut self, weight: f64, point: &[f64]) {
        self.modulus += weight;
        for ((sum, c), w) in self.weighted.iter_mut().zip(&mut self.point).zip(point) {
            *sum += weight * w;
            *c = *sum / self.modulus;
        }
    }
}
