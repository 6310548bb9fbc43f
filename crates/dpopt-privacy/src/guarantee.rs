//! Privacy statements.

use std::fmt;

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

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Protected => "protected",
            Mode::Simulated => "simulated",
            Mode::Replay => "replaying",
        })
    }
}

/// An (epsilon, delta) guarantee and what it rests on.
///
/// # Privacy
/// Made only by [`crate::Curator::guarantee`], which refuses in a simulation and in a replay, and never altered afterwards:
///
/// ```compile_fail,E0616
/// fn improve(mut guarantee: dpopt_privacy::Guarantee) { guarantee.epsilon = 1e-9; }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guarantee {
    epsilon: f64,
    delta: Delta,
    adjacency: Adjacency,
    accountant: Accountant,
    event: Event,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rests_on: Vec<&'static str>,
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

    /// The epsilon, rounded up by the accountant.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The delta.
    #[must_use]
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// The neighbouring relation.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// Who computed epsilon.
    #[must_use]
    pub fn accountant(&self) -> Accountant {
        self.accountant
    }

    /// What was reserved; running less than that only protects more.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Properties that were claimed and not enforced, on which it rests besides
    /// ([`crate::Curator::reserve_claimed`]); empty for most runs.
    #[must_use]
    pub fn rests_on(&self) -> &[&'static str] {
        &self.rests_on
    }
}
