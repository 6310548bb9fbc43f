//! Two parts of a body of records, of which each record is in one.

use serde::{Deserialize, Serialize};

/// One of the two parts that a public seed splits a table into. Parts are equal where they are the same positions.
///
/// # Privacy
/// Both parts of one split have no position in common, where the number of records is public. A body of records says which part it is
/// ([`crate::Body::numbered`]), and a curator that serves one part refuses others ([`crate::Refused::OtherPart`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    records: u64,
    held: u64,
    seed: u64,
    is_held: bool,
}

impl Part {
    /// What is left, and what is held out, of so many records.
    #[must_use]
    pub fn of_split(records: u64, held: u64, seed: u64) -> [Self; 2] {
        [false, true].map(|is_held| Self {
            records,
            held,
            seed,
            is_held,
        })
    }

    /// Whether they are the two parts of one split.
    pub(crate) fn completes(self, other: Self) -> bool {
        self == Self {
            is_held: !other.is_held,
            ..other
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let which = if self.is_held { "held out" } else { "left" };
        write!(
            f,
            "those {which} where seed {} holds {} of {} records out",
            self.seed, self.held, self.records
        )
    }
}
