//! What a report shows.

use dpopt::nonconvex::{StatedBound, Stop};
use dpopt::privacy::Adjacency;

use crate::attack::AttackTable;
use crate::by_group::ByGroup;
use crate::certificate::Certificate;
use crate::evaluated::Evaluated;
use crate::no_bound::NoBound;
use crate::statement::AllRuns;
use crate::summary::Times;
use crate::trace::Trace;

/// What a run says about privacy.
#[derive(Debug, Clone)]
pub(crate) struct PrivacyStatement<'a> {
    /// The epsilon of the whole plan; in a simulation, the one that a protected run would state.
    pub epsilon: f64,
    /// The delta.
    pub delta: f64,
    /// The neighbouring relation.
    pub adjacency: Adjacency,
    /// Who computed epsilon.
    pub accountant: &'a str,
    /// False in a simulation: then there is no guarantee.
    pub protected: bool,
    /// The epsilon of what was really released, where a theorem allows such a reading.
    pub spent_epsilon: Option<f64>,
    /// That theorem.
    pub spent_theorem: &'a str,
    /// How the run ended.
    pub stop: Stop,
    /// Properties that were claimed and not enforced, on which the guarantee rests besides.
    pub rests_on: &'a [String],
    /// Whether the schema was read from the protected records.
    pub draft_schema: bool,
    /// For a run that started at a point of earlier ones: what all runs on the ledger have together.
    pub all_runs: Option<AllRuns>,
    /// What an attacker can do.
    pub attack: AttackTable,
}

/// Everything that a report shows. All of it is public.
#[derive(Debug, Clone)]
pub(crate) struct ReportInput<'a> {
    /// Heading.
    pub title: &'a str,
    /// Name of the solver.
    pub solver: &'a str,
    /// Why it was picked, if it was not named by the user.
    pub solver_reason: Option<String>,
    /// Name of the loss.
    pub loss: &'a str,
    /// The plan: name, value.
    pub plan: Vec<(String, String)>,
    /// What was public: name, value.
    pub public_facts: Vec<(String, String)>,
    /// The privacy statement.
    pub privacy: PrivacyStatement<'a>,
    /// Share of the plan's privacy spent after each point of the trace; `None` hides the plot.
    pub budget: Option<Vec<f64>>,
    /// What is proven of the returned point, or why nothing is.
    pub bound: Result<StatedBound, NoBound>,
    /// The bound of the plan, for a run to its end.
    pub planned_bound: Option<StatedBound>,
    /// What the starting point satisfies already.
    pub trivial_bound: f64,
    /// What the releases certify, or why they don't.
    pub certificate: &'a Certificate,
    /// What a release at the result certifies of a saddle problem, or why nothing, where that was asked for.
    pub certified: Option<String>,
    /// On records that were held out.
    pub evaluation: Option<&'a Evaluated>,
    /// How each group of the test set fares.
    pub by_group: Option<&'a ByGroup>,
    /// What is said where the returned point is the start.
    pub learnt_nothing: Option<&'a str>,
    /// What all runs on the ledger have left, where there is a ledger.
    pub ledger_budget: Option<&'a str>,
    /// How many releases were made; the trace of a long run has fewer.
    pub releases: u64,
    /// What was released.
    pub trace: &'a Trace,
    /// Metrics on data that was declared outside the protection.
    pub test_metrics: Option<Vec<(String, String)>>,
    /// Weights by the names of their features, of a model with one for each; empty for others.
    pub weights: Vec<(String, f64)>,
    /// The schema as text, and its SHA-256.
    pub schema: Option<(String, String)>,
    /// Files that the run wrote: name, what it is.
    pub files: Vec<(String, String)>,
    /// How a model was chosen among several runs, and what the choice costs, where it was.
    pub tuned: Option<[String; 2]>,
    /// Version, date, command line: name, value.
    pub made: Vec<(String, String)>,
    /// Wall-clock times; none where they may not be written.
    pub times: Option<Times>,
    /// Passes over the records.
    pub passes: f64,
}
