//! `dpopt plan`: what a solver would do. Reads no data.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use dpopt::data::tabular::{Schema, Several};
use dpopt::minimax::Allowance;
use dpopt::nonconvex::{Access, BoundSense, Budget, Plan, PublicFacts, StatedBound};
use dpopt::oracle::{Activation, CellShares, Convexity, Glm};
use dpopt::privacy::{Accountant, Adjacency, Delta, Epsilon, Event};
use serde::Serialize;

use crate::args::{self, AnySolver, SolverArg};
use crate::certificate::four;
use crate::choose::{ChooseArgs, plans_kinks};
use crate::chosen::Chosen;
use crate::class_weights::{ClassWeightsArg, LabelWeights};
use crate::error::CliError;
use crate::fit::{Fit, NetworkArgs};
use crate::loss::{LinkArgs, LossArg, LossName};
use crate::no_bound::NoBound;
use crate::objective::{PlannedObjective, Sizes, Wanted, limits};
use crate::outputs::rows;
use crate::perceptron::Perceptron;
use crate::population::{self, Compared};
use crate::sosp_args::How;
use crate::statement::{rounded_up, scientific};
use crate::summary::{print, print_json};
use crate::tell::warn;
use crate::train::DELTA;
use crate::weak::weak;

/// Flags of the plan of one run.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[arg(help = args::solver_help())]
    solver: SolverArg,
    /// Number of records; under add-remove the declared public size
    #[arg(long, visible_alias = "public-records", value_name = "N", value_parser = args::count, allow_hyphen_values = true)]
    records: u64,
    /// Number of features; with --hidden K, or a quadratic loss of --rank K, there are K times as many parameters, of a perceptron more
    #[arg(long, required_unless_present = "schema", value_name = "D", value_parser = args::count, allow_hyphen_values = true)]
    dim: Option<u64>,
    /// Public schema of a table, which says how many features its rows have and how long they are; no table is read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dim", "row_norm"])]
    schema: Option<PathBuf>,
    /// Privacy budget epsilon
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Epsilon,
    /// Privacy budget delta; should be well below one over the number of records. Default 1e-6
    #[arg(long, value_name = "D", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Option<Delta>,
    /// Which tables count as neighbours
    #[arg(long, default_value = "replace-one", value_parser = args::adjacency)]
    adjacency: Adjacency,
    /// Loss, from which the constants below follow unless given; default logistic, unless all
    /// three constants are given: then any smooth nonconvex loss
    #[arg(long)]
    loss: Option<LossArg>,
    #[command(flatten)]
    class_weights: ClassWeightsArg,
    #[command(flatten)]
    link: LinkArgs,
    /// For --loss softmax: how many classes there are; there are as many times the parameters
    #[arg(long, value_name = "K", value_parser = args::count, allow_hyphen_values = true)]
    classes: Option<u64>,
    #[command(flatten)]
    objective: PlannedObjective,
    #[command(flatten)]
    network: NetworkArgs,
    /// Bound on the norm of a row of features
    #[arg(long, value_name = "X", default_value = "1", value_parser = args::positive, allow_hyphen_values = true)]
    row_norm: f64,
    /// L0: bound on the norm of a record's gradient
    #[arg(long, value_name = "L0", value_parser = args::positive, allow_hyphen_values = true)]
    lipschitz: Option<f64>,
    /// L1: Lipschitz constant of a record's gradient; without it, and with the other two and no
    /// --loss, auto, the goldstein solvers and those without a bound plan for any loss with kinks
    #[arg(long, value_name = "L1", value_parser = args::positive, allow_hyphen_values = true)]
    smoothness: Option<f64>,
    /// Bound on F - min F where runs start: at 0, or at a factor of norm one over --row-norm
    #[arg(long, value_name = "F0", value_parser = args::positive, allow_hyphen_values = true)]
    initial_gap: Option<f64>,
    /// The loss with these three constants is convex for every record
    #[arg(long, requires_all = ["lipschitz", "smoothness", "initial_gap"], conflicts_with = "loss")]
    convex: bool,
    #[command(flatten)]
    how: ChooseArgs,
    /// For solvers with certificates of second order: what each of them promises of the population that the records were
    /// drawn from where its run ends in a certificate up to R from the origin, and which promises most
    #[arg(long, value_name = "R", value_parser = args::positive, allow_hyphen_values = true)]
    population: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    solver: AnySolver,
    solver_reason: String,
    records: u64,
    dim: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    class_weights: Option<&'a BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    perceptron: Option<Perceptron>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activation: Option<Activation>,
    adjacency: Adjacency,
    epsilon: f64,
    delta: Delta,
    accountant: Accountant,
    steps: u64,
    predicted_bound: Option<f64>,
    bound_on: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_bound_because: Option<String>,
    bound_sense: BoundSense,
    /// lambda, of a bound of second order.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_curvature: Option<f64>,
    trivial_bound: f64,
    clip: f64,
    access: Access,
    gradients: f64,
    passes: f64,
    event: &'a Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    population: Option<Compared>,
    /// Of `sosp`: what was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'a How>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    notes: BTreeMap<&'static str, String>,
    plan: &'a dyn Plan,
}

impl PlanArgs {
    /// Features of a row, and the bound on its norm.
    fn row(&self) -> Result<(usize, f64), CliError> {
        if let Some(path) = &self.schema {
            let schema = Schema::load(path)?;
            return Ok((schema.dim(), schema.row_norm()));
        }
        let features = usize::try_from(self.dim.unwrap_or(1));
        let features =
            features.map_err(|_| CliError::flag("--dim", "too large for this machine"))?;
        Ok((features, self.row_norm))
    }

    fn facts(&self, fit: &Fit) -> Result<PublicFacts, CliError> {
        let given = (self.lipschitz, self.smoothness, self.initial_gap);
        let kinks = self.loss.is_none()
            && plans_kinks(self.solver)
            && matches!(given, (Some(_), None, Some(_)));
        // Of a program whose values lie in an interval nothing else need be known.
        let unknown = self.loss.is_none() && self.how.bounds_values() && self.lipschitz.is_none();
        let free = self.loss.is_none() && matches!(given, (Some(_), Some(_), Some(_))) || kinks;
        // Of a second order the constants are one problem's: half of them from a loss that nobody named are another's.
        let named = [
            ("--lipschitz", self.lipschitz),
            ("--smoothness", self.smoothness),
            ("--initial-gap", self.initial_gap),
        ];
        let some = named.iter().any(|(_, given)| given.is_some());
        let curved = matches!(self.solver, SolverArg::Named(solver) if solver.needs.hessian);
        if let (true, true, Some((flag, _))) = (
            curved && self.loss.is_none(),
            some,
            named.iter().find(|(_, given)| given.is_none()),
        ) {
            let problem = "needed beside the other constants, where no --loss tells it";
            return Err(CliError::flag(flag, problem));
        }
        // A schema's labels are -1 and 1, or between.
        let (features, row_norm) = self.row()?;
        fit.check_size(features)?;
        if fit.perceptron.is_some() {
            if let Some((flag, _)) = named.iter().find(|(_, given)| given.is_some()) {
                let problem =
                    "a perceptron whose output weights are trained has no constants; leave it out";
                return Err(CliError::flag(flag, problem));
            }
            let of = (self.records, self.adjacency);
            return Ok(fit.facts(of, (features, row_norm), Some(1.0))?);
        }
        let derived = fit.constants(row_norm, Some(1.0));
        let dim = fit.dim(features);
        let facts = PublicFacts {
            records: self.records,
            dim,
            adjacency: self.adjacency,
            lipschitz: self.lipschitz.unwrap_or(if unknown {
                f64::INFINITY
            } else {
                derived.lipschitz
            }),
            smoothness: self.smoothness.unwrap_or(if kinks {
                f64::INFINITY
            } else {
                derived.smoothness
            }),
            initial_gap: self.initial_gap.unwrap_or(derived.initial_gap),
            row_norm,
            score: derived.score,
            convexity: match (free, self.convex) {
                _ if unknown => Convexity::Nonconvex,
                (true, true) => Convexity::Convex,
                (true, false) => Convexity::Nonconvex,
                (false, _) => derived.convexity,
            },
        };
        if !unknown {
            facts.check_lipschitz()?;
        }
        Ok(facts)
    }
}

impl PlanArgs {
    /// How many classes there are, of a loss of several.
    fn class_count(&self, loss: LossName) -> Result<Option<usize>, CliError> {
        let refuse = |problem: &str| Err(CliError::flag("--classes", problem.to_owned()));
        match (loss, self.classes) {
            (LossName::Softmax, None) => refuse("needed with --loss softmax"),
            (LossName::Softmax, Some(count)) if count < 3 => {
                refuse("softmax is for three classes or more; logistic is the loss of two")
            }
            (LossName::Softmax, Some(count)) => match usize::try_from(count) {
                Ok(count) if count <= Several::MOST => Ok(Some(count)),
                _ => refuse(&format!("at most {} can be told apart", Several::MOST)),
            },
            (_, Some(_)) => refuse("only --loss softmax has a use for it"),
            (_, None) => Ok(None),
        }
    }

    /// The plan of a saddle problem.
    fn saddle(
        &self,
        wanted: &Wanted,
        shares: CellShares,
        budget: &Budget,
    ) -> Result<Chosen, CliError> {
        let max_steps = self.how.of_saddle()?;
        for (flag, given) in [
            ("--hidden", self.network.is_given()),
            ("--class-weights", self.class_weights.is_given()),
            (
                "--loss",
                self.loss.is_some_and(|loss| !loss.name.is_logistic_score()),
            ),
            ("--lipschitz", self.lipschitz.is_some()),
            ("--smoothness", self.smoothness.is_some()),
            ("--initial-gap", self.initial_gap.is_some()),
        ] {
            if given {
                let problem = format!(
                    "{} is of the logistic score of a linear model",
                    wanted.objective
                );
                return Err(CliError::flag(flag, problem));
            }
        }
        let (columns, row_norm) = self.row()?;
        let sizes = Sizes {
            records: self.records,
            adjacency: self.adjacency,
            columns,
            row_norm,
        };
        let limits = limits(max_steps, row_norm);
        let allowance = Allowance::all(budget);
        let (made, plan) = wanted.plan(shares, true, sizes, &allowance, &limits)?;
        Ok(Chosen {
            odd: made.odd(),
            ..Chosen::saddle(wanted.solver, plan, self.solver)
        })
    }
}

impl PlanArgs {
    /// What solvers promise of the population, by the same flags.
    fn compared(
        &self,
        reach: f64,
        fit: &Fit,
        solver: AnySolver,
        budget: &Budget,
    ) -> Result<Compared, CliError> {
        population::check_reach(solver, fit)?;
        let facts = self.facts(fit)?;
        Ok(population::compared(reach, |solver| {
            let (how, named) = (self.how.of_use_to(solver), SolverArg::Named(solver));
            Ok(how.choose(named, fit, &facts, budget)?.plan)
        }))
    }
}

pub(crate) fn run(args: &PlanArgs) -> Result<(), CliError> {
    let link = (args.link, args.how.columns());
    let fit = match args.schema.as_ref().map(Schema::load).transpose()? {
        Some(schema) => {
            if args.classes.is_some() {
                let problem = "the schema's label says how many classes there are";
                return Err(CliError::flag("--classes", problem));
            }
            let fit = Fit::for_label(args.loss, &args.network, link, schema.label())?;
            fit.weighted(args.class_weights.of(schema.label())?)
        }
        None => {
            if args.class_weights.is_given() {
                let problem = "the values of the label are in a --schema; without one give --lipschitz, --smoothness and \
                               --initial-gap, times the largest weight";
                return Err(CliError::flag("--class-weights", problem));
            }
            let loss = args.loss.map(LossArg::without_label).transpose()?;
            let loss = loss.unwrap_or(LossName::Linear(Glm::Logistic));
            Fit::new(loss, &args.network, link, args.class_count(loss)?)?
        }
    };
    fit.check_ball(args.row()?.1)?;
    let budget = Budget {
        epsilon: args.epsilon,
        delta: args.delta.map_or_else(|| Delta::new(DELTA), Ok)?,
    };
    let chosen = match args.objective.wanted(args.solver)? {
        Some((wanted, shares)) => args.saddle(&wanted, shares, &budget)?,
        None => args
            .how
            .choose(args.solver, &fit, &args.facts(&fit)?, &budget)?,
    };
    let population = args
        .population
        .map(|reach| args.compared(reach, &fit, chosen.solver, &budget))
        .transpose()?;
    show(&chosen, &fit, (budget, population), &[], args.json)
}

/// Prints a plan. `population`: what is promised of it, where that was asked for; `notes`: what else is to be said, by names.
pub(crate) fn show(
    chosen: &Chosen,
    fit: &Fit,
    (asked, population): (Budget, Option<Compared>),
    notes: &[(&'static str, String)],
    json: bool,
) -> Result<(), CliError> {
    let facts = *chosen.plan.facts();
    let delta = asked.delta;
    let (spend, planned) = (chosen.plan.spend(), chosen.planned_bound());
    let bound = planned.as_ref().ok();
    let (accountant, epsilon) = Accountant::least(spend.event(), delta, facts.adjacency)?;
    let shown = Json {
        solver: chosen.solver,
        solver_reason: chosen.reason(),
        records: facts.records,
        dim: facts.dim,
        class_weights: fit.weights.as_ref().map(LabelWeights::by_value),
        hidden: fit.network.map(|network| network.units()),
        perceptron: fit.perceptron,
        activation: fit.network.map(|network| network.activation()),
        adjacency: facts.adjacency,
        epsilon,
        delta,
        accountant,
        steps: chosen.plan.steps(),
        predicted_bound: bound.map(|bound| bound.value),
        bound_on: bound.map(StatedBound::subject),
        no_bound_because: planned.as_ref().err().map(ToString::to_string),
        bound_sense: chosen.plan.bound_sense(),
        bound_curvature: bound.and_then(|bound| bound.curvature),
        trivial_bound: chosen.trivial_bound(),
        clip: chosen.plan.clip(),
        access: chosen.plan.access(),
        gradients: chosen.plan.gradients(),
        passes: chosen.plan.gradients() / facts.records as f64,
        event: spend.event(),
        population,
        how: chosen.how.as_ref(),
        notes: notes.iter().cloned().collect(),
        plan: &*chosen.plan,
    };
    for warning in chosen.warnings() {
        warn(&warning);
    }
    for warning in weak(Some(asked.epsilon), delta, facts.records) {
        warn(&warning);
    }
    if json {
        print_json(&shown)
    } else {
        print(&describe(&shown)?)
    }
}

fn describe(plan: &Json<'_>) -> Result<String, CliError> {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a `String` can't fail.
        let _ = writeln!(out, "{name:<30} {value}");
    };
    line(
        "solver",
        format!("{} ({})", plan.solver, plan.solver_reason),
    );
    line(
        "bound",
        match (plan.predicted_bound, &plan.bound_on, &plan.no_bound_because) {
            (_, _, Some(why)) => why.clone(),
            (Some(bound), Some(subject), None) => format!(
                "{} on the {subject}{and} ({}; the starting point already satisfies {})",
                four(bound),
                plan.bound_sense,
                four(plan.trivial_bound),
                and = match plan.bound_curvature {
                    Some(curvature) => format!(
                        " and -{} on the least eigenvalue{}",
                        four(curvature),
                        // Planned by a rule of thumb: its runs may end without one.
                        if plan.bound_sense.of_population() {
                            ", if the run ends in a certificate"
                        } else {
                            ""
                        }
                    ),
                    None => String::new(),
                }
            ),
            (None, ..) | (_, None, _) => NoBound::Plan.to_string(),
        },
    );
    for (name, value) in plan.population.iter().flat_map(Compared::lines) {
        line(&name, value);
    }
    line("steps", plan.steps.to_string());
    line(
        "cost",
        format!(
            "{:.4e} gradients, {:.1} passes over the data",
            plan.gradients, plan.passes
        ),
    );
    line(
        "privacy",
        format!(
            "epsilon {} at delta {}, {}, by the {} accountant",
            rounded_up(plan.epsilon),
            scientific(plan.delta),
            plan.adjacency,
            plan.accountant
        ),
    );
    line("releases", plan.event.to_string());
    for (name, value) in plan.how.iter().flat_map(|how| how.rows()) {
        line(&name, value);
    }
    let shown_above = ["steps", "accountant"];
    for (name, value) in rows(&plan.plan.items(), &shown_above) {
        line(&name, value);
    }
    for (name, value) in &plan.notes {
        line(name, value.clone());
    }
    Ok(out)
}
