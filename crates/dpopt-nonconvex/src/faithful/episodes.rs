//! What a run of the faithful algorithm shows: where it went, and its episodes.

use std::sync::Mutex;

use dpopt_oracle::{Offers, Oracle};
use dpopt_solver::{Item, Outcome, Plan, Run, RunError, Terms, Walk};
use serde::Serialize;

use super::planner::FaithfulPlan;
use super::walk::FaithfulWalk;

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CentredEnd {
    /// The walk came to the radius. **No proof of a saddle**: a flat point may be left too, and the loss may rise.
    Left,
    /// All of its steps were made within the radius.
    Stayed,
    /// The run ended first.
    Cut,
}

/// One episode: a walk in the noisy quadratic model at a candidate. Public.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CentredEpisode {
    /// The step of the run at which it began, counted from 0.
    pub step: u64,
    /// Where.
    pub anchor: Vec<f64>,
    /// The norm of the released estimate there.
    pub gradient: f64,
    /// Links of the chained Hessian: slices that paid for each of its products.
    pub links: u64,
    /// Steps made, each of one product.
    pub length: u64,
    /// How far from the anchor its last step led, before it was brought back to the radius.
    pub radius: f64,
    /// Left or not.
    pub end: CentredEnd,
}

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

/// What a walk leaves behind.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) trajectory: Vec<Vec<f64>>,
    pub(super) episodes: Vec<CentredEpisode>,
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
