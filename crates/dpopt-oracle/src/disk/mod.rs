//! Examples that stay in their file: data larger than memory.
//!
//! A pass visits blocks. Each becomes an [`Examples`] in a buffer that is reused, whose rows and labels are brought under their bounds
//! by the code that does it in memory, and the loss's own pass goes over it. Sums are exact, so the cut into blocks leaves no
//! trace in them. Sums in blocks of fixed positions are not exact, so there are none here. `docs/privacy/estimator.md` has the argument.

mod ordered;
mod pass;
#[cfg(test)]
mod places_tests;
mod source;
#[cfg(test)]
mod tests;

use dpopt_linalg::{DesignFile, RowFile};
use dpopt_privacy::{ClipNorm, LatticeSum};

use crate::data_error::DataError;
use crate::error::AskError;
use crate::positions::{Places, Positions};
use crate::records::Examples;

use ordered::Ordered;
use pass::AddPart;
use source::{Blocks, Rows};

/// Records of which only parts are in memory at a time.
pub(crate) trait Stored<R>: Send + Sync {
    /// Number of records. Private under add/remove.
    fn len(&self) -> usize;

    /// Has positions in a random order of runs of neighbours, and within each, in place of the order of the file. How many neighbours a run
    /// has is public.
    fn put_in_order(&mut self, seed: u64) -> usize;

    /// The first of these records is at this position among those of all ranks.
    fn place_from(&mut self, first: usize);

    /// The sum of what `add` adds for the records at `places`. `face` has the public bounds and no records; so many
    /// `threads` compute, and as many read ahead of them.
    ///
    /// # Errors
    /// [`AskError::Unreadable`]; the sum is dropped then.
    fn pass(
        &self,
        face: &R,
        places: Places<'_>,
        empty: &(dyn Fn() -> LatticeSum + Sync),
        threads: usize,
        add: &AddPart<'_, R>,
    ) -> Result<LatticeSum, AskError>;
}

impl<S: Blocks> Stored<Examples> for S {
    fn len(&self) -> usize {
        Blocks::len(self)
    }

    fn put_in_order(&mut self, seed: u64) -> usize {
        Blocks::put_in_order(self, seed)
    }

    fn place_from(&mut self, first: usize) {
        Blocks::place_from(self, first);
    }

    fn pass(
        &self,
        face: &Examples,
        places: Places<'_>,
        empty: &(dyn Fn() -> LatticeSum + Sync),
        threads: usize,
        add: &AddPart<'_, Examples>,
    ) -> Result<LatticeSum, AskError> {
        let listed = self.rows_at(&places);
        let rows = match &listed {
            Some(rows) => Positions::Listed(rows),
            None => places.without_order(),
        };
        pass::pass(self, face, &rows, empty, threads, add)
    }
}

/// Rows of features with a label each that stay in their file. [`crate::PrivateData::on_disk`] protects them.
///
/// # Memory
/// For each thread two blocks of 256 KiB, or of one row where that is longer; in place, a label of 4 bytes for each row.
///
/// # Privacy
/// Each row that is read is brought under the public bounds as it would be in memory, in every pass: what a file holds, and
/// whether it was changed, has no part in the length of a contribution. Which parts of the file are read, and when, shows to
/// whoever watches the storage; blocks without a record of a sample are skipped.
pub struct ExamplesOnDisk {
    rows: Ordered,
    row_norm: ClipNorm,
}

impl ExamplesOnDisk {
    /// The rows and labels of a file of rows. `row_norm` is the public bound on row norms.
    #[must_use]
    pub fn new(rows: RowFile, row_norm: ClipNorm) -> Self {
        Self {
            rows: Ordered::as_they_come(Rows::Own(rows)),
            row_norm,
        }
    }

    /// Dense rows where they lie, such as those of an NPY file, and their labels in memory.
    ///
    /// # Errors
    /// [`DataError::LabelCount`].
    pub fn in_place(
        rows: DesignFile,
        labels: Vec<f32>,
        row_norm: ClipNorm,
    ) -> Result<Self, DataError> {
        if rows.rows() != labels.len() {
            return Err(DataError::LabelCount);
        }
        Ok(Self {
            rows: Ordered::as_they_come(Rows::InPlace(rows, labels)),
            row_norm,
        })
    }

    /// No rows, and everything else that is public.
    pub(crate) fn face(&self) -> Examples {
        Examples::empty(&self.rows.rows.empty(), self.row_norm, None)
    }

    /// The records behind the face.
    pub(crate) fn stored(self) -> Box<dyn Stored<Examples>> {
        Box::new(self.rows)
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        Blocks::len(&self.rows)
    }
}
