//! `cargo xtask tidy`: the house rules that no compiler checks.
//!
//! A rule is a function from the repository's files (and the crates that cargo sees) to a list of
//! problems, each with a file, a line and a reason. Every rule is tested on an input that keeps it
//! and on a twin that breaks it.

mod book;
mod budgets;
mod circles;
mod crates;
mod forbidden;
mod links;
mod names;
mod package;
mod rust;
mod signatures;
mod sources;
mod supply;
#[cfg(test)]
mod testing;
mod tree;

use std::path::Path;

pub(crate) use package::TEST_COMMAND;
use tree::{Problem, Tree};

/// Checks the repository at `root` and prints what is wrong.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let packages = crates::workspace(root)?;
    let mut problems = check(&tree, &packages);
    problems.extend(supply::versions(&tree));
    problems.extend(supply::licences(root)?);
    problems.extend(budgets::kept(&tree));
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!(
            "tidy: {} files in {} crates keep the rules",
            tree.len(),
            packages.len()
        );
        Ok(())
    } else {
        Err(format!("tidy found {} problem(s)", problems.len()))
    }
}

/// Lowers the budgets at `root` to the present sizes.
pub(crate) fn lower_budgets(root: &Path) -> Result<(), String> {
    let text = budgets::lowered(&Tree::read(root)?)?;
    std::fs::write(root.join(budgets::FILE), text).map_err(|error| error.to_string())
}

/// Prints the circles of files at `root`, with what they take from each other.
pub(crate) fn circles(root: &Path) -> Result<(), String> {
    circles::print(&Tree::read(root)?);
    Ok(())
}

/// Names of the published libraries.
pub(crate) fn libraries(root: &Path) -> Result<Vec<String>, String> {
    let packages = crates::workspace(root)?.into_iter();
    Ok(packages
        .filter(|package| package.is_published_library)
        .map(|package| package.name)
        .collect())
}

/// Every rule, on files and crates that were read before.
fn check(tree: &Tree, packages: &[crates::Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(crates::edges(tree, packages));
    problems.extend(crates::external(tree, packages));
    problems.extend(crates::solvers_never_draw(tree, packages));
    problems.extend(signatures::faer_outside_linalg(tree));
    problems.extend(signatures::faer_in_linalg_signatures(tree));
    problems.extend(circles::found(tree));
    problems.extend(sources::readable(tree));
    problems.extend(sources::module_docs(tree));
    problems.extend(sources::length(tree));
    problems.extend(forbidden::words(tree));
    problems.extend(package::manifests(tree, packages));
    problems.extend(package::required_files(tree));
    problems.extend(package::readme_names_the_test_command(tree));
    problems.extend(links::relative(tree));
    problems.extend(names::exist(tree));
    problems.extend(book::chapters(tree));
    problems.sort();
    problems
}

#[cfg(test)]
mod tests {
    use super::testing::{Folder, reasons};
    use super::{TEST_COMMAND, check, crates, tree::Tree};

    const MANIFEST: &str = "\
[package]
name = \"dpopt-linalg\"
version = \"0.1.0\"
edition = \"2024\"
license.workspace = true

[lints]
workspace = true
";

    /// The smallest repository that keeps every rule, on disk, with cargo looking at it.
    fn repository() -> Folder {
        let folder = Folder::new();
        folder.write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n\
             [workspace.package]\nlicense = \"MIT OR Apache-2.0\"\n\n\
             [workspace.lints.rust]\nunsafe_code = \"deny\"\n",
        );
        folder.write("Cargo.lock", "version = 4\n");
        folder.write("crates/dpopt-linalg/Cargo.toml", MANIFEST);
        folder.write("crates/dpopt-linalg/src/lib.rs", "//! Designs.\n");
        folder.write("README.md", &format!("Test with `{TEST_COMMAND}`.\n"));
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
            folder.write(name, "text\n");
        }
        folder
    }

    fn problems(folder: &Folder) -> Vec<String> {
        let tree = Tree::read(folder.path()).expect("the folder is readable");
        let packages = crates::workspace(folder.path()).expect("cargo reads the manifests");
        reasons(&check(&tree, &packages))
    }

    #[test]
    fn the_smallest_tidy_repository_has_no_problems() {
        assert_eq!(problems(&repository()), Vec::<String>::new());
    }

    #[test]
    fn a_repository_without_a_readme_is_not_tidy() {
        let folder = repository();
        folder.remove("README.md");
        let found = problems(&folder);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("README.md:1:"), "{found:?}");
    }

    #[test]
    fn every_rule_is_asked() {
        let folder = repository();
        folder.write(
            "crates/dpopt-linalg/Cargo.toml",
            &MANIFEST
                .replace("license.workspace", "#")
                .replace("[lints]", "[dependencies]\nclap = \"4\"\n[features]")
                .replace("workspace = true\n", ""),
        );
        folder.write(
            "crates/dpopt-linalg/src/lib.rs",
            "pub fn f(m: faer::Mat<f64>) {}\n",
        );
        folder.write(
            "crates/dpopt-odd/Cargo.toml",
            &MANIFEST.replace("linalg", "odd"),
        );
        folder.write(
            "crates/dpopt-odd/src/lib.rs",
            &format!(
                "//! Odd.\nuse faer::Mat;\n// {}work/x\nmod a;\npub struct F(a::G);\n",
                '/'
            ),
        );
        folder.write("docs/a.md", "[x](nowhere.md) `no_such_name`\n");
        folder.write(
            "crates/dpopt-odd/src/a.rs",
            "//! A.\nuse crate::F;\npub(crate) struct G;\n",
        );
        folder.write("crates/dpopt-odd/src/b.rs", "//! B.\nfn {\n");
        let found = problems(&folder).join("\n");
        for piece in [
            "crates/dpopt-linalg/Cargo.toml:1: licence",
            "crates/dpopt-linalg/Cargo.toml:1: lints",
            "may not depend on `clap`",
            "crates/dpopt-linalg/src/lib.rs:1: faer in a public signature",
            "crates/dpopt-linalg/src/lib.rs:1: no module docs",
            "`dpopt-odd` is not in the table of crates",
            "crates/dpopt-odd/src/lib.rs:2: faer",
            "crates/dpopt-odd/src/lib.rs:3: forbidden",
            "docs/a.md:1: link",
            "docs/a.md:1: there is no `no_such_name`",
            "docs/a.md:1: the page is no chapter",
            ": a circle of 2 files of crates/dpopt-odd",
            "crates/dpopt-odd/src/b.rs:2: not Rust",
        ] {
            assert!(found.contains(piece), "no {piece:?} in\n{found}");
        }
    }
}
