//! Recursive regularisation with phases of output-perturbed passes inside: linear time.

use dpopt_oracle::{AskError, Batch, Level, Offers, Oracle, Pass, Schedule, pass_influence};
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, Item, Needs, Plan, PlanError, ReleaseKind,
    RunError, Solver, Stop, Terms, Unit, Value, Walk,
};

use super::outline::{Given, Search, Solved, Task};
use super::{Centre, ConvexFacts, Outline, StageOutline, for_population, slices};

const NAME: &str = "recursive-sgd";
/// Recursive regularisation with passes of stochastic gradient descent.
pub static RECURSIVE_SGD: Solver = Solver {
    name: NAME,
    summary: "convex smooth losses in one pass, one record after the other",
    paper: "Arora et al. 2022 (arXiv 2206.00846), Algorithms 3, 5 and 6",
    needs: Needs {
        radius: true,
        convex: true,
        positions: true,
        memory: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::PopulationMean)),
    auto: Auto::Never(
        "it needs a radius, a claim that nobody is asked for, and its bound is on the population",
    ),
    theory_page: Some("theory/faster-rates.md#recursive-regularisation"),
    privacy_page: "privacy/estimator.md#one-pass-with-output-perturbation",
    planner: |facts, extra, budget, _| {
        let facts = ConvexFacts {
            public: *facts,
            radius: extra.radius,
        };
        Ok(Box::new(RecursiveSgdPlan::new(&facts, budget)?))
    },
};

/// One phase: one pass over a slice of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassPlan {
    /// Records it reads.
    pub records: u64,
    /// eta_k = 4^(1-k) eta_1.
    pub step_size: f64,
    /// Standard deviation per coordinate of the noise on its output, rounding apart.
    pub noise_std: f64,
}

/// One stage of [`RecursiveSgdPlan`].
#[derive(Debug, Clone, PartialEq)]
pub struct SgdStage {
    /// Its records, regulariser, ball and risk.
    pub outline: StageOutline,
    /// Its phases.
    pub phases: Vec<PassPlan>,
}

/// A plan for recursive regularisation with phased stochastic gradient descent: one pass over the records.
///
/// # Formula
/// Stage t has phases k = 1, 2, ... of m_k = floor(n_t/2^k) unread records each, with step sizes eta_k = 4^(1-k) eta_1; phase k
/// releases the weighted average of its pass ([`dpopt_oracle::OutputPerturbed`]) with noise of standard deviation
/// sigma_k = s L0 eta_k i_k/mu, i_k = [`pass_influence`] (eta_k M, m_k). With r_k = (1 - eta_k M)^-m_k - 1:
///
/// alpha = M D^2/(2 r_1) + sum_k eta_k L0^2 + sum_{k>1} M d sigma_{k-1}^2/(2 r_k) + (L1 + M) d sigma_last^2/2,
///
/// for eta_1 <= 1/(L1 + M); eta_1 and the number of phases make it small. The outer bound is that of [`Outline`].
///
/// # Privacy
/// Every pass is one Gaussian release of multiplier 1/mu on a slice of its own: mu-GDP as a whole, **for losses
/// that are convex and smooth for every record**. `docs/privacy/estimator.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct RecursiveSgdPlan {
    terms: Terms,
    convex: ConvexFacts,
    outline: Outline,
    stages: Vec<SgdStage>,
    noise_multiplier: NoiseMultiplier,
}

impl RecursiveSgdPlan {
    /// The plan with the least bound.
    ///
    /// # Errors
    /// As [`super::RecursiveGdPlan::new`].
    pub fn new(facts: &ConvexFacts, budget: &Budget) -> Result<Self, PlanError> {
        Self::search(facts, budget, Search::default())
    }

    /// As [`Self::new`], whatever the bound says.
    ///
    /// # Errors
    /// As [`super::RecursiveGdPlan::new`], [`PlanError::Vacuous`] excepted.
    pub fn even_if_vacuous(facts: &ConvexFacts, budget: &Budget) -> Result<Self, PlanError> {
        Self::search(facts, budget, Search::even_if_vacuous())
    }

    /// The plan with the least bound whose weights grow by `growth`, in 1 + floor(log(L1/lambda)) stages, whatever
    /// the bound says: the paper's schedule, with its growth of 2.
    ///
    /// # Errors
    /// As [`Self::even_if_vacuous`]; [`PlanError::BadFact`] unless `growth` is above 1.
    pub fn with_growth(
        facts: &ConvexFacts,
        budget: &Budget,
        growth: f64,
    ) -> Result<Self, PlanError> {
        Self::search(facts, budget, Search::with_growth(growth)?)
    }

    fn search(facts: &ConvexFacts, budget: &Budget, how: Search) -> Result<Self, PlanError> {
        let task = Task::new(NAME, facts, budget, 2)?;
        let (outline, plans) = task.search(how, |given| solve(&task, given), Vec::len)?;
        let stages = outline.stages.iter().zip(plans);
        let stages = stages
            .map(|(stage, phases)| SgdStage {
                outline: *stage,
                phases,
            })
            .collect();
        let noise_multiplier = NoiseMultiplier::new(1.0 / task.mu)?;
        let bound = outline.bound;
        let plan = Self::by_hand(facts, budget, outline, stages, noise_multiplier);
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
        stages: Vec<SgdStage>,
        noise_multiplier: NoiseMultiplier,
    ) -> Self {
        let public = &facts.public;
        let level = Level {
            batch: Batch::Next(1),
            noise_multiplier,
        };
        let passes = stages.iter().map(|stage| stage.phases.len() as u64).sum();
        let spend = Schedule::new(public.records)
            .releases(level, passes)
            .spend();
        let records = || {
            let phases = stages.iter().flat_map(|stage| &stage.phases);
            phases.map(|phase| phase.records)
        };
        let terms = Terms::new(public, budget, passes, spend)
            // One for each record that it reads.
            .with_gradients(records().map(|records| records as f64).sum())
            .with_access(slices(records()))
            .with_unread(records().sum());
        Self {
            terms: for_population(terms),
            convex: *facts,
            outline,
            noise_multiplier,
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
    pub fn stages(&self) -> &[SgdStage] {
        &self.stages
    }

    /// Noise multiplier of every pass, 1/mu.
    #[must_use]
    pub fn noise_multiplier(&self) -> NoiseMultiplier {
        self.noise_multiplier
    }
}

impl Plan for RecursiveSgdPlan {
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
        let phase = |phase: &PassPlan| {
            vec![
                Item::count("records", phase.records),
                Item::number("step_size", phase.step_size, Unit::STEP_SIZE),
                Item::number("noise_std", phase.noise_std, Unit::LENGTH),
            ]
        };
        let stage = |stage: &SgdStage| {
            let phases = stage.phases.iter().map(phase).collect();
            vec![
                Item::plain("outline", Value::Group(stage.outline.items())),
                Item::plain("phases", Value::Rows(phases)),
            ]
        };
        vec![
            Item::plain("outline", Value::Group(self.outline.items())),
            Item::plain(
                "stages",
                Value::Rows(self.stages.iter().map(stage).collect()),
            ),
            Item::ratio("noise_multiplier", self.noise_multiplier.get()),
        ]
    }

    fn needs(&self) -> Offers {
        Offers::PASSES
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(InPasses {
            plan: self,
            stage: 0,
            phase: 0,
            centre: Centre::new(start.len()),
            start: start.to_vec(),
            released: Vec::new(),
        }))
    }

    fn trivial_bound(&self) -> f64 {
        self.convex.trivial_bound()
    }

    /// Each record is read once: the run costs what its first pass does.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}

struct InPasses<'a> {
    plan: &'a RecursiveSgdPlan,
    stage: usize,
    /// The next phase of the stage.
    phase: usize,
    centre: Centre,
    start: Vec<f64>,
    released: Vec<f64>,
}

impl InPasses<'_> {
    /// The next phase and its stage; none where all are done.
    fn next(&mut self) -> Option<(&StageOutline, &PassPlan)> {
        while self.phase >= self.plan.stages.get(self.stage)?.phases.len() {
            (self.stage, self.phase) = (self.stage + 1, 0);
        }
        let stage = &self.plan.stages[self.stage];
        Some((&stage.outline, &stage.phases[self.phase]))
    }
}

impl Walk for InPasses<'_> {
    fn ask(
        &mut self,
        _: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let Some((&outline, &phase)) = self.next() else {
            return Ok(Asked::Nothing(Stop::Completed));
        };
        if self.phase == 0 {
            self.centre.add(outline.weight, point);
        }
        let pass = Pass {
            start: point,
            centre: &self.centre.point,
            modulus: self.centre.modulus,
            step_size: phase.step_size,
            origin: &self.start,
            radius: outline.radius,
            records: phase.records,
        };
        let released = oracle.pass(&pass, self.plan.noise_multiplier)?;
        self.released = released.mean;
        self.phase += 1;
        Ok(Asked::Estimate {
            at: None,
            kind: ReleaseKind::Pass,
            gradient: &self.released,
            noise_std: released.noise_std,
        })
    }

    fn step(&mut self, _: &[f64], released: &[f64], next: &mut [f64]) {
        next.copy_from_slice(released);
    }
}

/// The phases of one stage and their risk.
fn solve(task: &Task<'_>, given: &Given) -> Option<Solved<Vec<PassPlan>>> {
    let first = given.records / 2;
    if first == 0 {
        return None;
    }
    let (m, modulus, dim) = (first as f64, given.modulus, task.facts.dim as f64);
    let lipschitz = task.facts.lipschitz;
    let smooth = task.facts.smoothness + modulus;
    let share = task.facts.adjacency.sum_sensitivity() * lipschitz / task.mu;
    let distance = 0.5 * modulus * given.squared_distance;
    // What the other terms cost for each unit of ln rho, rho = e^(eta_1 M m_1); then B/(rho - 1) + C ln rho is least
    // near rho = B/C.
    let slope = (4.0 / 3.0 * lipschitz * lipschitz + 8.0 * dim * share * share / m) / (modulus * m);
    let log = (distance / slope)
        .max(1.0)
        .ln_1p()
        .min(modulus * m / smooth);
    let mut step_size = log / (modulus * m);
    let (mut records, mut before, mut risk) = (first, 0.0, 0.0);
    let mut phases: Vec<PassPlan> = Vec::new();
    let mut best: Option<(f64, usize)> = None;
    while records > 0 {
        let decay = (step_size * modulus).min(1.0);
        // (1 - eta M)^-m - 1; infinite where one step does it all.
        let rate = (-(records as f64) * (-decay).ln_1p()).exp_m1();
        let start = if phases.is_empty() {
            distance
        } else {
            0.5 * modulus * dim * before
        };
        risk += start / rate + step_size * lipschitz * lipschitz;
        let noise_std = share * step_size * pass_influence(decay, records);
        before = noise_std * noise_std;
        let whole = risk + 0.5 * smooth * dim * before;
        phases.push(PassPlan {
            records,
            step_size,
            noise_std,
        });
        if best.is_none_or(|(least, _)| whole < least) {
            best = Some((whole, phases.len()));
        } else {
            break;
        }
        records /= 2;
        step_size *= 0.25;
    }
    let (risk, count) = best?;
    phases.truncate(count);
    let last = phases.last()?.noise_std;
    risk.is_finite().then(|| Solved {
        risk,
        overshoot: last * (dim.sqrt() + 6.0),
        plan: phases,
    })
}
