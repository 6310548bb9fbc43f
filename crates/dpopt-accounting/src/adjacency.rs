//! Which pairs of data sets a guarantee protects.

use serde::{Deserialize, Serialize};

/// The neighbouring relation. It is set once on the private data and sits on every
/// sensitivity, event and guarantee; two that disagree do not compose. The list is closed: a new
/// relation has to stop every sensitivity that matches on it from compiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adjacency {
    /// One record is exchanged for any other; the number of records is public.
    /// A sum of vectors of norm at most C has L2 sensitivity 2C.
    ReplaceOne,
    /// One record is added or removed; the number of records is private.
    /// A sum of vectors of norm at most C has L2 sensitivity C.
    AddRemove,
    /// One record is exchanged for a record that contributes zero; the number of records
    /// (zeroed ones included) is public. The sensitivity is C.
    ZeroOut,
}

impl Adjacency {
    /// L2 sensitivity of a sum of contributions of norm at most 1.
    #[must_use]
    pub fn sum_sensitivity(self) -> f64 {
        match self {
            Adjacency::ReplaceOne => 2.0,
            Adjacency::AddRemove | Adjacency::ZeroOut => 1.0,
        }
    }

    /// Whether the number of records may be used by planners, normalisers and reports.
    #[must_use]
    pub fn record_count_is_public(self) -> bool {
        !matches!(self, Adjacency::AddRemove)
    }
}

impl std::fmt::Display for Adjacency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Adjacency::ReplaceOne => "replace-one",
            Adjacency::AddRemove => "add-remove",
            Adjacency::ZeroOut => "zero-out",
        })
    }
}
