//! A panic in a loss must not tell anything about a record: no message, no abort.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

#[cfg(panic = "abort")]
compile_error!(
    "dpopt-oracle needs unwinding: with panic = \"abort\" a loss that panics on one record would reveal that record by ending the process"
);

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs `evaluate`; false when it panicked.
///
/// The panic hook of the process is wrapped once, so that it stays silent for panics in here and
/// does what it did for all others.
pub(super) fn finishes(evaluate: impl FnOnce()) -> bool {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A thread whose locals are gone is not inside a guard.
            if !GUARDED.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
    let outer = GUARDED.with(|guarded| guarded.replace(true));
    let finished = catch_unwind(AssertUnwindSafe(evaluate));
    GUARDED.with(|guarded| guarded.set(outer));
    match finished {
        Ok(()) => true,
        Err(payload) => {
            drop_quietly(payload);
            false
        }
    }
}

/// A payload's own destructor may panic once more.
fn drop_quietly(payload: Box<dyn std::any::Any + Send>) {
    let outer = GUARDED.with(|guarded| guarded.replace(true));
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    GUARDED.with(|guarded| guarded.set(outer));
    if let Err(again) = dropped {
        // A panic in the destructor of a panic's payload leaks that memory.
        #[expect(
            clippy::disallowed_methods,
            reason = "dropping it could panic for ever"
        )]
        std::mem::forget(again);
    }
}
