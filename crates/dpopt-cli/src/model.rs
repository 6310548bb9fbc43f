//! `model.json`: a released model with its schema and its privacy statement.

use std::path::Path;

use dpopt::data::tabular::Schema;
use dpopt::linalg::Design;
use dpopt::oracle::{Glm, Network, PublicOrder};
use serde::{Deserialize, Serialize};

use crate::args::AnySolver;
use crate::certified::Certified;
use crate::error::CliError;
use crate::fit::Fit;
use crate::objective::Objective;
use crate::statement::Statement;

const FORMAT: &str = "dpopt-model-1";

/// A linear model of a table, or a network with one hidden layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Model {
    format: String,
    pub(crate) solver: AnySolver,
    pub(crate) loss: Glm,
    /// What it was trained for, where that is not the mean loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) objective: Option<Trained>,
    /// None for a linear model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<Hidden>,
    pub(crate) privacy: Statement,
    pub(crate) schema: Schema,
    /// The order that its records were met in, where that was not the table's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<PublicOrder>,
    weights: Vec<Weight>,
}

/// An objective, and the dual variable at the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trained {
    pub(crate) name: Objective,
    pub(crate) dual: Vec<f64>,
    /// Whether the shares of groups were released, and not public.
    pub(crate) shares_released: bool,
    /// What is certified of it, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<Certified>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_certificate_because: Option<String>,
}

impl Trained {
    /// What is certified of it in words, or why nothing is; none where that was not asked for.
    pub(crate) fn certified(&self) -> Option<String> {
        let words = self.certificate.as_ref().map(Certified::words);
        let why = self.no_certificate_because.as_ref();
        words.or_else(|| why.map(|why| format!("nothing is certified: {why}")))
    }
}

/// The hidden layer: the output is the sum of output weight j times the activation of <weights j, row>.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Hidden {
    #[serde(flatten)]
    network: Network,
    /// Fixed and public: what `network` says, for those who read the file by themselves.
    output_weights: Vec<f64>,
    /// Of the weights that the run started from; none where it went on from a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_seed: Option<u64>,
}

/// The weight of one feature: one for each hidden unit, where there are any.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Weight {
    feature: String,
    weight: Weights,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Weights {
    One(f64),
    OfUnits(Vec<f64>),
}

impl Weights {
    fn all(&self) -> &[f64] {
        match self {
            Self::One(weight) => std::slice::from_ref(weight),
            Self::OfUnits(weights) => weights,
        }
    }
}

impl Model {
    /// Names the coordinates of `point` after the schema's features.
    pub(crate) fn new(
        solver: AnySolver,
        (fit, objective): (Fit, Option<Trained>),
        privacy: Statement,
        schema: Schema,
        order: Option<PublicOrder>,
        point: &[f64],
    ) -> Self {
        let names = schema.feature_names().into_iter();
        let width = fit.width();
        let weights = names
            .zip(point.chunks(width))
            .map(|(feature, weights)| Weight {
                feature,
                weight: match (fit.network, weights) {
                    (None, [weight]) => Weights::One(*weight),
                    _ => Weights::OfUnits(weights.to_vec()),
                },
            })
            .collect();
        Self {
            format: FORMAT.to_owned(),
            solver,
            loss: fit.loss,
            objective,
            hidden: fit.network.map(|network| Hidden {
                output_weights: network.output_weights(),
                network,
                start_seed: fit.seed,
            }),
            privacy,
            schema,
            order,
            weights,
        }
    }

    /// Reads and checks a model.
    pub(crate) fn load(path: &Path) -> Result<Self, CliError> {
        let text = std::fs::read_to_string(path).map_err(|source| CliError::Read {
            path: path.to_owned(),
            source,
        })?;
        let bad = |problem: String| CliError::Content {
            path: path.to_owned(),
            problem,
        };
        let model: Self = serde_json::from_str(&text)
            .map_err(|error| bad(format!("not a model of dpopt: {error}")))?;
        if model.format != FORMAT {
            return Err(bad(format!(
                "the format {:?} is unknown; this version reads {FORMAT:?}",
                model.format
            )));
        }
        let names = model.schema.feature_names();
        let network = model.hidden.as_ref().map(|hidden| &hidden.network);
        if let Some(network) = network
            && network.head() != model.loss
        {
            return Err(bad("its hidden layer is for another loss".to_owned()));
        }
        let width = network.map_or(1, Network::units);
        let fits = names.len() == model.weights.len()
            && names.iter().zip(&model.weights).all(|(name, weight)| {
                let weights = weight.weight.all();
                let finite = weights.iter().all(|weight| weight.is_finite());
                *name == weight.feature && weights.len() == width && finite
            });
        if !fits {
            return Err(bad(
                "the weights do not match the features of the schema in the same file".to_owned(),
            ));
        }
        Ok(model)
    }

    /// The weights of a linear model; none of a network.
    pub(crate) fn linear(&self) -> Option<Vec<f64>> {
        self.hidden.is_none().then(|| self.point())
    }

    fn point(&self) -> Vec<f64> {
        let weights = self.weights.iter();
        weights.flat_map(|w| w.weight.all().to_vec()).collect()
    }

    /// The output for each row.
    pub(crate) fn scores(&self, design: &Design) -> Vec<f64> {
        let point = self.point();
        let fit = Fit {
            loss: self.loss,
            network: self.hidden.as_ref().map(|hidden| hidden.network),
            seed: None,
        };
        (0..design.rows())
            .map(|i| fit.score(design.row(i), &point))
            .collect()
    }
}
