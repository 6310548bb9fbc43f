//! Writing a file of rows in one pass, with the memory of one block.

use std::ffi::OsString;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::header::Header;
use super::{BLOCK_BYTES, MAX_BLOCK_BYTES, MAX_COLUMNS, MAX_NOTE, RowFileError, RowFileProblem};
use crate::design::{Design, DesignError};
use crate::row::Row;

/// Writes a file of rows. It lies beside its place, under a name that was not there before and ends in `.part`, until
/// [`RowFileWriter::finish`] moves it there; one that is dropped before leaves nothing. It holds the records without
/// protection, so only its owner may read it, whatever may be done with a file that it replaces.
pub struct RowFileWriter {
    out: Option<BufWriter<NamedTempFile>>,
    path: PathBuf,
    /// Whether something was there when it began.
    replaces: bool,
    name: String,
    header: Header,
    block_bytes: usize,
    /// The block that is being filled: rows, labels and lengths, factors, column numbers, entries.
    count: usize,
    labels: Vec<u8>,
    lengths: Vec<u8>,
    factors: Vec<u8>,
    columns: Vec<u8>,
    entries: Vec<u8>,
    index: Vec<(u64, u64)>,
    rows: u64,
    at: u64,
}

impl RowFileWriter {
    /// Starts a file for rows of the storage, width and factor of `like`, whose own rows are not written. `row_norm` is a
    /// public bound on their norms, 0 for none; `note` says where they come from.
    ///
    /// # Errors
    /// [`RowFileError`].
    pub fn create(
        path: impl AsRef<Path>,
        like: &Design,
        row_norm: f64,
        note: &str,
    ) -> Result<Self, RowFileError> {
        let path = path.as_ref().to_owned();
        let name = path.display().to_string();
        let start = Self::start(path, &name, like, row_norm, note);
        start.map_err(|problem| problem.of(&name))
    }

    fn start(
        path: PathBuf,
        name: &str,
        like: &Design,
        row_norm: f64,
        note: &str,
    ) -> Result<Self, RowFileProblem> {
        if like.columns() as u64 > MAX_COLUMNS {
            return Err(DesignError::BadWidth(like.columns()).into());
        }
        if note.len() as u64 > MAX_NOTE {
            return Err(RowFileProblem::LongNote);
        }
        let (kind, factor) = like.kind();
        let mut header = Header {
            kind,
            rows: None,
            columns: like.columns() as u64,
            factor,
            block_rows: 0,
            row_norm,
            note: note.len() as u64,
            blocks: 0,
        };
        if let Some(stride) = header.stride() {
            header.block_rows = (BLOCK_BYTES as u64 / stride).max(1) as u32;
        }
        let mut out = BufWriter::with_capacity(1 << 20, part(&path)?);
        out.write_all(&header.write())?;
        out.write_all(note.as_bytes())?;
        Ok(Self {
            out: Some(out),
            replaces: is_filled(&path),
            path,
            name: name.to_owned(),
            at: header.data(),
            header,
            block_bytes: BLOCK_BYTES,
            count: 0,
            labels: Vec::new(),
            lengths: Vec::new(),
            factors: Vec::new(),
            columns: Vec::new(),
            entries: Vec::new(),
            index: Vec::new(),
            rows: 0,
        })
    }

    /// Sets the size of blocks in bytes, instead of about 256 KiB; at most 8 MiB, and for dense rows before the first of them.
    #[must_use]
    pub fn with_block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = bytes.min(MAX_BLOCK_BYTES as usize / 2);
        if let (Some(stride), true) = (self.header.stride(), self.rows == 0 && self.count == 0) {
            self.header.block_rows = (self.block_bytes as u64 / stride).max(1) as u32;
        }
        self
    }

    /// Appends rows, factors included, with their labels.
    ///
    /// # Errors
    /// [`RowFileError`]; never for what a row holds.
    pub fn push(&mut self, design: &Design, labels: &[f32]) -> Result<(), RowFileError> {
        let pushed = self.push_rows(design, labels);
        pushed.map_err(|problem| problem.of(&self.name))
    }

    fn push_rows(&mut self, design: &Design, labels: &[f32]) -> Result<(), RowFileProblem> {
        if design.rows() != labels.len() {
            return Err(RowFileProblem::LabelCount);
        }
        if (self.header.kind, self.header.columns) != (design.kind().0, design.columns() as u64) {
            return Err(DesignError::BadEntry { row: 0, column: 0 }.into());
        }
        for (i, label) in labels.iter().enumerate() {
            let row = design.row(i);
            if let Row::Sparse(columns, _) | Row::OneHot(columns, _) = row {
                let (head, entry) = self.header.sparse_bytes();
                let own = head as usize + entry as usize * columns.len();
                if self.count > 0 && self.pending() + own > self.block_bytes {
                    self.flush()?;
                }
            } else if self.count == self.header.block_rows as usize {
                self.flush()?;
            }
            self.labels.extend(label.to_le_bytes());
            self.push_row(row);
            self.count += 1;
        }
        Ok(())
    }

    fn push_row(&mut self, row: Row<'_>) {
        let (lengths, columns, entries) = (&mut self.lengths, &mut self.columns, &mut self.entries);
        match row {
            Row::Dense(x) => entries.extend(x.iter().flat_map(|x| x.to_le_bytes())),
            Row::Dense32(x) => entries.extend(x.iter().flat_map(|x| x.to_le_bytes())),
            Row::Bytes(x, factor) => {
                self.factors.extend(factor.to_le_bytes());
                entries.extend_from_slice(x);
            }
            Row::Sparse(indices, values) => {
                lengths.extend((indices.len() as u32).to_le_bytes());
                columns.extend(indices.iter().flat_map(|x| x.to_le_bytes()));
                entries.extend(values.iter().flat_map(|x| x.to_le_bytes()));
            }
            Row::OneHot(indices, factor) => {
                lengths.extend((indices.len() as u32).to_le_bytes());
                self.factors.extend(factor.to_le_bytes());
                columns.extend(indices.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
    }

    /// Bytes of the block that is being filled.
    fn pending(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    fn parts(&self) -> [&Vec<u8>; 5] {
        [
            &self.labels,
            &self.lengths,
            &self.factors,
            &self.columns,
            &self.entries,
        ]
    }

    fn flush(&mut self) -> Result<(), RowFileProblem> {
        if self.count == 0 {
            return Ok(());
        }
        if self.header.stride().is_none() {
            self.index.push((self.rows, self.at));
        }
        let Some(mut out) = self.out.take() else {
            return Ok(());
        };
        for part in self.parts() {
            out.write_all(part)?;
        }
        self.out = Some(out);
        self.at += self.pending() as u64;
        self.rows += self.count as u64;
        self.header.blocks += 1;
        self.count = 0;
        for part in [
            &mut self.labels,
            &mut self.lengths,
            &mut self.factors,
            &mut self.columns,
            &mut self.entries,
        ] {
            part.clear();
        }
        Ok(())
    }

    /// Writes what is left, brings the file onto the disk and moves it to its place.
    ///
    /// # Errors
    /// [`RowFileError`]; the file is not in its place then. So where another one is there by now and was not when this one began.
    pub fn finish(mut self) -> Result<(), RowFileError> {
        let name = std::mem::take(&mut self.name);
        self.complete().map_err(|problem| problem.of(&name))
    }

    fn complete(&mut self) -> Result<(), RowFileProblem> {
        self.flush()?;
        let Some(mut out) = self.out.take() else {
            return Ok(());
        };
        if self.header.stride().is_none() {
            self.index.push((self.rows, self.at));
            for (row, offset) in &self.index {
                out.write_all(&row.to_le_bytes())?;
                out.write_all(&offset.to_le_bytes())?;
            }
        }
        self.header.rows = Some(self.rows);
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&self.header.write())?;
        out.flush()?;
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        if !self.replaces && is_filled(&self.path) {
            return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists).into());
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Whether there is a file with something in it.
fn is_filled(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.len() > 0)
}

/// A new file beside `place`, for its owner only, removed unless it is moved there.
fn part(place: &Path) -> std::io::Result<NamedTempFile> {
    let name = place.file_name().ok_or(std::io::ErrorKind::IsADirectory)?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    let folder = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(&hidden)
        .suffix(".part")
        .rand_bytes(12)
        .tempfile_in(folder)
}
