//! The planner: how small a certificate the budget pays for.

use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use dpopt_privacy::{Event, NoiseMultiplier, Spend};
use dpopt_solver::search::{MOST_STEPS, least_affordable};
use dpopt_solver::{
    BoundSense, BoundedQuantity, Budget, CurvatureBy, Episode, HessianFacts, PlanError,
    PublicFacts, SecondOrderTargets, Terms,
};

use super::curvature::hidden;
use super::level::{SospLevel, fresh};
use super::problem::{Estimates, Problem, Steps};
use super::{measured, spider};

pub(super) const NAME: &str = "sosp";
/// From one level to the next, alpha is divided by this. A choice.
const FINER: f64 = 1.25;
/// The largest lambda over L1 that is planned for where none was asked for. A choice: at 1 nothing would be said.
const MOST_CURVATURE: f64 = 0.9;
/// Share of mu^2 for which a Hessian has to tell the least lambda that is planned for where none was asked for. A choice.
const HESSIAN_SHARE: f64 = 0.05;
/// About what the quantiles of a level add up to, beside sqrt(2 d), in standard deviations. A choice.
const QUANTILES: f64 = 9.0;

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SospSettings {
    /// alpha and lambda: the run ends with the first certificate. None: the least alpha that the budget is sure to pay for, lambda =
    /// min(sqrt(rho alpha), 0.9 L1) (but no less than a Hessian tells for a twentieth of the budget), and after that certificate finer ones, as long as the budget lasts.
    pub targets: Option<SecondOrderTargets>,
    /// p: the probability with which the plan's bound, or the certificate that is stated, may be false. Half of it is the certificate's.
    pub failure: f64,
    /// Most steps.
    pub max_steps: u64,
    /// How curvature is told.
    pub curvature_by: CurvatureBy,
    /// Of which kind the estimates are.
    pub estimates: Estimates,
    /// Where the lengths of steps come from.
    pub steps: Steps,
}

impl SospSettings {
    /// As small as the budget pays for, p = 0.05.
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            targets: None,
            failure: 0.05,
            max_steps,
            curvature_by: CurvatureBy::default(),
            estimates: Estimates::default(),
            steps: Steps::default(),
        }
    }

    /// With these targets.
    #[must_use]
    pub fn with_targets(self, targets: SecondOrderTargets) -> Self {
        Self {
            targets: Some(targets),
            ..self
        }
    }

    /// With curvature told like this.
    #[must_use]
    pub fn with_curvature_by(self, curvature_by: CurvatureBy) -> Self {
        Self {
            curvature_by,
            ..self
        }
    }

    /// With estimates of this kind.
    #[must_use]
    pub fn with_estimates(self, estimates: Estimates) -> Self {
        Self { estimates, ..self }
    }

    /// With steps that are measured: no L1 and no rho. Curvature is then told by whole Hessians.
    #[must_use]
    pub fn with_measured_steps(self) -> Self {
        Self {
            steps: Steps::Measured,
            ..self
        }
    }

    /// With this probability of failure.
    #[must_use]
    pub fn with_failure(self, failure: f64) -> Self {
        Self { failure, ..self }
    }
}

/// A plan for second-order stationary points on all records: noisy gradient descent that escapes from saddles along released
/// eigenvectors and ends in a certificate.
///
/// # Formula
/// Each step releases an estimate g' of the gradient: a fresh one, or an anchor and the changes since ([`SospSpider`](super::SospSpider)),
/// whichever promises more. With fresh ones, where ||g'|| <= theta the norm of the gradient is released by itself, and where that certifies
/// ||grad F(w)|| <= alpha the Hessian H' too. Its least eigenvalue lambda' certifies lambda_min(hess F(w)) >= -lambda, or its eigenvector u
/// is a direction of negative curvature, along which the walk goes r u, against g'. Above 1,024 dimensions, or where it is cheaper or asked for
/// ([`CurvatureBy`]), an [`Episode`](dpopt_solver::Episode) of products with the Hessian tells the same. Otherwise it goes -eta g'. The plan is the least
/// alpha whose dearest run the budget pays for; see `docs/theory/second-order.md` for the theorem and [`SospLevel`] for the numbers.
///
/// # Privacy
/// `Spend::AtMost(Gaussian(1/mu))`: every release is a Gaussian one of all records, of enforced sensitivity, whose multiplier is a function
/// of earlier releases (of how many certificates were made), and a filter refuses what would bring the sum of 1/z^2 above mu^2. See
/// `docs/privacy/second-order.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct SospPlan {
    pub(super) terms: Terms,
    pub(super) hessian: HessianFacts,
    pub(super) settings: SospSettings,
    /// mu: cap on all releases together.
    pub(super) mu: f64,
    pub(super) first: SospLevel,
}

impl SospPlan {
    /// The plan.
    ///
    /// # Errors
    /// [`PlanError::Uncertifiable`] where the budget does not pay for the targets, or for any that say something, and for how many records it
    /// would; [`PlanError::EveryPointMeets`] for targets that the start is known to satisfy; [`PlanError::NoEpisode`] where
    /// no budget does, for rounding; [`PlanError::TooFewSteps`];
    /// [`PlanError::TooManyDimensions`] of whole Hessians; [`PlanError::BadFact`] for facts, targets and a probability that are out of range.
    pub fn new(
        facts: &PublicFacts,
        hessian: &HessianFacts,
        budget: &Budget,
        mut settings: SospSettings,
    ) -> Result<Self, PlanError> {
        match settings.steps {
            Steps::Planned => {
                facts.check()?;
                hessian.check_beside(facts)?;
            }
            Steps::Measured => {
                facts.check_lipschitz()?;
                PlanError::positive("hessian_frobenius", hessian.frobenius)?;
                // Episodes need L1.
                settings.curvature_by = CurvatureBy::Hessians;
            }
        }
        PlanError::fraction("failure", settings.failure)?;
        if facts.dim > MAX_PRIVATE_HESSIAN_DIM && settings.curvature_by == CurvatureBy::Hessians {
            return Err(PlanError::TooManyDimensions {
                solver: NAME,
                dim: facts.dim,
                limit: MAX_PRIVATE_HESSIAN_DIM,
            });
        }
        let mu = budget.mu()?.get();
        let of = problem(facts, hessian, &settings, 0);
        let first = match settings.targets {
            Some(targets) => asked(&of, targets, mu)?,
            None => least(&of, mu)?,
        };
        let cap = Event::gaussian(NoiseMultiplier::new(1.0 / mu)?);
        let records = facts.records as f64;
        let products = first
            .episode
            .map_or(facts.dim as f64, |episode| episode.products() as f64);
        let hessians = 2.0 * products * first.most_hessians as f64;
        let terms = Terms::new(facts, budget, settings.max_steps, Spend::AtMost(cap))
            .bounding(BoundedQuantity::GradientNorm, BoundSense::WithProbability)
            .with_gradients(records * (2.0 * first.most_steps as f64 + hessians))
            .with_curvature(first.targets.curvature)
            .certifying()
            .stating(match settings.steps {
                Steps::Planned => Some(first.targets.gradient),
                Steps::Measured => None,
            });
        Ok(Self {
            terms,
            hessian: *hessian,
            // Finer levels tell it as the first does: an oracle may offer one of the two.
            settings: settings.with_curvature_by(match first.episode {
                Some(_) => CurvatureBy::Episodes,
                None => CurvatureBy::Hessians,
            }),
            mu,
            first,
        })
    }

    /// The level whose certificate the plan states.
    #[must_use]
    pub fn level(&self) -> &SospLevel {
        &self.first
    }

    /// What is known of the Hessians.
    #[must_use]
    pub fn hessian(&self) -> &HessianFacts {
        &self.hessian
    }

    /// mu: cap on all releases together.
    #[must_use]
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// The first level after `number` whose certificate says more than a gradient of `reached`, and its number; none where the run ends with
    /// its first certificate.
    pub(super) fn finer(&self, mut number: i32, reached: f64) -> Option<(i32, SospLevel)> {
        if self.settings.targets.is_some() {
            return None;
        }
        let facts = self.terms.facts();
        loop {
            number += 1;
            let alpha = self.first.targets.gradient / FINER.powi(number);
            if !(alpha > 0.0) {
                return None;
            }
            if alpha < reached {
                // Nothing is claimed of its cost, so its dearest run may be longer than the plan.
                let of = Problem {
                    most_steps: MOST_STEPS as u64,
                    estimates: match self.first.spider {
                        Some(_) => Estimates::Recursive,
                        None => Estimates::Fresh,
                    },
                    ..problem(facts, &self.hessian, &self.settings, number)
                };
                return Some((number, cheapest(&of, coupled(&of, alpha, self.mu))?));
            }
        }
    }
}

/// What level `number` may fail by: half of p is the certificates', of all levels together.
fn problem<'a>(
    facts: &'a PublicFacts,
    hessian: &'a HessianFacts,
    settings: &SospSettings,
    number: i32,
) -> Problem<'a> {
    let place = f64::from(number) + 1.0;
    // These add up to 1 over all levels.
    let share = match settings.targets {
        Some(_) => 1.0,
        None => 6.0 / (std::f64::consts::PI * place).powi(2),
    };
    Problem {
        facts,
        hessian,
        by: settings.curvature_by,
        most_steps: settings.max_steps,
        false_certificate: 0.5 * settings.failure * share,
        failure: 0.5 * settings.failure,
        estimates: settings.estimates,
        steps: settings.steps,
        claimed: number == 0,
    }
}

/// The cheapest level with these targets; none where there is none.
fn cheapest(of: &Problem<'_>, targets: SecondOrderTargets) -> Option<SospLevel> {
    if of.steps == Steps::Measured {
        return measured::level(of, targets);
    }
    let recursive = match of.estimates {
        Estimates::Fresh => None,
        // Planned with whole Hessians only.
        _ if of.by == CurvatureBy::Episodes => None,
        _ => spider::cheapest(of, targets),
    };
    let fresh = match of.estimates {
        Estimates::Recursive => None,
        _ => fresh(of, targets),
    };
    match (recursive, fresh) {
        (Some(one), Some(other)) if one.cost < other.cost => Some(one),
        (one, other) => other.or(one),
    }
}

/// alpha, and the lambda that goes with it where none was asked for: sqrt(rho alpha), but no less than a Hessian tells for a
/// twentieth of the budget, and at most 0.9 L1.
fn coupled(of: &Problem<'_>, alpha: f64, mu: f64) -> SecondOrderTargets {
    let rho = match of.hessian.lipschitz.is_finite() {
        true => of.hessian.lipschitz,
        false => 0.0,
    };
    let targets = SecondOrderTargets::coupled(alpha, rho);
    let (root, z) = ((of.facts.dim as f64).sqrt(), HESSIAN_SHARE.powf(-0.5) / mu);
    let told = 2.0 * (2f64.sqrt() * root + QUANTILES);
    let by_hessians = told * of.facts.noise_std(of.hessian.frobenius, z);
    let told = Episode::tells(of.facts.dim);
    let by_episodes = told * of.facts.noise_std(of.facts.smoothness, z);
    let least = match of.by {
        CurvatureBy::Hessians => by_hessians,
        CurvatureBy::Episodes => by_episodes,
        _ if of.facts.dim > MAX_PRIVATE_HESSIAN_DIM => by_episodes,
        _ => by_hessians.min(by_episodes),
    };
    SecondOrderTargets {
        curvature: targets
            .curvature
            .max(least)
            .min(MOST_CURVATURE * most_curved(of)),
        ..targets
    }
}

/// No Hessian has a lower eigenvalue than minus this: L1, or C_F where that is not known.
fn most_curved(of: &Problem<'_>) -> f64 {
    match of.steps {
        Steps::Planned => of.facts.smoothness,
        Steps::Measured => of.facts.smoothness.min(of.hessian.frobenius),
    }
}

/// The cheapest level for these targets, if the budget pays for it.
fn asked(of: &Problem<'_>, targets: SecondOrderTargets, mu: f64) -> Result<SospLevel, PlanError> {
    PlanError::targets(&targets, of.facts.trivial_bound(), most_curved(of))?;
    match cheapest(of, targets) {
        Some(level) if level.cost <= mu * mu => Ok(level),
        found => {
            let cost = found.map_or(f64::INFINITY, |level| level.cost);
            let reachable = least(of, mu).ok().map(|level| level.targets);
            let attempt = |of: &Problem<'_>| {
                cheapest(of, targets).map_or(f64::INFINITY, |level| level.cost / (mu * mu))
            };
            Err(uncertifiable(of, targets, cost, reachable, mu, attempt))
        }
    }
}

/// The level of the least alpha that the budget pays for, found to within 1 %.
fn least(of: &Problem<'_>, mu: f64) -> Result<SospLevel, PlanError> {
    let (dearest, best) = wide(of, mu);
    let Some(best) = best else {
        let targets = coupled(of, WIDEST * of.facts.trivial_bound(), mu);
        let attempt = |of: &Problem<'_>| match wide(of, mu) {
            (_, Some(level)) => level.cost / (mu * mu),
            (dearest, None) => dearest / (mu * mu),
        };
        return Err(uncertifiable(of, targets, dearest, None, mu, attempt));
    };
    let share = |level: &SospLevel| level.cost / (mu * mu);
    let largest = (best.targets.gradient, share(&best), best);
    Ok(least_affordable(largest, 4.0, |alpha| {
        let level = cheapest(of, coupled(of, alpha, mu))?;
        Some((share(&level), level))
    }))
}

/// The largest alpha that is planned for, over what the start satisfies. A choice.
const WIDEST: f64 = 0.999;

/// The least cost at some large alphas, and the level of the least of them that the budget pays for.
fn wide(of: &Problem<'_>, mu: f64) -> (f64, Option<SospLevel>) {
    let widest = WIDEST * of.facts.trivial_bound();
    // Where lambda is at its cap a smaller alpha can cost less.
    let mut best: Option<SospLevel> = None;
    let mut dearest = f64::INFINITY;
    for share in [1.0, 0.7, 0.5, 0.35] {
        if let Some(level) = cheapest(of, coupled(of, share * widest, mu)) {
            dearest = dearest.min(level.cost);
            if level.cost <= mu * mu {
                best = Some(level);
            }
        }
    }
    (dearest, best)
}

/// For how many records, more than there are, the share of the budget that `attempt` finds is at most 1, to within 2 %; none where that is
/// for no number of records that is tried.
fn enough(of: &Problem<'_>, attempt: impl Fn(&Problem<'_>) -> f64) -> Option<u64> {
    let at = |records: f64| {
        let facts = PublicFacts {
            records: records as u64,
            ..*of.facts
        };
        attempt(&Problem {
            facts: &facts,
            ..*of
        })
    };
    let mut low = of.facts.records as f64;
    let mut high = low.max(2.0);
    for _ in 0..MOST_GUESSES {
        // Noise falls with n, and costs with its square.
        let share = at(high);
        if share <= 1.0 {
            break;
        }
        low = high;
        high = (high * share.sqrt().clamp(1.1, 2.0)).ceil();
        // NaN must be refused.
        if !(high <= MOST_RECORDS) {
            return None;
        }
    }
    if at(high) > 1.0 {
        return None;
    }
    while high > 1.02 * low && high - low > 1.0 {
        let middle = (low * high).sqrt().ceil();
        if middle >= high {
            break;
        }
        match at(middle) <= 1.0 {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high as u64)
}

/// Numbers of records that are tried before one is found. A choice: each is at most twice the last.
const MOST_GUESSES: u32 = 60;
/// Numbers of records are whole up to here.
const MOST_RECORDS: f64 = 9e15;

/// Why there is no plan for these targets: too few steps, or too little budget.
fn uncertifiable(
    of: &Problem<'_>,
    targets: SecondOrderTargets,
    cost: f64,
    reachable: Option<SecondOrderTargets>,
    mu: f64,
    attempt: impl Fn(&Problem<'_>) -> f64,
) -> PlanError {
    if cost.is_infinite() {
        let longer = Problem {
            most_steps: MOST_STEPS as u64,
            ..*of
        };
        if let Some(level) = cheapest(&longer, targets)
            && level.cost <= mu * mu
        {
            return PlanError::TooFewSteps {
                solver: NAME,
                needed: level.most_steps,
                most: of.most_steps,
            };
        }
        if let Some(missed) = hidden(of, targets) {
            return PlanError::NoEpisode {
                solver: NAME,
                curvature: targets.curvature,
                smoothness: of.facts.smoothness,
                dim: of.facts.dim,
                missed,
            };
        }
    }
    PlanError::Uncertifiable {
        solver: NAME,
        gradient: targets.gradient,
        curvature: targets.curvature,
        cost: cost / (mu * mu),
        enough: enough(of, attempt),
        reachable,
        records: of.facts.records,
        dim: of.facts.dim,
        mu,
    }
}
