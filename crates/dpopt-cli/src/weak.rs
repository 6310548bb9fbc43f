//! Warnings of budgets that promise next to nothing, in the names of flags.

use dpopt::privacy::{Delta, Epsilon, Weak};

/// The warnings of a budget for so many records. An `epsilon` that no flag named has no warning.
pub(crate) fn weak(epsilon: Option<Epsilon>, delta: Delta, records: u64) -> Vec<String> {
    let found = Weak::of(epsilon, Some(delta), records);
    found.map(|weak| format!("--{weak}")).collect()
}
