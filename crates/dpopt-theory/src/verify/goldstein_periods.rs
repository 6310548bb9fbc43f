//! What is claimed of walks in blocks with recursive estimates, ours and those of arXiv 2410.05880.
//!
//! Errors are as in `goldstein`, of gradients of the smoothed loss, which is what such walks bound. In one pass records have offsets and
//! frames of their own; on all records, where a release is of so many of them that what they miss is far below the noise, means are
//! exact.

use std::num::NonZeroU64;
use std::ops::ControlFlow;

use dpopt_linalg::{add_scaled, norm};
use dpopt_nonconvex::{GoldsteinPlan, GoldsteinSettings, Plan, Release};
use dpopt_oracle::{Oracle, Question, SmoothedFields};
use dpopt_privacy::ClipNorm;

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size, completed, share};
use super::goldstein::{GAP, MAX_STEPS, RADIUS, RELATION, facts, opposite_tilts};
use crate::around::Around;
use crate::checks::{CheckError, Effort};
use crate::problem::Problem as _;
use crate::simulation::{Population as _, SimulatedOracle};
use crate::zoo::{RampCone, SmoothedCone};

/// Whose plan is run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Whose {
    /// The bound of ours in one pass over that with Sigma = 1: plans alone.
    Gain,
    /// The same with Sigma = 1 in both.
    NoPeriods,
    /// Theorem 6.1.
    PaperSingle,
    /// Theorem 4.1.
    PaperMulti,
    /// Theorem 4.1, with noise of changes for 2 C.
    LongNoise,
    /// The error of ours over that of Theorem 4.1, on all records in few steps.
    Ratio,
}

struct PeriodExperiment {
    claim: Claim,
    whose: Whose,
    plans: Plans<GoldsteinPlan>,
    others: Plans<GoldsteinPlan>,
}

/// The most steps where plans are compared.
const FEW_STEPS: u64 = 10_000;
/// What the bound of a plan in periods is at most of that of fresh estimates, from 3e6 records on.
const GAIN: f64 = 0.85;
/// What the worst error of fresh estimates is at most of that of Theorem 4.1.
const RATIO: f64 = 0.5;

pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |whose, claim: Claim| {
        let (solver, theorem) = match whose {
            Whose::Gain | Whose::NoPeriods => {
                ("goldstein-pass", "docs/theory/goldstein.md, Theorem 3")
            }
            Whose::PaperSingle => ("goldstein-pass", "arXiv 2410.05880, Theorem 6.1"),
            Whose::Ratio => ("goldstein", "docs/theory/goldstein.md, Theorem 1"),
            _ => ("goldstein-recursive", "arXiv 2410.05880, Theorem 4.1"),
        };
        let quantity = match whose {
            Whose::Ratio => "Goldstein distance over that of Theorem 4.1",
            Whose::Gain | Whose::NoPeriods => "planned bound over that of fresh estimates",
            _ => "Goldstein distance, mean over blocks",
        };
        let claim = claim
            .by(solver, theorem)
            .on("ramp-cone")
            .measuring(quantity);
        all.push(Box::new(PeriodExperiment {
            claim,
            whose,
            plans: Plans::new(),
            others: Plans::new(),
        }));
    };
    let whole = "numbers of steps and of blocks are whole";
    let gain = |name: &str, note: &str| {
        let claim = Claim::new(name, Axis::Records, 0.0).within(2.0, 8.0, note);
        claim.expecting(Expect::AtMost)
    };
    let note = "a ratio of bounds, at most 0.85; how it changes with n is no claim";
    add(Whose::Gain, gain("goldstein-pass-vr", note));
    let note = "Sigma = 1: no periods at all.";
    let claim = gain("goldstein-pass-vr/fresh", "").control(note);
    add(Whose::NoPeriods, claim);
    let (third, upper) = (1.0 / 3.0, "the theorem is an upper bound");
    for (axis, predicted) in [(Axis::Records, -2.0 * third), (Axis::Dimension, 0.5)] {
        let claim = Claim::new(
            &format!("goldstein-paper-multi/{}", axis.symbol()),
            axis,
            predicted,
        );
        let claim = claim.within(0.10, 0.40, upper).expecting(Expect::AtMost);
        add(Whose::PaperMulti, claim);
    }
    let claim = Claim::new("goldstein-paper-single/n", Axis::Records, -third);
    let claim = claim.within(0.05, 0.50, upper).expecting(Expect::AtMost);
    add(Whose::PaperSingle, claim);
    let claim = Claim::new("goldstein-beats-paper", Axis::Records, 0.0);
    let note = "a ratio of errors, at most 1/2; how it changes with n is no claim";
    add(
        Whose::Ratio,
        claim.within(2.0, 8.0, note).expecting(Expect::AtMost),
    );
    let claim = Claim::new("goldstein/paper-plan-in-d", Axis::Dimension, third);
    let note = "The plan of Theorem 4.1 under the claim of Theorem 1: can a fit tell d^(1/2) from d^(1/3)?";
    add(
        Whose::PaperMulti,
        claim.within(0.06, 0.40, whole).control(note),
    );
    let claim = Claim::new(
        "goldstein-paper-multi/noise-by-twice-the-clip",
        Axis::Records,
        -2.0 * third,
    );
    let note = "Noise of changes for 2 C, not for their move.";
    add(
        Whose::LongNoise,
        claim
            .within(0.10, 0.40, upper)
            .expecting(Expect::AtMost)
            .control(note),
    );
    all
}

impl PeriodExperiment {
    fn in_one_pass(&self) -> bool {
        matches!(self.whose, Whose::PaperSingle)
    }

    fn size(&self, x: f64) -> Size {
        let size = Size {
            records: 7_000,
            dim: match self.whose {
                Whose::Gain | Whose::NoPeriods | Whose::PaperSingle => 2,
                Whose::Ratio => 50,
                _ => 4,
            },
            privacy: Privacy::Epsilon(1.0),
        };
        let mut size = size.along(self.claim.axis, x);
        size.records = size.records / 4 * 4;
        size
    }

    fn plan(&self, x: f64) -> Result<GoldsteinPlan, CheckError> {
        self.plans.at(x, || {
            let size = self.size(x);
            let (facts, budget) = (facts(&size), size.budget(DELTA)?);
            let settings = GoldsteinSettings::at_radius(RADIUS);
            Ok(match self.whose {
                Whose::Gain => GoldsteinPlan::single_pass(&facts, &budget, &settings)?,
                Whose::NoPeriods => {
                    let fresh = settings_of_fresh(settings);
                    GoldsteinPlan::single_pass(&facts, &budget, &fresh)?
                }
                Whose::PaperSingle => {
                    let fields = SmoothedFields::Gradients;
                    GoldsteinPlan::paper_single(&facts, &budget, &settings, fields)?
                }
                Whose::Ratio => {
                    GoldsteinPlan::paper_multi_within(&facts, &budget, &settings, FEW_STEPS)?
                }
                _ => GoldsteinPlan::paper_multi(&facts, &budget, &settings, MAX_STEPS)?,
            })
        })
    }

    /// The plan that it is compared with.
    fn other(&self, x: f64) -> Result<GoldsteinPlan, CheckError> {
        self.others.at(x, || {
            let size = self.size(x);
            let (facts, budget) = (facts(&size), size.budget(DELTA)?);
            let settings = GoldsteinSettings::at_radius(RADIUS);
            Ok(match self.whose {
                Whose::Ratio => GoldsteinPlan::new(&facts, &budget, &settings, FEW_STEPS)?,
                _ => {
                    let fresh = settings_of_fresh(settings);
                    GoldsteinPlan::single_pass(&facts, &budget, &fresh)?
                }
            })
        })
    }

    /// The slope of the member of the family with this share, from 0.1 to 0.7 of the bound of `plan`.
    fn slope(&self, plan: &GoldsteinPlan, share: f64) -> Result<f64, CheckError> {
        let most = if self.in_one_pass() { 0.48 } else { 0.8 };
        Ok((bound_of(plan)? * (0.1 + 0.6 * share)).min(most))
    }

    /// The mean over the blocks of a run of `plan`, on the problem with this slope.
    fn error(&self, plan: &GoldsteinPlan, slope: f64, seed: u64) -> Result<f64, CheckError> {
        let (facts, schedule) = (plan.facts(), plan.schedule());
        let problem = RampCone::new(facts.dim, GAP, slope)?;
        let smoothed = SmoothedCone::new(problem, schedule.smoothing, facts.records);
        if self.in_one_pass() {
            let (tilted, data) = opposite_tilts(problem, facts.records)?;
            let oracle = SimulatedOracle::weighted(&tilted, &data, RELATION, seed);
            return blocks(plan, oracle, &problem, &smoothed);
        }
        if schedule.period.is_none() {
            let oracle = SimulatedOracle::new(&problem, facts.records, RELATION, seed);
            return blocks(plan, oracle, &problem, &smoothed);
        }
        let long = ClipNorm::new(2.0 * schedule.clip)?;
        let means = SimulatedOracle::over(smoothed.clone(), RELATION, seed);
        let oracle = Around::new(means, |means, question| match question {
            Question::Smoothed {
                of, over, noise, ..
            } => {
                let changes = of.before().is_some() && self.whose == Whose::LongNoise;
                let of = if changes { of.within(long) } else { of };
                means.answer(Question::Mean { of, over, noise })
            }
            other => means.answer(other),
        });
        blocks(plan, oracle, &problem, &smoothed)
    }

    /// The worst error of each of these plans on the slopes of both: the same problems for both.
    fn worst(&self, plans: [&GoldsteinPlan; 2], seed: u64) -> Result<[f64; 2], CheckError> {
        let mut worst = [0.0_f64; 2];
        for of in plans {
            for member in 0..4 {
                let slope = self.slope(of, f64::from(member) / 3.0)?;
                for (worst, plan) in worst.iter_mut().zip(plans) {
                    *worst = worst.max(self.error(plan, slope, seed)?);
                }
            }
        }
        Ok(worst)
    }
}

fn settings_of_fresh(settings: GoldsteinSettings) -> GoldsteinSettings {
    GoldsteinSettings {
        period: NonZeroU64::new(1),
        ..settings
    }
}

fn bound_of(plan: &GoldsteinPlan) -> Result<f64, CheckError> {
    let stated = plan.bound().ok_or("the plan states no bound")?;
    Ok(stated.value)
}

/// The mean over blocks of the length of the mean gradient: of the loss where estimates are fresh, else of the smoothed loss.
fn blocks(
    plan: &GoldsteinPlan,
    mut oracle: impl Oracle,
    problem: &RampCone,
    smoothed: &SmoothedCone,
) -> Result<f64, CheckError> {
    let block = plan.schedule().block;
    let fresh = plan.schedule().period.is_none();
    let mut gradient = vec![0.0; problem.dim()];
    let mut mean = gradient.clone();
    let (mut total, mut count) = (0.0, 0u64);
    let outcome = plan.run(&mut oracle, &mut |release: &Release<'_>| {
        if fresh {
            problem.gradient(release.point, &mut gradient);
        } else {
            smoothed.gradient(0, release.point, &mut gradient);
        }
        add_scaled(&mut mean, 1.0 / block as f64, &gradient);
        if (release.step + 1).is_multiple_of(block) {
            total += norm(&mean);
            count += 1;
            mean.fill(0.0);
        }
        ControlFlow::Continue(())
    })?;
    completed(outcome.stop)?;
    Ok(total / count as f64)
}

impl Experiment for PeriodExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        // Four to a decade, or as many over more.
        let thirds = |from: f64, count: i32| -> Vec<f64> {
            let point = |k| (from * 10f64.powf(f64::from(k) / 3.0)).round();
            (0..count).map(point).collect()
        };
        let points = match (self.whose, self.claim.axis) {
            (Whose::Gain | Whose::NoPeriods, _) => vec![3e6, 5.5e6, 1e7],
            (Whose::PaperSingle, _) => thirds(4e4, effort.pick(4, 7)),
            (Whose::Ratio, _) => vec![7e3, 8.5e3, 1e4],
            (_, Axis::Dimension) => thirds(3.0, effort.pick(4, 5)),
            _ => thirds(1.2e3, effort.pick(4, 6)),
        };
        // The steepest alone where runs are long; it is the worst in most of them.
        let few = self.in_one_pass() || self.claim.control;
        let members = match self.whose {
            Whose::Ratio | Whose::Gain | Whose::NoPeriods => 1,
            _ => effort.pick(if few { 1 } else { 2 }, 9),
        };
        let seeds = match self.whose {
            Whose::Gain | Whose::NoPeriods => 1,
            Whose::PaperSingle => effort.pick(1, 4),
            _ => effort.pick(1, 6),
        };
        Design::new(points).with_members(members).with_seeds(seeds)
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = self.plan(trial.x)?;
        match self.whose {
            Whose::Ratio => {
                let [ours, paper] = self.worst([&self.other(trial.x)?, &plan], trial.seed)?;
                return Ok(Measured::new(ours / paper).with_bound(RATIO));
            }
            Whose::Gain | Whose::NoPeriods => {
                let ratio = bound_of(&plan)? / bound_of(&self.other(trial.x)?)?;
                return Ok(Measured::new(ratio).with_bound(GAIN));
            }
            _ => {}
        }
        let share = match trial.members {
            1 => 1.0,
            _ => share(trial),
        };
        let error = self.error(&plan, self.slope(&plan, share)?, trial.seed)?;
        Ok(Measured::new(error).with_bound(bound_of(&plan)?))
    }
}
