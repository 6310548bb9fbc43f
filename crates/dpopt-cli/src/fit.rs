//! What is fitted: a linear score or a network with one hidden layer, and how its output is compared with a label.

use clap::Args;
use dpopt::data::tabular::{Label, LabelRange};
use dpopt::linalg::Row;
use dpopt::oracle::{Activation, Constants, Glm, Network};

use crate::args;
use crate::error::CliError;

/// Flags of a network.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct NetworkArgs {
    /// Fit a network with one hidden layer of K units (even), whose output weights are fixed and public: Lipschitz everywhere, so that the
    /// goldstein solvers state their bounds of it; default: a linear score
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    hidden: Option<usize>,
    /// Activation of the hidden units
    #[arg(long, value_name = "NAME", default_value = "relu", requires = "hidden", value_parser = args::activation)]
    activation: Activation,
}

/// Seed of the hidden weights that a run starts from: public, from nowhere.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SeedArgs {
    /// Seed of the hidden weights that the run starts from: public, and chosen without looking at the records
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "hidden",
        conflicts_with = "resume",
        allow_hyphen_values = true
    )]
    pub(crate) hidden_seed: u64,
}

/// A model before it is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    pub(crate) loss: Glm,
    pub(crate) network: Option<Network>,
    /// Seed of the hidden weights that the run starts from; none where it starts elsewhere.
    pub(crate) seed: Option<u64>,
}

impl NetworkArgs {
    /// Whether a network is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.hidden.is_some()
    }
}

impl Fit {
    pub(crate) fn new(loss: Glm, args: &NetworkArgs) -> Result<Self, CliError> {
        if args.hidden.is_some() && loss == Glm::Relu {
            let problem = "relu has no slope at an output of 0, which is where a network starts for every record, so it would never move; \
                           take absolute or another loss";
            return Err(CliError::flag("--loss", problem));
        }
        let network = |units| Network::new(units, args.activation, loss);
        let network = args.hidden.map(network).transpose();
        let network = network.map_err(|error| CliError::flag("--hidden", error.to_string()))?;
        Ok(Self {
            loss,
            network,
            seed: None,
        })
    }

    /// With the seed of the hidden weights, where there are any.
    pub(crate) fn seeded(self, args: SeedArgs) -> Self {
        let seed = self.network.map(|_| args.hidden_seed);
        Self { seed, ..self }
    }

    /// Refuses a projection of a network's rows.
    pub(crate) fn check_projected(&self, projects: bool) -> Result<(), CliError> {
        if projects && self.network.is_some() {
            let problem = "projections are for losses of <w, x>, and the loss of a network is none";
            return Err(CliError::flag("--project", problem));
        }
        Ok(())
    }

    /// Refuses a loss of classes for numbers, and the other way round.
    pub(crate) fn check_label(&self, label: &Label) -> Result<(), CliError> {
        let (loss, column) = (self.loss, &label.column);
        let problem = match label.range() {
            Some(LabelRange { min, max, .. }) if loss.is_classification() => format!(
                "{loss} is a loss of two classes, and the label {column:?} is a number from {min} to {max}; take pinball, absolute or \
                 another loss of residuals"
            ),
            Some(_) if loss == Glm::Relu => format!(
                "relu is a loss of the positive part of the output, and predictions of the number {column:?} are the output itself; take \
                 absolute or another loss of residuals"
            ),
            None if matches!(loss, Glm::Pinball(_)) => format!(
                "{loss} is a loss of numbers, and the label {column:?} has two values; take logistic or another loss of classes, or say \
                 `kind = \"number\"` in the schema's [label]"
            ),
            _ => return Ok(()),
        };
        Err(CliError::flag("--loss", problem))
    }

    /// A network in words, for checkpoints; none for a linear score, of which those of 0.1 are.
    pub(crate) fn named(&self) -> Option<String> {
        self.network.map(|network| {
            let (units, activation) = (network.units(), network.activation());
            format!("a network of {units} hidden units ({activation})")
        })
    }

    /// Parameters for each feature.
    pub(crate) fn width(&self) -> usize {
        self.network.map_or(1, |network| network.units())
    }

    /// Number of parameters, of rows of so many features.
    pub(crate) fn dim(&self, features: usize) -> usize {
        features.saturating_mul(self.width())
    }

    pub(crate) fn constants(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        match self.network {
            None => self.loss.constants_within(row_norm, label_bound),
            Some(network) => network.constants_within(row_norm, label_bound),
        }
    }

    /// Where a run starts; none: at the origin, or at a checkpoint's point.
    pub(crate) fn start(&self, features: usize, row_norm: f64) -> Option<Vec<f64>> {
        let (network, seed) = self.network.zip(self.seed)?;
        Some(network.start(features, row_norm, seed))
    }

    /// The output for a row.
    pub(crate) fn score(&self, row: Row<'_>, point: &[f64]) -> f64 {
        match self.network {
            None => row.dot(point),
            Some(network) => network.output(row, point),
        }
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.loss.fmt(f)?;
        if let Some(network) = self.named() {
            write!(f, ", of {network}")?;
        }
        match self.seed {
            None => Ok(()),
            Some(seed) => write!(f, ", started from seed {seed}"),
        }
    }
}
