//! One budget for several runs, in a ledger that survives a crash.
//!
//! `cargo run --release -p dpopt --example shared_budget`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::nonconvex::NOISY_GD;
use dpopt::prelude::*;
use dpopt::privacy::{FilterKind, Ledger};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("dpopt-shared-budget-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = two_runs(&folder.join("budget.ledger"));
    std::fs::remove_dir_all(&folder)?;
    result
}

fn two_runs(path: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let rows = (0..400).flat_map(|i| [if i % 2 == 0 { 0.8 } else { -0.8 }, 0.5]);
    let labels = (0..400).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 });
    let design = Design::dense(2, rows.collect())?;
    let norm = ClipNorm::new(1.0)?;
    let adjacency = Adjacency::ReplaceOne;
    let data = PrivateData::new(design, labels.collect(), norm, adjacency, None)?;
    let (all, delta) = (Epsilon::new(1.0)?, Delta::new(1e-6)?);

    // Each run asks for 0.6 of the 1. A filter in Gaussian DP composes better than by sums, but not that well.
    let budget = Budget {
        epsilon: Epsilon::new(0.6)?,
        delta,
    };
    for loss in [Glm::Logistic, Glm::Welsch, Glm::Logistic] {
        let facts = PublicFacts::glm(400, 2, adjacency, 1.0, loss.constants(1.0))?;
        let plan = NOISY_GD.plan(&facts, &ExtraFacts::default(), &budget, &Limits::steps(200))?;
        let mut ledger = Ledger::open_or_create(path, all, delta, adjacency, FilterKind::Gdp)?;
        let state = ledger.state()?;
        println!("epsilon left: {:.3}", ledger.epsilon_left(&state));
        let curator = Curator::protected(adjacency)?.with_ledger(ledger)?;
        match GlmRun::new(&data, loss, curator).run(&*plan, &mut NoObserver) {
            Ok((outcome, _)) => println!("{loss}: {:.3?}", outcome.point),
            // Before anything is read.
            Err(refused) => println!("{loss}: {refused}"),
        }
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
