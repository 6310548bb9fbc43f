//! Everything a planner may know.

use dpopt_linalg::MapError;
use dpopt_oracle::{Constants, Convexity};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{AccountingError, Adjacency, Delta, Epsilon, Mu, UnitError};
use serde::Serialize;

/// Public facts about a problem. Nothing that depends on the records may enter here: a planner
/// sees only this.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublicFacts {
    /// Public number of records n: the true one under replace-one, a declared one under
    /// add/remove.
    pub records: u64,
    /// Number of parameters d.
    pub dim: usize,
    /// Neighbouring relation.
    pub adjacency: Adjacency,
    /// L0: bound on the norm of each record's gradient.
    pub lipschitz: f64,
    /// L1: Lipschitz constant of each record's gradient.
    pub smoothness: f64,
    /// Upper bound on F(0) - min F.
    pub initial_gap: f64,
    /// X: bound on the norm of a feature row, where the loss is generalised linear.
    pub row_norm: f64,
    /// Whether each record's loss is convex.
    pub convexity: Convexity,
}

impl PublicFacts {
    /// The facts of a generalised linear problem.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] when a fact is not a positive finite number.
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
        };
        facts.check()?;
        Ok(facts)
    }

    /// Checks that every fact is a positive finite number.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn check(&self) -> Result<(), PlanError> {
        for (name, value) in [
            ("records", self.records as f64),
            ("dim", self.dim as f64),
            ("lipschitz", self.lipschitz),
            ("smoothness", self.smoothness),
            ("initial_gap", self.initial_gap),
            ("row_norm", self.row_norm),
        ] {
            if !(value.is_finite() && value > 0.0) {
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
}

/// No plan could be made. Nothing was read or spent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A public fact is not a positive finite number.
    #[error("{name} must be a positive finite number, got {value}")]
    BadFact {
        /// Name of the fact.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The best bound says no more than the starting point already satisfies.
    #[error(
        "{solver} has no useful plan for these facts: its best bound on the gradient norm is {bound:.4}, \
         and the starting point already satisfies {trivial:.4}; more records (now {records}), a larger \
         epsilon (now mu = {mu:.4}) or fewer features (now {dim}) would help"
    )]
    Vacuous {
        /// Solver that was planned.
        solver: &'static str,
        /// The best bound found.
        bound: f64,
        /// min(L0, sqrt(2 L1 F0)).
        trivial: f64,
        /// n.
        records: u64,
        /// d.
        dim: usize,
        /// Gaussian-DP budget.
        mu: f64,
    },
    /// A solver needs a bound on how far a minimiser is from the start, and was given none.
    #[error(
        "{solver} needs a public bound on the distance from the starting point to a minimiser (a radius), and none was given; \
         for these facts (L0 = {lipschitz}, L1 = {smoothness}) one below {telling:.4} says more of the gradient at the \
         starting point than they do"
    )]
    RadiusMissing {
        /// Solver that was planned.
        solver: &'static str,
        /// L0.
        lipschitz: f64,
        /// L1.
        smoothness: f64,
        /// min(L0, sqrt(2 L1 F0))/L1.
        telling: f64,
    },
    /// A solver for convex losses was asked for another one.
    #[error(
        "{solver} is for losses that are convex for every record, and this one (L0 = {lipschitz}, L1 = {smoothness}) is not"
    )]
    NotConvex {
        /// Solver that was planned.
        solver: &'static str,
        /// L0.
        lipschitz: f64,
        /// L1.
        smoothness: f64,
    },
    /// A solver reads slices of records at fixed positions, which the adjacency does not keep.
    #[error(
        "{solver} would read the {records} records in slices by position (some {slices}), and under {adjacency} adjacency \
         one record more shifts every later slice, so that all of them would have to be paid for; replace-one or zero-out \
         is needed"
    )]
    NeedsPositions {
        /// Solver that was planned.
        solver: &'static str,
        /// The adjacency.
        adjacency: Adjacency,
        /// n.
        records: u64,
        /// Slices of the plan, were positions fixed; 1 where there is none.
        slices: u64,
    },
    /// There are not enough records for one round.
    #[error("one round of {solver} reads at least {needed} records, and there are {records}")]
    TooFewRecords {
        /// Solver that was planned.
        solver: &'static str,
        /// n.
        records: u64,
        /// Records of the smallest round.
        needed: u64,
    },
    /// A tree can't be this deep.
    #[error("a tree of depth {depth} was asked for; at most {most} is planned")]
    TooDeep {
        /// Depth asked for.
        depth: u32,
        /// Deepest tree.
        most: u32,
    },
    /// A solver is for losses under a KL condition with an exponent in another range.
    #[error("{solver} is for a KL exponent kappa from {least} to {most}, and this one is {kappa}")]
    KlExponent {
        /// Solver that was planned.
        solver: &'static str,
        /// kappa.
        kappa: f64,
        /// Smallest kappa that the solver's theorem covers.
        least: f64,
        /// Largest kappa that the solver's theorem covers; infinite where there is none.
        most: f64,
    },
    /// gamma L0 is too small for the bound on the gap: at the start (gamma ||grad F||)^kappa is at most (gamma L0)^kappa, and the
    /// condition would contradict the gap.
    #[error(
        "the KL condition allows an excess of at most (gamma L0)^kappa = {most:e} at the start, and the bound on the initial gap is \
         {initial_gap:e}: gamma or L0 is too small, or the bound on the gap can be lowered to the former"
    )]
    KlGap {
        /// (gamma L0)^kappa.
        most: f64,
        /// F0.
        initial_gap: f64,
    },
    /// A solver for weakly convex losses was not told how much they may bend down.
    #[error(
        "{solver} needs a constant of weak convexity (W with f + (W/2)||.||^2 convex for every record: 0 for convex losses, L1 for smooth \
         ones), and none was given"
    )]
    WeakConvexityMissing {
        /// Solver that was planned.
        solver: &'static str,
    },
    /// The constants hold in a smaller ball than the run may need.
    #[error(
        "{solver} may go as far as {needed} from the start, and the constants were stated for a radius of {region}"
    )]
    RegionTooSmall {
        /// Solver that was planned.
        solver: &'static str,
        /// The radius that was stated.
        region: f64,
        /// How far the run may go.
        needed: f64,
    },
    /// No bound on the excess risk is below the bound on the gap that the starting point has.
    #[error(
        "{solver} has no useful plan for these facts: its best bound on the excess risk is {bound:e}, and the starting point \
         already satisfies {initial_gap:e}; more records (now {records}), a larger epsilon (now mu = {mu:.4}) or fewer \
         parameters (now {dim}) would help"
    )]
    VacuousRisk {
        /// Solver that was planned.
        solver: &'static str,
        /// The best bound found; infinite where there is none.
        bound: f64,
        /// F0.
        initial_gap: f64,
        /// n.
        records: u64,
        /// d.
        dim: usize,
        /// Gaussian-DP budget.
        mu: f64,
    },
    /// The budget does not pay for one step, whatever the records are.
    #[error(
        "{solver} can't make a step: {what} costs a squared mu of at least {cost:e}, and the budget is {squared_mu:e}; more records \
         (now {records}), a larger epsilon or fewer parameters (now {dim}) would help"
    )]
    Unaffordable {
        /// Solver that was planned.
        solver: &'static str,
        /// What can't be paid.
        what: &'static str,
        /// Its least cost.
        cost: f64,
        /// The budget.
        squared_mu: f64,
        /// n.
        records: u64,
        /// d.
        dim: usize,
    },
    /// A plan was asked for that needs a public bound on the rank.
    #[error(
        "the rank branch of the projection needs a public bound on the rank of the rows, and none was given; \
         a bound must never be computed from protected records"
    )]
    RankMissing,
    /// The number of rows of a projection can't be chosen by a bound that the base solver does not state, or states of the
    /// population, or with a probability.
    #[error(
        "the solver states no bound on the mean norm of the gradient over these records, so the projection's dimension has to be \
         given"
    )]
    NoBaseBound,
    /// A projection can't have this shape.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The accountant refused.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// A derived quantity is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
}
