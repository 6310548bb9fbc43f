//! The build script, by itself in a repository: a second build compiles nothing, and one after a commit names that commit.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const MANIFEST: &str = "[package]\nname = \"shown\"\nedition = \"2024\"\n[workspace]\n";
const MAIN: &str = r#"fn main() { print!("{}", option_env!("DPOPT_COMMIT").unwrap_or("none")) }"#;
const HEAD: (&str, &str) = (".git/HEAD", "ref: refs/heads/main\n");

/// A commit of one digit, as it is stored and as it is shown.
fn stored(digit: char) -> String {
    digit.to_string().repeat(40) + "\n"
}

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// What a release build of the package prints, and whether cargo compiled it.
fn built(root: &Path) -> (String, bool) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--release", "--offline", "--quiet"])
        .args(["--message-format", "json", "--target-dir", "../../target"])
        .current_dir(root.join("crates/shown"));
    let output = cargo.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut messages = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let binary: Value = messages
        .rfind(|message: &Value| message["executable"].is_string())
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let program = binary["executable"].as_str().unwrap();
    let shown = Command::new(program).output().unwrap().stdout;
    (String::from_utf8(shown).unwrap(), binary["fresh"] == false)
}

#[test]
fn a_second_build_compiles_nothing_and_one_after_a_commit_names_it() {
    let (old, new) = (stored('a'), stored('b'));
    let packed = format!("# pack-refs\n{} refs/heads/main\n", old.trim());
    // Files of the repository, and the one that a commit writes.
    type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, Option<&'a str>);
    let branch = ".git/refs/heads/main";
    let cases: [Case<'_>; 5] = [
        ("a plain clone", vec![HEAD, (branch, &old)], Some(branch)),
        (
            "packed",
            vec![HEAD, (".git/packed-refs", &packed), (".git/refs/keep", "")],
            Some(branch),
        ),
        ("detached", vec![(".git/HEAD", &old)], Some(".git/HEAD")),
        (
            "a worktree",
            vec![
                (".git", "gitdir: main/worktrees/w\n"),
                ("main/worktrees/w/HEAD", HEAD.1),
                ("main/worktrees/w/commondir", "../..\n"),
                ("main/refs/heads/main", &old),
            ],
            Some("main/refs/heads/main"),
        ),
        ("no checkout", vec![], None),
    ];
    for (name, files, commit) in cases {
        let folder = TempDir::new().unwrap();
        let root = folder.path();
        put(root, "crates/shown/Cargo.toml", MANIFEST);
        put(root, "crates/shown/src/main.rs", MAIN);
        put(
            root,
            "crates/shown/build.rs",
            include_str!("../../build.rs"),
        );
        for (path, text) in files {
            put(root, path, text);
        }
        let shown = commit.map_or("none", |_| &old[..12]);
        assert_eq!(built(root), (shown.to_owned(), true), "{name}");
        assert_eq!(built(root), (shown.to_owned(), false), "{name}");
        let Some(commit) = commit else { continue };
        put(root, commit, &new);
        // Later than the build, however coarse the clock of the file system.
        let file = fs::File::options().write(true).open(root.join(commit));
        let file = file.unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_modified(written + Duration::from_secs(60))
            .unwrap();
        assert_eq!(built(root), (new[..12].to_owned(), true), "{name}");
    }
}
