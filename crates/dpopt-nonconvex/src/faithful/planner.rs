//! The planner: all numbers from alpha, and the least alpha whose worst case the records suffice for.

use dpopt_privacy::{Participation, PrefixKind, PrefixNoise};
use dpopt_solver::search::least_affordable;
use dpopt_solver::{
    Access, Budget, HessianFacts, OutputRule, PlanError, PublicFacts, SecondOrderTargets, Terms,
};

use super::schedule::FaithfulSchedule;

pub(super) const NAME: &str = "adaptive-batch-faithful";

/// alpha/gamma, theta/gamma, lambda/kH, Xi/sqrt(alpha/rho), and Phi sqrt(rho)/alpha^(3/2): typical constants, tuned on simulated saddles and
/// ramps. They prove nothing.
const ERROR: f64 = 16.0;
const CANDIDATE: f64 = 3.0;
const HESSIAN: f64 = 16.0;
const RADIUS: f64 = 0.7;
const FALLS: f64 = 0.14;
/// T_e, kappa and the noise hang on one another: so many times from kappa = G.
const ROUNDS: usize = 4;

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FaithfulSettings {
    /// alpha. None: the least whose worst case the records suffice for.
    pub target: Option<f64>,
    /// p: shared by all planned episodes, for their lengths and the batches of Hessians. No statement rests on it.
    pub failure: f64,
    /// Where the noise of periods comes from. The paper has the tree; Toeplitz noise is less than half of it.
    pub noise: PrefixKind,
    /// Most steps.
    pub max_steps: u64,
}

impl FaithfulSettings {
    /// The least alpha, p = 0.05, tree noise.
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            target: None,
            failure: 0.05,
            noise: PrefixKind::Tree,
            max_steps,
        }
    }

    /// With this alpha.
    #[must_use]
    pub fn with_target(self, alpha: f64) -> Self {
        Self {
            target: Some(alpha),
            ..self
        }
    }

    /// With this noise in periods.
    #[must_use]
    pub fn with_noise(self, noise: PrefixKind) -> Self {
        Self { noise, ..self }
    }
}

/// Algorithm 3 of Liu and Talwar (arXiv 2410.07502), step by step, with the repairs that its privacy needs: **for comparison**. It states no
/// bound and certifies nothing; [`AdaptiveBatchPlan`](crate::AdaptiveBatchPlan) does.
///
/// # Formula
/// Each step estimates the gradient (O1 or O2, with the noise of a tree for each period) and carries a chained Hessian along (O3 or O4). Where
/// the estimate is at most theta, and no episode began within the last Gamma steps, an episode begins: x <- x - (g + H (x - x_0) + noise)/M
/// with the g and H of its start, until it is Xi away or Gamma steps are made. Elsewhere x <- x - g/M. See
/// `docs/theory/adaptive-batch-faithful.md` for what was repaired against which erratum, and [`FaithfulSchedule`] for the numbers.
///
/// # Privacy
/// A record is in one step of one period, or in one slice of one chain, which pays for at most Gamma tau products: either costs at most mu, so
/// the whole is mu-GDP by parallel composition. Batches follow the releases and are never short. Needs fixed positions, so not under
/// add/remove. See `docs/privacy/adaptive-batch-faithful.md` and `docs/privacy/chains.md`.
///
/// # Complexity
/// Each record is read once for gradients, or by up to Gamma tau Hessian-vector products; memory O(d T_e).
///
/// ```
/// use dpopt_nonconvex::{Budget, FaithfulPlan, FaithfulSettings, HessianFacts, PublicFacts};
/// use dpopt_privacy::{Delta, Epsilon};
///
/// let facts = PublicFacts::unit(10_000_000, 10);
/// let hessian = HessianFacts { lipschitz: 1.0, frobenius: 1.0 };
/// let budget = Budget { epsilon: Epsilon::new(1.0)?, delta: Delta::new(1e-6)? };
/// let settings = FaithfulSettings::new(100_000).with_target(0.4);
/// let plan = FaithfulPlan::new(&facts, &hessian, &budget, settings)?;
/// let schedule = plan.schedule();
/// assert!(schedule.episodes_per_chain >= 1 && schedule.radius < 0.5);
/// // plan.trace(&mut oracle, Run::new(&mut NoObserver))? gives the trajectory and the episodes.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FaithfulPlan {
    pub(super) terms: Terms,
    pub(super) hessian: HessianFacts,
    pub(super) settings: FaithfulSettings,
    pub(super) schedule: FaithfulSchedule,
}

impl FaithfulPlan {
    /// The plan.
    ///
    /// # Errors
    /// [`PlanError::NeedsPositions`] under add/remove; [`PlanError::TooFewToCertify`] where the records do not suffice for one anchor of each
    /// kind, or for no alpha that says something; [`PlanError::EveryPointMeets`]; [`PlanError::BadFact`] for facts, an alpha and a probability that are out
    /// of range.
    pub fn new(
        facts: &PublicFacts,
        hessian: &HessianFacts,
        budget: &Budget,
        settings: FaithfulSettings,
    ) -> Result<Self, PlanError> {
        check(facts, hessian, &settings)?;
        PlanError::positions(NAME, (facts.adjacency, facts.records), |adjacency| {
            let fixed = PublicFacts {
                adjacency,
                ..*facts
            };
            let plan = Self::new(&fixed, hessian, budget, settings).ok()?;
            Some(2 * plan.schedule.steps)
        })?;
        let search = Search {
            facts,
            hessian,
            mu: budget.mu()?.get(),
            settings,
        };
        let schedule = match settings.target {
            Some(alpha) => search.asked(alpha)?,
            None => search.least()?,
        };
        Self::by_hand(facts, hessian, budget, settings, schedule)
    }

    /// A plan with another schedule.
    ///
    /// # Errors
    /// [`PlanError`] for facts, for noise out of range, and for a batch, an episode or a chain of nothing.
    pub fn by_hand(
        facts: &PublicFacts,
        hessian: &HessianFacts,
        budget: &Budget,
        settings: FaithfulSettings,
        schedule: FaithfulSchedule,
    ) -> Result<Self, PlanError> {
        check(facts, hessian, &settings)?;
        for (name, number) in [
            ("anchor_batch", schedule.anchor_batch as f64),
            ("variation_rate", schedule.variation_rate),
            ("hessian_batch", schedule.hessian_batch as f64),
            ("hessian_rate", schedule.hessian_rate),
            ("radius", schedule.radius),
            ("episode", schedule.episode as f64),
            // tau < 1 is the paper's (P6): noise for less than the episode that is held all the same.
            ("episodes_per_chain", schedule.episodes_per_chain as f64),
        ] {
            PlanError::positive(name, number)?;
        }
        schedule.chain(facts, hessian)?;
        let spend = schedule.spend(facts)?;
        let steps = schedule.steps.min(settings.max_steps);
        let records = facts.records as f64;
        // Changes count twice; a product counts as two gradients, one with a change as four.
        let products = 4.0 * schedule.products() as f64;
        let terms = Terms::new(facts, budget, steps, spend)
            .with_gradients((2.0 + products) * records)
            .with_access(Access::SinglePass {
                anchor: schedule.anchor_batch,
                variation: schedule.anchor_batch,
            })
            .with_output(OutputRule::SmallestReleasedNorm)
            .with_unread(schedule.anchor_batch.saturating_add(schedule.hessian_batch));
        Ok(Self {
            terms,
            hessian: *hessian,
            settings,
            schedule,
        })
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &FaithfulSchedule {
        &self.schedule
    }

    /// How it was planned.
    #[must_use]
    pub fn settings(&self) -> &FaithfulSettings {
        &self.settings
    }

    /// What is known of the Hessians.
    #[must_use]
    pub fn hessian(&self) -> &HessianFacts {
        &self.hessian
    }
}

fn check(
    facts: &PublicFacts,
    hessian: &HessianFacts,
    settings: &FaithfulSettings,
) -> Result<(), PlanError> {
    facts.check()?;
    hessian.check()?;
    PlanError::fraction("failure", settings.failure)
}

struct Search<'a> {
    facts: &'a PublicFacts,
    hessian: &'a HessianFacts,
    mu: f64,
    settings: FaithfulSettings,
}

/// Periods and batches of gradients.
struct Gradients {
    kappa: f64,
    period: f64,
    anchor: f64,
    rate: f64,
}

impl Search<'_> {
    /// s: 2 or 1.
    fn sensitivity(&self) -> f64 {
        self.facts.adjacency.sum_sensitivity()
    }

    /// b, the rate of b_t, kappa and T_e, for an error of gamma in root mean square, half of its square from noise; of the other half one half from
    /// the anchor's sampling and one from the changes'. kappa balances 2/s_g with 2 kappa/gamma_s^2.
    fn gradients(&self, gamma: f64) -> Option<Gradients> {
        let PublicFacts {
            lipschitz,
            smoothness,
            dim,
            ..
        } = *self.facts;
        let half = 0.5 * gamma * gamma;
        let mut kappa = lipschitz;
        let mut found = None;
        for _ in 0..ROUNDS {
            // The paper's steps are as short as gamma where an episode jitters.
            let period = (4.0 * kappa / gamma).ceil().max(1.0);
            if !(period < 1e9) {
                return None;
            }
            let noise =
                PrefixNoise::new(self.settings.noise, period as u64, Participation::Single).ok()?;
            let error = noise.worst_variance().sqrt() * (dim as f64).sqrt();
            // What a record may add to a step's mean.
            let share = self.mu * half.sqrt() / (self.sensitivity() * error);
            found = Some(Gradients {
                kappa,
                period,
                anchor: (lipschitz / share)
                    .max(2.0 * lipschitz * lipschitz / half)
                    .ceil(),
                rate: (smoothness / share).max(2.0 * kappa * smoothness / half),
            });
            kappa = lipschitz.max(half / (self.sensitivity() * share));
        }
        found
    }

    /// The schedule for alpha, and what its worst case reads.
    fn at(&self, alpha: f64) -> Option<(f64, FaithfulSchedule)> {
        let PublicFacts {
            lipschitz,
            smoothness,
            initial_gap,
            dim,
            ..
        } = *self.facts;
        let (rho, dim) = (self.hessian.lipschitz, dim as f64);
        let gamma = alpha / ERROR;
        let theta = CANDIDATE * gamma;
        let Gradients {
            kappa,
            period,
            anchor,
            rate,
        } = self.gradients(gamma)?;
        let lambda = (rho * alpha).sqrt();
        let error = lambda / HESSIAN;
        let radius = RADIUS * (alpha / rho).sqrt();
        // The noise that privacy asks for is the one that leaves a saddle.
        let noise = gamma / dim.sqrt();
        let episodes = (initial_gap * rho.sqrt() / (FALLS * alpha.powf(1.5))).ceil() + 1.0;
        let failure = self.settings.failure / episodes;
        let growth = (lambda - error) / smoothness;
        let length = episode_length(radius * smoothness / noise, growth, failure)?;
        let per_chain = (kappa * rho.sqrt() / (smoothness * alpha.sqrt()))
            .round()
            .max(1.0);
        // s M Xi/b^H at the most that mu pays for in Gamma tau products of deviation sigma.
        let paid = self.mu * noise / (radius * (length * per_chain).sqrt());
        // Freedman's inequality for matrices, half of the variance each to O3 and O4 (a first reading of ours had no p in it).
        let log = (2.0 * dim / failure).ln();
        let ratio = smoothness / error;
        let sampled = 2.0 * log * (2.0 * ratio * ratio + 2.0 * ratio / 3.0);
        let hessian_batch = (self.sensitivity() * smoothness / paid).max(sampled).ceil();
        let hessian_rate = (self.sensitivity() * rho / paid)
            .max(sampled * rho / smoothness)
            .max(sampled * rho * rho * kappa / smoothness.powi(3));
        let mut schedule = FaithfulSchedule {
            target: alpha,
            step_size: 1.0 / smoothness,
            anchor_batch: anchor as u64,
            variation_rate: rate,
            noise: self.settings.noise,
            period: period as u64,
            drift: kappa / smoothness,
            noise_multiplier: 1.0 / self.mu,
            candidate: theta,
            error: gamma,
            hessian_batch: hessian_batch as u64,
            hessian_rate,
            product_noise_multiplier: 1.0,
            episode: length as u64,
            radius,
            episodes_per_chain: per_chain as u64,
            steps: 0,
            records: 0,
        };
        let share = schedule.chain(self.facts, self.hessian).ok()?.share.get();
        // Where sampling asks for more records than privacy, the noise stays what it was: without it no saddle is left.
        schedule.product_noise_multiplier =
            (noise / (self.sensitivity() * share)).max((length * per_chain).sqrt() / self.mu);
        let descent = 6.0 * initial_gap * smoothness / theta;
        let drift = descent + episodes * (smoothness * radius + length * (theta + 2.0 * gamma));
        let steps = descent / theta + episodes * (1.0 + length);
        let anchors = (drift / kappa).ceil() + episodes / per_chain + 1.0;
        let records = anchors * (anchor + hessian_batch)
            + drift / smoothness * (rate + hessian_rate)
            + 2.0 * steps;
        if !(records < 9e15) || lipschitz / anchor <= 0.0 {
            return None;
        }
        schedule.steps = steps.ceil() as u64;
        schedule.records = records.ceil() as u64;
        Some((records, schedule))
    }

    fn asked(&self, alpha: f64) -> Result<FaithfulSchedule, PlanError> {
        let name = "the gradient that is asked for";
        PlanError::target(name, alpha, self.facts.trivial_bound())?;
        let first =
            |found: &FaithfulSchedule| found.anchor_batch.saturating_add(found.hessian_batch);
        match self.at(alpha) {
            Some((_, found)) if first(&found) <= self.facts.records => Ok(found),
            found => Err(self.too_few(alpha, found.map(|(_, found)| first(&found)))),
        }
    }

    fn least(&self) -> Result<FaithfulSchedule, PlanError> {
        let widest = 0.999 * self.facts.trivial_bound();
        let attempt = |alpha: f64| {
            let (records, schedule) = self.at(alpha)?;
            Some((records / self.facts.records as f64, schedule))
        };
        match attempt(widest) {
            Some((cost, found)) if cost <= 1.0 => {
                Ok(least_affordable((widest, cost, found), 3.0, attempt))
            }
            other => Err(self.too_few(widest, other.map(|(_, found)| found.records))),
        }
    }

    fn too_few(&self, alpha: f64, needed: Option<u64>) -> PlanError {
        let SecondOrderTargets {
            gradient,
            curvature,
        } = SecondOrderTargets::coupled(alpha, self.hessian.lipschitz);
        PlanError::TooFewToCertify {
            solver: NAME,
            gradient,
            curvature,
            needed,
            reachable: None,
            records: self.facts.records,
            dim: self.facts.dim,
            mu: self.mu,
        }
    }
}

/// Gamma: after so many steps of x <- (1 + growth) x + noise along one direction, with `ratio` the exit radius over a step's noise, the walk is
/// within the radius with probability at most p.
fn episode_length(ratio: f64, growth: f64, failure: f64) -> Option<f64> {
    let reach = 2.0 * ratio / ((2.0 * std::f64::consts::PI).sqrt() * failure);
    let square = growth * (2.0 + growth);
    let length = ((reach * reach * square).ln_1p() / (2.0 * growth.ln_1p())).ceil();
    (length.is_finite() && length < 1e12).then(|| length.max(1.0))
}
