//! Manifests and the files that every reader looks for first.

use super::crates::Package;
use super::tree::{Problem, Tree};

/// The command that `validate` runs the tests with. The README names it.
pub(crate) const TEST_COMMAND: &str = "cargo test --workspace --all-features";

/// Files that must exist and say something.
const REQUIRED: [&str; 4] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"];

/// Every crate takes its lints and its licence from the workspace.
pub(super) fn manifests(tree: &Tree, packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let path = package.manifest.as_str();
        let Some(text) = tree.text(path) else {
            problems.push(Problem::new(path, 1, "the manifest is not in the tree"));
            continue;
        };
        if !inherits(text, &["lints"]) {
            let why = "lints are not the workspace's: add `[lints]` with `workspace = true`";
            problems.push(Problem::new(path, 1, why));
        }
        if !inherits(text, &["package", "license"]) {
            let why = "licence is not the workspace's: add `license.workspace = true`";
            problems.push(Problem::new(path, 1, why));
        }
    }
    problems
}

/// The licences, the README and the changelog exist.
pub(super) fn required_files(tree: &Tree) -> Vec<Problem> {
    REQUIRED
        .into_iter()
        .filter(|path| tree.text(path).is_none_or(|text| text.trim().is_empty()))
        .map(|path| Problem::new(path, 1, "the file is missing or empty"))
        .collect()
}

/// The README names the command that `validate` runs the tests with.
pub(super) fn readme_names_the_test_command(tree: &Tree) -> Vec<Problem> {
    match tree.text("README.md") {
        Some(text) if !text.contains(TEST_COMMAND) => {
            let why = format!("the tests are run with `{TEST_COMMAND}`, which is not named here");
            vec![Problem::new("README.md", 1, why)]
        }
        _ => Vec::new(),
    }
}

/// Whether a manifest says `workspace = true` at a path.
fn inherits(manifest: &str, path: &[&str]) -> bool {
    let Ok(manifest) = manifest.parse::<toml::Table>() else {
        return false;
    };
    let inner = |table: &toml::Table, key: &&str| table.get(*key)?.as_table().cloned();
    path.iter()
        .try_fold(manifest, |table, key| inner(&table, key))
        .and_then(|table| table.get("workspace")?.as_bool())
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{REQUIRED, TEST_COMMAND, inherits, readme_names_the_test_command, required_files};

    #[test]
    fn inheriting_is_recognised_in_every_spelling() {
        for manifest in [
            "[lints]\nworkspace = true # all\n",
            "lints.workspace = true\n[package]\n",
            "lints = { workspace = true }\n",
        ] {
            assert!(inherits(manifest, &["lints"]), "{manifest}");
        }
        for manifest in [
            "[package]\nname = \"a\"\nlicense.workspace = true\n",
            "[package]\nlicense = { workspace = true }\n",
            "[package.license]\nworkspace = true\n",
        ] {
            assert!(inherits(manifest, &["package", "license"]), "{manifest}");
        }
    }

    #[test]
    fn own_lints_and_licences_are_caught() {
        for manifest in [
            "",
            "[lints]\n# workspace = true\n",
            "[lints]\nworkspace = false\n",
            "[lints.rust]\nworkspace = true\n",
            "[dependencies]\nworkspace = true\n",
            "[lints]\n[features]\nworkspace = true\n",
        ] {
            assert!(!inherits(manifest, &["lints"]), "{manifest}");
        }
        for manifest in [
            "[package]\nlicense = \"MIT\"\n",
            "[package]\nversion.workspace = true\n",
            "license.workspace = true\n",
            "[package]\nlicense-file.workspace = true\n",
        ] {
            assert!(!inherits(manifest, &["package", "license"]), "{manifest}");
        }
    }

    #[test]
    fn missing_and_empty_files_are_caught() {
        let all: Vec<(&str, &str)> = REQUIRED.iter().map(|path| (*path, "text")).collect();
        assert!(required_files(&Tree::of(&all)).is_empty());
        assert_eq!(required_files(&Tree::of(&all[1..])).len(), 1);
        let mut empty = all;
        empty[2].1 = " \n";
        let found = reasons(&required_files(&Tree::of(&empty)));
        assert_eq!(found, ["LICENSE-APACHE:1: the file is missing or empty"]);
    }

    #[test]
    fn the_readme_names_the_test_command() {
        let good = format!("Run `{TEST_COMMAND}`.");
        assert!(readme_names_the_test_command(&Tree::of(&[("README.md", &good)])).is_empty());
        let bad = Tree::of(&[("README.md", "Run `cargo test`.")]);
        assert_eq!(readme_names_the_test_command(&bad).len(), 1);
    }
}
