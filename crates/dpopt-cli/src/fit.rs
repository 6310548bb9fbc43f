//! What is fitted: a linear score, a network with one hidden layer, a perceptron or a factor, and how its output is compared with a label.

use clap::Args;
use dpopt::certify::FittedModel;
use dpopt::data::tabular::{Label, LabelRange};
use dpopt::linalg::Row;
use dpopt::nonconvex::{GlmRun, Plan, PlanError, PublicFacts, TypicalConstants, needs_one_product};
use dpopt::oracle::{
    Activation, Constants, Convexity, Glm, Mlp, Network, PrivateData, QuadraticLink, Softmax,
};
use dpopt::privacy::{Adjacency, Curator};

use crate::args;
use crate::class_weights::LabelWeights;
use crate::error::CliError;
use crate::head::Head;
use crate::loss::{LinkArgs, LossArg, LossName};
use crate::perceptron::{Perceptron, Widths};

/// Flags of a network.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct NetworkArgs {
    /// Fit a perceptron with hidden units; default: a linear score. One number for each hidden layer, 64 or 64,32. All weights are
    /// trained. No solver has a bound for it; dp-sgd (auto), dp-sgd-decay, dp-adam and noisy-gd train it. On tables a linear score is
    /// often better: compare
    #[arg(long, value_name = "K[,K...]", allow_hyphen_values = true)]
    hidden: Option<Widths>,
    /// Whether the weights of the output are fixed or trained; default: trained. With fixed and public ones a network of one layer (of
    /// an even number of units) and one output is Lipschitz everywhere, so that solvers with a bound have a plan for it; it learns less
    #[arg(long, value_name = "HOW", requires = "hidden")]
    output_weights: Option<OutputWeights>,
    /// Activation of the hidden units
    #[arg(long, value_name = "NAME", default_value = "relu", requires = "hidden", value_parser = args::activation)]
    activation: Activation,
}

/// What becomes of the weights of the last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputWeights {
    /// Public, and the same all along
    Fixed,
    /// Like all others
    Trained,
}

/// Seed of the weights that a run starts from: public, from nowhere.
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
    hidden_seed: u64,
    /// For quadratic losses: seed of the factor that the run starts from, public, and chosen without looking at the records; none for
    /// U = 0, a saddle. Default: none for solvers that leave saddles by the Hessian, otherwise 0
    #[arg(
        long,
        value_name = "N|none",
        requires = "ball",
        conflicts_with = "resume",
        allow_hyphen_values = true
    )]
    factor_seed: Option<FactorSeed>,
}

/// Where a factor starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FactorSeed {
    Seed(u64),
    Origin,
}

impl std::str::FromStr for FactorSeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self::Origin),
            number => number
                .parse()
                .map(Self::Seed)
                .map_err(|_| "a seed is a whole number below 2^64, or none".to_owned()),
        }
    }
}

/// A model before it is fitted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    pub(crate) head: Head,
    pub(crate) network: Option<Network>,
    pub(crate) perceptron: Option<Perceptron>,
    pub(crate) link: Option<QuadraticLink>,
    /// Factors of records' losses by their label; none: all count alike.
    pub(crate) weights: Option<LabelWeights>,
    /// Seed of the weights that the run starts from; none where it starts elsewhere.
    pub(crate) seed: Option<u64>,
}

impl NetworkArgs {
    /// None.
    pub(crate) fn none() -> Self {
        Self {
            hidden: None,
            output_weights: None,
            activation: Activation::Relu,
        }
    }

    /// Of so many units, with the output weights that go with them and the usual activation.
    pub(crate) fn of(hidden: Option<Widths>) -> Self {
        Self {
            hidden,
            ..Self::none()
        }
    }

    /// Whether a network is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.hidden.is_some()
    }

    /// Of the layers that are asked for: whether all weights are trained. `classes`: the loss is of several.
    fn trains_all(&self, hidden: Widths, classes: bool) -> Result<bool, CliError> {
        let perceptron = match (hidden.one(), classes) {
            (None, _) => Some("a network of fixed output weights has one hidden layer"),
            (_, true) => Some("a network of fixed output weights has one output"),
            _ => None,
        };
        match (self.output_weights, perceptron) {
            (Some(OutputWeights::Fixed), Some(why)) => Err(CliError::flag(
                "--output-weights",
                format!("{why}; leave it out, or say trained"),
            )),
            (of, _) => Ok(of != Some(OutputWeights::Fixed)),
        }
    }
}

impl Fit {
    /// What is fitted to a label: by its default loss where none is named. Refuses a loss of other labels.
    pub(crate) fn for_label(
        named: Option<LossArg>,
        args: &NetworkArgs,
        link: (LinkArgs, Option<u64>),
        label: &Label,
    ) -> Result<Self, CliError> {
        let loss = named.map_or_else(|| LossName::default_for(label), |of| of.name);
        if loss == LossName::Softmax {
            // It can't be made for another label.
            Self::check_label(loss, label)?;
        }
        let classes = label.several().map(|several| several.values.len());
        let fit = Self::new(LossArg::for_label(named, label)?, args, link, classes)?;
        Self::check_label(loss, label)?;
        Ok(fit)
    }

    /// `rank`: of a factor; `classes`: how many there are, for softmax.
    pub(crate) fn new(
        loss: LossName,
        args: &NetworkArgs,
        (of_link, rank): (LinkArgs, Option<u64>),
        classes: Option<usize>,
    ) -> Result<Self, CliError> {
        let link = of_link.link(loss, rank)?;
        if args.hidden.is_some() && link.is_some() {
            let problem = format!("{loss} is of a factor, and has no hidden units");
            return Err(CliError::flag("--hidden", problem));
        }
        let perceptron = |classes| -> Result<Option<Perceptron>, CliError> {
            let Some(hidden) = args.hidden else {
                return Ok(None);
            };
            let activation = args.activation;
            let trained = args.trains_all(hidden, classes)?;
            Ok(trained.then_some(Perceptron { hidden, activation }))
        };
        let Some(phi) = loss.scalar() else {
            let classes = classes
                .filter(|classes| *classes > 2)
                .and_then(Softmax::new);
            return match classes {
                Some(classes) => Ok(Self {
                    perceptron: perceptron(true)?,
                    ..Self::linear(Head::Classes(classes))
                }),
                None => Err(CliError::flag(
                    "--loss",
                    "softmax is for three classes or more",
                )),
            };
        };
        if args.hidden.is_some() && phi == Glm::Relu {
            let problem = "relu has no slope at an output of 0, which is where a network starts for every record, so it would never move; \
                           take absolute or another loss";
            return Err(CliError::flag("--loss", problem));
        }
        let perceptron = perceptron(false)?;
        let fixed = args.hidden.filter(|_| perceptron.is_none());
        let network = |units| Network::new(units, args.activation, phi);
        let network = fixed.and_then(|hidden| hidden.one()).map(network);
        let network = network.transpose();
        let network = network.map_err(|error| CliError::flag("--hidden", error.to_string()))?;
        Ok(Self {
            network,
            perceptron,
            link,
            ..Self::linear(Head::Scalar(phi))
        })
    }

    fn linear(head: Head) -> Self {
        Self {
            head,
            network: None,
            perceptron: None,
            link: None,
            weights: None,
            seed: None,
        }
    }

    /// What the loss is called.
    pub(crate) fn name(&self) -> LossName {
        match (self.head, self.link) {
            (Head::Classes(_), _) => LossName::Softmax,
            (Head::Scalar(phi), Some(_)) => LossName::Quadratic(phi),
            (Head::Scalar(phi), None) => LossName::Linear(phi),
        }
    }

    /// The loss of several classes, where it is one.
    pub(crate) fn classes(&self) -> Option<Softmax> {
        match self.head {
            Head::Classes(classes) => Some(classes),
            Head::Scalar(_) => None,
        }
    }

    /// With the seed 0 of the hidden weights, where there are some.
    pub(crate) fn seeded_by_default(self) -> Self {
        let hidden = self.network.is_some() || self.perceptron.is_some();
        Self {
            seed: hidden.then_some(0),
            ..self
        }
    }

    /// With factors of records' losses by their label.
    pub(crate) fn weighted(self, weights: Option<LabelWeights>) -> Self {
        Self { weights, ..self }
    }

    /// With the seed of the hidden weights or of the factor, where there is one. `escapes`: the solver leaves saddles.
    pub(crate) fn seeded(self, args: SeedArgs, escapes: bool) -> Self {
        let of_factor = match args.factor_seed {
            Some(FactorSeed::Seed(seed)) => Some(seed),
            None if !escapes => Some(0),
            Some(FactorSeed::Origin) | None => None,
        };
        let hidden = self.network.is_some() || self.perceptron.is_some();
        let of_network = hidden.then_some(args.hidden_seed);
        let seed = self.link.map_or(of_network, |_| of_factor);
        Self { seed, ..self }
    }

    /// Refuses a ball that does not hold the start.
    pub(crate) fn check_ball(&self, row_norm: f64) -> Result<(), CliError> {
        let Some(link) = self.link else {
            return Ok(());
        };
        let (ball, start) = (link.ball(), start_length(row_norm));
        if ball < start {
            let problem = format!(
                "{ball} is below {start}, the length of a factor along which rows of norm {row_norm} just reach the threshold, which is \
                 where runs start"
            );
            return Err(CliError::flag("--ball", problem));
        }
        Ok(())
    }

    /// Refuses a projection of a network's rows.
    pub(crate) fn check_projected(&self, projects: bool) -> Result<(), CliError> {
        if projects && !self.is_linear_score() {
            let problem = "projections are for losses of <w, x>, and that of a network, of a factor or of several classes is none";
            return Err(CliError::flag("--project", problem));
        }
        Ok(())
    }

    /// Refuses a loss of classes for numbers, and the other way round.
    pub(crate) fn check_label(loss: LossName, label: &Label) -> Result<(), CliError> {
        let column = &label.column;
        let of_numbers = matches!(loss.scalar(), Some(Glm::Pinball(_) | Glm::Poisson(_)));
        let problem = match (label.range(), label.several(), loss.scalar()) {
            (Some(LabelRange { min, max, .. }), _, None) => format!(
                "{loss} is a loss of three classes or more, and the label {column:?} is a number from {min} to {max}; take squared, huber, \
                 absolute or another loss of residuals"
            ),
            (Some(LabelRange { min, max, .. }), _, Some(phi)) if phi.is_classification() => {
                format!(
                    "{loss} is a loss of two classes, and the label {column:?} is a number from {min} to {max}; take pinball, absolute or \
                     another loss of residuals"
                )
            }
            (Some(_), _, Some(Glm::Relu)) => format!(
                "relu is a loss of the positive part of the output, and predictions of the number {column:?} are the output itself; take \
                 absolute or another loss of residuals"
            ),
            (None, Some(several), Some(_)) => format!(
                "{loss} is of one output, and the label {column:?} has {} values; take softmax, which is the default for it, or list two \
                 values in the schema's [label]",
                several.values.len()
            ),
            (None, None, None) => format!(
                "softmax is a loss of three classes or more, and the label {column:?} has two values; take logistic, which is the same \
                 model with half of the weights"
            ),
            (None, None, Some(_)) if of_numbers => format!(
                "{loss} is a loss of numbers, and the label {column:?} has two values; take logistic or another loss of classes, or say \
                 `kind = \"number\"` in the schema's [label]"
            ),
            _ => return Ok(()),
        };
        Err(CliError::flag("--loss", problem))
    }

    /// Refuses a plan that several classes have no answers for.
    pub(crate) fn check_plan(&self, plan: &dyn Plan) -> Result<(), CliError> {
        if self.perceptron.is_none() && self.classes().is_some() && needs_one_product(plan) {
            let problem = format!(
                "{} is for losses of one inner product <w, x>, and softmax is of {} of them",
                plan.name(),
                self.width()
            );
            return Err(CliError::flag("--solver", problem));
        }
        Ok(())
    }

    /// A network or a factor in words, for checkpoints; none for a linear score, of which those of 0.1 are.
    pub(crate) fn named(&self) -> Option<String> {
        if let Some(link) = self.link {
            return Some(format!("a factor of {} columns", link.rank()));
        }
        if let Some(Perceptron { hidden, activation }) = self.perceptron {
            let of = match self.classes() {
                Some(classes) => format!(", {} classes", classes.classes()),
                None => String::new(),
            };
            return Some(format!(
                "a perceptron of {hidden} hidden units ({activation}{of})"
            ));
        }
        if let Some(classes) = self.classes() {
            return Some(format!("a linear model of {} classes", classes.classes()));
        }
        self.network.map(|network| {
            let (units, activation) = (network.units(), network.activation());
            format!("a network of {units} hidden units ({activation})")
        })
    }

    /// Hidden units of each layer, where there are some.
    pub(crate) fn hidden(&self) -> Option<Vec<usize>> {
        match (self.perceptron, self.network) {
            (Some(of), _) => Some(of.hidden.as_slice().to_vec()),
            (None, Some(network)) => Some(vec![network.units()]),
            (None, None) => None,
        }
    }

    /// Whether it is one inner product, with one weight for each feature.
    pub(crate) fn is_linear_score(&self) -> bool {
        let hidden = self.network.is_some() || self.perceptron.is_some();
        !hidden && self.link.is_none() && self.classes().is_none()
    }

    /// Parameters for each feature; of a perceptron there are others.
    pub(crate) fn width(&self) -> usize {
        if let Some(perceptron) = &self.perceptron {
            return perceptron.hidden.as_slice().first().copied().unwrap_or(1);
        }
        match (self.network, self.link, self.classes()) {
            (Some(network), ..) => network.units(),
            (None, Some(link), _) => link.rank(),
            (None, None, Some(classes)) => classes.classes(),
            (None, None, None) => 1,
        }
    }

    /// Number of parameters, of rows of so many features.
    pub(crate) fn dim(&self, features: usize) -> usize {
        if let Some(perceptron) = &self.perceptron {
            let mlp = perceptron.mlp(features, self.head);
            return mlp.map_or(usize::MAX, |mlp| mlp.parameters());
        }
        features.saturating_mul(self.width())
    }

    /// Of a factor on its ball, with the gap at any factor as short as one that runs start from; of weighted records.
    pub(crate) fn constants(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        let of = self.constants_unweighted(row_norm, label_bound);
        match &self.weights {
            Some(weights) => weights.constants(of),
            None => of,
        }
    }

    fn constants_unweighted(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        if self.perceptron.is_some() {
            // It starts where all outputs are 0.
            let head = match self.head {
                Head::Classes(classes) => classes.constants(1.0),
                Head::Scalar(phi) => phi.constants_within(1.0, label_bound),
            };
            let (gap, none) = (head.initial_gap, f64::INFINITY);
            return Constants::new(none, none, gap, Convexity::Nonconvex).with_score(head.score);
        }
        match (self.head, self.network, self.link) {
            (Head::Classes(classes), ..) => classes.constants(row_norm),
            (_, Some(network), _) => network.constants_within(row_norm, label_bound),
            (_, None, Some(link)) => {
                let start = start_length(row_norm);
                let mut constants = link.constants_within(row_norm, label_bound);
                constants.initial_gap = link.gap_within(start, row_norm, label_bound);
                constants
            }
            (Head::Scalar(phi), None, None) => phi.constants_within(row_norm, label_bound),
        }
    }

    /// Where a run starts; none: at the origin, or at a checkpoint's point.
    pub(crate) fn start(&self, features: usize, row_norm: f64) -> Option<Vec<f64>> {
        let seed = self.seed?;
        if let Some(perceptron) = &self.perceptron {
            let mlp = perceptron.mlp(features, self.head).ok()?;
            return Some(mlp.start(row_norm, seed));
        }
        match (self.network, self.link) {
            (Some(network), _) => Some(network.start(features, row_norm, seed)),
            (None, Some(link)) => Some(link.start(features, start_length(row_norm), seed)),
            (None, None) => None,
        }
    }

    /// The perceptron that a point is of, where it is of one.
    fn mlp(&self, point: &[f64]) -> Option<Mlp> {
        self.perceptron?.of_point(point.len(), self.head)
    }

    /// The encoded label that a score predicts.
    pub(crate) fn predicted(&self, score: f64) -> f64 {
        match self.head {
            Head::Scalar(phi) => phi.predicted(score),
            Head::Classes(_) => score,
        }
    }

    /// The output for a row, of models with one.
    pub(crate) fn score(&self, row: Row<'_>, point: &[f64]) -> f64 {
        if self.perceptron.is_some() {
            let outputs = self.mlp(point).map(|mlp| mlp.outputs_of(row, point));
            let one = outputs.as_deref().and_then(<[f64]>::first);
            return one.copied().unwrap_or(f64::NAN);
        }
        match (self.network, self.link) {
            (Some(network), _) => network.output(row, point),
            (None, Some(link)) => link.square(row, point) - link.threshold(),
            (None, None) => row.dot(point),
        }
    }
}

/// Of the factors that runs start from: then no row of norm `row_norm` is above the threshold of 1.
fn start_length(row_norm: f64) -> f64 {
    1.0 / row_norm
}

impl Fit {
    /// A run on these records.
    pub(crate) fn run<'a>(&self, data: &'a PrivateData, curator: Curator) -> GlmRun<'a> {
        let weights = self.weights.as_ref().map(|of| of.factors().clone());
        let perceptron = self
            .perceptron
            .and_then(|of| of.mlp(data.dim(), self.head).ok());
        if let Some(mlp) = perceptron {
            return GlmRun::of_perceptron(data, mlp, curator).weighted(weights);
        }
        let run = match self.head {
            Head::Scalar(phi) => GlmRun::new(data, phi, curator),
            Head::Classes(classes) => GlmRun::of_classes(data, classes, curator),
        };
        run.of_network(self.network)
            .of_link(self.link)
            .weighted(weights)
    }

    /// What is evaluated, of a point of so many weights.
    pub(crate) fn fitted(&self, weights: usize) -> Result<FittedModel, CliError> {
        if let Some(perceptron) = &self.perceptron {
            let mlp = perceptron.of_point(weights, self.head).ok_or_else(|| {
                let problem = format!(
                    "{weights} weights are none of a perceptron with {} hidden units",
                    perceptron.hidden
                );
                CliError::flag("--hidden", problem)
            })?;
            return Ok(FittedModel::Perceptron(mlp));
        }
        Ok(match (self.head, self.network, self.link) {
            (Head::Classes(classes), ..) => FittedModel::Classes(classes),
            (_, Some(network), _) => FittedModel::Network(network),
            (_, None, Some(link)) => FittedModel::Link(link),
            (Head::Scalar(phi), None, None) => FittedModel::Linear(phi),
        })
    }

    /// The outputs for a row, of models with several.
    pub(crate) fn outputs(&self, row: Row<'_>, point: &[f64]) -> Option<Vec<f64>> {
        let classes = self.classes()?;
        if self.perceptron.is_some() {
            return Some(self.mlp(point)?.outputs_of(row, point));
        }
        Some(classes.outputs(row, point))
    }

    /// The public facts of a run on so many records. A perceptron has no Lipschitz constant.
    pub(crate) fn facts(
        &self,
        (records, adjacency): (u64, Adjacency),
        (features, row_norm): (usize, f64),
        label_bound: Option<f64>,
    ) -> Result<PublicFacts, PlanError> {
        let constants = self.constants(row_norm, label_bound);
        let facts = PublicFacts {
            records,
            dim: self.dim(features),
            adjacency,
            lipschitz: constants.lipschitz,
            smoothness: constants.smoothness,
            initial_gap: constants.initial_gap,
            row_norm,
            score: constants.score,
            convexity: constants.convexity,
        };
        match self.perceptron {
            Some(_) => facts.check_clipped()?,
            None => facts.check_lipschitz()?,
        }
        Ok(facts)
    }

    /// Refuses more weights than memory holds.
    pub(crate) fn check_size(&self, features: usize) -> Result<(), CliError> {
        match &self.perceptron {
            Some(perceptron) => perceptron.check(features, self.head),
            None => Ok(()),
        }
    }

    /// Units for planners, of what has no constants.
    pub(crate) fn typical(&self, dim: usize, row_norm: f64) -> Option<TypicalConstants> {
        let perceptron = self.perceptron?;
        let mlp = perceptron.of_point(dim, self.head)?;
        let mut of = perceptron.typical(*mlp.sizes().first()?, self.head, row_norm)?;
        let most = self
            .weights
            .as_ref()
            .map_or(1.0, |of| of.factors().largest());
        of.lipschitz *= most;
        of.smoothness *= most;
        Some(of)
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.name().fmt(f)?;
        if let Some(network) = self.named() {
            write!(f, ", of {network}")?;
        }
        if let Some(weights) = &self.weights {
            write!(f, ", class weights {weights}")?;
        }
        match self.seed {
            None => Ok(()),
            Some(seed) => write!(f, ", started from seed {seed}"),
        }
    }
}

#[cfg(test)]
mod tests;
