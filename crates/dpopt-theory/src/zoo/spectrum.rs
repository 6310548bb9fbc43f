//! Records with one diagonal Hessian, for what is said of spectra.

use crate::simulation::Population;

/// F(w) = sum lambda_i w_i^2/2, of so many equal records: the Hessian has these eigenvalues everywhere. L1 is the largest in size.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    eigenvalues: Vec<f64>,
    records: [u64; 1],
}

impl Spectrum {
    /// With these eigenvalues, of so many records; 0 counts as 1.
    #[must_use]
    pub fn new(eigenvalues: Vec<f64>, records: u64) -> Self {
        Self {
            eigenvalues,
            records: [records.max(1)],
        }
    }

    /// <u, H u>.
    ///
    /// # Shapes
    /// `direction`: d.
    #[must_use]
    pub fn along(&self, direction: &[f64]) -> f64 {
        let pairs = self.eigenvalues.iter().zip(direction);
        pairs.map(|(lambda, u)| lambda * u * u).sum()
    }
}

impl Population for Spectrum {
    fn dim(&self) -> usize {
        self.eigenvalues.len()
    }

    fn multiplicities(&self) -> &[u64] {
        &self.records
    }

    fn lipschitz(&self) -> f64 {
        f64::INFINITY
    }

    fn smoothness(&self) -> f64 {
        let sizes = self.eigenvalues.iter().map(|lambda| lambda.abs());
        sizes.fold(0.0, f64::max)
    }

    fn value(&self, _: usize, point: &[f64]) -> f64 {
        0.5 * self.along(point)
    }

    fn gradient(&self, _: usize, point: &[f64], out: &mut [f64]) {
        for ((out, lambda), w) in out.iter_mut().zip(&self.eigenvalues).zip(point) {
            *out = lambda * w;
        }
    }

    fn has_hessians(&self) -> bool {
        true
    }

    fn hessian_vector(&self, _: usize, _: &[f64], direction: &[f64], out: &mut [f64]) {
        for ((out, lambda), v) in out.iter_mut().zip(&self.eigenvalues).zip(direction) {
            *out += lambda * v;
        }
    }
}
