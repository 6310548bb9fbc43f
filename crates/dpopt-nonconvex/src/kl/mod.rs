//! Losses under a Kurdyka-Lojasiewicz condition: a small gradient means a small excess.

mod condition;
mod proximal;

pub use condition::KlCondition;
pub use proximal::{ProximalFacts, ProximalPlan, ProximalReads, ProximalRound, ProximalSettings};
