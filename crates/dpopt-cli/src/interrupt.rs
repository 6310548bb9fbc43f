//! Signals: the first stops after the current release, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::CliError;
use crate::exit::Exit;
use crate::tell::tell;

/// Whether a signal asked to stop.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<Flags>);

#[derive(Default)]
struct Flags {
    asked: AtomicBool,
    writing: AtomicBool,
}

impl Interrupt {
    /// Starts to listen. Call once per process.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let flags = Arc::new(Flags::default());
        let seen = Arc::clone(&flags);
        start(move |signal| {
            if seen.writing.load(Ordering::SeqCst) {
                return tell(&format!("{signal}: the results are being written"));
            }
            if seen.asked.swap(true, Ordering::SeqCst) {
                leave();
            }
            tell(&format!(
                "{signal}: stopping after the current release (a second signal: at once, without output)"
            ));
        })?;
        Ok(Self(flags))
    }

    /// For a command that releases once and is short: what it paid for is finished at the first signal, and left at the second.
    pub(crate) fn finishing() -> Result<(), CliError> {
        let asked = AtomicBool::new(false);
        start(move |signal| {
            if asked.swap(true, Ordering::SeqCst) {
                leave();
            }
            tell(&format!(
                "{signal}: what is paid for is finished first (a second signal: at once, without output)"
            ));
        })
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// From here on a signal keeps nothing from being written.
    pub(crate) fn writing(&self) {
        self.0.writing.store(true, Ordering::SeqCst);
    }
}

#[cfg(unix)]
fn start(mut react: impl FnMut(&str) + Send + 'static) -> Result<(), CliError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut watched = vec![SIGINT, SIGTERM];
    // Whoever starts a run with `nohup` wants it to outlive the terminal.
    if !is_ignored(SIGHUP) {
        watched.push(SIGHUP);
    }
    let mut signals = signal_hook::iterator::Signals::new(watched).map_err(CliError::Signal)?;
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let handle = thread.spawn(move || {
        for signal in signals.forever() {
            react(match signal {
                SIGTERM => "SIGTERM",
                SIGHUP => "SIGHUP",
                _ => "SIGINT",
            });
        }
    });
    handle.map(drop).map_err(CliError::Signal)
}

/// Whether this process was started with the signal ignored; only Linux tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
fn start(mut react: impl FnMut(&str) + Send + 'static) -> Result<(), CliError> {
    let set = ctrlc::set_handler(move || react("interrupted"));
    set.map_err(|error| CliError::Signal(std::io::Error::other(error)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user asked twice; what a shared ledger saw drawn stands as the payment"
)]
fn leave() {
    std::process::exit(i32::from(Exit::Left.code()));
}
