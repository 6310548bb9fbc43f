//! Chained lines: text that people read, in an order and a wording that a hash vouches for.
//!
//! A line is one JSON object `{"line":N,...,"hash":"H"}`. N counts from 1 and H is the SHA-256 of
//! the previous line's hash (32 zero bytes before the first) followed by the line's own bytes up
//! to, and without, `,"hash":`. So a line vouches for everything before it, and two files whose
//! n-th hashes agree agree up to line n.

use serde::Serialize;

use super::error::Damage;
pub(super) use super::hash::START;
use super::hash::{ChainHash, DIGITS, read_digits};

/// What stands between the body of a line and its hash.
const SEAM: &[u8] = b",\"hash\":\"";
/// What follows the hash.
const END: &[u8] = b"\"}";
/// Bytes of a line after its body.
const TAIL: usize = SEAM.len() + DIGITS + END.len();

/// A line's number in front of its body.
const HEAD: &[u8] = b"{\"line\":";

/// Writes `content` (a JSON object with at least one field) as line `number`, without a line
/// break, and returns its hash.
pub(super) fn write(
    number: u64,
    content: &impl Serialize,
    previous: ChainHash,
    out: &mut Vec<u8>,
) -> serde_json::Result<ChainHash> {
    let content = serde_json::to_vec(content)?;
    let start = out.len();
    out.extend_from_slice(HEAD);
    out.extend_from_slice(number.to_string().as_bytes());
    out.push(b',');
    // The braces of the content give way to those of the line.
    out.extend_from_slice(&content[1..content.len() - 1]);
    let hash = ChainHash::of(previous, &out[start..]);
    out.extend_from_slice(SEAM);
    out.extend_from_slice(hash.digits().as_bytes());
    out.extend_from_slice(END);
    Ok(hash)
}

/// The content of a line that must be number `number` and continue `previous`, as the text of a
/// JSON object, and the line's hash.
pub(super) fn read(
    line: &[u8],
    number: u64,
    previous: ChainHash,
) -> Result<(Vec<u8>, ChainHash), Damage> {
    let body = line.len().checked_sub(TAIL).filter(|_| ends_in_hash(line));
    let (body, stated) = body
        .and_then(|body| Some((&line[..body], stated_hash(line)?)))
        .ok_or(Damage::NotALine)?;
    // The chain first: what it doesn't vouch for is not worth reading.
    let hash = ChainHash::of(previous, body);
    if hash != stated {
        return Err(Damage::WrongHash {
            stated,
            computed: hash,
        });
    }
    let rest = body.strip_prefix(HEAD).ok_or(Damage::NotALine)?;
    let comma = rest.iter().position(|&byte| byte == b',');
    let (digits, rest) = rest.split_at(comma.ok_or(Damage::NotALine)?);
    let found = std::str::from_utf8(digits)
        .ok()
        .and_then(|n| n.parse().ok());
    if found != Some(number) {
        return Err(Damage::WrongNumber { expected: number });
    }
    let mut content = Vec::with_capacity(rest.len() + 1);
    content.push(b'{');
    content.extend_from_slice(&rest[1..]);
    content.push(b'}');
    Ok((content, hash))
}

/// Bytes from the start of `text` to the end of its first whole line; `None` where no line ends.
///
/// The quotation marks of [`SEAM`] can't stand inside a JSON string, so nothing that a line holds
/// looks like its end.
pub(super) fn first_end(text: &[u8]) -> Option<usize> {
    let starts = text.windows(SEAM.len()).enumerate();
    starts
        .filter(|(_, window)| *window == SEAM)
        .map(|(at, _)| at + TAIL)
        .find(|&end| text.get(..end).is_some_and(ends_in_hash))
}

/// The hash that a line states; `None` where it doesn't end in one.
pub(super) fn stated_hash(line: &[u8]) -> Option<ChainHash> {
    let digits = line.len().checked_sub(END.len() + DIGITS)?;
    read_digits(&line[digits..line.len() - END.len()])
}

/// Bytes at the end of a line that [`stated_hash`] looks at.
pub(super) const STATED_BYTES: u64 = (DIGITS + END.len()) as u64;

fn ends_in_hash(line: &[u8]) -> bool {
    line.len() >= TAIL
        && line[line.len() - TAIL..].starts_with(SEAM)
        && line.ends_with(END)
        && stated_hash(line).is_some()
}

/// A first line is of something else.
pub(super) enum WrongFormat {
    /// Not of this family of formats.
    Other,
    /// The format of before lines were chained.
    Old { format: String },
    /// Written by a newer version.
    Newer { found: u64 },
}

/// Looks at what a file says that it is: before its hash, since a newer version may hash
/// otherwise. `key` is the field of the first line that holds `format` and `version`. A line that
/// can't be read but starts like one of ours passes: it is damaged, and will be called so.
pub(super) fn check_format(
    first_line: &[u8],
    key: &str,
    format: &str,
    version: u64,
) -> Result<(), WrongFormat> {
    let Ok(line) = serde_json::from_slice::<serde_json::Value>(first_line) else {
        let ours = format!("{{\"line\":1,\"{key}\":");
        return if first_line.starts_with(ours.as_bytes()) {
            Ok(())
        } else {
            Err(WrongFormat::Other)
        };
    };
    let old = line.get("format").and_then(|format| format.as_str());
    if let Some(format) = old.filter(|format| format.starts_with("dpopt-budget-")) {
        let format = format.to_owned();
        return Err(WrongFormat::Old { format });
    }
    let stated = |field| line.get(key).and_then(|header| header.get(field));
    if stated("format").and_then(|found| found.as_str()) != Some(format) {
        return Err(WrongFormat::Other);
    }
    match stated("version").and_then(serde_json::Value::as_u64) {
        Some(found) if found > version => Err(WrongFormat::Newer { found }),
        // Versions start at 1.
        Some(found) if found > 0 => Ok(()),
        _ => Err(WrongFormat::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Content {
        a: u64,
    }

    /// From `sha256sum` of coreutils, on
    /// 32 zero bytes and `{"line":1,"a":7`.
    const KNOWN: &str = "8008435aa12bc2ecd4e51065155ebfd5342141102ae537faca03b0316f4cbdcc";

    #[test]
    fn a_line_is_what_the_documentation_says() {
        let mut line = Vec::new();
        write(1, &Content { a: 7 }, START, &mut line).unwrap();
        let text = String::from_utf8(line.clone()).unwrap();
        assert_eq!(text, format!("{{\"line\":1,\"a\":7,\"hash\":\"{KNOWN}\"}}"));
        let (content, hash) = read(&line, 1, START).unwrap();
        assert_eq!(content, b"{\"a\":7}");
        assert_eq!(hash.to_string(), KNOWN);
        assert_eq!(first_end(&line), Some(line.len()));
        assert_eq!(first_end(&line[..line.len() - 1]), None);
        assert_eq!(
            read(&line, 2, START),
            Err(Damage::WrongNumber { expected: 2 })
        );
        assert!(matches!(
            read(&line, 1, hash),
            Err(Damage::WrongHash { .. })
        ));
    }

    #[test]
    fn every_flipped_bit_of_a_line_is_found() {
        let mut line = Vec::new();
        write(1, &Content { a: 7 }, START, &mut line).unwrap();
        for bit in 0..8 * line.len() {
            let mut flipped = line.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped, 1, START).is_err(), "bit {bit}");
        }
    }
}
