//! Reading blocks of rows from a file of rows.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::header::{Header, LENGTH};
use super::{MAX_BLOCK_BYTES, RowFileError, RowFileProblem};
use crate::design::{Design, Wanted};
use crate::file::read_at;
use crate::stamp::Stamp;

/// Rows nearer than this to each other are read at once. Tuned: about what a read of its own costs in bytes.
const GAP_BYTES: u64 = 1 << 14;
/// Bytes of the index that are read at a time.
const PIECE: usize = 1 << 16;

/// Rows with a label each that stay in their file (see the format in the source of this module and `docs/tables.md`).
///
/// # Privacy
/// The bits of a row are those in the file, whatever is read beside it. Which parts of the file are read, and when, shows to
/// whoever watches the storage: for a random sample of rows that is the sample. It holds private records: nothing here prints
/// them.
pub struct RowFile {
    file: File,
    path: String,
    header: Header,
    empty: Design,
    note: String,
    /// First row and offset of each block, and what would be those of one more; for sparse storages.
    index: Vec<(u64, u64)>,
    stamp: Stamp,
}

impl RowFile {
    /// Opens a file and checks its header, its length and its index; no row is read.
    ///
    /// # Errors
    /// [`RowFileError`]; never for what a row holds.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RowFileError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        Self::read(path, &name).map_err(|problem| problem.of(&name))
    }

    fn read(path: &Path, name: &str) -> Result<Self, RowFileProblem> {
        let file = File::open(path)?;
        let stamp = Stamp::of(&file)?;
        let mut start = [0; LENGTH];
        let found = stamp.length.min(LENGTH as u64) as usize;
        read_at(&file, &mut start[..found], 0)?;
        let header = Header::read(&start[..found])?;
        let empty = header.empty()?;
        let rows = header.rows.unwrap_or(0);
        if usize::try_from(rows).is_err() {
            return Err(RowFileProblem::Header("more rows than memory can address"));
        }
        if header.data() > stamp.length {
            return Err(RowFileProblem::Truncated);
        }
        if let Some(stride) = header.stride() {
            let end = rows
                .checked_mul(stride)
                .and_then(|bytes| bytes.checked_add(header.data()))
                .ok_or(RowFileProblem::Header("more bytes than a file can have"))?;
            length_is(stamp.length, end)?;
        }
        let mut note = vec![0; header.note as usize];
        read_at(&file, &mut note, LENGTH as u64)?;
        let note = String::from_utf8(note)
            .map_err(|_| RowFileProblem::Header("the note is not UTF-8 text"))?;
        let index = if header.stride().is_some() {
            Vec::new()
        } else {
            read_index(&file, &header, stamp.length)?
        };
        Ok(Self {
            file,
            path: name.to_owned(),
            header,
            empty,
            note,
            index,
            stamp,
        })
    }

    /// Number of rows, n. Private where the number of records is.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.header.rows.unwrap_or(0) as usize
    }

    /// Number of columns, d.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.empty.columns()
    }

    /// The public bound on row norms that the file states; rows are not checked against it here.
    #[must_use]
    pub fn row_norm(&self) -> Option<f64> {
        Some(self.header.row_norm).filter(|&norm| norm > 0.0)
    }

    /// The writer's note: the schema, for a table.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The file's name, for messages.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.header.blocks as usize
    }

    /// Rows of a block, all alike but the last; none for sparse and one-hot rows, whose blocks end where their entries have them end.
    #[must_use]
    pub fn rows_per_block(&self) -> Option<usize> {
        let alike = self.header.stride().is_some();
        alike.then_some(self.header.block_rows as usize)
    }

    /// The rows of block `k`; none where there is no such block.
    #[must_use]
    pub fn block(&self, k: usize) -> Range<usize> {
        if self.header.stride().is_some() {
            let size = self.header.block_rows as usize;
            let at = |k: usize| k.saturating_mul(size).min(self.rows());
            return at(k)..at(k.saturating_add(1));
        }
        match self.index.get(k..k.saturating_add(2)) {
            Some([(first, _), (end, _)]) => *first as usize..*end as usize,
            _ => self.rows()..self.rows(),
        }
    }

    /// A design without rows, of the storage of the file's rows.
    #[must_use]
    pub fn empty(&self) -> Design {
        self.empty.clone()
    }

    /// A reader with a buffer of its own. Threads share the file and have a reader each.
    #[must_use]
    pub fn reader(&self) -> RowReader<'_> {
        RowReader {
            source: self,
            bytes: Vec::new(),
        }
    }

    /// All rows and labels, in memory.
    ///
    /// # Errors
    /// As for [`RowReader::read`].
    pub fn load(&self) -> Result<(Design, Vec<f32>), RowFileError> {
        let (mut design, mut labels) = (self.empty(), Vec::new());
        let (mut block, mut some) = (self.empty(), Vec::new());
        let mut reader = self.reader();
        for k in 0..self.blocks() {
            let rows = Wanted::Range(self.block(k));
            reader.read(k, &rows, &mut block, &mut some)?;
            let appended = design.append(&block);
            appended.map_err(|problem| RowFileProblem::Design(problem).of(&self.path))?;
            labels.extend_from_slice(&some);
        }
        Ok((design, labels))
    }

    /// Checks that length and times of the file are what they were when it was opened. A change that alters none of them is
    /// not noticed: one within the resolution of the clock of the file system, or one through a mapping that has not been
    /// written back.
    ///
    /// # Errors
    /// [`RowFileProblem::Changed`], [`RowFileProblem::Io`].
    pub fn unchanged(&self) -> Result<(), RowFileError> {
        let same = Stamp::of(&self.file).map(|stamp| stamp == self.stamp);
        match same {
            Ok(true) => Ok(()),
            Ok(false) => Err(RowFileProblem::Changed.of(&self.path)),
            Err(error) => Err(RowFileProblem::Io(error).of(&self.path)),
        }
    }
}

/// Reads blocks of rows.
pub struct RowReader<'f> {
    source: &'f RowFile,
    bytes: Vec<u8>,
}

impl RowReader<'_> {
    /// Reads rows of block `k` and their labels. `wanted` are numbers of rows of the file, all of this block; `design` comes
    /// from [`RowFile::empty`]; neither it nor `labels` keeps anything of what it held.
    ///
    /// A row of a sparse storage whose columns don't increase or are out of range is an empty one, and an invalid factor
    /// erases its row: a [`super::RowFileWriter`] writes neither.
    ///
    /// # Errors
    /// [`RowFileError`]; what `design` and `labels` hold is unspecified then. Never for what a row holds.
    pub fn read(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        design: &mut Design,
        labels: &mut Vec<f32>,
    ) -> Result<(), RowFileError> {
        let path = &self.source.path;
        let read = self.fill(k, wanted, design, labels);
        read.map_err(|problem| problem.of(path))
    }

    fn fill(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        design: &mut Design,
        labels: &mut Vec<f32>,
    ) -> Result<(), RowFileProblem> {
        let block = self.source.block(k);
        labels.clear();
        if wanted.is_empty() {
            design.clear();
            return Ok(());
        }
        let inside = match wanted {
            Wanted::Range(rows) => block.start <= rows.start && rows.end <= block.end,
            Wanted::Listed(rows) => {
                rows.windows(2).all(|pair| pair[0] < pair[1])
                    && rows.iter().all(|&row| block.contains(&(row as usize)))
            }
        };
        if !inside || design.kind() != self.source.empty.kind() {
            return Err(RowFileProblem::OutOfRange);
        }
        match self.source.header.stride() {
            Some(stride) => self.dense(&block, stride, wanted, design, labels),
            None => self.sparse(k, &block, wanted, design, labels),
        }
    }

    fn dense(
        &mut self,
        block: &Range<usize>,
        stride: u64,
        wanted: &Wanted<'_>,
        design: &mut Design,
        labels: &mut Vec<f32>,
    ) -> Result<(), RowFileProblem> {
        let Self { source, bytes } = self;
        let factors = source.header.kind == 2;
        let heads = 1 + usize::from(factors);
        let offset = source.header.data() + block.start as u64 * stride;
        let head = 4 * heads * block.len();
        bytes.resize(head, 0);
        read_at(&source.file, bytes, offset)?;
        let (numbers, _) = bytes.as_chunks::<4>();
        let (all, scales) = numbers.split_at(block.len());
        let number = |from: &[[u8; 4]], row: usize| f32::from_le_bytes(from[row - block.start]);
        labels.extend(wanted.iter().map(|row| number(all, row)));
        let width = stride - 4 * heads as u64;
        let entries = offset + head as u64;
        let mut raw = design.raw(wanted.len());
        for run in runs(wanted, width) {
            let first = (run.rows.start - block.start) as u64;
            let (own, rest) = std::mem::take(&mut raw).split_at_mut(run.count * width as usize);
            raw = rest;
            if run.count == run.rows.len() {
                read_at(&source.file, own, entries + first * width)?;
                continue;
            }
            let mut span = vec![0; run.rows.len() * width as usize];
            read_at(&source.file, &mut span, entries + first * width)?;
            let picked = wanted.iter().skip(run.before).take(run.count);
            for (row, at) in own.chunks_exact_mut(width as usize).zip(picked) {
                let start = (at - run.rows.start) * width as usize;
                row.copy_from_slice(&span[start..start + width as usize]);
            }
        }
        design.settle_raw();
        if factors {
            design.set_factors(wanted.iter().map(|row| number(scales, row)));
        }
        Ok(())
    }

    fn sparse(
        &mut self,
        k: usize,
        block: &Range<usize>,
        wanted: &Wanted<'_>,
        design: &mut Design,
        labels: &mut Vec<f32>,
    ) -> Result<(), RowFileProblem> {
        let Self { source, bytes } = self;
        let [(_, start), (_, end)] = source.index[k..k + 2] else {
            return Err(RowFileProblem::OutOfRange);
        };
        // Blocks were checked to be small when the file was opened.
        bytes.resize((end - start) as usize, 0);
        read_at(&source.file, bytes, start)?;
        let one_hot = source.header.kind == 4;
        let (head, entry) = source.header.sparse_bytes();
        let count = block.len();
        let (head, rest) = bytes.split_at(head as usize * count);
        let (numbers, _) = head.as_chunks::<4>();
        let length = |at: usize| u64::from(u32::from_le_bytes(numbers[count + at]));
        let stored: u64 = (0..count).map(length).sum();
        if stored * entry != rest.len() as u64 {
            return Err(RowFileProblem::Block);
        }
        let (columns, entries) = rest.split_at(4 * stored as usize);
        design.clear();
        let (mut at, mut from) = (0, 0usize);
        for row in wanted.iter() {
            let row = row - block.start;
            from += (at..row).map(|i| length(i) as usize).sum::<usize>();
            let to = from + length(row) as usize;
            labels.push(f32::from_le_bytes(numbers[row]));
            let factor = if one_hot {
                f32::from_le_bytes(numbers[2 * count + row])
            } else {
                0.0
            };
            let own = if one_hot {
                &[][..]
            } else {
                &entries[4 * from..4 * to]
            };
            design.push_stored(&columns[4 * from..4 * to], own, factor);
            (at, from) = (row + 1, to);
        }
        Ok(())
    }
}

/// Rows that one read serves.
struct Run {
    rows: Range<usize>,
    /// How many of them are wanted, and how many wanted ones come before them.
    count: usize,
    before: usize,
}

fn runs<'w>(wanted: &'w Wanted<'_>, width: u64) -> impl Iterator<Item = Run> + 'w {
    let mut before = 0;
    std::iter::from_fn(move || {
        let run = match wanted {
            Wanted::Range(rows) if before == 0 => Run {
                rows: rows.clone(),
                count: rows.len(),
                before,
            },
            Wanted::Range(_) => return None,
            Wanted::Listed(list) => {
                let (&first, rest) = list.get(before..)?.split_first()?;
                let mut last = first;
                let near = rest.iter().take_while(|&&row| {
                    let near = u64::from(row - last - 1) * width <= GAP_BYTES;
                    if near {
                        last = row;
                    }
                    near
                });
                let count = 1 + near.count();
                Run {
                    rows: first as usize..last as usize + 1,
                    count,
                    before,
                }
            }
        };
        before += run.count;
        Some(run)
    })
}

fn length_is(found: u64, needed: u64) -> Result<(), RowFileProblem> {
    match found.cmp(&needed) {
        std::cmp::Ordering::Less => Err(RowFileProblem::Truncated),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(RowFileProblem::Trailing),
    }
}

/// The index of a sparse storage, at the end of the file. Its size is compared with the file's before room is made for it.
fn read_index(
    file: &File,
    header: &Header,
    length: u64,
) -> Result<Vec<(u64, u64)>, RowFileProblem> {
    let entries = header.blocks.checked_add(1);
    let bytes = entries.and_then(|entries| entries.checked_mul(16));
    let start = bytes
        .and_then(|bytes| length.checked_sub(bytes))
        .filter(|&start| start >= header.data())
        .ok_or(RowFileProblem::Truncated)?;
    let (head, entry) = header.sparse_bytes();
    let mut index: Vec<(u64, u64)> = Vec::new();
    let mut piece = vec![0; PIECE];
    let mut at = start;
    while at < length {
        let bytes = (length - at).min(PIECE as u64) as usize;
        read_at(file, &mut piece[..bytes], at)?;
        let (words, _) = piece[..bytes].as_chunks::<8>();
        let (pairs, _) = words.as_chunks::<2>();
        for pair in pairs {
            let [row, offset] = pair.map(u64::from_le_bytes);
            let fits = match index.last() {
                None => (row, offset) == (0, header.data()),
                Some(&(before, from)) => {
                    // An entry takes a column's number at least, so no row has more than its columns.
                    let most = MAX_BLOCK_BYTES.max(head + entry * header.columns);
                    row > before
                        && offset >= from
                        && offset - from <= most
                        && (row - before)
                            .checked_mul(head)
                            .is_some_and(|heads| heads <= offset - from)
                }
            };
            if !fits {
                return Err(RowFileProblem::Header("the index does not fit the file"));
            }
            index.push((row, offset));
        }
        at += bytes as u64;
    }
    // One that was cut short or goes on has its index elsewhere.
    if index.last().copied() != header.rows.map(|rows| (rows, start)) {
        return Err(RowFileProblem::Header("the index does not fit the file"));
    }
    Ok(index)
}
