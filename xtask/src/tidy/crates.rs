//! Which crate may depend on which: the layers, and external crates with an owner.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::tree::{Problem, Tree};
use crate::validate::cargo;

/// The table that an unknown crate must be added to.
const HERE: &str = "xtask/src/tidy/crates.rs";

/// What a crate may name.
#[derive(Clone, Copy)]
enum May {
    /// These workspace crates and no other.
    Only(&'static [&'static str]),
    /// Any workspace crate: off the path that users build.
    Anything,
}

/// The layers of `docs/architecture.md`. An arrow that is not here does not exist; adding one
/// means editing that document too.
const LAYERS: [(&str, May); 13] = [
    ("dpopt-linalg", May::Only(&[])),
    ("dpopt-accounting", May::Only(&[])),
    ("dpopt-data", May::Only(&["dpopt-linalg"])),
    ("dpopt-privacy", May::Only(&["dpopt-accounting"])),
    (
        "dpopt-oracle",
        May::Only(&["dpopt-linalg", "dpopt-privacy"]),
    ),
    (
        "dpopt-nonconvex",
        May::Only(&["dpopt-oracle", "dpopt-linalg", "dpopt-privacy"]),
    ),
    (
        "dpopt-minimax",
        May::Only(&["dpopt-oracle", "dpopt-linalg", "dpopt-privacy"]),
    ),
    (
        "dpopt-certify",
        May::Only(&[
            "dpopt-nonconvex",
            "dpopt-minimax",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    (
        "dpopt-theory",
        May::Only(&[
            "dpopt-certify",
            "dpopt-nonconvex",
            "dpopt-minimax",
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
            "dpopt-data",
            "dpopt-oracle",
            "dpopt-linalg",
            "dpopt-privacy",
        ]),
    ),
    ("dpopt-cli", May::Only(&["dpopt"])),
    ("xtask", May::Anything),
    ("dpopt-benches", May::Anything),
];

/// External crates that only some of ours may name, and why.
const OWNED: [(&str, &[&str], &str); 10] = [
    (
        "faer",
        &["dpopt-linalg"],
        "its API moves with each minor version",
    ),
    (
        "pulp",
        &["dpopt-linalg", "dpopt-privacy", "dpopt-benches"],
        "the kernels are in these",
    ),
    (
        "rayon",
        &["dpopt-oracle"],
        "threads belong to an estimator; there is no global pool",
    ),
    (
        "chacha20",
        &["dpopt-privacy"],
        "the generator has one alias",
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
    parse(&metadata(root, &["--no-deps"])?)
}

/// What `cargo metadata` says of the workspace at `root`.
pub(super) fn metadata(root: &Path, options: &[&str]) -> Result<String, String> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version", "1"])
        .args(options)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed: {}", why.trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// Reads the answer of `cargo metadata --no-deps`.
fn parse(json: &str) -> Result<Vec<Package>, String> {
    let metadata: Value =
        serde_json::from_str(json).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = text(&metadata, "workspace_root")?;
    let mut packages = Vec::new();
    for package in list(&metadata, "packages")? {
        let manifest = text(package, "manifest_path")?;
        let mut dependencies = Vec::new();
        for dependency in list(package, "dependencies")? {
            dependencies.push(Dependency {
                name: text(dependency, "name")?.to_owned(),
                rename: dependency["rename"].as_str().map(str::to_owned),
                kind: dependency["kind"].as_str().unwrap_or("normal").to_owned(),
                local: dependency["path"].is_string(),
            });
        }
        packages.push(Package {
            name: text(package, "name")?.to_owned(),
            manifest: manifest
                .strip_prefix(root)
                .unwrap_or(manifest)
                .trim_start_matches('/')
                .to_owned(),
            is_published_library: is_published_library(package),
            dependencies,
        });
    }
    Ok(packages)
}

fn is_published_library(package: &Value) -> bool {
    let targets = package["targets"].as_array();
    let has_library = targets
        .into_iter()
        .flatten()
        .any(|target| target["kind"] == serde_json::json!(["lib"]));
    // `publish = false` is an empty list of registries.
    has_library && package["publish"].is_null()
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("cargo metadata: no text `{key}`"))
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("cargo metadata: no list `{key}`"))
}

/// The line of the manifest that names a dependency; one if it is not spelled out.
fn line_of(tree: &Tree, package: &Package, dependency: &Dependency) -> usize {
    let key = dependency.rename.as_ref().unwrap_or(&dependency.name);
    let names_it = |line: &str| {
        let line = line.trim();
        let line = match line.strip_prefix('[') {
            // [dependencies.name]
            Some(header) => match header.rsplit_once("dependencies.") {
                Some((_, name)) => name,
                None => return false,
            },
            None => line,
        };
        line.trim_start_matches('"')
            .strip_prefix(key.as_str())
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=', '"', ']']))
    };
    let text = tree.text(&package.manifest).unwrap_or_default();
    text.lines()
        .position(names_it)
        .map_or(1, |before| before + 1)
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
    use serde_json::json;

    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{Package, edges, external, parse, solvers_never_draw};

    /// A crate and its dependencies as (name, kind, rename).
    type Crate<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)]);

    /// A workspace as cargo would describe it.
    fn packages(crates: &[Crate<'_>]) -> Vec<Package> {
        let ours = |name: &str| crates.iter().any(|(other, _)| *other == name);
        let packages: Vec<_> = crates
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(|&(name, kind, rename)| {
                        json!({
                            "name": name,
                            "kind": (!kind.is_empty()).then_some(kind),
                            "rename": (!rename.is_empty()).then_some(rename),
                            "path": ours(name).then(|| format!("/r/crates/{name}")),
                        })
                    })
                    .collect();
                json!({
                    "name": name,
                    "manifest_path": format!("/r/crates/{name}/Cargo.toml"),
                    "dependencies": dependencies,
                })
            })
            .collect();
        let metadata = json!({ "packages": packages, "workspace_root": "/r" });
        parse(&metadata.to_string()).expect("well formed")
    }

    #[test]
    fn metadata_without_the_expected_keys_is_an_error() {
        assert!(parse("[]").is_err());
        assert!(parse("{").is_err());
        assert!(parse(r#"{"workspace_root": "/r", "packages": [{}]}"#).is_err());
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
            ("dpopt-nonconvex", &[("dpopt-oracle", "", "")]),
            ("dpopt-minimax", &[("dpopt-privacy", "", "")]),
            ("dpopt-certify", &[("dpopt-nonconvex", "", "")]),
            ("dpopt-theory", &[("dpopt-certify", "", "")]),
            ("dpopt", &[("dpopt-theory", "", "")]),
            ("dpopt-cli", &[("dpopt", "", "")]),
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
