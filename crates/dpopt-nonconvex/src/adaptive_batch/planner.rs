//! The planner: how small a certificate the records suffice for.

use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use dpopt_solver::search::least_affordable;
use dpopt_solver::{
    Access, BoundSense, BoundedQuantity, Budget, CurvatureBy, HessianFacts, PlanError, PublicFacts,
    SecondOrderTargets, Terms, WalkConstants,
};

use super::gradient::{Period, Problem};
use super::schedule::AdaptiveBatchSchedule;
use super::{rigorous, typical};

pub(super) const NAME: &str = "adaptive-batch";
/// The largest lambda over L1 that is planned for where none was asked for. A choice: at 1 nothing would be said.
const MOST_CURVATURE: f64 = 0.9;
/// Share of the records for which a Hessian has to tell the least lambda that is planned for where none was asked for. A choice.
const HESSIAN_SHARE: f64 = 0.05;
/// Among so many candidates.
const CANDIDATES: f64 = 100.0;

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct AdaptiveBatchSettings {
    /// alpha and lambda. None: the least alpha that the records suffice for, and lambda = min(sqrt(rho alpha), 0.9 L1), but no less than a
    /// Hessian of a twentieth of the records tells.
    pub targets: Option<SecondOrderTargets>,
    /// p: half of it is the probability with which the certificate may be false, and with rigorous constants the other half that with which a
    /// run may end in none.
    pub failure: f64,
    /// The constants of the walk.
    pub constants: WalkConstants,
    /// Most steps.
    pub max_steps: u64,
    /// How curvature is told.
    pub curvature_by: CurvatureBy,
}

impl AdaptiveBatchSettings {
    /// As small as the records suffice for, typical constants, p = 0.05.
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            targets: None,
            failure: 0.05,
            constants: WalkConstants::default(),
            max_steps,
            curvature_by: CurvatureBy::default(),
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

    /// With this probability of failure.
    #[must_use]
    pub fn with_failure(self, failure: f64) -> Self {
        Self { failure, ..self }
    }

    /// With curvature told like this.
    #[must_use]
    pub fn with_curvature_by(self, curvature_by: CurvatureBy) -> Self {
        Self {
            curvature_by,
            ..self
        }
    }

    /// With these constants.
    #[must_use]
    pub fn with_constants(self, constants: WalkConstants) -> Self {
        Self { constants, ..self }
    }
}

/// A plan for second-order stationary points of the population in one pass.
///
/// # Formula
/// SPIDER under prefix-sum noise on unread records: anchors over b records, variations over ceil(b L1 ||w - w'||/L0), a new anchor after a path
/// of kappa/L1 or where it is no larger than a variation. Where the estimate is longer than theta the walk goes -1/L1 times it. Elsewhere the
/// Hessian of b_H unread records is released: its least eigenvalue certifies lambda_min(hess F) >= -lambda, and then the norm of the mean
/// gradient of b_c others may certify ||grad F|| <= alpha; or its eigenvector is a direction of negative curvature, which the gradient of b_s
/// others gives a sign. Above 1,024 dimensions, or where it needs fewer records or is asked for ([`CurvatureBy`]), an
/// [`Episode`](dpopt_solver::Episode) of products with the Hessian of b_H records takes its place. F is the **population** risk: the records are a sample in an order that does not depend on them. See
/// `docs/theory/second-order.md` for the theorems and [`AdaptiveBatchSchedule`] for the numbers.
///
/// # Privacy
/// Every record is read by one release, or one step of a period, of noise multiplier 1/mu: parallel composition, exactly mu-GDP. The products
/// of an episode read one slice, under a cap of its own of the same size. Batch sizes follow the releases. Needs fixed positions, so not under add/remove. See `docs/privacy/second-order.md`.
///
/// # Complexity
/// At most n records, 2 n gradients; memory O(d T) for a period of T estimates, O(d^2) for a Hessian.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveBatchPlan {
    pub(super) terms: Terms,
    pub(super) hessian: HessianFacts,
    pub(super) settings: AdaptiveBatchSettings,
    pub(super) schedule: AdaptiveBatchSchedule,
}

impl AdaptiveBatchPlan {
    /// The plan.
    ///
    /// # Errors
    /// [`PlanError::NeedsPositions`] under add/remove; [`PlanError::TooFewToCertify`] where the records do not suffice for the targets, or for
    /// any that say something; [`PlanError::TooFewSteps`] with rigorous constants; [`PlanError::TooManyDimensions`] of whole Hessians;
    /// [`PlanError::EveryPointMeets`] for targets that the start is known to satisfy;
    /// [`PlanError::BadFact`] for facts, targets and a probability that are out of range.
    pub fn new(
        facts: &PublicFacts,
        hessian: &HessianFacts,
        budget: &Budget,
        settings: AdaptiveBatchSettings,
    ) -> Result<Self, PlanError> {
        check(facts, hessian, &settings)?;
        PlanError::positions(NAME, (facts.adjacency, facts.records), |adjacency| {
            let fixed = PublicFacts {
                adjacency,
                ..*facts
            };
            let plan = Self::new(&fixed, hessian, budget, settings).ok()?;
            Some(plan.schedule.steps + 2)
        })?;
        let mu = budget.mu()?.get();
        let search = Search {
            of: Problem {
                facts,
                hessian,
                mu,
                failure: settings.failure,
                by: settings.curvature_by,
            },
            constants: settings.constants,
            periods: Period::new(),
        };
        let schedule = match settings.targets {
            Some(targets) => search.asked(targets)?,
            None => search.least()?,
        };
        if settings.constants == WalkConstants::Rigorous && schedule.steps > settings.max_steps {
            return Err(PlanError::TooFewSteps {
                solver: NAME,
                needed: schedule.steps,
                most: settings.max_steps,
            });
        }
        let plan = Self::by_hand(facts, hessian, budget, settings, schedule)?;
        let SecondOrderTargets {
            gradient,
            curvature,
        } = schedule.targets;
        Ok(Self {
            terms: plan.terms.with_curvature(curvature).stating(Some(gradient)),
            ..plan
        })
    }

    /// A plan with another schedule. It states no bound, and its runs none.
    ///
    /// # Errors
    /// [`PlanError`] for facts, for noise out of range, and for a batch of no records.
    pub fn by_hand(
        facts: &PublicFacts,
        hessian: &HessianFacts,
        budget: &Budget,
        settings: AdaptiveBatchSettings,
        schedule: AdaptiveBatchSchedule,
    ) -> Result<Self, PlanError> {
        check(facts, hessian, &settings)?;
        for (name, batch) in [
            ("anchor_batch", schedule.anchor_batch),
            ("hessian_batch", schedule.hessian_batch),
            ("norm_batch", schedule.norm_batch),
            ("sign_batch", schedule.sign_batch),
        ] {
            PlanError::positive(name, batch as f64)?;
        }
        let spend = schedule.spend(facts)?;
        let records = facts.records;
        // A Hessian counts as 2 d gradients, a product as 2.
        let hessians =
            (schedule.hessian_batch as f64 * schedule.most_candidates as f64).min(records as f64);
        let products = schedule
            .episode
            .map_or(facts.dim as f64, |episode| episode.products() as f64);
        let gradients = 2.0 * records as f64 + 2.0 * products * hessians;
        let terms = Terms::new(facts, budget, settings.max_steps, spend)
            .bounding(
                BoundedQuantity::GradientNorm,
                BoundSense::PopulationWithProbability,
            )
            .with_gradients(gradients)
            .with_access(Access::SinglePass {
                anchor: schedule.anchor_batch,
                variation: schedule.anchor_batch,
            })
            .with_unread(records);
        Ok(Self {
            terms,
            hessian: *hessian,
            settings,
            schedule,
        })
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &AdaptiveBatchSchedule {
        &self.schedule
    }

    /// How it was planned.
    #[must_use]
    pub fn settings(&self) -> &AdaptiveBatchSettings {
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
    settings: &AdaptiveBatchSettings,
) -> Result<(), PlanError> {
    facts.check()?;
    hessian.check_beside(facts)?;
    PlanError::fraction("failure", settings.failure)?;
    if facts.dim > MAX_PRIVATE_HESSIAN_DIM && settings.curvature_by == CurvatureBy::Hessians {
        return Err(PlanError::TooManyDimensions {
            solver: NAME,
            dim: facts.dim,
            limit: MAX_PRIVATE_HESSIAN_DIM,
        });
    }
    Ok(())
}

struct Search<'a> {
    of: Problem<'a>,
    constants: WalkConstants,
    periods: Period,
}

impl Search<'_> {
    /// The schedule of the fewest records, and their number.
    fn at(&self, targets: SecondOrderTargets) -> Option<(f64, AdaptiveBatchSchedule)> {
        match self.constants {
            WalkConstants::Typical => typical::fewest_records(&self.of, targets, &self.periods),
            WalkConstants::Rigorous => rigorous::fewest_records(&self.of, targets, &self.periods),
        }
    }

    fn records(&self) -> f64 {
        self.of.facts.records as f64
    }

    /// alpha, and the lambda that goes with it where none was asked for.
    fn coupled(&self, alpha: f64) -> SecondOrderTargets {
        let Problem { facts, hessian, .. } = self.of;
        let targets = SecondOrderTargets::coupled(alpha, hessian.lipschitz);
        let batch = HESSIAN_SHARE * self.records();
        let told = match self.constants {
            WalkConstants::Typical => typical::told(&self.of, CANDIDATES, batch),
            WalkConstants::Rigorous => rigorous::told(&self.of, CANDIDATES, batch),
        };
        SecondOrderTargets {
            curvature: targets
                .curvature
                .max(told)
                .min(MOST_CURVATURE * facts.smoothness),
            ..targets
        }
    }

    fn asked(&self, targets: SecondOrderTargets) -> Result<AdaptiveBatchSchedule, PlanError> {
        let facts = self.of.facts;
        PlanError::targets(&targets, facts.trivial_bound(), facts.smoothness)?;
        match self.at(targets) {
            Some((records, schedule)) if records <= self.records() => Ok(schedule),
            found => {
                let reachable = self.least().ok().map(|schedule| schedule.targets);
                Err(self.too_few(targets, found.map(|found| found.0), reachable))
            }
        }
    }

    /// The schedule of the least alpha that the records suffice for, found to within 1 %.
    fn least(&self) -> Result<AdaptiveBatchSchedule, PlanError> {
        let widest = 0.999 * self.of.facts.trivial_bound();
        let attempt = |alpha: f64| {
            let (records, schedule) = self.at(self.coupled(alpha))?;
            Some((records / self.records(), schedule))
        };
        // Where lambda is at its cap a smaller alpha can need fewer.
        let trials: Vec<_> = [1.0, 0.7, 0.5]
            .into_iter()
            .filter_map(|share| {
                let (cost, found) = attempt(share * widest)?;
                Some((share * widest, cost, found))
            })
            .collect();
        let paid = trials.iter().rfind(|(_, share, _)| *share <= 1.0);
        match paid {
            Some(largest) => Ok(least_affordable(*largest, 3.0, attempt)),
            None => {
                let targets = self.coupled(widest);
                let least = trials.iter().map(|(_, share, _)| share * self.records());
                let needed = least.fold(None, |least: Option<f64>, next| {
                    Some(least.map_or(next, |least| least.min(next)))
                });
                Err(self.too_few(targets, needed, None))
            }
        }
    }

    fn too_few(
        &self,
        targets: SecondOrderTargets,
        needed: Option<f64>,
        reachable: Option<SecondOrderTargets>,
    ) -> PlanError {
        let facts = self.of.facts;
        if needed.is_none()
            && let Some(missed) = self.of.hidden(targets)
        {
            return PlanError::NoEpisode {
                solver: NAME,
                curvature: targets.curvature,
                smoothness: facts.smoothness,
                dim: facts.dim,
                missed,
            };
        }
        PlanError::TooFewToCertify {
            solver: NAME,
            gradient: targets.gradient,
            curvature: targets.curvature,
            // A whole number up to 2^53.
            needed: needed
                .filter(|records| *records < 9e15)
                .map(|records| records.ceil() as u64),
            reachable,
            records: facts.records,
            dim: facts.dim,
            mu: self.of.mu,
        }
    }
}
