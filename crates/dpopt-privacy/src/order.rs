//! A public order of the records: slices of one order are disjoint, and those of two need not be.

use getrandom::SysRng;
use rand::TryRng;
use serde::{Deserialize, Serialize};

use crate::noise::NoiseError;
use crate::part::Part;

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

/// Which records positions number: those of a table or of a part of it, in which order.
///
/// # Privacy
/// Slices of one numbering are disjoint, and those of two need not be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbering {
    /// Their order; none for that of the table.
    pub order: Option<PublicOrder>,
    /// The part that they are; none for all of the table.
    pub part: Option<Part>,
}

impl From<Part> for Numbering {
    /// The part in the order of the table.
    fn from(part: Part) -> Self {
        Self {
            order: None,
            part: Some(part),
        }
    }
}

impl std::fmt::Display for Numbering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.order {
            Some(order) => write!(f, "{order}")?,
            None => write!(f, "the order of the table")?,
        }
        match self.part {
            Some(part) => write!(f, ", of {part}"),
            None => Ok(()),
        }
    }
}
