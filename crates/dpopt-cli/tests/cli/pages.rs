//! The commands that the pages show: those of the README, of CONTRIBUTING and of every page below `docs/`.
#![allow(dead_code, reason = "not all that share this file call all of it")]

use std::path::{Path, PathBuf};

/// A block of code of a page.
pub(crate) struct Block {
    /// Page and line, for messages.
    pub(crate) place: String,
    /// What follows the three ticks: `sh`, `toml`, ...
    pub(crate) language: String,
    /// The text.
    pub(crate) text: String,
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages, by their paths from the repository, sorted.
pub(crate) fn pages() -> Vec<String> {
    fn walk(root: &Path, folder: &str, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(root.join(folder)).expect("the folder is there") {
            let entry = entry.expect("the folder is readable");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                walk(root, &path, out);
            } else if path.ends_with(".md") {
                out.push(path);
            }
        }
    }
    let mut out = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    walk(&root(), "docs", &mut out);
    out.sort();
    out
}

/// The blocks of code of a page.
pub(crate) fn blocks_of(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(page));
    blocks(
        page,
        &text.unwrap_or_else(|error| panic!("{page}: {error}")),
    )
}

/// The texts in code of a page outside of its blocks, each with its place.
pub(crate) fn spans(page: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join(page)).expect("the page is readable");
    let mut found = Vec::new();
    let mut open = false;
    for (before, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            open = !open;
        } else if !open {
            let place = format!("{page}:{}", before + 1);
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (place.clone(), span.to_owned())));
        }
    }
    found
}

/// The blocks of code in a text.
pub(crate) fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (before, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if open => open = false,
            Some(language) => {
                open = true;
                found.push(Block {
                    place: format!("{page}:{}", before + 1),
                    language: language.trim().to_owned(),
                    text: String::new(),
                });
            }
            None if open => {
                let block = found.last_mut().expect("a block is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    found
}

/// The words of each call of `dpopt` in a script, its name included; `cargo run -p dpopt-cli -- ...` is one too.
pub(crate) fn calls(script: &str) -> Vec<Vec<String>> {
    let ours = |words: Vec<String>| {
        let of_cargo = words.first().is_some_and(|word| word == "cargo")
            && words.iter().any(|word| word == "dpopt-cli");
        let start = words.iter().position(|word| word == "--");
        match (words.first()?.as_str(), start) {
            ("dpopt", _) => Some(words),
            (_, Some(at)) if of_cargo => {
                let after = words.into_iter().skip(at + 1);
                Some(std::iter::once("dpopt".to_owned()).chain(after).collect())
            }
            _ => None,
        }
    };
    commands(script).into_iter().filter_map(ours).collect()
}

/// The words of each command of a script: quotes are taken off, comments, here-documents and what output goes to left out.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let mut ends: Vec<String> = Vec::new();
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '\\' if after.starts_with('\n') => rest = &after[1..],
            '#' => rest = &rest[rest.find('\n').unwrap_or(rest.len())..],
            '<' if after.starts_with('<') => {
                let (end, left) = word(after[1..].trim_start());
                ends.push(end);
                rest = left;
            }
            '<' | '>' => rest = word(after.trim_start_matches('>').trim_start()).1,
            '\n' => {
                rest = after;
                for end in ends.drain(..) {
                    let mark = format!("{end}\n");
                    let at = rest.find(&mark).map_or(rest.len(), |at| at + mark.len());
                    rest = &rest[at..];
                }
                all.push(Vec::new());
            }
            '|' | '&' | ';' => {
                rest = after;
                all.push(Vec::new());
            }
            c if c.is_whitespace() => rest = after,
            _ => {
                let (found, left) = word(rest);
                all.last_mut().expect("never empty").push(found);
                rest = left;
            }
        }
    }
    all.retain(|words| !words.is_empty());
    all
}

/// The word at the start of a text, without its quotes, and the rest.
fn word(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut quote: Option<char> = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() || "|&;<>".contains(c) => return (out, &text[at..]),
            (_, c) => out.push(c),
        }
    }
    (out, "")
}
