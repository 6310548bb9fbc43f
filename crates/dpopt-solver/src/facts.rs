//! Everything a planner may know.

use dpopt_oracle::{Constants, Convexity, ScoreUnit};
use dpopt_privacy::accounting::{calibrate, gdp};
use dpopt_privacy::{Accountant, Adjacency, Delta, Epsilon, Event, Mu, NoiseMultiplier};
use serde::Serialize;

use crate::error::PlanError;

/// Public facts about a problem. Nothing that depends on the records may enter here, but through what was released, and is paid for, before:
/// facts at a released point are public. A plan from those makes the run an adaptive second part. The two compose where its share of
/// the budget was fixed before and it keeps to that whatever was released (mu-GDP: add the squares), or under a filter of a ledger;
/// otherwise adding up the two events proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublicFacts {
    /// Public number of records n: the true one under replace-one, a declared one under
    /// add/remove.
    pub records: u64,
    /// Number of parameters d.
    pub dim: usize,
    /// Neighbouring relation.
    pub adjacency: Adjacency,
    /// L0: bound on the norm of each record's gradient, at every point of the run. One that holds at a single point
    /// (`Loss::constants_at`) plans a run as private, whose bounds and window certificates are not proven.
    pub lipschitz: f64,
    /// L1: Lipschitz constant of each record's gradient; infinite for a loss with kinks.
    pub smoothness: f64,
    /// Upper bound on F(0) - min F.
    pub initial_gap: f64,
    /// X: bound on the norm of a feature row, where the loss is generalised linear.
    pub row_norm: f64,
    /// Whether each record's loss is convex.
    pub convexity: Convexity,
    /// The unit of the score, for plans without a bound.
    pub score: ScoreUnit,
}

impl PublicFacts {
    /// Facts in units of the problem: L0 = L1 = F0 = X = 1, of losses that need not be convex, under replace-one.
    #[must_use]
    pub fn unit(records: u64, dim: usize) -> Self {
        Self {
            records,
            dim,
            adjacency: Adjacency::ReplaceOne,
            lipschitz: 1.0,
            smoothness: 1.0,
            initial_gap: 1.0,
            row_norm: 1.0,
            convexity: Convexity::Nonconvex,
            score: ScoreUnit::Logit,
        }
    }

    /// The facts of a generalised linear problem.
    ///
    /// # Errors
    /// As [`PublicFacts::check_lipschitz`].
    pub fn glm(
        records: u64,
        dim: usize,
        adjacency: Adjacency,
        row_norm: f64,
        constants: Constants,
    ) -> Result<Self, PlanError> {
        let facts = Self {
            records,
            dim,
            adjacency,
            lipschitz: constants.lipschitz,
            smoothness: constants.smoothness,
            initial_gap: constants.initial_gap,
            row_norm,
            convexity: constants.convexity,
            score: constants.score,
        };
        facts.check_lipschitz()?;
        Ok(facts)
    }

    /// Checks that every fact is a positive finite number.
    ///
    /// # Errors
    /// [`PlanError::Kinks`] for a loss with kinks, [`PlanError::BadFact`] otherwise.
    pub fn check(&self) -> Result<(), PlanError> {
        self.check_lipschitz()?;
        PlanError::positive("row_norm", self.row_norm)?;
        if self.smoothness.is_infinite() {
            return Err(PlanError::Kinks);
        }
        Ok(())
    }

    /// Checks what a loss with kinks has too: that the facts are positive finite numbers, but for the smoothness and the
    /// bound on rows, which may be infinite.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn check_lipschitz(&self) -> Result<(), PlanError> {
        PlanError::positive("lipschitz", self.lipschitz)?;
        self.check_clipped()
    }

    /// Checks what every problem has: that the facts are positive finite numbers, but for the constants and the bound on rows, which may
    /// be infinite. A plan without a bound, with a clip radius of its own, rests on no more.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn check_clipped(&self) -> Result<(), PlanError> {
        for (name, value) in [
            ("records", self.records as f64),
            ("dim", self.dim as f64),
            ("initial_gap", self.initial_gap),
        ] {
            PlanError::positive(name, value)?;
        }
        for (name, value) in [
            ("lipschitz", self.lipschitz),
            ("smoothness", self.smoothness),
            ("row_norm", self.row_norm),
        ] {
            // NaN must be refused.
            if !(value > 0.0) {
                return Err(PlanError::BadFact { name, value });
            }
        }
        Ok(())
    }

    /// What the starting point already satisfies: ||grad F(0)|| <= min(L0, sqrt(2 L1 F0)). A bound
    /// that is not below it says nothing.
    #[must_use]
    pub fn trivial_bound(&self) -> f64 {
        self.lipschitz
            .min((2.0 * self.smoothness * self.initial_gap).sqrt())
    }

    /// Refuses a bound on the gradient norm that says no more than the starting point does; `mu` is the budget.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`], also for a bound that is NaN.
    pub fn useful(&self, solver: &'static str, bound: f64, mu: f64) -> Result<(), PlanError> {
        if bound < self.trivial_bound() {
            return Ok(());
        }
        Err(self.vacuous(solver, bound, mu))
    }

    /// The refusal of a solver whose best bound on the gradient norm is `bound`.
    #[must_use]
    pub fn vacuous(&self, solver: &'static str, bound: f64, mu: f64) -> PlanError {
        PlanError::Vacuous {
            solver,
            bound,
            trivial: self.trivial_bound(),
            records: self.records,
            dim: self.dim,
            mu,
        }
    }

    /// The refusal of a solver whose best bound on the excess risk is `bound`.
    #[must_use]
    pub fn vacuous_risk(&self, solver: &'static str, bound: f64, mu: f64) -> PlanError {
        PlanError::VacuousRisk {
            solver,
            bound,
            initial_gap: self.initial_gap,
            records: self.records,
            dim: self.dim,
            mu,
        }
    }

    /// How far, at most, a mean of so many coordinates of vectors clipped to `radius` is from that of what was clipped: by its rounding to
    /// the lattice and the clip that makes room for it. Steps are at most 2^-29 of the radius.
    #[must_use]
    pub fn rounding(radius: f64, coordinates: usize) -> f64 {
        (2.0 * (coordinates as f64).sqrt() + 4.0) * radius * (-29f64).exp2()
    }

    /// Standard deviation per coordinate of a mean over all records of vectors of norm at most
    /// `radius`, released with `noise_multiplier`.
    #[must_use]
    pub fn noise_std(&self, radius: f64, noise_multiplier: f64) -> f64 {
        self.adjacency.sum_sensitivity() * radius * noise_multiplier / self.records as f64
    }
}

/// The privacy that a plan may spend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Budget {
    /// epsilon of (epsilon, delta)-DP.
    pub epsilon: Epsilon,
    /// delta of (epsilon, delta)-DP.
    pub delta: Delta,
}

impl Budget {
    /// The Gaussian-DP parameter that (epsilon, delta) allows, less a relative 1e-9 so that
    /// rounding in the composition can't push a plan over a budget of the same size.
    ///
    /// # Errors
    /// [`PlanError::Accounting`] when no representable mu fits.
    pub fn mu(&self) -> Result<Mu, PlanError> {
        let mu = gdp::mu_for(self.epsilon, self.delta)?;
        Ok(Mu::new(mu.get() * (1.0 - 1e-9))?)
    }

    /// The accountant that is the tightest for events of this kind, and the least noise multiplier with which it finds that
    /// the event costs no more than this budget.
    ///
    /// # Errors
    /// [`PlanError::Accounting`] when no accountant knows the event, or no multiplier is large enough.
    pub fn calibrated(
        &self,
        adjacency: Adjacency,
        event: impl Fn(NoiseMultiplier) -> Event,
    ) -> Result<(Accountant, NoiseMultiplier), PlanError> {
        let accountant = Accountant::tightest_for(&event(NoiseMultiplier::new(1.0)?), adjacency)?;
        let multiplier =
            calibrate::noise_multiplier(accountant, self.epsilon, self.delta, adjacency, event)?;
        Ok((accountant, multiplier))
    }
}
