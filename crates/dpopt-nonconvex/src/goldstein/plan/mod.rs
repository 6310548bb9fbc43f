//! Plans of the walk in blocks: what they release, and what they say.

mod show;

use dpopt_oracle::{Batch, Schedule};
use dpopt_privacy::Accountant;
use dpopt_solver::{
    Access, BoundSense, Budget, FreshReleases, OutputRule, Plan as _, PublicFacts, Terms,
};

use super::schedule::{GoldsteinSchedule, GoldsteinSettings, PeriodSettings};

pub(super) const ALL: &str = "goldstein";
pub(super) const SAMPLED: &str = "goldstein-sampled";
pub(super) const PASS: &str = "goldstein-pass";
pub(super) const VALUES: &str = "goldstein-zo";
pub(super) const VALUES_SAMPLED: &str = "goldstein-zo-sampled";
pub(super) const VALUES_PASS: &str = "goldstein-zo-pass";
pub(super) const RECURSIVE: &str = "goldstein-recursive";

/// What the solver is called whose steps read such a batch.
pub(super) fn name_of(batch: Batch, values: bool) -> &'static str {
    match (batch, values) {
        (Batch::Poisson(_) | Batch::FixedSize(_), false) => SAMPLED,
        (Batch::Poisson(_) | Batch::FixedSize(_), true) => VALUES_SAMPLED,
        (Batch::Next(_), false) => PASS,
        (Batch::Next(_), true) => VALUES_PASS,
        (_, false) => ALL,
        (_, true) => VALUES,
    }
}

/// A plan that finds a point of small Goldstein distance: private online-to-nonconvex conversion on fresh gradients.
///
/// # Formula
/// Blocks of M steps, T = K M. x <- x + Delta; the gradient is asked for at z + u, z uniform on the segment, u uniform in the
/// ball of radius a; Delta <- clip(Delta - eta g, D), D = 2 (r - a)/(M + 1), eta = D/(G1 sqrt M). Returned is the mean of the z
/// of a uniform block. With F0' = F0 + L a and N the root mean square length of the noise,
///
/// E (Goldstein distance at r) <= F0'/(D T) + (G1 + N')/sqrt M + 2 c.
///
/// | records | N | G1^2 | N'^2 |
/// | --- | --- | --- | --- |
/// | all | s L sqrt(d T)/(n mu) | L^2 + N^2 | N^2 |
/// | Poisson, B = q n | s L z sqrt(d)/B | L^2 (1 + (1 - q)/B) + N^2 | N^2 + (1 - q) L^2/B |
/// | B unread | s L sqrt(d)/(B mu) | L^2 + N^2 | N^2 + L^2/B |
///
/// From values alone ([`GoldsteinSettings::from_values`]) the slopes b_j = (f(z + a y_j) - f(z - a y_j))/(2 a) along m shared
/// orthonormal directions are asked for, clipped to C as one vector, and g = (d/m) sum_j b_j y_j. Then
///
/// N = (d/sqrt m) s C z/B (z = sqrt(T)/mu, B = n on all records), G1^2 = N'^2 = A + N^2, and A (1 + (1 - q)/B) for A on Poisson
/// samples; A = (d/m) L^2 min(d/(d - 1), kappa_d^2), or (d/m)^2 C^2 if less;
///
/// and c has the bias of the clip, none at C = kappa_m L, kappa_m^2 = max(m/2, 1 + (m - 1)(sqrt 2 - 1)^2). (Theorem 2.)
///
/// Of a loss whose values range over c0 and that has no L ([`GoldsteinSettings::bounded`]) C = sqrt(m) c0/(2 a), A = (d/m)^2 C^2,
/// F0' = c0, D = 2 r/(M + 1), and the statement is about F_a, the mean of F over a ball of radius a. The facts of such a plan are
/// those of F_a: L_a = c_d c0/(2 a), c_d = 2 Gamma(d/2 + 1)/(sqrt(pi) Gamma((d + 1)/2)), or a known L where that is less.
///
/// c is what rounding to the lattice may be off; s = 2 under replace-one and 1 otherwise. Nothing has to be smooth or convex: L is
/// all that is known of the loss, whose gradient has to be right at almost every point. (`docs/theory/goldstein.md`, Theorem 1.)
///
/// # Privacy
/// T Gaussian releases of clipped means, on all records, on fresh Poisson samples, or on unread slices. All else is public or
/// post-processing. (`docs/privacy/goldstein.md`.)
#[derive(Debug, Clone, PartialEq)]
pub struct GoldsteinPlan {
    terms: Terms,
    settings: GoldsteinSettings,
    schedule: GoldsteinSchedule,
    values: f64,
    accountant: Option<Accountant>,
}

impl GoldsteinPlan {
    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        schedule: GoldsteinSchedule,
    ) -> Self {
        let steps = schedule.steps;
        let schedule_of = Schedule::new(facts.records);
        let fresh = || Schedule::new(facts.records).releases(schedule.level(), steps);
        // A period that can't be is refused by `walk`, before any of this is reserved.
        let spend = match schedule.in_periods(facts.dim) {
            Some((PeriodSettings::Independent(settings), anchors)) => {
                schedule_of.recursive(&settings, anchors, steps - anchors)
            }
            Some((PeriodSettings::Prefix(settings), periods)) => schedule_of
                .prefix(&settings, periods)
                .unwrap_or_else(|_| fresh()),
            None => fresh(),
        };
        let (access, read) = match schedule.batch {
            Batch::Poisson(rate) => (Access::Poisson(rate), rate.get() * facts.records as f64),
            Batch::FixedSize(size) => (Access::FixedSize(size), size as f64),
            Batch::Next(size) => {
                let slices = Access::SinglePass {
                    anchor: size,
                    variation: schedule
                        .read_by_changes(facts)
                        .map_or(size, |read| read as u64),
                };
                (slices, size as f64)
            }
            _ => (Access::FullBatch, facts.records as f64),
        };
        let unread = schedule.unread().unwrap_or(0);
        let unread = u64::try_from(unread).unwrap_or(u64::MAX);
        let sense = match schedule.batch {
            Batch::Next(_) => BoundSense::PopulationMean,
            _ => BoundSense::Mean,
        };
        let multiplier = schedule.noise_multiplier.get();
        let noise_std = facts.noise_std(schedule.clip, multiplier) * (facts.records as f64 / read);
        let (gradients, values) = schedule.costs(facts, read);
        let terms = Terms::new(facts, budget, steps, spend.spend())
            .with_gradients(gradients)
            .with_clip(schedule.clip)
            .with_access(access)
            .with_unread(unread)
            .with_output(OutputRule::UniformBlock)
            .bounding_goldstein(settings.radius, sense);
        let terms = match settings.bounded {
            Some(bounded) => terms.of_smoothed(bounded.smoothing),
            None => terms,
        };
        let fresh = FreshReleases::new(noise_std).moved_in_blocks(schedule.block);
        Self {
            // What directions miss is in no certificate, and periods share their noise.
            terms: match (schedule.directions, schedule.period) {
                (None, None) => terms.with_fresh(fresh),
                _ => terms,
            },
            settings: *settings,
            schedule,
            values,
            accountant: None,
        }
    }

    /// The same, with this bound or none.
    pub(super) fn stating(mut self, bound: Option<f64>) -> Self {
        self.terms = self.terms.stating(bound);
        self
    }

    /// The same, calibrated by this accountant.
    pub(super) fn calibrated_by(self, accountant: Accountant) -> Self {
        let accountant = Some(accountant);
        Self { accountant, ..self }
    }

    /// Nominal number of per-record values, beside gradients.
    #[must_use]
    pub fn values(&self) -> f64 {
        self.values
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &GoldsteinSchedule {
        &self.schedule
    }

    /// What it is to find.
    #[must_use]
    pub fn settings(&self) -> &GoldsteinSettings {
        &self.settings
    }

    /// Who calibrated the multiplier of a sampled plan.
    #[must_use]
    pub fn accountant(&self) -> Option<Accountant> {
        self.accountant
    }

    /// Noise standard deviation per coordinate of a released gradient, or of one made of released slopes (there the root
    /// mean square over the coordinates); with periods, of the first of each.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        let facts = self.facts();
        let share = match self.schedule.batch {
            Batch::Poisson(rate) => rate.get(),
            Batch::FixedSize(size) | Batch::Next(size) => size as f64 / facts.records as f64,
            _ => 1.0,
        };
        let lifted = self.schedule.directions.map_or(1.0, |directions| {
            (facts.dim as f64 / directions.get() as f64).sqrt()
        });
        let schedule = &self.schedule;
        lifted * facts.noise_std(schedule.clip, schedule.noise_multiplier.get()) / share
    }
}
