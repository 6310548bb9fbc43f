//! A line is a record: splitting a stream into lines of bounded length.

use std::io::{self, BufRead, Read};

use super::stream::{Stream, StreamError};

/// A line with more bytes than this (without its line feed) is encoded as a record of defaults.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// One physical line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The bytes, without line feed and without one carriage return before it.
    Text(&'a [u8]),
    /// More than [`MAX_LINE_BYTES`]: its start; the rest of it was skipped.
    Overlong(&'a [u8]),
}

/// Lines of a stream that may be compressed.
pub(crate) struct Lines<'r> {
    stream: Stream<'r>,
    buffer: Vec<u8>,
}

impl<'r> Lines<'r> {
    /// Lines of a stream that errors call `path`.
    pub(crate) fn new(source: impl Read + 'r, path: &str) -> Result<Self, StreamError> {
        Ok(Self {
            stream: Stream::new(source, path)?,
            buffer: Vec::new(),
        })
    }

    /// Name of the stream, for errors.
    pub(crate) fn path(&self) -> &str {
        self.stream.path()
    }

    /// The next line, or `None` at the end. What follows the last line feed is a line only if it
    /// is not empty, so a final line feed ends the last line and starts none.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line<'_>>, StreamError> {
        match self.fill() {
            Ok(None) => Ok(None),
            Ok(Some(false)) => Ok(Some(Line::Overlong(&self.buffer))),
            Ok(Some(true)) => {
                let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
                Ok(Some(Line::Text(line.strip_suffix(b"\r").unwrap_or(line))))
            }
            Err(source) => Err(self.stream.explain(source)),
        }
    }

    /// Reads a line into the buffer; `Some(false)` when it did not fit.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        self.buffer.clear();
        let stream = self.stream.raw();
        // One byte more than the longest line, for its line feed.
        let limit = MAX_LINE_BYTES as u64 + 1;
        let taken = stream.take(limit).read_until(b'\n', &mut self.buffer)?;
        if taken == 0 {
            return Ok(None);
        }
        if taken > MAX_LINE_BYTES && !self.buffer.ends_with(b"\n") {
            stream.skip_until(b'\n')?;
            return Ok(Some(false));
        }
        Ok(Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(bytes, "test").unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::Overlong(_) => None,
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
