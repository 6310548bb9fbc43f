//! Why no plan could be made.

use dpopt_linalg::{DomainError, MapError};
use dpopt_privacy::{AccountingError, Adjacency, UnitError};

use crate::second_order::SecondOrderTargets;

/// "at least so many", or "more".
struct Records(Option<u64>);

impl std::fmt::Display for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(records) => write!(f, "at least {records}"),
            None => f.write_str("more"),
        }
    }
}

/// How many records would do, if that is known.
struct Enough(Option<u64>);

impl std::fmt::Display for Enough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(records) => write!(f, "; {records} records would do"),
            None => Ok(()),
        }
    }
}

/// What is within reach of a budget.
struct Reach(Option<SecondOrderTargets>);

impl std::fmt::Display for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(SecondOrderTargets {
                gradient,
                curvature,
            }) => write!(f, "{gradient:.4} and -{curvature:.4} are within reach"),
            None => {
                f.write_str("none with lambda = sqrt(rho alpha) says more than the start tells")
            }
        }
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
    /// A bound was asked of a field that clips may shorten, or whose constants are not proven at every point.
    #[error(
        "no bound follows: records' fields may be shortened to {clip_x} and {clip_y}, or the constants are not proven at every point and for these shares"
    )]
    Shortened {
        /// C_x.
        clip_x: f64,
        /// C_y.
        clip_y: f64,
    },
    /// Two public facts contradict each other.
    #[error("{name} can't be {value}: {limit_name} is {limit}")]
    Contradiction {
        /// Name of the one.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Name of the other, which limits it.
        limit_name: &'static str,
        /// Its value.
        limit: f64,
    },
    /// A saddle problem without a bounded domain to maximise over.
    #[error("y has no domain to be maximised over: {0}")]
    Domain(#[from] DomainError),
    /// A plan for smooth losses was asked for a loss with kinks.
    #[error(
        "the loss has kinks (no Lipschitz constant of its gradient), and this plan needs one; `goldstein` and its variants don't"
    )]
    Kinks,
    /// A solver that finds Goldstein-stationary points was not told at which radius.
    #[error(
        "{solver} needs a Goldstein radius: how far the points may lie around the answer whose gradients have a short mean \
         (in the unit of a point's length; the bound falls with its cube root), and none was given"
    )]
    GoldsteinRadiusMissing {
        /// Solver that was planned.
        solver: &'static str,
    },
    /// A solver that releases Hessians was not told how large they are.
    #[error(
        "{solver} needs two facts of the Hessians: rho, a Lipschitz constant, and C_F, a bound on the Frobenius norm of each record's \
         (L1, for a generalised linear loss), and at least one of them is not known"
    )]
    HessianFactsMissing {
        /// Solver that was planned.
        solver: &'static str,
    },
    /// C_F and L1 contradict each other: no matrix has a Frobenius norm below its operator norm.
    #[error(
        "the records' Hessians have Frobenius norm at most C_F = {frobenius}, so that L1 is at most that, and not {smoothness}: one of the \
         two facts is wrong"
    )]
    FrobeniusBelowSmoothness {
        /// C_F.
        frobenius: f64,
        /// L1.
        smoothness: f64,
    },
    /// A Hessian would be too large.
    #[error(
        "{solver} releases whole Hessians, and dimension {dim} is above {limit}, the largest for which one is formed"
    )]
    TooManyDimensions {
        /// Solver that was planned.
        solver: &'static str,
        /// d.
        dim: usize,
        /// The largest possible.
        limit: usize,
    },
    /// The budget does not pay for a second-order certificate as tight as was asked for, or for any that says something.
    #[error(
        "{solver} has no plan for these facts that ends in a certificate of a gradient of at most {gradient:.4} and a least eigenvalue of \
         at least -{curvature:.4}: it could cost {cost:.3} times the budget; at this budget {reachable} (n = {records}, d = {dim}, mu = {mu:.4}){enough}",
        reachable = Reach(*reachable), enough = Enough(*enough)
    )]
    Uncertifiable {
        /// Solver that was planned.
        solver: &'static str,
        /// alpha that was asked for, or the largest that says something.
        gradient: f64,
        /// lambda.
        curvature: f64,
        /// What it may cost, in squared mu, over mu squared.
        cost: f64,
        /// For how many records there is such a plan, to within 2 %; none where no number was found.
        enough: Option<u64>,
        /// The least of the same kind that the budget pays for.
        reachable: Option<SecondOrderTargets>,
        /// n.
        records: u64,
        /// d.
        dim: usize,
        /// Gaussian-DP budget.
        mu: f64,
    },
    /// No episode of products with the Hessian tells so little curvature in so many dimensions, whatever it may cost.
    #[error(
        "{solver}: no products with the Hessian tell curvatures of -{curvature:.4e} from none in {dim} dimensions but with probability \
         {missed:.1e}, with Hessians of up to {smoothness:.4e}: the rounding of releases may hide them, whatever the budget; a larger curvature \
         or probability would help"
    )]
    NoEpisode {
        /// Solver that was planned.
        solver: &'static str,
        /// lambda.
        curvature: f64,
        /// L1.
        smoothness: f64,
        /// d.
        dim: usize,
        /// p, the largest that any of its episodes may have.
        missed: f64,
    },
    /// One pass over so few records ends in no second-order certificate as tight as was asked for, or in none that says something.
    #[error(
        "{solver} has no plan for these facts that ends in a certificate of a gradient of at most {gradient:.4} and a least eigenvalue of \
         at least -{curvature:.4} in one pass over {records} records: it needs {needed}; for {records} records {reachable} \
         (d = {dim}, mu = {mu:.4})",
        needed = Records(*needed), reachable = Reach(*reachable)
    )]
    TooFewToCertify {
        /// Solver that was planned.
        solver: &'static str,
        /// alpha that was asked for, or the largest that says something.
        gradient: f64,
        /// lambda.
        curvature: f64,
        /// How many records there would have to be; none where there is no such number.
        needed: Option<u64>,
        /// The least of the same kind that these records suffice for.
        reachable: Option<SecondOrderTargets>,
        /// n.
        records: u64,
        /// d.
        dim: usize,
        /// Gaussian-DP budget.
        mu: f64,
    },
    /// More steps may be needed than are allowed.
    #[error("{solver} may need {needed} steps, and at most {most} are allowed")]
    TooFewSteps {
        /// Solver that was planned.
        solver: &'static str,
        /// Steps that the plan may need.
        needed: u64,
        /// Most steps.
        most: u64,
    },
    /// A target that the start meets, and every point that is no higher.
    #[error(
        "the start and every point that is no higher meet {name}: {value} is not below {limit}"
    )]
    EveryPointMeets {
        /// Of what.
        name: &'static str,
        /// The target.
        value: f64,
        /// L0, sqrt(2 L1 F0), or L1.
        limit: f64,
    },
    /// No number of orthogonal directions.
    #[error(
        "slopes can't be taken along {directions} orthogonal directions in {dim} dimensions: choose from 1 to {dim}"
    )]
    Directions {
        /// m.
        directions: u64,
        /// d.
        dim: usize,
    },
    /// A largest batch for a solver that samples slices.
    #[error(
        "{solver} samples slices, and nothing is proven of samples of them with a largest batch (got {most}); take Poisson samples or an allocation"
    )]
    LargestBatchOfSlice {
        /// Solver that was planned.
        solver: &'static str,
        /// Records that would be kept at most.
        most: u32,
    },
    /// A largest batch below the mean one.
    #[error("a largest batch of {most} records is below the mean one of {mean}, or none")]
    LargestBatch {
        /// Records that are kept at most.
        most: u32,
        /// The mean number of records in a batch.
        mean: f64,
    },
    /// How often a largest batch is reached depends on a number of records that is secret.
    #[error(
        "a largest batch is accounted where the number of records is public, not under {adjacency}"
    )]
    BatchesOfSecretSize {
        /// The neighbouring relation.
        adjacency: Adjacency,
    },
    /// A loss of which only the range of values is known was planned for with gradients.
    #[error(
        "{solver} asks for gradients, and of a loss without a Lipschitz constant (its values range over {range}) nothing is known \
         of those; a solver from values alone plans for it"
    )]
    ValuesAlone {
        /// Solver that was planned.
        solver: &'static str,
        /// c0.
        range: f64,
    },
    /// The best bound on the Goldstein distance says no more than every point satisfies.
    #[error(
        "{solver} has no useful plan for these facts: its best bound on the Goldstein distance at radius {radius} is {bound:.4}, \
         and the starting point already satisfies {trivial:.4}; {needed} records (now {records}), a larger radius, a larger \
         epsilon (now mu = {mu:.4}), more steps or fewer parameters (now {dim}) would help", needed = Records(*needed)
    )]
    VacuousGoldstein {
        /// Solver that was planned.
        solver: &'static str,
        /// The best bound found.
        bound: f64,
        /// r.
        radius: f64,
        /// L0, or less where the loss is smooth.
        trivial: f64,
        /// n.
        records: u64,
        /// The number of records at which the bound says something, if steps are not what is missing.
        needed: Option<u64>,
        /// d.
        dim: usize,
        /// Gaussian-DP budget.
        mu: f64,
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
    /// The best bound on the gradient of Phi, the largest value over y, says no more than the starting point already satisfies.
    #[error(
        "{solver} has no useful plan for these facts: its best bound on the gradient norm of the largest value over y is {bound:.4}, \
         and the starting point already satisfies {trivial:.4} (n = {records}, d = {dim}, mu = {mu:.4}{}); more records, a larger epsilon{} \
         would help; {runs} would run, and states no bound",
        .rarest.map_or_else(String::new, |share| format!(", rarest share {share:.4}")),
        if .rarest.is_some() { " or a larger rarest share" } else { "" }
    )]
    VacuousSaddle {
        /// Solver that was planned.
        solver: &'static str,
        /// The best bound found; infinite where there is none.
        bound: f64,
        /// What the start satisfies.
        trivial: f64,
        /// n.
        records: u64,
        /// d1 + d2.
        dim: usize,
        /// Gaussian-DP budget.
        mu: f64,
        /// The share of the records that hurts most, of an objective with groups or classes.
        rarest: Option<f64>,
        /// What runs on these facts.
        runs: &'static str,
    },
    /// A solver needs a bound on how far a minimiser is from the start, and was given none.
    #[error(
        "{solver} needs a public bound on the distance from the starting point to a minimiser (a radius), and none was given; \
         for these facts (L0 = {lipschitz}, L1 = {smoothness}) one below {useful_below:.4} says more of the gradient at the \
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
        useful_below: f64,
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
    /// A solver for losses under a KL condition was told none.
    #[error(
        "{solver} needs a KL condition of the mean loss (gamma and kappa), and none was given; no table of data has one by itself"
    )]
    KlMissing {
        /// Solver that was planned.
        solver: &'static str,
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
    /// Recursive estimates in periods were asked for together with what they are not for.
    #[error("{solver} has no recursive estimates with {what}")]
    NoPeriods {
        /// Solver that was planned.
        solver: &'static str,
        /// With what.
        what: String,
    },
    /// The accountant refused.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// A derived quantity is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

impl PlanError {
    /// Refuses a value that is not positive and finite.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn positive(name: &'static str, value: f64) -> Result<(), Self> {
        if value.is_finite() && value > 0.0 {
            Ok(())
        } else {
            Err(Self::BadFact { name, value })
        }
    }

    /// Refuses what is not strictly between 0 and 1.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn fraction(name: &'static str, value: f64) -> Result<(), Self> {
        if value > 0.0 && value < 1.0 {
            Ok(())
        } else {
            Err(Self::BadFact { name, value })
        }
    }

    /// Refuses a target that is not positive, or that every point meets: one not below `limit`.
    ///
    /// # Errors
    /// [`PlanError::BadFact`], [`PlanError::EveryPointMeets`].
    pub fn target(name: &'static str, value: f64, limit: f64) -> Result<(), Self> {
        Self::positive(name, value)?;
        if value < limit {
            Ok(())
        } else {
            Err(Self::EveryPointMeets { name, value, limit })
        }
    }

    /// Refuses targets that are not positive, or that the start meets: a gradient not below `most`, which is L0 or
    /// [`PublicFacts::trivial_bound`](crate::PublicFacts::trivial_bound), a curvature not below `curved`, which no Hessian exceeds.
    ///
    /// # Errors
    /// As [`PlanError::target`].
    pub fn targets(of: &SecondOrderTargets, most: f64, curved: f64) -> Result<(), Self> {
        Self::target("the gradient that is asked for", of.gradient, most)?;
        Self::target("the curvature that is asked for", of.curvature, curved)
    }

    /// Refuses an adjacency under which positions are not fixed. `slices`: of the plan for another, under which they are.
    ///
    /// # Errors
    /// [`PlanError::NeedsPositions`].
    pub fn positions(
        solver: &'static str,
        (adjacency, records): (Adjacency, u64),
        slices: impl FnOnce(Adjacency) -> Option<u64>,
    ) -> Result<(), Self> {
        if adjacency.record_count_is_public() {
            return Ok(());
        }
        Err(Self::NeedsPositions {
            solver,
            adjacency,
            records,
            slices: slices(Adjacency::ReplaceOne).unwrap_or(1),
        })
    }
}
