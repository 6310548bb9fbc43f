//! What public facts warn of before a run.

use dpopt::privacy::Delta;

use crate::statement::scientific;

/// A delta that is too large for so many records.
pub(crate) fn large_delta(delta: Delta, records: u64) -> Option<String> {
    let share = 1.0 / records as f64;
    (delta.get() > share).then(|| {
        format!(
            "--delta {} is above one over the number of records ({share:.3e}): a mechanism that \
             publishes a random record would satisfy it",
            scientific(delta)
        )
    })
}
