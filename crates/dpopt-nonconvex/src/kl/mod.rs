//! Losses under a Kurdyka-Lojasiewicz condition: a small gradient means a small excess.

mod condition;

pub use condition::KlCondition;
