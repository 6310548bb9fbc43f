//! Ctrl-C: the first stops after the current release, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::CliError;

/// Whether Ctrl-C was pressed.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen. Call once per process.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let pressed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&pressed);
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::SeqCst) {
                leave();
            }
            eprintln!("stopping after the current release (Ctrl-C again: at once, without output)");
        })?;
        Ok(Self(pressed))
    }

    pub(crate) fn pressed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user asked twice; a reservation in a shared ledger stands as the payment"
)]
fn leave() {
    std::process::exit(130);
}
