//! Rust files: each says what it is for, and none is too long to read.

use quote::ToTokens;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use super::tree::{Problem, Tree};

/// Cases that must not compile are written to show one error each.
const CASES: &str = "/tests/compile_fail/";

/// The most lines a Rust file may have.
const LONGEST: usize = 700;

/// Every Rust file starts with module docs, before any item (inner attributes may come first).
pub(super) fn module_docs(tree: &Tree) -> Vec<Problem> {
    let why = "no module docs: start the file with `//!` and what it is for";
    tree.syntax()
        .filter(|(path, _)| !path.contains(CASES))
        .filter(|(_, file)| !file.attrs.iter().any(says_something))
        .map(|(path, _)| Problem::new(path, 1, why))
        .collect()
}

/// Every Rust file can be read, so that the other rules see it.
pub(super) fn readable(tree: &Tree) -> Vec<Problem> {
    tree.unreadable()
        .filter(|(path, _)| !path.contains(CASES))
        .map(|(path, error)| {
            let line = error.span().start().line;
            Problem::new(path, line, format!("not Rust: {error}"))
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

/// Whether an attribute of a file is documentation with words in it.
fn says_something(attribute: &Attribute) -> bool {
    let Meta::NameValue(docs) = &attribute.meta else {
        return false;
    };
    let text = match &docs.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.value(),
        // A file that is included.
        other => other.to_token_stream().to_string(),
    };
    docs.path.is_ident("doc") && !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{LONGEST, length, module_docs, readable};

    fn documented(text: &str) -> bool {
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        module_docs(&tree).is_empty() && readable(&tree).is_empty()
    }

    #[test]
    fn docs_first_or_after_attributes_and_comments_are_fine() {
        for text in [
            "//! What it is.\n",
            "\n// Licence.\n#![no_std]\n//! What it is.\n",
            "#![allow(\n    lint,\n    reason = \"x\"\n)]\n\n//! What it is.\nfn f() {}\n",
            "//!\n//! What it is.\n",
            "/*! What it is. */\n",
            "#![doc = include_str!(\"a.md\")]\n",
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
