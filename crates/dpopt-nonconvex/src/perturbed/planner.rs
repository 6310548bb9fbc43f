//! The planner: how short a gradient the budget pays for, and of which saddles the walk is proven to leave.

use dpopt_privacy::{Event, NoiseMultiplier, Spend};
use dpopt_solver::search::{MOST_STEPS, geometric};
use dpopt_solver::{
    Access, BoundSense, BoundedQuantity, Budget, EscapeTerms, EscapeTest, PlanError, PublicFacts,
    Split, Terms, chi_reach,
};

use super::pass::{OnePass, PerturbedPass};
use crate::sosp::Estimates;

pub(super) const NAME: &str = "perturbed";
pub(super) const PASS: &str = "perturbed-pass";

/// Least decrease of F for each release but those of the last try, over a^2/L1: `docs/theory/perturbed.md`, (3).
const DECREASE: f64 = 0.05;
/// Least decrease in a try that broke out, over eta a^2: (2).
const TRY: f64 = 0.2;
/// All squared steps together, over eta F0: (4).
const PATH: f64 = 5.0;
/// r over eta a. A choice.
const RADIUS: f64 = 1.0 / 32.0;
/// 100 of iota = ln(100 sqrt d), where nothing is proven of curvature: tuned (notes on arXiv 2602.01339, 2.5).
const SPREAD: f64 = 100.0;
/// A curvature above so much of L1 is not stated. A choice: at 1 nothing would be said.
const MOST_CURVATURE: f64 = 0.9;

/// What is watched for after a perturbation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PerturbedTest {
    /// The mean square of the steps: Xu et al. 2026.
    #[default]
    Movement,
    /// The distance from the anchor: Tao et al. 2025, the drift of the model.
    Drift,
}

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PerturbedSettings {
    /// p: the probability with which what is stated may be false.
    pub failure: f64,
    /// alpha_H: the saddles that are watched for where nothing is proven of curvature; none: sqrt(rho a).
    pub curvature: Option<f64>,
    /// Of which kind the estimates are.
    pub estimates: Estimates,
    /// What is watched for.
    pub test: PerturbedTest,
    /// Whether each release reads records that no other has read, and the bound is for the population: Tao et al.'s single pass.
    pub one_pass: bool,
    /// Most releases.
    pub max_steps: u64,
}

impl PerturbedSettings {
    /// p = 0.05, the cheaper estimates, movement, on all records.
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            failure: 0.05,
            curvature: None,
            estimates: Estimates::default(),
            test: PerturbedTest::default(),
            one_pass: false,
            max_steps,
        }
    }

    /// With estimates of this kind.
    #[must_use]
    pub fn with_estimates(self, estimates: Estimates) -> Self {
        Self { estimates, ..self }
    }

    /// Watching for this.
    #[must_use]
    pub fn with_test(self, test: PerturbedTest) -> Self {
        Self { test, ..self }
    }

    /// In one pass.
    #[must_use]
    pub fn in_one_pass(self) -> Self {
        Self {
            one_pass: true,
            ..self
        }
    }

    /// Watching for saddles of this curvature, where nothing is proven.
    #[must_use]
    pub fn with_curvature(self, curvature: f64) -> Self {
        Self {
            curvature: Some(curvature),
            ..self
        }
    }
}

/// What a [`PerturbedPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PerturbedSchedule {
    /// a: at a shorter estimate the walk is perturbed.
    pub target: f64,
    /// eta = 1/(2 L1).
    pub step_size: f64,
    /// r: of the ball of the perturbation.
    pub radius: f64,
    /// Gamma: steps after which the walk has stayed.
    pub watched: u64,
    /// The saddles that are watched for; with `proven` those that are left with the planned probability.
    pub curvature: f64,
    /// Whether the theorem on curvature holds.
    pub proven: bool,
    /// T: most releases.
    pub steps: u64,
    /// Multiplier of fresh estimates.
    pub anchor: f64,
    /// Spider.
    pub spider: Option<PerturbedSpider>,
    /// One pass.
    pub pass: Option<PerturbedPass>,
    /// Squared mu in the worst case.
    pub cost: f64,
}

/// Recursive estimates of a [`PerturbedPlan`]: an anchor where the squared path since the last would reach a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PerturbedSpider {
    /// Lambda: the limit, a squared length.
    pub path: f64,
    /// Multiplier of a variation.
    pub variation: f64,
    /// Most anchors.
    pub most_anchors: u64,
}

/// A plan for descent that perturbs where its estimate is short, and watches whether that moves it. **A baseline**, in the library only:
/// [`SospPlan`](crate::SospPlan) certifies.
///
/// # Formula
/// w <- w - v/(2 L1) while ||v|| >= a, v a fresh noisy mean gradient, or Spider's with an anchor where the squared path since the last would
/// reach Lambda. At a shorter v an [`Escape`](dpopt_solver::Escape) begins: a perturbation in the ball of radius a/(64 L1), the same steps, and a break where their mean square is above
/// (eta a)^2, or where they lead Gamma eta a + r away. Gamma steps without one end the run at the point before the perturbation. a is the least whose error a/2
/// the budget pays for over T = 20 L1 F0/a^2 + Gamma + 2 releases.
///
/// A run that ends so has ||grad F(w)|| <= 3 a/2 with probability 1 - p. With fresh estimates, and where it says something, also lambda_min(hess F(w))
/// >= -gamma, gamma about iota sqrt(6 rho a): `docs/theory/perturbed.md` has the proofs. Elsewhere staying is a sign and no proof.
///
/// [In one pass](PerturbedSettings::in_one_pass) an anchor reads so many unread records and a variation so many others, a is the least for which
/// there are enough, and F is the **population** risk: the records are a sample in an order that does not depend on them.
///
/// # Privacy
/// `Spend::AtMost(Gaussian(1/mu))`: Gaussian releases on all records; perturbation, test and output are post-processing. In one pass each record
/// is read by one release of multiplier 1/mu: parallel composition, which needs fixed positions, so not under add/remove. See
/// `docs/privacy/perturbed.md`.
///
/// # References
/// Tao, Zhang, Yu, Cheng, Dressler, Wang 2025 (arXiv 2505.15647): the framework, in one pass; Xu et al. 2026 (arXiv 2602.01339): movement.
#[derive(Debug, Clone, PartialEq)]
pub struct PerturbedPlan {
    pub(super) terms: Terms,
    pub(super) settings: PerturbedSettings,
    pub(super) mu: f64,
    pub(super) schedule: PerturbedSchedule,
}

/// What the cost of a target hangs on.
struct Task<'a> {
    facts: &'a PublicFacts,
    rho: f64,
    mu: f64,
    settings: &'a PerturbedSettings,
}

impl PerturbedPlan {
    /// The plan with the least a; `hessian_lipschitz` is rho.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] where 3 a/2 says no more than the start satisfies; [`PlanError::TooFewSteps`] where more steps would do;
    /// [`PlanError::BadFact`] for facts and settings out of
    /// range; [`PlanError::NeedsPositions`] in one pass under add/remove.
    pub fn new(
        facts: &PublicFacts,
        hessian_lipschitz: f64,
        budget: &Budget,
        settings: PerturbedSettings,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        PlanError::positive("hessian_lipschitz", hessian_lipschitz)?;
        let failure = settings.failure;
        if !(failure > 0.0 && failure < 1.0) {
            let (name, value) = ("failure", failure);
            return Err(PlanError::BadFact { name, value });
        }
        if let Some(curvature) = settings.curvature {
            PlanError::positive("curvature", curvature)?;
        }
        let name = name_of(settings.one_pass);
        if settings.one_pass {
            PlanError::positions(name, (facts.adjacency, facts.records), |adjacency| {
                let fixed = PublicFacts {
                    adjacency,
                    ..*facts
                };
                let plan = Self::new(&fixed, hessian_lipschitz, budget, settings).ok()?;
                Some(plan.schedule.steps)
            })?;
        }
        let mu = budget.mu()?.get();
        let task = Task {
            facts,
            rho: hessian_lipschitz,
            mu,
            settings: &settings,
        };
        let trivial = facts.trivial_bound();
        let Some(schedule) = task.least(trivial / 1.5) else {
            let longer = PerturbedSettings {
                max_steps: MOST_STEPS as u64,
                ..settings
            };
            let longer = Task {
                settings: &longer,
                ..task
            };
            if let Some(found) = longer.cheapest(trivial / 1.5)
                && longer.share(&found) <= 1.0
            {
                return Err(PlanError::TooFewSteps {
                    solver: name,
                    needed: found.steps,
                    most: settings.max_steps,
                });
            }
            let found = task.least(1e3 * trivial);
            let bound = found.map_or(f64::INFINITY, |found| 1.5 * found.target);
            return Err(facts.vacuous(name, bound, mu));
        };
        let plan = Self::by_hand(facts, budget, settings, schedule)?;
        let terms = plan.terms.stating(Some(1.5 * schedule.target));
        Ok(Self {
            terms: match schedule.proven {
                true => terms.with_curvature(schedule.curvature),
                false => terms,
            },
            ..plan
        })
    }

    /// A plan with another schedule, in one pass if that is. It states no bound, and its runs none.
    ///
    /// # Errors
    /// [`PlanError`] for facts, for noise out of range, and for a batch of no records.
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        settings: PerturbedSettings,
        schedule: PerturbedSchedule,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let own = NoiseMultiplier::new(1.0 / mu)?;
        let PerturbedSchedule {
            spider,
            steps,
            pass,
            ..
        } = schedule;
        let each = if spider.is_some() { 2.0 } else { 1.0 };
        let sense = match pass {
            Some(_) => BoundSense::PopulationWithProbability,
            None => BoundSense::WithProbability,
        };
        let (spend, records) = match pass {
            None => (
                Spend::AtMost(Event::gaussian(own)),
                steps as f64 * facts.records as f64,
            ),
            Some(pass) => {
                PlanError::positive("records of an anchor", pass.anchor as f64)?;
                if spider.is_some() {
                    PlanError::positive("records of a variation", pass.variation as f64)?;
                }
                let noise = (
                    NoiseMultiplier::new(schedule.anchor)?,
                    spider.map_or(Ok(own), |spider| NoiseMultiplier::new(spider.variation))?,
                );
                (pass.spend(facts.records, noise), pass.records as f64)
            }
        };
        let terms = Terms::new(facts, budget, steps, spend)
            .with_gradients(each * records)
            .bounding(BoundedQuantity::GradientNorm, sense);
        Ok(Self {
            terms: match pass {
                None => terms,
                Some(pass) => terms
                    .with_access(Access::SinglePass {
                        anchor: pass.anchor,
                        variation: pass.variation,
                    })
                    .with_unread(facts.records),
            },
            settings,
            mu,
            schedule,
        })
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &PerturbedSchedule {
        &self.schedule
    }

    /// mu: cap on all releases together.
    #[must_use]
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// What a try is made of.
    #[must_use]
    pub fn escape(&self) -> EscapeTerms {
        let PerturbedSchedule {
            target,
            step_size,
            radius,
            watched,
            ..
        } = self.schedule;
        let length = step_size * target;
        EscapeTerms {
            radius,
            step_size,
            steps: watched,
            test: match self.settings.test {
                PerturbedTest::Movement => EscapeTest::Movement(length * length),
                PerturbedTest::Drift => EscapeTest::Distance(watched as f64 * length + radius),
            },
        }
    }
}

/// What the plan is called.
pub(super) fn name_of(one_pass: bool) -> &'static str {
    match one_pass {
        true => PASS,
        false => NAME,
    }
}

/// Gamma, the curvature, and whether it is proven.
struct Watch {
    steps: f64,
    curvature: f64,
    proven: bool,
}

impl Task<'_> {
    /// Of the budget, or of the records, in the worst case.
    fn share(&self, of: &PerturbedSchedule) -> f64 {
        match of.pass {
            Some(pass) => pass.records as f64 / self.facts.records as f64,
            None => of.cost / (self.mu * self.mu),
        }
    }

    /// The schedule with the least a up to `most` for which budget and records suffice, to within a thousandth.
    fn least(&self, most: f64) -> Option<PerturbedSchedule> {
        let at = |target: f64| {
            self.cheapest(target)
                .filter(|found| self.share(found) <= 1.0)
        };
        let mut found = at(most)?;
        let (mut low, mut high) = (most * 1e-7, most);
        while high / low > 1.001 {
            let middle = (low * high).sqrt();
            match at(middle) {
                Some(better) => (high, found) = (middle, better),
                None => low = middle,
            }
        }
        Some(found)
    }

    fn cheapest(&self, target: f64) -> Option<PerturbedSchedule> {
        let fresh = match self.settings.estimates {
            Estimates::Recursive => None,
            _ => self.fresh(target, self.proven(target).unwrap_or(self.watched(target))),
        };
        let recursive = match self.settings.estimates {
            Estimates::Fresh => None,
            _ => self.recursive(target, self.watched(target)),
        };
        match (fresh, recursive) {
            (Some(one), Some(other)) if self.share(&other) < self.share(&one) => Some(other),
            (one, other) => one.or(other),
        }
    }

    fn eta(&self) -> f64 {
        0.5 / self.facts.smoothness
    }

    /// Gamma = ceil(2 iota/(eta alpha_H)): what is watched without a proof.
    fn watched(&self, target: f64) -> Watch {
        let iota = (SPREAD * (self.facts.dim as f64).sqrt()).ln();
        let curvature = self.settings.curvature;
        let curvature = curvature.unwrap_or((self.rho * target).sqrt());
        Watch {
            steps: (2.0 * iota / (self.eta() * curvature)).ceil(),
            curvature,
            proven: false,
        }
    }

    /// The longest Gamma for which two runs stay coupled, and the curvature that is left then; none where that says nothing.
    fn proven(&self, target: f64) -> Option<Watch> {
        if self.settings.one_pass {
            return None;
        }
        let (eta, rho) = (self.eta(), self.rho);
        let r = RADIUS * eta * target;
        // The root of 6 rho tau (tau a + r) = 1.
        let tau = ((36.0 * rho * rho * r * r + 24.0 * rho * target).sqrt() - 6.0 * rho * r)
            / (12.0 * rho * target);
        let steps = (tau / eta).floor();
        let tries = self.facts.initial_gap / (TRY * eta * target * target) + 1.0;
        let apart = 0.5 * self.settings.failure / tries * r / (self.facts.dim as f64).sqrt();
        let reach = steps * eta * target + r;
        let growth = ((4.0 * reach / apart).ln() / steps).exp_m1();
        let curvature = growth / eta;
        let rounding = PublicFacts::rounding(self.facts.lipschitz, self.facts.dim);
        let says = steps >= 1.0
            && curvature <= MOST_CURVATURE * self.facts.smoothness
            && 8.0 * rounding <= curvature * apart;
        says.then_some(Watch {
            steps,
            curvature,
            proven: true,
        })
    }

    fn schedule(&self, target: f64, watch: &Watch) -> Option<PerturbedSchedule> {
        let descents =
            self.facts.initial_gap * self.facts.smoothness / (DECREASE * target * target);
        let steps = descents.ceil() + watch.steps + 2.0;
        (steps <= self.settings.max_steps as f64).then(|| PerturbedSchedule {
            target,
            step_size: self.eta(),
            radius: RADIUS * self.eta() * target,
            watched: watch.steps as u64,
            curvature: watch.curvature,
            proven: watch.proven,
            steps: steps as u64,
            anchor: 0.0,
            spider: None,
            pass: None,
            cost: f64::INFINITY,
        })
    }

    /// In one pass: anchors and variations whose estimates are wrong by at most `error`, where there are so many of the former and anchors
    /// after so long a squared path.
    fn in_one_pass(
        &self,
        schedule: &PerturbedSchedule,
        (anchors, path, error): (f64, f64, f64),
    ) -> Option<PerturbedSchedule> {
        let steps = schedule.steps as f64;
        let failure = self.settings.failure;
        let pass = OnePass::new(self.facts, self.mu, failure, (anchors, steps), path);
        let own = 1.0 / self.mu;
        Some(PerturbedSchedule {
            anchor: own,
            pass: Some(pass.fewest(error)?),
            spider: (path > 0.0).then_some(PerturbedSpider {
                path,
                variation: own,
                most_anchors: anchors as u64,
            }),
            cost: self.mu * self.mu,
            ..*schedule
        })
    }

    /// T fresh estimates, each wrong by at most a/2.
    fn fresh(&self, target: f64, watch: Watch) -> Option<PerturbedSchedule> {
        let schedule = self.schedule(target, &watch)?;
        let facts = self.facts;
        let steps = schedule.steps as f64;
        let error = 0.5 * target - PublicFacts::rounding(facts.lipschitz, facts.dim);
        if self.settings.one_pass {
            return self.in_one_pass(&schedule, (steps, 0.0, error));
        }
        // Curvature has the other half.
        let share = if watch.proven { 0.5 } else { 1.0 };
        let reach = chi_reach(facts.dim as f64, share * self.settings.failure / steps);
        let anchor = error / (reach * facts.noise_std(facts.lipschitz, 1.0));
        (anchor > 0.0).then_some(PerturbedSchedule {
            anchor,
            cost: steps / (anchor * anchor),
            ..schedule
        })
    }

    /// Anchors and variations whose sums are wrong by at most a/2.
    fn recursive(&self, target: f64, watch: Watch) -> Option<PerturbedSchedule> {
        let schedule = self.schedule(target, &watch)?;
        let facts = self.facts;
        let (dim, steps) = (facts.dim as f64, schedule.steps as f64);
        let length = schedule.step_size * target;
        let whole =
            PATH * schedule.step_size * facts.initial_gap + (watch.steps + 1.0) * length * length;
        let unit = facts.noise_std(facts.lipschitz, 1.0).powi(2);
        let per_length = facts.noise_std(facts.smoothness, 1.0).powi(2);
        let mut best: Option<PerturbedSchedule> = None;
        for parts in geometric(1.0, steps, 1.15) {
            let path = whole / parts;
            let anchors = parts.floor() + 2.0;
            let rounding = PublicFacts::rounding(1.0, facts.dim)
                * (facts.lipschitz + facts.smoothness * (steps * path).sqrt());
            let error = 0.5 * target - rounding;
            if !(error > 0.0) {
                continue;
            }
            if self.settings.one_pass {
                let found = self.in_one_pass(&schedule, (anchors, path, error));
                if let Some(found) = found
                    && best.is_none_or(|old| self.share(&found) < self.share(&old))
                {
                    best = Some(found);
                }
                continue;
            }
            // A reflection costs a factor of 2.
            let reach = chi_reach(dim, 0.5 * self.settings.failure / anchors);
            let variance = (error / reach).powi(2);
            let split = Split::new((unit, anchors), (per_length * path, steps), variance);
            if best.is_none_or(|old| split.cost < old.cost) {
                best = Some(PerturbedSchedule {
                    anchor: split.anchor,
                    spider: Some(PerturbedSpider {
                        path,
                        variation: split.variation,
                        most_anchors: anchors as u64,
                    }),
                    cost: split.cost,
                    ..schedule
                });
            }
        }
        best
    }
}
