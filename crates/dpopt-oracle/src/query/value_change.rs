//! How the loss changes from one point to another, clipped to a public range.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::of_record::Query;
use crate::loss::{Less, Loss, RecordOf, ValuesOf};
use crate::positions::Positions;

/// f(w; x) - f(w'; x), clipped to `[-radius, radius]`: one coordinate.
///
/// For an L-Lipschitz loss the radius L ||w - w'|| clips nothing, and the noise is in proportion to the way. What
/// is lost to cancellation is accuracy: the clip is of the difference.
///
/// # Privacy
/// A function of one record and of two public points, clipped by the sum: legal under every adjacency. A row of zeros contributes zero
/// where the loss has one value there at all points, as for gradients.
#[derive(Debug, Clone, Copy)]
pub struct ValueChange<'a> {
    /// w'.
    pub from: &'a [f64],
    /// w.
    pub to: &'a [f64],
    /// The clip radius; public.
    pub radius: ClipNorm,
}

impl ValueChange<'_> {
    /// Whether both points have `dim` coordinates. Asked before a record is read.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        self.from.len() == dim && self.to.len() == dim
    }
}

impl<L: Loss> Query<L> for ValueChange<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.radius, 1).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        ValueChange::fits(self, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        0.0
    }

    fn values_per_record(&self) -> f64 {
        2.0
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        out[0] += loss.value(record, self.to) - loss.value(record, self.from);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        let (point, less) = (self.to, Less::At(self.from));
        loss.add_values(records, positions, &ValuesOf { point, less }, sum);
    }
}
