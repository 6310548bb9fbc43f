//! The runs: plans of every kind under every adjacency that they accept.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    ADAPTIVE_BATCH, AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings,
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, Budget, ExtraFacts, GlmRun, GoldsteinPlan,
    GoldsteinSettings, HessianFacts, JlBranch, JlFacts, JlPlan, KlCondition, KlSpiderPlan,
    KlSpiderSettings, KlSpiderVersion, Limits, NOISY_GD, NOISY_GD_THEORY, NORMALIZED_SPIDER,
    NormQueries, Outcome, Plan, PlanError, ProximalFacts, ProximalPlan, ProximalReads,
    ProximalSettings, PublicFacts, PublicRank, Release, SAMPLED_SPIDERBOOST, SOLVERS, SPIDERBOOST,
    STORM, SecondOrderTargets, Solver, TreeNoise, TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::{Batch, Glm, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, PrefixKind};

use crate::ranks;
use crate::table::{Hash, Table};

const RECORDS: u64 = 2_100;
const DIM: usize = 5;
/// Of plans through a projection. Their passes are long enough to be split among two threads; those of [`DIM`] are not.
const WIDE: usize = 200;
const MAX_STEPS: u64 = 40;
const SEED: u64 = 11;
const LOSS: Glm = Glm::Logistic;
const START: [f64; DIM] = [0.1, -0.2, 0.3, 0.0, -0.05];

/// Every case, on so many threads where they can be set.
pub(crate) fn all(threads: NonZeroUsize) -> Table {
    let mut table = Table::default();
    for adjacency in [
        Adjacency::ReplaceOne,
        Adjacency::ZeroOut,
        Adjacency::AddRemove,
    ] {
        let mut cases = Cases {
            adjacency,
            threads,
            stopped: None,
            table: &mut table,
        };
        cases.solvers();
        cases.adaptive();
        cases.trees();
        cases.values_alone();
        cases.one_pass();
        cases.kl_spider();
        cases.projected();
        cases.proximal();
    }
    table
}

/// The cases under one adjacency. One whose plan the adjacency does not allow has no line.
struct Cases<'t> {
    adjacency: Adjacency,
    threads: NonZeroUsize,
    /// After which step the observer stops a run.
    stopped: Option<u64>,
    table: &'t mut Table,
}

impl Cases<'_> {
    /// All solvers by name, from the origin and from elsewhere, and those that use a rank with one.
    fn solvers(&mut self) {
        let (facts, budget) = (self.facts(DIM), budget());
        let rank = PublicRank::new(2).unwrap();
        for solver in SOLVERS.iter().copied() {
            // Those under a KL condition have cases of their own.
            if solver.needs.kl || !solver.accepts(self.adjacency) {
                continue;
            }
            let plan = |rank: Option<PublicRank>| {
                let mut extra = ExtraFacts::default()
                    .with_radius(1.0)
                    .with_hessian(HessianFacts {
                        lipschitz: 0.1,
                        frobenius: 0.25,
                    });
                extra.rank = rank;
                if solver.name == ADAPTIVE_BATCH.name {
                    // So few records say hardly more in one pass.
                    let (gradient, curvature) = (facts.trivial_bound(), facts.smoothness);
                    let widest = SecondOrderTargets::widest(gradient, curvature);
                    extra = extra.with_second_order(widest);
                }
                // Few steps say something at a large radius only.
                let of = |(radius, most)| {
                    let extra = extra.with_goldstein_radius(radius);
                    solver.plan(&facts, &extra, &budget, &Limits::steps(most))
                };
                let plan = of((1.0, MAX_STEPS)).or_else(|_| of((30.0, 5 * MAX_STEPS)));
                Ok(plan.unwrap_or_else(|error| panic!("{solver} has no case: {error}")))
            };
            self.run(solver.name, plan(None), None);
            let name = format!("{} from elsewhere", solver.name);
            self.run(&name, plan(None), Some(&START));
            self.stopped = Some(2);
            self.run(&format!("{} stopped", solver.name), plan(None), None);
            self.stopped = None;
            if solver.uses_rank {
                self.run(
                    &format!("{} within a rank", solver.name),
                    plan(Some(rank)),
                    None,
                );
            }
        }
    }

    /// Adaptive descent with each kind of norm and each selection.
    fn adaptive(&mut self) {
        for (norms, kind) in [
            (NormQueries::Fixed, "fixed"),
            (NormQueries::Relative, "relative"),
        ] {
            for (selection, chosen) in [
                (AdaptiveSelection::Last, "last"),
                (AdaptiveSelection::SmallestNorm, "smallest norm"),
                (AdaptiveSelection::Exponential { share: 0.1 }, "exponential"),
            ] {
                let settings = AdaptiveSettings::new()
                    .with_norms(norms)
                    .with_selection(selection)
                    .with_max_steps(MAX_STEPS);
                let plan = AdaptiveGdPlan::new(&self.facts(DIM), &budget(), settings);
                self.run(
                    &format!("adaptive-gd, {kind} norms, {chosen}"),
                    plan.map(boxed),
                    None,
                );
            }
        }
    }

    /// Tree-based SPIDER for each target, with each noise, and with a depth of 2.
    fn trees(&mut self) {
        for (target, aim) in [
            (TreeTarget::Mean, "mean"),
            (
                TreeTarget::HighProbability { failure: 0.05 },
                "high probability",
            ),
            (TreeTarget::Heuristic { safety: 1.5 }, "heuristic"),
        ] {
            for (noise, scaled) in [(TreeNoise::Actual, "actual"), (TreeNoise::Path, "path")] {
                let settings = TreeSettings::new(target)
                    .with_noise(noise)
                    .even_if_vacuous();
                for (settings, depth) in [(settings, "planned"), (settings.with_depth(2), "2")] {
                    let plan =
                        TreeSpiderPlan::new(&self.facts(DIM), &budget(), settings, MAX_STEPS);
                    let name = format!("tree-spider, {aim}, {scaled} noise, depth {depth}");
                    self.run(&name, plan.map(boxed), None);
                }
            }
        }
    }

    /// The walk in blocks from slopes, along so many directions. Few steps say something at a large radius only.
    fn values_alone(&mut self) {
        for (directions, name) in [
            (0, "planned directions"),
            (1, "1 direction"),
            (DIM, "whole frames"),
        ] {
            let (facts, most) = (self.facts(DIM), 5 * MAX_STEPS);
            let settings = GoldsteinSettings::at_radius(30.0);
            let settings = settings.from_values(NonZeroUsize::new(directions));
            let plan = GoldsteinPlan::new(&facts, &budget(), &settings, most);
            self.run(&format!("goldstein-zo, {name}"), plan.map(boxed), None);
        }
    }

    /// One pass that goes down with each kind of noise, one that takes every point for a saddle, and one that certifies none.
    fn one_pass(&mut self) {
        let facts = self.facts(DIM);
        if !facts.adjacency.record_count_is_public() {
            return;
        }
        let hessian = HessianFacts {
            lipschitz: 0.1,
            frobenius: 0.25,
        };
        let many = PublicFacts {
            records: 1 << 20,
            ..facts
        };
        let settings = AdaptiveBatchSettings::new(MAX_STEPS);
        let planned = AdaptiveBatchPlan::new(&many, &hessian, &budget(), settings).unwrap();
        let small = AdaptiveBatchSchedule {
            anchor_batch: 100,
            variation: Batch::PerLength(200.0),
            step_size: 0.5,
            drift: 0.7,
            period: 6,
            candidate: 0.0,
            hessian_batch: 60,
            norm_batch: 40,
            sign_batch: 50,
            ..*planned.schedule()
        };
        let with = |gradient, curvature| AdaptiveBatchSchedule {
            candidate: 1e9,
            targets: SecondOrderTargets {
                gradient,
                curvature,
            },
            ..small
        };
        for (schedule, name) in [
            (small, "descending"),
            (
                AdaptiveBatchSchedule {
                    noise: PrefixKind::Tree,
                    ..small
                },
                "descending under a tree",
            ),
            (with(1.0, -1e9), "saddles"),
            (with(-1e9, 1e9), "no certificate"),
        ] {
            let plan = AdaptiveBatchPlan::by_hand(&facts, &hessian, &budget(), settings, schedule);
            self.run(&format!("adaptive-batch, {name}"), plan.map(boxed), None);
        }
    }

    /// KL Spider in each version.
    fn kl_spider(&mut self) {
        for (version, name) in [
            (KlSpiderVersion::FreePhases, "free phases"),
            (KlSpiderVersion::PaperPhases, "paper phases"),
            (KlSpiderVersion::PaperConstants, "paper constants"),
        ] {
            for kappa in [1.5, 2.0] {
                let facts = PublicFacts {
                    initial_gap: 0.5,
                    lipschitz: 2.0,
                    ..self.facts(DIM)
                };
                let condition = KlCondition::new(0.5, kappa).unwrap();
                let settings = KlSpiderSettings::new(0.05).with_version(version);
                let plan = KlSpiderPlan::new(&facts, &condition, &budget(), settings, 1 << 40);
                let name = format!("kl-spider, {name}, kappa {kappa}");
                self.run(&name, plan.map(boxed), None);
            }
        }
    }

    /// Projected solvers in each branch.
    fn projected(&mut self) {
        let budget = budget();
        for solver in [&NOISY_GD_THEORY, &SPIDERBOOST, &NORMALIZED_SPIDER] {
            let jl = JlFacts {
                facts: PublicFacts {
                    smoothness: 1.0,
                    ..self.facts(WIDE)
                },
                rank: PublicRank::new(2).ok(),
                seed: 3,
            };
            let base = base(solver);
            for (branch, name) in [
                (JlBranch::Identity, "identity"),
                (JlBranch::Rank, "rank"),
                (JlBranch::RankFree, "rank-free"),
            ] {
                let plan = JlPlan::in_branch(branch, &jl, &budget, &base);
                let plan = plan.map(boxed);
                self.run(&format!("projected {}, {name}", solver.name), plan, None);
            }
        }
        for solver in [&NOISY_GD, &SPIDERBOOST, &SAMPLED_SPIDERBOOST, &STORM] {
            let jl = JlFacts {
                facts: self.facts(WIDE),
                rank: None,
                seed: 3,
            };
            let base = base(solver);
            let plan = JlPlan::with_embedded_dim(7, &jl, &budget, &base);
            let plan = plan.map(boxed);
            self.run(&format!("projected {}, given", solver.name), plan, None);
        }
    }

    /// Proximal point with each way to read, at an exponent of 2 and above, for convex and weakly convex facts.
    fn proximal(&mut self) {
        for (reads, name) in [
            (ProximalReads::Auto, "auto"),
            (ProximalReads::Everything, "everything"),
            (ProximalReads::Poisson, "poisson"),
        ] {
            for (kappa, weak_convexity) in [(2.0, None), (3.0, Some(0.25))] {
                let facts = ProximalFacts {
                    public: PublicFacts {
                        lipschitz: 2.0,
                        ..self.facts(DIM)
                    },
                    condition: KlCondition::new(0.5, kappa).unwrap(),
                    weak_convexity,
                    failure: 0.05,
                    region: None,
                };
                let settings = ProximalSettings::new(1_000).reading(reads);
                let Ok(plan) = ProximalPlan::with_settings(&facts, &budget(), settings) else {
                    continue;
                };
                let data = self.data(DIM);
                let mut means = PrivateMean::new(&data, LOSS, self.curator())
                    .unwrap()
                    .with_threads(self.threads);
                let mut seen = Seen::until(self.stopped);
                let outcome = plan.run(&mut means, &mut |release: &Release<'_>| {
                    seen.release(release)
                });
                let weak = weak_convexity.unwrap_or(0.0);
                self.line(
                    &format!("proximal, {name}, kappa {kappa}, weak convexity {weak}"),
                    seen,
                    &outcome.unwrap(),
                );
            }
        }
    }

    /// Runs a plan, unless there is none.
    fn run(&mut self, name: &str, plan: Result<Box<dyn Plan>, PlanError>, start: Option<&[f64]>) {
        let Ok(plan) = plan else {
            return;
        };
        let data = self.data(plan.facts().dim);
        let on = GlmRun::new(&data, LOSS, self.curator())
            .with_threads(self.threads)
            .starting_at(start);
        let mut seen = Seen::until(self.stopped);
        let mut observer = |release: &Release<'_>| seen.release(release);
        let ran = on.run(&*plan, &mut observer);
        self.line(name, seen, &ran.unwrap().0);
    }

    fn line(&mut self, name: &str, seen: Seen, outcome: &Outcome) {
        let mut point = Hash::new();
        point.numbers(&outcome.point);
        let counts = outcome.counts;
        let mut counted = Hash::new();
        counted.numbers(&[
            counts.releases as f64,
            counts.records,
            counts.gradients,
            counts.values,
            counts.passes,
        ]);
        self.table.line(&[
            name.to_owned(),
            self.adjacency.to_string(),
            format!("{:?}", outcome.stop),
            outcome.steps.to_string(),
            seen.hash.to_string(),
            point.to_string(),
            Hash::of(&serde_json::to_string(&outcome.spent).unwrap()).to_string(),
            counted.to_string(),
        ]);
    }

    fn curator(&self) -> Curator {
        ranks::curator(Curator::simulated(self.adjacency, SEED))
    }

    fn facts(&self, dim: usize) -> PublicFacts {
        PublicFacts::glm(RECORDS, dim, self.adjacency, 1.0, LOSS.constants(1.0)).unwrap()
    }

    /// Rows of rank 2 and norm at most 1, with labels that depend on them.
    fn data(&self, dim: usize) -> PrivateData {
        let mut state = 5u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        let scale = (dim as f64).sqrt().recip();
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..RECORDS {
            let (a, b) = (0.8 + 0.1 * next(), 0.1 * next());
            rows.extend((0..dim).map(|j| scale * if j % 2 == 0 { a + b } else { a - b }));
            labels.push(if b + 0.11 * next() > -0.1 { 1.0 } else { -1.0 });
        }
        let declared = (self.adjacency == Adjacency::AddRemove).then_some(RECORDS);
        let own = ranks::rows(labels.len());
        let rows = rows[own.start * dim..own.end * dim].to_vec();
        let design = Design::dense(dim, rows).unwrap();
        let bound = ClipNorm::new(1.0).unwrap();
        let labels = labels[own].to_vec();
        let data = PrivateData::made_up(design, labels, bound, self.adjacency, declared);
        ranks::joined(data.unwrap())
    }
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(20.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    }
}

fn boxed(plan: impl Plan + 'static) -> Box<dyn Plan> {
    Box::new(plan)
}

/// A solver as the base of a projected plan.
fn base(
    solver: &Solver,
) -> impl Fn(&PublicFacts, Option<PublicRank>) -> Result<Box<dyn Plan>, PlanError> {
    move |facts, rank| {
        let mut extra = ExtraFacts::default();
        extra.rank = rank;
        solver.plan(facts, &extra, &budget(), &Limits::steps(MAX_STEPS))
    }
}

/// What an observer saw.
struct Seen {
    hash: Hash,
    stopped: Option<u64>,
}

impl Seen {
    fn until(stopped: Option<u64>) -> Self {
        Self {
            hash: Hash::new(),
            stopped,
        }
    }

    fn release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self.hash
            .text(&format!("{} {:?}", release.step, release.kind));
        self.hash.numbers(release.point);
        self.hash.numbers(&[release.norm, release.noise_norm]);
        if self.stopped == Some(release.step) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
