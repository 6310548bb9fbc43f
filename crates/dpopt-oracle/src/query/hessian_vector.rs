//! Products of the Hessian with a public vector.

use dpopt_privacy::{Bound, ClipNorm, LatticeError};

use super::of_record::Query;
use crate::loss::{RecordOf, TwiceDifferentiable};

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

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        loss.hessian_vector(record, self.point, self.direction, out);
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

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut before = vec![0.0; out.len()];
        loss.hessian_vector(record, self.from, self.direction, &mut before);
        loss.hessian_vector(record, self.to, self.direction, out);
        for (out, before) in out.iter_mut().zip(&before) {
            *out -= before;
        }
    }
}
