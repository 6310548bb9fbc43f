//! A plan for many dimensions that walks in the few coordinates in which its law is simulated.

use dpopt_nonconvex::{Item, Plan, PublicFacts, RunError, StatedBound, Stop, Terms, Walk};
use dpopt_oracle::Offers;

/// A plan that walks in `dim` coordinates: the same steps, noise and bound.
#[derive(Debug, Clone, Copy)]
pub struct Within<'a> {
    plan: &'a dyn Plan,
    dim: usize,
}

impl<'a> Within<'a> {
    /// `plan` in `dim` coordinates, for an oracle that stands for all of its dimensions ([`crate::PlaneOracle`]).
    #[must_use]
    pub fn new(plan: &'a dyn Plan, dim: usize) -> Self {
        Self { plan, dim }
    }
}

/// A plan for d dimensions as one that walks in the r + 1 coordinates of a [`crate::SpanOracle`]. None for solvers whose
/// walk adds several estimates.
#[must_use]
pub fn in_span(plan: &dyn Plan, rank: usize) -> Option<Within<'_>> {
    matches!(plan.name(), "noisy-gd-theory" | "spiderboost").then(|| Within::new(plan, rank + 1))
}

impl Plan for Within<'_> {
    fn name(&self) -> &'static str {
        self.plan.name()
    }

    fn terms(&self) -> &Terms {
        self.plan.terms()
    }

    fn field_facts(&self) -> PublicFacts {
        self.plan.field_facts()
    }

    fn items(&self) -> Vec<Item<'_>> {
        self.plan.items()
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        self.plan.walk(start)
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn needs(&self) -> Offers {
        self.plan.needs()
    }

    fn bound(&self) -> Option<StatedBound> {
        self.plan.bound()
    }

    fn bound_covers(&self, stop: Stop) -> bool {
        self.plan.bound_covers(stop)
    }

    fn share_spent(&self, step: u64) -> f64 {
        self.plan.share_spent(step)
    }
}
