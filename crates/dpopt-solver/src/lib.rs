//! What every private solver has: facts and a budget to plan from, a plan, a walk, one run loop, and a place in a registry.
//!
//! A solver is one file: a planner, which derives a [`Plan`] from [`PublicFacts`] and a [`Budget`] before any record is
//! read; a [`Walk`], which asks for releases and moves on them; and a [`Solver`] that says what it is called and needs.
//! Everything else is here. A solver never draws noise, clips, charges, or sees a record.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod batches;
mod bound;
mod episode;
mod error;
mod escape;
mod facts;
mod glm_run;
mod json;
mod kl_condition;
mod noise;
mod normal;
mod outcome;
mod plan;
mod premises;
mod rank;
mod registry;
mod run;
pub mod search;
mod second_order;
mod terms;
mod unit;
mod withheld;

pub use batches::Batches;
pub use bound::{BoundSense, BoundedQuantity, StatedBound};
pub use episode::{CurvatureBy, Episode, EpisodeEnd, EpisodeRun, EpisodeTerms, Radii};
pub use error::PlanError;
pub use escape::{Escape, EscapeTerms, EscapeTest, NextStep, PerturbAndWatch, Watched};
pub use facts::{Budget, PublicFacts};
pub use glm_run::{GlmRun, needs_one_product};
pub use kl_condition::KlCondition;
pub use noise::{Split, chi_reach};
pub use normal::normal_reach;
pub use outcome::{
    NoObserver, Observer, Outcome, OutputRule, Release, ReleaseKind, ReleasedNorm, Stop,
};
pub use plan::{Erased, Item, Plan, Value};
pub use premises::{Covered, Known, Premises, SaddleShape};
pub use rank::PublicRank;
pub use registry::{
    Auto, BoundedValues, ExtraFacts, HessianFacts, LibraryPlan, Limits, Needs, Planner,
    RemovedSolver, Solver, TypicalConstants, UnknownSolver, find, names,
};
pub use run::{Asked, Certified, Closing, RestsOn, Run, RunError, Walk, in_stock, paid};
pub use second_order::{SecondOrderTargets, WalkConstants};
pub use terms::{Access, FreshReleases, Terms};
pub use unit::Unit;
pub use withheld::Withheld;
