//! What a run was made with: the machine, versions, the date.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Facts of this machine and this tree.
pub(crate) fn facts(root: &Path) -> Value {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        after(&memory, "MemTotal:").and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "date": seconds.map_or("unknown".to_owned(), |s| date(s.as_secs())),
        "commit": said(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root)),
        "compiler": said(Command::new("rustc").arg("--version")),
        "machine": {
            "processor": after(&cpu, "model name").map(|name| name.trim_start_matches([':', ' ']).to_owned()),
            "processors": processors.to_string(),
            "memory": kib.map(|kib| format!("{:.0} GB", 1.024e-6 * kib)),
            "system": format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH),
        },
    })
}

/// What follows a word at the beginning of a line.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(word))?;
    Some(line[word.len()..].trim())
}

/// The first line that a program prints.
fn said(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Bytes that are free where a folder lies; none where the system does not say.
pub(crate) fn free_disk(folder: &Path) -> Option<f64> {
    let mut df = Command::new("df");
    df.args(["-Pk"]).arg(folder);
    let output = df
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    free_in(&String::from_utf8(output.stdout).ok()?)
}

fn free_in(text: &str) -> Option<f64> {
    let kib: f64 = text
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    Some(1024.0 * kib)
}

/// The day of so many seconds after 1970, in the Gregorian calendar.
fn date(seconds: u64) -> String {
    // Years begin in March, so that a leap day ends one; 719,468 days from March of year 0 to 1970.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{}-{month:02}-{day:02}", 400 * era + year + later)
}

#[cfg(test)]
mod tests {
    use super::{after, date, free_in};

    #[test]
    fn days_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS +%F`.
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_735_689_599, "2024-12-31"),
            (1_740_787_200, "2025-03-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), day);
        }
    }

    #[test]
    fn the_system_is_read_where_it_says_something() {
        assert_eq!(after("a: 1\nMemTotal:   5 kB\n", "MemTotal:"), Some("5 kB"));
        let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x 10 4 6 40% /\n";
        assert_eq!(free_in(df), Some(6144.0));
        assert_eq!(free_in("nothing"), None);
    }
}
