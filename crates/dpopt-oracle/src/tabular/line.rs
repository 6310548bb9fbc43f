//! A line is a record: splitting a stream into lines and a line into fields.
//!
//! A CSV reader that honours quotes across line breaks lets one stray quote swallow every record
//! after it: one record would change n others, and no sensitivity bound survives that. So the
//! stream is cut at line feeds first and each line is parsed alone; a quote left open ends with
//! its line.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;

use super::error::TabularError;

/// A line with more bytes than this (without its line feed) is encoded as a record of defaults.
pub const MAX_LINE_BYTES: usize = 1 << 20;

const BUFFER: usize = 1 << 18;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One physical line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The bytes, without line feed and without one carriage return before it.
    Text(&'a [u8]),
    /// More than [`MAX_LINE_BYTES`]; the rest of it was skipped.
    Overlong,
}

/// Lines of a stream that may be compressed.
pub(super) struct Lines<'r> {
    path: String,
    compressed: bool,
    stream: Box<dyn BufRead + 'r>,
    buffer: Vec<u8>,
}

impl<'r> Lines<'r> {
    /// Looks at the first two bytes and unpacks a gzip stream (of any number of members).
    pub(super) fn new(mut source: impl Read + 'r, path: &str) -> Result<Self, TabularError> {
        let mut magic = Vec::with_capacity(2);
        source
            .by_ref()
            .take(2)
            .read_to_end(&mut magic)
            .map_err(|source| TabularError::Read {
                path: path.to_owned(),
                source,
            })?;
        let compressed = magic == GZIP_MAGIC;
        let whole = Cursor::new(magic).chain(source);
        let stream: Box<dyn BufRead + 'r> = if compressed {
            // The decoder wants a buffer below it and the lines want one above it.
            let packed = BufReader::with_capacity(BUFFER, whole);
            Box::new(BufReader::with_capacity(
                BUFFER,
                MultiGzDecoder::new(packed),
            ))
        } else {
            Box::new(BufReader::with_capacity(BUFFER, whole))
        };
        Ok(Self {
            path: path.to_owned(),
            compressed,
            stream,
            buffer: Vec::new(),
        })
    }

    /// Name of the stream, for errors.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The next line, or `None` at the end. What follows the last line feed is a line only if it
    /// is not empty, so a final line feed ends the last line and starts none.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, TabularError> {
        match self.fill() {
            Ok(None) => Ok(None),
            Ok(Some(false)) => Ok(Some(Line::Overlong)),
            Ok(Some(true)) => {
                let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
                Ok(Some(Line::Text(line.strip_suffix(b"\r").unwrap_or(line))))
            }
            Err(source) => Err(self.explain(source)),
        }
    }

    /// Reads a line into the buffer; `Some(false)` when it did not fit.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        self.buffer.clear();
        // One byte more than the longest line, for its line feed.
        let limit = MAX_LINE_BYTES as u64 + 1;
        let taken = self
            .stream
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.buffer)?;
        if taken == 0 {
            return Ok(None);
        }
        if taken > MAX_LINE_BYTES && !self.buffer.ends_with(b"\n") {
            self.stream.skip_until(b'\n')?;
            return Ok(Some(false));
        }
        Ok(Some(true))
    }

    fn explain(&self, source: io::Error) -> TabularError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let path = self.path.clone();
        match source.kind() {
            InvalidData | InvalidInput | UnexpectedEof if self.compressed => {
                TabularError::Gzip { path, source }
            }
            _ => TabularError::Read { path, source },
        }
    }
}

/// Fields of one line; reuse it, it keeps its buffers.
///
/// # Rules
/// Fields are separated by commas. A field whose first byte (after ASCII white space) is a double
/// quote is quoted: commas in it are text, two double quotes are one, a single one ends the quoted
/// part, and what follows up to the comma is appended as it stands. A quote that is left open ends
/// with the line. A quote elsewhere is text. ASCII white space around a field (and just inside of
/// its quotes) is dropped. A line of nothing but ASCII white space has no fields at all.
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

    /// Splits `line` (no line feed in it) into its first `most` fields; the rest is not looked at.
    pub fn split(&mut self, line: &[u8], most: usize) {
        self.text.clear();
        self.spans.clear();
        self.open_quote = false;
        if line.trim_ascii().is_empty() {
            return;
        }
        if line.contains(&b'"') {
            self.split_quoted(line, most);
        } else {
            self.text.extend_from_slice(line);
            let mut start = 0;
            for (at, &byte) in line.iter().enumerate() {
                if byte == b',' {
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

    fn split_quoted(&mut self, line: &[u8], most: usize) {
        let mut rest = line;
        while self.spans.len() < most {
            let start = self.text.len();
            let unquoted = rest.trim_ascii_start();
            let mut tail = rest;
            if let Some(body) = unquoted.strip_prefix(b"\"") {
                tail = self.quoted(body);
            }
            let comma = tail.iter().position(|&byte| byte == b',');
            let (own, next) = match comma {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        let mut fields = Fields::new();
        fields.split(line.as_bytes(), 10);
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

    fn lines(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(bytes, "test").unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::Overlong => None,
            });
        }
        all
    }

    #[test]
    fn a_line_feed_ends_a_line_and_nothing_else_does() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"a"), [Some(b"a".to_vec())]);
        assert_eq!(lines(b"a\r\n"), [Some(b"a".to_vec())]);
        assert_eq!(
            lines(b"\"a\n\nb\rc\n"),
            [Some(b"\"a".to_vec()), Some(vec![]), Some(b"b\rc".to_vec())]
        );
    }

    #[test]
    fn the_length_limit_is_exact() {
        for (length, fits) in [(MAX_LINE_BYTES, true), (MAX_LINE_BYTES + 1, false)] {
            for end in ["", "\n", "\nb", "\nb\n"] {
                let mut bytes = vec![b'a'; length];
                bytes.extend_from_slice(end.as_bytes());
                let found = lines(&bytes);
                assert_eq!(found[0].is_some(), fits, "{length} {end:?}");
                assert_eq!(found.len(), if end.contains('b') { 2 } else { 1 });
            }
        }
    }
}
