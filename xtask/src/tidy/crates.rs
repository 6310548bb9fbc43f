//! Which crate may depend on which: the layers, and external crates with an owner.

use std::path::Path;

use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, TargetKind};
use toml::de::DeTable;

use super::tree::{Problem, Tree};

/// The table that an unknown crate must be added to.
const HERE: &str = "xtask/src/tidy/crates.rs";

/// The dependencies that a crate may have.
#[derive(Clone, Copy)]
enum May {
    /// These workspace crates and no other.
    Only(&'static [&'static str]),
    /// Any workspace crate: off the path that users build.
    Anything,
}

/// The layers of `docs/architecture.md`. An arrow that is not here does not exist; adding one
/// means editing that document too.
const LAYERS: [(&str, May); 18] = [
    ("dpopt-lanes", May::Only(&[])),
    ("dpopt-linalg", May::Only(&["dpopt-lanes"])),
    ("dpopt-accounting", May::Only(&[])),
    ("dpopt-data", May::Only(&["dpopt-linalg"])),
    (
        "dpopt-privacy",
        May::Only(&["dpopt-accounting", "dpopt-lanes"]),
    ),
    (
        "dpopt-oracle",
        May::Only(&["dpopt-linalg", "dpopt-privacy"]),
    ),
    (
        "dpopt-solver",
        May::Only(&["dpopt-oracle", "dpopt-linalg", "dpopt-privacy"]),
    ),
    (
        "dpopt-nonconvex",
        May::Only(&[
            "dpopt-solver",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    (
        "dpopt-minimax",
        May::Only(&[
            "dpopt-solver",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    (
        "dpopt-certify",
        May::Only(&[
            "dpopt-solver",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    (
        "dpopt-theory",
        May::Only(&[
            "dpopt-report",
            "dpopt-certify",
            "dpopt-nonconvex",
            "dpopt-minimax",
            "dpopt-solver",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    (
        "dpopt",
        May::Only(&[
            "dpopt-theory",
            "dpopt-certify",
            "dpopt-nonconvex",
            "dpopt-minimax",
            "dpopt-solver",
            "dpopt-data",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    ("dpopt-report", May::Only(&[])),
    ("dpopt-cli", May::Only(&["dpopt", "dpopt-report"])),
    ("dpopt-python", May::Only(&["dpopt"])),
    ("xtask", May::Anything),
    ("dpopt-benches", May::Anything),
    (TESTKIT, May::Only(&[])),
];

/// Made-up numbers: any library but a solver may depend on it for its tests.
const TESTKIT: &str = "dpopt-testkit";

/// External crates that only some of ours may name, and why.
const OWNED: [(&str, &[&str], &str); 11] = [
    (
        "faer",
        &["dpopt-linalg"],
        "its API moves with each minor version",
    ),
    (
        "pulp",
        &["dpopt-lanes", "dpopt-linalg", "dpopt-benches"],
        "the choice of instructions, and the loads ahead of a walk",
    ),
    (
        "rayon",
        &["dpopt-lanes"],
        "threads belong to an estimator; there is no global pool",
    ),
    (
        "chacha20",
        &["dpopt-privacy"],
        "the generator is named in one file",
    ),
    (
        "getrandom",
        &["dpopt-privacy"],
        "entropy enters in one place",
    ),
    (
        "rand",
        &["dpopt-privacy", "dpopt-certify", "dpopt-theory"],
        "noise is drawn by the curator; the others sample public functions and make data up",
    ),
    (
        "rand_chacha",
        &[TESTKIT],
        "it leaves its state behind, and the generator of noise has one alias",
    ),
    (
        "rand_distr",
        &["dpopt-certify", "dpopt-theory"],
        "its normal takes a negative deviation and is not the exact sampler",
    ),
    ("clap", TERMINAL, "a library has no command line"),
    ("indicatif", TERMINAL, "a library does not draw"),
    ("ctrlc", TERMINAL, "a library does not catch signals"),
];

const TERMINAL: &[&str] = &["dpopt-cli", "xtask", "dpopt-benches"];

/// Crates whose point is that they never draw.
const SOLVERS: [&str; 2] = ["dpopt-nonconvex", "dpopt-minimax"];

/// A workspace crate as cargo sees it.
pub(super) struct Package {
    /// Its name.
    pub(super) name: String,
    /// Its manifest, from the repository's root.
    pub(super) manifest: String,
    /// Whether it has a library and is meant for others.
    pub(super) is_published_library: bool,
    dependencies: Vec<Dependency>,
}

/// One dependency of any kind (normal, build, dev; optional or not; for any target).
struct Dependency {
    /// The real name, whatever the manifest calls it.
    name: String,
    rename: Option<String>,
    kind: String,
    /// Found by path: a crate of ours.
    local: bool,
}

/// Asks cargo for the crates of the workspace at `root`.
pub(super) fn workspace(root: &Path) -> Result<Vec<Package>, String> {
    let metadata = asked(MetadataCommand::new().no_deps(), root)?;
    let packages = metadata.packages.iter();
    Ok(packages
        .map(|package| Package::of(package, &metadata.workspace_root))
        .collect())
}

/// Asks cargo for all crates that the workspace at `root` is built from, on any platform.
pub(super) fn resolved(root: &Path) -> Result<Metadata, String> {
    asked(MetadataCommand::new().features(CargoOpt::AllFeatures), root)
}

fn asked(command: &mut MetadataCommand, root: &Path) -> Result<Metadata, String> {
    let answer = command.current_dir(root).exec();
    answer.map_err(|error| format!("cargo metadata: {error}"))
}

impl Package {
    fn of(package: &cargo_metadata::Package, root: &cargo_metadata::camino::Utf8Path) -> Self {
        let manifest = &package.manifest_path;
        let is_library = package
            .targets
            .iter()
            .any(|target| target.kind == [TargetKind::Lib]);
        let dependencies = package.dependencies.iter().map(|dependency| Dependency {
            name: dependency.name.clone(),
            rename: dependency.rename.clone(),
            kind: dependency.kind.to_string(),
            local: dependency.path.is_some(),
        });
        Self {
            name: package.name.to_string(),
            manifest: manifest.strip_prefix(root).unwrap_or(manifest).to_string(),
            // `publish = false` is an empty list of registries.
            is_published_library: is_library && package.publish.is_none(),
            dependencies: dependencies.collect(),
        }
    }
}

/// The line of the manifest that names a dependency; one if it is not spelled out.
fn line_of(tree: &Tree, package: &Package, dependency: &Dependency) -> usize {
    /// The byte at which `key` stands in some table of dependencies.
    fn place(table: &DeTable<'_>, key: &str) -> Option<usize> {
        table.iter().find_map(|(name, value)| {
            let inner = value.get_ref().as_table()?;
            if !name.get_ref().ends_with("dependencies") {
                return place(inner, key);
            }
            let mut keys = inner.keys();
            Some(keys.find(|found| found.get_ref() == key)?.span().start)
        })
    }
    let key = dependency.rename.as_ref().unwrap_or(&dependency.name);
    let text = tree.text(&package.manifest).unwrap_or_default();
    let place = DeTable::parse(text)
        .ok()
        .and_then(|t| place(t.get_ref(), key));
    place.map_or(1, |at| text[..at].matches('\n').count() + 1)
}

fn problem(tree: &Tree, package: &Package, dependency: &Dependency, why: &str) -> Problem {
    let line = line_of(tree, package, dependency);
    let (from, to, kind) = (&package.name, &dependency.name, &dependency.kind);
    let why = format!("`{from}` may not depend on `{to}` ({kind}): {why}");
    Problem::new(&package.manifest, line, why)
}

/// An edge between our crates goes down the layers; dev-dependencies are edges too.
pub(super) fn edges(tree: &Tree, packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let Some((_, may)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
            let why = format!(
                "`{}` is not in the table of crates: say what it may depend on in LAYERS of {HERE} \
                 and in docs/architecture.md",
                package.name
            );
            problems.push(Problem::new(&package.manifest, 1, why));
            continue;
        };
        let May::Only(allowed) = may else { continue };
        for dependency in &package.dependencies {
            let made_up = dependency.name == TESTKIT && dependency.kind == "dev";
            if made_up && !SOLVERS.contains(&package.name.as_str()) {
                continue;
            }
            let ours = dependency.local
                || packages.iter().any(|p| p.name == dependency.name)
                || LAYERS.iter().any(|(name, _)| *name == dependency.name);
            if ours && !allowed.contains(&dependency.name.as_str()) {
                let why = format!("the layers have no such edge (LAYERS of {HERE})");
                problems.push(problem(tree, package, dependency, &why));
            }
        }
    }
    problems
}

/// An external crate with an owner is named by its owner only.
pub(super) fn external(tree: &Tree, packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            for (name, owners, reason) in OWNED {
                if dependency.name == name && !owners.contains(&package.name.as_str()) {
                    let why = format!("only {} may, since {reason}", owners.join(", "));
                    problems.push(problem(tree, package, dependency, &why));
                }
            }
        }
    }
    problems
}

/// A solver never draws: it has no generator to draw from, not even in its tests.
pub(super) fn solvers_never_draw(tree: &Tree, packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        if !SOLVERS.contains(&package.name.as_str()) {
            continue;
        }
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let draws =
                name.starts_with("rand") || ["getrandom", "fastrand", "oorandom"].contains(&name);
            if draws {
                let why = "a solver never draws; the curator and the estimator do";
                problems.push(problem(tree, package, dependency, why));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{Dependency, Package, edges, external, solvers_never_draw};

    /// A crate and its dependencies as (name, kind, rename).
    type Crate<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)]);

    /// A workspace as cargo would describe it.
    fn packages(crates: &[Crate<'_>]) -> Vec<Package> {
        let ours = |name: &str| crates.iter().any(|(other, _)| *other == name);
        let package = |(name, dependencies): &Crate<'_>| Package {
            name: (*name).to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            is_published_library: true,
            dependencies: dependencies
                .iter()
                .map(|&(name, kind, rename)| Dependency {
                    name: name.to_owned(),
                    rename: (!rename.is_empty()).then(|| rename.to_owned()),
                    kind: if kind.is_empty() { "normal" } else { kind }.to_owned(),
                    local: ours(name),
                })
                .collect(),
        };
        crates.iter().map(package).collect()
    }

    #[test]
    fn the_layers_as_drawn_are_allowed() {
        let packages = packages(&[
            ("dpopt-linalg", &[("faer", "", "")]),
            ("dpopt-accounting", &[]),
            ("dpopt-data", &[("dpopt-linalg", "", "")]),
            (
                "dpopt-privacy",
                &[("dpopt-accounting", "", ""), ("rand", "", "")],
            ),
            ("dpopt-oracle", &[("dpopt-linalg", "", "")]),
            ("dpopt-solver", &[("dpopt-oracle", "", "")]),
            ("dpopt-nonconvex", &[("dpopt-solver", "", "")]),
            ("dpopt-minimax", &[("dpopt-privacy", "", "")]),
            ("dpopt-certify", &[("dpopt-solver", "", "")]),
            (
                "dpopt-theory",
                &[("dpopt-certify", "", ""), ("dpopt-report", "", "")],
            ),
            ("dpopt-report", &[]),
            ("dpopt", &[("dpopt-theory", "", "")]),
            ("dpopt-cli", &[("dpopt", "", ""), ("dpopt-report", "", "")]),
            ("xtask", &[("dpopt-cli", "", "")]),
            ("dpopt-benches", &[("dpopt-linalg", "dev", "")]),
        ]);
        assert!(edges(&Tree::of(&[]), &packages).is_empty());
    }

    #[test]
    fn an_upward_or_sideways_edge_is_caught_with_its_line() {
        let tree = Tree::of(&[(
            "crates/dpopt-privacy/Cargo.toml",
            "[package]\nname = \"dpopt-privacy\"\n[dependencies]\ndpopt-linalg.workspace = true\n",
        )]);
        let packages = packages(&[
            ("dpopt-linalg", &[]),
            ("dpopt-privacy", &[("dpopt-linalg", "", "")]),
            ("dpopt-nonconvex", &[("dpopt-minimax", "build", "")]),
            ("dpopt-minimax", &[]),
            ("dpopt-oracle", &[("dpopt-theory", "dev", "")]),
            ("dpopt-theory", &[]),
            ("dpopt-cli", &[("dpopt-privacy", "", "units")]),
        ]);
        let found = reasons(&edges(&tree, &packages));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("crates/dpopt-privacy/Cargo.toml:4: "));
        assert!(found[1].contains("`dpopt-nonconvex` may not depend on `dpopt-minimax` (build)"));
        assert!(found[2].contains("(dev)"));
        assert!(found[3].contains("`dpopt-cli` may not depend on `dpopt-privacy`"));
    }

    #[test]
    fn made_up_numbers_are_for_tests_and_not_for_solvers() {
        let of = |name, kind| {
            let packages = packages(&[
                (name, &[("dpopt-testkit", kind, "")]),
                ("dpopt-testkit", &[]),
            ]);
            edges(&Tree::of(&[]), &packages).len()
        };
        assert_eq!(of("dpopt-linalg", "dev"), 0);
        assert_eq!(of("dpopt-linalg", ""), 1);
        assert_eq!(of("dpopt-nonconvex", "dev"), 1);
    }

    #[test]
    fn an_unknown_crate_is_told_where_to_go() {
        let packages = packages(&[("dpopt-new", &[])]);
        let found = reasons(&edges(&Tree::of(&[]), &packages));
        assert!(found[0].contains("LAYERS of xtask/src/tidy/crates.rs"));
    }

    #[test]
    fn owners_may_name_their_crates_and_others_may_not() {
        let good = packages(&[
            ("dpopt-linalg", &[("faer", "", "")]),
            ("dpopt-theory", &[("rand", "", ""), ("rand_distr", "", "")]),
            ("dpopt-cli", &[("clap", "", ""), ("ctrlc", "", "")]),
            ("dpopt-benches", &[("indicatif", "dev", "")]),
        ]);
        assert!(external(&Tree::of(&[]), &good).is_empty());
        let bad = packages(&[
            ("dpopt-privacy", &[("faer", "dev", "algebra")]),
            (
                "dpopt-theory",
                &[("chacha20", "", ""), ("getrandom", "", "")],
            ),
            ("dpopt", &[("clap", "", "")]),
            ("xtask", &[("faer", "", "")]),
        ]);
        let found = reasons(&external(&Tree::of(&[]), &bad));
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].contains("may not depend on `faer` (dev)"));
    }

    #[test]
    fn the_line_is_found_however_the_dependency_is_written() {
        let name = "crates/dpopt-privacy/Cargo.toml";
        for (manifest, line) in [
            ("[dependencies]\nfaer-ext = \"1\"\nfaer = \"1\"\n", 3),
            ("[dependencies.faer]\nversion = \"1\"\n", 1),
            ("\n[target.'cfg(unix)'.dev-dependencies.faer]\n", 2),
            ("[dependencies]\nother = { package = \"x\" }\n", 1),
        ] {
            let tree = Tree::of(&[(name, manifest)]);
            let packages = packages(&[("dpopt-privacy", &[("faer", "", "")])]);
            let found = reasons(&external(&tree, &packages));
            assert!(
                found[0].starts_with(&format!("{name}:{line}: ")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_solver_with_a_generator_is_caught() {
        let good = packages(&[("dpopt-nonconvex", &[("proptest", "dev", "")])]);
        assert!(solvers_never_draw(&Tree::of(&[]), &good).is_empty());
        let bad = packages(&[
            ("dpopt-nonconvex", &[("rand", "dev", "")]),
            ("dpopt-minimax", &[("fastrand", "", "")]),
        ]);
        assert_eq!(solvers_never_draw(&Tree::of(&[]), &bad).len(), 2);
    }
}
