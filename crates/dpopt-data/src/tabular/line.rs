//! Splitting a line into fields.
//!
//! A CSV reader that honours quotes across line breaks lets one stray quote swallow every record
//! after it: one record would change n others, and no sensitivity bound survives that. So the
//! stream is cut at line feeds first ([`crate::formats`]) and each line is parsed alone; a quote
//! left open ends with its line.

/// Fields of one line; reuse it, it keeps its buffers.
///
/// # Rules
/// Fields are separated by the delimiter, a comma unless the schema says otherwise. A field whose first byte (after ASCII white space)
/// is a double quote is quoted: delimiters in it are text, two double quotes are one, a single one ends the quoted
/// part, and what follows up to the delimiter is appended as it stands. A quote that is left open ends
/// with the line. A quote elsewhere is text. ASCII white space around a field (and just inside of
/// its quotes) is dropped. A line of nothing but ASCII white space, none of it the delimiter, has no fields at all.
#[derive(Debug, Default, Clone)]
pub struct Fields {
    text: Vec<u8>,
    spans: Vec<(usize, usize)>,
    open_quote: bool,
}

impl Fields {
    /// An empty set of fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Splits `line` (no line feed in it) at `delimiter` into its first `most` fields; the rest is not looked at.
    pub fn split(&mut self, line: &[u8], delimiter: u8, most: usize) {
        self.text.clear();
        self.spans.clear();
        self.open_quote = false;
        if blank_start(line, delimiter) == line.len() {
            return;
        }
        if line.contains(&b'"') {
            self.split_quoted(line, delimiter, most);
        } else {
            self.text.extend_from_slice(line);
            let mut start = 0;
            for (at, &byte) in line.iter().enumerate() {
                if byte == delimiter {
                    if self.spans.len() >= most {
                        return;
                    }
                    self.spans.push((start, at));
                    start = at + 1;
                }
            }
            if self.spans.len() < most {
                self.spans.push((start, line.len()));
            }
        }
    }

    fn split_quoted(&mut self, line: &[u8], delimiter: u8, most: usize) {
        let mut rest = line;
        while self.spans.len() < most {
            let start = self.text.len();
            let unquoted = &rest[blank_start(rest, delimiter)..];
            let mut tail = rest;
            if let Some(body) = unquoted.strip_prefix(b"\"") {
                tail = self.quoted(body);
            }
            let end = tail.iter().position(|&byte| byte == delimiter);
            let (own, next) = match end {
                Some(at) => (&tail[..at], Some(&tail[at + 1..])),
                None => (tail, None),
            };
            self.text.extend_from_slice(own);
            self.spans.push((start, self.text.len()));
            match next {
                Some(next) => rest = next,
                None => return,
            }
        }
    }

    /// Appends the quoted part that starts at `body` and returns what follows its closing quote.
    fn quoted<'a>(&mut self, mut body: &'a [u8]) -> &'a [u8] {
        loop {
            let Some(at) = body.iter().position(|&byte| byte == b'"') else {
                self.text.extend_from_slice(body);
                self.open_quote = true;
                return &[];
            };
            self.text.extend_from_slice(&body[..at]);
            body = &body[at + 1..];
            match body.strip_prefix(b"\"") {
                Some(after) => {
                    self.text.push(b'"');
                    body = after;
                }
                None => return body,
            }
        }
    }

    /// Number of fields found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the line was blank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Field number `i` without the white space around it.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let &(start, end) = self.spans.get(i)?;
        self.text.get(start..end).map(<[u8]>::trim_ascii)
    }

    /// Whether a quote was left open.
    #[must_use]
    pub fn open_quote(&self) -> bool {
        self.open_quote
    }
}

/// How many bytes of white space a text starts with; a delimiter is none.
fn blank_start(text: &[u8], delimiter: u8) -> usize {
    let blank = |byte: &u8| byte.is_ascii_whitespace() && *byte != delimiter;
    text.iter().take_while(|byte| blank(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        split_at(line, b',')
    }

    fn split_at(line: &str, delimiter: u8) -> Vec<String> {
        let mut fields = Fields::new();
        fields.split(line.as_bytes(), delimiter, 10);
        (0..fields.len())
            .map(|i| String::from_utf8_lossy(fields.get(i).unwrap()).into_owned())
            .collect()
    }

    #[test]
    fn fields_follow_the_rules() {
        assert_eq!(split("a, b ,,c"), ["a", "b", "", "c"]);
        assert_eq!(split("a,"), ["a", ""]);
        assert_eq!(split(","), ["", ""]);
        assert_eq!(split(r#""a,b", "c ""d""" ,e"#), ["a,b", r#"c "d""#, "e"]);
        assert_eq!(split(r#""a"x,b"c,d"#), ["ax", "b\"c", "d"]);
        assert_eq!(split(r#"a,"b,c"#), ["a", "b,c"]);
        assert_eq!(split(r#"a,""#), ["a", ""]);
        assert_eq!(split(" \t"), Vec::<String>::new());
        assert_eq!(split("1,2,3,4,5,6,7,8,9,10,11,12").len(), 10);
        assert_eq!(split("\"1\",2,3,4,5,6,7,8,9,10,11,12").len(), 10);
    }

    #[test]
    fn a_delimiter_that_is_white_space_still_separates() {
        assert_eq!(split_at("a\t b \t\tc", b'\t'), ["a", "b", "", "c"]);
        assert_eq!(split_at("\t\"x\ty\" \t", b'\t'), ["", "x\ty", ""]);
        assert_eq!(split_at("\t\t", b'\t'), ["", "", ""]);
        assert_eq!(split_at(" \r ", b'\t'), Vec::<String>::new());
        assert_eq!(split_at("\"\"\t\"\"", b'\t'), ["", ""]);
        assert_eq!(split_at("1,5;\"a;b\";c|d", b';'), ["1,5", "a;b", "c|d"]);
        assert_eq!(split_at("a|b,c", b'|'), ["a", "b,c"]);
    }
}
