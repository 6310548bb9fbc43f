//! The runs: plans of every solver under every adjacency that it accepts.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use dpopt_linalg::Domain;
use dpopt_minimax::{
    Allowance, Budget, MeanFacts, PERTURB_AND_WATCH, PassEstimate, Plan, PlanError, Release,
    RgdaPassPlan, RgdaPassSchedule, RgdaPlan, Run, RunError, SAMPLED_RGDA, SOLVERS, SaddleFacts,
    SaddleLimits, SampledRgdaSchedule,
};
use dpopt_oracle::{
    AskError, Joint, PrivateData, PrivateMean, SaddleConstants, SaddleLoss, TwiceSaddle,
};
use dpopt_privacy::{Adjacency, Curator, Delta, Epsilon, NoiseMultiplier, PrefixKind};

use crate::ranks;
use crate::table::{Hash, Table};

const RECORDS: u64 = 2_100;
const MAX_STEPS: u64 = 60;
const SEED: u64 = 11;
const OF_ONE: SaddleConstants = SaddleConstants {
    lipschitz_x: 1.5,
    lipschitz_y: 3.0,
    smooth_xx: 1.0,
    smooth_xy: 1.0,
    smooth_yy: 1.0,
    hessian_frobenius: 2.5,
};

/// sum over i = 1, 2 of ln cosh(x_i - a_i) + kind y_i tanh(x_i - a_i) - y_i^2/2.
struct Prices;

/// Places, and how much prices count.
type Place = ([f64; 2], f64);

impl SaddleLoss for Prices {
    type Records = Vec<Place>;

    fn x_dim(&self, _: &Vec<Place>) -> usize {
        2
    }

    fn domain(&self) -> Domain {
        Domain::ball(2, 1.0)
    }

    fn saddle_constants(&self, _: &Vec<Place>) -> SaddleConstants {
        OF_ONE
    }

    fn value(&self, (a, kind): &Place, x: &[f64], y: &[f64]) -> f64 {
        (0..2)
            .map(|i| {
                let u = x[i] - a[i];
                u.cosh().ln() + kind * y[i] * u.tanh() - 0.5 * y[i] * y[i]
            })
            .sum()
    }

    fn gradient(
        &self,
        (a, kind): &Place,
        x: &[f64],
        y: &[f64],
        (of_x, of_y): (&mut [f64], &mut [f64]),
    ) {
        for i in 0..2 {
            let t = (x[i] - a[i]).tanh();
            of_x[i] += t + kind * y[i] * (1.0 - t * t);
            of_y[i] += kind * t - y[i];
        }
    }
}

impl TwiceSaddle for Prices {
    fn hessian_vector(
        &self,
        (a, kind): &Place,
        x: &[f64],
        y: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        for i in 0..2 {
            let t = (x[i] - a[i]).tanh();
            let bend = 1.0 - t * t;
            let (dx, dy) = (direction[i], direction[i + 2]);
            out[i] += bend * (1.0 - 2.0 * kind * y[i] * t) * dx + kind * bend * dy;
            out[i + 2] += kind * bend * dx - dy;
        }
    }
}

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
        cases.one_pass();
        cases.on_samples();
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
    /// All solvers by name, to their ends and stopped.
    fn solvers(&mut self) {
        let facts = self.facts();
        for solver in SOLVERS.iter() {
            // So few records pay for no plan of one pass, and for none on samples: by hand, below. Nor for one that perturbs.
            if solver.positions || [&SAMPLED_RGDA, &PERTURB_AND_WATCH].contains(solver) {
                continue;
            }
            let plan = || {
                // So few records say something to those that state a bound for a large budget only.
                let rich = budget(if solver.bound.is_some() { 2e4 } else { 8.0 });
                let limits = SaddleLimits::steps(MAX_STEPS);
                let plan = solver.plan(&facts, &rich, &limits);
                Ok(plan.unwrap_or_else(|error| panic!("{solver} has no case: {error}")))
            };
            self.run(solver.name, plan());
            self.stopped = Some(2);
            self.run(&format!("{} stopped", solver.name), plan());
            self.stopped = None;
        }
    }

    /// One pass with each estimate, to the last record.
    fn one_pass(&mut self) {
        let facts = self.facts();
        if !facts.adjacency.record_count_is_public() {
            return;
        }
        for (estimate, name) in [
            (PassEstimate::Chain, "rgda-chain"),
            (PassEstimate::Prefix(PrefixKind::Tree), "rgda-prefix, tree"),
            (
                PassEstimate::Prefix(PrefixKind::Toeplitz),
                "rgda-prefix, toeplitz",
            ),
            (
                PassEstimate::Prefix(PrefixKind::Banded { band: 2 }),
                "rgda-prefix, banded",
            ),
            (
                PassEstimate::Prefix(PrefixKind::Independent),
                "rgda-prefix, independent",
            ),
            (PassEstimate::Rounds, "rgda-rounds"),
        ] {
            for (batch, ending) in [(60, "planned"), (900, "until there are no records")] {
                let schedule = RgdaPassSchedule {
                    estimate,
                    scale: 0.5,
                    inner: 2,
                    before: 1,
                    period: 3,
                    periods: 4,
                    length: 0.05,
                    anchor_batch: batch,
                    rate: 60.0,
                    noise_multiplier: NoiseMultiplier::new(0.5).unwrap(),
                };
                let plan = RgdaPassPlan::by_hand(&facts, &budget(8.0), schedule);
                self.run(&format!("{name}, {ending}"), plan.map(boxed));
            }
        }
    }

    /// Samples of one record, and more.
    fn on_samples(&mut self) {
        for batch in [1, 300, RECORDS] {
            let schedule = SampledRgdaSchedule {
                scale: 0.5,
                target: 1e-3,
                steps: 10,
                inner: 2,
                before: 2,
                period: 4,
                batch,
                anchor: NoiseMultiplier::new(3.0).unwrap(),
                variation: NoiseMultiplier::new(1.0).unwrap(),
            };
            let allowance = Allowance::all(&budget(8.0));
            let plan = RgdaPlan::sampled_by_hand(&self.facts(), &allowance, schedule);
            self.run(&format!("sampled-rgda, {batch}"), plan.map(boxed));
        }
    }

    fn run(&mut self, name: &str, plan: Result<Box<dyn Plan>, PlanError>) {
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => panic!("{name} under {}: {error}", self.adjacency),
        };
        let declared = (self.adjacency == Adjacency::AddRemove).then_some(RECORDS);
        let records = records();
        let own = records[ranks::rows(records.len())].to_vec();
        let data = PrivateData::made_up_of(own, self.adjacency, declared).unwrap();
        let data = ranks::joined(data);
        let curator = ranks::curator(Curator::simulated(self.adjacency, SEED));
        let blocks = plan.blocks().unwrap();
        let joint = Joint::new(Prices, blocks.scale).unwrap();
        let means = PrivateMean::new(&data, joint, curator).unwrap();
        let mut means = means.with_hessians().with_threads(self.threads);
        let mut hash = Hash::new();
        let stopped = self.stopped;
        let mut watch = |release: &Release<'_>| {
            hash.text(&format!("{} {:?}", release.step, release.kind));
            hash.numbers(release.point);
            hash.numbers(&[release.norm, release.noise_norm]);
            if stopped == Some(release.step) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let start = blocks.join(&[0.3, -0.2], &[0.0, 0.0]);
        let run = Run::new(&mut watch).starting_at(Some(&start));
        let ran = plan.run_with(&mut means, run);
        let outcome = match ran {
            Ok(outcome) => outcome,
            // Records of a loss of one's own have none that is erased.
            Err(RunError::Ask(AskError::ZeroRows)) => return,
            Err(error) => panic!("{name} under {}: {error}", self.adjacency),
        };
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
            hash.to_string(),
            point.to_string(),
            Hash::of(&serde_json::to_string(&outcome.spent).unwrap()).to_string(),
            counted.to_string(),
        ]);
    }

    fn facts(&self) -> SaddleFacts {
        SaddleFacts {
            records: RECORDS,
            adjacency: self.adjacency,
            x_dim: 2,
            domain: Prices.domain(),
            record: OF_ONE,
            mean: MeanFacts {
                strong_concavity: 1.0,
                smooth_yy: 1.0,
                smooth_xy: 0.5,
                value_smoothness: 1.5,
                value_gap: 1.0,
                value_hessian_lipschitz: 4.0,
                joint_hessian_lipschitz: 4.0,
            },
            whole: true,
            rarest: None,
        }
    }
}

/// One in four counts.
fn records() -> Vec<Place> {
    (0..RECORDS)
        .map(|i| {
            let i = i as f64;
            let kind = if i % 4.0 == 0.0 { 0.9 } else { -0.1 };
            ([0.8 + 0.3 * i.sin(), -0.5 + 0.3 * (2.0 * i).cos()], kind)
        })
        .collect()
}

fn budget(epsilon: f64) -> Budget {
    Budget {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    }
}

fn boxed(plan: impl Plan + 'static) -> Box<dyn Plan> {
    Box::new(plan)
}
