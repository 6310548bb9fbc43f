//! One row of the table: a solver planned, run, certified and scored.

use dpopt::certify::{GlmMean, GradientNormPlan, auc, first_order};
use dpopt::nonconvex::{
    Batches, Budget, DP_MF, DP_MF_SAMPLED, DP_SGD, DpMfPlan, DpMfSettings, DpSgdPlan,
    DpSgdSchedule, ExtraFacts, GlmRun, JlBranch, JlFacts, JlPlan, Limits, NOISY_GD,
    NOISY_GD_THEORY, NoObserver, NoisyGdPlan, Plan, PlanError, PublicFacts, SOLVERS, SPIDERBOOST,
    Solver,
};
use dpopt::oracle::{Glm, PrivateMean};
use dpopt::privacy::{Accountant, ClipNorm, Curator, Delta, Epsilon, Event, Mu, SamplingRate};

use dpopt_benches::census::{Failure, seed};
use dpopt_benches::release::timed;

use crate::data::Census;
use crate::options::Options;

const DELTA: f64 = 1e-6;
/// The certificate's mu over the run's: both together cost a factor sqrt(1.01) of the run's mu.
const CERTIFICATE_SHARE: f64 = 0.1;
/// Error probability of the certificate's interval.
const FAILURE: f64 = 0.05;
/// Plans cut nothing: no run is that long.
const MAX_STEPS: u64 = 1_000_000_000_000;
/// A row whose first run is shorter, in seconds, is run more than once.
const CHEAP: f64 = 30.0;
/// A plan on projected rows, which are dense, that reads more entries is run only with `--all`: some hours.
const MOST_ENTRIES: f64 = 6e11;
/// Seed of the projections: public, from nowhere.
const MAP_SEED: u64 = 7;
/// Plans are timed at least so often.
const TIMES: usize = 5;

/// A loss and a budget on the data.
pub(crate) struct Setting<'a> {
    data: &'a Census,
    pub(crate) loss: Glm,
    pub(crate) facts: PublicFacts,
    pub(crate) budget: Budget,
    pub(crate) certificate: GradientNormPlan,
    /// Exact gradient norm at the starting point.
    pub(crate) at_start: f64,
    threads: std::num::NonZeroUsize,
}

/// What is planned in a row.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// With a claimed radius, where one is needed.
    Plain(&'static Solver, Option<f64>),
    /// The branch with the least bound, the identity included.
    Projected(&'static Solver),
    /// Without a claim about the rank, and with a projection.
    RankFree(&'static Solver),
    /// The steps of the plan of dp-sgd, on samples of such a size or on slices so often that so many passes are made.
    Passes(&'static Solver, u64),
    /// As dp-sgd in so many passes, in epochs over batches to which the records are allocated.
    Allocated(u64),
}

/// A plan, over a projection or without.
enum Made {
    Plain(Box<dyn Plan>),
    Projected(Box<JlPlan>),
}

impl Made {
    fn plan(&self) -> &dyn Plan {
        match self {
            Made::Plain(plan) => &**plan,
            Made::Projected(plan) => &**plan,
        }
    }
}

/// A row.
pub(crate) struct Row {
    pub(crate) name: String,
    /// Median, in milliseconds.
    pub(crate) plan_ms: f64,
    pub(crate) result: Result<Planned, String>,
}

/// A plan and its runs.
pub(crate) struct Planned {
    pub(crate) bound: Option<f64>,
    pub(crate) steps: u64,
    /// Passes over the data, by the plan.
    pub(crate) passes: f64,
    /// Of run and certificate together.
    pub(crate) epsilon: f64,
    /// In place of runs.
    pub(crate) note: Option<String>,
    pub(crate) runs: Vec<Run>,
}

/// A run.
pub(crate) struct Run {
    pub(crate) seconds: f64,
    /// The certificate: the released norm.
    pub(crate) released: f64,
    pub(crate) exact: f64,
    pub(crate) loss: f64,
    pub(crate) auc: f64,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(
        data: &'a Census,
        loss: Glm,
        epsilon: f64,
        options: &Options,
    ) -> Result<Self, Failure> {
        let private = &data.private;
        let constants = loss.constants_within(private.row_norm(), private.label_bound());
        let facts = PublicFacts::glm(
            private.public_records(),
            private.dim(),
            private.adjacency(),
            private.row_norm(),
            constants,
        )?;
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        };
        let mu = Mu::new(CERTIFICATE_SHARE * budget.mu()?.get())?;
        let clip = ClipNorm::new(facts.lipschitz)?;
        let objective = GlmMean::new(&data.public, loss)?;
        let start = vec![0.0; facts.dim];
        Ok(Self {
            data,
            loss,
            certificate: GradientNormPlan::new(&facts, mu, clip, FAILURE, facts.lipschitz)?,
            facts,
            budget,
            at_start: first_order(&objective, &start)?.gradient_norm,
            threads: options.common.threads,
        })
    }

    /// All rows, in the order of [`SOLVERS`], projections last. A KL condition is not known here.
    pub(crate) fn rows(&self, options: &Options) -> Result<Vec<Row>, Failure> {
        let known = SOLVERS.iter().filter(|solver| !solver.needs.kl);
        let plain = known.flat_map(|&solver| {
            let radii: Vec<Option<f64>> = if solver.needs.radius {
                options.radii.iter().copied().map(Some).collect()
            } else {
                vec![None]
            };
            let kind = move |radius| Kind::Plain(solver, radius);
            radii.into_iter().map(kind)
        });
        let projected = [
            Kind::Projected(&SPIDERBOOST),
            Kind::RankFree(&SPIDERBOOST),
            Kind::RankFree(&NOISY_GD_THEORY),
        ];
        let mut rows = Vec::new();
        let passes = options.passes.iter();
        let solvers = [&DP_SGD, &DP_MF, &DP_MF_SAMPLED, &NOISY_GD];
        let alike = passes.flat_map(|&p| {
            let allocated = Kind::Allocated(p);
            let rows = solvers.map(|solver| Kind::Passes(solver, p));
            rows.into_iter().chain([allocated])
        });
        for kind in plain.chain(projected).chain(alike) {
            let name = kind.name();
            let wanted = |only: &String| name.starts_with(only.as_str());
            if !options.common.only.is_empty() && !options.common.only.iter().any(wanted) {
                continue;
            }
            rows.push(self.row(kind, options)?);
        }
        Ok(rows)
    }

    fn row(&self, kind: Kind, options: &Options) -> Result<Row, Failure> {
        let name = kind.name();
        let mut times = Vec::new();
        let mut plan: Result<Made, PlanError> = Err(PlanError::NoBaseBound);
        for _ in 0..TIMES {
            let (seconds, found) = timed(|| self.plan(kind));
            (plan, times) = (found, [times, vec![1e3 * seconds]].concat());
        }
        times.sort_by(f64::total_cmp);
        let result = match plan {
            Ok(plan) => Ok(self.planned(&name, &plan, options)?),
            Err(reason) => Err(reason.to_string()),
        };
        let plan_ms = times[TIMES / 2];
        eprintln!(
            "{} {} {name}: planned in {plan_ms:.1} ms",
            self.loss,
            self.budget.epsilon.get()
        );
        Ok(Row {
            name,
            plan_ms,
            result,
        })
    }

    fn plan(&self, kind: Kind) -> Result<Made, PlanError> {
        let jl = JlFacts {
            facts: self.facts,
            rank: None,
            seed: MAP_SEED,
        };
        let limits = Limits::steps(MAX_STEPS);
        Ok(match kind {
            Kind::Plain(solver, radius) => {
                let mut extra = ExtraFacts::default();
                extra.radius = radius;
                Made::Plain(solver.plan(&self.facts, &extra, &self.budget, &limits)?)
            }
            Kind::Projected(solver) => {
                Made::Projected(Box::new(JlPlan::new(&jl, &self.budget, solver, MAX_STEPS)?))
            }
            Kind::RankFree(solver) => {
                let base = |facts: &PublicFacts, rank| {
                    let mut extra = ExtraFacts::default();
                    extra.rank = rank;
                    solver.plan(facts, &extra, &self.budget, &limits)
                };
                let plan = JlPlan::in_branch(JlBranch::RankFree, &jl, &self.budget, &base)?;
                Made::Projected(Box::new(plan))
            }
            Kind::Passes(solver, passes) => Made::Plain(self.in_passes(solver, passes)?),
            Kind::Allocated(passes) => {
                let plan = self.sgd_in_passes(passes)?;
                Made::Plain(Box::new(plan.with_batches(Batches::Allocated)?))
            }
        })
    }

    /// dp-sgd in so many passes: all else as it plans.
    fn sgd_in_passes(&self, passes: u64) -> Result<DpSgdPlan, PlanError> {
        let (facts, budget) = (&self.facts, &self.budget);
        let own = DpSgdPlan::new(facts, budget, MAX_STEPS)?;
        let DpSgdSchedule {
            steps,
            step_size,
            momentum,
            clip,
            ..
        } = *own.schedule();
        let rate = SamplingRate::new(passes as f64 / steps as f64)?;
        DpSgdPlan::with_parameters(facts, budget, steps, rate, step_size, momentum, clip)
    }

    /// A solver in so many passes: step size, momentum, clip radius and, but for noisy-gd, number of steps as dp-sgd plans them; of dp-mf-sampled
    /// the number of slices that it plans.
    fn in_passes(&self, solver: &Solver, passes: u64) -> Result<Box<dyn Plan>, PlanError> {
        let (facts, budget) = (&self.facts, &self.budget);
        let own = DpSgdPlan::new(facts, budget, MAX_STEPS)?;
        let DpSgdSchedule {
            steps,
            step_size,
            momentum,
            clip,
            ..
        } = *own.schedule();
        if solver == &NOISY_GD {
            let own = NoisyGdPlan::momentum(facts, budget, MAX_STEPS)?;
            return Ok(Box::new(
                own.with_parameters(passes, step_size, momentum, clip)?,
            ));
        }
        if solver == &DP_MF || solver == &DP_MF_SAMPLED {
            let (epochs, batch, sampling_rate) = match solver == &DP_MF {
                true => (passes, (facts.records * passes).div_ceil(steps), None),
                false => {
                    let planned = DpMfPlan::sampled(facts, budget, MAX_STEPS)?;
                    let slices = planned.schedule().slices;
                    let epochs = steps.div_ceil(slices).max(passes);
                    let rate = SamplingRate::new(passes as f64 / epochs as f64)?;
                    (epochs, facts.records / slices, Some(rate))
                }
            };
            let settings = DpMfSettings {
                epochs,
                batch: batch.min(facts.records),
                sampling_rate,
                batches: Batches::Poisson,
                band: None,
                step_size,
                momentum,
                cool_down: 0.0,
                clip,
            };
            let plan = DpMfPlan::with_settings(facts, budget, settings, MAX_STEPS)?;
            return Ok(Box::new(plan));
        }
        Ok(Box::new(self.sgd_in_passes(passes)?))
    }

    fn planned(&self, name: &str, made: &Made, options: &Options) -> Result<Planned, Failure> {
        let plan = made.plan();
        let (run, certificate) = (plan.spend(), self.certificate.spend());
        let both = Event::composed(vec![run.event().clone(), certificate.event().clone()]);
        let (_, epsilon) = Accountant::least(&both, self.budget.delta, self.facts.adjacency)?;
        let mut planned = Planned {
            bound: plan.predicted_bound(),
            steps: plan.steps(),
            passes: plan.gradients() / self.facts.records as f64,
            epsilon,
            note: None,
            runs: Vec::new(),
        };
        let mut width = self.facts.dim;
        if let Made::Projected(jl) = made {
            width = jl.shape().embedded_dim;
            planned.note = match jl.branch() {
                JlBranch::Identity => {
                    Some("no projection has a smaller bound: the base itself".to_owned())
                }
                _ => Some(format!("{width} rows")),
            };
            if jl.branch() == JlBranch::Identity {
                return Ok(planned);
            }
        }
        let entries = plan.gradients() * width as f64;
        if matches!(made, Made::Projected(_)) && entries > MOST_ENTRIES && !options.all {
            let words = format!(", not run: it would read {entries:.1e} entries");
            planned.note = planned.note.map(|note| note + &words);
            return Ok(planned);
        }
        if options.plans {
            return Ok(planned);
        }
        while planned.runs.len() < options.runs {
            let run = self.run(name, planned.runs.len() as u64, plan)?;
            eprintln!(
                "{} {} {name}: {:.1} s, gradient norm {:.5} (released {:.5}), AUC {:.4}",
                self.loss,
                self.budget.epsilon.get(),
                run.seconds,
                run.exact,
                run.released,
                run.auc
            );
            let once = options.common.quick || run.seconds > CHEAP;
            planned.runs.push(run);
            if once {
                break;
            }
        }
        Ok(planned)
    }

    fn run(&self, name: &str, repeat: u64, plan: &dyn Plan) -> Result<Run, Failure> {
        let private = &self.data.private;
        let curator = |purpose| {
            let seed = seed(&format!("{name}\0{}\0{purpose}\0", self.loss))
                .wrapping_add(repeat)
                .wrapping_add(self.budget.epsilon.get().to_bits());
            Curator::simulated(self.facts.adjacency, seed)
        };
        let on = GlmRun::new(private, self.loss, curator("run")).with_threads(self.threads);
        let (seconds, done) = timed(|| on.run(plan, &mut NoObserver));
        let (outcome, _) = done?;
        let mut mean = PrivateMean::new(private, self.loss, curator("certificate"))?
            .with_threads(self.threads);
        mean.curator_mut().reserve(&self.certificate.spend())?;
        let released = self.certificate.release(&mut mean, &outcome.point)?;
        let objective = GlmMean::new(&self.data.public, self.loss)?;
        let exact = first_order(&objective, &outcome.point)?;
        let test = &self.data.test;
        Ok(Run {
            seconds,
            released: released.released,
            exact: exact.gradient_norm,
            loss: exact.value,
            auc: auc(&test.scores(&outcome.point), test.labels())?,
        })
    }
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Plain(solver, None) => solver.to_string(),
            Kind::Plain(solver, Some(radius)) => format!("{solver}, R = {radius}"),
            Kind::Projected(solver) => format!("jl over {solver}"),
            Kind::RankFree(solver) => format!("jl rank-free over {solver}"),
            Kind::Passes(solver, passes) => format!("{solver} in {passes} passes"),
            Kind::Allocated(passes) => format!("dp-sgd allocated in {passes} passes"),
        }
    }
}
