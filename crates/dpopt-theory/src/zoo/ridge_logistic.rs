//! Logistic regression with a public ridge weight: a real loss with an exact Polyak-Lojasiewicz constant.

use dpopt_linalg::{dot, norm};

use crate::problem::{
    Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range, positive,
};

/// Newton steps at most.
const STEPS: usize = 100;

/// F(w) = mean of ln(1 + e^(-y <a, w>)) + (lambda/2) ||w||^2 over **public** rows a with labels y = 1 or -1.
///
/// # Constants, for ||w|| <= R = sqrt(2 ln 2/lambda), which holds {F <= F(0)} as the loss is positive
/// With X the longest row:
/// - L0 = X + lambda R, L1 = X^2/4 + lambda, rho = X^3/(6 sqrt 3): slopes of the loss are in (-1, 0), curvatures at most 1/4, and their
///   derivative at most 1/(6 sqrt 3).
/// - Strongly convex with modulus lambda: KL with kappa = 2 and gamma = 1/sqrt(2 lambda), everywhere.
/// - F0 = ln 2 - F*, with F* by Newton's method, whose excess is at most ||grad F||^2/(2 lambda) (strong convexity) and is checked to be
///   at most 1e-13 F(0).
///
/// A solver that reads private records clips their gradients to X, the regulariser apart
/// ([`Regularized`](dpopt_oracle::Regularized)), and knows F0 <= ln 2 only.
#[derive(Debug, Clone, PartialEq)]
pub struct RidgeLogistic {
    rows: Vec<Vec<f64>>,
    labels: Vec<f64>,
    ridge: f64,
    minimiser: Vec<f64>,
}

impl RidgeLogistic {
    /// Rows, a label for each, and lambda.
    ///
    /// # Errors
    /// [`ProblemError`]: where the rows are none, of unequal lengths, or not as many as the labels; where a label is not 1 or -1; where
    /// the minimiser is not found.
    pub fn new(rows: Vec<Vec<f64>>, labels: Vec<f64>, ridge: f64) -> Result<Self, ProblemError> {
        positive("ridge", ridge)?;
        let dim = rows.first().map_or(0, Vec::len);
        if dim == 0 || rows.iter().any(|row| row.len() != dim) {
            return Err(ProblemError::TooFewDimensions(dim));
        }
        let count = rows.len() as f64;
        in_range("labels", labels.len() as f64, count, count)?;
        for y in &labels {
            in_range("size of a label", y.abs(), 1.0, 1.0)?;
        }
        let mut problem = Self {
            minimiser: vec![0.0; dim],
            rows,
            labels,
            ridge,
        };
        problem.minimise()?;
        Ok(problem)
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.rows
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &[f64] {
        &self.labels
    }

    /// lambda.
    #[must_use]
    pub fn ridge(&self) -> f64 {
        self.ridge
    }

    /// F(w) - F*.
    #[must_use]
    pub fn excess(&self, point: &[f64]) -> f64 {
        self.value(point) - self.value(&self.minimiser)
    }

    fn longest(&self) -> f64 {
        self.rows.iter().map(|row| norm(row)).fold(0.0, f64::max)
    }

    /// Newton's method with halved steps until F falls.
    fn minimise(&mut self) -> Result<(), ProblemError> {
        let dim = self.minimiser.len();
        let mut gradient = vec![0.0; dim];
        let mut point = self.minimiser.clone();
        for _ in 0..STEPS {
            self.gradient(&point, &mut gradient);
            let excess = dot(&gradient, &gradient) / (2.0 * self.ridge);
            if excess <= 1e-15 {
                break;
            }
            let step = solve(self.hessian(&point), gradient.clone());
            let before = self.value(&point);
            let mut scale = 1.0;
            let next = loop {
                let next: Vec<f64> = point
                    .iter()
                    .zip(&step)
                    .map(|(w, s)| w - scale * s)
                    .collect();
                if self.value(&next) <= before || scale < 1e-6 {
                    break next;
                }
                scale *= 0.5;
            };
            point = next;
        }
        self.gradient(&point, &mut gradient);
        let excess = dot(&gradient, &gradient) / (2.0 * self.ridge);
        let most = 1e-13 * std::f64::consts::LN_2;
        in_range("excess of the minimiser", excess, 0.0, most)?;
        self.minimiser = point;
        Ok(())
    }

    /// Rows of the Hessian.
    fn hessian(&self, point: &[f64]) -> Vec<Vec<f64>> {
        let dim = point.len();
        let mut unit = vec![0.0; dim];
        let mut hessian = vec![vec![0.0; dim]; dim];
        for (j, row) in hessian.iter_mut().enumerate() {
            unit[j] = 1.0;
            self.hessian_vector(point, &unit, row);
            unit[j] = 0.0;
        }
        hessian
    }

    /// For each record: the row, and -y, 1/(1 + e^(y z)), the size of the slope.
    fn slopes<'a>(&'a self, point: &'a [f64]) -> impl Iterator<Item = (&'a [f64], f64, f64)> + 'a {
        let records = self.rows.iter().zip(&self.labels);
        records.map(move |(row, y)| {
            let share = (1.0 + (y * dot(row, point)).exp()).recip();
            (row.as_slice(), -y, share)
        })
    }
}

/// The solution of a positive definite system, by elimination.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let dim = right.len();
    for k in 0..dim {
        let (above, below) = matrix.split_at_mut(k + 1);
        let pivot = &above[k];
        for (i, row) in below.iter_mut().enumerate() {
            let factor = row[k] / pivot[k];
            dpopt_linalg::add_scaled(row, -factor, pivot);
            right[k + 1 + i] -= factor * right[k];
        }
    }
    for k in (0..dim).rev() {
        let known = dot(&matrix[k][k + 1..], &right[k + 1..]);
        right[k] = (right[k] - known) / matrix[k][k];
    }
    right
}

impl Problem for RidgeLogistic {
    fn dim(&self) -> usize {
        self.minimiser.len()
    }

    fn constants(&self) -> ProblemConstants {
        let (longest, ridge) = (self.longest(), self.ridge);
        let reach = (2.0 * std::f64::consts::LN_2 / ridge).sqrt();
        let gap = self.excess(&vec![0.0; self.dim()]);
        let smoothness = 0.25 * longest.powi(2) + ridge;
        ProblemConstants::first_order(longest + ridge * reach, smoothness, gap)
            .with_hessian_lipschitz(longest.powi(3) / (6.0 * 3f64.sqrt()))
            .with_weak_convexity(0.0)
            .with_kl((2.0 * ridge).sqrt().recip(), 2.0)
            .within(Vec::new(), reach)
    }

    fn value(&self, point: &[f64]) -> f64 {
        let losses = self.rows.iter().zip(&self.labels).map(|(row, y)| {
            // ln(1 + e^-t) without overflow.
            let t = y * dot(row, point);
            (-t.abs()).exp().ln_1p() + (-t).max(0.0)
        });
        losses.sum::<f64>() / self.rows.len() as f64 + 0.5 * self.ridge * dot(point, point)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let share = (self.rows.len() as f64).recip();
        for (row, sign, slope) in self.slopes(point) {
            dpopt_linalg::add_scaled(out, share * sign * slope, row);
        }
        dpopt_linalg::add_scaled(out, self.ridge, point);
    }
}

impl SecondOrderProblem for RidgeLogistic {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let share = (self.rows.len() as f64).recip();
        for (row, _, slope) in self.slopes(point) {
            let bend = slope * (1.0 - slope) * dot(row, direction);
            dpopt_linalg::add_scaled(out, share * bend, row);
        }
        dpopt_linalg::add_scaled(out, self.ridge, direction);
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let entries: Vec<f64> = self.hessian(point).into_iter().flatten().collect();
        let spectrum = dpopt_linalg::symmetric_spectrum(self.dim(), &entries);
        spectrum.map_or(f64::NAN, |spectrum| spectrum.eigenvalues[0])
    }
}
