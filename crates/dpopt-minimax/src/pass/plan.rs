//! What a pass is planned to do, and its run.

use dpopt_oracle::Offers;
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::{
    Access, BoundSense, BoundedQuantity, Budget, Item, Plan, PlanError, RunError, SaddleShape,
    Stop, Terms, Unit, Walk,
};

use super::estimate::PassEstimate;
use super::schedule::{Reserved, RgdaPassSchedule};
use super::search::{Search, Shape};
use super::walk::Pass;
use crate::blocks::Numbers;
use crate::certificate::{CertificateNoise, knows_hessians};
use crate::facts::SaddleFacts;
use crate::place::{Ascent, Place};
use crate::solver::SaddleLimits;

/// What the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RgdaPassSettings {
    /// How estimates are made.
    pub estimate: PassEstimate,
    /// p: the probability with which a run may find too few records and state nothing; of a certificate, with which it may be false.
    pub failure: f64,
    /// Share of the records that no step reads, kept for a certificate of the point with the shortest estimate; none: the theorem's bound is
    /// stated, of a point drawn uniformly.
    pub certificate_share: Option<f64>,
}

impl RgdaPassSettings {
    /// p = 0.05, and no certificate.
    #[must_use]
    pub fn new(estimate: PassEstimate) -> Self {
        Self {
            estimate,
            failure: 0.05,
            certificate_share: None,
        }
    }

    /// With this probability of failure.
    #[must_use]
    pub fn with_failure(self, failure: f64) -> Self {
        Self { failure, ..self }
    }

    /// With a certificate on this share of the records.
    #[must_use]
    pub fn certified_on(self, share: f64) -> Self {
        Self {
            certificate_share: Some(share),
            ..self
        }
    }
}

/// A plan for descent-ascent in one pass over the records.
///
/// # Formula
/// P periods of q steps of x, T = P q. At x: one release, then K times y <- Proj(y + g_y/L_yy) and a release; x goes h against g_x. The first release of a
/// period is an anchor on b unread records, others are changes on ceil(beta D) unread records, D the joint displacement: from the last point, or (rounds) from an
/// ancestor in a tree of points. K_0 ascent steps on anchors come before the first step of x.
///
/// F is the **population**; for a step drawn uniformly, of runs that find enough records (probability 1 - p at least),
///
/// E||grad Phi(x)|| <= (F0/(h T) + L_Phi h/2 + 2 e)/(1 - p),
///
/// e^2 = (C_x + w C_y)^2/b + R^2 V + (1 + w^2/s^2) L^2 Lambda/beta, with V the variance of the noise, Lambda the mean path of a period, and what y
/// is behind. Everything but n is searched. `docs/theory/minimax.md` has the proof.
///
/// # Privacy
/// Every record is read by one release of noise multiplier 1/mu, or in one step of a period that costs as much: parallel composition, exactly mu-GDP. Needs
/// fixed positions, so not under add/remove. Records that are left for less than a release reads are not read.
#[derive(Debug, Clone, PartialEq)]
pub struct RgdaPassPlan {
    terms: Terms,
    facts: SaddleFacts,
    settings: RgdaPassSettings,
    schedule: RgdaPassSchedule,
    /// The planned error of an estimate, and the mean path of a period; none of a plan by hand.
    aims: Option<(f64, f64)>,
    certificate: Option<Reserved>,
}

impl RgdaPassPlan {
    /// The plan with the least bound that was found.
    ///
    /// # Errors
    /// [`PlanError::NeedsPositions`] under add/remove; [`PlanError::VacuousSaddle`] where the bound says no more than the start satisfies;
    /// [`PlanError::BadFact`] without a finite gap of Phi, and as [`SaddleFacts::check`] and [`SaddleFacts::check_whole`].
    pub fn new(
        facts: &SaddleFacts,
        budget: &Budget,
        settings: RgdaPassSettings,
        limits: &SaddleLimits,
    ) -> Result<Self, PlanError> {
        let solver = settings.estimate.solver();
        facts.check()?;
        facts.check_whole()?;
        PlanError::positive("value_gap", facts.mean.value_gap)?;
        for (name, value) in [
            ("failure", settings.failure),
            (
                "certificate_share",
                settings.certificate_share.unwrap_or(0.5),
            ),
        ] {
            PlanError::fraction(name, value)?;
        }
        PlanError::positions(solver, (facts.adjacency, facts.records), |adjacency| {
            let fixed = SaddleFacts {
                adjacency,
                ..facts.clone()
            };
            let plan = Self::new(&fixed, budget, settings, limits).ok()?;
            Some(plan.steps())
        })?;
        let mu = budget.mu()?.get();
        let share = settings.certificate_share.unwrap_or(0.0);
        let kept = (share * facts.records as f64).ceil() as u64;
        let search = Search {
            facts,
            estimate: settings.estimate,
            mu,
            records: facts.records.saturating_sub(kept),
            failure: settings.failure,
            max_steps: limits.max_steps,
        };
        let stated = |shape: &Shape| shape.bound / (1.0 - settings.failure);
        let trivial = facts.trivial_bound();
        let best = search.best();
        let Some(shape) = best.filter(|shape| stated(shape) < trivial) else {
            let bound = best.map_or(f64::INFINITY, |shape| stated(&shape));
            return Err(facts.vacuous(solver, bound, mu));
        };
        let second_order = knows_hessians(facts);
        let certificate = match kept {
            0 => None,
            records => Some(Reserved {
                records,
                noise: of_slice(facts, mu, second_order)?,
            }),
        };
        let schedule = RgdaPassSchedule {
            estimate: settings.estimate,
            scale: shape.scale,
            inner: shape.inner,
            before: shape.before,
            period: shape.period.steps,
            periods: shape.periods,
            length: shape.length,
            anchor_batch: shape.root,
            rate: shape.rate,
            noise_multiplier: NoiseMultiplier::new(1.0 / mu)?,
        };
        let made = Self::made(facts, budget, (settings, schedule), certificate)?;
        let terms = match certificate {
            None => made.terms.stating(Some(stated(&shape))),
            Some(_) => made
                .terms
                .bounding(
                    BoundedQuantity::GradientNorm,
                    BoundSense::PopulationWithProbability,
                )
                .certifying(),
        };
        Ok(Self {
            terms,
            aims: Some((shape.error, shape.path)),
            ..made
        })
    }

    /// A plan with another schedule. It states no bound and makes no certificate.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for a prefix sum that there isn't.
    pub fn by_hand(
        facts: &SaddleFacts,
        budget: &Budget,
        schedule: RgdaPassSchedule,
    ) -> Result<Self, PlanError> {
        let settings = RgdaPassSettings::new(schedule.estimate);
        Self::made(facts, budget, (settings, schedule), None)
    }

    fn made(
        facts: &SaddleFacts,
        budget: &Budget,
        (settings, schedule): (RgdaPassSettings, RgdaPassSchedule),
        certificate: Option<Reserved>,
    ) -> Result<Self, PlanError> {
        let joint = facts.joint(schedule.scale);
        let spend = schedule.spend(&joint, certificate.as_ref())?;
        let terms = Terms::new(&joint, budget, schedule.releases(), spend)
            .with_gradients(2.0 * facts.records as f64)
            .with_access(Access::SinglePass {
                anchor: schedule.anchor_batch,
                variation: (schedule.rate * schedule.length).ceil().max(1.0) as u64,
            })
            .with_unread(facts.records)
            .bounding(BoundedQuantity::GradientNorm, BoundSense::PopulationMean);
        Ok(Self {
            terms,
            facts: facts.clone(),
            settings,
            schedule,
            aims: None,
            certificate,
        })
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &RgdaPassSchedule {
        &self.schedule
    }

    /// e, the planned error of an estimate in grad Phi, root mean square, and Lambda, the joint path of a period in the fourth mean;
    /// none of a plan by hand.
    #[must_use]
    pub fn aims(&self) -> Option<(f64, f64)> {
        self.aims
    }

    /// The facts that it was made from.
    #[must_use]
    pub fn saddle(&self) -> &SaddleFacts {
        &self.facts
    }

    /// How it was planned.
    #[must_use]
    pub fn settings(&self) -> &RgdaPassSettings {
        &self.settings
    }

    #[cfg(test)]
    pub(super) fn reserved(&self) -> Option<&Reserved> {
        self.certificate.as_ref()
    }
}

/// As many releases as there are on one slice, of one multiplier, that cost mu together.
fn of_slice(
    facts: &SaddleFacts,
    mu: f64,
    second_order: bool,
) -> Result<CertificateNoise, PlanError> {
    let with_y = facts.y_dim() > 0;
    let count = 1.0 + f64::from(u8::from(with_y)) + f64::from(u8::from(second_order));
    let z = NoiseMultiplier::new(count.sqrt() / mu * (1.0 + 1e-12))?;
    Ok(CertificateNoise {
        x: z,
        y: with_y.then_some(z),
        hessian: second_order.then_some(z),
    })
}

impl Plan for RgdaPassPlan {
    fn name(&self) -> &'static str {
        self.settings.estimate.solver()
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let of = &self.schedule;
        let kept = self.certificate.map_or(0, |kept| kept.records);
        let (error, path) = self.aims.unzip();
        let mut items = vec![
            Item::count("outer_steps", of.steps()),
            Item::number("step_length", of.length, Unit::LENGTH),
            Item::count("inner_steps", of.inner),
            Item::count("steps_of_y_before", of.before),
            Item::ratio("scale", of.scale),
            Item::count("period", of.period),
            Item::count("periods", of.periods),
            Item::count("anchor_batch", of.anchor_batch),
            Item::ratio("records_per_length", of.rate),
            Item::maybe("path_of_a_period", path, Unit::LENGTH),
            Item::count("records_for_a_certificate", kept),
            Item::ratio("failure", self.settings.failure),
            Item::maybe("planned_error", error, Unit::GRADIENT),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("noise_multiplier", of.noise_multiplier.get()),
        ];
        if let PassEstimate::Prefix(kind) = of.estimate {
            items.push(Item::word("prefix_noise", kind));
        }
        items
    }

    fn saddle_shape(&self) -> Option<SaddleShape> {
        self.facts.shape(self.schedule.scale)
    }

    fn trivial_bound(&self) -> f64 {
        self.facts.trivial_bound()
    }

    fn needs(&self) -> Offers {
        let walk = match self.settings.estimate {
            PassEstimate::Prefix(_) => Offers::MEANS | Offers::PERIODS,
            _ => Offers::MEANS,
        };
        match &self.certificate {
            None => walk,
            Some(kept) if kept.noise.hessian.is_some() => walk | Offers::NORMS | Offers::HESSIANS,
            Some(_) => walk | Offers::NORMS,
        }
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let of = &self.schedule;
        let ascent = Ascent {
            steps: of.inner,
            rate: Numbers::new(&self.facts, of.scale).rate,
            before: of.before,
        };
        let blocks = self.facts.blocks(of.scale);
        let ascent = ascent.checked(self.name(), blocks)?;
        let joint = self.facts.joint(of.scale);
        let failure = self.settings.failure;
        let reserved = self.certificate.as_ref().map(|kept| (kept, failure));
        let place = Place::new(&self.facts, blocks, ascent, start)?;
        Ok(Box::new(Pass::new(
            &self.facts,
            (of, reserved),
            place,
            of.estimates(&joint)?,
        )))
    }

    /// The theorem is about runs that make all steps; a certificate about its point.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Completed && self.certificate.is_none()
    }

    /// Each record is read once: the run costs what its first release does.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}
