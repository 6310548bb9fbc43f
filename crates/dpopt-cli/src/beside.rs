//! A figure of a model beside the same figure of the constant prediction that is best by it.
//!
//! The constant of a public test set is made from that set itself, which favours the constant. That
//! of a private evaluation comes from the release alone, and nothing is claimed that its intervals
//! leave open.

use dpopt::certify::Measured;
use serde::Serialize;

/// An area under the ROC curve of a public test set below this is no better than chance. A choice.
const CHANCE: f64 = 0.52;

/// A number, or an interval that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Exact(f64),
    Within([f64; 2]),
}

impl Value {
    fn ends(self) -> [f64; 2] {
        match self {
            Self::Exact(value) => [value; 2],
            Self::Within(ends) => ends,
        }
    }
}

/// To four decimals, outwards.
pub(crate) fn down(value: f64) -> f64 {
    (value * 1e4).floor() / 1e4
}

pub(crate) fn up(value: f64) -> f64 {
    (value * 1e4).ceil() / 1e4
}

impl From<&Measured> for Value {
    fn from(of: &Measured) -> Self {
        Self::Within([of.low, of.high])
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(value) => write!(f, "{value:.4}"),
            Self::Within([low, high]) => write!(f, "{:.4} to {:.4}", down(*low), up(*high)),
        }
    }
}

/// A figure by which a model is compared with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Figure {
    Accuracy,
    LogLoss,
    Auc,
    WorstGroupAccuracy,
    MeanLoss,
    AbsoluteError,
    RootMeanSquareError,
    Deviance,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::LogLoss => "log loss",
            Self::Auc => "AUC",
            Self::WorstGroupAccuracy => "worst accuracy of a group",
            Self::MeanLoss => "mean loss",
            Self::AbsoluteError => "absolute error",
            Self::RootMeanSquareError => "root mean square error",
            Self::Deviance => "deviance",
        }
    }

    /// Whether the model's figure is surely worse than the constant's: of an area or of the worst
    /// group, whose constants are worth nothing, whether it is no better.
    fn is_worse(self, model: Value, constant: Value) -> bool {
        let ([low, high], [least, most]) = (model.ends(), constant.ends());
        match self {
            Self::Accuracy => high < least,
            Self::Auc => high < if low < high { least } else { CHANCE },
            Self::WorstGroupAccuracy => high <= most,
            Self::LogLoss
            | Self::MeanLoss
            | Self::AbsoluteError
            | Self::RootMeanSquareError
            | Self::Deviance => low > most,
        }
    }
}

/// A figure of a model beside a constant's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Beside {
    figure: Figure,
    model: Value,
    /// The constant prediction, in words.
    always: &'static str,
    constant: Value,
    /// Whether the model is worse, where the run was for this figure.
    worse: bool,
}

impl Beside {
    /// `aimed`: whether the model was trained for this figure, so that it is judged by it.
    pub(crate) fn new(
        (figure, model): (Figure, Value),
        (always, constant): (&'static str, Value),
        aimed: bool,
    ) -> Self {
        Self {
            figure,
            model,
            always,
            constant,
            worse: aimed && figure.is_worse(model, constant),
        }
    }

    /// Of a public test set.
    pub(crate) fn exact(
        figure: Figure,
        model: f64,
        (always, constant): (&'static str, f64),
        aimed: bool,
    ) -> Self {
        let constant = (always, Value::Exact(constant));
        Self::new((figure, Value::Exact(model)), constant, aimed)
    }

    /// The figures: accuracy 0.9000 (always the majority: 0.9379).
    pub(crate) fn words(&self) -> String {
        let (name, model) = (self.figure.name(), self.model);
        format!("{name} {model} ({}: {})", self.always, self.constant)
    }

    /// Both figures, of a public test set.
    #[cfg(test)]
    pub(crate) fn exactly(&self) -> Option<(f64, f64)> {
        match (self.model, self.constant) {
            (Value::Exact(model), Value::Exact(constant)) => Some((model, constant)),
            _ => None,
        }
    }

    /// A row of a table for the constant, and one more where the model is worse.
    pub(crate) fn rows(of: &[Self]) -> Vec<(String, String)> {
        let constant = |of: &Self| {
            let name = format!("{}, {}", of.figure.name(), of.always);
            (name, of.constant.to_string())
        };
        let worse = of.iter().filter(|of| of.worse);
        let worse = worse.map(|of| ("no better than a constant".to_owned(), of.words()));
        of.iter().map(constant).chain(worse).collect()
    }

    /// The warning of a set of records, where the model is worse than a constant there.
    pub(crate) fn warning(of: &[Self], records: &str) -> Option<String> {
        let worse: Vec<String> = of.iter().filter(|of| of.worse).map(Self::words).collect();
        (!worse.is_empty()).then(|| {
            format!(
                "the model is no better than a constant on {records}: {}",
                worse.join(", ")
            )
        })
    }
}

pub(crate) const MAJORITY: &str = "always the majority";
/// The area under the ROC curve of one score for all records.
pub(crate) const ANY: (&str, Value) = ("any constant", Value::Exact(0.5));

pub(crate) const SHARES: &str = "always the shares of the classes";

/// The log loss of predicting the shares of the classes for every record.
pub(crate) fn entropy(shares: impl IntoIterator<Item = f64>) -> f64 {
    let shares = shares.into_iter().filter(|share| *share > 0.0);
    shares.map(|share| -share * share.ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_worse_where_its_ends_decide_it() {
        use Figure::*;
        let exact = Value::Exact;
        let within = |low, high| Value::Within([low, high]);
        for (figure, model, constant, worse) in [
            (Accuracy, exact(0.93), exact(0.94), true),
            (Accuracy, exact(0.94), exact(0.94), false),
            (Accuracy, within(0.90, 0.93), within(0.94, 0.95), true),
            (Accuracy, within(0.90, 0.94), within(0.93, 0.95), false),
            (RootMeanSquareError, exact(2.0), exact(1.9), true),
            (AbsoluteError, within(2.0, 3.0), within(0.0, 2.5), false),
            (Deviance, exact(4.0), exact(5.13), false),
            (LogLoss, exact(0.7), exact(0.69), true),
            (MeanLoss, exact(0.7), exact(0.69), true),
            (Auc, exact(0.507), exact(0.5), true),
            (Auc, exact(0.6), exact(0.5), false),
            (Auc, within(0.3, 0.6), exact(0.5), false),
            (WorstGroupAccuracy, exact(0.0), exact(0.0), true),
            (WorstGroupAccuracy, exact(0.01), exact(0.0), false),
        ] {
            let of = |aimed| Beside::new((figure, model), ("a constant", constant), aimed);
            assert_eq!(of(true).worse, worse, "{:?}", of(true));
            assert!(!of(false).worse);
            let warning = Beside::warning(&[of(false), of(true)], "these records");
            assert_eq!(warning.is_some(), worse);
            assert_eq!(Beside::rows(&[of(true)]).len(), 1 + usize::from(worse));
        }
    }
}
