//! The slope along one public direction.

use dpopt_linalg::dot;
use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::of_record::Query;
use crate::loss::{Differentiable, RecordOf, add_contribution, guarded};
use crate::positions::Positions;
use crate::records::Records;

/// <grad f(w; x), u>, clipped to `[-radius, radius]` (L0 ||u|| leaves it whole): one coordinate, so that its noise has no sqrt d.
///
/// # Privacy
/// A function of one record and of public vectors, clipped by the sum: legal under every adjacency. A row of zeros contributes zero where its
/// gradient is zero, as for gradients. A direction that was read from the same records is public because **its** release was charged; this
/// release is another one.
#[derive(Debug, Clone, Copy)]
pub struct Directional<'a> {
    /// w.
    pub point: &'a [f64],
    /// u; public.
    pub direction: &'a [f64],
    /// The clip radius; public.
    pub radius: ClipNorm,
}

impl Directional<'_> {
    /// Whether both vectors have `dim` coordinates. Asked before a record is read.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.direction.len() == dim
    }

    fn of<L: Differentiable>(
        &self,
        loss: &L,
        record: RecordOf<'_, L>,
        gradient: &mut [f64],
    ) -> f64 {
        loss.gradient(record, self.point, gradient);
        dot(gradient, self.direction)
    }
}

impl<L: Differentiable> Query<L> for Directional<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.radius, 1).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        Directional::fits(self, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        1.0
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        out[0] += self.of(loss, record, &mut vec![0.0; self.point.len()]);
    }

    /// With one buffer for all records.
    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        let mut gradient = vec![0.0; self.point.len()];
        for i in positions.iter() {
            gradient.fill(0.0);
            let mut along = [0.0];
            let finished = guarded::<L, _>(|| {
                along[0] = self.of(loss, records.record(i), &mut gradient);
            });
            add_contribution(sum, finished, &along);
        }
    }
}
