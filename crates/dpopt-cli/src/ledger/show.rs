//! A ledger as a table.

use std::fmt::Write;
use std::path::Path;

use dpopt::privacy::ledger::{LedgerReport, RunReport, RunState};

use super::flags::{printable, report_in_words};
use crate::statement::{rounded_up, scientific};

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
        let _ = writeln!(
            text,
            "run {}: {}, {:.6e} ({:.1} %), {} noise",
            run.run,
            state(run),
            run.cost,
            100.0 * run.cost / report.capacity,
            run.noise,
        );
        let recorded = |text: &Option<String>| match text {
            Some(text) => printable(text),
            None => "not recorded".to_owned(),
        };
        let _ = writeln!(text, "  command: {}", recorded(&run.command));
        let _ = writeln!(text, "  model: {}", recorded(&run.output));
        let _ = writeln!(text, "  date: {}", recorded(&run.date));
        let _ = writeln!(
            text,
            "  records: {}, label: {}",
            recorded(&run.records.map(|records| records.to_string())),
            recorded(&run.label)
        );
        let _ = writeln!(
            text,
            "  epsilon at delta {}: {} alone, {} with the runs before it",
            scientific(report.delta),
            rounded_up(run.epsilon),
            rounded_up(run.epsilon_so_far),
        );
        let _ = writeln!(text, "  reserved {}", run.reserved);
        let released = if run.settled {
            "released"
        } else {
            "released, at least"
        };
        let _ = writeln!(text, "  {released} {}", run.released);
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

/// What became of a run, in words.
fn state(run: &RunReport) -> &'static str {
    match run.state {
        RunState::Settled => "settled",
        RunState::Lapsed => "died, closed at what it had drawn",
        RunState::Died => "died, counts in full until the next run",
        RunState::Open => "open",
    }
}
