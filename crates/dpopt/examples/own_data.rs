//! A table of one's own: a CSV text and a public schema in, a private model and its cost out.
//!
//! `cargo run --release -p dpopt --features data --example own_data`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::data::tabular::{Schema, read_table_from};
use dpopt::prelude::*;

/// Public: nothing in it was read off the records.
const SCHEMA: &str = r#"
format = 1
row_norm = 1.5
intercept = 1.0

[label]
column = "late"
values = ["no", "yes"]
positive = "yes"
default = "no"

[[column]]
name = "distance"
kind = "number"
min = 0.0
max = 100.0
default = 20.0

[[column]]
name = "by"
kind = "category"
values = ["bicycle", "bus", "train"]
"#;

/// Made-up commuters; in real use `read_table` opens a file.
fn table() -> String {
    let line = |i: u32| {
        let (distance, by) = (i * 37 % 101, ["bicycle", "bus", "train"][i as usize % 3]);
        let late = distance + if by == "bus" { 40 } else { 0 } > 70;
        format!("{distance},{by},{}\n", if late { "yes" } else { "no" })
    };
    let lines: String = (0..5000).map(line).collect();
    format!("distance,by,late\n{lines}")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = Schema::from_toml(SCHEMA, "the schema")?;
    let table = read_table_from(table().as_bytes(), "the table", &schema)?;
    let (norm, adjacency) = (ClipNorm::new(table.row_norm)?, Adjacency::ReplaceOne);
    let data = PrivateData::new(table.design, table.labels, norm, adjacency, None)?;

    let loss = Glm::Logistic;
    let constants = loss.constants(data.row_norm());
    let (records, dim) = (data.public_records(), data.dim());
    let facts = PublicFacts::glm(records, dim, adjacency, data.row_norm(), constants)?;
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let limits = Limits::steps(1000);
    let choice = auto(&facts, &ExtraFacts::default(), &budget, Some(&limits))?;
    let run = GlmRun::new(&data, loss, Curator::protected(adjacency)?);
    let (outcome, curator) = run.run(&*choice.plan, &mut NoObserver)?;

    for (name, weight) in schema.feature_names().iter().zip(&outcome.point) {
        println!("{name:<16} {weight:>7.3}");
    }
    println!("epsilon {:.3}", curator.guarantee(budget.delta)?.epsilon());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
