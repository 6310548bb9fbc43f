//! A perceptron before it is fitted: hidden layers, all of whose weights are trained.

use dpopt::nonconvex::{Solver, TypicalConstants};
use dpopt::oracle::{Activation, Head as MlpHead, Mlp, MlpError};
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::head::Head;

/// The most hidden layers.
const MOST_LAYERS: usize = 8;
/// The most weights: half a gigabyte in double precision, of which a run has several.
const MOST_WEIGHTS: usize = 1 << 26;

/// Hidden units of each layer, first layer first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<usize>", into = "Vec<usize>")]
pub(crate) struct Widths {
    all: [usize; MOST_LAYERS],
    layers: usize,
}

impl Widths {
    pub(crate) fn as_slice(&self) -> &[usize] {
        self.all.get(..self.layers).unwrap_or_default()
    }

    /// The width, where there is one layer.
    pub(crate) fn one(&self) -> Option<usize> {
        match self.as_slice() {
            [width] => Some(*width),
            _ => None,
        }
    }
}

impl TryFrom<Vec<usize>> for Widths {
    type Error = String;

    fn try_from(widths: Vec<usize>) -> Result<Self, String> {
        let layers = widths.len();
        if layers == 0 || layers > MOST_LAYERS {
            return Err(format!(
                "{layers} hidden layers: one to {MOST_LAYERS} are possible"
            ));
        }
        let mut all = [0; MOST_LAYERS];
        all.iter_mut().zip(widths).for_each(|(to, of)| *to = of);
        Ok(Self { all, layers })
    }
}

impl From<Widths> for Vec<usize> {
    fn from(widths: Widths) -> Self {
        widths.as_slice().to_vec()
    }
}

impl std::str::FromStr for Widths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let widths = text.split(',').map(|width| width.trim().parse::<usize>());
        let widths: Vec<usize> = widths.collect::<Result<_, _>>().map_err(|error| {
            format!("{error}; a number of units, or those of several layers such as 64,32")
        })?;
        widths.try_into()
    }
}

impl std::fmt::Display for Widths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.as_slice().iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// Its layers; how many inputs and outputs it has the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Perceptron {
    pub(crate) hidden: Widths,
    pub(crate) activation: Activation,
}

impl Perceptron {
    /// With one output, or one for each class.
    pub(crate) fn mlp(&self, inputs: usize, head: Head) -> Result<Mlp, MlpError> {
        let (head, outputs) = outputs(head);
        let mut sizes = vec![inputs];
        sizes.extend_from_slice(self.hidden.as_slice());
        sizes.push(outputs);
        Mlp::new(&sizes, self.activation, head)
    }

    /// The perceptron that a point of so many weights is of.
    pub(crate) fn of_point(&self, weights: usize, head: Head) -> Option<Mlp> {
        let widths = self.hidden.as_slice();
        let later: Vec<usize> = widths.iter().copied().chain([outputs(head).1]).collect();
        let after: usize = later.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
        let first = weights.checked_sub(after)?.checked_div(*widths.first()?)?;
        let mlp = self.mlp(first.checked_sub(1)?, head).ok()?;
        (mlp.parameters() == weights).then_some(mlp)
    }

    /// Refuses one that can't be, or that memory can't hold.
    pub(crate) fn check(&self, inputs: usize, head: Head) -> Result<(), CliError> {
        let refuse = |problem| Err(CliError::flag("--hidden", problem));
        let many = match self.mlp(inputs, head) {
            Ok(mlp) if mlp.parameters() <= MOST_WEIGHTS => return Ok(()),
            Ok(mlp) => format!("{} weights", mlp.parameters()),
            Err(MlpError::TooManyParameters) => "more weights than there are addresses".to_owned(),
            Err(error) => return refuse(error.to_string()),
        };
        refuse(format!(
            "{inputs} features and hidden layers of {} are {many}, and at most {MOST_WEIGHTS} are trained; take fewer units",
            self.hidden
        ))
    }

    /// Refuses solvers that are planned by constants, and claims that no solver of a perceptron uses. `able`: those that need no constants.
    pub(crate) fn check_solver(
        &self,
        (solver, able): (Option<&'static Solver>, &str),
        head: Head,
        claims: &[(&'static str, bool)],
    ) -> Result<(), CliError> {
        if let Some(solver) = solver.filter(|solver| !solver.needs.no_constants) {
            let fixed = self.fixed_instead(head);
            let problem = format!(
                "{solver} is planned by a Lipschitz constant of the loss, and a perceptron whose output weights are trained has none; \
                 take auto, {able}{fixed}"
            );
            return Err(CliError::flag("--solver", problem));
        }
        match claims.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => {
                let fixed = self.fixed_instead(head);
                let problem = format!(
                    "no solver of a perceptron has a use for it: nothing is proven of one; leave it out{fixed}"
                );
                Err(CliError::flag(flag, problem))
            }
        }
    }

    /// The network of fixed output weights that has constants, in words, where there is one of these layers.
    fn fixed_instead(&self, head: Head) -> String {
        match (self.hidden.one(), head) {
            (Some(units), Head::Scalar(_)) => {
                format!(
                    ", or say --output-weights fixed with --hidden {units}, which has constants"
                )
            }
            _ => String::new(),
        }
    }

    /// What planners without a bound take for units. Nothing is proven by it.
    pub(crate) fn typical(
        &self,
        inputs: usize,
        head: Head,
        row_norm: f64,
    ) -> Option<TypicalConstants> {
        let slope = self.mlp(inputs, head).ok()?.typical_slope(row_norm);
        let constants = match head {
            Head::Scalar(phi) => phi.constants(slope),
            Head::Classes(classes) => classes.constants(slope),
        };
        Some(TypicalConstants {
            lipschitz: constants.lipschitz,
            smoothness: constants.smoothness,
            row_norm: slope,
        })
    }
}

fn outputs(head: Head) -> (MlpHead, usize) {
    match head {
        Head::Scalar(phi) => (MlpHead::Scalar(phi), 1),
        Head::Classes(classes) => (MlpHead::Softmax, classes.classes()),
    }
}
