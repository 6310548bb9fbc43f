//! Adaptive noisy gradient descent: a plan that knows no constant of a KL condition.
//!
//! Menart, Ullah, Arora, Bassily and Guzman, "Differentially Private Non-Convex Optimization under the KL Condition with
//! Optimal Rates", Algorithm 3 and Theorems 3 to 5, with the errata E-9 to E-15 and E-25 to E-27 of
//! `docs/theory/kl-condition.md`. As printed it spends many times its budget: what a step costs is computed there from a noisy
//! norm, and here from the noise that is really added, before the release and under a filter.

use dpopt_privacy::accounting::zcdp;
use dpopt_privacy::{Epsilon, Event, Mu, NoiseMultiplier, Spend};
use dpopt_solver::{BoundSense, BoundedQuantity, Budget, PlanError, PublicFacts, Terms};
use serde::{Deserialize, Serialize};

/// Name in messages.
pub(super) const SOLVER: &str = "adaptive-gd";
/// Multipliers are powers of 2^(1/64), rounded down: a run has few kinds of releases in its books, and costs are at most
/// 2^(1/32) times what they would be. Ours, tuned.
const GRID: f64 = 64.0;
/// What rounding multipliers to the grid may add to a cost.
pub(super) const GRID_COST: f64 = 1.021_9;
/// No release has a multiplier above 2^28: a rounded Gaussian has at most 2^60 steps of the lattice, and a sum moves by 2^32 of
/// them at most. Such a release costs next to nothing.
const MOST_NOISE: f64 = 268_435_456.0;
/// Noise of a norm on the scale s, over s, once multiplied by the tail.
pub(super) const SCALE_ERROR: f64 = 0.25;
/// Share of the budget that is kept for the closing step of a run with relative norms that returns its last point. Ours, tuned
/// at kappa = 2; elsewhere the closing step is one of many, and keeping this share costs a factor of (4/3)^(kappa/(4 - kappa)).
const CLOSING: f64 = 0.25;
/// A norm below this share of the scale halves the scale.
pub(super) const ACCEPT: f64 = 0.75;

/// How the norm of the gradient is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NormQueries {
    /// With the same noise each time, as in the paper: sigma = Delta sqrt(n/(sqrt 2 mu)), so that n mu/sqrt 2 norms would take the
    /// whole budget. The excess risk stays above its square, which goes as 1/(n mu).
    Fixed,
    /// With noise in proportion to a running scale, which is halved until the norm is seen above it. Ours.
    Relative,
}

/// Which point is returned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AdaptiveSelection {
    /// The last one: Theorem 4 is about it.
    Last,
    /// The one whose released norm has the smallest upper limit: Theorem 5 without the price of a selection.
    SmallestNorm,
    /// By the exponential mechanism on the clipped mean gradients' norms, with this share of the budget: Theorem 5 as the paper
    /// has it. All points are kept until the end, and each is read once more.
    Exponential {
        /// The share of rho, between 0 and 1.
        share: f64,
    },
}

/// What a caller may choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveSettings {
    pub(super) norms: NormQueries,
    pub(super) selection: AdaptiveSelection,
    pub(super) beta: f64,
    pub(super) max_steps: u64,
}

impl AdaptiveSettings {
    /// Relative norms, the point of the smallest released norm, bounds that fail with probability 0.05, and as many steps as
    /// the budget pays for.
    #[must_use]
    pub fn new() -> Self {
        Self {
            norms: NormQueries::Relative,
            selection: AdaptiveSelection::SmallestNorm,
            beta: 0.05,
            max_steps: u64::MAX,
        }
    }

    /// Asks for norms like this.
    #[must_use]
    pub fn with_norms(mut self, norms: NormQueries) -> Self {
        self.norms = norms;
        self
    }

    /// Returns this point.
    #[must_use]
    pub fn with_selection(mut self, selection: AdaptiveSelection) -> Self {
        self.selection = selection;
        self
    }

    /// Bounds may fail with this probability. It has no part in privacy.
    #[must_use]
    pub fn with_beta(mut self, beta: f64) -> Self {
        self.beta = beta;
        self
    }

    /// How norms are asked for.
    #[must_use]
    pub fn norms(&self) -> NormQueries {
        self.norms
    }

    /// Which point is returned.
    #[must_use]
    pub fn selection(&self) -> AdaptiveSelection {
        self.selection
    }

    /// The probability with which bounds may fail.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Most steps.
    #[must_use]
    pub fn max_steps(&self) -> u64 {
        self.max_steps
    }

    /// At most so many steps, at least one.
    #[must_use]
    pub fn with_max_steps(mut self, max_steps: u64) -> Self {
        self.max_steps = max_steps.max(1);
        self
    }
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// A plan for adaptive noisy gradient descent.
///
/// # Formula
/// Delta = s L0/n (s = 2 under replace-one, else 1); eta = 1/L1. At w_t:
///
/// - a norm is released, N = ||mean of clipped gradients|| + N(0, sigma^2):
///   [`NormQueries::Fixed`]: sigma = Delta sqrt(n/(sqrt 2 mu)); [`NormQueries::Relative`]: sigma = S/(4 z), where S is L0 at first and
///   after that min(L0, last accepted N), and if N < 3S/4, S is halved and the norm asked for again;
/// - a gradient with noise theta N/q per coordinate is released, theta = 1/2 or sqrt(2)/3, q = sqrt(d) + z, and
///   w_{t+1} = w_t - eta g.
///
/// z is the tail of all noise at level beta: sqrt(2 log(2 T/beta)) for the T = n mu/sqrt 2 norms that the budget could pay for,
/// or, of the j-th relative query, sqrt(2 log(2 (j+1)(j+2)/beta)). Noise is rounded down to a grid.
///
/// - with relative norms, if the last point is returned: a quarter of mu^2 is kept from these, and when a release is not paid for
///   any more, one gradient with all that is left makes a closing step.
///
/// The run ends when a release is not paid for ([`Stop::NormUnpaid`](crate::Stop::NormUnpaid),
/// [`Stop::GradientUnpaid`](crate::Stop::GradientUnpaid)); with fixed norms also when a gradient would cost half of mu^2
/// ([`Stop::Converged`](crate::Stop::Converged)); at [`AdaptiveSettings::with_max_steps`].
///
/// # Privacy
/// mu-GDP: every release is a Gaussian one of sensitivity Delta, enforced by clipping, whose multiplier is a function of earlier
/// releases, and a filter refuses what would bring the sum of 1/multiplier^2 above mu^2 (Smith and Thakurta 2022). With
/// [`AdaptiveSelection::Exponential`] one selection follows, of bounded range. See `docs/privacy/kl.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveGdPlan {
    pub(super) terms: Terms,
    /// mu: cap on the Gaussian releases together.
    pub(super) mu: f64,
    /// epsilon of the selection, if there is one.
    pub(super) selection_epsilon: Option<Epsilon>,
    pub(super) settings: AdaptiveSettings,
    /// theta: noise of a gradient over the released norm, both as norms.
    gradient_ratio: f64,
    /// Share of mu^2 that is kept for the closing step; 0 where there is none.
    pub(super) closing_share: f64,
}

impl AdaptiveGdPlan {
    /// The plan. gamma and kappa are not asked for.
    ///
    /// # Errors
    /// [`PlanError::Unaffordable`] where n mu/sqrt 2 < 2 (the norms of two steps take the budget), or where a step is not paid for
    /// even if the gradient is L0 long; [`PlanError::BadFact`].
    pub fn new(
        facts: &PublicFacts,
        budget: &Budget,
        settings: AdaptiveSettings,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let beta = settings.beta;
        PlanError::fraction("beta", beta)?;
        let (mu, selection_epsilon) = shares(budget, settings.selection)?;
        let gradient_ratio = match settings.norms {
            NormQueries::Fixed => 0.5,
            NormQueries::Relative => 2f64.sqrt() / 3.0,
        };
        let closing_share = match (settings.norms, settings.selection) {
            (NormQueries::Relative, AdaptiveSelection::Last) => CLOSING,
            _ => 0.0,
        };
        let cap = Event::gaussian(NoiseMultiplier::new(1.0 / mu.get())?);
        let spend = match selection_epsilon {
            None => Spend::AtMost(cap),
            Some(epsilon) => Spend::at_most_then(cap, Event::ExponentialMechanism { epsilon }),
        };
        let mut plan = Self {
            terms: Terms::new(facts, budget, settings.max_steps, spend)
                .bounding(BoundedQuantity::GradientNorm, BoundSense::WithProbability),
            mu: mu.get(),
            selection_epsilon,
            settings,
            gradient_ratio,
            closing_share,
        };
        plan.can_step()?;
        let gradients = plan.most_gradients();
        let bound = plan.predict();
        plan.terms = plan.terms.with_gradients(gradients).stating(bound);
        Ok(plan)
    }

    /// A norm and a gradient in each step, for relative norms also those at smaller and smaller scales, and once more for a
    /// selection.
    fn most_gradients(&self) -> f64 {
        let steps = (self.settings.max_steps as f64).min(self.most_norms());
        let each = match self.settings.norms {
            NormQueries::Fixed => 2.0,
            NormQueries::Relative => 4.0,
        };
        let again = f64::from(u8::from(self.selection_epsilon.is_some()));
        steps * (each + again) * self.terms.facts().records as f64
    }

    /// What the caller chose.
    #[must_use]
    pub fn settings(&self) -> &AdaptiveSettings {
        &self.settings
    }

    /// mu: cap on the Gaussian releases together.
    #[must_use]
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// epsilon of the selection, if there is one.
    #[must_use]
    pub fn selection_epsilon(&self) -> Option<Epsilon> {
        self.selection_epsilon
    }

    /// eta, 1/L1.
    #[must_use]
    pub fn step_size(&self) -> f64 {
        1.0 / self.terms.facts().smoothness
    }

    /// theta: noise of a gradient over the released norm, both as norms.
    #[must_use]
    pub fn gradient_ratio(&self) -> f64 {
        self.gradient_ratio
    }

    /// Share of mu^2 that is kept for the closing step; 0 where there is none.
    #[must_use]
    pub fn closing_share(&self) -> f64 {
        self.closing_share
    }

    /// sqrt(d), from which q follows.
    #[must_use]
    pub fn root_dim(&self) -> f64 {
        (self.terms.facts().dim as f64).sqrt()
    }

    /// Delta: what one record moves a mean or its norm by.
    #[must_use]
    pub fn sensitivity(&self) -> f64 {
        self.terms.facts().noise_std(self.terms.clip(), 1.0)
    }

    /// z of the j-th norm, or of the j-th gradient, counted from 0.
    #[must_use]
    pub fn tail(&self, number: u64) -> f64 {
        let union = match self.settings.norms {
            NormQueries::Fixed => self.most_norms(),
            // Sums to 1 over all j.
            NormQueries::Relative => (number as f64 + 1.0) * (number as f64 + 2.0),
        };
        (2.0 * (2.0 * union / self.settings.beta).ln()).sqrt()
    }

    /// q of the t-th gradient: with all other noise, it is longer than q sigma with probability beta at most.
    #[must_use]
    pub fn reach(&self, number: u64) -> f64 {
        self.root_dim() + self.tail(number)
    }

    /// How many norms the budget could pay for at all: n mu/sqrt 2 fixed ones, or so many on the scale L0.
    #[must_use]
    pub fn most_norms(&self) -> f64 {
        let squared = match self.settings.norms {
            NormQueries::Fixed => self.fixed_multiplier().powi(2),
            NormQueries::Relative => {
                let z = (2.0 * (4.0 / self.settings.beta).ln()).sqrt();
                let loosest = SCALE_ERROR * self.terms.clip() / (z * self.sensitivity());
                loosest.min(MOST_NOISE).powi(2)
            }
        };
        (self.mu * self.mu * squared).floor()
    }

    /// The multiplier of the norms, where it is fixed.
    pub(super) fn fixed_multiplier(&self) -> f64 {
        let wanted = (self.terms.facts().records as f64 / (2f64.sqrt() * self.mu)).sqrt();
        Self::on_grid(wanted)
    }

    /// The multiplier of the j-th norm on the scale `scale`.
    pub(super) fn norm_multiplier(&self, number: u64, scale: f64) -> f64 {
        match self.settings.norms {
            NormQueries::Fixed => self.fixed_multiplier(),
            NormQueries::Relative => {
                let sigma = SCALE_ERROR * scale / self.tail(number);
                Self::on_grid(sigma / self.sensitivity())
            }
        }
    }

    /// The multiplier of the t-th gradient where the released norm is `norm`.
    pub(super) fn gradient_multiplier(&self, number: u64, norm: f64) -> f64 {
        let sigma = self.gradient_ratio * norm.max(0.0) / self.reach(number);
        Self::on_grid(sigma / self.sensitivity())
    }

    /// The largest power of the grid that is not above a multiplier, nor above the largest one.
    fn on_grid(multiplier: f64) -> f64 {
        let multiplier = multiplier.min(MOST_NOISE);
        ((GRID * multiplier.log2()).floor() / GRID)
            .exp2()
            .min(multiplier)
    }

    /// What the steps before the closing one may cost together, in squared mu.
    pub(super) fn for_steps(&self) -> f64 {
        (1.0 - self.closing_share) * self.mu * self.mu
    }

    /// The least released norm at the start for which a first step is paid for. A gradient that is not seen to be as long makes
    /// the run end where it started, with its budget spent.
    ///
    /// # Formula
    /// Fixed norms: the least N whose gradient costs less than half of mu^2, and with a norm no more than mu^2. Relative norms: after j
    /// rejections, on the scale S = L0 2^-j, the least N from 3S/4 on whose gradient is paid for by what j + 1 norms have left; the least over j.
    #[must_use]
    pub fn least_norm_of_a_step(&self) -> f64 {
        let needed = |budget: f64| {
            // The cost of a gradient is at least (q Delta/(theta N))^2, and the grid adds to it.
            let unit = self.reach(0) * self.sensitivity() / self.gradient_ratio;
            unit / budget.sqrt()
        };
        match self.settings.norms {
            NormQueries::Fixed => {
                let norm = self.fixed_multiplier().powi(-2);
                needed((self.for_steps() - norm).min(0.5 * self.mu * self.mu))
            }
            NormQueries::Relative => {
                let (mut left, mut scale, mut least) =
                    (self.for_steps(), self.terms.clip(), f64::INFINITY);
                for number in 0..1_000 {
                    left -= self.norm_multiplier(number, scale).powi(-2);
                    // Written so that what is no number ends it.
                    if !(left > 0.0) {
                        break;
                    }
                    least = least.min(needed(left).max(ACCEPT * scale));
                    scale *= 0.5;
                }
                least
            }
        }
    }

    /// That the first step is paid for, if the gradient is as long as it may be.
    fn can_step(&self) -> Result<(), PlanError> {
        let squared_mu = self.for_steps();
        let refused = |what, cost| PlanError::Unaffordable {
            solver: SOLVER,
            what,
            cost,
            squared_mu,
            records: self.terms.facts().records,
            dim: self.terms.facts().dim,
        };
        if self.settings.norms == NormQueries::Fixed && self.most_norms() < 2.0 {
            let cost = 2.0 / self.fixed_multiplier().powi(2);
            return Err(refused("asking for two norms", cost));
        }
        let norm = self.norm_multiplier(0, self.terms.clip()).powi(-2);
        let gradient = self.gradient_multiplier(0, self.terms.clip()).powi(-2);
        // Written so that a cost that is no number is refused.
        if !(norm + gradient <= squared_mu) {
            return Err(refused("the first step", norm + gradient));
        }
        if self.settings.norms == NormQueries::Fixed && !(gradient < 0.5 * squared_mu) {
            return Err(refused("a first step that is no more than half", gradient));
        }
        Ok(())
    }
}

/// mu of the Gaussian releases and epsilon of the selection.
///
/// With a selection the whole is accounted as zCDP: rho of the Gaussians, and epsilon^2/8 for a bounded range of epsilon.
fn shares(
    budget: &Budget,
    selection: AdaptiveSelection,
) -> Result<(Mu, Option<Epsilon>), PlanError> {
    let AdaptiveSelection::Exponential { share } = selection else {
        return Ok((budget.mu()?, None));
    };
    PlanError::fraction("selection share", share)?;
    // Less a little, so that rounding can't push the whole over the budget.
    let rho = zcdp::rho_for(budget.epsilon, budget.delta)?.get() * (1.0 - 1e-8);
    let mu = Mu::new((2.0 * (1.0 - share) * rho).sqrt())?;
    Ok((mu, Some(Epsilon::new((8.0 * share * rho).sqrt())?)))
}
