//! Losses under a Kurdyka-Lojasiewicz condition: a small gradient means a small excess.

mod adaptive;
mod adaptive_bound;
mod adaptive_run;
mod condition;
mod proximal;
mod spider;
mod tail;

pub use adaptive::{AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, NormQueries};
pub use adaptive_run::{AdaptiveOutcome, ReleasedNorm};
pub use condition::KlCondition;
pub use proximal::{ProximalFacts, ProximalPlan, ProximalReads, ProximalRound, ProximalSettings};
pub use spider::{KlPhase, KlSpiderPlan, KlSpiderSettings, KlSpiderVersion};
