//! Solvers by name: everything that a caller has to know of one before there is a plan.

use std::num::NonZeroUsize;

use dpopt_oracle::Constants;
use dpopt_privacy::Adjacency;
use serde::{Serialize, Serializer};

use crate::batches::Batches;
use crate::bound::{BoundSense, BoundedQuantity};
use crate::error::PlanError;
use crate::facts::{Budget, PublicFacts};
use crate::kl_condition::KlCondition;
use crate::plan::{Item, Plan};
use crate::rank::PublicRank;
use crate::second_order::{SecondOrderTargets, WalkConstants};
use crate::unit::Unit;

/// A solver: how it is called, what it needs, and how it is planned.
#[derive(Clone, Copy)]
pub struct Solver {
    /// The name, as on the command line and in files.
    pub name: &'static str,
    /// For what it is, in a few words.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What it can't be planned or run without.
    pub needs: Needs,
    /// Whether its plans are better for a bound on the rank, without a projection.
    pub uses_rank: bool,
    /// On what its plans state a bound and in which sense, where the bound says anything; none: they never do.
    pub bound: Option<(BoundedQuantity, BoundSense)>,
    /// The part that it plays where a rule picks the solver.
    pub auto: Auto,
    /// The page of its proof, below `docs/`.
    pub theory_page: Option<&'static str>,
    /// The page of what its privacy rests on, below `docs/`.
    pub privacy_page: &'static str,
    /// Plans. See [`Solver::plan`].
    pub planner: Planner,
}

/// From public facts, extra facts, a budget and limits to a plan.
pub type Planner =
    fn(&PublicFacts, &ExtraFacts, &Budget, &Limits) -> Result<Box<dyn Plan>, PlanError>;

/// What a solver can't do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// [`ExtraFacts::radius`].
    pub radius: bool,
    /// [`ExtraFacts::kl`].
    pub kl: bool,
    /// [`ExtraFacts::goldstein_radius`].
    pub goldstein: bool,
    /// [`ExtraFacts::hessian`], and a loss with second derivatives.
    pub hessian: bool,
    /// Values of the loss and no gradient: then [`ExtraFacts::directions`] is of use.
    pub values: bool,
    /// Fresh samples: then [`ExtraFacts::batches`] is of use.
    pub samples: bool,
    /// Losses that are convex for every record.
    pub convex: bool,
    /// Records at fixed positions, which it reads in slices: refused under add-remove.
    pub positions: bool,
    /// Records in memory.
    pub memory: bool,
    /// No constants of the loss: it can be planned in the units of [`ExtraFacts::typical`].
    pub no_constants: bool,
}

impl Needs {
    /// Nothing.
    pub const NOTHING: Self = Self {
        radius: false,
        kl: false,
        goldstein: false,
        hessian: false,
        values: false,
        samples: false,
        convex: false,
        positions: false,
        memory: false,
        no_constants: false,
    };
}

/// What part a solver plays in the `auto` rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto {
    /// None: it is taken only by name, and why.
    Never(&'static str),
    /// For smooth losses that are not convex: its bound on the gradient norm, and its cost, are compared with those of the others.
    ByBound,
    /// Its bound at a given Goldstein radius, and its cost, are compared with those of the others, for losses with kinks.
    AtRadius,
    /// It is taken for convex losses, and where no bound says anything.
    Fallback,
    /// It is taken for losses without a Lipschitz constant.
    NoConstants,
}

impl std::fmt::Display for Auto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Never(why) => why,
            Self::ByBound => "smooth losses that are not convex",
            Self::AtRadius => "losses with kinks, at a Goldstein radius",
            Self::Fallback => "convex losses, and where no bound says anything",
            Self::NoConstants => "losses without a Lipschitz constant",
        })
    }
}

/// What some solvers need to be told beside the facts of the problem. Public, and **never computed from protected
/// records**; if it is wrong a stated bound may be, and no guarantee is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct ExtraFacts {
    /// R: a bound on the distance from the starting point to some minimiser of the population risk.
    pub radius: Option<f64>,
    /// A bound on the dimension of the space of the gradients: the rank of the rows of a generalised linear problem, and
    /// [`PublicRank::of_units`] of it for a network.
    pub rank: Option<PublicRank>,
    /// A KL condition of the mean loss.
    pub kl: Option<KlCondition>,
    /// W: every f(.; x) + (W/2)||.||^2 is convex. For solvers under a KL condition.
    pub weak_convexity: Option<f64>,
    /// beta: the probability with which a bound on the excess risk may fail; 0.05 where it is left out.
    pub failure: Option<f64>,
    /// r: how far from the answer the gradients may be taken whose mean is to be short. A choice, not a fact.
    pub goldstein_radius: Option<f64>,
    /// m: along how many directions a step from values alone asks for slopes; none: the planner's choice. A choice, not a fact.
    pub directions: Option<u64>,
    /// What is known of a loss that has no Lipschitz constant, for solvers from values alone.
    pub bounded_values: Option<BoundedValues>,
    /// What is known of Hessians.
    pub hessian: Option<HessianFacts>,
    /// alpha and lambda of second-order stationarity, for solvers that are asked for it; none: as small as the budget pays for. A
    /// choice, not a fact.
    pub second_order: Option<SecondOrderTargets>,
    /// By which errors a walk of one pass is planned; none: typical ones. A choice, not a fact.
    pub walk_constants: Option<WalkConstants>,
    /// How batches are drawn, for solvers on samples. A choice, not a fact.
    pub batches: Batches,
    /// Units, of a loss that has no Lipschitz constant, for plans that state no bound.
    pub typical: Option<TypicalConstants>,
}

/// What stands in for the constants of a loss that has none: those of a linear model whose rows are as long as the slopes of the outputs
/// are at typical weights. They bound nothing: planners without a bound take clip radii and steps from them, and no plan states anything
/// by them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TypicalConstants {
    /// In the place of L0.
    pub lipschitz: f64,
    /// In the place of L1; infinite for a head with kinks.
    pub smoothness: f64,
    /// In the place of X.
    pub row_norm: f64,
}

impl ExtraFacts {
    /// The facts that a plan without a bound takes its units from: those of the problem where it has a Lipschitz constant, and otherwise
    /// with [`ExtraFacts::typical`] in their place.
    #[must_use]
    pub fn units(&self, facts: &PublicFacts) -> PublicFacts {
        match self.typical {
            Some(typical) if facts.lipschitz.is_infinite() => PublicFacts {
                lipschitz: typical.lipschitz,
                smoothness: typical.smoothness,
                row_norm: typical.row_norm,
                ..*facts
            },
            _ => *facts,
        }
    }
}

/// What is known of the Hessians of records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HessianFacts {
    /// rho: the Hessian of F is Lipschitz with this constant.
    pub lipschitz: f64,
    /// C_F: every record's Hessian has at most this Frobenius norm, to which it is clipped.
    pub frobenius: f64,
}

impl HessianFacts {
    /// rho and C_F of a loss.
    #[must_use]
    pub fn of(constants: &Constants) -> Self {
        Self {
            lipschitz: constants.hessian_lipschitz,
            frobenius: constants.hessian_frobenius,
        }
    }

    /// As items of a plan.
    #[must_use]
    pub fn items(&self) -> Vec<Item<'static>> {
        vec![
            Item::number("hessian_lipschitz", self.lipschitz, Unit::THIRD),
            Item::number("hessian_frobenius", self.frobenius, Unit::CURVATURE),
        ]
    }

    /// Refuses numbers that are not positive and finite.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn check(&self) -> Result<(), PlanError> {
        PlanError::positive("hessian_lipschitz", self.lipschitz)?;
        PlanError::positive("hessian_frobenius", self.frobenius)
    }

    /// As [`HessianFacts::check`], and refuses a C_F below L1.
    ///
    /// # Errors
    /// [`PlanError::BadFact`]; [`PlanError::FrobeniusBelowSmoothness`].
    pub fn check_beside(&self, facts: &PublicFacts) -> Result<(), PlanError> {
        self.check()?;
        let (frobenius, smoothness) = (self.frobenius, facts.smoothness);
        // Both may have been rounded.
        if frobenius < smoothness * (1.0 - 1e-12) {
            return Err(PlanError::FrobeniusBelowSmoothness {
                frobenius,
                smoothness,
            });
        }
        Ok(())
    }

    /// What to say of a C_F above sqrt(d) L1, which no matrix of operator norm L1 has: it only adds noise.
    #[must_use]
    pub fn warning(&self, facts: &PublicFacts) -> Option<String> {
        let most = (facts.dim as f64).sqrt() * facts.smoothness;
        (self.frobenius > most * (1.0 + 1e-9)).then(|| {
            format!(
                "C_F = {} is above sqrt(d) L1 = {most:.4e}, which no Hessian exceeds whose eigenvalues are within L1: the smaller \
                 number would do, with less noise",
                self.frobenius
            )
        })
    }
}

/// A loss whose values lie in an interval of a known length, and that need not be continuous. Nothing need be known of its slopes,
/// so what is said is said of its mean over a ball. A known Lipschitz constant makes a bound that is not below it vacuous.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundedValues {
    /// c0: the length of an interval that holds all values of every record's loss. A fact.
    pub range: f64,
    /// a: the radius of the ball. A choice, in the unit of a point's length.
    pub smoothing: f64,
}

impl BoundedValues {
    /// Refuses numbers that are not positive and finite.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn check(&self) -> Result<(), PlanError> {
        PlanError::positive("value_range", self.range)?;
        PlanError::positive("smoothing", self.smoothing)
    }
}

impl ExtraFacts {
    /// With this radius.
    #[must_use]
    pub fn with_radius(mut self, radius: f64) -> Self {
        self.radius = Some(radius);
        self
    }

    /// With this rank.
    #[must_use]
    pub fn with_rank(mut self, rank: PublicRank) -> Self {
        self.rank = Some(rank);
        self
    }

    /// With this KL condition.
    #[must_use]
    pub fn with_kl(mut self, kl: KlCondition) -> Self {
        self.kl = Some(kl);
        self
    }

    /// With this constant of weak convexity.
    #[must_use]
    pub fn with_weak_convexity(mut self, weak_convexity: f64) -> Self {
        self.weak_convexity = Some(weak_convexity);
        self
    }

    /// With this Goldstein radius.
    #[must_use]
    pub fn with_goldstein_radius(mut self, radius: f64) -> Self {
        self.goldstein_radius = Some(radius);
        self
    }

    /// With so many directions.
    #[must_use]
    pub fn with_directions(mut self, directions: u64) -> Self {
        self.directions = Some(directions);
        self
    }

    /// For a loss with bounded values and no Lipschitz constant.
    #[must_use]
    pub fn with_bounded_values(mut self, bounded: BoundedValues) -> Self {
        self.bounded_values = Some(bounded);
        self
    }

    /// With batches that are drawn so.
    #[must_use]
    pub fn with_batches(mut self, batches: Batches) -> Self {
        self.batches = batches;
        self
    }

    /// With these facts of Hessians.
    #[must_use]
    pub fn with_hessian(mut self, hessian: HessianFacts) -> Self {
        self.hessian = Some(hessian);
        self
    }

    /// With these targets of second order.
    #[must_use]
    pub fn with_second_order(mut self, targets: SecondOrderTargets) -> Self {
        self.second_order = Some(targets);
        self
    }

    /// With these constants of the walk.
    #[must_use]
    pub fn with_walk_constants(mut self, constants: WalkConstants) -> Self {
        self.walk_constants = Some(constants);
        self
    }

    /// What is known of Hessians.
    ///
    /// # Errors
    /// [`PlanError::HessianFactsMissing`]; [`PlanError::BadFact`].
    pub fn hessian_for(&self, solver: &'static str) -> Result<HessianFacts, PlanError> {
        let hessian = self
            .hessian
            .ok_or(PlanError::HessianFactsMissing { solver })?;
        hessian.check()?;
        Ok(hessian)
    }

    /// The number of directions in `dim` dimensions, if one was chosen.
    ///
    /// # Errors
    /// [`PlanError::Directions`] for none, and for more than there are dimensions.
    pub fn directions_in(&self, dim: usize) -> Result<Option<NonZeroUsize>, PlanError> {
        let number = |directions: u64| {
            let fits = usize::try_from(directions).ok().filter(|m| *m <= dim);
            fits.and_then(NonZeroUsize::new)
                .ok_or(PlanError::Directions { directions, dim })
        };
        self.directions.map(number).transpose()
    }

    /// The Goldstein radius.
    ///
    /// # Errors
    /// [`PlanError::GoldsteinRadiusMissing`].
    pub fn goldstein_radius_for(&self, solver: &'static str) -> Result<f64, PlanError> {
        self.goldstein_radius
            .ok_or(PlanError::GoldsteinRadiusMissing { solver })
    }

    /// The KL condition.
    ///
    /// # Errors
    /// [`PlanError::KlMissing`].
    pub fn kl_for(&self, solver: &'static str) -> Result<KlCondition, PlanError> {
        self.kl.ok_or(PlanError::KlMissing { solver })
    }

    /// beta.
    #[must_use]
    pub fn failure(&self) -> f64 {
        self.failure.unwrap_or(0.05)
    }
}

/// What bounds the running time of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most steps: of one stage where there are stages, nothing to a plan that is one pass.
    pub max_steps: u64,
}

impl Limits {
    /// Most steps of solvers that state no bound, where nothing is asked for: it bounds the running time.
    pub const STEPS: u64 = 2_000;
    /// Most steps of solvers with a bound, where nothing is asked for: large, since a plan that is cut has a worse bound.
    pub const STEPS_WITH_BOUND: u64 = 100_000;

    /// At most so many steps.
    #[must_use]
    pub fn steps(max_steps: u64) -> Self {
        Self { max_steps }
    }
}

impl Solver {
    /// Plans, from all that is known. What the solver has no use for it does not read.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(
        &self,
        facts: &PublicFacts,
        extra: &ExtraFacts,
        budget: &Budget,
        limits: &Limits,
    ) -> Result<Box<dyn Plan>, PlanError> {
        (self.planner)(facts, extra, budget, limits)
    }

    /// Whether its plans state a bound, where it says anything.
    #[must_use]
    pub fn states_a_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// What bounds its plans where nothing is asked for.
    #[must_use]
    pub fn usual_limits(&self) -> Limits {
        Limits::steps(match self.states_a_bound() {
            true => Limits::STEPS_WITH_BOUND,
            false => Limits::STEPS,
        })
    }

    /// Whether it can be planned under this adjacency.
    #[must_use]
    pub fn accepts(&self, adjacency: Adjacency) -> bool {
        adjacency != Adjacency::AddRemove || !self.needs.positions
    }
}

impl PartialEq for Solver {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Solver {}

impl std::fmt::Debug for Solver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Solver({})", self.name)
    }
}

/// A plan that no registry of solvers can make from the facts that all of them share: to be named in a program, and not by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryPlan {
    /// The name, as in reports, and of its group of audits.
    pub name: &'static str,
    /// Its type.
    pub plan: &'static str,
    /// For what it is, in a few words.
    pub summary: &'static str,
    /// Whether it reads records at fixed positions: refused under add-remove.
    pub positions: bool,
    /// The page of its algorithm, below `docs/`, if it has one.
    pub theory_page: Option<&'static str>,
    /// The page of what its privacy rests on, below `docs/`.
    pub privacy_page: &'static str,
}

impl std::fmt::Display for Solver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for Solver {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// The solver of this name in a list.
///
/// # Errors
/// [`UnknownSolver`].
pub fn find(solvers: &[&'static Solver], name: &str) -> Result<&'static Solver, UnknownSolver> {
    let found = solvers.iter().copied().find(|solver| solver.name == name);
    found.ok_or_else(|| UnknownSolver::NotKnown {
        name: name.to_owned(),
        known: names(solvers),
    })
}

/// A solver of an earlier version that is no longer here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedSolver {
    /// The name, as in stored models.
    pub name: &'static str,
    /// The solvers to take instead.
    pub instead: &'static str,
}

/// The names in a list, with commas between them.
#[must_use]
pub fn names(solvers: &[&'static Solver]) -> String {
    let names: Vec<&str> = solvers.iter().map(|solver| solver.name).collect();
    names.join(", ")
}

/// A name is not that of a solver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSolver {
    /// No solver ever had this name.
    #[error("no solver is called `{name}`; known: {known}")]
    NotKnown {
        /// The name.
        name: String,
        /// The names of the list.
        known: String,
    },
    /// The solver was removed.
    #[error("the solver `{}` was removed; use {}", .0.name, .0.instead)]
    Removed(RemovedSolver),
}
