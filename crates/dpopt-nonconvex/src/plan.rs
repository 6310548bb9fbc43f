//! What all plans have in common.

use dpopt_oracle::Access;
use dpopt_privacy::Spend;
use serde::{Deserialize, Serialize};

use crate::bound::{BoundedQuantity, StatedBound};
use crate::facts::PublicFacts;
use crate::run::Stop;

/// The public side of a plan, whatever its solver. How it is run is the plan's own matter, since solvers
/// ask different estimators; [`crate::SolverPlan`] runs any of them.
pub trait Plan {
    /// The facts that it was made from.
    fn facts(&self) -> &PublicFacts;

    /// Number of steps, at most: releases, or passes over slices.
    fn steps(&self) -> u64;

    /// What it will spend.
    fn spend(&self) -> Spend;

    /// Nominal number of per-record gradients, at most.
    fn gradients(&self) -> f64;

    /// The per-record clip radius of gradients, at the first step.
    fn clip(&self) -> f64;

    /// Which records a release reads, at most: of slices the longest, of samples those of a variation.
    fn access(&self) -> Access {
        Access::FullBatch
    }

    /// The proven bound on the gradient norm, where there is one: of a run that ends as the proof asks, on as many records as
    /// the facts say. What a run that was made may state is [`Plan::bound_at`].
    fn predicted_bound(&self) -> Option<f64> {
        None
    }

    /// Whether the proof of the plan's bound covers a run that ended so. Of most plans: one that made all of its steps,
    /// since the proof is about all of them.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Completed
    }

    /// What is proven of the point that a run of this plan returned, if it ended so; none where the proof does not
    /// cover that end, and none under an adjacency that hides the number of records: there the mean is taken over a declared
    /// number, and the proofs are about the true one.
    fn bound_at(&self, stop: Stop) -> Option<StatedBound> {
        let counted = self.facts().adjacency.record_count_is_public();
        let covered = counted && self.bound_covers(stop);
        let value = self.predicted_bound().filter(|_| covered)?;
        Some(StatedBound {
            value,
            quantity: BoundedQuantity::GradientNorm,
            sense: self.bound_sense(),
        })
    }

    /// In which sense [`Plan::predicted_bound`] holds.
    fn bound_sense(&self) -> BoundSense {
        BoundSense::RootMeanSquare
    }

    /// What the starting point satisfies already; a bound that is not below it says nothing.
    fn trivial_bound(&self) -> f64 {
        self.facts().trivial_bound()
    }

    /// Share of the plan's cost that is spent after the releases of the steps 0 to `step`, in a measure that adds up
    /// (the square of the Gaussian-DP parameter; any other, where all releases are alike).
    fn share_spent(&self, step: u64) -> f64 {
        (step + 1) as f64 / self.steps().max(1) as f64
    }
}

/// In which sense a bound on the gradient norm holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BoundSense {
    /// Root mean square over noise, samples and the drawn output, for the mean over these records.
    RootMeanSquare,
    /// Mean over noise and the drawn output, for the mean over these records.
    Mean,
    /// With the planned probability over noise, for the mean over these records.
    WithProbability,
    /// Mean over noise and projection, for the mean over these records.
    MeanOverProjections,
    /// Mean over noise and over the records as a sample, for the population that they were drawn from.
    PopulationMean,
    /// With the planned probability over noise and records, for the population.
    PopulationWithProbability,
}

impl std::fmt::Display for BoundSense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BoundSense::RootMeanSquare => "root mean square",
            BoundSense::Mean => "mean",
            BoundSense::WithProbability => "with the planned probability",
            BoundSense::MeanOverProjections => "mean, over the projection too",
            BoundSense::PopulationMean => {
                "mean, for the population that the records were drawn from"
            }
            BoundSense::PopulationWithProbability => {
                "with the planned probability, for the population that the records were drawn from"
            }
        })
    }
}
