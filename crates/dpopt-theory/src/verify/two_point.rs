//! A lower bound as a canary: a solver that is too good on it is not as private as it says.

use crate::checks::CheckError;
use crate::problem::{Problem as _, ProblemError};
use crate::zoo::{Majority, TwoPoint};

/// Standard errors by which a mean may be below the bound for lack of luck.
const LUCK: f64 = 3.0;

/// The two data sets of [`TwoPoint`] that differ in m = ceil(1/sqrt(rho)) of n records.
///
/// # Formula
/// For every rho-zCDP solver the larger of the two mean excess risks is at least (1/8)(m/n)^kappa e^(-m^2 rho): group privacy
/// bounds the divergence of the outputs by m^2 rho, Bretagnolle and Huber the sum of the errors of telling them apart by e^(-m^2 rho)/2
/// from below, and an output is on the wrong side of 0 on one of them, where the excess is (m/n) a or more,
/// a = (m/n)^(kappa - 1)/2. It holds wherever the solver starts and however long it runs.
///
/// Source: arXiv 2311.13447, Theorem 8, as corrected by E-22 in `docs/theory/kl-condition.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoPointCanary {
    problems: [TwoPoint; 2],
    records: u64,
    rho: f64,
}

/// The verdict of the canary.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CanaryReading {
    /// The larger mean excess.
    pub excess: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// The lower bound.
    pub floor: f64,
}

impl CanaryReading {
    /// Whether the solver is worse than the lower bound, as it must be, or may be so but for luck.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.excess + LUCK * self.standard_error >= self.floor
    }
}

impl TwoPointCanary {
    /// The canary for solvers that say they are `rho`-zCDP on `records` records.
    ///
    /// # Errors
    /// [`ProblemError`]; also where m/n is above 0.1.
    pub fn new(kappa: f64, records: u64, rho: f64) -> Result<Self, ProblemError> {
        let bias = rho.sqrt().recip().ceil() / records as f64;
        Ok(Self {
            problems: [
                TwoPoint::new(kappa, bias, Majority::Ones)?,
                TwoPoint::new(kappa, bias, Majority::MinusOnes)?,
            ],
            records,
            rho,
        })
    }

    /// The mean losses over the two data sets.
    #[must_use]
    pub fn problems(&self) -> &[TwoPoint; 2] {
        &self.problems
    }

    /// (1/8)(m/n)^kappa e^(-m^2 rho).
    #[must_use]
    pub fn floor(&self) -> f64 {
        self.problems[0].floor(self.records, self.rho)
    }

    /// Runs `solver` on both data sets with each of the seeds; it returns the point that it would release.
    ///
    /// # Errors
    /// The solver's.
    pub fn read(
        &self,
        seeds: std::ops::Range<u64>,
        mut solver: impl FnMut(&TwoPoint, u64) -> Result<f64, CheckError>,
    ) -> Result<CanaryReading, CheckError> {
        let mut reading = CanaryReading {
            excess: f64::NEG_INFINITY,
            standard_error: 0.0,
            floor: self.floor(),
        };
        let runs = (seeds.end - seeds.start) as f64;
        for problem in &self.problems {
            let least = problem.least();
            let (mut sum, mut squares) = (0.0, 0.0);
            for seed in seeds.clone() {
                let excess = problem.value(&[solver(problem, seed)?]) - least;
                sum += excess;
                squares += excess * excess;
            }
            let mean = sum / runs;
            if mean > reading.excess {
                reading.excess = mean;
                reading.standard_error = ((squares / runs - mean * mean).max(0.0) / runs).sqrt();
            }
        }
        Ok(reading)
    }
}
