//! Audits of runs on projected records: any map, rows that it lengthens, bounds that are too short.

use dpopt_linalg::{Design, JlMap};
use dpopt_nonconvex::{JlBranch, JlFacts, JlPlan, JlShape, Plan, solver};
use dpopt_oracle::{Glm, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Curator};

use super::common::{DIM, RELATIONS, budget};
use super::hostile::neighbours;
use super::labelled::{self, Labelled, NOBODY, ROWS, examples, labelled_pairs};
use super::plans::{facts, plan_of, spider};
use super::solvers::walk;
use super::{CheckError, CuratorReplay, Pair, Registry};

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
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
fn lengthening(rows: usize) -> Result<(u64, [f64; DIM]), CheckError> {
    for seed in 0..1000 {
        let map = JlMap::gaussian(rows, DIM, seed)?;
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
    Err("no map lengthens a row".into())
}

/// The hostile rows of all losses, and the longest under the map.
fn pairs(adjacency: Adjacency, along: [f64; DIM]) -> Vec<Pair<Vec<Labelled>>> {
    let contents = [
        ("longest", (along, 1.0), (along.map(|x| -x), 1.0)),
        ("labels of the longest", (along, 1.0), (along, -1.0)),
    ];
    let base = vec![(along, 1.0); ROWS];
    let mut all = neighbours(adjacency, &[base], &contents, &NOBODY);
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
) -> Result<(), CheckError> {
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
        _ => plan_of(solver(name)?, adjacency, rows)?,
    };
    let plan = JlPlan::by_hand(&facts, &budget(1.0)?, JlBranch::Given, shape, base);
    let storage = if sparse { "sparse" } else { "dense" };
    registry.add(CuratorReplay::new(
        &format!("jl/{name}-{rows}-{storage}/{adjacency}"),
        "jl",
        adjacency,
        move |_| pairs(adjacency, along),
        move |curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records, sparse)?, adjacency, ROWS)?;
            let embedded = plan.embedded(&data)?;
            Ok(walk(
                &plan,
                PrivateMean::new(&embedded, Glm::Absolute, curator)?,
            ))
        },
    ));
    Ok(())
}

fn design(records: &[Labelled], sparse: bool) -> Result<(Design, Vec<f32>), CheckError> {
    let (dense, labels) = labelled::design(records)?;
    if !sparse {
        return Ok((dense, labels));
    }
    let mut design = Design::sparse(DIM)?;
    for (row, _) in records {
        let entries: Vec<(u32, f32)> = (0..)
            .zip(row)
            .filter(|(_, x)| **x != 0.0)
            .map(|(j, x)| (j, *x as f32))
            .collect();
        design.push_row(&entries)?;
    }
    Ok((design, labels))
}
