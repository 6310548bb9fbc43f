//! External crates: one version of each, and licences that go with ours.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::crates::resolved;
use super::tree::{Problem, Tree};

/// Crates with several versions in the lock file: how many, and why. Stale entries are problems.
const SEVERAL: [(&str, usize, &str); 7] = [
    ("equator", 2, "faer and its kernels ask for different ones"),
    ("equator-macro", 2, "as equator"),
    ("getrandom", 3, "tiny-keccak and the test crates are behind"),
    ("r-efi", 2, "below getrandom, on no platform that we test"),
    ("syn", 3, "of build time only"),
    ("thiserror", 2, "below faer"),
    ("thiserror-impl", 2, "as thiserror"),
];

/// Licences under which a crate may come, as SPDX names them.
const LICENCES: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// One version of each crate in the lock file, but for those with a reason.
pub(super) fn versions(tree: &Tree) -> Vec<Problem> {
    versions_but_for(tree, &SEVERAL)
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: Spanned<String>,
}

fn versions_but_for(tree: &Tree, several: &[(&str, usize, &str)]) -> Vec<Problem> {
    let Some(lock) = tree.text("Cargo.lock") else {
        return vec![Problem::new("Cargo.lock", 1, "the lock file is missing")];
    };
    let packages = match toml::from_str(lock) {
        Ok(Lock { package }) => package,
        Err(error) => return vec![Problem::new("Cargo.lock", 1, error.to_string())],
    };
    let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for Locked { name } in &packages {
        let line = lock[..name.span().start].matches('\n').count() + 1;
        lines.entry(name.get_ref()).or_default().push(line);
    }
    let mut problems = Vec::new();
    for (name, lines) in &lines {
        let known = several.iter().find(|(known, _, _)| known == name);
        let allowed = known.map_or(1, |(_, count, _)| *count);
        for &line in lines.iter().skip(allowed) {
            let why = format!(
                "{} versions of `{name}` where {allowed} may be; `cargo tree -d` shows the dependants",
                lines.len()
            );
            problems.push(Problem::new("Cargo.lock", line, why));
        }
    }
    for (name, count, _) in several {
        let found = lines.get(*name).map_or(0, Vec::len);
        if found < *count {
            let why = format!(
                "`{name}` may be there {count} times and is {found} times: shorten SEVERAL of xtask/src/tidy/supply.rs"
            );
            problems.push(Problem::new("Cargo.lock", 1, why));
        }
    }
    problems
}

/// The licence of every crate that is built, on any platform, goes with ours.
pub(super) fn licences(root: &Path) -> Result<Vec<Problem>, String> {
    let packages = resolved(root)?.packages;
    let problems = packages.iter().filter_map(|package| {
        let crate_name = format!("`{}` {}", package.name, package.version);
        unlicensed(&crate_name, package.license.as_deref())
    });
    Ok(problems.collect())
}

/// The fault of a crate's licence.
fn unlicensed(name: &str, licence: Option<&str>) -> Option<Problem> {
    let why = match licence {
        Some(licence) if allowed(licence) => return None,
        Some(licence) => format!("{name} comes under {licence}"),
        None => format!("{name} names no licence"),
    };
    Some(Problem::new("Cargo.lock", 1, why))
}

/// Whether a choice of an SPDX expression is allowed. Nested brackets are not read.
fn allowed(expression: &str) -> bool {
    let all = |choice: &str| {
        choice.split(" AND ").all(|part| {
            let part = part.trim();
            let inner = part
                .strip_prefix('(')
                .and_then(|part| part.strip_suffix(')'));
            match inner {
                Some(inner) if !inner.contains(['(', ')']) => allowed(inner),
                _ => LICENCES.contains(&part),
            }
        })
    };
    if expression.contains('(') {
        return all(expression);
    }
    expression
        .split(" OR ")
        .flat_map(|part| part.split('/'))
        .any(all)
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{allowed, unlicensed, versions_but_for};

    #[test]
    fn a_second_version_in_the_lock_file_is_caught_and_so_is_a_stale_exception() {
        let once = "[[package]]\nname = \"rand\"\nversion = \"0.10.3\"\n\
                    [[package]]\nname = \"rand_core\"\nversion = \"0.10.1\"\n";
        let found = |lock: &str, several: &[(&str, usize, &str)]| {
            reasons(&versions_but_for(
                &Tree::of(&[("Cargo.lock", lock)]),
                several,
            ))
        };
        assert!(found(once, &[]).is_empty());
        let twice = format!("{once}[[package]]\nname = \"rand_core\"\nversion = \"0.9.0\"\n");
        let caught = found(&twice, &[]);
        assert_eq!(caught.len(), 1);
        assert!(caught[0].starts_with("Cargo.lock:8: 2 versions of `rand_core`"));
        let excused = [("rand_core", 2, "a reason")];
        assert!(found(&twice, &excused).is_empty());
        assert!(found(once, &excused)[0].contains("shorten SEVERAL"));
        assert_eq!(versions_but_for(&Tree::of(&[]), &[]).len(), 1);
    }

    #[test]
    fn licences_are_read_as_choices() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "MIT AND Zlib",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(GPL-3.0 OR AGPL-3.0) AND MIT",
            "",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn crates_under_other_licences_or_none_are_caught() {
        assert_eq!(unlicensed("good", Some("MIT")), None);
        let found: Vec<_> = [("copyleft", Some("GPL-3.0")), ("silent", None)]
            .into_iter()
            .filter_map(|(name, licence)| unlicensed(name, licence))
            .collect();
        let found = reasons(&found);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("copyleft comes under GPL-3.0"));
        assert!(found[1].contains("silent names no licence"));
    }
}
