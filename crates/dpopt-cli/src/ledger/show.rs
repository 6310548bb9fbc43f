//! A ledger as a table.

use std::fmt::Write;
use std::path::Path;

use dpopt::privacy::ledger::LedgerReport;

use super::flags::report_in_words;

/// What is left, every run and every pool of records.
pub(super) fn table(path: &Path, report: &LedgerReport) -> String {
    let mut text = format!("{}: {}\n", path.display(), report_in_words(report));
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "used {:.6e} of {:.6e} ({})",
        report.used, report.capacity, report.unit
    );
    for run in &report.runs {
        let state = if run.settled { "settled" } else { "open" };
        let _ = writeln!(
            text,
            "run {}: {state}, {:.6e} ({:.1} %), {} noise; reserved {}; {} {}",
            run.run,
            run.cost,
            100.0 * run.cost / report.capacity,
            run.noise,
            run.reserved,
            if run.settled {
                "released"
            } else {
                "released so far, at least"
            },
            run.released,
        );
    }
    for pool in &report.pools {
        let _ = writeln!(
            text,
            "records {}: {} of {} were read",
            pool.pool, pool.spent, pool.records
        );
    }
    let _ = writeln!(
        text,
        "head: line {}, {}",
        report.head.lines, report.head.hash
    );
    text.push_str(&torn(report));
    text
}

/// A sentence on a torn last line; nothing where there is none.
pub(super) fn torn(report: &LedgerReport) -> String {
    match report.torn_bytes {
        0 => String::new(),
        bytes => format!(
            "the last line is torn after {bytes} bytes: a crash while it was written (nothing was \
             released on it), or the file was cut; the next run cuts it off\n"
        ),
    }
}
