//! Hashes of what was released, and the recorded table that they are held against.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// FNV-1a of 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn of(text: &str) -> Self {
        let mut hash = Self::new();
        hash.text(text);
        hash
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// A text, and where it ends.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    /// The bits of numbers, and how many there are.
    pub(crate) fn numbers(&mut self, numbers: &[f64]) {
        self.bytes(&(numbers.len() as u64).to_le_bytes());
        for number in numbers {
            self.bytes(&number.to_bits().to_le_bytes());
        }
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The lines of a run of all cases: two columns that name the case, then what it released.
#[derive(Default)]
pub(crate) struct Table(Vec<String>);

impl Table {
    pub(crate) fn line(&mut self, columns: &[String]) {
        self.0.push(columns.join("\t"));
    }

    /// Whether a line begins with these columns.
    #[allow(dead_code, reason = "as below")]
    pub(crate) fn has(&self, columns: &[&str]) -> bool {
        let columns = columns.join("\t") + "\t";
        self.0.iter().any(|line| line.starts_with(&columns))
    }

    /// Those of other cases.
    #[allow(dead_code, reason = "one of the tests that share this file calls it")]
    pub(crate) fn without(&self, leave: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|line| !leave(line));
        Self(kept.cloned().collect())
    }

    /// Those of which this gives another line.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn renamed(&self, rename: impl Fn(&str) -> Option<String>) -> Self {
        Self(self.0.iter().filter_map(|line| rename(line)).collect())
    }

    /// Panics with each line that is missing, new or changed, and with the whole table as it would be now.
    pub(crate) fn assert_is(&self, recorded: &str) {
        let lines = || recorded.lines().filter(|line| !line.starts_with('#'));
        let (old, new) = (by_case(lines()), by_case(self.0.iter().map(String::as_str)));
        assert_eq!(new.len(), self.0.len(), "two cases have one name");
        assert_eq!(old.len(), lines().count(), "a case is recorded twice");
        let mut report = String::new();
        for (case, line) in &old {
            match new.get(case) {
                None => writeln!(report, "gone:     {line}").unwrap(),
                Some(now) if now != line => {
                    writeln!(report, "was:      {line}\nis:       {now}").unwrap();
                }
                Some(_) => {}
            }
        }
        for (case, line) in &new {
            if !old.contains_key(case) {
                writeln!(report, "new:      {line}").unwrap();
            }
        }
        let whole = self.0.join("\n");
        assert!(
            report.is_empty(),
            "streams differ from the recorded ones:\n{report}\nall lines:\n{whole}\n"
        );
    }
}

fn by_case<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<(&'a str, &'a str), &'a str> {
    let case = |line: &'a str| {
        let mut columns = line.split('\t');
        (columns.next().unwrap_or(""), columns.next().unwrap_or(""))
    };
    lines.map(|line| (case(line), line)).collect()
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}
