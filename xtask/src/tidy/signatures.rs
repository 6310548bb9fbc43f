//! No faer type in a public signature: the adapter crate hides it, and no other crate names it.

use super::code::{code_only, find_words, is_word, line_of};
use super::tree::{Problem, Tree};

/// The one folder that may name faer.
const LINALG: &str = "crates/dpopt-linalg/";

/// Outside the adapter crate, no code names faer at all (comments and texts may).
pub(super) fn faer_outside_linalg(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !path.starts_with(LINALG)) {
        let code = code_only(text);
        for at in find_words(&code, "faer") {
            let why = "faer is named outside dpopt-linalg; add what is needed to that crate";
            problems.push(Problem::new(path, line_of(&code, at), why));
        }
    }
    problems
}

/// Inside the adapter crate, faer is named in private code only.
pub(super) fn faer_in_linalg_signatures(tree: &Tree) -> Vec<Problem> {
    let sources = format!("{LINALG}src/");
    let mut problems = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| path.starts_with(&sources)) {
        let code = code_only(text);
        let names = match names_of_faer(&code) {
            Ok(names) => names,
            Err(at) => {
                let why = "a glob import of faer hides its names from the check of signatures";
                problems.push(Problem::new(path, line_of(&code, at), why));
                continue;
            }
        };
        for (at, signature) in public_signatures(&code) {
            if let Some(name) = names
                .iter()
                .find(|name| !find_words(signature, name).is_empty())
            {
                let why = format!("faer in a public signature (`{name}`)");
                problems.push(Problem::new(path, line_of(&code, at), why));
            }
        }
    }
    problems
}

/// `faer`, and the names under which this file imports or abbreviates parts of it; the offset of
/// a glob import as an error.
fn names_of_faer(code: &str) -> Result<Vec<String>, usize> {
    let mut names = vec!["faer".to_owned()];
    for at in find_words(code, "use") {
        let statement = until(&code[at..], &[';']);
        if find_words(statement, "faer").is_empty() {
            continue;
        }
        let mut module = "";
        for piece in statement["use".len()..].split(['{', '}', ',']) {
            let piece = piece.trim();
            let leaf = piece.rsplit("::").next().unwrap_or_default().trim();
            match leaf {
                "*" => return Err(at),
                "self" => names.push(module.to_owned()),
                "" => {}
                _ => {
                    let alias = leaf.rsplit_once(" as ").map_or(leaf, |(_, alias)| alias);
                    names.push(alias.trim().to_owned());
                }
            }
            if let Some(path) = piece.strip_suffix("::") {
                module = path.rsplit("::").next().unwrap_or_default();
            }
        }
    }
    for at in find_words(code, "type") {
        let alias = until(&code[at + "type".len()..], &[';']);
        let mentions = |name: &String| !find_words(alias, name).is_empty();
        let own = alias.trim().split(|c| !is_word(c)).next();
        if let (true, Some(own)) = (names.iter().any(mentions), own) {
            names.push(own.to_owned());
        }
    }
    names.retain(|name| !name.is_empty() && name != "_");
    Ok(names)
}

/// Offset and text of everything that other crates see: `pub` items and fields (not
/// `pub(crate)`), whole bodies of public enums and traits, headers of implementations that name a
/// public type or trait of this file.
fn public_signatures(code: &str) -> Vec<(usize, &str)> {
    let mut signatures = Vec::new();
    let mut public = Vec::new();
    for at in find_words(code, "pub") {
        let item = &code[at + "pub".len()..];
        let words: Vec<&str> = item.split_whitespace().take(3).collect();
        let kind = match words.first() {
            Some(first) if !first.starts_with('(') => *first,
            _ => continue,
        };
        let signature = match kind {
            "enum" | "trait" | "union" => body(item),
            "unsafe" if words.get(1) == Some(&"trait") => body(item),
            "struct" => until(item, &['{', ';', '(']),
            "use" => until(item, &[';']),
            "fn" | "const" | "static" | "type" | "mod" | "unsafe" | "async" | "extern" => {
                until(item, &['{', ';'])
            }
            _ => until(item, &[',', '}', ')', ';']),
        };
        signatures.push((at, signature));
        let name = words.iter().skip_while(|word| **word == "unsafe").nth(1);
        if let ("enum" | "trait" | "union" | "struct" | "unsafe", Some(name)) = (kind, name) {
            public.push(name.split(|c| !is_word(c)).next().unwrap_or_default());
        }
    }
    for at in find_words(code, "impl") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let header = until(&code[at..], &['{']);
        let names_public = |name: &&str| !find_words(header, name).is_empty();
        if (line.is_empty() || line == "unsafe") && public.iter().any(names_public) {
            signatures.push((at, header));
        }
    }
    signatures
}

/// The text up to the first of `stops` that is outside all brackets (arrows are no brackets).
fn until<'a>(text: &'a str, stops: &[char]) -> &'a str {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if depth == 0 && stops.contains(&c) {
            return &text[..at];
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    text
}

/// The text up to the end of the first pair of braces.
fn body(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return &text[..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{faer_in_linalg_signatures, faer_outside_linalg};

    /// The lines that are wrong in one file of the adapter crate.
    fn lines(text: &str) -> Vec<String> {
        let path = "crates/dpopt-linalg/src/a.rs";
        let found = faer_in_linalg_signatures(&Tree::of(&[(path, text)]));
        let line = |why: String| why.split(':').nth(1).unwrap_or_default().to_owned();
        reasons(&found).into_iter().map(line).collect()
    }

    #[test]
    fn outside_linalg_only_prose_may_say_faer() {
        let prose = "//! Not faer.\nconst A: &str = \"faer\";\n/* faer */ fn no_faer_here() {}\n";
        let good = Tree::of(&[
            ("crates/dpopt-oracle/src/lib.rs", prose),
            ("crates/dpopt-linalg/tests/a.rs", "use faer::Mat;\n"),
        ]);
        assert!(faer_outside_linalg(&good).is_empty());
        let bad = Tree::of(&[("crates/dpopt/src/lib.rs", "//! A.\npub use l::faer;\n")]);
        let found = reasons(&faer_outside_linalg(&bad));
        assert!(found[0].starts_with("crates/dpopt/src/lib.rs:2: faer"));
    }

    #[test]
    fn private_use_of_faer_is_what_linalg_is_for() {
        let text = "\
use faer::{Mat, linalg::{self, solvers::Svd}};
use std::fmt;

/// Returns a `faer::Mat`? No.
pub fn f(x: &[f64]) -> [f64; 2] {
    let m: Mat<f64> = Mat::zeros(1, 1);
    g(m)
}
pub(crate) fn g(m: Mat<f64>) -> [f64; 2] { todo(m) }
pub struct Hidden {
    inner: Mat<f64>,
    pub size: usize,
}
pub struct Tuple(Svd<f64>);
struct Private(Mat<f64>);
impl From<Mat<f64>> for Private {}
pub enum Kind { A, B(f64) }
pub trait Law { fn holds(&self) -> bool; }
impl fmt::Display for Hidden {}
";
        assert_eq!(lines(text), Vec::<String>::new());
    }

    #[test]
    fn faer_in_each_kind_of_public_item_is_caught() {
        let import = "use faer::{Mat, linalg::{self, solvers::Svd as Decomposition}};\n";
        for item in [
            "pub fn f(m: faer::Mat<f64>) {}",
            "pub fn f(\n    n: [usize; 2],\n    m: &Mat<f64>,\n) -> f64 {",
            "pub fn f() -> Decomposition<f64> {",
            "pub fn f<T: Into<Mat<f64>>>(t: T) {}",
            "pub unsafe fn f(m: Mat<f64>) {}",
            "pub const fn f(m: &linalg::Thing) {}",
            "pub struct A<T = Mat<f64>>(T);",
            "pub use faer::Side;",
            "pub use Mat as Matrix;",
            "pub type A = Mat<f64>;",
            "pub const A: Mat<f64> = Mat::new();",
            "pub enum A { B(f64), C { m: Mat<f64> } }",
            "pub trait A {\n    fn f(&self) -> f64;\n    fn g(&self) -> Mat<f64>;\n}",
            "pub unsafe trait A { fn g(&self) -> Mat<f64>; }",
            "pub struct A { a: f64, pub b: Vec<Mat<f64>>, c: f64 }",
            "pub struct A(f64, pub Mat<f64>);",
            "pub struct A;\nimpl From<Mat<f64>> for A {}",
            "pub trait A {}\nimpl A for Mat<f64> {}",
            "type M = Mat<f64>;\npub fn f() -> M {",
            "pub mod inner { pub fn f(m: faer::Mat<f64>) {} }",
        ] {
            let found = lines(&format!("{import}{item}\n"));
            assert_eq!(found.len(), 1, "{item}: {found:?}");
        }
    }

    #[test]
    fn a_glob_import_is_refused_since_it_hides_names() {
        assert_eq!(lines("//! A.\nuse faer::prelude::*;\n"), ["2"]);
        assert_eq!(lines("use faer::{Mat, linalg::*};\n"), ["1"]);
        assert!(lines("use std::fmt::*;\n").is_empty());
    }
}
