//! Values of flags: text to checked units, so that an error names the flag.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use dpopt::data::names::hint;
use dpopt::minimax::{self, SaddleSolver};
use dpopt::nonconvex::{
    self, Auto, RemovedSolver, SOLVERS, Solver, UnknownSolver, WalkConstants, auto_names, solver,
};
use dpopt::oracle::{Activation, Glm, LossNameError};
use dpopt::privacy::{
    Accountant, Adjacency, Delta, Epsilon, FilterKind, NoiseMultiplier, SamplingRate, UnitError,
};
use serde::Serialize;

use crate::artefacts::MODEL;

/// More threads help no run here.
const MAX_THREADS: usize = 1024;

/// A solver, or the rule that picks one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SolverArg {
    Auto,
    Named(&'static Solver),
    Saddle(&'static SaddleSolver),
}

impl SolverArg {
    /// Whether it leaves saddles by the Hessian: such a solver may start at one.
    pub(crate) fn escapes_saddles(self) -> bool {
        matches!(self, Self::Named(solver) if solver.needs.hessian)
    }
}

/// The help text of a flag that takes one.
pub(crate) fn solver_help() -> String {
    format!(
        "auto, {}. auto: {fallback} for a convex loss and one with kinks; otherwise the cheapest of those whose proven bound is about the \
         least ({by_bound}), and {fallback} where no bound says anything. With --goldstein-radius and a loss with kinks: the same of \
         {at_radius}. For a perceptron: {no_constants}. It sees public facts only. With an --objective other than log-loss: {saddle}, or \
         auto, which is the same",
        names().join(", "),
        fallback = auto_names(Auto::Fallback),
        by_bound = auto_names(Auto::ByBound),
        at_radius = auto_names(Auto::AtRadius),
        no_constants = auto_names(Auto::NoConstants),
        saddle = saddle_names().collect::<Vec<_>>().join(", ")
    )
}

/// The solvers that a table of data can be planned for: no table has a KL condition by itself.
pub(crate) fn offered() -> impl Iterator<Item = &'static Solver> {
    SOLVERS.iter().copied().filter(|solver| !solver.needs.kl)
}

/// Those that objectives of tables can be planned for: a bound needs the whole field of every record, and constants of the mean that hold
/// for the shares that the records happen to have.
fn saddle_names() -> impl Iterator<Item = &'static str> {
    let solvers = minimax::SOLVERS
        .iter()
        .filter(|solver| solver.bound.is_none());
    solvers.map(|solver| solver.name)
}

/// Solvers of version 0.1 that were removed: stored models still name them.
fn removed() -> impl Iterator<Item = &'static RemovedSolver> {
    nonconvex::REMOVED.iter().chain(minimax::REMOVED)
}

fn names() -> Vec<&'static str> {
    offered().map(|solver| solver.name).collect()
}

/// All that `--solver` takes, auto first.
pub(crate) fn solver_names() -> Vec<&'static str> {
    let named = names().into_iter().chain(saddle_names());
    std::iter::once("auto").chain(named).collect()
}

/// All that `--loss` takes, without the numbers that may follow.
pub(crate) fn loss_names() -> Vec<String> {
    let bare = Glm::ALL.map(|loss| {
        loss.to_string()
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    bare.into_iter().chain(["softmax".to_owned()]).collect()
}

impl FromStr for SolverArg {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(solver) = offered().find(|solver| solver.name == name) {
            return Ok(Self::Named(solver));
        }
        if let Some(solver) = minimax::solver(name) {
            return Ok(Self::Saddle(solver));
        }
        if let Some(removed) = removed().find(|removed| removed.name == name) {
            return Err(UnknownSolver::Removed(*removed).to_string());
        }
        if let Ok(solver) = solver(name) {
            return Err(format!(
                "{solver} needs a KL condition, which no table of data has by itself"
            ));
        }
        let known = solver_names();
        let meant = hint(name, known.iter().copied());
        let (auto, others) = known.split_first().unwrap_or((&"auto", &[]));
        Err(format!(
            "no solver is called `{name}`; known: {}, or {auto}{meant}",
            others.join(", ")
        ))
    }
}

/// A solver of either kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnySolver {
    Minimiser(&'static Solver),
    Saddle(&'static SaddleSolver),
    /// The solver of a stored model.
    Removed(&'static RemovedSolver),
}

impl AnySolver {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Minimiser(solver) => solver.name,
            Self::Saddle(solver) => solver.name,
            Self::Removed(solver) => solver.name,
        }
    }

    /// Whether it reads records at fixed positions, in slices.
    pub(crate) fn needs_positions(self) -> bool {
        match self {
            Self::Minimiser(solver) => solver.needs.positions,
            Self::Saddle(solver) => solver.positions,
            Self::Removed(_) => false,
        }
    }

    /// Whether it is a minimiser that releases Hessians.
    pub(crate) fn needs_hessian(self) -> bool {
        matches!(self, Self::Minimiser(solver) if solver.needs.hessian)
    }

    /// Whether it needs the records in memory.
    pub(crate) fn needs_memory(self) -> bool {
        matches!(self, Self::Minimiser(solver) if solver.needs.memory)
    }
}

impl std::fmt::Display for AnySolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for AnySolver {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for AnySolver {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        if let Some(found) = minimax::solver(&name) {
            return Ok(Self::Saddle(found));
        }
        if let Some(found) = removed().find(|removed| removed.name == name) {
            return Ok(Self::Removed(found));
        }
        let found = solver(&name).map(Self::Minimiser);
        found.map_err(serde::de::Error::custom)
    }
}

/// The file of a model; of a folder that `--out` made, the model in it.
pub(crate) fn model() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| match path.is_dir() {
        true => path.join(MODEL),
        false => path,
    })
}

/// An accountant, or the tightest one that takes the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountantArg {
    Auto,
    Named(Accountant),
}

impl FromStr for AccountantArg {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "auto" {
            return Ok(Self::Auto);
        }
        name.parse().map(Self::Named).map_err(
            |error: dpopt::privacy::accounting::UnknownAccountant| {
                let known = Accountant::ALL.map(|accountant| accountant.to_string());
                let known = known.iter().map(String::as_str).chain(["auto"]);
                format!("{error}, or auto{}", hint(name, known))
            },
        )
    }
}

/// The one of `all` that is displayed as `name`.
fn named<T: std::fmt::Display + Copy>(name: &str, all: &[T]) -> Result<T, String> {
    let found = all.iter().copied().find(|item| item.to_string() == name);
    found.ok_or_else(|| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let meant = hint(name, names.iter().map(String::as_str));
        format!("known are {}{meant}", names.join(", "))
    })
}

/// The relations that tables are trained on under.
pub(crate) const OF_TABLES: [Adjacency; 2] = [Adjacency::ReplaceOne, Adjacency::AddRemove];
/// Those that the accountants know.
pub(crate) const ADJACENCIES: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];

pub(crate) fn adjacency(name: &str) -> Result<Adjacency, String> {
    named(name, &OF_TABLES)
}

pub(crate) fn any_adjacency(name: &str) -> Result<Adjacency, String> {
    named(name, &ADJACENCIES)
}

/// What the standard deviation of noise is divided by to give a noise multiplier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NoiseOver {
    /// The clip radius C, as in papers and other tools
    Clip,
    /// The sensitivity of the sum under the adjacency, as in events: 2C under replace-one, C otherwise
    Sensitivity,
}

impl NoiseOver {
    /// A stated multiplier as one over the sensitivity.
    pub(crate) fn read(
        self,
        stated: NoiseMultiplier,
        adjacency: Adjacency,
    ) -> Result<NoiseMultiplier, UnitError> {
        NoiseMultiplier::new(stated.get() / self.clips(adjacency))
    }

    /// A multiplier over the sensitivity as it is stated.
    pub(crate) fn state(
        self,
        noise: NoiseMultiplier,
        adjacency: Adjacency,
    ) -> Result<NoiseMultiplier, UnitError> {
        NoiseMultiplier::new(noise.get() * self.clips(adjacency))
    }

    /// The sensitivity in units of what noise is stated over: a power of two, so that nothing is rounded.
    fn clips(self, adjacency: Adjacency) -> f64 {
        match self {
            Self::Clip => adjacency.sum_sensitivity(),
            Self::Sensitivity => 1.0,
        }
    }

    /// The convention in a sentence without its end.
    pub(crate) fn words(self, stated: NoiseMultiplier, adjacency: Adjacency) -> String {
        let sensitivity = match adjacency {
            Adjacency::ReplaceOne => "2C",
            Adjacency::AddRemove | Adjacency::ZeroOut => "C",
        };
        match self {
            Self::Clip => format!(
                "noise of standard deviation {stated} C, where C is the clip radius (the sensitivity of a sum \
                 under {adjacency} is {sensitivity})"
            ),
            Self::Sensitivity => format!(
                "noise of standard deviation {stated} times the sensitivity of the sum, which under {adjacency} is \
                 {sensitivity} for a clip radius C"
            ),
        }
    }
}

/// Which data sets are neighbours, in a sentence without its end.
pub(crate) fn adjacency_in_words(adjacency: Adjacency) -> &'static str {
    match adjacency {
        Adjacency::ReplaceOne => "neighbours differ in one record, exchanged for any other",
        Adjacency::AddRemove => "neighbours differ by one record, added or removed",
        Adjacency::ZeroOut => {
            "neighbours differ in one record, exchanged for one that contributes nothing"
        }
    }
}

/// The help text of a flag that takes a loss.
pub(crate) fn loss_help() -> String {
    let named = |kinks: bool| {
        let losses = Glm::ALL.into_iter();
        let losses = losses.filter(|loss| loss.constants(1.0).smoothness.is_infinite() == kinks);
        let shown = losses.map(|loss| match loss.to_string().split_once(':') {
            Some((name, _)) => format!("{name}[:NUMBER]"),
            None => loss.to_string(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    format!(
        "Loss of a record; default logistic, softmax where the label has three values or more, huber where it is a number: {}, softmax; with kinks, for the goldstein solvers and those without a bound: {}. `quadratic:` before a name makes it \
         one of ||U^T row||^2 - 1, U a factor of --rank columns: for tables of differences, and for measured squares. poisson takes its \
         largest count from the schema's label; where a mean is beyond that, the loss, and the deviance that a test set is scored by, go \
         on along their tangent",
        named(false),
        named(true)
    )
}

/// A loss. One with kinks is refused by the planners that need a Lipschitz gradient.
pub(crate) fn loss(name: &str) -> Result<Glm, String> {
    // A parameter follows a colon.
    let bare = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    name.parse::<Glm>().map_err(|error| match error {
        LossNameError::Unknown => {
            let names = loss_names();
            let meant = hint(&bare(name), names.iter().map(String::as_str));
            format!("{error}{meant}")
        }
        error => error.to_string(),
    })
}

/// By which errors a walk is planned.
pub(crate) fn walk_constants(name: &str) -> Result<WalkConstants, String> {
    named(name, &WalkConstants::ALL)
}

/// An activation of hidden units.
pub(crate) fn activation(name: &str) -> Result<Activation, String> {
    named(name, &Activation::ALL)
}

pub(crate) fn filter(name: &str) -> Result<FilterKind, String> {
    named(name, &FilterKind::ALL)
}

fn unit<T>(text: &str, make: fn(f64) -> Result<T, UnitError>) -> Result<T, String> {
    let value: f64 = text.trim().parse().map_err(|_| "not a number".to_owned())?;
    make(value).map_err(|error| error.to_string())
}

pub(crate) fn epsilon(text: &str) -> Result<Epsilon, String> {
    unit(text, Epsilon::new)
}

pub(crate) fn delta(text: &str) -> Result<Delta, String> {
    unit(text, Delta::new)
}

pub(crate) fn noise_multiplier(text: &str) -> Result<NoiseMultiplier, String> {
    unit(text, NoiseMultiplier::new)
}

pub(crate) fn sampling_rate(text: &str) -> Result<SamplingRate, String> {
    unit(text, SamplingRate::new)
}

/// A positive finite number.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("a positive finite number is needed".to_owned()),
    }
}

/// A number between 0 and 1, ends excluded.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("a probability between 0 and 1, ends excluded, is needed".to_owned()),
    }
}

/// Threads: more than any machine has would only be refused by the system later.
pub(crate) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match text.trim().parse::<NonZeroUsize>() {
        Ok(threads) if threads.get() <= MAX_THREADS => Ok(threads),
        _ => Err(format!("a whole number from 1 to {MAX_THREADS} is needed")),
    }
}

/// A whole number of at least 1.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    match text.trim().parse::<u64>() {
        Ok(value) if value > 0 => Ok(value),
        _ => Err("a whole number of at least 1 is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_units_are_refused_with_their_name() {
        for text in ["0", "-1", "NaN", "inf", "one", ""] {
            assert!(epsilon(text).is_err(), "{text}");
        }
        for text in ["0", "1", "1.5", "-0.1", "nan"] {
            assert!(delta(text).is_err(), "{text}");
        }
        assert!(epsilon("0").is_err_and(|message| message.contains("epsilon")));
        assert!(count("0").is_err() && count("1.5").is_err() && positive("0").is_err());
    }

    #[test]
    fn auto_and_names_are_read() {
        assert_eq!("auto".parse(), Ok(SolverArg::Auto));
        for solver in offered() {
            assert_eq!(solver.to_string().parse(), Ok(SolverArg::Named(solver)));
        }
        let kl = "kl-spider".parse::<SolverArg>();
        assert!(kl.is_err_and(|message| message.contains("KL condition")));
        let sgd = "sgd".parse::<SolverArg>();
        assert!(sgd.is_err_and(|message| message.ends_with("or auto (did you mean dp-sgd?)")));
        assert_eq!("auto".parse(), Ok(AccountantArg::Auto));
        assert!("moments".parse::<AccountantArg>().is_err());
    }
}
