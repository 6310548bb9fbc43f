//! Privacy statements.

use serde::{Deserialize, Serialize};

use crate::accounting::{Accountant, AccountingError};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::Delta;

/// Whether a run protects its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Keyed by the operating system: the guarantee holds.
    Protected,
    /// Keyed by a public seed: same mechanism, no guarantee.
    Simulated,
    /// For audits: releases are recorded, or forced to be those of a recorded run. No guarantee.
    Replay,
}

/// An (epsilon, delta) guarantee and what it rests on.
///
/// Made only by [`crate::Curator::guarantee`], which refuses in a simulation
/// and in a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Guarantee {
    /// The epsilon, rounded up by the accountant.
    pub epsilon: f64,
    /// The delta.
    pub delta: Delta,
    /// The neighbouring relation.
    pub adjacency: Adjacency,
    /// Who computed epsilon.
    pub accountant: Accountant,
    /// What was reserved; running less than that only protects more.
    pub event: Event,
    /// Properties that were claimed and not enforced, on which it rests besides
    /// ([`crate::Curator::reserve_claimed`]); none for most runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rests_on: Vec<&'static str>,
}

impl Guarantee {
    pub(crate) fn state(
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
        rests_on: Vec<&'static str>,
    ) -> Result<Self, AccountingError> {
        let (accountant, epsilon) = Accountant::least(event, delta, adjacency)?;
        Ok(Self {
            epsilon,
            delta,
            adjacency,
            accountant,
            event: event.clone(),
            rests_on,
        })
    }
}
