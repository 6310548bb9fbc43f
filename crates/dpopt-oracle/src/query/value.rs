//! The loss at a point, clipped to a public range.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::of_record::Query;
use crate::loss::{Less, Loss, RecordOf, ValuesOf};
use crate::positions::Positions;

/// f(w; x) - `centre`, clipped to `[-radius, radius]`: one coordinate.
///
/// Refused under zero-out adjacency: the value of a row of zeros is not zero.
///
/// With `centre` the middle of a loss's range the radius is half of it. Add `centre` to what is
/// released.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// w.
    pub point: &'a [f64],
    /// Subtracted from each value; public.
    pub centre: f64,
    /// The clip radius.
    pub radius: ClipNorm,
}

impl<L: Loss> Query<L> for Value<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.radius, 1).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim
    }

    fn gradients_per_record(&self) -> f64 {
        0.0
    }

    fn vanishes_on_zero_rows(&self) -> bool {
        false
    }

    fn values_per_record(&self) -> f64 {
        1.0
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        out[0] += loss.value(record, self.point) - self.centre;
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        let (point, less) = (self.point, Less::Number(self.centre));
        loss.add_values(records, positions, &ValuesOf { point, less }, sum);
    }
}
