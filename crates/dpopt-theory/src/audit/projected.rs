//! Audits of runs on projected records: any map, rows that it lengthens, bounds that are too short.

use dpopt_linalg::{Design, JlMap};
use dpopt_nonconvex::{JlBranch, JlFacts, JlPlan, JlShape, Plan, solver};
use dpopt_oracle::{Glm, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Curator};

use super::estimators::other;
use super::hostile::neighbours;
use super::mechanisms::RELATIONS;
use super::plans::{budget, facts, plan_of, spider};
use super::replay::{CuratorReplay, Pair};
use super::solvers::{Labelled, labelled_pairs, walk};
use super::{AuditError, Registry};

const DIM: usize = 3;
const RECORDS: u64 = 8;

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    for adjacency in RELATIONS {
        for (solver, rows, sparse, shorten) in [
            ("noisy-gd-theory", 2, false, false),
            ("spiderboost", 1, false, true),
            ("spiderboost", 2, true, true),
            ("dp-sgd", 2, true, false),
        ] {
            run(registry, adjacency, solver, rows, sparse, shorten)?;
        }
    }
    Ok(())
}

/// The seed of a map that lengthens the record along its first row to more than 1.2, and that record.
fn lengthening(rows: usize) -> Result<(u64, [f64; DIM]), AuditError> {
    for seed in 0..1000 {
        let map =
            JlMap::gaussian(rows, DIM, seed).map_err(|why| AuditError::Other(why.to_string()))?;
        let mut longest = [0.0; DIM];
        let mut column = vec![0.0; rows];
        for (j, entry) in longest.iter_mut().enumerate() {
            map.column(j, &mut column);
            *entry = column[0];
        }
        let length = longest.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length > 1.2 {
            return Ok((seed, longest.map(|x| x / length)));
        }
    }
    Err(AuditError::Other("no map lengthens a row".to_owned()))
}

/// The hostile rows of all losses, and the longest under the map.
fn pairs(adjacency: Adjacency, along: [f64; DIM]) -> Vec<Pair<Vec<Labelled>>> {
    let contents = [
        ("longest", (along, 1.0), (along.map(|x| -x), 1.0)),
        ("labels of the longest", (along, 1.0), (along, -1.0)),
    ];
    let base = vec![(along, 1.0); RECORDS as usize];
    let mut all = neighbours(adjacency, &[base], &contents, &([0.0; DIM], 0.0));
    all.extend(labelled_pairs(adjacency));
    all
}

fn run(
    registry: &mut Registry,
    adjacency: Adjacency,
    name: &'static str,
    rows: usize,
    sparse: bool,
    shorten: bool,
) -> Result<(), AuditError> {
    let (seed, along) = lengthening(rows)?;
    let facts = JlFacts {
        facts: facts(adjacency, DIM),
        rank: None,
        seed,
    };
    // Shortened so that most rows are rescaled after the map, or left as long as they are.
    let row_norm = if shorten { 0.4 } else { 1e3 };
    let shape = JlShape {
        embedded_dim: rows,
        stretch: 1.0,
        row_norm: ClipNorm::new(row_norm)?,
    };
    // Slopes are 1 everywhere: the longest row has a gradient that is at the clip, or above it.
    let base: Box<dyn Plan> = match name {
        "spiderboost" => Box::new(spider(adjacency, rows, row_norm.min(1.0))?),
        _ => plan_of(solver(name).map_err(other)?, adjacency, rows)?,
    };
    let plan = JlPlan::by_hand(&facts, &budget()?, JlBranch::Given, shape, base);
    let storage = if sparse { "sparse" } else { "dense" };
    registry.add(CuratorReplay::new(
        &format!("jl/{name}-{rows}-{storage}/{adjacency}"),
        "jl",
        adjacency,
        move |_| pairs(adjacency, along),
        move |curator: Curator, records: &Vec<Labelled>| {
            let design = design(records, sparse)?;
            let labels = records.iter().map(|(_, label)| *label).collect();
            let declared = (!adjacency.record_count_is_public()).then_some(RECORDS);
            let norm = ClipNorm::new(1.0)?;
            let data = PrivateData::made_up(design, labels, norm, adjacency, declared)?;
            let embedded = plan.embedded(&data).map_err(other)?;
            Ok(walk(
                &plan,
                PrivateMean::new(&embedded, Glm::Absolute, curator)?,
            ))
        },
    ));
    Ok(())
}

fn design(records: &[Labelled], sparse: bool) -> Result<Design, AuditError> {
    let error = |why: dpopt_linalg::DesignError| AuditError::Other(why.to_string());
    if !sparse {
        let entries = records.iter().flat_map(|(row, _)| *row).collect();
        return Design::dense(DIM, entries).map_err(error);
    }
    let mut design = Design::sparse(DIM).map_err(error)?;
    for (row, _) in records {
        let entries: Vec<(u32, f32)> = (0..)
            .zip(row)
            .filter(|(_, x)| **x != 0.0)
            .map(|(j, x)| (j, *x as f32))
            .collect();
        design.push_row(&entries).map_err(error)?;
    }
    Ok(design)
}
