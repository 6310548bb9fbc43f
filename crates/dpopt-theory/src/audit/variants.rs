//! Variants of solvers beside the plans that all solvers are audited with: noise and stops of trees, samples of other records,
//! and plans that read more records than there are.

use std::sync::Arc;

use dpopt_nonconvex::{Plan, TreeNoise};
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DIM, RELATIONS};
use super::estimators::{Case, cases};
use super::hostile::{Hostile, hostile_pairs, means, private};
use super::plans::{FEW, MANY, sampled, stages, tree};
use super::registry::Registry;
use super::replay::CuratorReplay;
use super::solvers::{walk, walk_on_hostile};
use crate::checks::CheckError;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        trees(registry, adjacency)?;
        let more = tree(adjacency, DIM, |_, schedule| schedule.rounds = 3)?;
        run_out(registry, "tree-spider", Arc::new(more), adjacency);
        let more = stages(adjacency, DIM, &[(4, 3), (5, 2), (6, 3)])?;
        run_out(registry, "recursive-gd", Arc::new(more), adjacency);
        others(registry, adjacency)?;
    }
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

/// A plan that reads more records than there are.
fn run_out(registry: &mut Registry, solver: &str, plan: Arc<dyn Plan>, adjacency: Adjacency) {
    let target = CuratorReplay::new(
        &format!("{solver}/records-run-out/{adjacency}"),
        solver,
        adjacency,
        move |_| hostile_pairs(adjacency, MANY as usize),
        move |curator: Curator, records: &Vec<Hostile>| {
            walk_on_hostile(&*plan, records, (adjacency, MANY), None, curator)
        },
    );
    registry.add(target.refused());
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
        let plan = sampled(planned, DIM, records)?;
        let target = CuratorReplay::new(
            &format!("sampled-spiderboost/{name}/{adjacency}"),
            "sampled-spiderboost",
            adjacency,
            move |_| hostile_pairs(adjacency, FEW as usize),
            move |curator: Curator, hostile: &Vec<Hostile>| {
                walk_on_hostile(&plan, hostile, (adjacency, FEW), None, curator)
            },
        );
        registry.add(target.refused_unless(runs));
    }
    Ok(())
}
