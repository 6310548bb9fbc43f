//! Claims, and how a claim is made testable.

use serde::{Deserialize, Serialize};

use crate::checks::{CheckError, Effort, Named};

/// The argument that a claim varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Axis {
    /// Number of records, n.
    Records,
    /// Number of parameters, d.
    Dimension,
    /// The Gaussian-DP parameter. Rates are stated in it and not in epsilon: at fixed delta mu is no
    /// power of epsilon, and a fit against epsilon shows a wrong exponent.
    Mu,
    /// Rank of the data.
    Rank,
    /// An exponent or condition number of the problem.
    Kappa,
    /// The accuracy asked for.
    Accuracy,
    /// Number of steps, T.
    Steps,
    /// Goldstein radius, r.
    Radius,
    /// Directions of a step from values alone, m.
    Directions,
    /// The curvature that is told from none, lambda.
    Curvature,
}

impl Axis {
    /// The letter of formulas.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Axis::Records => "n",
            Axis::Dimension => "d",
            Axis::Mu => "mu",
            Axis::Rank => "rank",
            Axis::Kappa => "kappa",
            Axis::Accuracy => "alpha",
            Axis::Steps => "T",
            Axis::Radius => "r",
            Axis::Directions => "m",
            Axis::Curvature => "lambda",
        }
    }
}

/// The expected exponent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Expect {
    /// The predicted one, within the tolerance: the family is as hard as the theorem.
    Equal,
    /// At most the predicted one, up to the tolerance: a theorem gives an upper bound, and the family
    /// may be easier.
    AtMost,
}

/// One claim of a theorem: "the error goes as x to the power p".
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Claim {
    /// A name without spaces, unique in a registry: `spiderboost/n`.
    pub id: String,
    /// The theorem.
    pub theorem: String,
    /// The solver.
    pub solver: String,
    /// The measured quantity.
    pub quantity: String,
    /// The family of problems.
    pub family: String,
    /// The argument that is varied.
    pub axis: Axis,
    /// The exponent p.
    pub predicted: f64,
    /// How it is compared.
    pub expect: Expect,
    /// How far the fitted exponent may be off.
    pub tolerance: f64,
    /// How wide its confidence interval may be; a wider one decides nothing.
    pub width: f64,
    /// Whether the solver is a broken twin, which has to be caught.
    pub control: bool,
    /// Whether the error of a point is the largest over the family (for a worst-case theorem) or the
    /// mean over it.
    pub worst: bool,
    /// Share of the bound that the error must reach at each argument: far below its bound a family is
    /// too easy to say anything about the theorem. 0 asks nothing.
    pub tight: f64,
    /// Why the tolerance and the width are what they are.
    pub note: String,
}

impl Claim {
    /// The claim that the error goes as the power `predicted` of `axis`: within 0.05, with an interval
    /// narrower than 0.08, on the worst member of the family.
    #[must_use]
    pub fn new(id: &str, axis: Axis, predicted: f64) -> Self {
        Self {
            id: id.to_owned(),
            theorem: String::new(),
            solver: String::new(),
            quantity: "norm of the gradient".to_owned(),
            family: String::new(),
            axis,
            predicted,
            expect: Expect::Equal,
            tolerance: 0.05,
            width: 0.08,
            control: false,
            worst: true,
            tight: 0.0,
            note: String::new(),
        }
    }

    /// The solver and the theorem behind the claim.
    #[must_use]
    pub fn by(mut self, solver: &str, theorem: &str) -> Self {
        self.solver = solver.to_owned();
        self.theorem = theorem.to_owned();
        self
    }

    /// The family of problems.
    #[must_use]
    pub fn on(mut self, family: &str) -> Self {
        self.family = family.to_owned();
        self
    }

    /// The measured quantity, where it isn't the norm of the gradient.
    #[must_use]
    pub fn measuring(mut self, quantity: &str) -> Self {
        self.quantity = quantity.to_owned();
        self
    }

    /// How far off the exponent may be, how wide its interval, and why.
    #[must_use]
    pub fn within(mut self, tolerance: f64, width: f64, note: &str) -> Self {
        self.tolerance = tolerance;
        self.width = width;
        self.note = note.to_owned();
        self
    }

    /// The family has to be hard: errors reach this share of the bound.
    #[must_use]
    pub fn tight(mut self, share: f64) -> Self {
        self.tight = share;
        self
    }

    /// Compares by `expect`.
    #[must_use]
    pub fn expecting(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Takes the mean over the family and not its worst member.
    #[must_use]
    pub fn on_average(mut self) -> Self {
        self.worst = false;
        self
    }

    /// Makes it the claim of a broken twin; `note` says what is broken.
    #[must_use]
    pub fn control(mut self, note: &str) -> Self {
        self.control = true;
        self.note = note.to_owned();
        self
    }
}

/// Where and how often an experiment is run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Design {
    /// The arguments, increasing.
    pub points: Vec<f64>,
    /// Number of problems in the family.
    pub members: usize,
    /// Seeds for each problem at each argument.
    pub seeds: usize,
}

impl Design {
    /// One problem and one seed at each of `points`.
    #[must_use]
    pub fn new(points: Vec<f64>) -> Self {
        Self {
            points,
            members: 1,
            seeds: 1,
        }
    }

    /// Sets the number of problems of the family.
    #[must_use]
    pub fn with_members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// Sets the number of seeds.
    #[must_use]
    pub fn with_seeds(mut self, seeds: usize) -> Self {
        self.seeds = seeds;
        self
    }

    /// Number of trials.
    #[must_use]
    pub fn trials(&self) -> usize {
        self.points.len() * self.members * self.seeds
    }
}

/// One run that is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// The argument.
    pub x: f64,
    /// The index of the problem in the family, from 0.
    pub member: usize,
    /// How large the family is.
    pub members: usize,
    /// A number to seed from. Different for each trial; the same for each run of the experiment.
    pub seed: u64,
}

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// The error.
    pub error: f64,
    /// Its square, or the mean of squares where `error` is itself a mean over a random output.
    pub square: f64,
    /// The planner's bound on the root mean square, where it has one.
    pub bound: Option<f64>,
    /// The lower bound for every solver, in the mean over seeds and on the worst problem, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

impl Measured {
    /// An error without a bound.
    #[must_use]
    pub fn new(error: f64) -> Self {
        Self {
            error,
            square: error * error,
            bound: None,
            floor: None,
        }
    }

    /// The mean of squares, where it isn't the square of the error.
    #[must_use]
    pub fn with_square(mut self, square: f64) -> Self {
        self.square = square;
        self
    }

    /// The bound on the root mean square of the error.
    #[must_use]
    pub fn with_bound(mut self, bound: f64) -> Self {
        self.bound = Some(bound);
        self
    }

    /// The lower bound on the mean error. A row whose error is below it has a solver that knows too much.
    #[must_use]
    pub fn with_floor(mut self, floor: f64) -> Self {
        self.floor = Some(floor);
        self
    }
}

/// A claim made testable.
pub trait Experiment: Sync + Send {
    /// The claim.
    fn claim(&self) -> &Claim;

    /// Where it is tested. Fixed before any run.
    fn design(&self, effort: Effort) -> Design;

    /// Runs the solver once. A function of the trial alone, so that results can be resumed and do
    /// not depend on threads.
    ///
    /// # Errors
    /// Whatever kept the solver from an answer. It is reported, and makes the claim fail.
    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError>;

    /// By what the error is divided before the fit: the logarithms of the theorem. Fixed in advance;
    /// the fit without it is reported beside.
    fn correction(&self, x: f64) -> f64 {
        let _ = x;
        1.0
    }

    /// Bytes that one trial at `x` takes, where it is much.
    fn memory(&self, x: f64) -> f64 {
        let _ = x;
        0.0
    }
}

impl Named for dyn Experiment {
    fn name(&self) -> &str {
        &self.claim().id
    }

    fn is_control(&self) -> bool {
        self.claim().control
    }
}
