//! Recursive regularisation: stationary points of convex population risks.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah (arXiv 2206.00846), Algorithm 3 with its two inner solvers,
//! Algorithm 7 ([`RecursiveGdPlan`]) and Algorithms 5 and 6 ([`RecursiveSgdPlan`]), repaired. The proof of the
//! bounds, and where they differ from the paper, is in `docs/theory/faster-rates.md`.

mod descent;
mod facts;
mod outline;
mod passes;
#[cfg(test)]
mod tests;

use dpopt_solver::{Access, BoundSense, BoundedQuantity, Terms};

pub use descent::{GdStage, RECURSIVE_GD, RecursiveGdPlan};
pub use facts::ConvexFacts;
pub use outline::{Outline, StageOutline};
pub use passes::{PassPlan, RECURSIVE_SGD, RecursiveSgdPlan, SgdStage};

/// Terms with the sense of these bounds.
fn for_population(terms: Terms) -> Terms {
    terms.bounding(BoundedQuantity::GradientNorm, BoundSense::PopulationMean)
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
