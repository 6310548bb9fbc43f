//! What a simulation takes means of: weighted records, or a problem in closed form.

use dpopt_oracle::{Blocks, Differentiable, Loss, RecordOf, Records, Segment, TwiceDifferentiable};

use super::weighted::WeightedRecords;
use crate::problem::{Problem, SecondOrderProblem};

/// Distinct records with multiplicities, each with a field of vectors (its gradient) and a value.
///
/// A simulation draws how many copies of each record it reads, clips, adds and makes the noise; it
/// asks a population for single records only. [`ClosedForm`] and [`WeightedLoss`] implement it.
pub trait Population {
    /// Coordinates of points, d.
    fn dim(&self) -> usize;

    /// How often each distinct record occurs.
    fn multiplicities(&self) -> &[u64];

    /// L0: every record's gradient is at most this long; infinite where no bound is known.
    fn lipschitz(&self) -> f64;

    /// L1: every record's gradient is Lipschitz with this constant; infinite where none is known.
    fn smoothness(&self) -> f64;

    /// Whether the gradient of an erased record is zero, as zero-out adjacency needs.
    fn vanishes_on_erased(&self) -> bool {
        true
    }

    /// How a point is split, of a saddle problem.
    fn blocks(&self) -> Option<Blocks> {
        None
    }

    /// f(w; x_i).
    fn value(&self, record: usize, point: &[f64]) -> f64;

    /// Writes grad f(w; x_i) to `out`.
    fn gradient(&self, record: usize, point: &[f64], out: &mut [f64]);

    /// Writes the change of the gradient of record i along `segment` to `out`, which holds the
    /// gradient at its end, where `before` holds the one at its start.
    fn change(&self, record: usize, segment: &Segment<'_>, before: &[f64], out: &mut [f64]) {
        let _ = (record, segment);
        dpopt_linalg::add_scaled(out, -1.0, before);
    }

    /// Whether it has second derivatives: then a simulation answers questions for Hessians.
    fn has_hessians(&self) -> bool {
        false
    }

    /// Adds hess f(w; x_i) v to `out`, which holds zeros; nothing where there are no second derivatives.
    fn hessian_vector(&self, record: usize, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let _ = (record, point, direction, out);
    }
}

/// A problem in closed form as a population: one record, which is the problem itself, repeated.
pub struct ClosedForm<'a, P: ?Sized> {
    problem: &'a P,
    records: [u64; 1],
    blocks: Option<Blocks>,
    /// hess F(w) v, where it is asked for.
    product: Option<Product<P>>,
}

type Product<P> = fn(&P, &[f64], &[f64], &mut [f64]);

impl<'a, P: Problem + ?Sized> ClosedForm<'a, P> {
    /// `records` records that all have the loss of `problem`; 0 counts as 1.
    pub fn new(problem: &'a P, records: u64) -> Self {
        Self {
            problem,
            records: [records.max(1)],
            blocks: None,
            product: None,
        }
    }

    /// Of a saddle problem, whose points are split like this.
    #[must_use]
    pub fn with_blocks(self, blocks: Blocks) -> Self {
        let blocks = (blocks.y > 0).then_some(blocks);
        Self { blocks, ..self }
    }

    /// With the Hessians of the problem.
    #[must_use]
    pub fn with_hessians(mut self) -> Self
    where
        P: SecondOrderProblem,
    {
        self.product = Some(P::hessian_vector);
        self
    }
}

impl<P: Problem + ?Sized> Population for ClosedForm<'_, P> {
    fn dim(&self) -> usize {
        self.problem.dim()
    }

    fn multiplicities(&self) -> &[u64] {
        &self.records
    }

    fn lipschitz(&self) -> f64 {
        self.problem.lipschitz()
    }

    fn smoothness(&self) -> f64 {
        self.problem.smoothness()
    }

    fn blocks(&self) -> Option<Blocks> {
        self.blocks
    }

    fn value(&self, _: usize, point: &[f64]) -> f64 {
        self.problem.value(point)
    }

    fn gradient(&self, _: usize, point: &[f64], out: &mut [f64]) {
        self.problem.gradient(point, out);
    }

    fn has_hessians(&self) -> bool {
        self.product.is_some()
    }

    fn hessian_vector(&self, _: usize, point: &[f64], direction: &[f64], out: &mut [f64]) {
        if let Some(product) = self.product {
            product(self.problem, point, direction, out);
        }
    }
}

/// A loss over weighted records as a population.
pub struct WeightedLoss<'a, L: Loss> {
    loss: &'a L,
    data: &'a WeightedRecords<L::Records>,
    /// Adds hess f(w; x) v, where it is asked for.
    product: Option<ProductOf<L>>,
}

type ProductOf<L> = fn(&L, RecordOf<'_, L>, &[f64], &[f64], &mut [f64]);

impl<'a, L: Loss> WeightedLoss<'a, L> {
    /// `loss` of each of the records in `data`.
    pub fn new(loss: &'a L, data: &'a WeightedRecords<L::Records>) -> Self {
        Self {
            loss,
            data,
            product: None,
        }
    }

    /// With the Hessians of the loss.
    #[must_use]
    pub fn with_hessians(mut self) -> Self
    where
        L: TwiceDifferentiable,
    {
        self.product = Some(L::hessian_vector);
        self
    }
}

impl<L: Differentiable> Population for WeightedLoss<'_, L> {
    fn dim(&self) -> usize {
        self.loss.dim(self.data.records())
    }

    fn multiplicities(&self) -> &[u64] {
        self.data.multiplicities()
    }

    fn lipschitz(&self) -> f64 {
        self.loss.constants_on(self.data.records()).lipschitz
    }

    fn smoothness(&self) -> f64 {
        self.loss.constants_on(self.data.records()).smoothness
    }

    fn blocks(&self) -> Option<Blocks> {
        self.loss.blocks(self.data.records())
    }

    fn vanishes_on_erased(&self) -> bool {
        L::VANISHES_ON_ERASED || !<L::Records as Records>::HAS_ERASED
    }

    fn value(&self, record: usize, point: &[f64]) -> f64 {
        self.loss.value(self.data.records().record(record), point)
    }

    fn gradient(&self, record: usize, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.loss
            .gradient(self.data.records().record(record), point, out);
    }

    fn change(&self, record: usize, segment: &Segment<'_>, _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let record = self.data.records().record(record);
        self.loss.gradient_change(record, segment, out);
    }

    fn has_hessians(&self) -> bool {
        self.product.is_some()
    }

    fn hessian_vector(&self, record: usize, point: &[f64], direction: &[f64], out: &mut [f64]) {
        if let Some(product) = self.product {
            let record = self.data.records().record(record);
            product(self.loss, record, point, direction, out);
        }
    }
}
