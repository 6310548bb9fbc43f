//! The name of a loss: of <w, x>, of the squared length of a row seen through a factor, or of several classes.

use std::num::NonZeroUsize;

use clap::Args;
use dpopt::data::tabular::Label;
use dpopt::oracle::{Glm, QuadraticLink, Scale};
use dpopt::privacy::ClipNorm;
use serde::{Deserialize, Serialize};

use crate::args;
use crate::error::CliError;

/// What stands before the scalar loss.
const QUADRATIC: &str = "quadratic:";

/// The loss of several classes.
const SOFTMAX: &str = "softmax";

/// What a model is fitted by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum LossName {
    /// A scalar loss of <w, x>.
    Linear(Glm),
    /// One of ||U^T x||^2 - 1.
    Quadratic(Glm),
    /// The cross-entropy of several classes.
    Softmax,
}

impl LossName {
    /// The loss where none is asked for.
    pub(crate) fn default_for(label: &Label) -> Self {
        match (label.several(), label.range()) {
            (Some(_), _) => Self::Softmax,
            // Half the square of the residual, but for labels that are more than two thirds of the range away.
            (None, Some(_)) => {
                let huber = Glm::ALL
                    .into_iter()
                    .find(|loss| matches!(loss, Glm::Huber(_)));
                Self::Linear(huber.unwrap_or(Glm::Absolute))
            }
            (None, None) => Self::Linear(Glm::Logistic),
        }
    }

    /// The same for this label: that of counts ends at the largest count, which the label says. `named`: the count was given with the loss.
    pub(crate) fn for_label(self, named_count: bool, label: &Label) -> Result<Self, CliError> {
        let (Some(Glm::Poisson(named)), Some(range)) = (self.scalar(), label.range()) else {
            return Ok(self);
        };
        let refuse = |problem| Err(CliError::flag("--loss", problem));
        let (column, min, max) = (&label.column, range.min, range.max);
        if min != 0.0 || max < 1.0 || max.fract() != 0.0 {
            let problem = format!(
                "poisson is a loss of counts, and the label {column:?} is a number from {min} to {max}; give min = 0 and a whole number as \
                 max, or take huber"
            );
            return refuse(problem);
        }
        let largest =
            Scale::new(max).map_err(|error| CliError::flag("--loss", error.to_string()))?;
        if named_count && named != largest {
            let problem = format!(
                "{self} is of counts up to {}, and the label {column:?} ends at {max}; say poisson, which takes no number beside a schema",
                named.get()
            );
            return refuse(problem);
        }
        let phi = Glm::Poisson(largest);
        Ok(match self {
            Self::Quadratic(_) => Self::Quadratic(phi),
            Self::Linear(_) | Self::Softmax => Self::Linear(phi),
        })
    }

    /// The scalar loss, where it is one.
    pub(crate) fn scalar(self) -> Option<Glm> {
        match self {
            Self::Linear(phi) | Self::Quadratic(phi) => Some(phi),
            Self::Softmax => None,
        }
    }

    /// Whether it is the logistic loss of <w, x>.
    pub(crate) fn is_logistic_score(self) -> bool {
        self == Self::Linear(Glm::Logistic)
    }
}

impl std::fmt::Display for LossName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Linear(phi) => phi.fmt(f),
            Self::Quadratic(phi) => write!(f, "{QUADRATIC}{phi}"),
            Self::Softmax => f.write_str(SOFTMAX),
        }
    }
}

impl std::str::FromStr for LossName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.strip_prefix(QUADRATIC) {
            _ if name == SOFTMAX => Ok(Self::Softmax),
            _ if name.split_once(':').is_some_and(|(of, _)| of == SOFTMAX) => {
                Err("softmax takes no parameter".to_owned())
            }
            Some(SOFTMAX) => Err("softmax is of several outputs, and a factor has one".to_owned()),
            Some(phi) => args::loss(phi).map(Self::Quadratic),
            None => args::loss(name).map(Self::Linear),
        }
    }
}

impl TryFrom<String> for LossName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<LossName> for String {
    fn from(name: LossName) -> Self {
        name.to_string()
    }
}

/// A loss as a flag names it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LossArg {
    pub(crate) name: LossName,
    /// Whether a parameter was given with it.
    with_parameter: bool,
}

impl LossArg {
    /// For this label, by its default where none is named.
    pub(crate) fn for_label(of: Option<Self>, label: &Label) -> Result<LossName, CliError> {
        match of {
            Some(of) => of.name.for_label(of.with_parameter, label),
            None => LossName::default_for(label).for_label(false, label),
        }
    }

    /// Where no label says how far counts go.
    pub(crate) fn without_label(self) -> Result<LossName, CliError> {
        match self.name.scalar() {
            Some(Glm::Poisson(_)) if !self.with_parameter => Err(CliError::flag(
                "--loss",
                "needs the largest count where no --schema says it: poisson:20, say",
            )),
            _ => Ok(self.name),
        }
    }
}

impl std::str::FromStr for LossArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix(QUADRATIC).unwrap_or(text);
        Ok(Self {
            name: text.parse()?,
            with_parameter: bare.contains(':'),
        })
    }
}

/// Flags of a quadratic loss, beside --rank.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LinkArgs {
    /// For quadratic losses: the radius of the ball of factors, ||U|| at most B in Frobenius norm, that the constants hold on. Where
    /// a walk leaves it no bound is stated; the guarantee does not rest on it
    #[arg(long, value_name = "B", value_parser = args::positive, allow_hyphen_values = true)]
    pub(crate) ball: Option<f64>,
}

impl LinkArgs {
    /// The link of a quadratic loss, with a factor of `rank` columns; none for other losses.
    pub(crate) fn link(
        self,
        loss: LossName,
        rank: Option<u64>,
    ) -> Result<Option<QuadraticLink>, CliError> {
        let phi = match loss {
            LossName::Quadratic(phi) => phi,
            _ if self.ball.is_none() => return Ok(None),
            LossName::Linear(phi) => {
                let problem =
                    format!("{phi} has no use for it; it is of use with --loss quadratic:{phi}");
                return Err(CliError::flag("--ball", problem));
            }
            LossName::Softmax => {
                let problem = "softmax has no use for it; it is of use with --loss quadratic:...";
                return Err(CliError::flag("--ball", problem));
            }
        };
        let missing = |flag, what: &str| CliError::flag(flag, format!("{loss} needs it: {what}"));
        let rank = rank.ok_or_else(|| missing("--rank", "the number of columns of the factor"))?;
        let ball = self
            .ball
            .ok_or_else(|| missing("--ball", "its constants hold on a ball of factors only"))?;
        let columns = usize::try_from(rank).ok().and_then(NonZeroUsize::new);
        let columns =
            columns.ok_or_else(|| CliError::flag("--rank", "too large for this machine"))?;
        link(phi, columns, ball).map(Some)
    }
}

/// The loss phi(||U^T x||^2 - 1, y). Another threshold is another unit for U.
pub(crate) fn link(phi: Glm, columns: NonZeroUsize, ball: f64) -> Result<QuadraticLink, CliError> {
    let ball = ClipNorm::new(ball).map_err(|error| CliError::flag("--ball", error.to_string()))?;
    let threshold = Scale::new(1.0).map_err(|error| CliError::flag("--loss", error.to_string()))?;
    Ok(QuadraticLink::new(phi, columns, ball).with_threshold(threshold))
}
