//! The shell of a page, tables, and escaping.

const STYLE: &str = include_str!("page.css");

/// A whole page: the title is text, `style` is CSS after the common one, the body is HTML.
///
/// The page forbids itself to load or to run anything.
#[must_use]
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Escapes text for HTML, in elements and in quoted attributes. Control characters, and those that
/// change the direction of what follows, are shown as replacements.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A table of names and values, all of them text. `class` is one more class, or empty.
#[must_use]
pub fn pairs(class: &str, caption: &str, rows: &[(String, String)]) -> String {
    let row = |(name, value): &(String, String)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
            escape(name),
            escape(value)
        )
    };
    format!(
        "<table class=\"{}\"><caption>{}</caption><tbody>\n{}</tbody></table>\n",
        format!("pairs {class}").trim_end(),
        escape(caption),
        rows.iter().map(row).collect::<String>()
    )
}

/// A table with a head. `class` is `num` for numbers, set to the right, or empty. The caption, empty for
/// none, and the names of columns are text; cells are HTML.
#[must_use]
pub fn table(class: &str, caption: &str, columns: &[&str], rows: &[Vec<String>]) -> String {
    let name = |name: &&str| format!("<th scope=\"col\">{}</th>", escape(name));
    let cell = |cell: &String| format!("<td>{cell}</td>");
    let row =
        |row: &Vec<String>| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>());
    let caption = match caption {
        "" => String::new(),
        text => format!("<caption>{}</caption>", escape(text)),
    };
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">{caption}<thead><tr>{}</tr></thead><tbody>\n\
         {}</tbody></table></div>\n",
        columns.iter().map(name).collect::<String>(),
        rows.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_wherever_it_stands() {
        assert_eq!(escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escape("x\u{0}\u{202e}y"), "x\u{fffd}\u{fffd}y");
        let evil = "</style><b onload=\"x\">";
        let row = (evil.to_owned(), evil.to_owned());
        for out in [
            page(evil, "", ""),
            pairs("", evil, &[row]),
            table("", evil, &[evil, evil], &[]),
        ] {
            assert!(!out.contains("<b ") && out.contains("&lt;b onload=&quot;x&quot;&gt;"));
        }
    }
}
