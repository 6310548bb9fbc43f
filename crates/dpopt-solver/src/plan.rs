//! What all plans have in common.

use dpopt_oracle::{Offers, Oracle, PrivateData};
use dpopt_privacy::{SamplingRate, Spend};
use serde::Serialize;

use crate::bound::{BoundSense, BoundedQuantity, StatedBound};
use crate::facts::{Budget, PublicFacts};
use crate::item::Item;
use crate::outcome::{Observer, Outcome, OutputRule, Stop};
use crate::run::{self, Run, RunError, Walk};

/// A plan of any solver: everything that is derived from public facts, and fixed.
///
/// It can't be changed: a plan by hand is one of its own and states no bound, so that a stated bound never
/// contradicts what is released.
pub trait Plan: std::fmt::Debug + Send + Sync {
    /// The name of the solver.
    fn name(&self) -> &'static str;

    /// What every plan has.
    fn terms(&self) -> &Terms;

    /// What a reader of the plan wants to see beside the terms: names, values and units.
    fn items(&self) -> Vec<Item<'_>>;

    /// The walk from `start`, which has [`Plan::dim`] coordinates.
    ///
    /// # Errors
    /// [`RunError`] for a plan that can't be walked.
    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError>;

    /// What else the plan knows of the problem: the name of the group that holds the facts, and what is beside it.
    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        None
    }

    /// The facts that it was made from.
    fn facts(&self) -> &PublicFacts {
        &self.terms().facts
    }

    /// The privacy that it may spend.
    fn budget(&self) -> &Budget {
        &self.terms().budget
    }

    /// Dimension in which it walks.
    fn dim(&self) -> usize {
        self.facts().dim
    }

    /// Number of steps, at most: releases, or passes over slices.
    fn steps(&self) -> u64 {
        self.terms().steps
    }

    /// What it will spend.
    fn spend(&self) -> Spend {
        self.terms().spend.clone()
    }

    /// Nominal number of per-record gradients, at most.
    fn gradients(&self) -> f64 {
        self.terms().gradients
    }

    /// The per-record clip radius of gradients, at the first step.
    fn clip(&self) -> f64 {
        self.terms().clip
    }

    /// Which records a release reads, at most: of slices the longest, of samples those of a variation.
    fn access(&self) -> Access {
        self.terms().access
    }

    /// Which point is returned.
    fn output(&self) -> OutputRule {
        self.terms().output
    }

    /// The proven bound, where there is one: of a run that ends as the proof asks, on as many records as
    /// the facts say. What a run that was made may state is [`Plan::bound_at`].
    fn bound(&self) -> Option<StatedBound> {
        let terms = self.terms();
        let value = terms.bound?;
        Some(StatedBound::new(value, terms.quantity, terms.sense))
    }

    /// The value of [`Plan::bound`], where it is on the gradient norm.
    fn predicted_bound(&self) -> Option<f64> {
        let bound = self.bound()?;
        (bound.quantity == BoundedQuantity::GradientNorm).then_some(bound.value)
    }

    /// In which sense bounds of this plan hold.
    fn bound_sense(&self) -> BoundSense {
        self.terms().sense
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
        self.bound().filter(|_| counted && self.bound_covers(stop))
    }

    /// What the starting point satisfies already; a bound on the gradient norm that is not below it says nothing.
    fn trivial_bound(&self) -> f64 {
        self.facts().trivial_bound()
    }

    /// Share of the plan's cost that is spent after the releases of the steps 0 to `step`, in a measure that adds up
    /// (the square of the Gaussian-DP parameter; any other, where all releases are alike).
    fn share_spent(&self, step: u64) -> f64 {
        (step + 1) as f64 / self.steps().max(1) as f64
    }

    /// What public facts tell already of a run that may learn nothing, from a start whose gradient is at most
    /// `trivial` long; none where they tell nothing.
    fn warning(&self, trivial: f64) -> Option<String> {
        let _ = trivial;
        None
    }

    /// What the oracle has to answer.
    fn needs(&self) -> Offers {
        Offers::MEANS
    }

    /// The records to read in place of the records as they are; none for most plans.
    ///
    /// # Errors
    /// [`RunError::Data`].
    fn embed(&self, data: &PrivateData) -> Result<Option<PrivateData>, RunError> {
        let _ = data;
        Ok(None)
    }

    /// What is returned for the point that the walk ended at.
    ///
    /// # Errors
    /// [`RunError`].
    fn lift(&self, point: Vec<f64>) -> Result<Vec<f64>, RunError> {
        Ok(point)
    }

    /// Runs the plan, from the origin.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    fn run(
        &self,
        oracle: &mut dyn Oracle,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_with(oracle, Run::new(observer))
    }

    /// As [`Plan::run`], from `start` and not from the origin: a public point, such as that of a
    /// checkpoint. A bound of the plan then holds if what the facts say of the start (the initial gap, or a radius) is
    /// true of `start`; one for the population also needs a `start` that does not depend on these records.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    fn run_from(
        &self,
        start: &[f64],
        oracle: &mut dyn Oracle,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_with(oracle, Run::new(observer).starting_at(Some(start)))
    }

    /// Runs the plan with all that a run can be given.
    ///
    /// # Privacy
    /// Nothing here draws, clips or charges: the oracle does. A plan asks it for what [`Plan::spend`] reserved, and is refused
    /// anything else.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged, and what was not released is given back where that is still
    /// possible.
    fn run_with(&self, oracle: &mut dyn Oracle, run: Run<'_>) -> Result<Outcome, RunError> {
        run::run(self, oracle, run)
    }
}

/// Which records a release of a plan reads, for who reads the plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Access {
    /// All of them.
    FullBatch,
    /// A fresh Poisson sample for each release.
    Poisson(SamplingRate),
    /// A fresh sample of so many records for each release.
    FixedSize(u64),
    /// The next unread records of a pool, so that each record is read for one anchor or one
    /// variation.
    SinglePass {
        /// Records for each anchor.
        anchor: u64,
        /// Records for each variation.
        variation: u64,
    },
}

/// What every plan has: made once, and not changed after that.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    facts: PublicFacts,
    budget: Budget,
    steps: u64,
    spend: Spend,
    gradients: f64,
    clip: f64,
    access: Access,
    output: OutputRule,
    bound: Option<f64>,
    quantity: BoundedQuantity,
    sense: BoundSense,
}

impl Terms {
    /// Of a plan of `steps` steps that spends `spend` and clips at L0. It reads all records, returns its last point and
    /// states no bound, unless told otherwise.
    #[must_use]
    pub fn new(facts: &PublicFacts, budget: &Budget, steps: u64, spend: Spend) -> Self {
        Self {
            facts: *facts,
            budget: *budget,
            steps,
            spend,
            gradients: steps as f64 * facts.records as f64,
            clip: facts.lipschitz,
            access: Access::FullBatch,
            output: OutputRule::Last,
            bound: None,
            quantity: BoundedQuantity::GradientNorm,
            sense: BoundSense::RootMeanSquare,
        }
    }

    /// The facts that the plan was made from.
    #[must_use]
    pub fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    /// The per-record clip radius of gradients, at the first step.
    #[must_use]
    pub fn clip(&self) -> f64 {
        self.clip
    }

    /// With this nominal number of per-record gradients; without it, one for each record in each step.
    #[must_use]
    pub fn with_gradients(self, gradients: f64) -> Self {
        Self { gradients, ..self }
    }

    /// With this clip radius of the first step.
    #[must_use]
    pub fn with_clip(self, clip: f64) -> Self {
        Self { clip, ..self }
    }

    /// With this access.
    #[must_use]
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Returning this point.
    #[must_use]
    pub fn with_output(self, output: OutputRule) -> Self {
        Self { output, ..self }
    }

    /// With bounds on this quantity in this sense, where one is stated.
    #[must_use]
    pub fn bounding(self, quantity: BoundedQuantity, sense: BoundSense) -> Self {
        Self {
            quantity,
            sense,
            ..self
        }
    }

    /// Stating this bound, or none.
    #[must_use]
    pub fn stating(self, bound: Option<f64>) -> Self {
        Self { bound, ..self }
    }
}

impl Serialize for dyn Plan + '_ {
    /// One object: facts, budget, the items by name, and the bound.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::item::serialize(self, serializer)
    }
}
