//! Names of losses, in files and on the command line: `welsch`, `huber:0.5`.

use std::fmt;
use std::str::FromStr;

use super::{Glm, ParameterError, Quantile, Scale};

/// A name is not one of a loss.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LossNameError {
    /// No loss is called that.
    #[error("known are {}", Names)]
    Unknown,
    /// The text after the colon is not a number.
    #[error("the parameter after the colon is not a number")]
    NotANumber,
    /// The loss has no parameter.
    #[error("{0} takes no parameter")]
    NoParameter(Glm),
    /// The parameter is out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, loss) in Glm::ALL.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(loss.name())?;
            if loss.parameter().is_some() {
                f.write_str("[:NUMBER]")?;
            }
        }
        Ok(())
    }
}

impl Glm {
    fn name(self) -> &'static str {
        match self {
            Glm::Logistic => "logistic",
            Glm::Sigmoid => "sigmoid",
            Glm::Hinge => "hinge",
            Glm::Welsch => "welsch",
            Glm::GemanMcClure => "geman-mcclure",
            Glm::Cauchy => "cauchy",
            Glm::Tukey(_) => "tukey",
            Glm::Huber(_) => "huber",
            Glm::Squared(_) => "squared",
            Glm::Absolute => "absolute",
            Glm::Pinball(_) => "pinball",
            Glm::Relu => "relu",
            Glm::Poisson(_) => "poisson",
        }
    }

    fn parameter(self) -> Option<f64> {
        match self {
            Glm::Tukey(scale) | Glm::Huber(scale) | Glm::Squared(scale) | Glm::Poisson(scale) => {
                Some(scale.get())
            }
            Glm::Pinball(quantile) => Some(quantile.get()),
            _ => None,
        }
    }
}

impl fmt::Display for Glm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parameter() {
            None => f.write_str(self.name()),
            Some(parameter) => write!(f, "{}:{parameter}", self.name()),
        }
    }
}

impl FromStr for Glm {
    type Err = LossNameError;

    /// A name alone means the parameter of [`Glm::ALL`].
    fn from_str(text: &str) -> Result<Self, LossNameError> {
        let (name, parameter) = match text.split_once(':') {
            None => (text, None),
            Some((name, number)) => {
                let number: f64 = number.parse().map_err(|_| LossNameError::NotANumber)?;
                (name, Some(number))
            }
        };
        let found = Glm::ALL.into_iter().find(|loss| loss.name() == name);
        let loss = found.ok_or(LossNameError::Unknown)?;
        let Some(parameter) = parameter else {
            return Ok(loss);
        };
        Ok(match loss {
            Glm::Tukey(_) => Glm::Tukey(Scale::new(parameter)?),
            Glm::Huber(_) => Glm::Huber(Scale::new(parameter)?),
            Glm::Squared(_) => Glm::Squared(Scale::new(parameter)?),
            Glm::Poisson(_) => Glm::Poisson(Scale::new(parameter)?),
            Glm::Pinball(_) => Glm::Pinball(Quantile::new(parameter)?),
            _ => return Err(LossNameError::NoParameter(loss)),
        })
    }
}

impl TryFrom<String> for Glm {
    type Error = LossNameError;

    fn try_from(text: String) -> Result<Self, LossNameError> {
        text.parse()
    }
}

impl From<Glm> for String {
    fn from(loss: Glm) -> String {
        loss.to_string()
    }
}
