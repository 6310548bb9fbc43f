//! Made-up measurements <x x^T, U U^T> + noise of a random factor U.

use std::num::NonZeroUsize;

use dpopt::certify::{MeanLoss, Objective};
use dpopt::linalg::{Design, norm};
use dpopt::oracle::{Glm, PrivateData, PublicRecords, QuadraticLink};
use dpopt::privacy::{Adjacency, ClipNorm};
use dpopt_benches::normals::Normals;

use crate::Failure;

/// n.
const RECORDS: usize = 100_000;
/// Of which the Hessian of a result is of so many.
const SOME: usize = 10_000;
/// Standard deviation of what is added to a measurement, and the largest that counts.
const NOISE: f64 = 0.05;
const LARGEST: f64 = 6.0;
/// The ball, and where random starts lie, over the length of the factor.
const BALL: f64 = 1.5;
const START: f64 = 0.5;

/// The records and what they were made of.
pub(crate) struct Problem {
    pub(crate) features: usize,
    pub(crate) columns: usize,
    pub(crate) private: PrivateData,
    pub(crate) loss: QuadraticLink,
    public: PublicRecords,
    some: PublicRecords,
    factor: Vec<f64>,
}

impl Problem {
    /// Rows on the unit sphere of R^p; a factor of p/r for the square of each column's length, so that a measurement is 1 in the mean.
    pub(crate) fn new(features: usize, columns: usize) -> Result<Self, Failure> {
        let mut normals = Normals::new(1_000 * features as u64 + columns as u64);
        let size = (1.0 / columns as f64).sqrt();
        let mut factor: Vec<f64> = (0..features * columns)
            .map(|_| size * normals.normal())
            .collect();
        let scale = (features as f64).sqrt() / norm(&factor);
        factor.iter_mut().for_each(|u| *u *= scale);
        let (mut rows, mut labels) = (Vec::with_capacity(RECORDS * features), Vec::new());
        let mut row = vec![0.0; features];
        for _ in 0..RECORDS {
            row.iter_mut().for_each(|x| *x = normals.normal());
            // A hair below 1, for the rounding to single precision.
            let scale = (1.0 - 1e-6) / norm(&row);
            row.iter_mut().for_each(|x| *x *= scale);
            let mut products = vec![0.0; columns];
            for (x, u) in row.iter().zip(factor.chunks_exact(columns)) {
                for (t, u) in products.iter_mut().zip(u) {
                    *t += x * u;
                }
            }
            let square: f64 = products.iter().map(|t| t * t).sum();
            let measured = (square + NOISE * normals.normal()).clamp(-LARGEST, LARGEST);
            labels.push(measured as f32);
            rows.extend(row.iter().map(|x| *x as f32));
        }
        let (unit, bound) = (ClipNorm::new(1.0)?, ClipNorm::new(LARGEST)?);
        let design = |count: usize| Design::dense32(features, rows[..count * features].to_vec());
        let relation = Adjacency::ReplaceOne;
        let private = PrivateData::made_up(design(RECORDS)?, labels.clone(), unit, relation, None)?;
        let public = |count: usize| -> Result<PublicRecords, Failure> {
            Ok(PublicRecords::new(
                design(count)?,
                labels[..count].to_vec(),
                unit,
            )?)
        };
        let columns_of = NonZeroUsize::new(columns).ok_or("no columns")?;
        let ball = ClipNorm::new(BALL * norm(&factor))?;
        Ok(Self {
            features,
            columns,
            public: public(RECORDS)?,
            some: public(SOME)?,
            private: private.with_label_bound(bound),
            loss: QuadraticLink::new(Glm::Welsch, columns_of, ball),
            factor,
        })
    }

    /// Frobenius norm of starts.
    pub(crate) fn start_length(&self) -> f64 {
        START * norm(&self.factor)
    }

    /// The mean loss of some of the records.
    pub(crate) fn some(&self) -> Result<MeanLoss<'_, QuadraticLink>, Failure> {
        Ok(MeanLoss::new(&self.some, &self.loss)?)
    }

    /// Of the mean loss of all records.
    pub(crate) fn gradient_norm(&self, point: &[f64]) -> Result<f64, Failure> {
        let mut gradient = vec![0.0; point.len()];
        MeanLoss::new(&self.public, &self.loss)?.gradient(point, &mut gradient);
        Ok(norm(&gradient))
    }

    /// ||U U^T - V V^T||_F / ||V V^T||_F, V the factor of the records: from the small products U^T U, U^T V and V^T V.
    pub(crate) fn error(&self, point: &[f64]) -> f64 {
        let square = |a: &[f64], b: &[f64]| -> f64 {
            let r = self.columns;
            let mut product = vec![0.0; r * r];
            for (a, b) in a.chunks_exact(r).zip(b.chunks_exact(r)) {
                for i in 0..r {
                    for j in 0..r {
                        product[i * r + j] += a[i] * b[j];
                    }
                }
            }
            product.iter().map(|x| x * x).sum()
        };
        let own = square(&self.factor, &self.factor);
        let apart = square(point, point) - 2.0 * square(point, &self.factor) + own;
        (apart.max(0.0) / own).sqrt()
    }
}
