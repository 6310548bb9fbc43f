//! No faer type in a public signature: the adapter crate hides it, and no other crate names it.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{File, Visibility};

use super::rust::{idents, imports, line_of};
use super::tree::{Problem, Tree};

/// The one folder that may name faer.
const LINALG: &str = "crates/dpopt-linalg/";

/// Outside the adapter crate, no code names faer at all (comments and texts may).
pub(super) fn faer_outside_linalg(tree: &Tree) -> Vec<Problem> {
    let why = "faer is named outside dpopt-linalg; add what is needed to that crate";
    let mut problems = Vec::new();
    for (path, file) in tree.syntax().filter(|(path, _)| !path.starts_with(LINALG)) {
        let names = idents(file).into_iter().filter(|name| name == "faer");
        problems.extend(names.map(|name| Problem::new(path, line_of(&name), why)));
    }
    problems
}

/// Inside the adapter crate, faer is named in private code only.
pub(super) fn faer_in_linalg_signatures(tree: &Tree) -> Vec<Problem> {
    let sources = format!("{LINALG}src/");
    let mut problems = Vec::new();
    for (path, file) in tree.syntax().filter(|(path, _)| path.starts_with(&sources)) {
        let names = Names::of(file);
        if let Some(line) = names.glob {
            let why = "a glob import of faer hides its names from the check of signatures";
            problems.push(Problem::new(path, line, why));
            continue;
        }
        for (line, name) in Signatures::of(file, &names) {
            let why = format!("faer in a public signature (`{name}`)");
            problems.push(Problem::new(path, line, why));
        }
    }
    problems
}

/// `faer`, and the names under which a file imports or abbreviates parts of it.
struct Names {
    names: Vec<String>,
    /// The line of a glob import.
    glob: Option<usize>,
}

impl Names {
    fn of(file: &File) -> Self {
        let names = vec!["faer".to_owned()];
        let mut all = Self { names, glob: None };
        all.visit_file(file);
        // An abbreviation may stand above the import.
        all.visit_file(file);
        all
    }

    /// The first of the names in a piece of code.
    fn first_in(&self, code: &impl ToTokens) -> Option<String> {
        let words = idents(code).into_iter().map(|word| word.to_string());
        words.into_iter().find(|word| self.names.contains(word))
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for import in imports(&item.tree) {
            if import.path.iter().any(|word| word == "faer") {
                match import.name {
                    Some(name) => self.names.push(name),
                    None => self.glob = Some(line_of(item)),
                }
            }
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if self.first_in(item).is_some() {
            self.names.push(item.ident.to_string());
        }
    }
}

/// Everything that other crates see: `pub` items and fields (not `pub(crate)`), whole bodies of
/// public enums and traits, headers of implementations that name such a type or trait.
struct Signatures<'a> {
    names: &'a Names,
    /// Lines and names of faer's that were found.
    found: Vec<(usize, String)>,
    public: Vec<syn::Ident>,
    headers: Vec<(usize, TokenStream)>,
}

impl<'a> Signatures<'a> {
    fn of(file: &File, names: &'a Names) -> Vec<(usize, String)> {
        let mut all = Self {
            names,
            found: Vec::new(),
            public: Vec::new(),
            headers: Vec::new(),
        };
        all.visit_file(file);
        for (line, header) in all.headers {
            let of_public = idents(&header).iter().any(|word| all.public.contains(word));
            let name = names.first_in(&header).filter(|_| of_public);
            all.found.extend(name.map(|name| (line, name)));
        }
        all.found
    }

    /// Checks what is seen of something public.
    fn see(&mut self, vis: &Visibility, seen: &impl ToTokens) {
        if let Visibility::Public(public) = vis {
            let name = self.names.first_in(seen);
            self.found.extend(name.map(|name| (line_of(public), name)));
        }
    }

    /// The same for something whose implementations count.
    fn define(&mut self, vis: &Visibility, ident: &syn::Ident, seen: &impl ToTokens) {
        self.see(vis, seen);
        if matches!(vis, Visibility::Public(_)) {
            self.public.push(ident.clone());
        }
    }
}

impl<'ast> Visit<'ast> for Signatures<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.see(&item.vis, &item.sig);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.see(&item.vis, &item.sig);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.see(&item.vis, &item.ty);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.see(&item.vis, &item.ty);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.see(&item.vis, &item.ty);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.see(&item.vis, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.see(&item.vis, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.define(&item.vis, &item.ident, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.define(&item.vis, &item.ident, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.define(&item.vis, &item.ident, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let (generics, bounds) = (&item.generics, &item.generics.where_clause);
        let seen = [generics.to_token_stream(), bounds.to_token_stream()];
        self.define(
            &item.vis,
            &item.ident,
            &seen.into_iter().collect::<TokenStream>(),
        );
        visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.see(&field.vis, &field.ty);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // All but the braces and what is in them.
        let mut header: Vec<TokenTree> = item.to_token_stream().into_iter().collect();
        header.pop();
        let header = header.into_iter().collect();
        self.headers.push((line_of(item), header));
        visit::visit_item_impl(self, item);
    }

    /// Macros are not expanded, so everything in them counts.
    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(public) = idents(item).iter().find(|word| *word == "pub") {
            let name = self.names.first_in(item);
            self.found.extend(name.map(|name| (line_of(public), name)));
        }
    }
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
            "pub fn f(\n    n: [usize; 2],\n    m: &Mat<f64>,\n) -> f64 {}",
            "pub fn f() -> Decomposition<f64> {}",
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
            "type M = Mat<f64>;\npub fn f() -> M {}",
            "macro_rules! a { () => { pub fn f(m: Mat<f64>) {} } }",
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
