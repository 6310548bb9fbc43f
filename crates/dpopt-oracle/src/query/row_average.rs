//! The linear query of losses averaged along the records' own rows.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::Linear;
use super::of_record::Query;
use crate::loss::{AlongRows, Differentiable, RecordOf};
use crate::positions::Positions;

/// A [`Linear`] query of the field that has each record's loss averaged along its own row.
///
/// # Formula
/// With e = x/||x||, x the record's row, and t uniform on [-r, r]: f^r(w; x) = E f(w + t e; x), whose gradient is
///
/// grad f^r(w; x) = E grad f(w + t e; x) = (f(w + r e; x) - f(w - r e; x))/(2 r) e  (for a loss of <w, x>).
///
/// For an L-Lipschitz loss of <w, x> it is at most L long and changes by at most L ||w - w'||/r; it is a mean of gradients of the record at
/// points within r of w. (`docs/theory/goldstein.md`, Theorem 5.)
///
/// # Privacy
/// That of the linear query: a contribution is a function of the record and of public points, in one call of the sum, which clips
/// it. No position takes part, so it may be asked under every adjacency and of samples.
#[derive(Debug, Clone, Copy)]
pub struct RowAverage<'a> {
    of: Linear<'a>,
    reach: ClipNorm,
}

impl<'a> RowAverage<'a> {
    /// `of`, with losses averaged over `reach` to both sides.
    #[must_use]
    pub fn new(of: Linear<'a>, reach: ClipNorm) -> Self {
        Self { of, reach }
    }

    /// The question to a loss.
    fn asked(&self) -> AlongRows<'a> {
        let Self { of, reach } = self;
        AlongRows::new(of.point(), of.before(), of.clip(), reach.get())
    }
}

impl<L: Differentiable> Query<L> for RowAverage<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.of.radius(), self.of.point().len()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.of.fits(dim)
    }

    fn gradients_per_record(&self) -> f64 {
        self.of.gradients()
    }

    fn is_answered(&self) -> bool {
        L::HAS_ROW_AVERAGES
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        loss.row_average(record, &self.asked(), out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        loss.add_row_averages(records, positions, &self.asked(), sum);
    }
}
