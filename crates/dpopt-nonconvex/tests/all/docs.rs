//! The table of `docs/solvers.md` is the registry's.

use std::collections::BTreeMap;
use std::path::Path;

use dpopt_nonconvex::{Auto, SOLVERS, Solver, auto_names};

const PAGE: &str = include_str!("../../../../docs/solvers.md");

/// The row of a solver.
fn row(solver: &Solver) -> String {
    let name = format!("`{}`", solver.name);
    let theory = solver
        .theory_page
        .map_or(String::new(), |page| format!(" ([theory]({page}))"));
    let bound = solver.bound.map_or("none".to_owned(), |(quantity, sense)| {
        format!("{quantity}: {sense}")
    });
    let needs = solver.needs;
    let needs: Vec<&str> = [
        (needs.radius, "needs `--radius`"),
        (needs.goldstein, "needs `--goldstein-radius`"),
        (needs.hessian, "second derivatives"),
        (needs.values, "takes `--directions`"),
        (needs.kl, "needs a KL condition: in the library only"),
        (needs.convex, "convex losses only"),
        (needs.positions, "not under add-remove"),
        (needs.memory, "records in memory"),
        (solver.uses_rank, "uses `--rank`"),
    ]
    .into_iter()
    .filter_map(|(applies, words)| applies.then_some(words))
    .collect();
    let (summary, needs) = (solver.summary, needs.join("; "));
    format!("| {name} | {summary}{theory} | {bound} | {needs} |")
}

#[test]
fn the_table_of_solvers_is_the_registry() {
    for solver in SOLVERS {
        let row = row(solver);
        assert!(PAGE.lines().any(|line| line == row), "missing:\n{row}");
    }
    let minimisers = PAGE.split("## Saddle problems").next().unwrap_or(PAGE);
    let rows = minimisers.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), SOLVERS.len());
}

/// Those that need positions, and state a bound for the population.
#[test]
fn the_page_names_all_solvers_that_read_slices() {
    let phrase = " read each record once, in slices";
    let found = PAGE.lines().find_map(|line| line.split_once(phrase));
    let (list, _) = found.expect("the section on the order of the records");
    let mut named: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    let population = |solver: &Solver| solver.bound.is_some_and(|(_, sense)| sense.of_population());
    let mut known: Vec<&str> = SOLVERS
        .iter()
        .filter(|solver| solver.needs.positions && population(solver))
        .map(|solver| solver.name)
        .collect();
    named.sort_unstable();
    known.sort_unstable();
    assert_eq!(named, known);
}

/// The rows of `auto` have each solver once, beside the part that it has in the rule, or why it has none.
#[test]
fn the_rows_of_auto_are_the_registry() {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for solver in SOLVERS {
        let names = parts.entry(solver.auto.to_string()).or_default();
        names.push(format!("`{}`", solver.name));
    }
    for (part, names) in &parts {
        let row = format!("| {part} | {} |", names.join(", "));
        assert!(PAGE.lines().any(|line| line == row), "missing:\n{row}");
    }
    // The rule names the solvers that it compares.
    let line = PAGE.lines().find(|line| line.starts_with("3. ")).unwrap();
    for name in auto_names(Auto::ByBound).split(", ") {
        assert!(line.contains(&format!("`{name}`")), "{name}: {line}");
    }
}

#[test]
fn pages_exist() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for solver in SOLVERS {
        let pages = solver.theory_page.into_iter().chain([solver.privacy_page]);
        for page in pages {
            let file = page.split('#').next().unwrap();
            assert!(docs.join(file).is_file(), "{solver}: {page}");
        }
        assert!(
            solver.theory_page.is_some() || !solver.states_a_bound(),
            "{solver} states a bound that no page proves"
        );
    }
}
