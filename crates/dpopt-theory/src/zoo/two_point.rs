//! The lower bound for KL functions with kappa >= 2: two data sets in one dimension.

use dpopt_oracle::{Constants, Convexity, Differentiable, Loss};

use crate::problem::{Problem, ProblemConstants, ProblemError, in_range};

/// Two data sets that a private solver can't tell apart: the KL lower bound for kappa >= 2, in one
/// dimension.
///
/// # Formula
/// tau = kappa/(kappa - 1), a = p^(1/(tau-1))/2, records 1 and -1: f(w; 1) = a - w for w <= a, else (w -
/// a)^tau; f(w; -1) is its mirror image f(-w; 1). `Majority` holds 1 with frequency (1 + p)/2.
/// On [-a, a], F(w) = a - p w (for the majority of ones), its least value is (1 - p) a at w = a, and
/// F0 = F(0) - F* = p a.
///
/// # Constants, for |w| <= 1/2 and p <= 0.1
/// - L0 = max(1, tau (1/2 - a)^(tau-1)) for each record: the slope is -1 on one side of a and grows to
///   that at w = 1/2 on the other. (The mean attains about half.)
/// - Convex; no L1 for tau < 2.
/// - KL with kappa and gamma = 1, tight at w = -a (from inside): the excess is 2 p a = p^kappa, the slope p.
///
/// # Lower bound
/// For every rho-zCDP solver and m = p n records that differ, the larger mean excess on the two is at
/// least (1/8)(m/n)^kappa e^(-m^2 rho).
///
/// Source: arXiv 2311.13447, Theorem 8, as corrected by E-22 in `docs/theory/kl-condition.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoPoint {
    tau: f64,
    bias: f64,
    sign: f64,
}

/// Which of the two data sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Majority {
    /// More ones.
    Ones,
    /// More minus ones.
    MinusOnes,
}

impl Majority {
    pub(super) fn sign(self) -> f64 {
        match self {
            Self::Ones => 1.0,
            Self::MinusOnes => -1.0,
        }
    }
}

impl TwoPoint {
    /// kappa >= 2, p in (0, 0.1], and the majority.
    ///
    /// # Errors
    /// [`ProblemError::OutOfRange`].
    pub fn new(kappa: f64, bias: f64, majority: Majority) -> Result<Self, ProblemError> {
        in_range("kappa", kappa, 2.0, 64.0)?;
        in_range("bias", bias, 1e-12, 0.1)?;
        Ok(Self {
            tau: kappa / (kappa - 1.0),
            bias,
            sign: majority.sign(),
        })
    }

    /// a.
    #[must_use]
    pub fn shift(&self) -> f64 {
        0.5 * self.bias.powf(1.0 / (self.tau - 1.0))
    }

    /// min F = (1 - p) a, on either data set.
    #[must_use]
    pub fn least(&self) -> f64 {
        (1.0 - self.bias) * self.shift()
    }

    /// (1/8) p^kappa e^(-m^2 rho): the least mean excess of a rho-zCDP solver, on the worse of the
    /// two data sets of `records` records.
    #[must_use]
    pub fn floor(&self, records: u64, rho: f64) -> f64 {
        let kappa = self.tau / (self.tau - 1.0);
        let differ = self.bias * records as f64;
        0.125 * self.bias.powf(kappa) * (-differ * differ * rho).exp()
    }
}

impl Loss for TwoPoint {
    type Records = Vec<f64>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<f64>) -> usize {
        1
    }

    fn constants_on(&self, _: &Vec<f64>) -> Constants {
        let known = self.constants();
        Constants::new(
            known.lipschitz,
            known.smoothness,
            known.initial_gap,
            Convexity::Convex,
        )
    }

    fn value(&self, record: &f64, point: &[f64]) -> f64 {
        let beyond = record * point[0] - self.shift();
        if beyond <= 0.0 {
            -beyond
        } else {
            beyond.powf(self.tau)
        }
    }
}

impl Differentiable for TwoPoint {
    fn gradient(&self, record: &f64, point: &[f64], out: &mut [f64]) {
        let beyond = record * point[0] - self.shift();
        let slope = if beyond <= 0.0 {
            -1.0
        } else {
            self.tau * beyond.powf(self.tau - 1.0)
        };
        out[0] += record * slope;
    }
}

impl Problem for TwoPoint {
    fn dim(&self) -> usize {
        1
    }

    /// L0 is that of every record.
    fn constants(&self) -> ProblemConstants {
        let lipschitz = (self.tau * (0.5 - self.shift()).powf(self.tau - 1.0)).max(1.0);
        ProblemConstants::first_order(lipschitz, f64::INFINITY, self.bias * self.shift())
            .with_weak_convexity(0.0)
            .with_kl(1.0, self.tau / (self.tau - 1.0))
            .within(Vec::new(), 0.5)
    }

    fn value(&self, point: &[f64]) -> f64 {
        let (ones, others) = (
            Loss::value(self, &1.0, point),
            Loss::value(self, &-1.0, point),
        );
        0.5 * ((1.0 + self.sign * self.bias) * ones + (1.0 - self.sign * self.bias) * others)
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out[0] = 0.0;
        let mut part = [0.0];
        for record in [1.0, -1.0] {
            part[0] = 0.0;
            Differentiable::gradient(self, &record, point, &mut part);
            out[0] += 0.5 * (1.0 + record * self.sign * self.bias) * part[0];
        }
    }
}
