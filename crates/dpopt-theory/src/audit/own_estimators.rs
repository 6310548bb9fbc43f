//! Audits of solvers that run on estimators of their own: trees of rounds, sampled variations, recursive regularisation in
//! stages; and of what is made of the releases of DP-SGD.

use std::ops::ControlFlow;

use dpopt_nonconvex::{
    Budget, ConvexFacts, DpAdamPlan, Outcome, PublicFacts, RecursiveGdPlan, Release, RunError,
    SampledSpiderBoostPlan, SolverPlan, TreeNoise, TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::{Convexity, Means, Staged};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, Event};

use super::estimators::{Case, DIM, FEW, MANY, cases, means, private};
use super::hostile::{Hostile, hostile_pairs};
use super::mechanisms::{DELTA, RELATIONS, noise};
use super::replay::{CuratorReplay, Ran};
use super::solvers::{facts, plans, replays, sampled_canary};
use super::{AuditError, Registry};

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    let fixed_size = sampled_plan(Adjacency::ReplaceOne)?;
    let poisson = sampled_plan(Adjacency::AddRemove)?;
    for adjacency in RELATIONS {
        trees(registry, adjacency)?;
        sampled(registry, adjacency, &fixed_size, &poisson);
        stages(registry, adjacency)?;
        for (name, plan) in sampled_baselines(adjacency, DIM)? {
            replays(registry, name, &plan, adjacency)?;
        }
    }
    for (name, plan) in sampled_baselines(Adjacency::AddRemove, 8)? {
        if matches!(plan, SolverPlan::DpSgd(_)) {
            registry.add(sampled_canary(name, plan, 8)?.with_runs(40_000, 600_000));
        }
    }
    Ok(())
}

/// What people make of DP-SGD: clips that decay, here to a twentieth, and Adam.
fn sampled_baselines(
    adjacency: Adjacency,
    dim: usize,
) -> Result<Vec<(&'static str, SolverPlan)>, AuditError> {
    let mut baselines = Vec::new();
    for (name, plan) in plans(adjacency, dim)? {
        let ("dp-sgd", SolverPlan::DpSgd(sgd)) = (name, plan) else {
            continue;
        };
        let decaying = sgd.with_clip_decay(0.05)?;
        let adam = DpAdamPlan::on(decaying.clone(), 0.99, 1e-8, true)?;
        baselines.push(("dp-sgd-decay", SolverPlan::DpSgd(decaying)));
        baselines.push(("dp-adam", SolverPlan::DpAdam(adam)));
    }
    Ok(baselines)
}

pub(super) fn budget() -> Result<Budget, AuditError> {
    Ok(Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(DELTA)?,
    })
}

/// `adjacency`, or replaced by one that a planner for slices by position takes: the audit asks whether the run refuses.
fn with_positions(adjacency: Adjacency) -> Adjacency {
    if adjacency.record_count_is_public() {
        adjacency
    } else {
        Adjacency::ReplaceOne
    }
}

/// All that an observer sees.
pub(super) fn shown(text: &mut String) -> impl FnMut(&Release<'_>) -> ControlFlow<()> {
    move |release| {
        *text += &format!("{release:?};");
        ControlFlow::Continue(())
    }
}

pub(super) fn ran(text: &str, outcome: &Result<Outcome, RunError>, spent: Event) -> Ran {
    Ran {
        spent,
        refused: outcome.is_err(),
        outcome: format!("{text} {outcome:?}"),
    }
}

/// Two rounds of four leaves on fourteen records, or as many rounds as are asked for.
pub(super) fn tree_plan(adjacency: Adjacency, rounds: u64) -> Result<TreeSpiderPlan, AuditError> {
    let settings = TreeSettings::new(TreeTarget::Mean).even_if_vacuous();
    // Few records are planned for in no time, and the plan is replaced.
    let facts = PublicFacts {
        records: 100,
        ..facts(with_positions(adjacency), DIM)
    };
    let mut plan = TreeSpiderPlan::new(&facts, &budget()?, settings, 100)?;
    plan.rounds = rounds;
    plan.depth = 2;
    plan.batches = vec![3, 2, 1];
    plan.reach = 1.2;
    plan.step_length = 0.3;
    plan.noise_multiplier = noise(2.0)?;
    Ok(plan)
}

/// Runs a tree over any means.
pub(super) fn walk_tree<M: Means>(
    plan: &TreeSpiderPlan,
    means: M,
    spent: impl Fn(&mut M) -> Event,
) -> Result<Ran, AuditError> {
    let mut tracker = plan.estimator(means)?;
    let mut text = String::new();
    let outcome = plan.run(&mut tracker, &mut shown(&mut text));
    Ok(ran(&text, &outcome, spent(tracker.means_mut())))
}

/// What noise is scaled to, and below which norm the walk stops: about that of the noise of a root.
type Walk = (TreeNoise, Option<u8>);

fn trees(registry: &mut Registry, adjacency: Adjacency) -> Result<(), AuditError> {
    for (name, rounds) in [("plan", 2), ("records-run-out", 3)] {
        let plan = tree_plan(adjacency, rounds)?;
        let variants: &[Walk] = match name {
            "plan" => &[
                (TreeNoise::Actual, None),
                (TreeNoise::Path, None),
                (TreeNoise::Actual, Some(2)),
            ],
            _ => &[(TreeNoise::Actual, None)],
        };
        let target = CuratorReplay::new(
            &format!("tree-spider/{name}/{adjacency}"),
            "tree-spider",
            adjacency,
            move |_| cases(adjacency, MANY, variants),
            move |curator: Curator, ((noise, threshold), hostile): &Case<Walk>| {
                let data = private(adjacency, hostile, MANY)?;
                let mut plan = plan.clone();
                plan.settings.noise = *noise;
                plan.threshold = threshold.map(f64::from);
                walk_tree(&plan, means(&data, curator)?, |means| {
                    means.curator().spent()
                })
            },
        );
        let runs = name == "plan" && adjacency.record_count_is_public();
        registry.add(if runs { target } else { target.refused() });
    }
    Ok(())
}

/// Three phases of four steps, variations on samples of two of six records.
fn sampled_plan(adjacency: Adjacency) -> Result<SampledSpiderBoostPlan, AuditError> {
    let facts = facts(adjacency, DIM);
    let mut plan = SampledSpiderBoostPlan::new(&facts, &budget()?, 12)?;
    plan.facts.records = FEW as u64;
    plan.steps = 12;
    plan.phase = 4;
    plan.anchors = 3;
    plan.variations = 9;
    plan.batch = 2;
    plan.anchor_noise_multiplier = noise(2.0)?;
    plan.variation_noise_multiplier = noise(3.0)?;
    Ok(plan)
}

/// Plans of each adjacency on records of each. Samples of fixed size exist under replace-one only.
fn sampled(
    registry: &mut Registry,
    adjacency: Adjacency,
    fixed_size: &SampledSpiderBoostPlan,
    poisson: &SampledSpiderBoostPlan,
) {
    let mut others = fixed_size.clone();
    others.facts.records += 1;
    let replace_one = adjacency == Adjacency::ReplaceOne;
    for (name, plan, runs) in [
        ("fixed-size", fixed_size.clone(), replace_one),
        ("fixed-size-of-others", others, false),
        ("poisson", poisson.clone(), true),
    ] {
        let target = CuratorReplay::new(
            &format!("sampled-spiderboost/{name}/{adjacency}"),
            "sampled-spiderboost",
            adjacency,
            move |_| hostile_pairs(adjacency, FEW),
            move |curator: Curator, hostile: &Vec<Hostile>| {
                let data = private(adjacency, hostile, FEW)?;
                let mut tracker = plan.estimator(means(&data, curator)?)?;
                let mut text = String::new();
                let outcome = plan.run(&mut tracker, &mut shown(&mut text));
                let spent = tracker.means_mut().curator().spent();
                Ok(ran(&text, &outcome, spent))
            },
        );
        registry.add(if runs { target } else { target.refused() });
    }
}

/// Three stages on slices of their own, the first and the last alike to the accountant.
pub(super) fn stages_plan(adjacency: Adjacency) -> Result<RecursiveGdPlan, AuditError> {
    let public = PublicFacts {
        convexity: Convexity::Convex,
        ..facts(with_positions(adjacency), DIM)
    };
    let convex = ConvexFacts {
        public,
        radius: Some(1.0),
    };
    let mut plan = RecursiveGdPlan::with_growth(&convex, &budget()?, 1 << 40, 2.0)?;
    let stage = plan.stages.first().copied();
    let stage = stage.ok_or_else(|| AuditError::Other("a plan without stages".to_owned()))?;
    plan.stages = vec![stage; 3];
    for (stage, (records, steps)) in plan.stages.iter_mut().zip([(4, 3), (5, 2), (4, 3)]) {
        stage.outline.records = records;
        stage.outline.weight = 0.5;
        stage.outline.radius = 0.8;
        stage.steps = steps;
        stage.step_size = 0.3;
        stage.noise_multiplier = noise(2.0 * (steps as f64).sqrt())?;
    }
    Ok(plan)
}

/// Runs the stages over any means.
pub(super) fn walk_stages<M: Means>(
    plan: &RecursiveGdPlan,
    means: M,
    spent: impl Fn(&mut M) -> Event,
) -> Result<Ran, AuditError> {
    let mut staged = Staged::new(means, ClipNorm::new(plan.clip)?);
    let mut text = String::new();
    let outcome = plan.run(&mut staged, &mut shown(&mut text));
    Ok(ran(&text, &outcome, spent(staged.means_mut())))
}

fn stages(registry: &mut Registry, adjacency: Adjacency) -> Result<(), AuditError> {
    for (name, records) in [("plan", MANY), ("records-run-out", FEW)] {
        let plan = stages_plan(adjacency)?;
        let target = CuratorReplay::new(
            &format!("recursive-gd/{name}/{adjacency}"),
            "recursive-gd",
            adjacency,
            move |_| hostile_pairs(adjacency, records),
            move |curator: Curator, hostile: &Vec<Hostile>| {
                let data = private(adjacency, hostile, records)?;
                walk_stages(&plan, means(&data, curator)?, |means| {
                    means.curator().spent()
                })
            },
        );
        let runs = name == "plan" && adjacency.record_count_is_public();
        registry.add(if runs { target } else { target.refused() });
    }
    Ok(())
}
