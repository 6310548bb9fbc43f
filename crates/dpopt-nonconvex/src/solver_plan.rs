//! A plan of any solver, and a run of it on whatever estimator it needs.

use std::num::NonZeroUsize;

use dpopt_oracle::{
    Access, ConvexGlm, Estimator, Glm, Means, OutputPerturbed, Passes as _, PrivateData,
    PrivateMean, Recursion, Staged,
};
use dpopt_privacy::{ClipNorm, Curator, Spend};
use serde::Serialize;

use crate::bound::StatedBound;
use crate::dp_adam::DpAdamPlan;
use crate::dp_sgd::DpSgdPlan;
use crate::facts::PublicFacts;
use crate::jl::JlPlan;
use crate::kl::{AdaptiveGdPlan, KlSpiderPlan};
use crate::noisy_gd::NoisyGdPlan;
use crate::normalized_spider::NormalizedSpiderPlan;
use crate::plan::{BoundSense, Plan};
use crate::recursive::{RecursiveGdPlan, RecursiveSgdPlan};
use crate::run::{Observer, Outcome, RunError, Stop};
use crate::sampled_spiderboost::SampledSpiderBoostPlan;
use crate::spiderboost::SpiderBoostPlan;
use crate::storm::StormPlan;
use crate::tree_spider::TreeSpiderPlan;

/// A plan of any solver.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SolverPlan {
    /// Noisy gradient descent.
    NoisyGd(NoisyGdPlan),
    /// DP-SGD.
    DpSgd(DpSgdPlan),
    /// DP-Adam.
    DpAdam(DpAdamPlan),
    /// Private SpiderBoost.
    SpiderBoost(SpiderBoostPlan),
    /// Private SpiderBoost with sampled variations.
    SampledSpiderBoost(SampledSpiderBoostPlan),
    /// Private Spider with steps of a fixed length.
    NormalizedSpider(NormalizedSpiderPlan),
    /// Private STORM.
    Storm(StormPlan),
    /// Tree-based private SPIDER.
    TreeSpider(TreeSpiderPlan),
    /// Recursive regularisation with noisy gradient descent.
    RecursiveGd(RecursiveGdPlan),
    /// Recursive regularisation with passes of stochastic gradient descent.
    RecursiveSgd(RecursiveSgdPlan),
    /// Adaptive noisy gradient descent.
    AdaptiveGd(AdaptiveGdPlan),
    /// KL Spider. No [`crate::Solver`] names it: its plan needs a KL condition, which no table of data has.
    KlSpider(KlSpiderPlan),
    /// Any of these on projected rows.
    Projected(Box<JlPlan>),
}

/// Records and a loss to run a plan on, and the curator that pays.
pub struct GlmRun<'a> {
    data: &'a PrivateData,
    loss: Glm,
    curator: Curator,
    threads: NonZeroUsize,
    start: Option<&'a [f64]>,
}

impl<'a> GlmRun<'a> {
    /// From the origin, on one thread.
    #[must_use]
    pub fn new(data: &'a PrivateData, loss: Glm, curator: Curator) -> Self {
        Self {
            data,
            loss,
            curator,
            threads: NonZeroUsize::MIN,
            start: None,
        }
    }

    /// On up to so many threads; results do not depend on it. Passes over one record after the other use one.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// From a public point, such as that of a checkpoint; none: from the origin.
    #[must_use]
    pub fn from(mut self, start: Option<&'a [f64]>) -> Self {
        self.start = start;
        self
    }
}

impl SolverPlan {
    /// What all plans have in common.
    #[must_use]
    pub fn as_plan(&self) -> &dyn Plan {
        match self {
            SolverPlan::NoisyGd(plan) => plan,
            SolverPlan::DpSgd(plan) => plan,
            SolverPlan::DpAdam(plan) => plan,
            SolverPlan::SpiderBoost(plan) => plan,
            SolverPlan::SampledSpiderBoost(plan) => plan,
            SolverPlan::NormalizedSpider(plan) => plan,
            SolverPlan::Storm(plan) => plan,
            SolverPlan::TreeSpider(plan) => plan,
            SolverPlan::RecursiveGd(plan) => plan,
            SolverPlan::RecursiveSgd(plan) => plan,
            SolverPlan::AdaptiveGd(plan) => plan,
            SolverPlan::KlSpider(plan) => plan,
            SolverPlan::Projected(plan) => plan.as_ref(),
        }
    }

    /// [`Plan::steps`].
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.as_plan().steps()
    }

    /// [`Plan::spend`].
    #[must_use]
    pub fn spend(&self) -> Spend {
        self.as_plan().spend()
    }

    /// [`Plan::clip`]: the per-record clip radius at which an estimator must be set.
    #[must_use]
    pub fn clip(&self) -> f64 {
        self.as_plan().clip()
    }

    /// [`Plan::access`]: that at which an [`Estimator`] must be set, for plans that run on one.
    #[must_use]
    pub fn access(&self) -> Access {
        self.as_plan().access()
    }

    /// [`Plan::predicted_bound`].
    #[must_use]
    pub fn predicted_bound(&self) -> Option<f64> {
        self.as_plan().predicted_bound()
    }

    /// [`Plan::bound_at`].
    #[must_use]
    pub fn bound_at(&self, stop: Stop) -> Option<StatedBound> {
        self.as_plan().bound_at(stop)
    }

    /// [`Plan::bound_sense`].
    #[must_use]
    pub fn bound_sense(&self) -> BoundSense {
        self.as_plan().bound_sense()
    }

    /// [`Plan::gradients`].
    #[must_use]
    pub fn gradients(&self) -> f64 {
        self.as_plan().gradients()
    }

    /// [`Plan::share_spent`].
    #[must_use]
    pub fn share_spent(&self, step: u64) -> f64 {
        self.as_plan().share_spent(step)
    }

    /// [`Plan::facts`].
    #[must_use]
    pub fn facts(&self) -> &PublicFacts {
        self.as_plan().facts()
    }

    /// Whether it reads single records in an order, or projects them: then they have to be in memory.
    #[must_use]
    pub fn needs_records_in_memory(&self) -> bool {
        matches!(self, SolverPlan::RecursiveSgd(_) | SolverPlan::Projected(_))
    }

    /// Runs the plan from the origin on an estimator that is set as the plan says.
    ///
    /// # Errors
    /// [`RunError`]; [`RunError::OwnEstimator`], before anything is reserved, for plans that don't run on an
    /// [`Estimator`]: [`SolverPlan::run_over`] makes theirs.
    pub fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        if let SolverPlan::Projected(plan) = self {
            return plan.run(estimator, observer);
        }
        self.run_from(&vec![0.0; self.facts().dim], estimator, observer)
    }

    /// As [`SolverPlan::run`], from a public point; see the plan's own `run_from`.
    ///
    /// # Errors
    /// [`RunError`]; [`RunError::OwnEstimator`] for a projected plan too, whose base starts at the origin.
    pub fn run_from(
        &self,
        start: &[f64],
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        match self {
            SolverPlan::NoisyGd(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::DpSgd(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::DpAdam(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::SpiderBoost(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::NormalizedSpider(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::Storm(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::AdaptiveGd(plan) => Ok(plan.run_from(start, estimator, observer)?.outcome),
            SolverPlan::KlSpider(plan) => plan.run_from(start, estimator, observer),
            SolverPlan::SampledSpiderBoost(_) => own_estimator("sampled-spiderboost"),
            SolverPlan::TreeSpider(_) => own_estimator("tree-spider"),
            SolverPlan::RecursiveGd(_) => own_estimator("recursive-gd"),
            SolverPlan::RecursiveSgd(_) => own_estimator("recursive-sgd"),
            SolverPlan::Projected(_) => own_estimator("a projected solver"),
        }
    }

    /// Runs the plan over private means, on the estimator that it needs. They stay with the caller, for the
    /// guarantee and for other releases. A run that ends in an error is settled, where that is still possible.
    ///
    /// # Errors
    /// [`RunError`]; [`RunError::OwnEstimator`] for passes over single records and for projections, which are not made of means
    /// over the records as they are: [`SolverPlan::run_on`] runs them.
    pub fn run_over<M: Means>(
        &self,
        means: &mut M,
        start: Option<&[f64]>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        let result = self.over(means, start, observer);
        if result.is_err() {
            // Where this fails too, the reservation stands, and the first error says more.
            let _ = means.settle();
        }
        result
    }

    fn over<M: Means>(
        &self,
        means: &mut M,
        start: Option<&[f64]>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        let origin = vec![0.0; self.facts().dim];
        let start = start.unwrap_or(&origin);
        match self {
            SolverPlan::SampledSpiderBoost(plan) => {
                plan.run_from(start, &mut plan.estimator(means)?, observer)
            }
            SolverPlan::TreeSpider(plan) => {
                plan.run_from(start, &mut plan.estimator(means)?, observer)
            }
            SolverPlan::RecursiveGd(plan) => {
                plan.run_from(start, &mut Staged::new(means, self.radius()?), observer)
            }
            plan => {
                let mut estimator =
                    Recursion::over(means, self.radius()?).with_access(plan.access());
                plan.run_from(start, &mut estimator, observer)
            }
        }
    }

    /// The clip radius as one.
    fn radius(&self) -> Result<ClipNorm, RunError> {
        ClipNorm::new(self.clip()).map_err(RunError::Clip)
    }

    /// Runs the plan on private records, whatever estimator or passes it needs, and gives the curator back.
    ///
    /// # Privacy
    /// Nothing here draws, clips or charges: estimators of `dpopt-oracle` do, over the given curator. A projected plan reads
    /// the embedded records; its point is lifted, and its observer sees points of the embedded problem.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged. [`RunError::NotConvexSmooth`] and
    /// [`dpopt_oracle::EstimatorError::InAFile`] for passes that can't be made.
    pub fn run_on(
        &self,
        on: GlmRun<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Curator), RunError> {
        let GlmRun {
            data,
            loss,
            curator,
            threads,
            start,
        } = on;
        match self {
            SolverPlan::RecursiveSgd(plan) => {
                let mut passes = OutputPerturbed::new(data, ConvexGlm::new(loss)?, curator)?;
                let origin = vec![0.0; self.facts().dim];
                let result = plan.run_from(start.unwrap_or(&origin), &mut passes, observer);
                if result.is_err() {
                    // As in `run_over`.
                    let _ = passes.settle();
                }
                Ok((result?, passes.into_curator()))
            }
            SolverPlan::Projected(plan) => {
                if start.is_some() {
                    return own_estimator("a projected solver");
                }
                let embedded = plan.embed(data)?;
                let base = GlmRun::new(&embedded, loss, curator).with_threads(threads);
                let (outcome, curator) = plan.base.run_on(base, observer)?;
                Ok((plan.lift(outcome)?, curator))
            }
            plan => {
                let mut means = PrivateMean::new(data, loss, curator)?.with_threads(threads);
                let outcome = plan.run_over(&mut means, start, observer)?;
                Ok((outcome, means.into_curator()))
            }
        }
    }
}

fn own_estimator<T>(solver: &'static str) -> Result<T, RunError> {
    Err(RunError::OwnEstimator { solver })
}
