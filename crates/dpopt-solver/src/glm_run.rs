//! A run on private records, on the oracle that a plan asks for.

use std::num::NonZeroUsize;

use dpopt_oracle::{
    ClassWeights, ConvexGlm, ConvexSmooth, Examples, Glm, Mlp, Network, Offers, OutputPerturbed,
    PrivateData, PrivateMean, QuadraticLink, Softmax, TwiceDifferentiable, Weighted,
};
use dpopt_privacy::Curator;

use crate::outcome::{Observer, Outcome};
use crate::plan::Plan;
use crate::run::{Run, RunError};

/// Records and a generalised linear loss, or that of a network, of a quadratic link, of several classes or of a perceptron, to run a plan on, and the
/// curator that pays. For other losses, and to keep the oracle, see [`Plan::run`].
pub struct GlmRun<'a> {
    data: &'a PrivateData,
    loss: Compared,
    curator: Curator,
    threads: NonZeroUsize,
    start: Option<&'a [f64]>,
    network: Option<Network>,
    link: Option<QuadraticLink>,
    weights: Option<ClassWeights>,
}

/// How outputs are compared with labels.
enum Compared {
    One(Glm),
    Classes(Softmax),
    Perceptron(Mlp),
}

/// What the oracles of models that are no loss of one inner product can't answer: passes with output perturbation, and averages along rows.
const OF_ONE_PRODUCT: [Offers; 2] = [Offers::PASSES, Offers::ROW_AVERAGES];

/// Whether a plan runs on losses of one inner product only.
#[must_use]
pub fn needs_one_product(plan: &dyn Plan) -> bool {
    OF_ONE_PRODUCT
        .into_iter()
        .any(|only| plan.needs().covers(only))
}

impl<'a> GlmRun<'a> {
    /// From the origin, on one thread.
    #[must_use]
    pub fn new(data: &'a PrivateData, loss: Glm, curator: Curator) -> Self {
        Self::scored(data, Compared::One(loss), curator)
    }

    /// As [`GlmRun::new`], with the loss of several classes. It has no network and no link.
    #[must_use]
    pub fn of_classes(data: &'a PrivateData, classes: Softmax, curator: Curator) -> Self {
        Self::scored(data, Compared::Classes(classes), curator)
    }

    /// As [`GlmRun::new`], with the loss of a perceptron of as many inputs as rows have features. It has no network and no link.
    #[must_use]
    pub fn of_perceptron(data: &'a PrivateData, perceptron: Mlp, curator: Curator) -> Self {
        Self::scored(data, Compared::Perceptron(perceptron), curator)
    }

    fn scored(data: &'a PrivateData, loss: Compared, curator: Curator) -> Self {
        Self {
            data,
            loss,
            curator,
            threads: NonZeroUsize::MIN,
            start: None,
            network: None,
            link: None,
            weights: None,
        }
    }

    /// With a network whose head is the loss; none: the loss of one inner product.
    #[must_use]
    pub fn of_network(mut self, network: Option<Network>) -> Self {
        self.network = network;
        self
    }

    /// With a quadratic link whose scalar function is the loss; none: the loss of one inner product.
    #[must_use]
    pub fn of_link(mut self, link: Option<QuadraticLink>) -> Self {
        self.link = link;
        self
    }

    /// With a public factor of each record's loss, by its label; none: all count alike.
    #[must_use]
    pub fn weighted(mut self, weights: Option<ClassWeights>) -> Self {
        self.weights = weights;
        self
    }

    /// On up to so many threads; results do not depend on it. Passes over one record after the other use one.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// From a public point, such as that of a checkpoint; none: from the origin.
    #[must_use]
    pub fn starting_at(mut self, start: Option<&'a [f64]>) -> Self {
        self.start = start;
        self
    }

    /// Runs a plan, on whatever oracle it needs, and gives the curator back.
    ///
    /// # Privacy
    /// Nothing here draws, clips or charges: the oracles of `dpopt-oracle` do, over the given curator. A projected plan reads
    /// the embedded records; its point is lifted, and its observer sees points of the embedded problem.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged. [`RunError::OtherHead`] for a network or a link of another loss; [`RunError::NotOneProduct`] for several classes and perceptrons too; [`RunError::NotConvexSmooth`] and
    /// [`dpopt_oracle::EstimatorError::InAFile`] for passes that can't be made.
    pub fn run(
        self,
        plan: &dyn Plan,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Curator), RunError> {
        let embedded = plan.embed(self.data)?;
        if embedded.is_some() && self.start.is_some() {
            return Err(RunError::StartProjected {
                solver: plan.name(),
            });
        }
        let data = embedded.as_ref().unwrap_or(self.data);
        let run = Run::new(observer).starting_at(self.start);
        let one_product = matches!(self.loss, Compared::One(_));
        if !one_product && (embedded.is_some() || needs_one_product(plan)) {
            let solver = plan.name();
            return Err(RunError::NotOneProduct { solver });
        }
        let on = On {
            data,
            curator: self.curator,
            threads: self.threads,
            weights: self.weights,
        };
        let loss = match self.loss {
            Compared::One(loss) => loss,
            Compared::Perceptron(perceptron) => return on.means(perceptron, plan, run),
            Compared::Classes(classes) => return on.means(classes, plan, run),
        };
        let head = match (self.network, self.link) {
            (Some(network), _) => Some(network.head()),
            (None, Some(link)) => Some(link.phi()),
            (None, None) => None,
        };
        if let Some(head) = head {
            let solver = plan.name();
            if head != loss {
                return Err(RunError::OtherHead { loss, head });
            }
            if embedded.is_some() || plan.needs().covers(Offers::PASSES) {
                return Err(RunError::NotOneProduct { solver });
            }
        }
        if let Some(network) = self.network {
            return on.means(network, plan, run);
        }
        if let Some(link) = self.link {
            return on.means(link, plan, run);
        }
        if plan.needs().covers(Offers::PASSES) {
            return on.passes(ConvexGlm::new(loss)?, plan, run);
        }
        on.means(loss, plan, run)
    }
}

/// What an oracle is made of, beside the loss.
struct On<'a> {
    data: &'a PrivateData,
    curator: Curator,
    threads: NonZeroUsize,
    weights: Option<ClassWeights>,
}

impl On<'_> {
    /// On means, with factors where there are some.
    fn means<L: TwiceDifferentiable<Records = Examples>>(
        mut self,
        loss: L,
        plan: &dyn Plan,
        run: Run<'_>,
    ) -> Result<(Outcome, Curator), RunError> {
        match self.weights.take() {
            Some(weights) => self.plain_means(Weighted::new(loss, weights), plan, run),
            None => self.plain_means(loss, plan, run),
        }
    }

    fn plain_means<L: TwiceDifferentiable<Records = Examples>>(
        self,
        loss: L,
        plan: &dyn Plan,
        run: Run<'_>,
    ) -> Result<(Outcome, Curator), RunError> {
        let means = PrivateMean::new(self.data, loss, self.curator)?.with_hessians();
        let mut means = means.with_threads(self.threads);
        let outcome = plan.run_with(&mut means, run)?;
        Ok((outcome, means.into_curator()))
    }

    /// On passes over one record after the other, with factors where there are some.
    fn passes(
        mut self,
        loss: ConvexGlm,
        plan: &dyn Plan,
        run: Run<'_>,
    ) -> Result<(Outcome, Curator), RunError> {
        match self.weights.take() {
            Some(weights) => self.plain_passes(Weighted::new(loss, weights), plan, run),
            None => self.plain_passes(loss, plan, run),
        }
    }

    fn plain_passes<L: ConvexSmooth<Records = Examples>>(
        self,
        loss: L,
        plan: &dyn Plan,
        run: Run<'_>,
    ) -> Result<(Outcome, Curator), RunError> {
        let mut passes = OutputPerturbed::new(self.data, loss, self.curator)?;
        let outcome = plan.run_with(&mut passes, run)?;
        Ok((outcome, passes.into_curator()))
    }
}
