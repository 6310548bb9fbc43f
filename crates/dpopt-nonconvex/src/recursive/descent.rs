//! Recursive regularisation with noisy gradient descent inside.

use dpopt_linalg::into_ball;
use dpopt_oracle::{AskError, Oracle, Running, Schedule};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Slice, Which};
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, Closing, Item, Needs, Plan, PlanError,
    ReleaseKind, RunError, Solver, Stop, Terms, Unit, Value, Walk,
};

use super::outline::{Given, Search, Solved, Task};
use super::{Centre, ConvexFacts, Outline, StageOutline, for_population, slices};

const NAME: &str = "recursive-gd";
/// Recursive regularisation with noisy gradient descent.
pub static RECURSIVE_GD: Solver = Solver {
    name: NAME,
    summary: "convex smooth losses",
    paper: "Arora et al. 2022 (arXiv 2206.00846), Algorithms 3 and 7",
    needs: Needs {
        radius: true,
        convex: true,
        positions: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::PopulationMean)),
    auto: Auto::Never(
        "it needs a radius, a claim that nobody is asked for, and its bound is on the population",
    ),
    theory_page: Some("theory/faster-rates.md#recursive-regularisation"),
    privacy_page: "privacy/estimator.md",
    planner: |facts, extra, budget, limits| {
        let facts = ConvexFacts {
            public: *facts,
            radius: extra.radius,
        };
        let plan = RecursiveGdPlan::new(&facts, budget, limits.max_steps)?;
        Ok(Box::new(plan))
    },
};

/// One stage of [`RecursiveGdPlan`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GdStage {
    /// Its slice, regulariser, ball and risk.
    pub outline: StageOutline,
    /// K noisy gradients, all on the stage's slice.
    pub steps: u64,
    /// eta.
    pub step_size: f64,
    /// sqrt(K)/mu.
    pub noise_multiplier: NoiseMultiplier,
    /// Standard deviation per coordinate of one mean gradient.
    pub noise_std: f64,
}

/// A plan for recursive regularisation with noisy gradient descent.
///
/// # Formula
/// Stage t reads n_t = n/T records K times: w <- P(w - eta (g + M (w - c))), g the noisy clipped mean gradient, P the
/// projection on the ball of radius R_t around the start. It returns the average of the K points after each
/// step with weights (1 - eta M)^-k. With kappa = (L1 + M)/M, D the distance from start to minimiser, A =
/// d s^2 L0^2/(M n_t^2 mu^2) and any rho > 1: K = ceil(kappa ln rho), eta = ln rho/(M K) <= 1/(L1 + M),
///
/// alpha = M D^2/(2 (rho - 1)) + A ln rho + 2 L0^2/(M n_t);
///
/// rho balances the terms. The outer bound is that of [`Outline`].
///
/// # Privacy
/// Each slice is charged K Gaussians of multiplier sqrt(K)/mu, exactly mu-GDP, and slices are disjoint:
/// mu-GDP as a whole. Regularisers, averages and projections are post-processing.
#[derive(Debug, Clone, PartialEq)]
pub struct RecursiveGdPlan {
    terms: Terms,
    convex: ConvexFacts,
    outline: Outline,
    stages: Vec<GdStage>,
}

impl RecursiveGdPlan {
    /// The plan with the least bound among those of at most `max_steps` steps a stage.
    ///
    /// # Errors
    /// [`PlanError::Vacuous`] when the bound is not below min(L0, sqrt(2 L1 F0), L1 R); [`PlanError::RadiusMissing`],
    /// [`PlanError::NotConvex`], [`PlanError::TooFewRecords`], [`PlanError::NeedsPositions`] under add/remove.
    pub fn new(facts: &ConvexFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::search(facts, budget, max_steps, Search::default())
    }

    /// As [`Self::new`], whatever the bound says.
    ///
    /// # Errors
    /// As [`Self::new`]; [`PlanError::Vacuous`] only when no plan keeps within `max_steps`.
    pub fn even_if_vacuous(
        facts: &ConvexFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        Self::search(facts, budget, max_steps, Search::even_if_vacuous())
    }

    /// The plan with the least bound whose weights grow by `growth`, in 1 + floor(log(L1/lambda)) stages, whatever
    /// the bound says: the paper's schedule, with its growth of 2.
    ///
    /// # Errors
    /// As [`Self::even_if_vacuous`]; [`PlanError::BadFact`] unless `growth` is above 1.
    pub fn with_growth(
        facts: &ConvexFacts,
        budget: &Budget,
        max_steps: u64,
        growth: f64,
    ) -> Result<Self, PlanError> {
        Self::search(facts, budget, max_steps, Search::with_growth(growth)?)
    }

    fn search(
        facts: &ConvexFacts,
        budget: &Budget,
        max_steps: u64,
        how: Search,
    ) -> Result<Self, PlanError> {
        let task = Task::new(NAME, facts, budget, 2)?;
        let (outline, plans) = task.search(how, |given| solve(&task, given, max_steps), |_| 1)?;
        let stages = outline.stages.iter().zip(plans).map(|(stage, inner)| {
            let noise_multiplier = NoiseMultiplier::new((inner.steps as f64).sqrt() / task.mu)?;
            let share = task.facts.adjacency.sum_sensitivity() * task.facts.lipschitz;
            Ok(GdStage {
                outline: *stage,
                steps: inner.steps,
                step_size: inner.step_size,
                noise_multiplier,
                noise_std: share * noise_multiplier.get() / stage.records as f64,
            })
        });
        let stages = stages.collect::<Result<Vec<_>, PlanError>>()?;
        let bound = outline.bound;
        let plan = Self::by_hand(facts, budget, outline, stages);
        Ok(Self {
            terms: plan.terms.stating(Some(bound)),
            ..plan
        })
    }

    /// A plan with other stages. It states no bound.
    #[must_use]
    pub fn by_hand(
        facts: &ConvexFacts,
        budget: &Budget,
        outline: Outline,
        stages: Vec<GdStage>,
    ) -> Self {
        let public = &facts.public;
        let steps = stages.iter().map(|stage| stage.steps).sum();
        let spend = stages
            .iter()
            .fold(Schedule::new(public.records), |all, stage| {
                all.slice(stage.noise_multiplier, stage.steps)
            })
            .spend();
        let of = |stage: &GdStage| stage.steps as f64 * stage.outline.records as f64;
        let terms = Terms::new(public, budget, steps, spend)
            .with_gradients(stages.iter().map(of).sum())
            .with_access(slices(stages.iter().map(|stage| stage.outline.records)))
            .with_unread(stages.iter().map(|stage| stage.outline.records).sum());
        Self {
            terms: for_population(terms),
            convex: *facts,
            outline,
            stages,
        }
    }

    /// What it was told beside the facts.
    #[must_use]
    pub fn convex_facts(&self) -> &ConvexFacts {
        &self.convex
    }

    /// The weights of the regularisers and the bound.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The stages.
    #[must_use]
    pub fn stages(&self) -> &[GdStage] {
        &self.stages
    }
}

impl Plan for RecursiveGdPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        Some(self.convex.items())
    }

    fn items(&self) -> Vec<Item<'_>> {
        let of = |stage: &GdStage| {
            vec![
                Item::plain("outline", Value::Group(stage.outline.items())),
                Item::count("steps", stage.steps),
                Item::number("step_size", stage.step_size, Unit::STEP_SIZE),
                Item::ratio("noise_multiplier", stage.noise_multiplier.get()),
                Item::number("noise_std", stage.noise_std, Unit::GRADIENT),
            ]
        };
        vec![
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::plain("outline", Value::Group(self.outline.items())),
            Item::plain("stages", Value::Rows(self.stages.iter().map(of).collect())),
        ]
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let clip = ClipNorm::new(self.clip()).map_err(RunError::Clip)?;
        Ok(Box::new(Descent {
            stages: self.stages.iter(),
            stage: None,
            running: Running::new(start.len(), clip),
            centre: Centre::new(start.len()),
            start: start.to_vec(),
            output: start.to_vec(),
        }))
    }

    fn trivial_bound(&self) -> f64 {
        self.convex.trivial_bound()
    }

    /// All slices cost the same, and the dearest counts: the first.
    fn share_spent(&self, step: u64) -> f64 {
        let first = self.stages.first().map_or(1, |stage| stage.steps.max(1));
        ((step + 1) as f64 / first as f64).min(1.0)
    }
}

struct Descent<'a> {
    /// Those to come.
    stages: std::slice::Iter<'a, GdStage>,
    stage: Option<Held<'a>>,
    running: Running,
    centre: Centre,
    start: Vec<f64>,
    /// The average so far.
    output: Vec<f64>,
}

/// A stage that has begun.
struct Held<'a> {
    plan: &'a GdStage,
    slice: Slice,
    done: u64,
    /// The sum of the weights over the last one: the weights themselves would overflow.
    total: f64,
}

impl Walk for Descent<'_> {
    fn ask(
        &mut self,
        _: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        if self.stage.is_none() {
            // The output of the last stage, from which this one starts, is the point.
            let Some(plan) = self.stages.find(|stage| stage.steps > 0) else {
                return Ok(Asked::Nothing(Stop::Completed));
            };
            let slice = oracle.books().take_slice(plan.outline.records)?;
            self.centre.add(plan.outline.weight, &self.output);
            self.stage = Some(Held {
                plan,
                slice,
                done: 0,
                total: 0.0,
            });
        }
        let Some(Held { plan, slice, .. }) = &self.stage else {
            return Ok(Asked::Nothing(Stop::Completed));
        };
        let (over, z) = (Which::Slice(slice), plan.noise_multiplier);
        let released = self.running.anchor(oracle, point, over, z)?;
        Ok(Asked::estimate(ReleaseKind::Anchor, released.estimate()))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        next.copy_from_slice(point);
        let Some(stage) = &mut self.stage else {
            return;
        };
        let GdStage {
            outline,
            steps,
            step_size,
            ..
        } = stage.plan;
        let decay = step_size * self.centre.modulus;
        for ((w, c), g) in next.iter_mut().zip(&self.centre.point).zip(gradient) {
            *w -= decay * (*w - c) + step_size * g;
        }
        into_ball(next, &self.start, outline.radius);
        stage.total = stage.total * (1.0 - decay) + 1.0;
        for (average, w) in self.output.iter_mut().zip(&*next) {
            *average += (w - *average) / stage.total;
        }
        stage.done += 1;
        if stage.done == *steps {
            next.copy_from_slice(&self.output);
            self.stage = None;
        }
    }

    /// The average, wherever the run was stopped.
    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        Ok(Closing::at(std::mem::take(&mut self.output)))
    }
}

struct Inner {
    steps: u64,
    step_size: f64,
}

/// The stage with the least risk, up to a constant factor in its smallest term.
fn solve(task: &Task<'_>, given: &Given, max_steps: u64) -> Option<Solved<Inner>> {
    let (n, modulus) = (given.records as f64, given.modulus);
    if given.records < 1 {
        return None;
    }
    let lipschitz = task.facts.lipschitz;
    let share = task.facts.adjacency.sum_sensitivity() * lipschitz / (n * task.mu);
    let noise = task.facts.dim as f64 * share * share / modulus;
    let sampling = 2.0 * lipschitz * lipschitz / (modulus * n);
    let distance = 0.5 * modulus * given.squared_distance;
    // B/(rho - 1) + A ln rho is least near rho = B/A; what is a tenth of the sampling error needs no more steps.
    let excess = (distance / (noise + 0.1 * sampling)).max(1.0);
    let log = excess.ln_1p();
    let condition = (task.facts.smoothness + modulus) / modulus;
    let steps = (condition * log).ceil().max(1.0);
    (steps <= max_steps as f64).then(|| Solved {
        risk: distance / excess + noise * log + sampling,
        overshoot: 0.0,
        plan: Inner {
            steps: steps as u64,
            step_size: log / (modulus * steps),
        },
    })
}
