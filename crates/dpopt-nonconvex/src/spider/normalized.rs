//! Private Spider with steps of a fixed length, on all records.
//!
//! The estimator of [`crate::SpiderBoostPlan`], and the step of Fang, Li, Lin, Zhang, "SPIDER: Near-Optimal
//! Non-Convex Optimization via Stochastic Path Integrated Differential Estimator" (arXiv 1807.01695, Option I): along
//! the estimate, of a length that the plan fixes, shorter where the estimate is below a public floor. Arora et al.
//! (arXiv 2206.00846) name the variant and don't specify it; the bound is derived in `docs/theory/faster-rates.md`.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::search::steps_up_to;
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, OutputRule, Plan, PlanError,
    PublicFacts, RunError, Solver, Terms, Unit, Walk,
};

use super::{PhasedEstimate, Phases, descend};

const SOLVER: &str = "normalized-spider";
/// Private Spider with steps of a fixed length.
pub static NORMALIZED_SPIDER: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses",
    paper: "Fang et al. 2018 (arXiv 1807.01695), Option I; named in arXiv 2206.00846",
    needs: Needs::NOTHING,
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::Mean)),
    auto: Auto::ByBound,
    theory_page: Some("theory/faster-rates.md#steps-of-a-fixed-length"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, _, budget, limits| {
        let plan = NormalizedSpiderPlan::new(facts, budget, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};
/// Ratio of neighbouring trial values of T.
const GRID_RATIO: f64 = 1.02;
/// Ratio of neighbouring trial values of the path.
const PATH_RATIO: f64 = 1.02;
/// The plan takes the fewest steps whose bound is within this factor of the best: beyond some number more steps only
/// cost.
const NEARLY: f64 = 1.001;

/// A plan for private Spider with steps of a fixed length.
///
/// # Formula
/// Steps t = 0..T, anchors where q divides t (N1 of them), variations elsewhere (N2); s = 2 under replace-one, else 1;
/// mu1^2 + mu2^2 = mu^2:
///
/// - w_{t+1} = w_t - rho g_t/max(||g_t||, alpha): of length rho where ||g_t|| >= alpha, else shorter;
/// - anchor noise sigma1 = s L0 sqrt(N1)/(n mu1) per coordinate;
/// - variation noise at most sigma2 = s lambda sqrt(N2)/(n mu2), lambda = min(L1 rho, 2 L0) the largest clip radius:
///   known before the run;
/// - r^2 = d sigma1^2 + d sigma2^2 (mean of t mod q over t < T);
/// - E||grad F(w)|| <= F0/(rho T) + max(alpha, L1 rho)/2 + r^2/(2 alpha) for w uniform on w_0..w_{T-1}.
///
/// The planner minimises the right-hand side over T, rho, q, the split of mu and alpha = max(r, L1 rho), and takes the
/// fewest steps within 0.1 % of the minimum.
///
/// # Privacy
/// N1 + N2 Gaussian releases on all records with two noise multipliers, exactly mu-GDP.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizedSpiderPlan {
    terms: Terms,
    schedule: NormalizedSpiderSchedule,
}

/// What a [`NormalizedSpiderPlan`] does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalizedSpiderSchedule {
    /// Number of steps T.
    pub steps: u64,
    /// Phase length q.
    pub phase: u64,
    /// rho: length of a step.
    pub step_length: f64,
    /// alpha: along an estimate that is shorter the step is shorter than rho in proportion. With 0 every step has length rho,
    /// and the bound does not hold.
    pub floor: f64,
    /// Per-record clip radius of an anchor, L0.
    pub clip: f64,
    /// Noise multiplier of an anchor.
    pub anchor_noise_multiplier: NoiseMultiplier,
    /// Noise multiplier of a variation; that of an anchor when there is none.
    pub variation_noise_multiplier: NoiseMultiplier,
    /// Which point is returned; the bound is for [`OutputRule::Uniform`].
    pub output: OutputRule,
}

impl NormalizedSpiderSchedule {
    fn phases(&self) -> Phases {
        Phases {
            steps: self.steps,
            phase: self.phase,
            anchor: self.anchor_noise_multiplier,
            variation: self.variation_noise_multiplier,
        }
    }

    /// Number of anchors N1.
    #[must_use]
    pub fn anchors(&self) -> u64 {
        self.phases().anchors()
    }

    /// Number of variations N2.
    #[must_use]
    pub fn variations(&self) -> u64 {
        self.phases().variations()
    }
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    steps: u64,
    phase: u64,
    share: f64,
    length: f64,
    floor: f64,
    bound: f64,
}

impl NormalizedSpiderPlan {
    /// The plan with the least bound, up to 0.1 %, among those of at most `max_steps` steps.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0)).
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        facts.check()?;
        let mu = budget.mu()?.get();
        let best = search(facts, mu, max_steps.max(1));
        facts.useful(SOLVER, best.bound, mu)?;
        let anchors = best.steps.div_ceil(best.phase);
        let [anchor, variation] =
            Phases::multipliers(anchors, best.steps - anchors, best.share, mu);
        let schedule = NormalizedSpiderSchedule {
            steps: best.steps,
            phase: best.phase,
            step_length: best.length,
            floor: best.floor,
            clip: facts.lipschitz,
            anchor_noise_multiplier: NoiseMultiplier::new(anchor)?,
            variation_noise_multiplier: NoiseMultiplier::new(variation)?,
            output: OutputRule::Uniform,
        };
        let plan = Self::by_hand(facts, budget, schedule);
        Ok(Self {
            terms: plan.terms.stating(Some(best.bound)),
            ..plan
        })
    }

    /// A plan with another schedule. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        schedule: NormalizedSpiderSchedule,
    ) -> Self {
        let phases = schedule.phases();
        Self {
            terms: Terms::new(facts, budget, schedule.steps, phases.spend(facts))
                .with_gradients(phases.gradients(facts))
                .with_clip(schedule.clip)
                .with_output(schedule.output)
                .bounding(BoundedQuantity::GradientNorm, BoundSense::Mean),
            schedule,
        }
    }

    /// What it does.
    #[must_use]
    pub fn schedule(&self) -> &NormalizedSpiderSchedule {
        &self.schedule
    }

    /// Share of mu^2 that the anchors get.
    #[must_use]
    pub fn anchor_share(&self) -> f64 {
        self.schedule.phases().anchor_share()
    }

    /// lambda: the largest clip radius of a variation.
    #[must_use]
    pub fn change_radius(&self) -> f64 {
        change_radius(self.facts(), self.schedule.step_length)
    }

    /// sigma1: noise per coordinate of an anchor.
    #[must_use]
    pub fn anchor_noise_std(&self) -> f64 {
        let z = self.schedule.anchor_noise_multiplier.get();
        self.facts().noise_std(self.schedule.clip, z)
    }

    /// sigma2: noise per coordinate of a variation after a step of length rho.
    #[must_use]
    pub fn variation_noise_std(&self) -> f64 {
        let z = self.schedule.variation_noise_multiplier.get();
        self.facts().noise_std(self.change_radius(), z)
    }
}

impl Plan for NormalizedSpiderPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let schedule = &self.schedule;
        let gradient = |name, value| Item::number(name, value, Unit::GRADIENT);
        let mut items = schedule.phases().items(self.anchor_share());
        items.extend([
            Item::number("step_length", schedule.step_length, Unit::LENGTH),
            gradient("floor", schedule.floor),
            gradient("clip", schedule.clip),
            gradient("change_radius", self.change_radius()),
            gradient("anchor_noise_std", self.anchor_noise_std()),
            gradient("variation_noise_std", self.variation_noise_std()),
            Item::word("output", schedule.output),
        ]);
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let NormalizedSpiderSchedule {
            step_length,
            floor,
            clip,
            ..
        } = self.schedule;
        Ok(Box::new(Spider {
            estimate: PhasedEstimate::new(self.schedule.phases(), start.len(), clip)?,
            step_length,
            floor,
        }))
    }

    fn share_spent(&self, step: u64) -> f64 {
        let variation = self.schedule.variation_noise_multiplier.get().powi(-2);
        self.schedule.phases().share_spent(step, variation)
    }
}

struct Spider {
    estimate: PhasedEstimate,
    step_length: f64,
    floor: f64,
}

impl Walk for Spider {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.estimate.ask(step, point, oracle)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let length = norm(gradient).max(self.floor);
        // An estimate of zero points nowhere.
        let scale = if length > 0.0 {
            self.step_length / length
        } else {
            0.0
        };
        descend(point, scale, gradient, next);
    }
}

fn change_radius(facts: &PublicFacts, length: f64) -> f64 {
    (facts.smoothness * length).min(2.0 * facts.lipschitz)
}

fn search(facts: &PublicFacts, mu: f64, max_steps: u64) -> Candidate {
    let mut all: Vec<Candidate> = Vec::new();
    // Below this path F0/(rho T) alone says nothing.
    let least = facts.initial_gap / facts.trivial_bound();
    // Of the best so far: it grows with T until it stays.
    let mut around = least;
    for steps in steps_up_to(max_steps, GRID_RATIO) {
        // The best path is a continuous function of T: a climb from the last one finds it.
        let at = |path: f64| best_phase(facts, mu, steps, path / steps as f64);
        let mut best = at(around);
        for ratio in [PATH_RATIO, 1.0 / PATH_RATIO] {
            loop {
                let path = around * ratio;
                let next = at(path);
                if path < least || !(next.bound < best.bound) {
                    break;
                }
                (around, best) = (path, next);
            }
        }
        all.push(best);
        // More steps are of no use once the floor is well above L1 rho.
        if best.floor > 8.0 * facts.smoothness * best.length {
            break;
        }
    }
    let least = all.iter().map(|c| c.bound).fold(f64::INFINITY, f64::min);
    let cheapest = all.iter().find(|c| c.bound <= least * NEARLY);
    cheapest.copied().unwrap_or(Candidate {
        steps: 1,
        phase: 1,
        share: 1.0,
        length: least,
        floor: facts.lipschitz,
        bound: f64::INFINITY,
    })
}

/// The best phase length and split for steps of this number and length.
fn best_phase(facts: &PublicFacts, mu: f64, steps: u64, length: f64) -> Candidate {
    let radius = change_radius(facts, length);
    let phases = steps as f64 * radius / (std::f64::consts::SQRT_2 * facts.lipschitz);
    let tries = [phases.floor(), phases.ceil(), 1.0, steps as f64];
    let candidates = tries.map(|phases| {
        let phases = (phases as u64).clamp(1, steps);
        with_phase(facts, mu, steps, length, steps.div_ceil(phases))
    });
    let [first, rest @ ..] = candidates;
    rest.into_iter().fold(
        first,
        |best, next| {
            if next.bound < best.bound { next } else { best }
        },
    )
}

fn with_phase(facts: &PublicFacts, mu: f64, steps: u64, length: f64, phase: u64) -> Candidate {
    let radius = change_radius(facts, length);
    let anchors = steps.div_ceil(phase);
    let variations = (steps - anchors) as f64;
    let unit = facts.noise_std(1.0, 1.0 / mu) * (facts.dim as f64).sqrt();
    // Roots of what the two kinds of release add to r^2 where each has all of mu.
    let fresh = unit * facts.lipschitz * (anchors as f64).sqrt();
    let drift = unit * radius * (variations * mean_age(steps, phase)).sqrt();
    // A^2/m + B^2/(1 - m) is least at m = A/(A + B), where it is (A + B)^2.
    let error = fresh + drift;
    let reach = facts.smoothness * length;
    let floor = error.max(reach);
    Candidate {
        steps,
        phase,
        share: fresh / error,
        length,
        floor,
        bound: facts.initial_gap / (length * steps as f64)
            + 0.5 * floor
            + 0.5 * error * error / floor,
    }
}

/// The mean of t mod q over t < T.
fn mean_age(steps: u64, phase: u64) -> f64 {
    let (full, rest) = ((steps / phase) as f64, (steps % phase) as f64);
    let q = phase as f64;
    (full * q * (q - 1.0) + rest * (rest - 1.0)).max(0.0) / (2.0 * steps as f64)
}
