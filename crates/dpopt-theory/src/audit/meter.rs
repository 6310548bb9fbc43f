//! The transcript meter: what adaptive runs really cost, release by release, on random data.
//!
//! A replay audit goes through chosen neighbours. This one draws everything: plans, data sets of a few records that answer
//! what they like, the record that changes and what it changes to, and lies about released norms (negative ones above all),
//! which are post-processing of releases and so may not cost anything. In every single run the sum of squared displacements
//! of the Gaussian releases, in units of the noise really drawn, has to be at most mu^2.

use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, CurvatureBy, Estimates, HessianFacts,
    NoObserver, NormQueries, Plan, PlanError, PublicFacts, SecondOrderTargets, SospPlan,
    SospSettings,
};
use dpopt_oracle::{
    Answer, Convexity, Mean, Number, Offers, Oracle, PrivateData, PrivateMean, Question,
};
use dpopt_privacy::{Adjacency, ChangedRecord, ClipNorm, Curator, Epsilon, ReplayForAudits};

use super::common::{DELTA, DIM, RELATIONS, budget};
use super::hostile_saddle;
use super::plans::{ALWAYS, MANY, episode, one_pass};
use super::replay::moved;
use super::{
    AuditError, Behaviour, CheckError, Claim, Hostile, HostileLoss, Kind, Label, Registry, Row,
    Settings, Target,
};
use crate::around::Around;
use crate::checks::{in_parts, mixed};
use dpopt_certify::random::Normals;

/// Slack for the rounding of sums, relative; the cap of a filter has a margin of 1e-9.
const SLACK: f64 = 1e-8;
/// Plans to draw from.
const PLANS: u64 = 200;
/// Of the second-order solver, whose planner takes longer.
const SECOND_ORDER_PLANS: u64 = 24;
/// Of the second-order solver without targets, which plans again after each certificate: that takes longer than the run.
const ANYTIME_PLANS: u64 = 4;
/// The same with episodes, of which many end far below their budget.
const EPISODE_PLANS: u64 = 12;
/// Most records of a data set.
const RECORDS: u64 = 9;
/// Most dimensions.
const DIMS: u64 = 4;
/// Most steps of a run.
const STEPS: u64 = 24;

type Plans = fn(Adjacency, u64) -> Result<Vec<Metered>, CheckError>;

/// Runs in a quick audit; in a full one ten times as many.
const METERS: [(&str, Plans, u64); 6] = [
    ("adaptive-gd/meter", plans, 10_000),
    ("sosp/meter", second_order_plans, 10_000),
    // Noise changes after each certificate: few plans and fewer runs.
    ("sosp/meter-anytime", anytime_plans, 200),
    // Multipliers follow the lengths of the products; these runs have hundreds of releases.
    ("sosp/meter-episodes", episode_plans, 200),
    // Slices have a cap each, under which episodes read theirs again and again.
    (SLICE_CAPS, slice_cap_plans, 10_000),
    // Multipliers, certificates and steps follow what was released.
    ("rgda-anytime/meter", saddle_plans, 10_000),
];
const SLICE_CAPS: &str = "adaptive-batch/meter-slice-caps";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for (name, plans, quick) in METERS {
            if name != SLICE_CAPS || adjacency.record_count_is_public() {
                let group = name.split('/').next().unwrap_or_default();
                let label = Label::new(&format!("{name}/{adjacency}"), group);
                registry.add(TranscriptMeter {
                    label,
                    adjacency,
                    plans,
                    quick,
                });
            }
        }
    }
    Ok(())
}

/// Meters adaptive runs under one adjacency.
struct TranscriptMeter {
    label: Label,
    adjacency: Adjacency,
    plans: Plans,
    quick: u64,
}

/// A plan, mu that it reserves for Gaussian releases, and the epsilon of its selection.
struct Metered {
    plan: Box<dyn Plan>,
    mu: f64,
    epsilon: f64,
    /// Records of its data sets; none: a few.
    records: Option<u64>,
}

/// The dearest run: what it cost over what it may.
#[derive(Default)]
struct Dearest {
    squared_mu: f64,
    share: f64,
    epsilon: f64,
    problem: Option<String>,
}

impl TranscriptMeter {
    fn runs(&self, plans: &[Metered], runs: std::ops::Range<u64>, seed: u64) -> Dearest {
        let mut dearest = Dearest::default();
        for run in runs {
            match metered(plans, self.adjacency, mixed(seed, run)) {
                Ok((spent, cap, epsilon)) => {
                    let share = spent / cap;
                    if !(share <= 1.0 + SLACK) {
                        dearest.problem = Some(format!(
                            "run {run} cost a squared mu of {spent}, and {cap} was reserved"
                        ));
                    }
                    dearest.squared_mu = dearest.squared_mu.max(spent);
                    dearest.share = dearest.share.max(share);
                    dearest.epsilon = dearest.epsilon.max(epsilon);
                }
                Err(error) => dearest.problem = Some(format!("run {run}: {error}")),
            }
        }
        dearest
    }
}

impl Target for TranscriptMeter {
    fn label(&self) -> &Label {
        &self.label
    }

    fn audit(&self, settings: &Settings) -> Result<Row, AuditError> {
        let seed = self.label.seed(settings);
        let plans = (self.plans)(self.adjacency, mixed(seed, u64::MAX))?;
        let runs = settings.effort.runs(self.quick, 10 * self.quick);
        let parts = in_parts(runs, |part| self.runs(&plans, part, seed));
        let most = |f: fn(&Dearest) -> f64| parts.iter().map(f).fold(0.0, f64::max);
        let problem = parts.iter().find_map(|part| part.problem.clone());
        let claimed = plans.iter().map(|metered| metered.mu).fold(0.0, f64::max);
        let claim = Claim::gaussian(claimed, DELTA).map_err(CheckError::from)?;
        let share = most(|part| part.share);
        // A meter that never comes near the budget measures nothing.
        let refuted = problem.is_some() || share < 0.5;
        let why = problem.unwrap_or_else(|| {
            format!("at most {share:.4} of the budget of its plan in every run")
        });
        Ok(Row {
            claimed_epsilon: Some(claim.epsilon),
            delta: claim.delta,
            replay_mu: Some(most(|part| part.squared_mu).sqrt()),
            claimed_mu: Some(claimed),
            replay_epsilon: Some(most(|part| part.epsilon)),
            ..self.label.row(Kind::Replay, runs, refuted, why)
        })
    }
}

/// One run and its replay: squared mu that it cost, squared mu reserved, and how far probabilities of a selection moved over what
/// they may.
fn metered(
    plans: &[Metered],
    adjacency: Adjacency,
    seed: u64,
) -> Result<(f64, f64, f64), CheckError> {
    let mut random = Normals::new(seed);
    let metered = &plans[random.below(plans.len() as u64) as usize];
    let plan = &*metered.plan;
    let dim = plan.dim();
    let count = metered.records.unwrap_or(1 + random.below(RECORDS));
    let mut recorded: Vec<Hostile> = (0..count).map(|_| record(&mut random)).collect();
    let mut replayed = recorded.clone();
    // The first and the last position as often as all others.
    let at = match random.below(4) {
        0 => 0,
        1 => count - 1,
        _ => random.below(count),
    };
    let place = at as usize;
    let (one, other) = opposed(&mut random);
    let changed = match adjacency {
        Adjacency::AddRemove if random.below(2) == 0 => {
            replayed.insert(place, one);
            ChangedRecord::Added(at)
        }
        Adjacency::AddRemove => {
            recorded[place] = one;
            replayed.remove(place);
            ChangedRecord::Removed(at)
        }
        Adjacency::ReplaceOne => {
            recorded[place] = one;
            replayed[place] = other;
            ChangedRecord::InPlace(at)
        }
        _ => {
            recorded[place] = one;
            replayed[place] = Hostile::nothing();
            ChangedRecord::InPlace(at)
        }
    };
    let declared = (!adjacency.record_count_is_public()).then_some(count);
    let tape = ReplayForAudits::new(adjacency, seed, changed)?;
    let lies = mixed(seed, 1);
    let run = |curator: Curator, records: Vec<Hostile>| -> Result<String, CheckError> {
        let data = PrivateData::made_up_of(records, adjacency, declared)?;
        let needs = plan.needs();
        let hessians = needs.covers(Offers::HESSIANS) || needs.covers(Offers::HESSIAN_PRODUCTS);
        // A refusal is as public as an outcome, and has to be the same.
        Ok(if plan.blocks().is_some() {
            let mut liar = lying(hostile_saddle::means(&data, plan, curator)?, lies, hessians);
            format!("{:?}", plan.run(&mut liar, &mut NoObserver))
        } else {
            let means = PrivateMean::new(&data, HostileLoss { dim }, curator)?.with_hessians();
            let mut liar = lying(means, lies, hessians);
            format!("{:?}", plan.run(&mut liar, &mut NoObserver))
        })
    };
    let first = run(tape.recorder(), recorded)?;
    let second = run(tape.replayer(), replayed)?;
    let report = tape.report();
    if let Some(divergence) = &report.divergence {
        return Err(divergence.to_string().into());
    }
    if first != second {
        return Err(format!("public outcomes differ: {first} and {second}").into());
    }
    let (squares, epsilon) = moved(&report);
    let allowed = metered.epsilon;
    if !(epsilon <= allowed * (1.0 + SLACK)) {
        return Err(format!("a selection moved by {epsilon}, and {allowed} was reserved").into());
    }
    let share = if allowed > 0.0 {
        epsilon / allowed
    } else {
        0.0
    };
    Ok((squares, metered.mu * metered.mu, share))
}

/// A record that answers anything.
fn record(random: &mut Normals) -> Hostile {
    use Behaviour::{Constant, Flip, Hashed, Huge, Infinite, Nan, Nothing, Panics, Tiny};
    let all = [
        Constant, Flip, Hashed, Nothing, Nan, Huge, Infinite, Tiny, Panics,
    ];
    // Panics are slow to catch, and rare.
    let kinds = if random.below(16) == 0 { 9 } else { 8 };
    Hostile {
        behaviour: all[random.below(kinds) as usize],
        axis: random.below(DIMS) as usize,
        sign: (2.0 * random.uniform() - 1.0) * 4.0,
    }
}

/// Two contents of a record, mostly as far from each other as can be.
fn opposed(random: &mut Normals) -> (Hostile, Hostile) {
    let one = Hostile {
        sign: 4.0,
        ..record(random)
    };
    if random.below(4) == 0 {
        return (one, record(random));
    }
    (one, Hostile { sign: -4.0, ..one })
}

/// Plans of every kind, for data sets of a few records and for ones that are said to be large.
fn plans(adjacency: Adjacency, seed: u64) -> Result<Vec<Metered>, CheckError> {
    let mut random = Normals::new(seed);
    let mut plans = Vec::new();
    let mut number = 0;
    while (plans.len() as u64) < PLANS {
        number += 1;
        if number > 100 * PLANS {
            return Err("no plan fits the meter".into());
        }
        let facts = facts(adjacency, &mut random);
        let budget = budget(10f64.powf(4.0 * random.uniform() - 1.0))?;
        let norms = if random.below(2) == 0 {
            NormQueries::Fixed
        } else {
            NormQueries::Relative
        };
        let selection = match random.below(3) {
            0 => AdaptiveSelection::Last,
            1 => AdaptiveSelection::SmallestNorm,
            _ => AdaptiveSelection::Exponential { share: 0.2 },
        };
        let settings = AdaptiveSettings::new()
            .with_norms(norms)
            .with_selection(selection)
            .with_max_steps(1 + random.below(STEPS));
        match AdaptiveGdPlan::new(&facts, &budget, settings) {
            Ok(plan) => plans.push(Metered {
                mu: plan.mu(),
                epsilon: plan.selection_epsilon().map_or(0.0, Epsilon::get),
                records: None,
                plan: Box::new(plan),
            }),
            // Too few records for that budget.
            Err(PlanError::Unaffordable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(plans)
}

fn facts(adjacency: Adjacency, random: &mut Normals) -> PublicFacts {
    PublicFacts {
        records: 10f64.powf(1.0 + 5.0 * random.uniform()) as u64,
        dim: 1 + random.below(DIMS) as usize,
        adjacency,
        lipschitz: 1.0,
        smoothness: 10f64.powf(2.0 * random.uniform() - 1.0),
        initial_gap: 0.5,
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    }
}

/// Plans of the second-order solver with targets, near the least that the budget pays for and far from it.
fn second_order_plans(adjacency: Adjacency, seed: u64) -> Result<Vec<Metered>, CheckError> {
    let of = (SECOND_ORDER_PLANS, CurvatureBy::default());
    sosp_plans(of, adjacency, seed, wider)
}

/// Targets that say less than the least that are certain.
fn wider(random: &mut Normals, anytime: &SospPlan) -> Option<SecondOrderTargets> {
    let facts = anytime.facts();
    let least = anytime.level().targets;
    let wider = |x: f64, limit: f64, share: f64| x.powf(1.0 - share) * limit.powf(share);
    let limit = 0.99 * facts.trivial_bound();
    Some(SecondOrderTargets {
        gradient: wider(least.gradient, limit, 0.3 * random.uniform()),
        curvature: wider(
            least.curvature,
            0.99 * facts.smoothness,
            0.3 * random.uniform(),
        ),
    })
}

/// Plans of the second-order solver that go on after their first certificate.
fn anytime_plans(adjacency: Adjacency, seed: u64) -> Result<Vec<Metered>, CheckError> {
    let of = (ANYTIME_PLANS, CurvatureBy::default());
    sosp_plans(of, adjacency, seed, |_, _| None)
}

/// So many plans of the second-order solver, with these targets, which are given the plan without any.
fn sosp_plans(
    (count, by): (u64, CurvatureBy),
    adjacency: Adjacency,
    seed: u64,
    targets: fn(&mut Normals, &SospPlan) -> Option<SecondOrderTargets>,
) -> Result<Vec<Metered>, CheckError> {
    let mut random = Normals::new(seed);
    let mut plans = Vec::new();
    let mut number = 0;
    while (plans.len() as u64) < count {
        number += 1;
        if number > 100 * count {
            return Err("no plan fits the meter".into());
        }
        let facts = facts(adjacency, &mut random);
        let hessian = HessianFacts {
            lipschitz: 10f64.powf(random.uniform() - 0.5),
            frobenius: facts.smoothness * (1.0 + random.uniform()),
        };
        let budget = budget(10f64.powf(3.0 * random.uniform()))?;
        // Products of episodes are steps too: runs are to end by their budget.
        let most = match by {
            CurvatureBy::Episodes => 10 * STEPS * STEPS,
            _ => STEPS * STEPS,
        };
        let settings = SospSettings::new(most).with_curvature_by(by);
        let settings = match random.below(3) {
            _ if by == CurvatureBy::Episodes => settings,
            0 => settings.with_estimates(Estimates::Recursive),
            1 => settings.with_measured_steps(),
            _ => settings,
        };
        let anytime = match SospPlan::new(&facts, &hessian, &budget, settings) {
            Ok(plan) => plan,
            Err(PlanError::Uncertifiable { .. } | PlanError::TooFewSteps { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let plan = match targets(&mut random, &anytime) {
            Some(targets) => {
                SospPlan::new(&facts, &hessian, &budget, settings.with_targets(targets))?
            }
            None => anytime,
        };
        plans.push(Metered {
            mu: plan.mu(),
            epsilon: 0.0,
            records: None,
            plan: Box::new(plan),
        });
    }
    Ok(plans)
}

/// Plans of the second-order solver with episodes, which go on after their first certificate.
fn episode_plans(adjacency: Adjacency, seed: u64) -> Result<Vec<Metered>, CheckError> {
    let of = (EPISODE_PLANS, CurvatureBy::Episodes);
    sosp_plans(of, adjacency, seed, |_, _| None)
}

/// Plans of one pass whose slices have caps, by hand: episodes of all lengths, some of which their slice pays for.
fn slice_cap_plans(adjacency: Adjacency, seed: u64) -> Result<Vec<Metered>, CheckError> {
    let mut random = Normals::new(seed);
    let facts = PublicFacts {
        records: MANY,
        ..super::plans::facts(adjacency, DIM)
    };
    let each = |_| {
        let random = &mut random;
        let budget = budget(10f64.powf(1.0 + random.uniform()))?;
        let episode = episode(10f64.powf(-random.uniform()), 2 + random.below(40))?;
        let plan = one_pass(&facts, &budget, |schedule| {
            schedule.episode = Some(episode);
            schedule.hessian_batch = 1 + random.below(3);
            schedule.candidate = if random.below(2) == 0 { ALWAYS } else { 0.7 };
            // Flat enough, with a gradient that is never short.
            schedule.targets.curvature = ALWAYS;
            schedule.targets.gradient = -ALWAYS;
        })?;
        Ok(Metered {
            mu: budget.mu()?.get(),
            epsilon: 0.0,
            records: Some(MANY),
            plan: Box::new(plan),
        })
    };
    (0..PLANS).map(each).collect()
}

/// Plans of descent-ascent in levels, for few records and for ones that are said to be many.
fn saddle_plans(adjacency: Adjacency, seed: u64) -> Result<Vec<Metered>, CheckError> {
    let mut random = Normals::new(seed);
    let mut plans = Vec::new();
    for _ in 0..100 * SECOND_ORDER_PLANS {
        if plans.len() as u64 == SECOND_ORDER_PLANS {
            return Ok(plans);
        }
        let dims = (
            1 + random.below(DIMS) as usize,
            1 + random.below(DIMS) as usize,
        );
        let records = 10f64.powf(2.0 + 3.0 * random.uniform()) as u64;
        let epsilon = 10f64.powf(3.0 * random.uniform() - 1.0);
        let share = random.uniform();
        if let Some(plan) = hostile_saddle::random_plan(adjacency, epsilon, (records, dims), share)?
        {
            plans.push(Metered {
                mu: plan.mu(),
                epsilon: 0.0,
                records: None,
                plan: Box::new(plan),
            });
        }
    }
    Err("no plan fits the meter".into())
}

/// An oracle whose released norms and Hessians are lied about, and gradients where there are Hessians: post-processing, the same in both
/// runs.
fn lying<O: Oracle>(inner: O, seed: u64, hessians: bool) -> impl Oracle {
    let mut random = Normals::new(seed);
    // In most runs gradients are as short as they can be, so that norms and Hessians follow.
    let short = hessians && !mixed(seed, 2).is_multiple_of(4);
    // In some all norms are far below zero, which no length is, and in some all Hessians are zero: one certificate after the other.
    let below = hessians && mixed(seed, 3).is_multiple_of(8);
    let flat = mixed(seed, 4).is_multiple_of(4);
    // Products with a v that is nearly out, so many of them.
    let hovers = !mixed(seed, 5).is_multiple_of(4);
    let mut stays = 0u64;
    Around::new(inner, move |inner: &mut O, question| {
        if let Question::HessianVector { of, .. } = &question {
            let along = of.direction.to_vec();
            let length = dpopt_linalg::norm(&along);
            // L1, about: the radius follows the length.
            let unit = of.radius.map_or(1.0, ClipNorm::get) / length.max(f64::MIN_POSITIVE);
            stays = stays.saturating_sub(1);
            let eigenvalue = match random.below(4) {
                0 if !hovers => return inner.answer(question),
                1 if !hovers => 0.0,
                _ if !hovers => 2.0 * random.uniform() - 1.5,
                // As long as it can be without leaving, then out.
                _ if stays > 0 && length > 0.6 => 0.0,
                _ => -0.6,
            };
            return Ok(match inner.answer(question)? {
                Answer::Mean(released) => {
                    let lie = along.iter().map(|v| eigenvalue * unit * v).collect();
                    Answer::Mean(Mean::new(lie, released.noise_std))
                }
                other => other,
            });
        }
        // From a few products to more than an episode has, which then certifies.
        stays = (10.0 * random.uniform()).exp2() as u64;
        let (hessian, gradient) = match question {
            Question::Hessian { .. } => (true, false),
            Question::Mean { .. } => (false, true),
            _ => (false, false),
        };
        match inner.answer(question)? {
            Answer::Number(released) => {
                let lie = match random.below(8) {
                    _ if below => -100.0,
                    0 => -100.0,
                    1 => -released.number.abs(),
                    2 => released.number.abs() * 1e-3,
                    // As long as it can be: all gradients are cheap then, and the run goes on.
                    3 => 1.0,
                    _ => released.number,
                };
                Ok(Answer::Number(Number::new(lie, released.noise_std)))
            }
            Answer::Mean(released) if hessian || (gradient && short) => {
                // Below zero on the diagonal: a saddle, and the run goes on.
                let factor = match (hessian, random.below(8)) {
                    (true, _) if flat => 0.0,
                    (true, 0) => 0.0,
                    (true, 1) => 1.0,
                    (false, 0) => 1.0,
                    (false, _) => 1e-6,
                    _ => -1e3,
                };
                let lie = released.mean.iter().map(|x| factor * x.abs()).collect();
                Ok(Answer::Mean(Mean::new(lie, released.noise_std)))
            }
            other => Ok(other),
        }
    })
}
