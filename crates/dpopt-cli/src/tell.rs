//! Lines on standard error that can't bring a run down.
//!
//! `eprintln!` panics where standard error is gone (a closed pipe, a terminal that hung up), and a
//! panic after a run would lose its model.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether another rank tells what there is to tell.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Has another rank tell.
pub(crate) fn set_silent(silent: bool) {
    SILENT.store(silent, Ordering::Relaxed);
}

pub(crate) fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Writes a line on standard error, if anybody is there.
pub(crate) fn tell(line: &str) {
    if !is_silent() {
        tell_always(line);
    }
}

/// As [`tell`], whatever other ranks tell.
pub(crate) fn tell_always(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A warning.
pub(crate) fn warn(text: &str) {
    tell(&format!("warning: {text}"));
}
