//! A public order in which solvers that read slices meet the records.

use serde::{Deserialize, Serialize};

/// A random order of the records, a function of a public seed and of public sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicOrder {
    /// Of the generator.
    pub seed: u64,
    /// Whether blocks of a file stay together: blocks are in a random order, and so are the records of each. Then a slice is records of few
    /// blocks, and of a file that is sorted it is no sample of the whole.
    pub in_blocks: bool,
}

impl std::fmt::Display for PublicOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = if self.in_blocks {
            "of the blocks of the file, and within each"
        } else {
            "of the records"
        };
        write!(f, "a random order {of}, from seed {}", self.seed)
    }
}
