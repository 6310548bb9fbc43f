//! Losses under a Kurdyka-Lojasiewicz condition: a small gradient means a small excess.

mod condition;
mod spider;
mod tail;

pub use condition::KlCondition;
pub use spider::{KlPhase, KlSpiderPlan, KlSpiderSettings, KlSpiderVersion};
