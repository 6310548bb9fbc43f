//! The files that `train --out` leaves beside the model: `events.json` and `report.html`.

use dpopt::data::tabular::Schema;
use dpopt::nonconvex::{Item, Outcome, PublicFacts, Unit, Value};
use dpopt::oracle::PublicOrder;
use dpopt::privacy::{Adjacency, Delta, Event, Guarantee, Mode};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::artefacts::{EVENTS, MODEL, OutDir, REPORT};
use crate::attack::AttackTable;
use crate::beside::Beside;
use crate::by_group::ByGroup;
use crate::certificate::Certificate;
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::evaluate::TestMetrics;
use crate::evaluated::Evaluated;
use crate::fit::Fit;
use crate::ledger::Made;
use crate::model::Trained;
use crate::no_bound::NoBound;
use crate::order;
use crate::report::{PrivacyStatement, ReportInput, render};
use crate::second_order::SecondOrder;
use crate::sosp_args::How;
use crate::statement::{Odometer, Statement, scientific};
use crate::summary::{Times, learnt_nothing};
use crate::trace::Recorder;
use crate::tune::TuningTold;

/// Everything that the files are made from; all of it is public or released.
pub(crate) struct Outputs<'a> {
    pub(crate) table: &'a str,
    pub(crate) schema: &'a Schema,
    pub(crate) fit: &'a Fit,
    pub(crate) facts: &'a PublicFacts,
    pub(crate) order: Option<PublicOrder>,
    pub(crate) chosen: &'a Chosen,
    pub(crate) guarantee: &'a Guarantee,
    pub(crate) outcome: &'a Outcome,
    /// All that was released, before the run too.
    pub(crate) spent: &'a Event,
    pub(crate) record: &'a Recorder,
    pub(crate) certificate: &'a Certificate,
    /// Of a saddle problem.
    pub(crate) objective: Option<&'a Trained>,
    pub(crate) second_order: Option<&'a SecondOrder>,
    pub(crate) statement: &'a Statement,
    pub(crate) metrics: Option<&'a TestMetrics>,
    pub(crate) evaluation: Option<&'a Evaluated>,
    pub(crate) by_group: Option<&'a ByGroup>,
    /// None where times may not be written.
    pub(crate) times: Option<Times>,
    /// What the ledger's runs have left of its budget, in words.
    pub(crate) budget_left: Option<&'a str>,
    /// When and how.
    pub(crate) made: &'a Made,
    /// Where it is the best of several runs.
    pub(crate) tuning: Option<&'a TuningTold>,
}

/// `events.json`.
#[derive(Serialize)]
struct EventsJson<'a> {
    format: &'static str,
    epsilon: f64,
    delta: Delta,
    adjacency: Adjacency,
    accountant: String,
    mode: Mode,
    conventions: &'static str,
    /// What was reserved: the guarantee is for this.
    event: &'a Event,
    /// What the epsilon rests on besides.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rests_on: &'a [String],
    /// What was released.
    spent: &'a Event,
    /// Of the records that were held out, which no other event here is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_out: Option<&'a Event>,
    /// Where `event` is of a choice among several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<&'a TuningTold>,
    odometer: &'a Option<Odometer>,
}

const CONVENTIONS: &str = "Events have the shape of Google's dp_accounting (DpEvent.to_named_tuple). \
    noise_multiplier is the standard deviation of the noise over the L2 sensitivity of the unsampled \
    sum under the stated adjacency: for contributions of norm at most C that is 2C under replace-one \
    and C under add-remove. epsilon is that of `event`, which was reserved before the first release; \
    `spent` is what was released. `held_out`, where it is there, is what was released of the records that \
    were held out, on which `event` was not: a record pays for one of the two, so at any delta the cost is \
    the larger of both.";

impl Outputs<'_> {
    /// Writes each file by itself; says what could not be written.
    pub(crate) fn write(&self, out: &mut OutDir) -> Vec<CliError> {
        let events = json_text(&self.events()).and_then(|text| out.put(EVENTS, &text));
        if events.is_ok() {
            out.remove_old_events();
        }
        let report = self.report().and_then(|text| out.put(REPORT, &text));
        [events, report]
            .into_iter()
            .filter_map(Result::err)
            .collect()
    }

    fn events(&self) -> EventsJson<'_> {
        let guarantee = self.guarantee;
        EventsJson {
            format: "dpopt-events-1",
            epsilon: guarantee.epsilon(),
            delta: guarantee.delta(),
            adjacency: guarantee.adjacency(),
            accountant: guarantee.accountant().to_string(),
            mode: self.statement.mode,
            conventions: CONVENTIONS,
            event: guarantee.event(),
            rests_on: &self.statement.rests_on,
            spent: self.spent,
            held_out: self.evaluation.and_then(|of| of.event.as_ref()),
            tuning: self.tuning,
            odometer: &self.statement.odometer,
        }
    }

    fn report(&self) -> Result<String, CliError> {
        let Self {
            facts,
            chosen,
            outcome,
            statement,
            ..
        } = self;
        let odometer = statement.odometer.as_ref();
        let file = |name: &str, what: &str| (name.to_owned(), what.to_owned());
        Ok(render(&ReportInput {
            title: &format!("{}: {}", self.table, self.schema.label().column),
            solver: &chosen.solver.to_string(),
            solver_reason: chosen.picked.map(|reason| reason.to_string()),
            loss: &self.fit.to_string(),
            plan: {
                let how = chosen.how.iter().flat_map(How::rows);
                how.chain(rows(&chosen.plan.items(), &["accountant"]))
                    .collect()
            },
            public_facts: self.public_facts(),
            privacy: PrivacyStatement {
                epsilon: statement.epsilon,
                delta: statement.delta.get(),
                adjacency: facts.adjacency,
                accountant: &statement.accountant.to_string(),
                protected: statement.mode == Mode::Protected,
                spent_epsilon: odometer.map(|reading| reading.epsilon),
                spent_theorem: odometer.map_or("", |reading| reading.theorem.as_str()),
                stop: outcome.stop,
                rests_on: &statement.rests_on,
                draft_schema: statement.draft_schema,
                all_runs: statement.all_runs,
                attack: AttackTable::of_run(
                    statement,
                    self.evaluation,
                    Some(self.guarantee.event()),
                ),
            },
            budget: Some(self.record.spent.clone()),
            bound: match self.tuning {
                Some(_) => Err(NoBound::Tuned),
                None => chosen.bound_of(outcome),
            },
            planned_bound: chosen.planned_bound().ok(),
            trivial_bound: chosen.trivial_bound(),
            certificate: self.certificate,
            certified: self.objective.and_then(Trained::certified).or_else(|| {
                let words = self.second_order.and_then(SecondOrder::words);
                words.map(str::to_owned)
            }),
            by_group: self.by_group,
            evaluation: self.evaluation,
            learnt_nothing: outcome
                .returned_start()
                .then(|| learnt_nothing(chosen.resumed, self.fit)),
            ledger_budget: self.budget_left,
            releases: outcome.counts.releases,
            trace: &self.record.trace,
            test_metrics: self.metrics.map(|metrics| {
                let mut rows = metric_rows(metrics);
                rows.extend(self.by_group.into_iter().flat_map(ByGroup::rows));
                rows
            }),
            weights: self.weights(),
            schema: Some(self.schema_text()?),
            files: vec![
                file(MODEL, "weights, schema and privacy statement"),
                file(EVENTS, "events, for a second accountant"),
                file(REPORT, "this page"),
            ],
            tuned: self.tuning.map(|told| [told.words(), told.paid()]),
            made: self.made_rows(),
            times: self.times,
            passes: outcome.counts.passes,
        }))
    }

    /// Version, commit where the command was built from a checkout, and what the user allows to be told.
    fn made_rows(&self) -> Vec<(String, String)> {
        let version = match option_env!("DPOPT_COMMIT") {
            Some(commit) => format!("dpopt {}, commit {commit}", env!("CARGO_PKG_VERSION")),
            None => format!("dpopt {}", env!("CARGO_PKG_VERSION")),
        };
        let told = [
            ("date, as given", self.made.date.clone()),
            ("command line", self.made.command.clone()),
        ];
        let told = told
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        [("version".to_owned(), version)]
            .into_iter()
            .chain(told)
            .collect()
    }

    /// By name, where there is one for each feature.
    fn weights(&self) -> Vec<(String, f64)> {
        if !self.fit.is_linear_score() {
            return Vec::new();
        }
        let names = self.schema.feature_names().into_iter();
        names.zip(self.outcome.point.iter().copied()).collect()
    }

    /// As in the model's file, and the hash of that.
    fn schema_text(&self) -> Result<(String, String), CliError> {
        let text = json_text(self.schema)?;
        let hash = Sha256::digest(text.as_bytes());
        let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((text, hash))
    }

    fn label_values(&self) -> (&'static str, String) {
        let label = self.schema.label();
        match (label.range(), label.classes()) {
            (Some(range), _) => (
                "range of the label",
                format!("{} to {}", range.min, range.max),
            ),
            (None, None) => ("values of the label", label.values().join(", ")),
            (None, Some(classes)) => ("positive value", classes.positive.clone()),
        }
    }

    fn public_facts(&self) -> Vec<(String, String)> {
        let facts = self.facts;
        let size = if facts.adjacency.record_count_is_public() {
            "number of records"
        } else {
            "declared number of records"
        };
        let claims = self.chosen.claims.iter().map(|(name, value)| {
            let name = match *name {
                "radius" => "claimed bound on the distance from the start to a minimiser",
                "goldstein_radius" => "Goldstein radius that was asked for",
                "value_range" => "claimed range of the values of a record's loss",
                _ => "claimed bound on the rank of the rows",
            };
            (name, value.to_string())
        });
        let array = self.schema.array().map(|array| array.columns);
        let columns = array.unwrap_or(self.schema.columns().len());
        [
            (size, facts.records.to_string()),
            ("features after encoding", self.schema.dim().to_string()),
            ("parameters", facts.dim.to_string()),
            ("bound on the norm of a row", facts.row_norm.to_string()),
            (
                "schema",
                format!(
                    "{columns} columns, in model.json{}",
                    if self.statement.draft_schema {
                        " (a draft, read from the records: not public)"
                    } else {
                        ""
                    }
                ),
            ),
            ("label", self.schema.label().column.clone()),
            self.label_values(),
            ("delta", scientific(self.statement.delta)),
        ]
        .into_iter()
        .chain(claims)
        .chain(
            order::in_words(self.order, self.chosen.solver)
                .map(|order| ("order of the records", order)),
        )
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Items by name, but for those that are `hidden`, at any depth: groups and other plans are taken apart under the names of
/// their parts, and so are rows, with a number before.
pub(crate) fn rows(items: &[Item<'_>], hidden: &[&str]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for item in items.iter().filter(|item| !hidden.contains(&item.name)) {
        let words = item.name.replace('_', " ");
        let plain = match &item.value {
            Value::Group(items) => {
                out.extend(rows(items, hidden));
                continue;
            }
            Value::Plan(plan) => {
                out.extend(rows(&plan.items(), hidden));
                continue;
            }
            Value::Rows(all) => {
                let one = words.strip_suffix('s').unwrap_or(&words);
                for (i, row) in all.iter().enumerate() {
                    let parts = rows(row, hidden).into_iter();
                    out.extend(
                        parts.map(|(part, value)| (format!("{one} {}: {part}", i + 1), value)),
                    );
                }
                continue;
            }
            Value::Count(count) => count.to_string(),
            Value::Number(None) => "none".to_owned(),
            Value::Number(Some(number)) if item.unit == Unit::NONE => format!("{number:?}"),
            Value::Number(Some(number)) => format!("{number:?} {}", item.unit),
            Value::Flag(flag) => flag.to_string(),
            Value::Word(word) => word.clone(),
            Value::Counts(counts) => format!("{counts:?}"),
            other => format!("{other:?}"),
        };
        out.push((words, plain));
    }
    out
}

fn metric_rows(metrics: &TestMetrics) -> Vec<(String, String)> {
    let number = |value: f64| format!("{value:.4}");
    let rows = match metrics {
        TestMetrics::Several(metrics) => return metrics.rows(),
        TestMetrics::Classes(metrics) => {
            let mut rows = vec![
                ("records", metrics.test_records.to_string()),
                ("accuracy", number(metrics.test_accuracy)),
            ];
            let area = metrics.test_auc;
            rows.extend(area.map(|auc| ("area under the ROC curve", number(auc))));
            rows.extend(metrics.test_log_loss.map(|loss| ("log loss", number(loss))));
            rows
        }
        TestMetrics::Number(metrics) => {
            let mut rows = vec![
                ("records", metrics.test_records.to_string()),
                (
                    if metrics.test_loss_in_label_units {
                        "mean loss, in the unit of the label"
                    } else {
                        "mean loss, of the label scaled to [-1, 1]"
                    },
                    number(metrics.test_loss),
                ),
                (
                    "mean absolute error, in the unit of the label",
                    number(metrics.test_absolute_error),
                ),
                (
                    "root mean square error, in the unit of the label",
                    number(metrics.test_root_mean_square_error),
                ),
                (
                    "share of labels below the prediction",
                    number(metrics.test_coverage),
                ),
            ];
            let deviance = metrics.test_deviance;
            rows.extend(deviance.map(|of| ("mean Poisson deviance (where the mean is beyond the largest count, along its tangent there)", number(of))));
            rows.extend(metrics.test_r2.map(|r2| ("R²", number(r2))));
            rows
        }
    };
    let rows = rows
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    rows.chain(Beside::rows(metrics.beside())).collect()
}

/// Indented JSON.
pub(crate) fn json_text(value: &impl Serialize) -> Result<String, CliError> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}
