//! Plans whose estimates are recursive.

use std::num::{NonZeroU64, NonZeroUsize};

use dpopt_oracle::{Batch, SmoothedFields};
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::{Budget, PlanError, PublicFacts};

use super::periods::{Best, Charged, Periodic, Reads, smoothing_constant};
use super::plan::{GoldsteinPlan, PASS, RECURSIVE, name_of};
use super::planner::{Task, least_that_fits};
use super::schedule::{
    GoldsteinAsks, GoldsteinPeriod, GoldsteinSchedule, GoldsteinSettings, MOST_NUMBERS,
};

impl Task<'_> {
    fn periodic(&self, reads: Reads, charged: Charged, fields: SmoothedFields) -> Periodic<'_> {
        Periodic {
            facts: &self.facts,
            mu: self.mu,
            radius: self.settings.radius,
            reads,
            charged,
            fields,
            constant: smoothing_constant(self.facts.dim),
        }
    }

    /// How all records are read in at most `most` steps. Making frames is to take no longer than the values along them.
    fn all(&self, most: u64) -> Reads {
        let (n, d) = (self.facts.records.max(1), self.facts.dim as u64);
        let frames = (n / (d + 25)).max(16).min(n);
        Reads::All {
            most: most.min(self.most_steps()),
            offsets: n.min(MOST_NUMBERS / (d + 2)).max(1),
            frames: frames.min(MOST_NUMBERS / d.saturating_mul(d).max(1)).max(1),
        }
    }

    /// Steps on all records: where fresh estimates take as many their noise is as long as L.
    fn most_steps(&self) -> u64 {
        let s = self.facts.adjacency.sum_sensitivity();
        let noise = self.facts.records as f64 * self.mu / s;
        ((noise * noise / self.facts.dim as f64) as u64).max(2)
    }

    fn all_in_periods(&self, max_steps: u64) -> Periodic<'_> {
        let reads = self.all(max_steps.max(2));
        self.periodic(reads, Charged::AsNoise, SmoothedFields::Gradients)
    }

    /// The plan of a walk in periods.
    fn in_periods(&self, periodic: &Periodic<'_>, best: &Best) -> Result<GoldsteinPlan, PlanError> {
        let Best { len, shape, .. } = *best;
        let (anchor, change, offsets, frames) = match periodic.reads {
            Reads::Slices => {
                let (anchor, change) = (shape.anchor as u64, shape.change as u64);
                let most = anchor.max(change);
                (Batch::Next(anchor), Batch::Next(change), most, most)
            }
            Reads::All {
                offsets, frames, ..
            } => (Batch::All, Batch::All, offsets, frames),
        };
        let count = |count: u64| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
        };
        let cap = periodic.cap(&shape);
        let planned = cap / (best.worth.size * shape.block.sqrt());
        let lipschitz = self.facts.lipschitz;
        let schedule = GoldsteinSchedule {
            steps: shape.steps as u64,
            block: shape.block as u64,
            cap,
            step_size: planned,
            smoothing: shape.smoothing,
            batch: anchor,
            directions: None,
            period: Some(GoldsteinPeriod {
                len,
                changes: change,
                prefix: best.prefix,
                noise_multiplier: NoiseMultiplier::new(best.worth.change_multiplier)?,
                lipschitz,
                fields: periodic.fields,
                offsets: count(offsets),
                frames: count(frames),
            }),
            clip: lipschitz * periodic.anchor_clip().0,
            noise_multiplier: NoiseMultiplier::new(best.worth.anchor_multiplier)?,
        };
        let plan = GoldsteinPlan::by_hand(&self.facts, self.budget, self.settings, schedule);
        Ok(plan.stating(Some(best.worth.bound)))
    }

    /// The plan of `best`, or a refusal.
    fn planned(
        &self,
        solver: &'static str,
        periodic: &Periodic<'_>,
        best: Option<Best>,
        needed: impl FnOnce() -> Option<u64>,
    ) -> Result<GoldsteinPlan, PlanError> {
        let bound = best.map_or(f64::INFINITY, |best| best.worth.bound);
        match best.filter(|best| best.worth.bound < self.facts.trivial_bound()) {
            Some(best) => self.in_periods(periodic, &best),
            None => Err(self.vacuous(solver, bound, needed())),
        }
    }

    /// The plan for one pass in periods, where it is asked for or better than `fresh`.
    pub(super) fn one_pass_in_periods(
        &self,
        fresh: f64,
    ) -> Option<Result<GoldsteinPlan, PlanError>> {
        let asked = self.settings.period.map(NonZeroU64::get);
        if asked == Some(1) {
            return None;
        }
        if let Err(refused) = self.fits_periods(PASS) {
            return asked.map(|_| Err(refused));
        }
        let gradients = SmoothedFields::Gradients;
        let periodic = self.periodic(Reads::Slices, Charged::AsNoise, gradients);
        let best = periodic.best(asked);
        let better = best.is_some_and(|best| best.worth.bound < fresh);
        let best = best.filter(|_| better || asked.is_some());
        (asked.is_some() || better).then(|| self.planned(PASS, &periodic, best, || None))
    }

    /// Theorem 3 is about gradients, and one frame has to fit.
    fn fits_periods(&self, solver: &'static str) -> Result<(), PlanError> {
        let dim = self.facts.dim;
        if self.settings.asks != GoldsteinAsks::Gradients {
            let what = "slopes along shared directions".to_owned();
            return Err(PlanError::NoPeriods { solver, what });
        }
        if (dim as u128).pow(2) > u128::from(MOST_NUMBERS) {
            let what = format!(
                "frames of {dim} x {dim} numbers, and no more than {MOST_NUMBERS} are drawn for a release,"
            );
            return Err(PlanError::NoPeriods { solver, what });
        }
        Ok(())
    }

    /// What all plans in periods need. Frames and offsets go by position.
    fn check_periods(&self, solver: &'static str) -> Result<(), PlanError> {
        self.fits_periods(solver)?;
        let of = (self.facts.adjacency, self.facts.records);
        PlanError::positions(solver, of, |_| None)
    }
}

/// # Walks in periods
/// At the first of Sigma steps the gradient of the smoothed loss is asked for, from one gradient of each record at an offset
/// of its own; at the others its change since the step before, from slopes along a frame of its own at both ends.
///
/// G0_j^2 = L^2/B1 + d (s L z1/B1)^2 + (j - 1) (7/6) d L^2 D^2/(a^2 B2) + d V_{j-1} (2 s sqrt(d) L D z2/(a B2))^2
///
/// is the mean squared error at step j of a period; on all records B1 and B2 are the numbers of offsets and frames in the
/// sampling terms and n in the others, and moves count as they are: (7/6) D^2 for (2 D)^2. Then with G0^2 the mean of G0_j^2,
/// e_1 = 0, e_{j+1} = e_j + eta G0_j + eta (c_d L/a) (e_1 + ... + e_j)
///
/// E (Goldstein distance at r) <= F0'/(D T) + (L + G0)/sqrt M + G0 sqrt(Sigma/M) + mean(G0_j min(1, e_j/D)) + 2 c.
///
/// (`docs/theory/goldstein.md`, Theorem 3.)
impl GoldsteinPlan {
    /// The plan with the least bound in one pass, for the population that the records were drawn from: each step reads unread
    /// records. Estimates are fresh at every step, or in periods where that is better: see [`GoldsteinPlan::recursive`].
    /// (Periods need gradients and a Lipschitz constant.)
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`]; [`PlanError::NeedsPositions`] under add-remove; [`PlanError::NoPeriods`] where periods were asked for and
    /// can't be.
    pub fn single_pass(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings, Batch::Next(1))?;
        let found = task.over_slices();
        let batch = Batch::Next(found.map_or(1, |found| found.batch));
        let name = name_of(batch, settings.asks != GoldsteinAsks::Gradients);
        PlanError::positions(name, (facts.adjacency, facts.records), |_| {
            found.map(|found| found.block.steps)
        })?;
        let fresh = found.map_or(f64::INFINITY, |found| found.block.bound);
        if let Some(plan) = task.one_pass_in_periods(fresh) {
            return plan;
        }
        let multiplier = |_| Ok(NoiseMultiplier::new(1.0 / task.mu)?);
        task.plan(batch, found, multiplier, || {
            least_that_fits(facts.records, |records| {
                task.says_something(task.of(records).over_slices())
            })
        })
    }

    /// The plan with the least bound on all records by recursive estimates with noise by actual moves, in at most
    /// `max_steps` steps and no more than [`GoldsteinPlan::new`] takes: Algorithm 4 of arXiv 2410.05880, with gradients at
    /// anchors.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::new`]; [`PlanError::NeedsPositions`] under add-remove; [`PlanError::NoPeriods`] for other steps, slopes, and
    /// more dimensions than a frame may have.
    pub fn recursive(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings, Batch::All)?;
        task.check_periods(RECURSIVE)?;
        let asked = settings.period.map(NonZeroU64::get);
        let periodic = task.all_in_periods(max_steps);
        task.planned(RECURSIVE, &periodic, periodic.best(asked), || {
            least_that_fits(facts.records, |records| {
                let task = task.of(records);
                let best = task.all_in_periods(max_steps).best(asked);
                best.is_some_and(|best| best.worth.bound < task.facts.trivial_bound())
            })
        })
    }

    /// Theorem 4.1 of arXiv 2410.05880 by its own T, Sigma and alpha and with its own bound, both repaired (errata E3, E5, E7, E8):
    /// all records, T = F0 L^2/(alpha beta^3), Sigma = max(1, L^2/(beta^2 sqrt d)) and alpha = r/2, at the beta where
    ///
    /// F0'/(D T) + (L + G0)/sqrt M + 2 G0
    ///
    /// is least, noise charged as a bias. For comparisons: [`GoldsteinPlan::new`] is better.
    ///
    /// Changed in its favour: gradients at anchors, noise of changes by their actual moves, shares of the budget by which the noise is least,
    /// and M the most whole periods in 2 L^2/beta^2 - 1 steps, with D = r/(M + 1), which is alpha beta^2/L^2 or little more.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::recursive`].
    pub fn paper_multi(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::of_paper((facts, budget, settings), max_steps, |periodic| {
            periodic.by_accuracy()
        })
    }

    /// The plan with the least of the bounds of [`GoldsteinPlan::paper_multi`] in at most `max_steps` steps: D, T and Sigma are free,
    /// and M is the most that fits. For comparisons.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::recursive`].
    pub fn paper_multi_within(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let asked = settings.period.map(NonZeroU64::get);
        Self::of_paper((facts, budget, settings), max_steps, |periodic| {
            periodic.best(asked)
        })
    }

    /// On all records, with noise charged as a bias.
    fn of_paper(
        (facts, budget, settings): (&PublicFacts, &Budget, &GoldsteinSettings),
        max_steps: u64,
        best: impl FnOnce(&Periodic<'_>) -> Option<Best>,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings, Batch::All)?;
        task.check_periods(RECURSIVE)?;
        let reads = task.all(max_steps);
        let periodic = task.periodic(reads, Charged::AsBias, SmoothedFields::Gradients);
        task.planned(RECURSIVE, &periodic, best(&periodic), || None)
    }

    /// Theorems 3.1 (from values) and 6.1 (from gradients at anchors) of arXiv 2410.05880 by their own batches and with their
    /// own bound, repaired, and with the best prefix noise (Toeplitz, say) for its trees: one pass, B1 = Sigma, B2 = 1, r/2 for the smoothing and for the blocks, D and Sigma where the bound
    /// of [`GoldsteinPlan::paper_multi`] is least. For comparisons: [`GoldsteinPlan::single_pass`] is better.
    ///
    /// # Errors
    /// As [`GoldsteinPlan::single_pass`].
    pub fn paper_single(
        facts: &PublicFacts,
        budget: &Budget,
        settings: &GoldsteinSettings,
        fields: SmoothedFields,
    ) -> Result<Self, PlanError> {
        let task = Task::new(facts, budget, settings, Batch::Next(1))?;
        task.check_periods(PASS)?;
        let periodic = task.periodic(Reads::Slices, Charged::AsBias, fields);
        let best = periodic.best(settings.period.map(NonZeroU64::get));
        task.planned(PASS, &periodic, best, || None)
    }
}
