//! Public records of any shape, for exact evaluation.

use dpopt_linalg::Design;
use dpopt_privacy::ClipNorm;

use crate::data_error::DataError;
use crate::records::{Examples, Records};

/// Records declared to be outside the protection, as a loss sees them: test sets and synthetic
/// data. What is computed from them is exact and free.
///
/// There is no way from [`crate::PrivateData`] to here. Never build it from records that are to be
/// protected.
#[derive(Clone)]
pub struct PublicRecords<R = Examples> {
    records: R,
}

impl PublicRecords {
    /// Declares these rows with their labels public. They are brought under the same bounds, in the same way, as
    /// [`crate::PrivateData::new`] does, so the mean loss is that of a solver on the same rows.
    ///
    /// # Shapes
    /// `design`: (n, d); `labels`: n.
    ///
    /// # Errors
    /// [`DataError::LabelCount`].
    pub fn new(design: Design, labels: Vec<f32>, row_norm: ClipNorm) -> Result<Self, DataError> {
        let records = Examples::new(design, labels, row_norm)?;
        Ok(Self { records })
    }

    /// Clamps every label to `[-bound, bound]`, as [`crate::PrivateData::with_label_bound`] does.
    #[must_use]
    pub fn with_label_bound(mut self, bound: ClipNorm) -> Self {
        self.records.bound_labels(bound);
        self
    }
}

impl<R: Records> PublicRecords<R> {
    /// Declares records of any shape public.
    #[must_use]
    pub fn of(records: R) -> Self {
        Self { records }
    }

    /// The records.
    #[must_use]
    pub fn records(&self) -> &R {
        &self.records
    }
}
