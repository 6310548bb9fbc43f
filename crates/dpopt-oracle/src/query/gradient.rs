//! The gradient at a point, clipped to a public radius.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::Query;
use crate::loss::{Differentiable, RecordOf};
use crate::pass::Positions;

/// grad f(w; x), clipped to `clip`.
#[derive(Debug, Clone, Copy)]
pub struct Gradient<'a> {
    /// w.
    pub point: &'a [f64],
    /// The clip radius C.
    pub clip: ClipNorm,
}

impl<L: Differentiable> Query<L> for Gradient<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.clip, self.point.len()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim
    }

    fn gradients_per_record(&self) -> f64 {
        1.0
    }

    fn sums_in_blocks(&self) -> bool {
        L::SUMS_IN_BLOCKS
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        loss.gradient(record, self.point, out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        loss.add_gradients(records, positions, self.point, sum);
    }
}
