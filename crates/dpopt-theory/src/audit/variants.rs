//! Variants of solvers beside the plans that all solvers are audited with: noise and stops of trees, samples of other records,
//! slopes over next to nothing, and plans that read more records than there are.

use std::sync::Arc;

use dpopt_nonconvex::{
    BoundedValues, GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings, Plan, TreeNoise,
};
use dpopt_oracle::{Batch, SmoothedFields};
use dpopt_privacy::{Adjacency, Curator, PrefixKind, SamplingRate};

use super::common::{DIM, RELATIONS, budget};
use super::estimators::{Case, cases};
use super::hostile::{means, private};
use super::plans::{
    FEW, MANY, STEPS, facts, goldstein, in_periods, proximal, sampled, stages, tree,
};
use super::solvers::{walk, walks};
use super::{CheckError, CuratorReplay, Registry};

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        trees(registry, adjacency)?;
        // Plans that read more records than there are.
        let tree: Arc<dyn Plan> = Arc::new(tree(adjacency, DIM, |_, more| more.rounds = 3)?);
        let stages: Arc<dyn Plan> = Arc::new(stages(adjacency, DIM, &[(4, 3), (5, 2), (6, 3)])?);
        for (solver, plan) in [("tree-spider", tree), ("recursive-gd", stages)] {
            let name = (solver, "records-run-out");
            registry.add(walks(name, &plan, (adjacency, MANY), None).refused());
        }
        others(registry, adjacency)?;
        periods(registry, adjacency)?;
        slopes(registry, adjacency)?;
    }
    Ok(())
}

/// Walks from values along one direction, along whole frames from a start that is moved, by next to nothing, and over next to
/// nothing: values at both ends are the same numbers then, and hashes of the points jump or don't.
fn slopes(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let (facts, budget) = (facts(adjacency, DIM), budget(1.0)?);
    let least = 1e-300;
    let bounded = BoundedValues {
        range: 1.0,
        smoothing: 0.1,
    };
    for (name, directions, cap, smoothing, bounded) in [
        ("one-direction", 1, 0.3, 0.1, None),
        ("moved-start", DIM, 0.3, 0.1, Some(bounded)),
        ("short-moves", 2, least, 0.1, None),
        ("short-ways", 2, 0.3, least, None),
    ] {
        let plan = goldstein(&facts, &budget, (STEPS, 4), Batch::All, Some(directions))?;
        let schedule = GoldsteinSchedule {
            cap,
            smoothing,
            ..*plan.schedule()
        };
        let settings = GoldsteinSettings {
            bounded,
            ..*plan.settings()
        };
        let plan = GoldsteinPlan::by_hand(&facts, &budget, &settings, schedule);
        let plan: Arc<dyn Plan> = Arc::new(plan);
        let name = ("goldstein-zo", name);
        registry.add(walks(name, &plan, (adjacency, FEW), None));
    }
    Ok(())
}

/// The walk in blocks with recursive estimates: one pass with each kind of noise, an anchor of two records and changes of
/// one; anchors from values; and plans that read more records than there are.
fn periods(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let (gradients, values) = (SmoothedFields::Gradients, SmoothedFields::Values);
    let positions = adjacency.record_count_is_public();
    for (name, kind, fields, records) in [
        ("toeplitz", PrefixKind::Toeplitz, gradients, MANY + 1),
        ("tree", PrefixKind::Tree, gradients, MANY + 1),
        ("independent", PrefixKind::Independent, values, MANY + 1),
        ("records-run-out", PrefixKind::Toeplitz, gradients, MANY),
    ] {
        let facts = facts(adjacency, DIM);
        let plan = goldstein(&facts, &budget(1.0)?, (12, 4), Batch::Next(2), None)?;
        let plan = in_periods(&plan, 4, Batch::Next(1), Some(kind), fields)?;
        let plan: Arc<dyn Plan> = Arc::new(plan);
        let name = format!("replay-periods-{name}");
        let size = (adjacency, records);
        let target = walks(("goldstein-pass", &name), &plan, size, None);
        registry.add(target.refused_unless(positions && records > MANY));
    }
    let facts = facts(adjacency, DIM);
    let plan = goldstein(&facts, &budget(1.0)?, (12, 4), Batch::All, None)?;
    let plan: Arc<dyn Plan> = Arc::new(in_periods(&plan, 4, Batch::All, None, values)?);
    let name = ("goldstein-recursive", "replay-values");
    registry.add(walks(name, &plan, (adjacency, FEW), None).refused_unless(positions));
    Ok(())
}

/// What noise is scaled to, and below which norm the walk stops: about that of the noise of a root.
type Variant = (TreeNoise, Option<u8>);

fn trees(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let variants: &[Variant] = &[(TreeNoise::Path, None), (TreeNoise::Actual, Some(2))];
    let target = CuratorReplay::new(
        &format!("tree-spider/variants/{adjacency}"),
        "tree-spider",
        adjacency,
        move |_| cases(adjacency, MANY as usize, variants),
        move |curator: Curator, ((noise, threshold), hostile): &Case<Variant>| {
            let plan = tree(adjacency, DIM, |settings, schedule| {
                settings.noise = *noise;
                schedule.threshold = threshold.map(f64::from);
            })?;
            let data = private(hostile, adjacency, MANY as usize)?;
            Ok(walk(&plan, means(&data, curator)?))
        },
    );
    registry.add(target.refused_unless(adjacency.record_count_is_public()));
    Ok(())
}

/// Sampled variations planned for another adjacency, or for one record more. Samples of fixed size exist under replace-one
/// only.
fn others(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let one = Adjacency::ReplaceOne;
    for (name, planned, records, runs) in [
        ("fixed-size", one, FEW, adjacency == one),
        ("fixed-size-of-others", one, FEW + 1, false),
        ("poisson", Adjacency::AddRemove, FEW, true),
    ] {
        let plan: Arc<dyn Plan> = Arc::new(sampled(planned, DIM, records)?);
        let name = ("sampled-spiderboost", name);
        registry.add(walks(name, &plan, (adjacency, FEW), None).refused_unless(runs));
    }
    Ok(())
}

/// Private proximal point on Poisson samples. (On all records it is among all solvers.) The spend of a plan covers its own
/// access and no other.
pub(super) fn samples_of_proximal_point(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let all = proximal(adjacency, DIM, None)?.access();
        let rate = SamplingRate::new(0.3)?;
        let plan: Arc<dyn Plan> = Arc::new(proximal(adjacency, DIM, Some(rate))?);
        for (name, access) in [
            ("replay-samples", None),
            ("refused-full-for-samples", Some(all)),
        ] {
            let target = walks(("proximal-point", name), &plan, (adjacency, FEW), access);
            registry.add(target.refused_unless(access.is_none()));
        }
    }
    Ok(())
}
