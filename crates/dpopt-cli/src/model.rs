//! `model.json`: a released model with its schema and its privacy statement.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use dpopt::data::tabular::Schema;
use dpopt::oracle::{Glm, Network, PublicOrder, QuadraticLink, Softmax};
use serde::{Deserialize, Serialize};

use crate::args::AnySolver;
use crate::certified::Certified;
use crate::class_weights::LabelWeights;
use crate::error::CliError;
use crate::evaluated::Evaluated;
use crate::fit::Fit;
use crate::head::Head;
use crate::loss::{self, LossName};
use crate::objective::Objective;
use crate::perceptron::Perceptron;
use crate::second_order::SecondOrder;
use crate::statement::Statement;
use crate::tune::TuningTold;

const FORMAT: &str = "dpopt-model-1";

/// A linear model of a table, of several classes too, a network with one hidden layer, a perceptron, or a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Model {
    format: String,
    pub(crate) solver: AnySolver,
    pub(crate) loss: LossName,
    /// Factors of records' losses in training, by the value of the label; none: all counted alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class_weights: Option<BTreeMap<String, f64>>,
    /// What it was trained for, where that is not the mean loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) objective: Option<Trained>,
    /// Of several classes: those of the schema, in the order of the weights of a feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) classes: Option<Vec<String>>,
    /// None for a linear model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<Hidden>,
    /// None for other models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    perceptron: Option<Layers>,
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

/// A perceptron: the weights of a feature are those of the first layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Layers {
    #[serde(flatten)]
    of: Perceptron,
    /// Of the weights that the run started from; none where it went on from a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_seed: Option<u64>,
    /// Of the first layer.
    biases: Vec<f64>,
    /// Those after it, the last of which makes the outputs.
    layers: Vec<Layer>,
}

/// From the units of one layer to those of the next: the sum of bias and weights times what the units make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// For each unit that goes in, one for each that comes out.
    pub(crate) weights: Vec<Vec<f64>>,
    pub(crate) biases: Vec<f64>,
}

impl Layer {
    /// As in a point: weights, then biases.
    fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        self.weights.iter().flatten().chain(&self.biases).copied()
    }
}

impl Layers {
    /// What follows the weights of the first layer in a point.
    fn new(of: Perceptron, start_seed: Option<u64>, outputs: usize, rest: &[f64]) -> Self {
        let mut widths = of.hidden.as_slice().iter().copied();
        let mut inputs = widths.next().unwrap_or(0);
        let (biases, mut rest) = rest.split_at_checked(inputs).unwrap_or((rest, &[]));
        let mut layers = Vec::new();
        for width in widths.chain([outputs]) {
            let (weights, after) = rest.split_at_checked(inputs * width).unwrap_or((rest, &[]));
            let (biases, after) = after.split_at_checked(width).unwrap_or((after, &[]));
            layers.push(Layer {
                weights: weights.chunks(width.max(1)).map(<[f64]>::to_vec).collect(),
                biases: biases.to_vec(),
            });
            (rest, inputs) = (after, width);
        }
        let biases = biases.to_vec();
        Self {
            of,
            start_seed,
            biases,
            layers,
        }
    }

    /// Whether all layers are as wide as they should be, and all numbers are finite.
    fn fits(&self, outputs: usize) -> bool {
        let widths = self.of.hidden.as_slice();
        let mut inputs = widths.first().copied().unwrap_or(0);
        let after = widths.iter().copied().skip(1).chain([outputs]);
        let shaped = self.biases.len() == inputs
            && self.layers.len() == widths.len()
            && self.layers.iter().zip(after).all(|(layer, width)| {
                let rows = std::mem::replace(&mut inputs, width);
                let full = layer.weights.iter().all(|row| row.len() == width);
                layer.weights.len() == rows && full && layer.biases.len() == width
            });
        shaped && self.rest().all(f64::is_finite)
    }

    fn rest(&self) -> impl Iterator<Item = f64> + '_ {
        let layers = self.layers.iter().flat_map(Layer::numbers);
        self.biases.iter().copied().chain(layers)
    }
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

/// What class weights do to predictions, where there are some.
pub(crate) fn weighted_chances(model: &Model) -> Option<String> {
    let weights = model.weights().ok().flatten().filter(|of| !of.are_one())?;
    let chances = match model.loss {
        LossName::Softmax => true,
        loss => loss.scalar() == Some(Glm::Logistic),
    };
    Some(format!(
        "trained with class weights {weights}{}",
        if chances {
            ": probabilities are of records weighted so, and not of the records themselves"
        } else {
            ""
        }
    ))
}

impl Model {
    /// Names the coordinates of `point` after the schema's features.
    pub(crate) fn new(
        solver: AnySolver,
        (fit, objective): (&Fit, Option<Trained>),
        privacy: Statement,
        schema: Schema,
        order: Option<PublicOrder>,
        point: &[f64],
    ) -> Self {
        let names = schema.feature_names().into_iter();
        let width = fit.width();
        let of_classes;
        let first = width.saturating_mul(schema.dim());
        let (point, rest) = point.split_at_checked(first).unwrap_or((point, &[]));
        let outputs = fit.classes().map_or(1, |of| of.classes());
        let perceptron = fit
            .perceptron
            .map(|of| Layers::new(of, fit.seed, outputs, rest));
        let point = match fit.classes().filter(|_| perceptron.is_none()) {
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
                weight: match weights {
                    [weight] if fit.is_linear_score() => Weights::One(*weight),
                    _ => Weights::OfUnits(weights.to_vec()),
                },
            })
            .collect();
        let several = schema.label().several();
        Self {
            format: FORMAT.to_owned(),
            solver,
            loss: fit.name(),
            class_weights: fit.weights.as_ref().map(|of| of.by_value().clone()),
            objective,
            classes: several.map(|several| several.values.clone()),
            hidden: fit.network.map(|network| Hidden {
                output_weights: network.output_weights(),
                network,
                start_seed: fit.seed,
            }),
            perceptron,
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
        let for_label = model.loss.for_label(true, model.schema.label());
        if for_label.map_err(|error| bad(error.to_string()))? != model.loss {
            return Err(bad(
                "its loss is of other counts than its schema's label".to_owned()
            ));
        }
        let weighted = model.weights().map_err(|error| bad(error.to_string()))?;
        if weighted.as_ref().map(LabelWeights::by_value) != model.class_weights.as_ref() {
            return Err(bad(
                "its class weights are not those of its schema's label".to_owned()
            ));
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
        if let Some(layers) = &model.perceptron {
            let outputs = several.map_or(1, |several| several.values.len());
            if network.is_some() || link.is_some() || !layers.fits(outputs) {
                return Err(bad(
                    "the layers of its perceptron do not fit together".to_owned()
                ));
            }
        }
        let first = model.perceptron.as_ref().map(|of| of.of.hidden.as_slice());
        let width = match (network, &link, several) {
            _ if first.is_some() => first.and_then(<[usize]>::first).copied().unwrap_or(0),
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
        let perceptron = self.perceptron.as_ref().and_then(|of| of.start_seed);
        hidden
            .or(perceptron)
            .or_else(|| self.factor.and_then(|factor| factor.start_seed))
    }

    /// Whether it has hidden units.
    pub(crate) fn is_network(&self) -> bool {
        self.hidden.is_some()
    }

    /// Whether it was trained for the mean loss of the records, so that its accuracy can be judged
    /// beside a constant's.
    pub(crate) fn is_plain(&self) -> bool {
        self.class_weights.is_none() && self.objective.is_none()
    }

    /// Whether it is a perceptron, all of whose weights were trained.
    pub(crate) fn is_perceptron(&self) -> bool {
        self.perceptron.is_some()
    }

    /// The biases of a perceptron's first layer, and its other layers.
    pub(crate) fn layers(&self) -> Option<(&[f64], &[Layer])> {
        let of = self.perceptron.as_ref()?;
        Some((&of.biases, &of.layers))
    }

    /// The loss of a factor, where it is one.
    pub(crate) fn link(&self) -> Result<Option<QuadraticLink>, CliError> {
        let (Some(factor), LossName::Quadratic(phi)) = (&self.factor, self.loss) else {
            return Ok(None);
        };
        loss::link(phi, factor.rank, factor.ball).map(Some)
    }

    /// The factors of records' losses that it was trained with, by their labels.
    pub(crate) fn weights(&self) -> Result<Option<LabelWeights>, CliError> {
        let of = |given| LabelWeights::new(self.schema.label(), given);
        self.class_weights.as_ref().map(of).transpose()
    }

    /// All weights: those of a feature together, or of several classes those of a class.
    pub(crate) fn point(&self) -> Vec<f64> {
        let weights = || self.weights.iter().map(|weight| weight.weight.all());
        if let Some(layers) = &self.perceptron {
            let first = weights().flatten().copied();
            return first.chain(layers.rest()).collect();
        }
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
            perceptron: self.perceptron.as_ref().map(|layers| layers.of),
            // Checked when it was read.
            link: self.link().ok().flatten(),
            weights: self.weights().ok().flatten(),
            seed: None,
        })
    }
}
