//! The header of a file of rows: whoever wrote it is not believed.

use super::{MAX_BLOCK_BYTES, MAX_COLUMNS, MAX_NOTE, RowFileProblem};
use crate::design::{Design, DesignError};

pub(super) const LENGTH: usize = 64;
const MAGIC: [u8; 8] = *b"\x89DPR\r\n\x1a\n";
const VERSION: u32 = 1;
/// In the place of the number of rows while a file is being written.
const UNFINISHED: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Header {
    pub(super) kind: u8,
    /// None: not finished.
    pub(super) rows: Option<u64>,
    pub(super) columns: u64,
    pub(super) factor: f32,
    pub(super) block_rows: u32,
    /// 0: none.
    pub(super) row_norm: f64,
    pub(super) note: u64,
    pub(super) blocks: u64,
}

impl Header {
    pub(super) fn write(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &[self.kind]);
        put(16, &self.rows.unwrap_or(UNFINISHED).to_le_bytes());
        put(24, &self.columns.to_le_bytes());
        put(32, &self.factor.to_le_bytes());
        put(36, &self.block_rows.to_le_bytes());
        put(40, &self.row_norm.to_le_bytes());
        put(48, &self.note.to_le_bytes());
        put(56, &self.blocks.to_le_bytes());
        bytes
    }

    /// Reads and checks what can be checked without the rest of the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, RowFileProblem> {
        let start = bytes.len().min(MAGIC.len());
        if bytes[..start] != MAGIC[..start] || start == 0 {
            return Err(RowFileProblem::WrongMagic);
        }
        let Some(bytes) = bytes.first_chunk::<LENGTH>() else {
            return Err(RowFileProblem::Truncated);
        };
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let version = word(8) as u32;
        if version != VERSION {
            return Err(RowFileProblem::Version(version));
        }
        if bytes[13..16] != [0; 3] {
            return Err(RowFileProblem::Header("reserved bytes are not zero"));
        }
        let header = Self {
            kind: bytes[12],
            rows: Some(word(16)).filter(|&rows| rows != UNFINISHED),
            columns: word(24),
            factor: f32::from_bits(word(32) as u32),
            block_rows: (word(32) >> 32) as u32,
            row_norm: f64::from_bits(word(40)),
            note: word(48),
            blocks: word(56),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), RowFileProblem> {
        let bad = |what| Err(RowFileProblem::Header(what));
        if self.rows.is_none() {
            return Err(RowFileProblem::Unfinished);
        }
        if self.kind > 4 {
            return bad("an unknown storage");
        }
        if self.columns == 0 || self.columns > MAX_COLUMNS {
            return bad("the number of columns is not from 1 to 2^24");
        }
        if self.note > MAX_NOTE {
            return bad("the note is longer than 16 MiB");
        }
        if !(self.row_norm >= 0.0 && self.row_norm.is_finite()) {
            return bad("the bound on row norms is not finite or below 0");
        }
        let rows = self.rows.unwrap_or(0);
        if let Some(stride) = self.stride() {
            let block = u64::from(self.block_rows);
            let small = block == 1 || block * stride <= MAX_BLOCK_BYTES;
            if block == 0 || !small {
                return bad("blocks of no rows, or of more than 16 MiB");
            }
            if self.blocks != rows.div_ceil(block) {
                return bad("the number of blocks is not that of the rows");
            }
        } else {
            if self.block_rows != 0 {
                return bad("blocks of a fixed number of sparse rows");
            }
            if self.blocks > rows {
                return bad("more blocks than rows");
            }
        }
        Ok(())
    }

    /// Bytes of a row with its label in a dense storage.
    pub(super) fn stride(&self) -> Option<u64> {
        Some(match self.kind {
            0 => self.columns * 8 + 4,
            1 => self.columns * 4 + 4,
            2 => self.columns + 8,
            _ => return None,
        })
    }

    /// Bytes of a row of a sparse storage beside its entries, and bytes of an entry.
    pub(super) fn sparse_bytes(&self) -> (u64, u64) {
        if self.kind == 3 { (8, 8) } else { (12, 4) }
    }

    /// Where the blocks start.
    pub(super) fn data(&self) -> u64 {
        LENGTH as u64 + self.note
    }

    /// A design of this kind.
    pub(super) fn empty(&self) -> Result<Design, DesignError> {
        // Checked to be at most 2^24.
        let columns = self.columns as usize;
        match self.kind {
            0 => Design::dense(columns, Vec::new()),
            1 => Design::dense32(columns, Vec::new()),
            2 => Design::bytes(columns, Vec::new(), self.factor),
            3 => Design::sparse(columns),
            _ => Design::one_hot(columns, self.factor),
        }
    }
}
