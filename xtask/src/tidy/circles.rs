//! No circle of files: of two files of a crate, at most one may build on the other.
//!
//! An arrow leads from a file to the file that defines a name in it, from a `use` or a path in code.
//! Re-exports are followed and are no arrows themselves, nor is `mod`. Code for tests is not
//! counted. Methods are not followed, since a call does not name the file.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{File, Item, Visibility};

use super::rust::{attributes, imports, is_for_tests};
use super::tree::{Problem, Tree};

/// No crate has a circle.
pub(super) fn found(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, files) in crates(tree) {
        for circle in Crate::of(&files).circles() {
            let why = format!(
                "a circle of {} files of {name}: `cargo xtask tidy circles` shows it",
                circle.len()
            );
            problems.extend(circle.first().map(|file| Problem::new(file, 1, why)));
        }
    }
    problems
}

/// Prints each circle with what its files take from each other.
pub(super) fn print(tree: &Tree) {
    for (name, files) in crates(tree) {
        let all = Crate::of(&files);
        for circle in all.circles() {
            println!("{name}: a circle of {} files", circle.len());
            for ((from, to), names) in &all.arrows {
                if circle.contains(from) && circle.contains(to) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    println!("  {from} -> {to}: {}", names.join(", "));
                }
            }
        }
    }
}

/// The files of each library or program, but for the single files in `bin`.
fn crates(tree: &Tree) -> BTreeMap<&str, Files<'_>> {
    let mut crates: BTreeMap<&str, Files<'_>> = BTreeMap::new();
    for (path, file) in tree.syntax() {
        if let Some((name, inside)) = path.split_once("/src/")
            && !inside.starts_with("bin/")
        {
            crates.entry(name).or_default().push((path, file));
        }
    }
    crates
}

type Files<'a> = Vec<(&'a str, &'a File)>;

/// A module's path from the root of its crate.
type Place = Vec<String>;

/// Items and imports of one module.
#[derive(Default)]
struct Module<'a> {
    file: &'a str,
    items: BTreeSet<String>,
    /// Names from elsewhere: the path, and whether the name is passed on.
    imported: BTreeMap<String, (Vec<String>, bool)>,
    globs: Vec<Vec<String>>,
}

/// Where a path leads.
enum Target<'a> {
    Module(Place),
    /// The file of an item.
    Item(&'a str),
}

/// The modules of one crate and the arrows between their files, with what is taken.
#[derive(Default)]
struct Crate<'a> {
    modules: BTreeMap<Place, Module<'a>>,
    for_tests: BTreeSet<Place>,
    arrows: BTreeMap<(&'a str, &'a str), BTreeSet<String>>,
}

impl<'a> Crate<'a> {
    fn of(files: &[(&'a str, &'a File)]) -> Self {
        let mut all = Self::default();
        for take in [false, true] {
            for (path, syntax) in files {
                let place = place_of(path);
                let hidden = (0..=place.len()).any(|end| all.for_tests.contains(&place[..end]));
                if !hidden && !is_for_tests(&syntax.attrs) {
                    let mut walk = Walk {
                        all: &mut all,
                        place,
                        file: path,
                        take,
                    };
                    walk.enter();
                    walk.visit_file(syntax);
                }
            }
        }
        all
    }

    /// Where `path` leads from within `from`; nothing for what is not of this crate.
    fn resolve(&self, from: &[String], path: &[String], hops: usize) -> Option<Target<'a>> {
        // Imports may lead back to themselves.
        if hops > 16 {
            return None;
        }
        let mut place = from.to_vec();
        for (i, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => place.clear(),
                "self" => {}
                "super" => {
                    place.pop()?;
                }
                _ => match self.lookup(&place, name, i + 1 == path.len(), hops + 1)? {
                    Target::Module(inner) => place = inner,
                    item => return Some(item),
                },
            }
        }
        Some(Target::Module(place))
    }

    /// The target of `name` in a module. A function may share its name with a module.
    fn lookup(&self, place: &[String], name: &str, last: bool, hops: usize) -> Option<Target<'a>> {
        let module = self.modules.get(place)?;
        let inner = [place, &[name.to_owned()]].concat();
        let is_module = self.modules.contains_key(&inner);
        if is_module && !last {
            return Some(Target::Module(inner));
        }
        if module.items.contains(name) {
            return Some(Target::Item(module.file));
        }
        if let Some((path, _)) = module.imported.get(name)
            && let Some(found) = self.resolve(place, path, hops)
        {
            return Some(found);
        }
        if is_module {
            return Some(Target::Module(inner));
        }
        module
            .globs
            .iter()
            .find_map(|path| match self.resolve(place, path, hops)? {
                Target::Module(other) if other != place => {
                    self.lookup(&other, name, last, hops + 1)
                }
                _ => None,
            })
    }

    /// Sets of files of which each leads to each other, with more than one file.
    fn circles(&self) -> Vec<Vec<&'a str>> {
        let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, _) in self.arrows.keys() {
            let mut open = vec![*from];
            let seen = reached.entry(from).or_default();
            while let Some(file) = open.pop() {
                for (_, to) in self.arrows.keys().filter(|(from, _)| *from == file) {
                    if seen.insert(to) {
                        open.push(to);
                    }
                }
            }
        }
        let leads = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
        let mut circles: Vec<Vec<&'a str>> = Vec::new();
        let files: BTreeSet<&'a str> = self.arrows.keys().map(|(from, _)| *from).collect();
        for file in files.into_iter().filter(|file| leads(file, file)) {
            match circles.iter_mut().find(|circle| {
                circle
                    .iter()
                    .all(|other| leads(file, other) && leads(other, file))
            }) {
                Some(circle) => circle.push(file),
                None => circles.push(vec![file]),
            }
        }
        circles
    }
}

/// The module that a file is.
fn place_of(path: &str) -> Place {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    let steps = inside.trim_end_matches(".rs").split('/');
    steps
        .filter(|step| !["lib", "main", "mod"].contains(step))
        .map(str::to_owned)
        .collect()
}

/// A walk over one file: first for what it defines, then for what it takes.
struct Walk<'w, 'a> {
    all: &'w mut Crate<'a>,
    place: Place,
    file: &'a str,
    take: bool,
}

impl<'a> Walk<'_, 'a> {
    fn enter(&mut self) -> &mut Module<'a> {
        let module = self.all.modules.entry(self.place.clone()).or_default();
        module.file = self.file;
        module
    }

    /// Notes an arrow to where a path leads.
    fn leads(&mut self, path: &[String], whole: bool) {
        let to = match self.all.resolve(&self.place, path, 0) {
            Some(Target::Item(file)) => Some(file),
            Some(Target::Module(place)) if whole => self.all.modules.get(&place).map(|m| m.file),
            _ => None,
        };
        if let Some(to) = to.filter(|to| self.take && *to != self.file) {
            let names = self.all.arrows.entry((self.file, to)).or_default();
            names.extend(path.last().cloned());
        }
    }

    /// A path in code. A single name counts if it was re-exported here: a private import is an
    /// arrow already.
    fn path(&mut self, path: &[String]) {
        let module = self.all.modules.get(&self.place);
        let passed_on = |name| module.is_some_and(|m| m.imported.get(name).is_some_and(|i| i.1));
        if path.len() > 1 || path.first().is_some_and(passed_on) {
            self.leads(path, false);
        }
    }

    /// Paths in what a macro is given.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.path(&std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.path(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(&path);
    }

    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(syn::ItemMacro {
                ident: Some(name), ..
            }) => name,
            _ => return,
        };
        let name = name.to_string();
        self.enter().items.insert(name);
    }
}

impl<'ast> Visit<'ast> for Walk<'_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if let (Item::Mod(module), true) = (item, is_for_tests(attributes(item))) {
            let place = [self.place.as_slice(), &[module.ident.to_string()]].concat();
            self.all.for_tests.insert(place);
        }
        if !is_for_tests(attributes(item)) {
            self.define(item);
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.place.push(item.ident.to_string());
            self.enter();
            visit::visit_item_mod(self, item);
            self.place.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let passed_on = !matches!(item.vis, Visibility::Inherited);
        for import in imports(&item.tree) {
            if self.take {
                if !passed_on {
                    self.leads(&import.path, import.name.is_none());
                }
            } else if let Some(name) = import.name {
                let entry = (import.path, passed_on);
                self.enter().imported.insert(name, entry);
            } else {
                self.enter().globs.push(import.path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            self.path(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{Crate, crates, found};

    /// The circles of a crate with these files.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (format!("crates/a/src/{path}"), *text))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let tree = Tree::of(&files);
        let all = crates(&tree);
        let circles = Crate::of(&all["crates/a"]).circles();
        let short = |path: &&str| path.replace("crates/a/src/", "");
        circles
            .iter()
            .map(|circle| circle.iter().map(short).collect())
            .collect()
    }

    #[test]
    fn a_tree_of_files_has_no_circle() {
        for files in [
            // A folder declares, passes on and uses its children.
            &[
                ("lib.rs", "mod a; pub use a::{B, c};"),
                (
                    "a/mod.rs",
                    "mod b; pub mod c; pub use b::B; fn f(b: B) { c::g(b) }",
                ),
                ("a/b.rs", "pub struct B;"),
                ("a/c.rs", "use super::b::B; pub fn g(_: B) {}"),
            ] as &[_],
            // A re-export leads to the definition.
            &[
                ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
                ("a.rs", "pub struct A;"),
                ("b.rs", "use crate::A; pub struct B(A);"),
            ],
            // Tests may take anything.
            &[
                ("lib.rs", "mod a; fn f() { a::g() }"),
                (
                    "a.rs",
                    "pub fn g() {} #[cfg(test)] mod tests; #[cfg(test)] mod m { use crate::f; }",
                ),
                ("a/tests.rs", "use crate::f; fn h() { super::g() }"),
            ],
            // Names of other crates, and of what is inside one file.
            &[
                (
                    "lib.rs",
                    "use std::fmt; mod m { pub fn f() {} } fn g() { m::f(); fmt::x() }",
                ),
                ("a.rs", "use a::b; mod std {}"),
            ],
        ] {
            assert_eq!(circles(files), Vec::<Vec<String>>::new(), "{files:?}");
        }
    }

    #[test]
    fn each_way_back_closes_a_circle() {
        for back in [
            "use crate::a::A;",
            "use super::a::A as Other;",
            "use super::A;",
            "use crate::a::*;",
            "fn f() { crate::a::g(1) }",
            "fn f(x: super::a::A) {}",
            "use super::a; fn f() { a::g(1) }",
            "fn f() { vec![1, crate::a::g(2)]; }",
            "impl super::a::T for u8 {}",
            "mod inner { use super::super::a::A; }",
        ] {
            let lib = "pub mod a; pub mod b; pub use a::A;";
            let a = "use super::b::B; pub struct A; pub fn g(_: B) {} pub trait T {}";
            let b = format!("{back} pub struct B;");
            let found = circles(&[("lib.rs", lib), ("a.rs", a), ("b.rs", &b)]);
            assert_eq!(found, [["a.rs", "b.rs"]], "{back}");
        }
    }

    #[test]
    fn circles_of_a_folder_and_through_several_files_are_found() {
        let folder = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub use b::B; pub struct A(B);"),
            ("a/b.rs", "use super::A; pub struct B;"),
        ];
        assert_eq!(circles(&folder), [["a/b.rs", "a/mod.rs"]]);
        let chain = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
        ];
        assert_eq!(circles(&chain), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn each_circle_is_a_problem() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod b; pub struct A;"),
            ("crates/a/src/b.rs", "use crate::A;"),
            ("crates/c/src/lib.rs", "mod d; pub struct C(d::D);"),
            ("crates/c/src/d.rs", "use crate::C; pub struct D;"),
        ]);
        let reasons = reasons(&found(&tree));
        assert_eq!(reasons.len(), 1);
        assert!(reasons[0].starts_with("crates/c/src/d.rs:1: a circle of 2 files"));
    }
}
