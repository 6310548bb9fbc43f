//! Plans that are in the library only: the table of `docs/solvers.md` is the list of `dpopt-certify`, and each is audited.

use std::path::Path;

use dpopt_certify::LIBRARY;
use dpopt_privacy::Adjacency;
use dpopt_theory::audit::Registry;

const PAGE: &str = include_str!("../../../../docs/solvers.md");

#[test]
fn the_table_of_the_library_is_the_registries() {
    let (_, part) = PAGE.split_once("## In the library only").unwrap();
    let part = part.split("\n## ").next().unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for plan in LIBRARY {
        let theory = plan
            .theory_page
            .map_or(String::new(), |page| format!("[theory]({page}), "));
        let row = format!(
            "| `{}` | `{}` | {} ({theory}[privacy]({})) | {} |",
            plan.name,
            plan.plan,
            plan.summary,
            plan.privacy_page,
            if plan.positions { "refused" } else { "" },
        );
        assert!(part.lines().any(|line| line == row), "missing:\n{row}");
        for page in plan.theory_page.into_iter().chain([plan.privacy_page]) {
            assert!(docs.join(page).is_file(), "{}: {page}", plan.name);
        }
    }
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), LIBRARY.len());
    let mut names: Vec<&str> = LIBRARY.iter().map(|plan| plan.name).collect();
    names.extend(dpopt_nonconvex::SOLVERS.iter().map(|solver| solver.name));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), LIBRARY.len() + dpopt_nonconvex::SOLVERS.len());
}

/// Each has rows of its own under every adjacency that it accepts.
#[test]
fn every_plan_of_the_library_is_audited() {
    let registry = Registry::standard().unwrap();
    for plan in LIBRARY {
        for adjacency in [
            Adjacency::ReplaceOne,
            Adjacency::ZeroOut,
            Adjacency::AddRemove,
        ] {
            if plan.positions && !adjacency.record_count_is_public() {
                continue;
            }
            let (group, end) = (format!("{}/", plan.name), format!("/{adjacency}"));
            let own = |name: &str| name.starts_with(&group) && name.ends_with(&end);
            assert!(registry.names().any(own), "{} {adjacency}", plan.name);
        }
    }
}
