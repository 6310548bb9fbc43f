//! `model.json`: a released model with its schema and its privacy statement.

use std::num::NonZeroUsize;
use std::path::Path;

use dpopt::data::tabular::Schema;
use dpopt::oracle::{Network, PublicOrder, QuadraticLink, Softmax};
use serde::{Deserialize, Serialize};

use crate::args::AnySolver;
use crate::certified::Certified;
use crate::error::CliError;
use crate::evaluated::Evaluated;
use crate::fit::{Fit, Head};
use crate::loss::{self, LossName};
use crate::objective::Objective;
use crate::second_order::SecondOrder;
use crate::statement::Statement;
use crate::tune::TuningTold;

const FORMAT: &str = "dpopt-model-1";

/// A linear model of a table, of several classes too, a network with one hidden layer, or a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Model {
    format: String,
    pub(crate) solver: AnySolver,
    pub(crate) loss: LossName,
    /// What it was trained for, where that is not the mean loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) objective: Option<Trained>,
    /// Of several classes: those of the schema, in the order of the weights of a feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) classes: Option<Vec<String>>,
    /// None for a linear model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<Hidden>,
    /// Of a quadratic loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    factor: Option<Factor>,
    pub(crate) privacy: Statement,
    pub(crate) schema: Schema,
    /// The order that its records were met in, where that was not the table's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<PublicOrder>,
    /// Of solvers of second order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) second_order: Option<SecondOrder>,
    /// On records that were held out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evaluation: Option<Evaluated>,
    /// Where it is the best of several runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tuning: Option<TuningTold>,
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

/// A factor U: the score is ||U^T row||^2 - threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Factor {
    /// Columns.
    rank: NonZeroUsize,
    /// ||U|| at most this is where the constants of the run hold.
    ball: f64,
    /// For those who read the file by themselves: 1.
    threshold: f64,
    /// Of the factor that the run started from; none where it started at 0 or went on from a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_seed: Option<u64>,
}

impl Factor {
    fn new(link: QuadraticLink, start_seed: Option<u64>) -> Option<Self> {
        Some(Self {
            rank: NonZeroUsize::new(link.rank())?,
            ball: link.ball(),
            threshold: link.threshold(),
            start_seed,
        })
    }
}

/// The weight of one feature: one for each class, hidden unit or column of a factor, where there are any.
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
        let of_classes;
        let point = match fit.classes() {
            // A point has the weights of a class together.
            Some(_) => {
                let features = point.len() / width;
                let of = |at: usize| point[at % width * features + at / width];
                of_classes = (0..point.len()).map(of).collect::<Vec<f64>>();
                &of_classes
            }
            None => point,
        };
        let weights = names
            .zip(point.chunks(width))
            .map(|(feature, weights)| Weight {
                feature,
                weight: match (fit.network, fit.link, weights) {
                    (None, None, [weight]) => Weights::One(*weight),
                    _ => Weights::OfUnits(weights.to_vec()),
                },
            })
            .collect();
        let several = schema.label().several();
        Self {
            format: FORMAT.to_owned(),
            solver,
            loss: fit.name(),
            objective,
            classes: several.map(|several| several.values.clone()),
            hidden: fit.network.map(|network| Hidden {
                output_weights: network.output_weights(),
                network,
                start_seed: fit.seed,
            }),
            factor: fit.link.and_then(|link| Factor::new(link, fit.seed)),
            privacy,
            schema,
            order,
            second_order: None,
            evaluation: None,
            tuning: None,
            weights,
        }
    }

    /// With what a solver of second order chose and certified.
    pub(crate) fn with_second_order(mut self, second_order: Option<SecondOrder>) -> Self {
        self.second_order = second_order;
        self
    }

    /// With what it is worth on records that were held out, and the statement that covers that too.
    pub(crate) fn with_evaluation(
        mut self,
        privacy: Statement,
        evaluation: Option<Evaluated>,
    ) -> Self {
        self.privacy = privacy;
        self.evaluation = evaluation;
        self
    }

    /// With how it was chosen.
    pub(crate) fn with_tuning(mut self, told: TuningTold) -> Self {
        self.tuning = Some(told);
        self
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
            && LossName::Linear(network.head()) != model.loss
        {
            return Err(bad("its hidden layer is for another loss".to_owned()));
        }
        let link = model.link().map_err(|error| bad(error.to_string()))?;
        let other = match (&link, &model.factor) {
            (Some(link), Some(factor)) => link.threshold() != factor.threshold || network.is_some(),
            (link, factor) => {
                let quadratic = matches!(model.loss, LossName::Quadratic(_));
                link.is_some() || factor.is_some() || quadratic
            }
        };
        if other {
            return Err(bad("its factor is for another loss".to_owned()));
        }
        let several = model.schema.label().several();
        if several.map(|several| &several.values) != model.classes.as_ref()
            || several.is_some() != (model.loss == LossName::Softmax)
        {
            return Err(bad(
                "its classes are not those of its schema's label".to_owned()
            ));
        }
        let width = match (network, &link, several) {
            (Some(network), ..) => network.units(),
            (None, Some(link), _) => link.rank(),
            (None, None, Some(several)) => several.values.len(),
            (None, None, None) => 1,
        };
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

    /// Seed of the weights that the run started from, where it did not start at 0 or at a checkpoint.
    pub(crate) fn start_seed(&self) -> Option<u64> {
        let hidden = self.hidden.as_ref().and_then(|hidden| hidden.start_seed);
        hidden.or_else(|| self.factor.and_then(|factor| factor.start_seed))
    }

    /// Whether it has hidden units.
    pub(crate) fn is_network(&self) -> bool {
        self.hidden.is_some()
    }

    /// The loss of a factor, where it is one.
    pub(crate) fn link(&self) -> Result<Option<QuadraticLink>, CliError> {
        let (Some(factor), LossName::Quadratic(phi)) = (&self.factor, self.loss) else {
            return Ok(None);
        };
        loss::link(phi, factor.rank, factor.ball).map(Some)
    }

    /// All weights: those of a feature together, or of several classes those of a class.
    pub(crate) fn point(&self) -> Vec<f64> {
        let weights = || self.weights.iter().map(|weight| weight.weight.all());
        match &self.classes {
            Some(classes) => (0..classes.len())
                .flat_map(|class| weights().filter_map(move |of| of.get(class).copied()))
                .collect(),
            None => weights().flatten().copied().collect(),
        }
    }

    /// What was fitted.
    pub(crate) fn fit(&self) -> Option<Fit> {
        let head = match (self.loss.scalar(), &self.classes) {
            (Some(phi), _) => Head::Scalar(phi),
            (None, Some(classes)) => Head::Classes(Softmax::new(classes.len())?),
            (None, None) => return None,
        };
        Some(Fit {
            head,
            network: self.hidden.as_ref().map(|hidden| hidden.network),
            // Checked when it was read.
            link: self.link().ok().flatten(),
            seed: None,
        })
    }
}
