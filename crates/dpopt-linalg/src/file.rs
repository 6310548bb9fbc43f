//! Rows in a file: data larger than memory, read by position in blocks.
//!
//! A block is a [`Design`] whose buffer is reused, so what is written for rows in memory works on
//! rows in a file. Nothing is mapped: a mapped file that someone cuts short kills the process,
//! and a mapping can't be made in safe Rust. A positioned read into a buffer that stays in cache
//! costs one copy more and runs at the speed at which the system hands out the file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::design::{Design, DesignError, Wanted};
use crate::stamp::Stamp;

/// Bytes of a block that readers are asked for when nothing else is known. Tuned: large enough
/// for one system call per block not to show, small enough for the second-level cache.
const BLOCK_BYTES: usize = 1 << 18;
/// Rows nearer than this to each other are gathered by one read. Tuned: about what a read of its
/// own costs in bytes.
const GAP_BYTES: u64 = 1 << 14;
/// Most bytes of one gathering read.
const SPAN_BYTES: u64 = 1 << 20;

/// How an entry is stored in a file, little-endian.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FileEntry {
    /// Double precision.
    F64,
    /// Single precision.
    F32,
    /// A byte that stands for `scale` times itself.
    U8 {
        /// Positive and finite.
        scale: f32,
    },
}

impl FileEntry {
    /// Bytes of one entry.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            FileEntry::F64 => 8,
            FileEntry::F32 => 4,
            FileEntry::U8 { .. } => 1,
        }
    }
}

/// Where a row-major matrix lies in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileLayout {
    /// Bytes before the first entry.
    pub offset: u64,
    /// Number of rows, n.
    pub rows: usize,
    /// Number of columns, d.
    pub columns: usize,
    /// How entries are stored.
    pub entry: FileEntry,
}

/// Rows in a file could not be opened or read. None of these depends on an entry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DesignFileError {
    /// The file can't be opened or read, or was cut short after it was opened.
    #[error("can't read rows from {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file was changed after it was opened.
    #[error("{path}: the file was changed after it was opened")]
    Changed {
        /// The file.
        path: String,
    },
    /// The file is shorter than the layout says.
    #[error(
        "{path}: {needed} bytes are needed for {rows} rows of {columns} columns, the file has {found}"
    )]
    TooShort {
        /// The file.
        path: String,
        /// Rows of the layout.
        rows: usize,
        /// Columns of the layout.
        columns: usize,
        /// Bytes needed.
        needed: u64,
        /// Bytes there.
        found: u64,
    },
    /// The layout has more bytes than 2^63.
    #[error("{path}: {rows} rows of {columns} columns are more bytes than a file can have")]
    TooLarge {
        /// The file.
        path: String,
        /// Rows of the layout.
        rows: usize,
        /// Columns of the layout.
        columns: usize,
    },
    /// A block was asked for beyond the last row: a mistake in the calling program.
    #[error("{path}: row {row} is beyond the {rows} rows of the file")]
    OutOfRange {
        /// The file.
        path: String,
        /// First row that does not exist.
        row: usize,
        /// Number of rows.
        rows: usize,
    },
    /// No design can have this layout.
    #[error("{path}: {source}")]
    Design {
        /// The file.
        path: String,
        /// The reason.
        #[source]
        source: DesignError,
    },
}

/// A matrix with one row per record that stays in its file.
///
/// # Shapes
/// (n, d), row-major, as [`FileLayout`] says.
///
/// # Privacy
/// The bits of a row are those in the file, whatever block it is read in. Which parts of the file
/// are read, and when, shows to whoever watches the storage: for a random sample of rows that is
/// the sample.
pub struct DesignFile {
    file: File,
    path: String,
    layout: FileLayout,
    empty: Design,
    stamp: Stamp,
}

impl DesignFile {
    /// Opens a file, and checks that all rows are there.
    ///
    /// The file must not change while it is open. A file that gets shorter is an error when the
    /// missing rows are read; [`DesignFile::unchanged`] notices most other changes.
    ///
    /// # Errors
    /// [`DesignFileError`].
    pub fn open(path: impl AsRef<Path>, layout: FileLayout) -> Result<Self, DesignFileError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let read = |source| DesignFileError::Read {
            path: name.clone(),
            source,
        };
        let file = File::open(path).map_err(read)?;
        let stamp = Stamp::of(&file).map_err(read)?;
        Self::over(file, name, stamp, layout)
    }

    fn over(
        file: File,
        path: String,
        stamp: Stamp,
        layout: FileLayout,
    ) -> Result<Self, DesignFileError> {
        let found = stamp.length;
        let FileLayout {
            offset,
            rows,
            columns,
            entry,
        } = layout;
        // Width and scale are usable if a design can have them.
        let empty = match empty(layout) {
            Ok(empty) => empty,
            Err(source) => return Err(DesignFileError::Design { path, source }),
        };
        let needed = (rows as u64)
            .checked_mul(columns as u64)
            .and_then(|entries| entries.checked_mul(entry.bytes() as u64))
            .and_then(|bytes| bytes.checked_add(offset))
            .filter(|&bytes| bytes <= i64::MAX as u64);
        match needed {
            None => Err(DesignFileError::TooLarge {
                path,
                rows,
                columns,
            }),
            Some(needed) if needed > found => Err(DesignFileError::TooShort {
                path,
                rows,
                columns,
                needed,
                found,
            }),
            Some(_) => Ok(Self {
                file,
                path,
                layout,
                empty,
                stamp,
            }),
        }
    }

    /// Checks that length and times of the file are what they were when it was opened. A change that alters none of them is not noticed: one within the resolution of
    /// the clock of the file system, or one through a mapping that has not been written back.
    ///
    /// # Errors
    /// [`DesignFileError::Changed`], [`DesignFileError::Read`].
    pub fn unchanged(&self) -> Result<(), DesignFileError> {
        let path = || self.path.clone();
        match Stamp::of(&self.file) {
            Ok(stamp) if stamp == self.stamp => Ok(()),
            Ok(_) => Err(DesignFileError::Changed { path: path() }),
            Err(source) => Err(DesignFileError::Read {
                path: path(),
                source,
            }),
        }
    }

    /// A design without rows, of the storage that the file's rows have in memory.
    #[must_use]
    pub fn empty(&self) -> Design {
        self.empty.clone()
    }

    /// Reads rows into `design`, which comes from [`DesignFile::empty`] and keeps nothing of what it held. `span` is a
    /// buffer to reuse.
    ///
    /// # Errors
    /// [`DesignFileError::OutOfRange`], [`DesignFileError::Read`]; what `design` holds is unspecified then.
    pub fn read_into(
        &self,
        wanted: &Wanted<'_>,
        design: &mut Design,
        span: &mut Vec<u8>,
    ) -> Result<(), DesignFileError> {
        match wanted {
            Wanted::Range(rows) => {
                self.check(rows.end.max(rows.start))?;
                self.fill(design.raw(rows.len()), self.place(rows.start))?;
            }
            Wanted::Listed(positions) => self.gather(positions, design, span)?,
        }
        design.settle_raw();
        Ok(())
    }

    fn gather(
        &self,
        positions: &[u32],
        design: &mut Design,
        span: &mut Vec<u8>,
    ) -> Result<(), DesignFileError> {
        let width = self.row_bytes();
        for &position in positions {
            self.check(position as usize + 1)?;
        }
        let mut bytes = design.raw(positions.len());
        let mut rest = positions;
        while let [first, ..] = *rest {
            let near = near(rest, width as u64);
            let (group, after) = rest.split_at(near);
            let (own, others) = std::mem::take(&mut bytes).split_at_mut(near * width);
            let rows = (group[near - 1] - first) as usize + 1;
            if rows == near {
                self.fill(own, self.place(first as usize))?;
            } else {
                span.resize(rows * width, 0);
                self.fill(span, self.place(first as usize))?;
                for (row, &position) in own.chunks_exact_mut(width).zip(group) {
                    let at = (position - first) as usize * width;
                    row.copy_from_slice(&span[at..at + width]);
                }
            }
            (rest, bytes) = (after, others);
        }
        Ok(())
    }

    /// Number of rows, n.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Number of columns, d.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.layout.columns
    }

    /// Where the rows lie.
    #[must_use]
    pub fn layout(&self) -> FileLayout {
        self.layout
    }

    /// A good number of rows for one block: it depends on the layout alone.
    #[must_use]
    pub fn rows_per_block(&self) -> usize {
        (BLOCK_BYTES / self.row_bytes()).max(1)
    }

    /// A reader with a buffer of its own. Threads share the file and have a reader each.
    #[must_use]
    pub fn reader(&self) -> BlockReader<'_> {
        BlockReader {
            source: self,
            block: self.empty.clone(),
            span: Vec::new(),
        }
    }

    fn row_bytes(&self) -> usize {
        // Checked against the length of the file when it was opened.
        self.layout.columns * self.layout.entry.bytes()
    }

    fn place(&self, row: usize) -> u64 {
        self.layout.offset + row as u64 * self.row_bytes() as u64
    }

    fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<(), DesignFileError> {
        read_at(&self.file, bytes, offset).map_err(|source| DesignFileError::Read {
            path: self.path.clone(),
            source,
        })
    }

    fn check(&self, end: usize) -> Result<(), DesignFileError> {
        if end > self.layout.rows {
            return Err(DesignFileError::OutOfRange {
                path: self.path.clone(),
                row: self.layout.rows.max(end - 1),
                rows: self.layout.rows,
            });
        }
        Ok(())
    }
}

/// Reads blocks of rows into one buffer.
pub struct BlockReader<'f> {
    source: &'f DesignFile,
    block: Design,
    span: Vec<u8>,
}

impl BlockReader<'_> {
    /// Rows `rows.start..rows.end` as a design of that many rows, in the caller's hands until the
    /// next call: rescaling a row in it changes neither the file nor a later block.
    ///
    /// # Errors
    /// [`DesignFileError::OutOfRange`], [`DesignFileError::Read`].
    pub fn block(&mut self, rows: Range<usize>) -> Result<&mut Design, DesignFileError> {
        self.source
            .read_into(&Wanted::Range(rows), &mut self.block, &mut self.span)?;
        Ok(&mut self.block)
    }

    /// The rows at these positions, in their order, as a design of that many rows. Rows near each
    /// other are read together where the positions increase; for positions in any other order the
    /// result is the same and the reading slower.
    ///
    /// # Errors
    /// As for [`BlockReader::block`].
    pub fn gather(&mut self, positions: &[u32]) -> Result<&mut Design, DesignFileError> {
        self.source
            .read_into(&Wanted::Listed(positions), &mut self.block, &mut self.span)?;
        Ok(&mut self.block)
    }
}

/// How many of the first positions one read serves.
fn near(positions: &[u32], width: u64) -> usize {
    let first = positions[0];
    let together = |pair: &[u32]| {
        pair[1] > pair[0]
            && u64::from(pair[1] - pair[0] - 1) * width <= GAP_BYTES
            && (u64::from(pair[1] - first) + 1) * width <= SPAN_BYTES
    };
    1 + positions
        .windows(2)
        .take_while(|pair| together(pair))
        .count()
}

fn empty(layout: FileLayout) -> Result<Design, DesignError> {
    match layout.entry {
        FileEntry::F64 => Design::dense(layout.columns, Vec::new()),
        FileEntry::F32 => Design::dense32(layout.columns, Vec::new()),
        FileEntry::U8 { scale } => Design::bytes(layout.columns, Vec::new(), scale),
    }
}

#[cfg(unix)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes = &mut bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
