//! Blocks of rows of a file, read into buffers for a pass.

use std::io;
use std::ops::Range;

use dpopt_linalg::{
    Design, DesignFile, DesignFileError, RowFile, RowFileError, RowFileProblem, RowReader, Wanted,
};
use zeroize::Zeroizing;

use crate::error::AskError;
use crate::positions::Places;
use crate::records::{Examples, Slots};

/// Neighbours in a run of sparse rows: a block's worth of some 30 entries each. A choice.
const RUN: usize = 1024;

/// Rows with labels, in blocks.
pub(crate) trait Blocks: Send + Sync {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Number of blocks.
    fn blocks(&self) -> usize;

    /// The rows of block `k`: those after block `k - 1`.
    fn block(&self, k: usize) -> Range<usize>;

    /// Has positions in a random order of runs of neighbours, and within each; gives the public length of a run.
    fn put_in_order(&mut self, seed: u64) -> usize;

    /// What goes by position goes by that of all ranks: the first row's is this.
    fn place_from(&mut self, first: usize);

    /// The rows at these places, increasing; none where they are the rows of these numbers. **Secret** for a sample.
    fn rows_at(&self, places: &Places<'_>) -> Option<Zeroizing<Vec<u32>>>;

    /// Refuses a file that was changed after it was opened, as far as that can be seen.
    fn unchanged(&self) -> Result<(), AskError>;

    /// A reader for one thread.
    fn reader(&self) -> Box<dyn ReadBlock + '_>;
}

/// Reads blocks.
pub(crate) trait ReadBlock: Send {
    /// Puts the wanted rows, all of block `k`, and their labels where `examples` has them; they are not under their bounds
    /// yet.
    fn read(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        examples: &mut Examples,
    ) -> Result<(), AskError>;
}

/// Where rows lie.
pub(super) enum Rows {
    /// In a file of rows, with their labels.
    Own(RowFile),
    /// Dense in any file, with labels in memory.
    InPlace(DesignFile, Vec<f32>),
}

impl Rows {
    pub(super) fn empty(&self) -> Design {
        match self {
            Rows::Own(file) => file.empty(),
            Rows::InPlace(file, _) => file.empty(),
        }
    }
}

impl Rows {
    /// How many neighbours to keep together: a block's worth where that is public, and **not the blocks themselves** of sparse rows, which
    /// end where the entries of records have them end.
    pub(super) fn run(&self) -> usize {
        match self {
            Rows::Own(file) => file.rows_per_block().unwrap_or(RUN),
            Rows::InPlace(file, _) => file.rows_per_block(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Own(file) => file.rows(),
            Rows::InPlace(file, _) => file.rows(),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        match self {
            Rows::Own(file) => file.blocks(),
            Rows::InPlace(file, _) => file.rows().div_ceil(file.rows_per_block()),
        }
    }

    pub(super) fn block(&self, k: usize) -> Range<usize> {
        match self {
            Rows::Own(file) => file.block(k),
            Rows::InPlace(file, _) => {
                let at = |k: usize| k.saturating_mul(file.rows_per_block()).min(file.rows());
                at(k)..at(k.saturating_add(1))
            }
        }
    }

    pub(super) fn unchanged(&self) -> Result<(), AskError> {
        match self {
            Rows::Own(file) => file.unchanged().map_err(of_rows),
            Rows::InPlace(file, _) => file.unchanged().map_err(of_design),
        }
    }

    pub(super) fn reader(&self) -> Box<dyn ReadBlock + '_> {
        match self {
            Rows::Own(file) => Box::new(file.reader()),
            Rows::InPlace(file, labels) => Box::new(InPlace {
                file,
                labels,
                span: Vec::new(),
            }),
        }
    }
}

impl ReadBlock for RowReader<'_> {
    fn read(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        examples: &mut Examples,
    ) -> Result<(), AskError> {
        let (design, labels, slots) = examples.buffers();
        RowReader::read(self, k, wanted, design, labels).map_err(of_rows)?;
        place(wanted, slots);
        Ok(())
    }
}

struct InPlace<'f> {
    file: &'f DesignFile,
    labels: &'f [f32],
    span: Vec<u8>,
}

impl ReadBlock for InPlace<'_> {
    fn read(
        &mut self,
        _: usize,
        wanted: &Wanted<'_>,
        examples: &mut Examples,
    ) -> Result<(), AskError> {
        let (design, labels, slots) = examples.buffers();
        let read = self.file.read_into(wanted, design, &mut self.span);
        read.map_err(of_design)?;
        labels.clear();
        labels.extend(wanted.iter().filter_map(|row| self.labels.get(row)));
        place(wanted, slots);
        Ok(())
    }
}

/// Notes which rows were read.
fn place(wanted: &Wanted<'_>, slots: &mut Slots) {
    match (wanted, slots) {
        (Wanted::Range(rows), slots) => *slots = Slots::From(rows.start),
        (Wanted::Listed(list), Slots::Listed(old)) => {
            old.clear();
            old.extend_from_slice(list);
        }
        (Wanted::Listed(list), slots) => *slots = Slots::Listed(list.to_vec()),
    }
}

fn of_rows(error: RowFileError) -> AskError {
    let kind = match error.problem {
        RowFileProblem::Io(error) => error.kind(),
        _ => io::ErrorKind::InvalidData,
    };
    AskError::Unreadable {
        path: error.path,
        kind,
    }
}

fn of_design(error: DesignFileError) -> AskError {
    let invalid = io::ErrorKind::InvalidData;
    let (path, kind) = match error {
        DesignFileError::Read { path, source } => (path, source.kind()),
        DesignFileError::Changed { path }
        | DesignFileError::TooShort { path, .. }
        | DesignFileError::TooLarge { path, .. }
        | DesignFileError::OutOfRange { path, .. }
        | DesignFileError::Design { path, .. } => (path, invalid),
        _ => (String::new(), invalid),
    };
    AskError::Unreadable { path, kind }
}
