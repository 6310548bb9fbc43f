//! What `train` prints at its end, for people or as one JSON object.
//!
//! Everything here is public, released, or computed from the test set.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use dpopt::data::tabular::Label;
use dpopt::nonconvex::{BoundSense, BoundedQuantity, Outcome, PublicFacts, Stop};
use dpopt::oracle::{Activation, PublicOrder};
use dpopt::privacy::{Accountant, Adjacency, Delta};
use serde::Serialize;

use crate::args::AnySolver;
use crate::beside::Beside;
use crate::by_group::ByGroup;
use crate::certificate::{Certificate, Certified, four};
use crate::chosen::Chosen;
use crate::class_weights::LabelWeights;
use crate::error::CliError;
use crate::evaluate::TestMetrics;
use crate::evaluated::Evaluated;
use crate::fit::Fit;
use crate::loss::LossName;
use crate::model::{Model, Trained};
use crate::order;
use crate::perceptron::Perceptron;
use crate::population::{Claimed, Population};
use crate::second_order::SecondOrder;
use crate::statement::{AllRuns, Odometer, Statement, rounded_up, scientific};
use crate::tell::is_silent;

/// The parts of a summary.
pub(crate) struct Summary<'a> {
    pub(crate) table: String,
    pub(crate) chosen: &'a Chosen,
    pub(crate) facts: &'a PublicFacts,
    pub(crate) order: Option<PublicOrder>,
    pub(crate) fit: &'a Fit,
    pub(crate) label: &'a Label,
    pub(crate) outcome: &'a Outcome,
    pub(crate) certificate: &'a Certificate,
    pub(crate) population: Claimed,
    pub(crate) statement: &'a Statement,
    pub(crate) metrics: Option<&'a TestMetrics>,
    pub(crate) evaluation: Option<&'a Evaluated>,
    pub(crate) objective: Option<&'a Trained>,
    pub(crate) second_order: Option<&'a SecondOrder>,
    pub(crate) by_group: Option<&'a ByGroup>,
    /// Figures of the test set beside those of constants.
    pub(crate) constants: &'a [Beside],
    /// None where times may not be shown.
    pub(crate) times: Option<Times>,
    pub(crate) out: Option<&'a Path>,
    /// The files that were written there.
    pub(crate) files: &'a [&'static str],
    /// The model, where it is in no file.
    pub(crate) model: Option<&'a Model>,
    pub(crate) budget_left: Option<String>,
    pub(crate) warnings: &'a [String],
}

/// How long it took. Not private: under add-remove, where the number of records is protected, no output has them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Times {
    /// Of the training alone.
    pub(crate) train_seconds: f64,
    /// Of the whole command.
    pub(crate) seconds: f64,
}

impl Times {
    /// The times, where they may be written and shown.
    pub(crate) fn shown(adjacency: Adjacency, train_seconds: f64, seconds: f64) -> Option<Self> {
        adjacency.record_count_is_public().then_some(Self {
            train_seconds,
            seconds,
        })
    }
}

/// What is said of a run whose point is the one that it started from.
pub(crate) fn learnt_nothing(resumed: bool, fit: &Fit) -> &'static str {
    if resumed {
        "nothing was learnt: the result is the checkpoint's point, as it was before the run"
    } else if fit.network.is_some() || fit.perceptron.is_some() {
        "nothing was learnt: the result is the starting point, whose output is 0 for every record"
    } else if fit.link.is_some() && fit.seed.is_some() {
        "nothing was learnt: the result is the factor that the run started from"
    } else {
        "nothing was learnt: the result is the starting point, and all weights are zero"
    }
}

#[derive(Serialize)]
struct Json<'a> {
    solver: AnySolver,
    solver_reason: String,
    loss: LossName,
    /// Of the values of the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    class_weights: Option<&'a BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<&'a Trained>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    perceptron: Option<Perceptron>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activation: Option<Activation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_seed: Option<u64>,
    /// Of a factor, and the ball and seed of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ball: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor_seed: Option<u64>,
    records: u64,
    /// Of the records, where it was not the table's.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<PublicOrder>,
    dim: usize,
    steps: u64,
    planned_steps: u64,
    stop: Stop,
    epsilon: f64,
    delta: Delta,
    adjacency: Adjacency,
    accountant: Accountant,
    /// For a run that started at a point of earlier ones, of which its model tells too.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_runs: Option<AllRuns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    odometer: Option<&'a Odometer>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rests_on: &'a [String],
    /// What is proven of this run's point; null where nothing is.
    bound: Option<f64>,
    bound_on: Option<String>,
    bound_sense: Option<BoundSense>,
    /// lambda, of a bound of second order.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_curvature: Option<f64>,
    /// As `bound`: the name of earlier versions.
    predicted_bound: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_bound_because: Option<String>,
    /// What the releases themselves say; null where they say nothing.
    certificate: Option<&'a Certified>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_certificate_because: Option<String>,
    /// Of solvers of second order.
    #[serde(skip_serializing_if = "Option::is_none")]
    second_order: Option<&'a SecondOrder>,
    /// What the bound says of the population, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    population: Option<Population>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_population_because: Option<&'a str>,
    /// The point is the one that the run started from.
    learnt_nothing: bool,
    releases: u64,
    passes: f64,
    #[serde(flatten)]
    times: Option<Times>,
    #[serde(flatten)]
    metrics: Option<&'a TestMetrics>,
    /// On records that were held out.
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluation: Option<&'a Evaluated>,
    #[serde(flatten)]
    by_group: Option<&'a ByGroup>,
    /// Figures of the test set beside those of constants.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    constants: &'a [Beside],
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_left: Option<&'a str>,
    warnings: &'a [String],
    /// Where no folder holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a Model>,
}

impl Summary<'_> {
    /// One object on one line.
    pub(crate) fn print_json(&self) -> Result<(), CliError> {
        let bound = self.chosen.bound_of(self.outcome);
        let json = Json {
            solver: self.chosen.solver,
            solver_reason: self.chosen.reason(),
            loss: self.fit.name(),
            class_weights: self.fit.weights.as_ref().map(LabelWeights::by_value),
            objective: self.objective,
            hidden: self.fit.network.map(|network| network.units()),
            perceptron: self.fit.perceptron,
            activation: self.fit.network.map(|network| network.activation()),
            hidden_seed: self.fit.seed.filter(|_| self.fit.link.is_none()),
            rank: self.fit.link.map(|link| link.rank()),
            ball: self.fit.link.map(|link| link.ball()),
            factor_seed: self.fit.link.and(self.fit.seed),
            records: self.facts.records,
            order: self.order,
            dim: self.facts.dim,
            steps: self.outcome.steps,
            planned_steps: self.chosen.plan.steps(),
            stop: self.outcome.stop,
            epsilon: self.statement.epsilon,
            delta: self.statement.delta,
            adjacency: self.statement.adjacency,
            accountant: self.statement.accountant,
            all_runs: self.statement.all_runs,
            odometer: self.statement.odometer.as_ref(),
            rests_on: &self.statement.rests_on,
            bound: bound.map(|bound| bound.value).ok(),
            bound_on: bound.map(|bound| bound.subject()).ok(),
            bound_sense: bound.map(|bound| bound.sense).ok(),
            bound_curvature: bound.ok().and_then(|bound| bound.curvature),
            predicted_bound: bound.map(|bound| bound.value).ok(),
            no_bound_because: bound.err().map(|why| why.to_string()),
            certificate: self.certificate.as_ref().ok(),
            no_certificate_because: self.certificate.as_ref().err().map(ToString::to_string),
            second_order: self.second_order,
            population: self
                .population
                .as_ref()
                .and_then(|found| found.as_ref().ok())
                .copied(),
            no_population_because: self
                .population
                .as_ref()
                .and_then(|found| found.as_ref().err())
                .map(String::as_str),
            learnt_nothing: self.outcome.returned_start(),
            releases: self.outcome.counts.releases,
            passes: self.outcome.counts.passes,
            times: self.times,
            metrics: self.metrics,
            evaluation: self.evaluation,
            by_group: self.by_group,
            constants: self.constants,
            out: self.out,
            budget_left: self.budget_left.as_deref(),
            warnings: self.warnings,
            model: self.model,
        };
        print_json(&json)
    }

    /// Sentences and numbers for people.
    pub(crate) fn print(&self) -> Result<(), CliError> {
        if is_silent() {
            return Ok(());
        }
        self.write(&mut io::stdout().lock())
            .map_err(CliError::Stdout)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let plan = &self.chosen.plan;
        let counts = &self.outcome.counts;
        let size = if self.facts.adjacency.record_count_is_public() {
            "records"
        } else {
            "records declared"
        };
        writeln!(out, "Table      {}", self.table)?;
        writeln!(
            out,
            "           {} {size}, {} {}, {} loss{}",
            self.facts.records,
            self.facts.dim,
            if self.fit.is_linear_score() {
                "features"
            } else {
                "weights"
            },
            self.fit.name(),
            match (self.fit.network, self.fit.perceptron) {
                (Some(network), _) => format!(
                    " of {} hidden units ({})",
                    network.units(),
                    network.activation()
                ),
                (None, Some(Perceptron { hidden, activation })) => {
                    format!(" of a perceptron with {hidden} hidden units ({activation})")
                }
                (None, None) => String::new(),
            }
        )?;
        if let Some(weights) = &self.fit.weights {
            writeln!(out, "           class weights {weights}")?;
        }
        if let Some(order) = order::in_words(self.order, self.chosen.solver) {
            writeln!(out, "Order      {order}")?;
        }
        if let Some(Trained {
            name,
            shares_released,
            ..
        }) = self.objective
        {
            let shares = if *shares_released {
                "shares of groups released, and paid for"
            } else {
                "shares of groups public, by the schema"
            };
            writeln!(out, "Objective  {name} ({shares})")?;
        }
        writeln!(
            out,
            "Solver     {} ({})",
            self.chosen.solver,
            self.chosen.reason()
        )?;
        if let Some(how) = &self.chosen.how {
            paragraph(out, &how.words())?;
        }
        let stop = match self.outcome.stop {
            Stop::Completed => "",
            Stop::ByObserver => ", stopped by Ctrl-C",
            Stop::SmallEstimate => ", stopped at an estimate as small as planned",
            Stop::NormUnpaid | Stop::GradientUnpaid => ", as many as the budget pays for",
            Stop::Converged => ", stopped where the gradient is not seen above the noise",
            Stop::StepCap => "",
            Stop::Certified => ", ended with a certificate",
            Stop::CandidatesUsed => ", as many as it had candidates for, without a certificate",
            Stop::RecordsExhausted => {
                ", as many as there are unread records for, without a certificate"
            }
            Stop::NoGain => ", stopped where no length of a step was seen to gain anything",
            Stop::BudgetUsed => ", as many as the budget pays for, without a certificate",
            Stop::Diverged => ", stopped because a release or a length was not finite",
        };
        let times = self.times.map(|times| {
            format!(
                " in {:.2} s ({:.2} s in all)",
                times.train_seconds, times.seconds
            )
        });
        writeln!(
            out,
            "Steps      {} of {}{stop}; {:.1} passes over the data{}",
            self.outcome.steps,
            plan.steps(),
            counts.passes,
            times.unwrap_or_default()
        )?;
        if self.outcome.returned_start() {
            writeln!(
                out,
                "Result     {}",
                learnt_nothing(self.chosen.resumed, self.fit)
            )?;
        }
        match self.chosen.bound_of(self.outcome) {
            Ok(bound) => writeln!(
                out,
                "Bound      the {} at the result is at most {}{} ({}; the starting point already \
                 satisfies {})",
                bound.subject(),
                four(bound.value),
                bound.of_curvature(),
                bound.sense,
                four(self.chosen.trivial_bound())
            )
            .and_then(|()| match bound.quantity {
                BoundedQuantity::ComponentWiseGoldsteinDistance => paragraph(out, COMPONENT_WISE),
                _ => Ok(()),
            })?,
            Err(why) => writeln!(out, "Bound      {why}")?,
        }
        if let Some(words) = self.second_order.and_then(SecondOrder::words) {
            paragraph(out, words)?;
        }
        if let Ok(certified) = self.certificate {
            writeln!(out, "Certificate {}", certified.words())?;
        }
        if let Some(words) = self.objective.and_then(Trained::certified) {
            writeln!(out, "Certificate {words}")?;
        }
        match &self.population {
            Some(Ok(found)) => writeln!(out, "Population {}", found.words())?,
            Some(Err(why)) => writeln!(out, "Population nothing is stated: {why}")?,
            None => {}
        }
        if let Some(TestMetrics::Number(metrics)) = self.metrics {
            let unit = if metrics.test_loss_in_label_units {
                format!("in units of {}", self.label.column)
            } else {
                "of the label scaled to [-1, 1]".to_owned()
            };
            writeln!(
                out,
                "Test set   mean {} loss {:.4} {unit}{}, absolute error {:.4}, root mean square error {:.4}{}, {:.2} % of labels below the prediction, on {} records",
                self.fit.name(),
                metrics.test_loss,
                metrics.test_deviance.map_or(String::new(), |of| format!(
                    ", deviance {of:.4} (along its tangent beyond the largest count)"
                )),
                metrics.test_absolute_error,
                metrics.test_root_mean_square_error,
                metrics
                    .test_r2
                    .map_or(String::new(), |r2| format!(", R2 {r2:.4}")),
                100.0 * metrics.test_coverage,
                metrics.test_records
            )?;
            for of in &metrics.beside {
                writeln!(out, "           {}", of.words())?;
            }
        }
        if let Some(TestMetrics::Several(metrics)) = self.metrics {
            let mut heading = "Test set";
            for line in metrics.lines() {
                writeln!(out, "{heading:<10} {line}")?;
                heading = "";
            }
        }
        if let Some(TestMetrics::Classes(metrics)) = self.metrics {
            let mut figures: Vec<String> = metrics.beside.iter().map(Beside::words).collect();
            if metrics.test_auc.is_none() {
                figures.push("no AUC (one class only)".to_owned());
            }
            write!(out, "Test set   {}", figures.join(", "))?;
            writeln!(out, " on {} records", metrics.test_records)?;
        }
        if let Some(evaluated) = self.evaluation {
            write!(out, "{}", evaluated.evaluation.lines(&evaluated.classes))?;
            paragraph(out, &evaluated.of())?;
        }
        if let Some(by_group) = self.by_group {
            writeln!(
                out,
                "Groups     {}{}",
                by_group.beside.words(),
                by_group.true_positive_rate_difference.map_or(String::new(), |rate| format!(
                    ", true positive rates differ by {rate:.4} (as many flagged as there are positives)"
                ))
            )?;
            for row in &by_group.groups {
                writeln!(out, "           {}: {}", row.group, row.words())?;
            }
        }
        writeln!(
            out,
            "Privacy    epsilon {} at delta {}, {}",
            rounded_up(self.statement.epsilon),
            scientific(self.statement.delta),
            self.statement.adjacency
        )?;
        for sentence in &self.statement.words {
            paragraph(out, sentence)?;
        }
        if let Some(left) = &self.budget_left {
            writeln!(out, "Budget     {left}")?;
        }
        match self.out {
            Some(folder) => writeln!(
                out,
                "Output     {} in {}",
                match self.files {
                    [] => "nothing written".to_owned(),
                    files => files.join(", "),
                },
                folder.display()
            ),
            None => writeln!(
                out,
                "Output     nothing written (--out DIR keeps the model)"
            ),
        }
    }
}

/// Prints a value as JSON on one line of standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value)?;
    print(&(text + "\n"))
}

/// Prints text on standard output; a closed pipe is an error, not a panic.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    if is_silent() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(CliError::Stdout)
}

/// What a component-wise distance is.
const COMPONENT_WISE: &str = "Component-wise: each record's gradient may be taken at points of its own within the radius; the \
     distance can be short where the gradient of the mean is not.";

/// Wraps at 88 columns, indented under the headings.
pub(crate) fn paragraph(out: &mut impl Write, text: &str) -> io::Result<()> {
    const WIDTH: usize = 77;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            writeln!(out, "           {line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "           {line}")
}
