//! Relative links in Markdown lead to files and headings that exist.

use super::tree::{Problem, Tree};

/// Every relative link of every Markdown file names a file or folder of the repository, and a
/// heading of it if it names one; and so does every file that mdbook includes.
pub(super) fn relative(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, link) in links(text).into_iter().chain(includes(text)) {
            if let Err(why) = resolves(tree, path, &link) {
                problems.push(Problem::new(path, line, format!("link `{link}` {why}")));
            }
        }
    }
    problems
}

/// Whether a link of the file at `path` is external or leads somewhere.
fn resolves(tree: &Tree, path: &str, link: &str) -> Result<(), &'static str> {
    let (address, part) = link.split_once('#').unwrap_or((link, ""));
    let file = address.split('?').next().unwrap_or_default();
    let scheme = file.split('/').next().unwrap_or_default();
    if scheme.contains(':') || file.starts_with("//") {
        return Ok(());
    }
    if file.is_empty() {
        return leads_to_heading(tree, path, part);
    }
    if file.starts_with('/') {
        return Err("is absolute; links inside the repository are relative");
    }
    let mut place: Vec<&str> = path.split('/').collect();
    place.pop();
    let file = file.replace("%20", " ");
    for step in file.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                place.pop().ok_or("leaves the repository")?;
            }
            name => place.push(name),
        }
    }
    let found = place.join("/");
    if tree.has(&found) {
        leads_to_heading(tree, &found, part)
    } else {
        Err("leads to no file")
    }
}

/// Whether a Markdown file has this heading. Other files have none that we know of.
fn leads_to_heading(tree: &Tree, path: &str, part: &str) -> Result<(), &'static str> {
    let Some(text) = tree.text(path).filter(|_| path.ends_with(".md")) else {
        return Ok(());
    };
    if part.is_empty() || anchors(text).iter().any(|anchor| anchor == part) {
        Ok(())
    } else {
        Err("leads to no heading of that file")
    }
}

/// The anchors of headings, as GitHub and mdbook make them: letters in lower case, digits, dashes
/// and underscores, a dash for each blank, and a number if a heading is repeated.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut plain: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let Some(title) = line.trim_start_matches('#').strip_prefix(' ') else {
            continue;
        };
        if !line.starts_with('#') {
            continue;
        }
        let letter = |c: char| match c {
            c if c.is_whitespace() => Some('-'),
            c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
            _ => None,
        };
        let anchor: String = visible(title.trim())
            .to_lowercase()
            .chars()
            .filter_map(letter)
            .collect();
        let before = plain.iter().filter(|other| **other == anchor).count();
        found.push(if before == 0 {
            anchor.clone()
        } else {
            format!("{anchor}-{before}")
        });
        plain.push(anchor);
    }
    found
}

/// A heading without the targets of its links.
fn visible(title: &str) -> String {
    let mut pieces = title.split("](");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest));
    }
    out
}

/// The files in `{{#include FILE}}`, with their lines; they stand in blocks of code.
fn includes(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (before, line) in text.lines().enumerate() {
        for (_, rest) in line
            .match_indices("{{#include ")
            .map(|(at, mark)| line.split_at(at + mark.len()))
        {
            let file = rest.split(['}', ':']).next().unwrap_or_default();
            found.push((before + 1, file.trim().to_owned()));
        }
    }
    found
}

/// The lines outside of blocks of code, with their numbers.
pub(super) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (before, raw) in text.lines().enumerate() {
        let trimmed = raw.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|m| trimmed.starts_with(m));
        match (fence, marker) {
            (None, Some(_)) => fence = marker,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => found.push((before + 1, raw)),
        }
    }
    found
}

/// The targets of inline links, images, reference definitions and HTML attributes with their
/// lines; code is skipped.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, raw) in prose(text) {
        let line = without_code(raw);
        let mut targets: Vec<&str> = Vec::new();
        targets.extend(line.match_indices("](").map(|(at, _)| &line[at + 2..]));
        for attribute in ["href=\"", "src=\""] {
            let after = |(at, _): (usize, &str)| {
                let value = &line[at + attribute.len()..];
                value.split('"').next().unwrap_or_default()
            };
            targets.extend(line.match_indices(attribute).map(after));
        }
        if let Some((name, target)) = line.trim_start().split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            targets.push(target);
        }
        found.extend(targets.into_iter().map(|t| (number, target(t))));
    }
    found
}

/// The line with its code spans blanked.
fn without_code(line: &str) -> String {
    let mut rest = line;
    let mut out = String::new();
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|&c| c == '`').count();
        let fence = &rest[start..start + ticks];
        out.push_str(&rest[..start]);
        match rest[start + ticks..].find(fence) {
            Some(length) => {
                out.push(' ');
                rest = &rest[start + ticks + length + ticks..];
            }
            None => {
                out.push_str(fence);
                rest = &rest[start + ticks..];
            }
        }
    }
    out + rest
}

/// The target at the start of `text`: in angle brackets, or up to a blank (a title may follow) or
/// the closing parenthesis.
fn target(text: &str) -> String {
    let text = text.trim_start();
    if let Some(bracketed) = text.strip_prefix('<') {
        return bracketed.split('>').next().unwrap_or_default().to_owned();
    }
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text[..at].to_owned(),
            ')' => depth -= 1,
            c if c.is_whitespace() => return text[..at].to_owned(),
            _ => {}
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::reasons;
    use super::super::tree::Tree;
    use super::relative;

    /// The problems of one file, next to `docs/b.md` and `x (1).png`.
    fn problems(path: &str, text: &str) -> Vec<String> {
        const B: &str = "# B\n## A `part` of [b](b.md), 2\n## Twice\n## Twice\n```\n# code\n```\n";
        let tree = Tree::of(&[(path, text), ("docs/b.md", B), ("docs/x (1).png", "")]);
        reasons(&relative(&tree))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for text in [
            "[b](b.md), [b](./b.md#b), [up](../docs/b.md \"title\")",
            "[b](b.md#a-part-of-b-2), [b](b.md#twice), [b](b.md#twice-1), [x](<x (1).png#part>)",
            "```rust\n{{#include b.md}}\n{{#include ../docs/b.md:3:5}}\n```",
            "![x](<x (1).png>) and ![x](x%20(1).png)",
            "# Part\n[folder](../docs/) and [here](#part) and [root](..)",
            "[web](https://example.org/a.md) <mailto:a@b.c> [mail](mailto:a@b.c)",
            "[b]: b.md\n[^1]: nowhere.md\n<img src=\"b.md\">",
            "`[code](nowhere.md)` and ``[`x`](nowhere.md)``",
            "```rust\n[code](nowhere.md)\n```\n[b](b.md)",
            "~~~\n```\n[code](nowhere.md)\n~~~",
        ] {
            assert_eq!(problems("docs/a.md", text), Vec::<String>::new(), "{text}");
        }
        assert!(problems("README.md", "[b](docs/b.md)").is_empty());
    }

    #[test]
    fn links_to_nowhere_are_caught_with_their_line() {
        for text in [
            "[b](c.md)",
            "[b](docs/b.md)",
            "two [b](b.md) on a line [c](c.md)",
            "![x](x.png)",
            "[b]: c.md",
            "<a href=\"c.md\">c</a>",
            "[b](b)",
            "[abs](/docs/b.md)",
            "[out](../../b.md)",
            "```\ncode\n```\n[c](c.md)",
            "an `open tick and [c](c.md)",
            "[here](#part)",
            "[b](b.md#part)",
            "[b](b.md#B)",
            "[b](b.md#twice-2)",
            "[b](b.md#code)",
            "{{#include c.rs}}",
        ] {
            let found = problems("docs/a.md", &format!("first\n{text}\n"));
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            let line = if text.starts_with("```") { 5 } else { 2 };
            assert!(found[0].starts_with(&format!("docs/a.md:{line}: link ")));
        }
    }
}
