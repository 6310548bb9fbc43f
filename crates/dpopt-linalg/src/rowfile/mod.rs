//! A file of rows with a label each, made to be read in blocks: data larger than memory, whatever its storage.
//!
//! # Format, version 1
//! All numbers little-endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..8 | `89 44 50 52 0D 0A 1A 0A` |
//! | 8..12 | version, 1 |
//! | 12 | storage: 0 `f64`, 1 `f32`, 2 bytes, 3 sparse `f32`, 4 one-hot |
//! | 13..16 | zero |
//! | 16..24 | rows n; 2^64 - 1 while the file is being written |
//! | 24..32 | columns d |
//! | 32..36 | factor of bytes or of one-hot rows (`f32`), otherwise 0 |
//! | 36..40 | rows of a block, for dense storages, otherwise 0 |
//! | 40..48 | public bound on the norm of a row (`f64`), 0: none |
//! | 48..56 | bytes of the note |
//! | 56..64 | number of blocks |
//! | 64.. | the note, UTF-8: where the rows come from (the schema, for tables) |
//! | | blocks |
//! | | for sparse storages the index: first row and offset of each block, then n and the index's own offset (`u64` each) |
//!
//! A block of r rows holds r labels (`f32`), and then
//!
//! | storage | |
//! | --- | --- |
//! | dense | r d entries |
//! | bytes | r factors (`f32`), r d bytes |
//! | sparse | r lengths (`u32`), the column numbers (`u32`), the entries (`f32`) |
//! | one-hot | r lengths, r factors (`f32`), the column numbers |
//!
//! The file ends with the last block, or the index. It holds a [`Design`] and its labels to the bit.

mod header;
mod read;
mod write;

use std::io;

use crate::design::DesignError;

pub use read::{RowFile, RowReader};
pub use write::RowFileWriter;

/// Bytes of a block, unless a single row takes more. Tuned: four of them stay in the second-level cache, and a read of one
/// costs far more than asking for it.
pub(crate) const BLOCK_BYTES: usize = 1 << 18;
/// Most bytes of a block of more than one row that a reader takes.
const MAX_BLOCK_BYTES: u64 = 1 << 24;
/// Most columns: a row in double precision takes 128 MiB.
const MAX_COLUMNS: u64 = 1 << 24;
/// Longest note.
const MAX_NOTE: u64 = 1 << 24;

/// A file of rows can't be used. Neither this nor its text depends on an entry, a label or, for a file that
/// [`RowFileWriter`] finished, on the number of rows.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct RowFileError {
    /// The file.
    pub path: String,
    /// The reason.
    #[source]
    pub problem: RowFileProblem,
}

/// Errors of a file of rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowFileProblem {
    /// The system refuses to read or write.
    #[error("can't be read or written: {0}")]
    Io(#[from] io::Error),
    /// Other first bytes than a file of rows has.
    #[error("not a file of rows, by its first bytes")]
    WrongMagic,
    /// A version that is not known.
    #[error("version {0} of the format is unknown; this version reads 1")]
    Version(u32),
    /// Whoever wrote it was interrupted.
    #[error("the file was never finished")]
    Unfinished,
    /// The header or the index contradicts itself or a limit.
    #[error("damaged header: {0}")]
    Header(&'static str),
    /// The file ends early.
    #[error("the file is cut short")]
    Truncated,
    /// The file goes on after its end.
    #[error("the file goes on after its end")]
    Trailing,
    /// The lengths of the rows of a block don't add up to the block.
    #[error("a block is damaged")]
    Block,
    /// The file was changed after it was opened.
    #[error("the file was changed after it was opened")]
    Changed,
    /// Rows were asked for that are not in the block: a mistake in the calling program.
    #[error("rows were asked for that are not in the block")]
    OutOfRange,
    /// A matrix that can't exist, or rows of another kind than the file's.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// Another number of labels than of rows.
    #[error("rows and labels differ in number")]
    LabelCount,
    /// A note that is too long.
    #[error("the note is longer than 16 MiB")]
    LongNote,
}

impl RowFileProblem {
    pub(crate) fn of(self, path: &str) -> RowFileError {
        RowFileError {
            path: path.to_owned(),
            problem: self,
        }
    }
}
