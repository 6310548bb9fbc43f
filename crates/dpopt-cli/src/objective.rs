//! What a score is trained for: the mean loss of all, the group that it serves worst, equal chances, or the ranking.

mod built;
mod run;

use clap::Args;
use dpopt::data::names::hint;
use dpopt::data::tabular::{Groups, Schema};
use dpopt::minimax::{
    Allowance, CertifyError, GDA, NoShares, SaddleLimits, SaddleSolver, ScoredCertificatePlan,
    SharesPlan, sampled_excess,
};
use dpopt::nonconvex::{Budget, Limits, Outcome, Plan};
use dpopt::oracle::{
    AucSaddle, CellShares, EqualOpportunity, GroupDro, PrivateData, Scored, SharesError,
};
use dpopt::privacy::{Adjacency, Curator, Delta, Event};
use serde::{Deserialize, Serialize};

use crate::args::{self, SolverArg};
use crate::certified::Certified;
use crate::error::CliError;
use crate::ranks;
use crate::statement::spent_in_words;

/// The flag of shares where there is a table, and where there is none.
const OF_TABLES: &str = "--group-shares";
const OF_PLANS: &str = "--shares";
/// The weight of the regulariser of y. Chosen after a look at Census-Income: see `docs/objectives.md`.
const DUAL_WEIGHT: f64 = 1.0;
/// A certificate is false with at most this probability, released shares included.
const CERTIFICATE_FAILS: f64 = 0.05;
/// Of which this is for shares that are further off than stated: by the noise of their release, or those of the schema by the draw of
/// the records.
const SHARES_FAIL: f64 = 0.01;

/// What is optimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Objective {
    /// The mean loss.
    LogLoss,
    /// The worst group's.
    GroupDro,
    /// The mean, with a price on differences of the scores of positives.
    EqualOpportunity,
    /// The square surrogate of the area under the curve.
    Auc,
}

impl Objective {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::LogLoss, "log-loss"),
        (Self::GroupDro, "group-dro"),
        (Self::EqualOpportunity, "equal-opportunity"),
        (Self::Auc, "auc"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl std::fmt::Display for Objective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Objective {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(|(_, name)| name);
        let found = Self::ALL.into_iter().find(|(_, known)| *known == name);
        found
            .map(|(objective, _)| objective)
            .ok_or_else(|| format!("known are {}{}", names.join(", "), hint(name, names)))
    }
}

/// Where shares of groups come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Schema,
    Release,
}

impl std::str::FromStr for Origin {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "schema" => Ok(Self::Schema),
            "release" => Ok(Self::Release),
            _ => Err("known are schema and release".to_owned()),
        }
    }
}

/// Flags of an objective.
#[derive(Debug, Args)]
pub(crate) struct ObjectiveArgs {
    /// What the score is trained for: log-loss (or the --loss), group-dro (the group that it serves worst), equal-opportunity (positives of
    /// all groups get the same scores in the mean) or auc (positives above negatives)
    #[arg(long, value_name = "NAME", default_value = "log-loss")]
    objective: Objective,
    /// Columns that make the groups: categories of the schema, and for group-dro also the label, of which then each class of a group is a
    /// group. A value that the schema does not list is `(other)`. Whatever the objective, the summary has a line for each group of
    /// the test set
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    group: Vec<String>,
    /// Where the shares of the groups, by which they are weighted, come from: schema (its [[share]] entries, public) or
    /// release (one histogram for a hundredth of the budget's mu^2). Default: schema
    #[arg(long, value_name = "FROM")]
    group_shares: Option<Origin>,
    /// Weight of the regulariser that keeps group-dro near equal weights, and prices of equal-opportunity near none; default 1. Much
    /// less than 1, and the pair may oscillate
    #[arg(long, value_name = "V", value_parser = args::positive, allow_hyphen_values = true)]
    dual_weight: Option<f64>,
    /// Certify the result of an objective other than log-loss: how large the gradient of the largest value over y may be there, and how
    /// negative its curvature. For this share of the budget's mu^2, a tenth unless said
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "0.1",
          value_parser = args::positive, allow_hyphen_values = true)]
    certify: Option<f64>,
}

/// An objective that is a saddle problem, before its shares are known.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The flag that its shares are given by.
    shares_by: &'static str,
    /// The share of the budget for a certificate.
    pub(crate) certify: Option<f64>,
    pub(crate) objective: Objective,
    pub(crate) solver: &'static SaddleSolver,
    origin: Origin,
    weight: f64,
}

impl ObjectiveArgs {
    /// The groups, where some were named.
    pub(crate) fn groups(&self, schema: &Schema) -> Result<Option<Groups>, CliError> {
        if self.group.is_empty() {
            return Ok(None);
        }
        let problem = |error: dpopt::data::tabular::TabularError| {
            CliError::flag("--group", error.to_string())
        };
        Groups::new(schema, &self.group).map(Some).map_err(problem)
    }

    /// The saddle problem, if it is one. Refuses flags that the objective has no use for.
    pub(crate) fn wanted(
        &self,
        groups: Option<&Groups>,
        schema: &Schema,
        solver: SolverArg,
    ) -> Result<Option<Wanted>, CliError> {
        let objective = self.objective;
        let saddle = objective != Objective::LogLoss;
        let (shares, weight) = (self.group_shares.is_some(), self.dual_weight.is_some());
        check_flags(objective, solver, shares, weight, OF_TABLES)?;
        if self.certify.is_some() && !saddle {
            let problem = format!(
                "it is for objectives with a largest value over y, and {objective} has none; see `dpopt certify` and the certificates \
                 that solvers make themselves"
            );
            return Err(CliError::flag("--certify", problem));
        }
        if !saddle {
            return Ok(None);
        }
        if schema.label().classes().is_none() {
            let problem = format!(
                "{objective} is for labels of two values, and this one {}",
                match schema.label().several() {
                    Some(several) => format!("has {}", several.values.len()),
                    None => "is a number".to_owned(),
                }
            );
            return Err(CliError::flag("--objective", problem));
        }
        let missing = match objective {
            Objective::GroupDro => groups.is_none(),
            Objective::EqualOpportunity => groups.is_none_or(Groups::is_whole),
            _ => false,
        };
        if missing {
            let problem =
                format!("{objective} needs groups by a column that is not the label alone");
            return Err(CliError::flag("--group", problem));
        }
        if objective == Objective::EqualOpportunity && groups.is_some_and(Groups::by_class) {
            let problem =
                "equal-opportunity compares the positives of groups, so the label makes none";
            return Err(CliError::flag("--group", problem));
        }
        Ok(Some(Wanted {
            shares_by: OF_TABLES,
            certify: self.certify,
            objective,
            solver: saddle_solver(solver),
            origin: self.group_shares.unwrap_or(Origin::Schema),
            weight: self.dual_weight.unwrap_or(DUAL_WEIGHT),
        }))
    }
}

/// Flags of an objective for which there is no table.
#[derive(Debug, Args)]
pub(crate) struct PlannedObjective {
    /// What a score is trained for, as in `dpopt train`; other than log-loss it needs --shares
    #[arg(long, value_name = "NAME", default_value = "log-loss")]
    objective: Objective,
    /// Public shares of the groups among all records: of each the share of its negative, then of its positive class
    #[arg(long, value_name = "S", value_delimiter = ',', value_parser = args::positive)]
    shares: Vec<f64>,
    /// As in `dpopt train`
    #[arg(long, value_name = "V", value_parser = args::positive, allow_hyphen_values = true)]
    dual_weight: Option<f64>,
}

impl PlannedObjective {
    /// The saddle problem, if it is one, and its shares.
    pub(crate) fn wanted(
        &self,
        solver: SolverArg,
    ) -> Result<Option<(Wanted, CellShares)>, CliError> {
        let objective = self.objective;
        let saddle = objective != Objective::LogLoss;
        check_flags(
            objective,
            solver,
            !self.shares.is_empty(),
            self.dual_weight.is_some(),
            OF_PLANS,
        )?;
        if !saddle {
            return Ok(None);
        }
        let pairs = self
            .shares
            .chunks(2)
            .map(|pair| [pair.first().copied(), pair.get(1).copied()]);
        let shares = CellShares::new(pairs.collect());
        let shares = shares.map_err(|error| CliError::flag(OF_PLANS, error.to_string()))?;
        let wanted = Wanted {
            shares_by: OF_PLANS,
            certify: None,
            objective,
            solver: saddle_solver(solver),
            origin: Origin::Schema,
            weight: self.dual_weight.unwrap_or(DUAL_WEIGHT),
        };
        Ok(Some((wanted, shares)))
    }
}

/// What bounds a plan of a score whose rows have norm at most `row_norm`.
pub(crate) fn limits(max_steps: Option<u64>, row_norm: f64) -> SaddleLimits {
    SaddleLimits::of_score(max_steps.unwrap_or(Limits::STEPS), row_norm)
}

/// Refuses flags that the objective has no use for, and solvers of other problems.
fn check_flags(
    objective: Objective,
    solver: SolverArg,
    shares: bool,
    weight: bool,
    shares_flag: &'static str,
) -> Result<(), CliError> {
    let saddle = objective != Objective::LogLoss;
    let weighs = saddle && objective != Objective::Auc;
    for (flag, given, used) in [
        (shares_flag, shares, saddle),
        ("--dual-weight", weight, weighs),
    ] {
        if given && !used {
            return Err(CliError::flag(
                flag,
                format!("{objective} has no use for it"),
            ));
        }
    }
    match solver {
        SolverArg::Saddle(solver) if !saddle => {
            let problem = format!(
                "{solver} is for saddle problems; give an --objective other than {objective}"
            );
            Err(CliError::flag("--solver", problem))
        }
        SolverArg::Named(solver) if saddle => {
            let problem = format!(
                "{solver} minimises, and {objective} is a saddle problem; take auto or gda"
            );
            Err(CliError::flag("--solver", problem))
        }
        _ => Ok(()),
    }
}

/// The solver that was named, and gda for auto.
fn saddle_solver(asked: SolverArg) -> &'static SaddleSolver {
    match asked {
        SolverArg::Saddle(solver) => solver,
        SolverArg::Auto | SolverArg::Named(_) => &GDA,
    }
}

/// A loss of an objective.
enum Built {
    GroupDro(Scored<GroupDro>),
    EqualOpportunity(Scored<EqualOpportunity>),
    Auc(Scored<AucSaddle>),
}

/// Public sizes of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) records: u64,
    pub(crate) adjacency: Adjacency,
    pub(crate) columns: usize,
    pub(crate) row_norm: f64,
}

impl Sizes {
    pub(crate) fn of(data: &PrivateData) -> Self {
        Self {
            records: data.public_records(),
            adjacency: data.adjacency(),
            columns: data.dim(),
            row_norm: data.row_norm(),
        }
    }
}

/// An objective with its shares and its plan.
pub(crate) struct Ready {
    pub(crate) objective: Objective,
    pub(crate) shares: CellShares,
    /// Whether they were released.
    pub(crate) released: bool,
    /// The certificate to make of the result, and how many times its share no cell exceeds.
    certify: Option<(ScoredCertificatePlan, f64)>,
    built: Built,
    columns: usize,
}

/// What was weighed in the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Dual {
    /// y.
    pub(crate) values: Vec<f64>,
}

/// An objective with its shares, its plan, and the curator that released them, if they were released.
pub(crate) type Prepared = (Ready, Box<dyn Plan>, Option<Curator>);

/// What a run of a saddle problem leaves. The outcome's point is the weights alone.
pub(crate) struct Trained {
    pub(crate) outcome: Outcome,
    pub(crate) curator: Curator,
    pub(crate) dual: Dual,
    /// Where one was wanted: what is certified, or why nothing is.
    pub(crate) certificate: Option<Result<Certified, Uncertified>>,
}

/// Why the result of a run is not certified.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Uncertified {
    /// In words.
    pub(crate) why: String,
    /// Whether a release of the certificate was refused: it counts as spent, and there is nothing to show for it.
    pub(crate) broke_off: bool,
}

impl Uncertified {
    fn told(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            broke_off: false,
        }
    }
}

/// What was released before the run, if anything was.
#[derive(Debug, Clone)]
pub(crate) struct Before {
    spent: Event,
    adjacency: Adjacency,
    delta: Delta,
}

impl Before {
    /// By this curator, which serves the run.
    pub(crate) fn of(curator: Option<&Curator>, adjacency: Adjacency, delta: Delta) -> Self {
        let spent = curator.map_or(Event::NoOp, Curator::spent);
        Self {
            spent,
            adjacency,
            delta,
        }
    }

    /// An error that says what was spent before it.
    pub(crate) fn told(&self, error: CliError) -> CliError {
        if self.spent == Event::NoOp {
            return error;
        }
        let error = match error {
            // These say it themselves.
            CliError::AfterRun(_) | CliError::BrokeOff(_) | CliError::Diverged { .. } => {
                return error;
            }
            CliError::Interrupted => CliError::InterruptedAfterShares,
            other => other,
        };
        let words = spent_in_words(&self.spent, self.adjacency, self.delta);
        CliError::SharesSpent(Box::new(error), words)
    }
}

impl Wanted {
    fn no_shares(&self, error: SharesError) -> CliError {
        CliError::flag(self.shares_by, error.to_string())
    }

    /// Whether shares are to be released.
    pub(crate) fn releases(&self) -> bool {
        self.origin == Origin::Release
    }

    /// The loss and its plan, with shares of the schema, or released with a part of the budget; the curator, if it released any.
    pub(crate) fn prepare(
        &self,
        groups: &Groups,
        schema: &Schema,
        data: &PrivateData,
        budget: &Budget,
        max_steps: Option<u64>,
    ) -> Result<Prepared, CliError> {
        let (sizes, by_class) = (Sizes::of(data), groups.by_class());
        let mut limits = limits(max_steps, sizes.row_norm);
        let certify = self.certificate(budget, sizes, groups)?;
        let mut allowance = Allowance::all(budget);
        if let Some(of) = &certify {
            allowance = allowance.less(&of.spend()).map_err(CliError::Plan)?;
        }
        let budget = &certify.map_or(*budget, |of| of.rest);
        if !self.releases() {
            let shares = self.public_shares(groups, schema)?;
            let (mut ready, plan) = self.plan(shares, by_class, sizes, &allowance, &limits)?;
            let Some(of) = certify else {
                return Ok((ready, plan, None));
            };
            ready.built.check(&of, sizes)?;
            // The records' own shares are those of a sample.
            let excess = sampled_excess(&ready.shares, sizes.records, SHARES_FAIL);
            ready.certify = Some((of, excess));
            let mut curator = ranks::curator(data.adjacency())?;
            curator.promise(&[plan.spend(), of.spend()])?;
            return Ok((ready, plan, Some(curator)));
        }
        let before = SharesPlan::new(budget).map_err(CliError::Plan)?;
        let even = CellShares::even(groups.count()).map_err(|error| self.no_shares(error))?;
        let allowance = allowance.less(&before.spend()).map_err(CliError::Plan)?;
        let (even, first) = self.plan(even, by_class, sizes, &allowance, &limits)?;
        if let Some(of) = &certify {
            even.built.check(of, sizes)?;
        }
        // How much noise there is in how many releases is fixed before the shares are known.
        limits.exact_steps = Some(first.steps());
        let curator = ranks::curator(data.adjacency())?;
        let mut after = vec![first.spend()];
        after.extend(certify.map(|of| of.spend()));
        let released = before.release(data, groups.count(), curator, &after);
        let told = |spent, error| {
            let (adjacency, delta) = (sizes.adjacency, budget.delta);
            let before = Before {
                spent,
                adjacency,
                delta,
            };
            before.told(error)
        };
        let (shares, curator) = released.map_err(|error| {
            let why = match error.why {
                NoShares::Run(error) => CliError::from_run(error),
                other => CliError::flag(OF_TABLES, other.to_string()),
            };
            told(*error.spent, why)
        })?;
        let size = (sizes.records, sizes.adjacency);
        let excess = before.excess(&shares, size, SHARES_FAIL);
        let planned = self.plan(shares, by_class, sizes, &allowance, &limits);
        let (mut ready, plan) = planned.map_err(|error| told(curator.spent(), error))?;
        ready.certify = certify.map(|of| (of, excess));
        Ok((ready, plan, Some(curator)))
    }

    /// The planned certificate, if one is wanted.
    fn certificate(
        &self,
        budget: &Budget,
        sizes: Sizes,
        groups: &Groups,
    ) -> Result<Option<ScoredCertificatePlan>, CliError> {
        let Some(share) = self.certify else {
            return Ok(None);
        };
        let failure = CERTIFICATE_FAILS - SHARES_FAIL;
        // Of x and y, at most: a group without a share has no price.
        let coordinates = match self.objective {
            Objective::GroupDro | Objective::LogLoss => None,
            Objective::EqualOpportunity => Some(sizes.columns + groups.count()),
            // a and b, and one number.
            Objective::Auc => Some(sizes.columns + 3),
        };
        let (adjacency, of) = (sizes.adjacency, (share, failure));
        let planned = ScoredCertificatePlan::new(budget, adjacency, of, coordinates);
        let planned = planned.map_err(|error| match error {
            CertifyError::Plan(error) => CliError::Plan(error),
            other => CliError::flag("--certify", other.to_string()),
        });
        planned.map(Some)
    }

    /// Shares of the schema.
    pub(crate) fn public_shares(
        &self,
        groups: &Groups,
        schema: &Schema,
    ) -> Result<CellShares, CliError> {
        let shares = groups.shares(schema);
        let shares = shares.map_err(|error| {
            CliError::flag(
                OF_TABLES,
                format!("{error}; take them from outside the records, or give release"),
            )
        })?;
        CellShares::new(shares).map_err(|error| self.no_shares(error))
    }

    /// The loss and its plan, of these shares.
    pub(crate) fn plan(
        &self,
        shares: CellShares,
        by_class: bool,
        sizes: Sizes,
        allowance: &Allowance,
        limits: &SaddleLimits,
    ) -> Result<(Ready, Box<dyn Plan>), CliError> {
        let of = (&shares, by_class);
        let built = self.built(of, sizes.row_norm, false)?;
        self.bounded(&built, of, sizes, (allowance, limits))?;
        let facts = built.facts(sizes);
        let plan = self.solver.plan_within(&facts, allowance, limits);
        let ready = Ready {
            objective: self.objective,
            shares,
            released: self.releases(),
            certify: None,
            built,
            columns: sizes.columns,
        };
        Ok((ready, plan.map_err(CliError::Plan)?))
    }
}
