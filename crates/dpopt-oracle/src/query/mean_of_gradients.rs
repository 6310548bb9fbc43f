//! A record's gradients at several points, as one contribution.

use dpopt_privacy::{Bound, ClipNorm, LatticeError};

use super::of_record::Query;
use crate::loss::{Differentiable, RecordOf};

/// (1/W) sum over W public points of grad f(y_t; x), clipped to a radius once, after the mean (L0 leaves it whole).
///
/// # Privacy
/// One contribution for each record, however many points there are: the sensitivity is that of one gradient.
#[derive(Debug, Clone, Copy)]
pub struct MeanOfGradients<'a> {
    points: &'a [f64],
    dim: usize,
    clip: ClipNorm,
}

impl<'a> MeanOfGradients<'a> {
    /// At the points that lie one after another in `points`; none unless these are W >= 1 points of `dim` coordinates.
    ///
    /// # Shapes
    /// `points`: W x d.
    #[must_use]
    pub fn new(points: &'a [f64], dim: usize, clip: ClipNorm) -> Option<Self> {
        let whole = dim > 0 && !points.is_empty() && points.len().is_multiple_of(dim);
        whole.then_some(Self { points, dim, clip })
    }

    /// W.
    #[must_use]
    pub fn count(&self) -> usize {
        self.points.len() / self.dim
    }
}

impl<L: Differentiable> Query<L> for MeanOfGradients<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.clip, self.dim).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.dim == dim
    }

    fn gradients_per_record(&self) -> f64 {
        self.count() as f64
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut gradient = vec![0.0; out.len()];
        for point in self.points.chunks_exact(self.dim) {
            gradient.fill(0.0);
            loss.gradient(record, point, &mut gradient);
            dpopt_linalg::add_scaled(out, 1.0 / self.count() as f64, &gradient);
        }
    }
}
