//! Baselines that perturb and watch: noisy gradient descent, and Spider, with a test of saddles that asks for gradients only.

mod plan;
mod planner;
mod walk;

pub use planner::{
    PerturbedPlan, PerturbedSchedule, PerturbedSettings, PerturbedSpider, PerturbedTest,
};
