//! Products of the Hessian with a public vector.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::of_record::Query;
use crate::loss::{RecordOf, TwiceDifferentiable};
use crate::positions::Positions;

/// hess f(w; x) v, clipped to `radius` (L1 ||v|| leaves it whole).
#[derive(Debug, Clone, Copy)]
pub struct HessianVector<'a> {
    /// w.
    pub point: &'a [f64],
    /// v.
    pub direction: &'a [f64],
    /// The clip radius; none for a zero direction.
    pub radius: Option<ClipNorm>,
}

impl<L: TwiceDifferentiable> Query<L> for HessianVector<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        self.radius
            .map(|radius| Bound::new(radius, self.point.len()))
            .transpose()
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.direction.len() == dim
    }

    /// A Hessian-vector product is counted as two gradients.
    fn gradients_per_record(&self) -> f64 {
        2.0
    }

    fn sums_in_blocks(&self) -> bool {
        L::PRODUCTS_IN_BLOCKS
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        loss.hessian_vector(record, self.point, self.direction, out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        loss.add_hessian_vectors(records, positions, self.point, self.direction, sum);
    }
}

/// (hess f(w; x) - hess f(w'; x)) v, clipped to `radius` (rho ||w - w'|| ||v|| leaves it whole).
#[derive(Debug, Clone, Copy)]
pub struct HessianVectorDifference<'a> {
    /// w'.
    pub from: &'a [f64],
    /// w.
    pub to: &'a [f64],
    /// v.
    pub direction: &'a [f64],
    /// The clip radius; none for equal points or a zero direction.
    pub radius: Option<ClipNorm>,
}

impl<L: TwiceDifferentiable> Query<L> for HessianVectorDifference<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        self.radius
            .map(|radius| Bound::new(radius, self.from.len()))
            .transpose()
    }

    fn fits(&self, dim: usize) -> bool {
        [self.from, self.to, self.direction]
            .iter()
            .all(|x| x.len() == dim)
    }

    fn gradients_per_record(&self) -> f64 {
        4.0
    }

    fn sums_in_blocks(&self) -> bool {
        L::PRODUCTS_IN_BLOCKS
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut before = vec![0.0; out.len()];
        loss.hessian_vector(record, self.from, self.direction, &mut before);
        loss.hessian_vector(record, self.to, self.direction, out);
        for (out, before) in out.iter_mut().zip(&before) {
            *out -= before;
        }
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        let ends = (self.from, self.to);
        loss.add_hessian_changes(records, positions, ends, self.direction, sum);
    }
}
