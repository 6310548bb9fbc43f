//! Queries: what one record contributes to a sum.
//!
//! For a generalised linear loss every query so far is a multiple of the record's row, so a query
//! is a scalar per record. The multiple depends on that record and on public points only.

mod difference;
mod gradient;

pub(crate) use difference::GradientDifference;
pub(crate) use gradient::Gradient;

use dpopt_privacy::{Bound, LatticeError};

use crate::data::Record;

/// A query whose contribution is a multiple of the record's row.
pub(crate) trait RowQuery: Sync {
    /// The bound on a contribution; nothing when all contributions are zero.
    fn bound(&self) -> Result<Option<Bound>, LatticeError>;

    /// The multiple of the row that this record contributes.
    fn multiple(&self, record: &Record<'_>) -> f64;

    /// Per-record gradients that one contribution costs.
    fn gradients_per_record(&self) -> u64;
}
