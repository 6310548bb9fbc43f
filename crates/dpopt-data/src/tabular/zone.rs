//! Time zones of a Parquet file's columns: writers keep the schema of Arrow in the footer, which names them.

use std::collections::HashMap;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

/// How far local time is ahead of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    /// By so many seconds.
    Fixed(i64),
    /// By the database of time zones.
    Named(Tz),
}

impl Zone {
    pub(super) const UTC: Self = Self::Fixed(0);

    /// A zone by its name, or by an offset such as `+05:30`.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        if let Ok(zone) = name.parse() {
            return Some(Self::Named(zone));
        }
        let (sign, rest) = match name.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':')?;
        let number = |digits: &str| digits.parse::<u8>().ok().map(i64::from);
        Some(Self::Fixed(
            sign * (3600 * number(hours)? + 60 * number(minutes)?),
        ))
    }

    /// Seconds from UTC to local time, at an instant in seconds since 1970. Years that no calendar of the library has
    /// count as UTC.
    pub(super) fn seconds_ahead(self, instant: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => DateTime::from_timestamp(instant, 0).map_or(0, |time| {
                let offset = zone.offset_from_utc_datetime(&time.naive_utc());
                i64::from(offset.fix().local_minus_utc())
            }),
        }
    }
}

/// The names of zones by column, as the value of `ARROW:schema` in a footer has them. A text that is not such a
/// schema names no zone.
///
/// # References
/// Apache Arrow, *Columnar format*, encapsulated message format; `Message.fbs` and `Schema.fbs`.
pub(super) fn zones(encoded: &str) -> HashMap<String, String> {
    let bytes = base64(encoded.as_bytes());
    let mut zones = HashMap::new();
    // Read as far as it can be read: what follows damage names no zone.
    let _ = read(&bytes, &mut zones);
    zones
}

fn read(bytes: &[u8], zones: &mut HashMap<String, String>) -> Option<()> {
    /// Number of `Timestamp` among the types of a field.
    const TIMESTAMP: u8 = 10;
    // A marker (absent in old files) and the length stand before the message.
    let start = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let buffer = Flat(bytes.get(start..)?);
    let message = buffer.follow(0)?;
    let schema = buffer.follow(buffer.field(message, 2)?)?;
    let fields = buffer.follow(buffer.field(schema, 1)?)?;
    for i in 0..buffer.number(fields)? {
        let field = buffer.follow(fields.checked_add(4 + 4 * i)?)?;
        let kind = buffer.field(field, 2).and_then(|at| buffer.0.get(at));
        if kind != Some(&TIMESTAMP) {
            continue;
        }
        let time = buffer.follow(buffer.field(field, 3)?)?;
        if let Some(zone) = buffer.field(time, 1) {
            zones.insert(buffer.text(buffer.field(field, 0)?)?, buffer.text(zone)?);
        }
    }
    Some(())
}

/// The bytes of a flat buffer. All positions are checked: the file's content is not trusted.
struct Flat<'b>(&'b [u8]);

impl Flat<'_> {
    fn number(&self, at: usize) -> Option<usize> {
        let bytes = self.0.get(at..at.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    /// Where the offset at a position leads.
    fn follow(&self, at: usize) -> Option<usize> {
        at.checked_add(self.number(at)?)
    }

    /// Where field number `i` of a table is, if the table has it.
    fn field(&self, table: usize, i: usize) -> Option<usize> {
        let back = self.0.get(table..table.checked_add(4)?)?.try_into().ok()?;
        let back = isize::try_from(i32::from_le_bytes(back)).ok()?;
        let fields = table.checked_add_signed(back.checked_neg()?)?;
        let short = |at: usize| {
            let bytes = self.0.get(at..at.checked_add(2)?)?.try_into().ok()?;
            Some(usize::from(u16::from_le_bytes(bytes)))
        };
        let at = 4 + 2 * i;
        if at >= short(fields)? {
            return None;
        }
        let offset = short(fields.checked_add(at)?)?;
        (offset > 0).then(|| table.checked_add(offset))?
    }

    fn text(&self, at: usize) -> Option<String> {
        let at = self.follow(at)?;
        let start = at.checked_add(4)?;
        let bytes = self.0.get(start..start.checked_add(self.number(at)?)?)?;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// The bytes that base 64 stands for, up to the first character that is not of it.
fn base64(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for &c in text {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        held = held << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}
