//! Losses under a Kurdyka-Lojasiewicz condition: a small gradient means a small excess.

mod adaptive;
mod adaptive_bound;
mod adaptive_plan;
mod adaptive_run;
mod proximal;
mod spider;
mod tail;

pub use adaptive::{AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, NormQueries};
pub use adaptive_plan::ADAPTIVE_GD;
pub use proximal::{
    PROXIMAL_POINT, ProximalFacts, ProximalPlan, ProximalReads, ProximalRound, ProximalSchedule,
    ProximalSettings,
};
pub use spider::{KL_SPIDER, KlPhase, KlSpiderPlan, KlSpiderSettings, KlSpiderVersion};
