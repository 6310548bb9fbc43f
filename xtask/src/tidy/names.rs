//! Files and names of code that pages name exist, and pages do not count lists by hand.

use std::collections::BTreeSet;

use super::links::prose;
use super::tree::{Problem, Tree};

/// Its entries stay as they were.
const HISTORY: &str = "CHANGELOG.md";
/// The shortest name with an underscore that is one of code: shorter ones are of formulas.
const SHORTEST: usize = 8;
const NUMBERS: [&str; 12] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen",
];
/// Contents of registries, tables and folders.
const COUNTED: [&str; 3] = ["accountants", "solvers", "complete programs"];

/// Every file and name of code that a page names exists, and no growing list is counted by hand.
pub(super) fn exist(tree: &Tree) -> Vec<Problem> {
    let code = || tree.texts().filter(|(path, _)| !path.ends_with(".md"));
    // A name may follow a line break that is written out.
    let pieces = code().flat_map(|(_, text)| text.split("\\n"));
    let words: BTreeSet<&str> = pieces.flat_map(idents).collect();
    let mut problems = Vec::new();
    let pages = tree.texts().filter(|(path, _)| path.ends_with(".md"));
    for (page, text) in pages.filter(|(path, _)| *path != HISTORY) {
        for (line, paragraph) in paragraphs(text) {
            let pieces: Vec<&str> = paragraph.split('`').collect();
            for (at, span) in pieces.iter().enumerate().skip(1).step_by(2) {
                let line = line + pieces[..at].concat().matches('\n').count();
                let mut problem = |why| problems.push(Problem::new(page, line, why));
                if is_file(span) {
                    if files(tree, span).is_empty() {
                        problem(format!("there is no file `{span}`"));
                    }
                    continue;
                }
                if !is_name(span) {
                    continue;
                }
                if let Some(missing) = idents(span).find(|name| !words.contains(name)) {
                    problem(format!("there is no `{missing}` in the code"));
                }
                let after = pieces.get(at + 1).copied().unwrap_or_default();
                let next = pieces.get(at + 2).copied().unwrap_or_default();
                if let Some(file) = file_of(after, next) {
                    let within = files(tree, file);
                    let holds =
                        |text: &&str| idents(span).all(|name| idents(text).any(|w| w == name));
                    if !within.is_empty() && !within.iter().any(holds) {
                        problem(format!("`{span}` is not in `{file}`"));
                    }
                }
            }
            problems.extend(counted(&paragraph).map(|count| {
                let why = format!("`{count}`: a count by hand goes stale, leave it out");
                Problem::new(page, line, why)
            }));
        }
    }
    problems
}

/// The file that a page says a name is in: `name` in `file`, or a link from the name to the file.
fn file_of<'a>(after: &'a str, next: &'a str) -> Option<&'a str> {
    let file = match after.strip_prefix("](") {
        Some(link) => link.split([')', '#']).next()?.trim_start_matches("../"),
        None if matches!(after.trim(), "in" | "(") => next,
        None => return None,
    };
    is_file(file).then_some(file)
}

/// The paragraphs outside of blocks of code, each with its first line.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (number, line) in prose(text) {
        if line.trim().is_empty() {
            continue;
        }
        let is_own = line.starts_with(['|', '-', '#']);
        match found.last_mut() {
            Some((_, paragraph)) if number == last + 1 && !is_own => {
                paragraph.push('\n');
                paragraph.push_str(line);
            }
            _ => found.push((number, line.to_owned())),
        }
        last = number;
    }
    found
}

/// Whether a text in code is the path of a file of code.
fn is_file(span: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    (span.ends_with(".rs") || span.ends_with(".py")) && span.chars().all(letter)
}

/// The texts of the files that a path, or the end of one, names.
fn files<'a>(tree: &'a Tree, span: &str) -> Vec<&'a str> {
    let end = format!("/{span}");
    let named = |path: &str| path == span || path.ends_with(&end);
    let found = tree.texts().filter(|(path, _)| named(path));
    found.map(|(_, text)| text).collect()
}

/// Whether a text in code is a name of code: a path, or one of several words.
fn is_name(span: &str) -> bool {
    let parts = span.split("::");
    let is_ident =
        |part: &str| idents(part).eq([part]) && !part.starts_with(|c: char| c.is_ascii_digit());
    let mut all = parts.clone();
    let several = parts.count() > 1 || span.contains('_') && span.len() >= SHORTEST;
    several && all.all(is_ident)
}

fn idents(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    pieces.filter(|piece| !piece.is_empty())
}

/// Numbers of things that a list holds.
fn counted(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let found: Vec<String> = (0..words.len())
        .filter(|at| {
            let is_number = |word: &String| {
                NUMBERS.contains(&word.as_str()) || word.parse::<u32>().is_ok_and(|count| count > 1)
            };
            let after = words[at + 1..].join(" ");
            is_number(&words[*at]) && COUNTED.iter().any(|noun| after.starts_with(noun))
        })
        .map(|at| words[at..].join(" ").chars().take(30).collect())
        .collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::exist;

    fn problems(page: &str) -> Vec<String> {
        let code = (
            "crates/a/src/curator/price.rs",
            "fn price_of_all() { Which::All; }\n",
        );
        let other = ("crates/a/src/grant.rs", "//! Other.\nfn other_name() {}\n");
        let old = ("CHANGELOG.md", "`no_such_name`\n");
        reasons(&exist(&Tree::of(&[("docs/a.md", page), code, other, old])))
    }

    #[test]
    fn what_is_there_and_what_is_no_name_passes() {
        for page in [
            "`price_of_all` in `curator/price.rs` and `Which::All`, ([`other_name`](../crates/a/src/grant.rs))",
            "one match (`price_of_all` in\n`curator/price.rs`) and `price_of_all`, as `grant.rs` says",
            "`sigma_t`, `a + b_c`, `n/2`, `no_such_name x`, `x.rs.txt`",
            "```rust\n`no_such_name`\n```",
            "an `open tick\n\n- `price_of_all`",
            "all accountants, two laws, 10,000 records, one solvers' page",
        ] {
            assert_eq!(problems(page), Vec::<String>::new(), "{page}");
        }
    }

    #[test]
    fn what_is_gone_is_named_with_its_line() {
        for (page, why) in [
            ("`price_of_none`", "1: there is no `price_of_none`"),
            ("x\n`Which::Nothing`", "2: there is no `Nothing`"),
            ("x\n\ny\n`src/gone.rs`", "4: there is no file `src/gone.rs`"),
            (
                "(`price_of_all` in\n`a/src/grant.rs`)",
                "1: `price_of_all` is not in `a/src/grant.rs`",
            ),
            (
                "[`price_of_all`](../crates/a/src/grant.rs)",
                "1: `price_of_all` is not in",
            ),
            (
                "there are seven accountants",
                "1: `seven accountants`: a count",
            ),
            (
                "\n\nBelow are four complete\nprograms",
                "3: `four complete programs`: a count",
            ),
        ] {
            let found = problems(page);
            assert_eq!(found.len(), 1, "{page}: {found:?}");
            assert!(
                found[0].starts_with(&format!("docs/a.md:{why}")),
                "{found:?}"
            );
        }
    }
}
