//! Tells the command which commit a release build was made from, where that was in a checkout.
//!
//! Other builds are not told: each commit would build the command anew.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build script is told by variables of the environment"
)]

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(commit) = commit(&root) {
        println!("cargo::rustc-env=DPOPT_COMMIT={commit}");
    }
}

/// What HEAD is; none outside of a checkout.
fn commit(root: &Path) -> Option<String> {
    let git = folder(&root.join(".git"))?;
    let head = read(&git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        return hash(&head);
    };
    // The branches of a worktree are in the folder that is common to all.
    let common = read(&git.join("commondir")).map_or(git.clone(), |path| git.join(path));
    if let Some(found) = read(&common.join(name)) {
        return hash(&found);
    }
    // A branch that is packed has a file of its own after the next commit.
    watch(&common.join("refs"));
    let packed = read(&common.join("packed-refs"))?;
    let mut lines = packed.lines();
    let line = lines.find(|line| line.split(' ').nth(1) == Some(name))?;
    hash(line.split(' ').next()?)
}

/// The folder, or the one that a worktree's file names.
fn folder(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_owned());
    }
    let path = read(git)?;
    Some(git.parent()?.join(path.strip_prefix("gitdir: ")?))
}

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    watch(path);
    Some(text.trim().to_owned())
}

/// Cargo takes a watched path that does not exist for a change, at every build.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn hash(text: &str) -> Option<String> {
    let is_hash = text.len() >= 40 && text.chars().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| text.chars().take(12).collect())
}
