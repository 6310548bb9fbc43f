//! The candidates of a tuning: named one by one, or a grid; without either a grid that follows from the schema alone.

use std::str::FromStr;

use clap::Args;
use dpopt::data::tabular::Schema;

use super::told::{Named, loss_in_words};
use crate::args::{self, AnySolver, SolverArg};
use crate::choose::ChooseArgs;
use crate::class_weights::ClassWeightsArg;
use crate::error::CliError;
use crate::fit::{Fit, NetworkArgs};
use crate::loss::{LinkArgs, LossArg};
use crate::perceptron::Widths;

/// Row norms of the default grid, as multiples of the schema's: a draft writes half of what rows have, and twice and half of that are
/// near the best on made-up tables.
const ROW_NORMS: [f64; 4] = [1.0, 2.0, 0.5, 0.25];
/// More candidates cost nothing and are missed.
const MOST: usize = 64;

/// Flags of candidates.
#[derive(Debug, Args)]
pub(crate) struct CandidateArgs {
    /// A candidate, as settings between spaces or commas: solver=NAME, loss=NAME, hidden=KxK, row-norm=X,
    /// max-passes=P, class-weights=VALUE=WEIGHT,...; what is left out is as in `dpopt train`. Give it for each candidate
    #[arg(long, value_name = "SETTINGS", conflicts_with_all = ["solver", "loss", "hidden", "row_norm", "max_passes", "class_weights"])]
    candidate: Vec<Settings>,
    /// A grid instead of candidates one by one: its solvers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    solver: Vec<SolverArg>,
    /// Losses of the grid
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    loss: Vec<LossArg>,
    /// Hidden units of the grid, once for each candidate: K or K,K,... as in `dpopt train`, from seed 0, and none for a linear score
    #[arg(long, value_name = "K[,K...]|none", allow_hyphen_values = true)]
    hidden: Vec<Hidden>,
    /// Class weights of the grid, once for each candidate: as in `dpopt train`, and none where all records count alike
    #[arg(
        long,
        value_name = "VALUE=WEIGHT[,...]|none",
        allow_hyphen_values = true
    )]
    class_weights: Vec<String>,
    /// Row norms of the grid; in a grid without them, that of the schema. Without any candidate or grid: the solver that auto picks, on
    /// rows of 1, 2, 1/2 and 1/4 times the norm that the schema says
    #[arg(long, value_name = "X", value_delimiter = ',', value_parser = args::positive)]
    row_norm: Vec<f64>,
    /// Most passes over the data, of the grid
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = args::positive)]
    max_passes: Vec<f64>,
}

/// Hidden units of a candidate, or none.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hidden(Option<Widths>);

impl FromStr for Hidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            NOTHING => Ok(Self(None)),
            widths => widths.replace('x', ",").parse().map(|of| Self(Some(of))),
        }
    }
}

const WEIGHTS: &str = "class-weights";
/// What a candidate is made of.
const SETTINGS: [&str; 6] = [
    "solver",
    "loss",
    "hidden",
    "row-norm",
    "max-passes",
    WEIGHTS,
];

/// No hidden units, and no class weights.
const NOTHING: &str = "none";

/// What is said of one candidate.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    solver: SolverArg,
    loss: Option<LossArg>,
    hidden: Option<Widths>,
    class_weights: Option<String>,
    row_norm: Option<f64>,
    max_passes: Option<f64>,
}

const NONE: Settings = Settings {
    solver: SolverArg::Auto,
    loss: None,
    hidden: None,
    class_weights: None,
    row_norm: None,
    max_passes: None,
};

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut settings = NONE;
        let mut seen: Vec<&str> = Vec::new();
        for word in words(text) {
            let word = word.trim_start_matches("--");
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("`{word}` is no setting: NAME=VALUE is needed"))?;
            let value = value.trim_matches([' ', ',']);
            if seen.contains(&name) {
                return Err(format!("{name} is given twice"));
            }
            seen.push(name);
            match name {
                "solver" => settings.solver = value.parse()?,
                "loss" => settings.loss = Some(value.parse()?),
                "hidden" => settings.hidden = value.parse::<Hidden>()?.0,
                WEIGHTS => settings.class_weights = weights(value),
                "row-norm" => settings.row_norm = Some(args::positive(value)?),
                "max-passes" => settings.max_passes = Some(args::positive(value)?),
                _ => {
                    return Err(format!(
                        "`{name}` is no setting of a candidate; known are {}",
                        SETTINGS.join(", ")
                    ));
                }
            }
        }
        Ok(settings)
    }
}

/// The settings, where spaces or commas stand between them. What follows class-weights belongs to it up to the next setting that is known:
/// weights are a list, and values of a label may have spaces and commas in them.
fn words(text: &str) -> Vec<&str> {
    let named = |word: &str, name: &str| {
        let word = word.trim_start_matches("--");
        word.split_once('=').is_some_and(|(of, _)| of == name)
    };
    let known = |word: &str| SETTINGS.iter().any(|name| named(word, name));
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive([' ', ',']) {
        let (from, to) = (start, start + word.len());
        start = to;
        let word = word.trim_end_matches([' ', ',']);
        let before = found.last_mut();
        match before {
            Some((at, end)) if !known(word) && named(&text[*at..*end], WEIGHTS) => *end = to,
            _ if word.is_empty() => {}
            _ => found.push((from, from + word.len())),
        }
    }
    found
        .into_iter()
        .map(|(from, to)| &text[from..to])
        .collect()
}

fn weights(text: &str) -> Option<String> {
    (text != NOTHING).then(|| text.to_owned())
}

/// What is tried.
pub(crate) struct Candidate {
    pub(crate) solver: SolverArg,
    pub(crate) fit: Fit,
    /// Where it starts; none: at the origin.
    pub(crate) start: Option<Vec<f64>>,
    /// The table's, with this candidate's row norm.
    pub(crate) schema: Schema,
    pub(crate) max_passes: Option<f64>,
    pub(crate) how: ChooseArgs,
}

impl Candidate {
    fn new(of: Settings, schema: &Schema) -> Result<Self, CliError> {
        if let SolverArg::Saddle(solver) = of.solver {
            let problem = format!(
                "{solver} is for saddle problems, and candidates are of the mean loss; leave it out"
            );
            return Err(CliError::flag("--candidate", problem));
        }
        if let SolverArg::Named(solver) = of.solver {
            let needs = solver.needs;
            let why = if needs.positions {
                Some(
                    "reads the records in slices, which needs them in a random order, and a tuning has none",
                )
            } else if needs.radius || needs.goldstein || needs.hessian || needs.kl || needs.values {
                Some("needs a claim or a fact that is no setting of a candidate")
            } else {
                None
            };
            if let Some(why) = why {
                let problem = format!("{} {why}; leave it out", solver.name);
                return Err(CliError::flag("--candidate", problem));
            }
        }
        let schema = match of.row_norm {
            Some(norm) => schema.with_row_norm(norm)?,
            None => schema.clone(),
        };
        let none = (LinkArgs { ball: None }, None);
        let network = NetworkArgs::of(of.hidden);
        let fit = Fit::for_label(of.loss, &network, none, schema.label())?.seeded_by_default();
        fit.check_size(schema.dim())?;
        let weights = of.class_weights.as_deref().map(ClassWeightsArg::one);
        let weights = weights.unwrap_or_default().of(schema.label())?;
        let fit = fit.weighted(weights);
        let start = fit.start(schema.dim(), schema.row_norm());
        Ok(Self {
            solver: of.solver,
            fit,
            start,
            schema,
            max_passes: of.max_passes,
            how: ChooseArgs::within(of.max_passes),
        })
    }

    /// The settings, where the solver that `auto` takes is not known yet.
    pub(crate) fn words(&self) -> String {
        let passes = self.max_passes;
        format!(
            "{}, {}{}, row norm {}{}",
            match self.solver {
                SolverArg::Auto => "auto",
                SolverArg::Named(solver) => solver.name,
                SolverArg::Saddle(solver) => solver.name,
            },
            loss_in_words(self.fit.name(), self.fit.hidden()),
            self.fit
                .weights
                .as_ref()
                .map_or(String::new(), |of| format!(", class weights {of}")),
            self.schema.row_norm(),
            passes.map_or(String::new(), |passes| format!(", at most {passes} passes"))
        )
    }

    pub(crate) fn named(&self, solver: AnySolver) -> Named {
        Named {
            solver,
            loss: self.fit.name(),
            hidden: self.fit.hidden(),
            class_weights: self.fit.weights.as_ref().map(|of| of.by_value().clone()),
            row_norm: self.schema.row_norm(),
            max_passes: self.max_passes,
        }
    }
}

impl CandidateArgs {
    /// All of them, by public facts.
    pub(crate) fn all(&self, schema: &Schema) -> Result<Vec<Candidate>, CliError> {
        let mut settings = self.candidate.clone();
        if settings.is_empty() {
            settings = self.grid(schema.row_norm());
        }
        let mut kept: Vec<Settings> = Vec::new();
        for of in settings {
            if !kept.contains(&of) {
                kept.push(of);
            }
        }
        if kept.len() < 2 || kept.len() > MOST {
            let problem = format!(
                "a choice is among 2 to {MOST} different ones, and {} were given; for one setting take `dpopt train`",
                kept.len()
            );
            return Err(CliError::flag("--candidate", problem));
        }
        kept.into_iter()
            .map(|of| Candidate::new(of, schema))
            .collect()
    }

    fn grid(&self, norm: f64) -> Vec<Settings> {
        let bare = self.solver.is_empty()
            && self.loss.is_empty()
            && self.hidden.is_empty()
            && self.class_weights.is_empty()
            && self.max_passes.is_empty();
        let mut norms = self.row_norm.clone();
        if bare && norms.is_empty() {
            norms = ROW_NORMS.map(|times| times * norm).to_vec();
        }
        let all = crossed(vec![NONE], &self.solver, |of, solver| of.solver = *solver);
        let all = crossed(all, &self.loss, |of, loss| of.loss = Some(*loss));
        let all = crossed(all, &self.hidden, |of, hidden| of.hidden = hidden.0);
        let all = crossed(all, &self.class_weights, |of, text| {
            of.class_weights = weights(text);
        });
        let all = crossed(all, &norms, |of, norm| of.row_norm = Some(*norm));
        crossed(all, &self.max_passes, |of, passes| {
            of.max_passes = Some(*passes);
        })
    }
}

/// Each of these with each of the values of one more setting; unchanged where there are none.
fn crossed<T>(all: Vec<Settings>, values: &[T], set: impl Fn(&mut Settings, &T)) -> Vec<Settings> {
    if values.is_empty() {
        return all;
    }
    let each = |of: Settings| {
        let with = |value| {
            let mut of = of.clone();
            set(&mut of, value);
            of
        };
        values.iter().map(with).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_none_is_refused() {
        let read: Settings = "--solver=dp-sgd, row-norm=0.5 max-passes=3"
            .parse()
            .unwrap();
        assert_eq!(read.row_norm, Some(0.5));
        assert_eq!(read.max_passes, Some(3.0));
        assert!(matches!(read.solver, SolverArg::Named(solver) if solver.name == "dp-sgd"));
        assert_eq!("".parse(), Ok(NONE));
        let read: Settings = "hidden=64x32 class-weights=yes=5".parse().unwrap();
        let hidden = read.hidden.unwrap();
        assert_eq!(hidden.as_slice(), [64, 32]);
        assert_eq!(read.class_weights.as_deref(), Some("yes=5"));
        for (text, weights) in [
            ("class-weights=no=1,yes=5 row-norm=2", "no=1,yes=5"),
            ("row-norm=2,class-weights=no=1, yes=5,", "no=1, yes=5"),
            (
                "class-weights=well paid=2,rather, not=3,row-norm=2",
                "well paid=2,rather, not=3",
            ),
            ("class-weights=loss=4 row-norm=2", "loss=4"),
        ] {
            let read: Settings = text.parse().unwrap();
            assert_eq!(read.class_weights.as_deref(), Some(weights), "{text}");
            assert_eq!(read.row_norm, Some(2.0), "{text}");
        }
        assert_eq!("hidden=none class-weights=none".parse(), Ok(NONE));
        for bad in [
            "solver",
            "solver=nobody",
            "row-norm=0",
            "max-passes=inf",
            "loss=none",
            "steps=4",
            "row-norm=1,row-norm=2",
            "hidden=",
            "hidden=x",
        ] {
            assert!(bad.parse::<Settings>().is_err(), "{bad}");
        }
    }
}
