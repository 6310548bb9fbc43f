//! The difference of (clipped) gradients at two points.

use dpopt_privacy::{Bound, ClipNorm, LatticeError};

use super::RowQuery;
use crate::data::Record;
use crate::loss::Glm;

/// (slope_c(<w, x>) - slope_c(<w', x>)) x, where slope_c is phi' clamped so that the gradient has
/// norm at most `clip`.
///
/// Clamping is 1-Lipschitz, so the difference is at most L1 ||w - w'|| long as that of the
/// unclamped gradients is; the radius is min(L1 ||w - w'||, 2 clip), and both points are public.
/// The lattice sum enforces the radius whatever the constants are worth.
pub(crate) struct GradientDifference<'a> {
    pub(crate) loss: Glm,
    /// Where the difference starts.
    pub(crate) from: &'a [f64],
    /// w - w', computed once from the coordinates.
    pub(crate) displacement: &'a [f64],
    /// min(L1 ||w - w'||, 2 clip), rounded up; nothing for equal points.
    pub(crate) radius: Option<ClipNorm>,
    pub(crate) clip: ClipNorm,
}

impl RowQuery for GradientDifference<'_> {
    fn bound(&self) -> Result<Option<Bound>, LatticeError> {
        self.radius
            .map(|radius| Bound::new(radius, self.from.len()))
            .transpose()
    }

    fn multiple(&self, record: &Record<'_>) -> f64 {
        let z = record.row.dot(self.from);
        let dz = record.row.dot(self.displacement);
        let cap = self.clip.get() / record.norm;
        let (before, after) = (
            self.loss.slope(z, record.label),
            self.loss.slope(z + dz, record.label),
        );
        if before.abs() <= cap && after.abs() <= cap {
            self.loss.slope_change(z, dz, record.label)
        } else {
            after.clamp(-cap, cap) - before.clamp(-cap, cap)
        }
    }

    fn gradients_per_record(&self) -> u64 {
        2
    }
}
