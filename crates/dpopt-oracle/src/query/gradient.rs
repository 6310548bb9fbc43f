//! The gradient at a point, clipped to a public radius.

use dpopt_privacy::{Bound, ClipNorm, LatticeError};

use super::RowQuery;
use crate::data::Record;
use crate::loss::Glm;

/// phi'(<w, x>, y) x, clipped to `clip`.
pub(crate) struct Gradient<'a> {
    pub(crate) loss: Glm,
    pub(crate) point: &'a [f64],
    pub(crate) clip: ClipNorm,
}

impl RowQuery for Gradient<'_> {
    fn bound(&self) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.clip, self.point.len()).map(Some)
    }

    fn multiple(&self, record: &Record<'_>) -> f64 {
        self.loss.slope(record.row.dot(self.point), record.label)
    }

    fn gradients_per_record(&self) -> u64 {
        1
    }
}
