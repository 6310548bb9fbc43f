//! A document of sections, as text for a terminal and as Markdown.
//!
//! Names from a schema may hold anything. In both forms controls, and characters that change the direction of what follows, are
//! replaced; in Markdown what would be markup is escaped.

/// Columns of the text.
const WIDTH: usize = 88;

/// Headings with what stands under them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Paragraph(String),
    List(Vec<String>),
    /// Short cells under names of columns.
    Table(Vec<String>, Vec<Vec<String>>),
}

impl Document {
    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut out = wrapped(&self.title, "", "");
        for section in &self.sections {
            out += &format!("\n{}\n", section.title.to_uppercase());
            for block in &section.blocks {
                out.push('\n');
                match block {
                    Block::Paragraph(text) => out += &wrapped(text, "", ""),
                    Block::List(items) => {
                        out.extend(items.iter().map(|item| wrapped(item, "- ", "  ")));
                    }
                    Block::Table(columns, rows) => out += &aligned(columns, rows),
                }
            }
        }
        out
    }

    /// As Markdown with tables.
    pub(super) fn markdown(&self) -> String {
        let mut out = format!("# {}\n", escaped(&self.title));
        for section in &self.sections {
            out += &format!("\n## {}\n", section.title);
            for block in &section.blocks {
                out.push('\n');
                match block {
                    Block::Paragraph(text) => out += &format!("{}\n", escaped(text)),
                    Block::List(items) => {
                        let lines = items.iter().map(|item| format!("- {}\n", escaped(item)));
                        out.extend(lines);
                    }
                    Block::Table(columns, rows) => {
                        let line = |cells: &[String]| {
                            let cells: Vec<String> =
                                cells.iter().map(|cell| escaped(cell)).collect();
                            format!("| {} |\n", cells.join(" | "))
                        };
                        out += &line(columns);
                        out += &format!("|{}\n", " --- |".repeat(columns.len()));
                        out.extend(rows.iter().map(|row| line(row)));
                    }
                }
            }
        }
        out
    }
}

/// Whether a character would move what follows it, or a cursor.
pub(super) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(text: &str) -> String {
    let replaced = text
        .chars()
        .map(|c| if is_unseen(c) { '\u{fffd}' } else { c });
    replaced.collect()
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = shown(text);
    let text = text.trim();
    // What makes a list, a heading or a rule of a line.
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = number.len() < text.len() && number.starts_with(['.', ')']);
    let skipped = text.len() - number.len();
    for (at, c) in text.char_indices() {
        let opens = (at == 0 && "#-+=:".contains(c)) || (numbered && at == skipped);
        if opens || "\\`*_<>[]|&~$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Lines of at most so many columns; `first` stands before the first of them and `others` before the others.
fn wrapped(text: &str, first: &str, others: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in shown(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += &line;
            out.push('\n');
            line = others.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    out + &line + "\n"
}

fn aligned(columns: &[String], rows: &[Vec<String>]) -> String {
    let all: Vec<Vec<String>> = std::iter::once(columns)
        .chain(rows.iter().map(Vec::as_slice))
        .map(|row| row.iter().map(|cell| shown(cell)).collect())
        .collect();
    let width = |k: usize| {
        let cells = all.iter().filter_map(|row| row.get(k));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:>width$}", width = *width))
            .collect();
        out += &format!("  {}\n", cells.join("  "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str) -> Document {
        Document {
            title: format!("Of {name}"),
            sections: vec![Section {
                title: "One",
                blocks: vec![
                    Block::Paragraph(name.to_owned()),
                    Block::List(vec![name.to_owned()]),
                    Block::Table(vec!["name".to_owned()], vec![vec![name.to_owned()]]),
                ],
            }],
        }
    }

    #[test]
    fn names_are_no_markup_and_no_lines() {
        for (name, wanted) in [
            ("a|b", "a\\|b"),
            ("# a", "\\# a"),
            ("- a", "\\- a"),
            ("12. a", "12\\. a"),
            ("<script>", "\\<script\\>"),
            ("[a](b) `c` *d* _e_", "\\[a\\](b) \\`c\\` \\*d\\* \\_e\\_"),
            ("a\n## b\u{202e}c", "a\u{fffd}## b\u{fffd}c"),
        ] {
            let markdown = document(name).markdown();
            for line in [
                format!("# {}", escaped(&format!("Of {name}"))),
                wanted.to_owned(),
                format!("- {wanted}"),
                format!("| {wanted} |"),
            ] {
                assert!(markdown.lines().any(|found| found == line), "{markdown}");
            }
            assert_eq!(markdown.matches("\n## ").count(), 1, "{markdown}");
            let text = document(name).text();
            assert!(
                !text.contains('\u{202e}') && !text.contains("\n##"),
                "{text}"
            );
        }
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(40), "- ", "  ");
        assert!(text.lines().all(|line| line.len() <= WIDTH));
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(text.matches("word").count(), 40);
        assert_eq!(wrapped("", "- ", "  "), "- \n");
    }
}
