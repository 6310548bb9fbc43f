//! A public order of the records: slices of one order are disjoint, and those of two need not be.

use getrandom::SysRng;
use rand::TryRng;
use serde::{Deserialize, Serialize};

use crate::noise::NoiseError;

/// A pseudo-random order of the records, a function of a public seed and of public sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicOrder {
    /// Of the generator.
    pub seed: u64,
    /// So many neighbours stay together: runs of them are in a random order, and so are the records of each. One in memory, where the order
    /// is of records. Otherwise a slice is records of few runs, and of a file that is sorted it is no sample of the whole.
    pub run: u64,
}

impl PublicOrder {
    /// A seed from the operating system, below 2^53, so that every reader of JSON reads it as it was: to be published with what came of it.
    /// A seed that is a constant is no draw, and nothing can be said of a table in an order that was fixed before it.
    ///
    /// # Errors
    /// [`NoiseError::NoEntropy`].
    pub fn draw_seed() -> Result<u64, NoiseError> {
        let mut bytes = [0; 8];
        SysRng
            .try_fill_bytes(&mut bytes)
            .map_err(|error| NoiseError::NoEntropy {
                bytes: bytes.len(),
                reason: error.to_string(),
            })?;
        Ok(u64::from_le_bytes(bytes) >> 11)
    }
}

impl std::fmt::Display for PublicOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a pseudo-random order of ")?;
        match self.run {
            1 => write!(f, "the records")?,
            run => write!(f, "runs of {run} neighbours, and of the records of each")?,
        }
        write!(f, ", from seed {}", self.seed)
    }
}

/// An order, or that of the table.
pub(crate) fn in_words(order: Option<PublicOrder>) -> String {
    order.map_or_else(
        || "the order of the table".to_owned(),
        |order| order.to_string(),
    )
}
