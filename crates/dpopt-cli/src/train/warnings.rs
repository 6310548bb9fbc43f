//! What public facts warn of before a run.

use dpopt::nonconvex::PublicFacts;
use dpopt::privacy::Delta;

use crate::statement::scientific;

/// A delta that is too large for so many records.
pub(super) fn warnings(delta: Delta, facts: &PublicFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    let share = 1.0 / facts.records as f64;
    if delta.get() > share {
        warnings.push(format!(
            "--delta {} is above one over the number of records ({share:.3e}): a mechanism that \
             publishes a random record would satisfy it",
            scientific(delta)
        ));
    }
    warnings
}
