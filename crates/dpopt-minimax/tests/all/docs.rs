//! The table of saddle problems in `docs/solvers.md` is the registry's.

use std::path::Path;

use dpopt_minimax::SOLVERS;

const PAGE: &str = include_str!("../../../../docs/solvers.md");

#[test]
fn the_table_of_solvers_is_the_registry() {
    let (_, part) = PAGE.split_once("## Saddle problems").unwrap();
    let part = part.split("\n## ").next().unwrap();
    for solver in SOLVERS {
        let theory = solver
            .theory_page
            .map_or(String::new(), |page| format!(" ([theory]({page}))"));
        let bound = solver.bound.map_or("none".to_owned(), |(quantity, sense)| {
            format!("{quantity}: {sense}")
        });
        let (name, summary) = (solver.name, solver.summary);
        let row = format!("| `{name}` | {summary}{theory} | {bound} |");
        assert!(part.lines().any(|line| line == row), "missing:\n{row}");
    }
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), SOLVERS.len());
}

#[test]
fn pages_exist_and_bounds_have_one() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for solver in SOLVERS {
        let pages = solver.theory_page.into_iter().chain([solver.privacy_page]);
        for page in pages {
            let file = page.split('#').next().unwrap();
            assert!(docs.join(file).is_file(), "{}: {page}", solver.name);
        }
        assert!(solver.theory_page.is_some() || solver.bound.is_none());
        let found = dpopt_minimax::solver(solver.name).unwrap();
        assert_eq!(found.name, solver.name);
    }
}
