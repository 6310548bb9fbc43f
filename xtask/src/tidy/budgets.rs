//! Sizes: lines of Rust, public items and long functions of each crate, comments against the style,
//! and words of the pages. None may exceed its budget in `budgets.toml`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::tree::{Problem, Tree};

/// The file with the budgets.
pub(super) const FILE: &str = "budgets.toml";
/// The most lines of a function that is not long.
const LONGEST: usize = 80;
const HEADER: &str = "\
# The most that each part may have: lines of Rust, public items, functions over 80 lines (long),
# comment lines over 100 columns or with `What`, `Of` or `Whoever` first, words of Markdown. `cargo xtask tidy`
# checks it and `cargo xtask tidy --budgets` lowers it to the present sizes. A number is raised by
# hand, with a comment beside it that names what was deleted for it.
";

/// The longest line of a comment.
const COLUMNS: usize = 100;

/// Sizes by part and name.
type Sizes = BTreeMap<String, BTreeMap<String, usize>>;

/// Every size is within its budget, and every part has one.
pub(super) fn kept(tree: &Tree) -> Vec<Problem> {
    let text = tree.text(FILE).unwrap_or_default();
    let budgets: Sizes = match toml::from_str(text) {
        Ok(budgets) => budgets,
        Err(error) => return vec![Problem::new(FILE, 1, error.to_string())],
    };
    let mut problems = Vec::new();
    for (part, sizes) in sizes(tree) {
        let line = text.lines().position(|line| line == format!("[{part}]"));
        for (what, size) in sizes {
            let budget = budgets.get(&part).and_then(|sizes| sizes.get(&what));
            if budget.is_none_or(|budget| size > *budget) {
                let most = budget.map_or("no budget".to_owned(), |most| format!("at most {most}"));
                let why = format!("{part} has {size} {what}, and {most}");
                problems.push(Problem::new(FILE, line.map_or(1, |line| line + 1), why));
            }
        }
    }
    problems
}

/// The text of the file with every number lowered to the present size and not raised.
pub(super) fn lowered(tree: &Tree) -> Result<String, String> {
    let old = tree.text(FILE).unwrap_or(HEADER);
    let budgets: Sizes = toml::from_str(old).map_err(|error| format!("{FILE}: {error}"))?;
    let now = sizes(tree);
    let (mut text, mut part) = (String::new(), "");
    for line in old.lines() {
        let (code, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
        part = code
            .strip_prefix('[')
            .map_or(part, |name| name.trim_end().trim_end_matches(']'));
        match code.split_once('=') {
            Some((what, budget)) => {
                let what = what.trim();
                let size = now
                    .get(part)
                    .and_then(|sizes| sizes.get(what))
                    .copied()
                    .unwrap_or(0);
                let budget: usize = budget
                    .trim()
                    .parse()
                    .map_err(|_| format!("{FILE}: {line}"))?;
                let space = if comment.is_empty() { "" } else { " " };
                _ = writeln!(text, "{what} = {}{space}{comment}", size.min(budget));
            }
            None => _ = writeln!(text, "{line}"),
        }
    }
    // A part without budgets begins with its present size.
    for (part, sizes) in now.iter().filter(|(part, _)| !budgets.contains_key(*part)) {
        _ = writeln!(text, "\n[{part}]");
        for (what, size) in sizes {
            _ = writeln!(text, "{what} = {size}");
        }
    }
    Ok(text)
}

fn sizes(tree: &Tree) -> Sizes {
    let mut all = Sizes::new();
    for (path, text) in tree.texts() {
        let steps: Vec<&str> = path.split('/').collect();
        let part = match *steps {
            ["crates", name, _, ..] => name,
            [folder, _, ..] => folder,
            _ => "root",
        };
        let mut add = |what: &str, size: usize| {
            let sizes = all.entry(part.to_owned()).or_default();
            *sizes.entry(what.to_owned()).or_default() += size;
        };
        if path.ends_with(".md") {
            add("words", text.split_whitespace().count());
        } else if path.ends_with(".rs") {
            let (public, long) = of_code(path, text);
            add("lines", text.matches('\n').count());
            add("public", public);
            add("long", long);
            add("comments", text.lines().filter(|line| is_odd(line)).count());
        }
    }
    all
}

/// Public items and long functions outside of tests; by lines and not by syntax.
fn of_code(path: &str, text: &str) -> (usize, usize) {
    let for_tests = ["/tests/", "/benches/", "/tests.rs", "_tests.rs"];
    if for_tests.iter().any(|piece| path.contains(piece)) {
        return (0, 0);
    }
    let (mut public, mut long) = (0, 0);
    let mut open: Option<(usize, &str)> = None;
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        if line.contains("#[cfg(test)]") && next.contains("mod ") && next.ends_with('{') {
            break;
        }
        let code = line.trim_start();
        public += usize::from(is_public(code));
        if open.is_none() && is_function(code) && !code.ends_with(';') {
            open = Some((at, &line[..line.len() - code.len()]));
        }
        if let Some((first, indent)) = open
            && line
                .strip_prefix(indent)
                .is_some_and(|rest| rest.trim_end() == "}")
        {
            long += usize::from(at - first > LONGEST);
            open = None;
        }
    }
    (public, long)
}

/// A comment is odd if it is too wide, or begins with a word that puts its subject last.
fn is_odd(line: &str) -> bool {
    let code = line.trim_start();
    let Some(text) = code.strip_prefix("//") else {
        return false;
    };
    let text = text.trim_start_matches(['/', '!', ' ']);
    let begins = |word: &&str| text.starts_with(*word);
    ["What ", "Of ", "Whoever "].iter().any(begins) || line.chars().count() > COLUMNS
}

fn is_public(code: &str) -> bool {
    const ITEMS: [&str; 8] = [
        "fn", "struct", "enum", "trait", "const", "type", "static", "mod",
    ];
    let Some(rest) = code.strip_prefix("pub ") else {
        return false;
    };
    let mut words = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
    match words.next() {
        Some("unsafe" | "async") => words.next() == Some("fn"),
        word => word.is_some_and(|word| ITEMS.contains(&word)),
    }
}

fn is_function(code: &str) -> bool {
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => code,
    };
    let mut words = code.split(' ');
    words.find(|word| !["const", "async", "unsafe"].contains(word)) == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::{FILE, is_odd, kept, lowered, of_code};

    #[test]
    fn a_size_above_its_budget_and_a_part_without_one_are_caught() {
        let code = ("crates/a/src/lib.rs", "//! A.\npub fn f() {}\n");
        let good = "[a]\ncomments = 0\nlines = 2\nlong = 0\npublic = 1\n";
        let problems = |text| reasons(&kept(&Tree::of(&[code, (FILE, text)])));
        assert_eq!(problems(good), Vec::<String>::new());
        let bad = good.replace("public = 1", "public = 0");
        assert_eq!(
            problems(&bad),
            ["budgets.toml:1: a has 1 public, and at most 0"]
        );
        assert_eq!(problems("").len(), 4);
    }

    #[test]
    fn budgets_fall_and_never_rise_and_comments_stay() {
        let page = ("docs/a.md", "three words here");
        let lower = |text: &str| lowered(&Tree::of(&[page, (FILE, text)])).unwrap();
        assert_eq!(
            lower("[docs]\nwords = 9 # for b\n"),
            "[docs]\nwords = 3 # for b\n"
        );
        assert_eq!(lower("[docs]\nwords = 2\n"), "[docs]\nwords = 2\n");
        assert!(lower("# Top.\n").ends_with("# Top.\n\n[docs]\nwords = 3\n"));
    }

    #[test]
    fn wide_comments_and_late_subjects_are_odd() {
        for odd in [
            "/// What it is.",
            "    // Of these.",
            &format!("//! {}", "a".repeat(97)),
        ] {
            assert!(is_odd(odd), "{odd}");
        }
        for good in [
            "/// The kind.",
            "let x = \"// What\";",
            "// Whatever.",
            &"a".repeat(120),
        ] {
            assert!(!is_odd(good), "{good}");
        }
    }

    #[test]
    fn items_and_long_functions_outside_of_tests_count() {
        let long = format!(
            "    pub(crate) const fn f() {{\n{}    }}\n",
            "        x;\n".repeat(80)
        );
        let text = format!("pub struct A;\npub use b::C;\nimpl A {{\n{long}}}\n");
        assert_eq!(of_code("crates/a/src/b.rs", &text), (1, 1));
        let shorter = text.replacen("        x;\n", "", 1);
        assert_eq!(of_code("crates/a/src/b.rs", &shorter), (1, 0));
        assert_eq!(of_code("crates/a/tests/b.rs", &text), (0, 0));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(of_code("crates/a/src/b.rs", &tests), (0, 0));
    }
}
