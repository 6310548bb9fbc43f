//! The difference of clipped gradients at two points.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::Query;
use crate::loss::{Differentiable, RecordOf, Segment};
use crate::pass::Positions;

/// clip(grad f(w; x)) - clip(grad f(w'; x)), each gradient clipped to `clip`.
///
/// Clipping is 1-Lipschitz, so the difference is at most L1 ||w - w'|| long as that of the
/// unclipped gradients is; the radius is min(L1 ||w - w'||, 2 clip), and both points are public.
/// The sum enforces the radius whatever the constants are worth.
#[derive(Debug, Clone, Copy)]
pub struct GradientDifference<'a> {
    /// From w' to w.
    pub segment: Segment<'a>,
    /// min(L1 ||w - w'||, 2 clip), rounded up; none for equal points.
    pub radius: Option<ClipNorm>,
    /// The clip radius C of each gradient.
    pub clip: ClipNorm,
}

impl GradientDifference<'_> {
    /// What clipping leaves of a gradient, as a factor.
    fn kept(&self, gradient: &[f64]) -> f64 {
        let norm = dpopt_linalg::norm(gradient);
        let clip = self.clip.get();
        if norm <= clip { 1.0 } else { clip / norm }
    }
}

impl<L: Differentiable> Query<L> for GradientDifference<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        self.radius
            .map(|radius| Bound::new(radius, self.segment.from.len()))
            .transpose()
    }

    fn fits(&self, dim: usize) -> bool {
        self.segment.fits(dim)
    }

    fn gradients_per_record(&self) -> f64 {
        2.0
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut before = vec![0.0; out.len()];
        let mut after = before.clone();
        loss.gradient(record, self.segment.from, &mut before);
        loss.gradient(record, self.segment.to, &mut after);
        let (kept_before, kept_after) = (self.kept(&before), self.kept(&after));
        if kept_before == 1.0 && kept_after == 1.0 {
            loss.gradient_change(record, &self.segment, out);
            return;
        }
        for ((out, before), after) in out.iter_mut().zip(&before).zip(&after) {
            *out += after * kept_after - before * kept_before;
        }
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        loss.add_changes(records, positions, &self.segment, self.clip.get(), sum);
    }
}
