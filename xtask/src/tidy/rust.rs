//! Rust files as syntax trees: names, imports, and what is for tests only.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree};

/// Every identifier of a piece of code, those inside macros too; comments and literals have none.
pub(super) fn idents(code: &impl ToTokens) -> Vec<Ident> {
    fn collect(tokens: TokenStream, all: &mut Vec<Ident>) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => all.push(ident),
                TokenTree::Group(group) => collect(group.stream(), all),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut all = Vec::new();
    collect(code.to_token_stream(), &mut all);
    all
}

/// The line, from one, on which a piece of code starts.
pub(super) fn line_of(code: &impl ToTokens) -> usize {
    let first = code.to_token_stream().into_iter().next();
    first.map_or(1, |token| token.span().start().line)
}

/// One thing that a `use` brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// Its path.
    pub(super) path: Vec<String>,
    /// Its name here; none for all that is in the path.
    pub(super) name: Option<String>,
}

/// All that a `use` brings into scope.
pub(super) fn imports(tree: &UseTree) -> Vec<Import> {
    fn collect(tree: &UseTree, path: &[String], all: &mut Vec<Import>) {
        let (ident, alias) = match tree {
            UseTree::Path(inner) => {
                let path = [path, &[inner.ident.to_string()]].concat();
                return collect(&inner.tree, &path, all);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| collect(tree, path, all));
            }
            UseTree::Name(name) => (Some(&name.ident), None),
            UseTree::Rename(rename) => (Some(&rename.ident), Some(&rename.rename)),
            UseTree::Glob(_) => (None, None),
        };
        let mut path = path.to_vec();
        if let Some(ident) = ident.filter(|ident| *ident != "self" || path.is_empty()) {
            path.push(ident.to_string());
        }
        let name = match alias {
            Some(alias) => Some(alias.to_string()),
            None => path.last().filter(|_| ident.is_some()).cloned(),
        };
        all.push(Import { path, name });
    }
    let mut all = Vec::new();
    collect(tree, &[], &mut all);
    all
}

/// Whether one of the attributes keeps the code out of all builds but those of tests.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .map(|attribute| idents(&attribute.meta))
        .any(|words| words.iter().any(|w| w == "test") && words.iter().all(|w| w != "not"))
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::{Import, attributes, idents, imports, is_for_tests, line_of};

    #[test]
    fn names_inside_macros_are_found_and_those_in_prose_are_not() {
        let file = syn::parse_file("//! a\n/* b */ fn c() { d!(\"e\", f); }\n").expect("Rust");
        let names: Vec<String> = idents(&file.items[0])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["fn", "c", "d", "f"]);
        assert_eq!(line_of(&file.items[0]), 2);
    }

    #[test]
    fn imports_have_paths_and_names() {
        let item: syn::ItemUse = syn::parse_str("use a::{self, b::C as D, e::*};").expect("Rust");
        let import = |path: &[&str], name: Option<&str>| Import {
            path: path.iter().map(ToString::to_string).collect(),
            name: name.map(str::to_owned),
        };
        let expected = [
            import(&["a"], Some("a")),
            import(&["a", "b", "C"], Some("D")),
            import(&["a", "e"], None),
        ];
        assert_eq!(imports(&item.tree), expected);
    }

    #[test]
    fn code_for_tests_is_told_from_other_code() {
        for (code, expected) in [
            ("#[cfg(test)] mod a;", true),
            ("#[cfg(all(test, unix))] fn a() {}", true),
            ("#[cfg(not(test))] fn a() {}", false),
            ("#[test] fn a() {}", false),
            ("struct A;", false),
        ] {
            let item = syn::parse_str(code).expect("Rust");
            assert_eq!(is_for_tests(attributes(&item)), expected, "{code}");
        }
    }
}
