//! The objective of a certificate: a mean loss on public records, or a function in closed form.

use dpopt_linalg::add_scaled;
use dpopt_oracle::{
    Differentiable, Glm, Loss, PublicData, PublicRecords, Records, TwiceDifferentiable,
};

use crate::error::CertificateError;
use crate::problem::{Problem, SecondOrderProblem};

/// A function F of which value and gradient are known exactly, up to rounding.
///
/// Every [`Problem`] is one, and every [`SecondOrderProblem`] is [`Curved`]. Mean losses on public records are [`MeanLoss`] and [`GlmMean`].
pub trait Objective {
    /// Number of coordinates of a point, d.
    fn dim(&self) -> usize;

    /// F at `point`.
    fn value(&self, point: &[f64]) -> f64;

    /// Writes the gradient of F (at a kink: one Clarke subgradient) at `point` to `out`.
    ///
    /// # Shapes
    /// `point` and `out`: d.
    fn gradient(&self, point: &[f64], out: &mut [f64]);
}

/// An [`Objective`] with second derivatives.
pub trait Curved: Objective {
    /// Writes the product of the Hessian of F at `point` with `direction` to `out`.
    ///
    /// # Shapes
    /// `point`, `direction` and `out`: d.
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]);

    /// The Hessian at `point`, row-major (d, d); only the lower triangle needs to be right. The
    /// default takes d products.
    fn hessian(&self, point: &[f64]) -> Vec<f64> {
        let dim = self.dim();
        let mut hessian = vec![0.0; dim * dim];
        let mut unit = vec![0.0; dim];
        // Rows are columns: the matrix is symmetric.
        for (j, row) in hessian.chunks_exact_mut(dim.max(1)).enumerate() {
            unit[j] = 1.0;
            self.hessian_vector(point, &unit, row);
            unit[j] = 0.0;
        }
        hessian
    }
}

impl<P: Problem + ?Sized> Objective for P {
    fn dim(&self) -> usize {
        Problem::dim(self)
    }

    fn value(&self, point: &[f64]) -> f64 {
        Problem::value(self, point)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        Problem::gradient(self, point, out);
    }
}

impl<P: SecondOrderProblem + ?Sized> Curved for P {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        SecondOrderProblem::hessian_vector(self, point, direction, out);
    }
}

/// The mean over public records of any loss.
///
/// # Formula
/// F(w) = (1/n) sum f(w; x_i), summed in order.
///
/// # Privacy
/// For public data only: no noise is added and nothing charged.
pub struct MeanLoss<'a, L: Loss> {
    records: &'a L::Records,
    loss: &'a L,
    dim: usize,
}

impl<'a, L: Loss> MeanLoss<'a, L> {
    /// The mean of `loss` over `data`.
    ///
    /// # Errors
    /// [`CertificateError::NoRecords`].
    pub fn new(data: &'a PublicRecords<L::Records>, loss: &'a L) -> Result<Self, CertificateError> {
        let records = data.records();
        if records.is_empty() {
            return Err(CertificateError::NoRecords);
        }
        Ok(Self {
            records,
            loss,
            dim: loss.dim(records),
        })
    }

    /// The mean of what `add` adds to zeroed buffers, record by record.
    fn mean(&self, out: &mut [f64], add: impl Fn(usize, &mut [f64])) {
        let mut one = vec![0.0; out.len()];
        out.fill(0.0);
        let count = self.records.len();
        for i in 0..count {
            one.fill(0.0);
            add(i, &mut one);
            add_scaled(out, 1.0, &one);
        }
        out.iter_mut().for_each(|x| *x /= count as f64);
    }
}

impl<L: Differentiable> Objective for MeanLoss<'_, L> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn value(&self, point: &[f64]) -> f64 {
        let count = self.records.len();
        let sum: f64 = (0..count)
            .map(|i| self.loss.value(self.records.record(i), point))
            .sum();
        sum / count as f64
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        self.mean(out, |i, one| {
            self.loss.gradient(self.records.record(i), point, one);
        });
    }
}

impl<L: TwiceDifferentiable> Curved for MeanLoss<'_, L> {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        self.mean(out, |i, one| {
            self.loss
                .hessian_vector(self.records.record(i), point, direction, one);
        });
    }
}

/// The mean of a generalised linear loss over rows as they are, which no bound has rescaled.
///
/// # Formula
/// F(w) = (1/n) sum phi(<w, x_i>, y_i), grad F(w) = (1/n) sum phi'(<w, x_i>, y_i) x_i,
/// hess F(w) = (1/n) sum phi''(<w, x_i>, y_i) x_i x_i^T.
///
/// # Complexity
/// The stored entries of the rows, for each evaluation; their number squared, by row, for
/// [`Curved::hessian`].
///
/// # Privacy
/// For public data only; see [`PublicData`].
pub struct GlmMean<'a> {
    data: &'a PublicData,
    loss: Glm,
}

impl<'a> GlmMean<'a> {
    /// The mean of `loss` over `data`.
    ///
    /// # Errors
    /// [`CertificateError::NoRecords`].
    pub fn new(data: &'a PublicData, loss: Glm) -> Result<Self, CertificateError> {
        if data.design().rows() == 0 {
            return Err(CertificateError::NoRecords);
        }
        Ok(Self { data, loss })
    }

    /// The mean of `multiple(i)` times row i.
    fn combine(&self, out: &mut [f64], multiple: impl Fn(usize) -> f64) {
        out.fill(0.0);
        let rows = self.data.design().rows();
        for i in 0..rows {
            let c = multiple(i);
            self.data.design().row(i).for_each(|j, x| out[j] += c * x);
        }
        out.iter_mut().for_each(|x| *x /= rows as f64);
    }

    fn label(&self, i: usize) -> f64 {
        f64::from(self.data.labels()[i])
    }
}

impl Objective for GlmMean<'_> {
    fn dim(&self) -> usize {
        self.data.design().columns()
    }

    fn value(&self, point: &[f64]) -> f64 {
        let scores = self.data.scores(point);
        let sum: f64 = scores
            .iter()
            .enumerate()
            .map(|(i, z)| self.loss.value(*z, self.label(i)))
            .sum();
        sum / scores.len() as f64
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        self.combine(out, |i| {
            let z = self.data.design().row(i).dot(point);
            self.loss.slope(z, self.label(i))
        });
    }
}

impl Curved for GlmMean<'_> {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        self.combine(out, |i| {
            let row = self.data.design().row(i);
            self.loss.curvature(row.dot(point), self.label(i)) * row.dot(direction)
        });
    }

    fn hessian(&self, point: &[f64]) -> Vec<f64> {
        let dim = self.dim();
        let rows = self.data.design().rows();
        let mut hessian = vec![0.0; dim * dim];
        let mut entries: Vec<(usize, f64)> = Vec::with_capacity(dim);
        for i in 0..rows {
            let row = self.data.design().row(i);
            let curvature = self.loss.curvature(row.dot(point), self.label(i));
            entries.clear();
            row.for_each(|j, x| {
                if x != 0.0 {
                    entries.push((j, x));
                }
            });
            // Columns increase, so this fills the lower triangle.
            for (k, &(row, x)) in entries.iter().enumerate() {
                let scaled = curvature * x;
                for &(column, y) in &entries[..=k] {
                    hessian[row * dim + column] += scaled * y;
                }
            }
        }
        hessian.iter_mut().for_each(|x| *x /= rows as f64);
        hessian
    }
}

/// The gradient at `point`, checked.
pub(crate) fn gradient_at<O: Objective + ?Sized>(
    objective: &O,
    point: &[f64],
) -> Result<Vec<f64>, CertificateError> {
    if objective.dim() != point.len() || point.is_empty() {
        return Err(CertificateError::Dimension {
            objective: objective.dim(),
            point: point.len(),
        });
    }
    if !point.iter().all(|x| x.is_finite()) {
        return Err(CertificateError::NotFinite("point"));
    }
    let mut gradient = vec![0.0; point.len()];
    objective.gradient(point, &mut gradient);
    if gradient.iter().all(|x| x.is_finite()) {
        Ok(gradient)
    } else {
        Err(CertificateError::NotFinite("gradient"))
    }
}

/// The value at `point`, checked.
pub(crate) fn value_at<O: Objective + ?Sized>(
    objective: &O,
    point: &[f64],
) -> Result<f64, CertificateError> {
    let value = objective.value(point);
    if value.is_finite() {
        Ok(value)
    } else {
        Err(CertificateError::NotFinite("value"))
    }
}
