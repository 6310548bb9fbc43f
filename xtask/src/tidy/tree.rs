//! The repository's files in memory, and what can be wrong with one.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// A broken rule: where, and why that matters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    /// Path from the repository's root, with `/`.
    path: String,
    /// Line, from one.
    line: usize,
    /// The fault and its remedy.
    why: String,
}

impl Problem {
    /// A problem at a line (counted from one).
    pub(super) fn new(path: &str, line: usize, why: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            why: why.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.why)
    }
}

/// All files by path from the root; a file that is not UTF-8 has no text.
pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
    /// The Rust files, parsed at the first use.
    parsed: OnceCell<BTreeMap<String, syn::Result<syn::File>>>,
}

impl Tree {
    /// Reads what git tracks or would track below `root`. Without git (a source archive): all
    /// files outside `target`.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            match fs::read(root.join(&path)) {
                Ok(bytes) => {
                    files.insert(path, String::from_utf8(bytes).ok());
                }
                // Deleted but still in the index, or a folder that git lists as one entry.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
                Err(error) => return Err(format!("{path}: {error}")),
            }
        }
        Ok(Self::from(files))
    }

    /// A tree from paths and texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())))
            .collect();
        Self::from(files)
    }

    fn from(files: BTreeMap<String, Option<String>>) -> Self {
        let parsed = OnceCell::new();
        Self { files, parsed }
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is a file or a folder at this path.
    pub(super) fn has(&self, path: &str) -> bool {
        if path.is_empty() || self.files.contains_key(path) {
            return true;
        }
        let inside = format!("{path}/");
        self.files
            .range(inside.clone()..)
            .next()
            .is_some_and(|(first, _)| first.starts_with(&inside))
    }

    /// All text files with their paths.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The Rust files with their paths.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    fn parsed(&self) -> impl Iterator<Item = (&str, &syn::Result<syn::File>)> {
        let parse = |(path, text): (&str, &str)| (path.to_owned(), syn::parse_file(text));
        let parsed = self.parsed.get_or_init(|| self.rust().map(parse).collect());
        parsed.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The Rust files as syntax trees.
    pub(super) fn syntax(&self) -> impl Iterator<Item = (&str, &syn::File)> {
        let files = self.parsed();
        files.filter_map(|(path, file)| Some((path, file.as_ref().ok()?)))
    }

    /// The files that end in `.rs` and are not Rust.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = (&str, &syn::Error)> {
        let files = self.parsed();
        files.filter_map(|(path, file)| Some((path, file.as_ref().err()?)))
    }
}

/// Tracked files, and new ones that git does not ignore in the folders where sources live.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    const PLACES: [&str; 7] = [
        "crates", "xtask", "benches", "docs", ".ci", ".cargo", "*.md",
    ];
    let list = |arguments: &[&str]| -> Option<Vec<String>> {
        let output = Command::new("git")
            .args(["ls-files", "-z"])
            .args(arguments)
            .current_dir(root)
            // A hook's variables would point git at another folder than `root`.
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output
            .status
            .success()
            .then(|| text.split_terminator('\0').map(str::to_owned).collect())
    };
    let mut paths = list(&["--cached"])?;
    let mut new = vec!["--others", "--exclude-standard", "--"];
    new.extend(PLACES);
    paths.extend(list(&new)?);
    // An empty list means that `root` sits, untracked, inside another repository.
    (!paths.is_empty()).then_some(paths)
}

/// All files below `root` but not in `.git` or a `target` folder.
fn walked(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).map_err(|error| error.to_string())?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if !kind.is_dir() {
                paths.push(path);
            } else if name != ".git" && name != "target" {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Folder;
    use super::{Problem, Tree};

    #[test]
    fn a_problem_prints_as_file_line_reason() {
        let problem = Problem::new("docs/a.md", 3, "link to nowhere");
        assert_eq!(problem.to_string(), "docs/a.md:3: link to nowhere");
    }

    #[test]
    fn files_and_folders_exist_and_prefixes_do_not() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old/b.md", ""), ("x.rs", "")]);
        assert!(tree.has("docs") && tree.has("docs/a.md") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/a") && !tree.has("x.rs/y"));
        assert_eq!(tree.rust().count(), 1);
    }

    #[test]
    fn a_folder_without_git_is_walked_and_target_is_skipped() {
        let folder = Folder::new();
        folder.write("src/lib.rs", "//! Docs.\n");
        folder.write("target/debug/out.rs", "");
        let tree = Tree::read(folder.path()).expect("readable");
        assert_eq!(tree.len(), 1);
        assert_eq!(tree.text("src/lib.rs"), Some("//! Docs.\n"));
    }
}
