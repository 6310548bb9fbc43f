//! What an inner run of repeat-and-select may do.

use super::reservation::Spend;
use crate::part::Part;

/// What an inner run may do.
pub(super) struct Inner {
    /// The reservations of which it may make one.
    pub(super) may_reserve: Vec<Spend>,
    /// The records that it may read; none: any.
    pub(super) part: Option<Part>,
}
