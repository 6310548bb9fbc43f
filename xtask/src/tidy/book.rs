//! The book: every page below `docs/` is in its table of contents, once.

use std::collections::BTreeMap;

use super::links::links;
use super::tree::{Problem, Tree};

/// Where the pages lie.
const FOLDER: &str = "docs/";

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Every page is a chapter exactly once; whether a chapter is a page is for the rule of links.
pub(super) fn chapters(tree: &Tree) -> Vec<Problem> {
    let pages = |(path, _): &(&str, &str)| {
        path.starts_with(FOLDER) && path.ends_with(".md") && *path != SUMMARY
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for (line, link) in links(tree.text(SUMMARY).unwrap_or_default()) {
        let page = link.strip_prefix("./").unwrap_or(&link);
        if let Some(first) = seen.insert(page.to_owned(), line) {
            let why = format!("`{page}` is a chapter already, in line {first}");
            problems.push(Problem::new(SUMMARY, line, why));
        }
    }
    for (path, _) in tree.texts().filter(pages) {
        if !seen.contains_key(&path[FOLDER.len()..]) {
            let why = format!("the page is no chapter: add it to {SUMMARY}");
            problems.push(Problem::new(path, 1, why));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::chapters;

    /// The problems of two pages under this table of contents.
    fn problems(summary: &str) -> Vec<String> {
        let pages = [("docs/a.md", ""), ("docs/deep/b.md", ""), ("README.md", "")];
        let mut files = vec![("docs/SUMMARY.md", summary)];
        files.extend(pages);
        reasons(&chapters(&Tree::of(&files)))
    }

    #[test]
    fn a_book_with_each_page_once_passes() {
        let good = "# Summary\n\n[A](a.md)\n\n# Part\n\n- [B](./deep/b.md)\n";
        assert_eq!(problems(good), Vec::<String>::new());
        assert!(chapters(&Tree::of(&[("README.md", "")])).is_empty());
    }

    #[test]
    fn a_page_that_is_left_out_or_there_twice_is_caught() {
        for (summary, start) in [
            ("[A](a.md)\n", "docs/deep/b.md:1: the page is no chapter"),
            (
                "[A](a.md)\n- [B](deep/b.md)\n- [A again](a.md)\n",
                "docs/SUMMARY.md:3: `a.md` is a chapter already, in line 1",
            ),
            (
                "[A](a.md)\n`[B](deep/b.md)`\n",
                "docs/deep/b.md:1: the page is no chapter",
            ),
        ] {
            let found = problems(summary);
            assert_eq!(found.len(), 1, "{summary}: {found:?}");
            assert!(found[0].starts_with(start), "{found:?}");
        }
        assert_eq!(problems("").len(), 2);
    }
}
