//! Each published library by itself, with the features of a project that depends on it alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::cargo;
use crate::tidy;

/// Features of packages that our libraries name, by name and version.
type Features = BTreeMap<String, String>;

/// Checks all libraries in one build, and then each library alone if a package that ours name has
/// other features then. Features that only foreign packages see of each other are left out:
/// building them again takes minutes.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let libraries = tidy::libraries(root)?;
    clippy(root, &libraries)?;
    let together = features(root, &libraries)?;
    for library in &libraries {
        let this = std::slice::from_ref(library);
        if differ(&features(root, this)?, &together) {
            println!("{library} has other features alone");
            clippy(root, this)?;
        }
    }
    Ok(())
}

fn clippy(root: &Path, libraries: &[String]) -> Result<(), String> {
    let mut command = of(root, "clippy", libraries);
    command.args(["--lib", "--", "-D", "warnings"]);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("of {}", libraries.join(", "))),
    }
}

fn features(root: &Path, libraries: &[String]) -> Result<Features, String> {
    let mut command = of(root, "tree", libraries);
    command.args(["-e", "normal,build", "--prefix", "depth", "-f", "|{p}|{f}"]);
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start it: {error}"))?;
    let tree = String::from_utf8(out.stdout).map_err(|error| error.to_string())?;
    let found = seen(&tree);
    if out.status.success() && !found.is_empty() {
        Ok(found)
    } else {
        Err(format!("`cargo tree` of {} failed", libraries.join(", ")))
    }
}

fn of(root: &Path, verb: &str, libraries: &[String]) -> Command {
    let mut command = Command::new(cargo());
    command.args([verb, "--no-default-features"]);
    for library in libraries {
        command.args(["-p", library]);
    }
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Packages with a path, which are ours, and those that they name.
fn seen(tree: &str) -> Features {
    let mut found = Features::new();
    // Whether the package at each depth above is ours.
    let mut ours: Vec<bool> = Vec::new();
    for line in tree.lines() {
        let mut parts = line.split('|');
        let (Some(depth), Some(package), Some(features)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(depth) = depth.parse::<usize>() else {
            continue;
        };
        let is_ours = package.contains("(/") || package.contains(":\\");
        let named = depth
            .checked_sub(1)
            .is_none_or(|above| ours.get(above) == Some(&true));
        if is_ours || named {
            // A package that was shown before has a star.
            let features = features.trim_end_matches(" (*)");
            found.insert(package.to_owned(), features.to_owned());
        }
        ours.truncate(depth);
        ours.push(is_ours);
    }
    found
}

/// Whether a package is another alone than together with the others.
fn differ(alone: &Features, together: &Features) -> bool {
    let same = |(package, features)| together.get(package) == Some(features);
    !alone.iter().all(same)
}

#[cfg(test)]
mod tests {
    use super::{differ, seen};

    const TOGETHER: &str = "\
0|ours v1.0.0 (/a/ours)|
1|theirs v2.0.0|default,std
2|deep v1.0.0|default
1|below v1.0.0 (/a/below)|x
2|named v1.0.0|std
0|below v1.0.0 (/a/below)|x (*)
";

    #[test]
    fn other_features_of_what_ours_name_are_seen_and_those_below_are_not() {
        let together = seen(TOGETHER);
        assert_eq!(together.len(), 4);
        let alone = |from, to| differ(&seen(&TOGETHER.replace(from, to)), &together);
        assert!(!alone("deep v1.0.0|default", "deep v1.0.0|"));
        assert!(alone("theirs v2.0.0|default,std", "theirs v2.0.0|std"));
        assert!(alone("named v1.0.0|std", "named v1.0.0|"));
        assert!(alone(
            "below v1.0.0 (/a/below)|x",
            "below v1.0.0 (/a/below)|"
        ));
        assert!(alone("theirs v2.0.0", "theirs v3.0.0"));
        // Fewer packages are no difference.
        assert!(!differ(&seen("0|below v1.0.0 (/a/below)|x\n"), &together));
    }
}
