//! The cargo that every task runs.

use std::ffi::OsString;

/// The one that started this task.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
