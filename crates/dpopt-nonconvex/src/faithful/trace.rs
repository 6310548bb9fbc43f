//! A run of the faithful algorithm with all that it shows: where it went, and its episodes.

use std::sync::Mutex;

use dpopt_oracle::{Offers, Oracle};
use dpopt_solver::{Item, Outcome, Plan, Run, RunError, Terms, Walk};
use serde::Serialize;

use super::episodes::{CentredEpisode, Trace};
use super::planner::FaithfulPlan;
use super::walk::FaithfulWalk;

/// What [`FaithfulPlan::trace`] gives: all that was released is in it, and nothing is certified.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FaithfulOutcome {
    /// The outcome that any plan has; its point is that of the shortest released estimate.
    pub outcome: Outcome,
    /// x_0, x_1, ...: the points at which gradients were estimated, and where the last step led. One of them is what the paper's theorem is
    /// about; it does not say which.
    pub trajectory: Vec<Vec<f64>>,
    /// The episodes, in order.
    pub episodes: Vec<CentredEpisode>,
}

/// The plan, with a place for what its walk leaves behind.
#[derive(Debug)]
struct Traced<'a> {
    plan: &'a FaithfulPlan,
    trace: Mutex<Trace>,
}

impl Plan for Traced<'_> {
    fn name(&self) -> &'static str {
        self.plan.name()
    }

    fn terms(&self) -> &Terms {
        self.plan.terms()
    }

    fn items(&self) -> Vec<Item<'_>> {
        self.plan.items()
    }

    fn needs(&self) -> Offers {
        self.plan.needs()
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let walk = FaithfulWalk::new(self.plan, start, Some(&self.trace))?;
        Ok(Box::new(walk))
    }
}

impl FaithfulPlan {
    /// As [`Plan::run_with`], with the trajectory and the episodes.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn trace(
        &self,
        oracle: &mut dyn Oracle,
        run: Run<'_>,
    ) -> Result<FaithfulOutcome, RunError> {
        let traced = Traced {
            plan: self,
            trace: Mutex::default(),
        };
        let outcome = traced.run_with(oracle, run)?;
        let trace = traced.trace.into_inner();
        let Trace {
            trajectory,
            episodes,
        } = trace.unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(FaithfulOutcome {
            outcome,
            trajectory,
            episodes,
        })
    }
}
