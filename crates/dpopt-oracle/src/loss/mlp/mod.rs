//! Multilayer perceptrons.
//!
//! Gradients of many records are added up as products of matrices, and none of them is ever formed for one record:
//! that of a layer is an outer product of what goes into it and what comes back to it, so its norm is the product of
//! two norms ([`dpopt_privacy::LatticeSum::add_outer_products`] clips and rounds by them, exactly;
//! [`dpopt_privacy::LatticeSum::add_outer_block`] is faster where the positions of records are fixed).

mod activation;
mod block;
mod head;
mod network;
mod record;
mod second;
mod singles;
mod values;

use dpopt_privacy::LatticeSum;

pub use activation::Activation;
pub use head::Head;
pub use network::{Mlp, MlpError};

use super::{Constants, Convexity, Differentiable, Loss, Segment, TwiceDifferentiable, ValuesOf};
use crate::positions::Positions;
use crate::records::{Example, Examples};

impl Mlp {
    /// Outputs of the last layer for one row of features.
    ///
    /// # Shapes
    /// `features`: inputs; `point`: d.
    ///
    /// # Panics
    /// When the shapes don't fit.
    #[must_use]
    pub fn outputs(&self, features: &[f64], point: &[f64]) -> Vec<f64> {
        assert!(
            features.len() == self.sizes[0] && point.len() == self.dim,
            "features or point of another length"
        );
        record::Forward::of(self, features.to_vec(), point).outputs
    }

    /// [`Mlp::outputs`] of a stored row; features beyond the inputs are left out.
    ///
    /// # Panics
    /// When the point has another length.
    #[must_use]
    pub fn outputs_of(&self, row: dpopt_linalg::Row<'_>, point: &[f64]) -> Vec<f64> {
        self.outputs(&record::features(self, row), point)
    }
}

impl Loss for Mlp {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    /// # Panics
    /// When the rows don't have as many features as the network has inputs.
    fn dim(&self, records: &Examples) -> usize {
        assert!(
            records.columns() == self.sizes[0],
            "rows of {} features for a perceptron of {} inputs",
            records.columns(),
            self.sizes[0]
        );
        self.dim
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        let convexity = if self.sizes.len() == 2 {
            Convexity::Convex
        } else {
            Convexity::Nonconvex
        };
        Constants::new(f64::INFINITY, f64::INFINITY, f64::INFINITY, convexity)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        let Some(label) = self.label(record) else {
            return 0.0;
        };
        let forward = record::Forward::of(self, record::features(self, record.row), point);
        self.head.value(&forward.outputs, label)
    }

    fn add_values(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        of: &ValuesOf<'_>,
        sum: &mut LatticeSum,
    ) {
        values::add_values(self, records, &positions, of, sum);
    }
}

impl Differentiable for Mlp {
    const SUMS_IN_BLOCKS: bool = true;

    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        if let Some(label) = self.label(record) {
            record::gradient(self, record.row, label, point, out);
        }
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        if let Some(label) = self.label(record) {
            record::change(self, record.row, label, segment, out);
        }
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        if let Some(blocks) = sum.blocks() {
            singles::add_gradients(self, records, &positions, point, blocks, sum);
        } else {
            block::add_gradients(self, records, &positions, point, sum);
        }
    }
}

/// For smooth activations; at kinks the second derivative counts as 0.
impl TwiceDifferentiable for Mlp {
    const PRODUCTS_IN_BLOCKS: bool = true;

    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        second::product(self, record, point, direction, out);
    }

    fn add_hessian_vectors(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        second::add_products(self, records, &positions, (None, point), direction, sum);
    }

    fn add_hessian_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        (from, to): (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        second::add_products(self, records, &positions, (Some(from), to), direction, sum);
    }
}
