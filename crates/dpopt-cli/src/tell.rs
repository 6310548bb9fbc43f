//! Lines on standard error that can't bring a run down.
//!
//! `eprintln!` panics where standard error is gone (a closed pipe, a terminal that hung up), and a
//! panic after a run would lose its model.

use std::io::{self, Write};

/// Writes a line on standard error, if anybody is there.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A warning.
pub(crate) fn warn(text: &str) {
    tell(&format!("warning: {text}"));
}
