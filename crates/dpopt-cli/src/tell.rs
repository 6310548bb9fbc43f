//! Lines on standard error that can't bring a run down.
//!
//! `eprintln!` panics where standard error is gone (a closed pipe, a terminal that hung up), and a
//! panic after a run would lose its model.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

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

/// Runs `work`, and tells a person at a terminal once that it goes on where it takes longer than people wait for an answer without one.
pub(crate) fn with_patience<R>(doing: &str, work: impl FnOnce() -> R) -> R {
    /// Whether it was told.
    static TOLD: AtomicBool = AtomicBool::new(false);
    let say = || {
        if io::stderr().is_terminal() && !TOLD.swap(true, Ordering::Relaxed) {
            tell(doing);
        }
    };
    after(Duration::from_millis(300), say, work)
}

/// Runs `work`, and `say` beside it once it has taken so long.
fn after<R>(time: Duration, say: impl FnOnce() + Send, work: impl FnOnce() -> R) -> R {
    let (done, wait) = channel::<()>();
    std::thread::scope(|scope| {
        // Without a thread nothing is told.
        let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
            if wait.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                say();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told_while_it_goes_on_and_what_does_not_is_not() {
        let (told, wait) = channel();
        let say = move || told.send(()).expect("somebody waits");
        // The work ends because it was told.
        after(Duration::ZERO, say, || wait.recv()).expect("told");
        let long = Duration::from_secs(1 << 20);
        assert_eq!(after(long, || panic!("too early"), || 7), 7);
    }
}
