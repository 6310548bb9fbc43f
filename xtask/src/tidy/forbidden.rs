//! Words that must not be committed: unfinished code, switched-off tests, paths of one machine.

use super::tree::{Problem, Tree};

/// This file holds the list and its tests, so it is the one that is not searched.
const THIS: &str = "xtask/src/tidy/forbidden.rs";

/// Each word with the reason. Words that start with `/` are absolute paths.
const WORDS: [(&str, &str); 6] = [
    ("todo!(", "unfinished code"),
    ("unimplemented!(", "unfinished code"),
    (
        "#[ignore",
        "a test that never runs; make it fast or remove it",
    ),
    ("/work/", "a path of one machine"),
    ("/root/", "a path of one machine"),
    ("/tmp/wt", "a path of one machine"),
];

/// No text file has a forbidden word: sources, documents, manifests and scripts alike.
pub(super) fn words(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| *path != THIS) {
        for (before, line) in text.lines().enumerate() {
            for (word, reason) in WORDS {
                if stands_in(line, word) {
                    let why = format!("forbidden `{word}`: {reason}");
                    problems.push(Problem::new(path, before + 1, why));
                }
            }
            if line.contains("cfg_attr(") && line.contains(" ignore") {
                let why = "forbidden conditional `ignore`: a test that may never run";
                problems.push(Problem::new(path, before + 1, why));
            }
        }
    }
    problems
}

/// Whether a character can be part of an identifier.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `line` and is not the tail of a longer name or a relative path.
fn stands_in(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let continues = |c: char| {
            is_word(c) || (word.starts_with('/') && matches!(c, '.' | '-' | '~' | '}' | '*'))
        };
        !before.is_some_and(continues)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{THIS, words};

    #[test]
    fn each_forbidden_word_is_caught_in_any_kind_of_file() {
        for (path, line) in [
            ("crates/a/src/lib.rs", "    todo!(\"later\")"),
            ("crates/a/src/lib.rs", "let x = unimplemented!();"),
            ("crates/a/tests/t.rs", "#[ignore = \"slow\"]"),
            ("crates/a/tests/t.rs", "#[ignore]"),
            (
                "crates/a/tests/t.rs",
                "#[cfg_attr(debug_assertions, ignore)]",
            ),
            ("docs/a.md", "see `/work/data/x.csv`"),
            ("docs/a.md", "file:///work/data"),
            (".ci/run", "cd /root/x"),
            ("benches/Cargo.toml", "path = \"/tmp/wt-x/y\""),
            ("README.md", "/work/"),
        ] {
            let found = reasons(&words(&Tree::of(&[(path, &format!("first\n{line}\n"))])));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(
                found[0].starts_with(&format!("{path}:2: forbidden ")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn longer_names_and_relative_paths_are_not_forbidden() {
        for line in [
            "my_todo!(x)",
            "a todo! list",
            "docs/work/a.md and ../root/b and ~/work/c and ${HOME}/work/d",
            "std::env::temp_dir().join(\"x\")",
            "line 3 of /tmp/x",
            "#[cfg_attr(test, allow(dead_code))]",
        ] {
            let found = words(&Tree::of(&[("docs/a.md", line)]));
            assert!(found.is_empty(), "{line}: {found:?}");
        }
    }

    #[test]
    fn only_this_file_is_excepted() {
        assert!(words(&Tree::of(&[(THIS, "todo!()")])).is_empty());
        assert!(THIS.ends_with(file!().rsplit("xtask").next().expect("one piece")));
        assert_eq!(
            words(&Tree::of(&[("xtask/src/tidy.rs", "todo!()")])).len(),
            1
        );
    }
}
