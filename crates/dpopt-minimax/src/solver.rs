//! What an entry of the list of solvers holds.

use dpopt_solver::{BoundSense, BoundedQuantity, Budget, Plan, PlanError};

use crate::facts::SaddleFacts;

/// A solver of saddle problems: how it is called, what it is for, and how it is planned.
#[derive(Debug, Clone, Copy)]
pub struct SaddleSolver {
    /// The name, as on the command line and in files.
    pub name: &'static str,
    /// For what it is, in a few words.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// On what its plans state a bound and in which sense, where the bound says anything; none: they never do.
    pub bound: Option<(BoundedQuantity, BoundSense)>,
    /// Whether it reads records at fixed positions, in slices: refused under add-remove.
    pub positions: bool,
    /// The page of its proof, below `docs/`.
    pub theory_page: Option<&'static str>,
    /// The page of what its privacy rests on, below `docs/`.
    pub privacy_page: &'static str,
    /// Plans.
    pub planner: SaddlePlanner,
}

impl PartialEq for SaddleSolver {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SaddleSolver {}

impl std::fmt::Display for SaddleSolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// From facts, a budget and limits to a plan.
pub type SaddlePlanner =
    fn(&SaddleFacts, &Budget, &SaddleLimits) -> Result<Box<dyn Plan>, PlanError>;

/// What bounds a plan, and what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SaddleLimits {
    /// Most releases.
    pub max_steps: u64,
    /// p: the probability with which a bound may fail.
    pub failure: f64,
    /// How far noise may take a coordinate of x in a run, for solvers that state no bound; none: by the curvature alone.
    pub reach: Option<f64>,
    /// The number of steps of `gda`, where it was fixed before the facts were all known; none: by its rule.
    pub exact_steps: Option<u64>,
}

impl SaddleLimits {
    /// At most so many releases, and bounds that fail with probability 0.05.
    #[must_use]
    pub fn steps(max_steps: u64) -> Self {
        Self {
            max_steps,
            failure: 0.05,
            reach: None,
            exact_steps: None,
        }
    }
}
