//! Over-parameterised least squares: fewer distinct rows than parameters, all of them public.

use dpopt_linalg::{SpectrumError, dot, norm, symmetric_spectrum};
use dpopt_oracle::{Constants, Convexity, Differentiable, Loss};

use crate::problem::{Problem, ProblemConstants, ProblemError, positive};

/// A record: the number of its cell, and its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The cell, from 0.
    pub cell: usize,
    /// y.
    pub value: f64,
}

/// Least squares over public cells: f(w; (c, y)) = (<a_c, w> - y)^2/2, with a public row a_c in R^d for each of m cells, m < d.
///
/// The design (rows and shares) is public, the answers are not: a survey whose respondents fall in known groups. The weights
/// are not identified, and the mean loss is still Polyak-Lojasiewicz.
///
/// # Constants
/// With p_c the share of records in cell c, y_c their mean answer and B the matrix of rows sqrt(p_c) a_c: F(w) - F* =
/// ||B w - b||^2/2 with b_c = sqrt(p_c) y_c, as B has full row rank, and ||grad F||^2 = ||B^T (B w - b)||^2 >= 2 m (F - F*) for m the least
/// eigenvalue of B B^T. So **kappa = 2 and gamma = 1/sqrt(2 m), exactly**, everywhere; the minimisers are an affine space of
/// dimension d - (number of cells).
///
/// - L1: each record max ||a_c||^2; F the largest eigenvalue of B B^T.
/// - L0 for ||w|| <= R and answers in [-Y, Y]: max ||a_c|| (Y + max ||a_c|| R).
/// - F0 = ||b||^2/2 <= Y^2/2.
///
/// # When it can be learned privately
/// m is at most the trace over the number of cells, so at most X^2/cells for rows of norm X. If every one of n < d records had a
/// row of its own, gamma^2 >= n/(2 X^2); a noise of norm 2 L0 sqrt(d)/(n mu) in the gradient, with L0 >= X Y, then leaves an excess of up to
/// gamma^2 4 L0^2 d/(n mu)^2 >= 2 Y^2 d/(n mu^2), which is above F0 unless n > 4 d/mu^2. Records have to share rows.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSquares {
    dim: usize,
    rows: Vec<Vec<f64>>,
    shares: Vec<f64>,
    answer: f64,
    reach: f64,
    modulus: f64,
    smoothness: f64,
}

/// A design could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// A parameter is out of range.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The Gram matrix has no spectrum.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
    /// Rows are not all of one length, or not as many as shares.
    #[error("{rows} rows and {shares} shares, of unequal lengths or numbers")]
    Shape {
        /// Rows.
        rows: usize,
        /// Shares.
        shares: usize,
    },
    /// The rows are linearly dependent: there is no such constant.
    #[error("the least eigenvalue of the Gram matrix of the rows is {least}: they are dependent")]
    Dependent {
        /// The eigenvalue.
        least: f64,
    },
}

impl CellSquares {
    /// Public rows, the share of records in each (they are scaled to sum to 1), Y, and R.
    ///
    /// # Errors
    /// [`DesignError`].
    pub fn new(
        rows: Vec<Vec<f64>>,
        shares: &[f64],
        answer: f64,
        reach: f64,
    ) -> Result<Self, DesignError> {
        positive("answer", answer)?;
        positive("reach", reach)?;
        let dim = rows.first().map_or(0, Vec::len);
        if dim == 0 || rows.len() != shares.len() || rows.iter().any(|row| row.len() != dim) {
            return Err(DesignError::Shape {
                rows: rows.len(),
                shares: shares.len(),
            });
        }
        for share in shares {
            positive("share", *share)?;
        }
        let total: f64 = shares.iter().sum();
        let shares: Vec<f64> = shares.iter().map(|share| share / total).collect();
        let mut gram = Vec::with_capacity(rows.len() * rows.len());
        for (a, p) in rows.iter().zip(&shares) {
            gram.extend(
                rows.iter()
                    .zip(&shares)
                    .map(|(b, q)| (p * q).sqrt() * dot(a, b)),
            );
        }
        let spectrum = symmetric_spectrum(rows.len(), &gram)?.eigenvalues;
        let (least, most) = (spectrum[0], spectrum[rows.len() - 1]);
        // Rounding moves an eigenvalue by a few units in the last place of the largest one.
        let slack = 1e-13 * most;
        if !(least > 1e3 * slack) {
            return Err(DesignError::Dependent { least });
        }
        Ok(Self {
            dim,
            rows,
            shares,
            answer,
            reach,
            modulus: least - slack,
            smoothness: most + slack,
        })
    }

    /// The Polyak-Lojasiewicz constant m.
    #[must_use]
    pub fn modulus(&self) -> f64 {
        self.modulus
    }

    /// The Lipschitz constant of the gradient of F; those of single records' are larger.
    #[must_use]
    pub fn mean_smoothness(&self) -> f64 {
        self.smoothness
    }

    /// Shares of the cells.
    #[must_use]
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The mean loss where cell c has the mean answer `means[c]`, less its least value, as a problem.
    ///
    /// # Errors
    /// [`DesignError::Shape`].
    pub fn over(self, means: Vec<f64>) -> Result<CellSquaresMean, DesignError> {
        if means.len() == self.rows.len() {
            Ok(CellSquaresMean { loss: self, means })
        } else {
            Err(DesignError::Shape {
                rows: self.rows.len(),
                shares: means.len(),
            })
        }
    }

    fn longest(&self) -> f64 {
        self.rows.iter().map(|row| norm(row)).fold(0.0, f64::max)
    }

    fn lipschitz(&self) -> f64 {
        let longest = self.longest();
        longest * (self.answer + longest * self.reach)
    }
}

impl Loss for CellSquares {
    type Records = Vec<Answer>;

    fn dim(&self, _: &Vec<Answer>) -> usize {
        self.dim
    }

    fn constants_on(&self, _: &Vec<Answer>) -> Constants {
        Constants::new(
            self.lipschitz(),
            self.longest().powi(2),
            0.5 * self.answer * self.answer,
            Convexity::Convex,
        )
    }

    fn value(&self, record: &Answer, point: &[f64]) -> f64 {
        let row = self.rows.get(record.cell);
        row.map_or(0.0, |row| 0.5 * (dot(row, point) - record.value).powi(2))
    }
}

impl Differentiable for CellSquares {
    /// A record of a cell that does not exist adds nothing.
    fn gradient(&self, record: &Answer, point: &[f64], out: &mut [f64]) {
        if let Some(row) = self.rows.get(record.cell) {
            dpopt_linalg::add_scaled(out, dot(row, point) - record.value, row);
        }
    }
}

/// The mean of [`CellSquares`] over answers of known means, less its least value.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSquaresMean {
    loss: CellSquares,
    means: Vec<f64>,
}

impl CellSquaresMean {
    /// For each cell: share, row, <a_c, w> - y_c.
    fn residuals<'a>(
        &'a self,
        point: &'a [f64],
    ) -> impl Iterator<Item = (f64, &'a [f64], f64)> + 'a {
        let cells = self.loss.shares.iter().zip(&self.loss.rows);
        cells
            .zip(&self.means)
            .map(move |((share, row), mean)| (*share, row.as_slice(), dot(row, point) - mean))
    }
}

impl Problem for CellSquaresMean {
    fn dim(&self) -> usize {
        self.loss.dim
    }

    /// L0 is the bound for each record, for ||w|| <= R.
    fn constants(&self) -> ProblemConstants {
        let (loss, gap) = (&self.loss, self.value(&vec![0.0; self.loss.dim]));
        ProblemConstants::first_order(loss.lipschitz(), loss.smoothness, gap)
            .with_hessian_lipschitz(0.0)
            .with_weak_convexity(0.0)
            .with_kl((2.0 * loss.modulus).sqrt().recip(), 2.0)
            .within(Vec::new(), loss.reach)
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.residuals(point)
            .map(|(share, _, r)| 0.5 * share * r * r)
            .sum()
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (share, row, residual) in self.residuals(point) {
            dpopt_linalg::add_scaled(out, share * residual, row);
        }
    }
}
