//! Rust files: each says what it is for, and none is too long to read.

use super::tree::{Problem, Tree};

/// The most lines a Rust file may have.
const LONGEST: usize = 700;

/// Every Rust file starts with module docs, before any item (inner attributes may come first).
pub(super) fn module_docs(tree: &Tree) -> Vec<Problem> {
    tree.rust()
        // Cases that must not compile are written to show one error each.
        .filter(|(path, _)| !path.contains("/tests/compile_fail/"))
        .filter(|(_, text)| !starts_with_docs(text))
        .map(|(path, _)| {
            let why = "no module docs: start the file with `//!` and what it is for";
            Problem::new(path, 1, why)
        })
        .collect()
}

/// No Rust file is longer than one sitting.
pub(super) fn length(tree: &Tree) -> Vec<Problem> {
    tree.rust()
        .filter_map(|(path, text)| {
            let lines = text.lines().count();
            let why = format!("{lines} lines; split files above {LONGEST}");
            (lines > LONGEST).then(|| Problem::new(path, LONGEST + 1, why))
        })
        .collect()
}

fn starts_with_docs(text: &str) -> bool {
    let mut open = 0_usize;
    for line in text.lines() {
        let line = line.trim();
        if let Some(docs) = line.strip_prefix("//!").or(line.strip_prefix("/*!")) {
            // A first line without words may be followed by one that has some.
            if docs.trim().is_empty() {
                continue;
            }
            return true;
        }
        let comment = line.starts_with("//") && !line.starts_with("///");
        if open == 0 && (line.is_empty() || comment) {
            continue;
        }
        if open == 0 && !line.starts_with("#![") {
            return false;
        }
        // An inner attribute, perhaps over several lines.
        let opened = open + line.matches('[').count();
        open = opened.saturating_sub(line.matches(']').count());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{LONGEST, length, module_docs};

    fn documented(text: &str) -> bool {
        module_docs(&Tree::of(&[("crates/a/src/lib.rs", text)])).is_empty()
    }

    #[test]
    fn docs_first_or_after_attributes_and_comments_are_fine() {
        for text in [
            "//! What it is.\n",
            "\n// Licence.\n#![no_std]\n//! What it is.\n",
            "#![allow(\n    lint,\n    reason = \"x\"\n)]\n\n//! What it is.\nfn f() {}\n",
            "//!\n//! What it is.\n",
            "/*! What it is. */\n",
        ] {
            assert!(documented(text), "{text:?}");
        }
    }

    #[test]
    fn no_docs_late_docs_and_wordless_docs_are_caught() {
        for text in [
            "",
            "fn main() {}\n",
            "/// An item.\nfn f() {}\n",
            "use std::fmt;\n//! Late.\n",
            "#[cfg(test)]\nmod tests {\n    //! Inside.\n}\n",
            "//!\nfn f() {}\n",
            "#![allow(x)]\nmod a;\n",
        ] {
            assert!(!documented(text), "{text:?}");
        }
    }

    #[test]
    fn cases_that_must_not_compile_need_no_docs() {
        let case = ("crates/a/tests/compile_fail/leak.rs", "fn main() {}\n");
        assert!(module_docs(&Tree::of(&[case])).is_empty());
        let test = ("crates/a/tests/ok.rs", "fn main() {}\n");
        let found = reasons(&module_docs(&Tree::of(&[case, test])));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/tests/ok.rs:1: "));
    }

    #[test]
    fn the_longest_file_passes_and_one_line_more_fails() {
        let text = "//! A.\n".repeat(LONGEST);
        assert!(length(&Tree::of(&[("xtask/src/a.rs", &text)])).is_empty());
        let found = length(&Tree::of(&[("xtask/src/a.rs", &format!("{text}\n"))]));
        assert!(reasons(&found)[0].contains(":701: 701 lines"));
    }
}
