//! What the caller knows of a convex problem.

use dpopt_solver::{Item, PublicFacts, Unit};

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
    pub(super) fn items(&self) -> (&'static str, Vec<Item<'static>>) {
        let radius = Item::maybe("radius", self.radius, Unit::LENGTH);
        ("public", vec![radius])
    }
}
