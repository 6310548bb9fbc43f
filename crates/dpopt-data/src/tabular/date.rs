//! Dates as days since 1970-01-01, by the proleptic Gregorian calendar.

/// Days of the months of a year that is no leap year.
const MONTHS: [u8; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Days from 0000-01-01 to 1970-01-01.
const EPOCH: i64 = 719_528;

/// The day of a text: `YYYY-MM-DD` or `YYYY/MM/DD`, alone or followed by a time of day (`T` or a space, then `HH:MM` and what else has
/// digits, `:`, `.`, `+`, `-` or `Z`), which is not looked at. None for any other text, and for a day that no calendar has.
pub(super) fn day(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let &[y3, y2, y1, y0, first, m1, m0, second, d1, d0] = date else {
        return None;
    };
    if first != second || !matches!(first, b'-' | b'/') || !is_time(rest) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0i64, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| 10 * sum + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (
        number(&[y3, y2, y1, y0])?,
        number(&[m1, m0])?,
        number(&[d1, d0])?,
    );
    let before = usize::try_from(month - 1).ok()?;
    if !(1..=length(year, before)?).contains(&day) {
        return None;
    }
    let months: i64 = (0..before).filter_map(|m| length(year, m)).sum();
    Some(days_before(year) + months + day - 1 - EPOCH)
}

/// Nothing, or a time of day.
fn is_time(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b'T' | b't' | b' ', h1, h0, b':', m1, m0, more @ ..] => {
            let other =
                |c: &u8| c.is_ascii_digit() || matches!(c, b':' | b'.' | b'+' | b'-' | b'Z');
            [h1, h0, m1, m0].into_iter().all(u8::is_ascii_digit) && more.iter().all(other)
        }
        _ => false,
    }
}

/// Days from 0000-01-01 to the first day of a year from 0 on; the year 0 is a leap year.
fn days_before(year: i64) -> i64 {
    let leap_years = (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
    365 * year + leap_years
}

/// Days of a month, counted from 0; none for one that the year does not have.
fn length(year: i64, month: usize) -> Option<i64> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = MONTHS.get(month).copied().map(i64::from)?;
    Some(days + i64::from(leap && month == 1))
}

/// A day as `YYYY-MM-DD`; days beyond the years 0000 to 9999 are the nearest of those.
#[must_use]
pub fn text(day: i64) -> String {
    let mut rest = day.saturating_add(EPOCH).clamp(0, days_before(10_000) - 1);
    // A year has less than 366 days: this is the year, or the one before it.
    let mut year = rest / 366;
    while days_before(year + 1) <= rest {
        year += 1;
    }
    rest -= days_before(year);
    let mut month = 0;
    while let Some(days) = length(year, month).filter(|days| *days <= rest) {
        rest -= days;
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, rest + 1)
}
