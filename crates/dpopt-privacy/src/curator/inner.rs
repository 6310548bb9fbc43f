//! What an inner run of repeat-and-select may do.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::reservation::Spend;
use crate::part::Part;

/// What an inner run may do.
pub(super) struct Inner {
    /// The reservations of which it may make one.
    pub(super) may_reserve: Vec<Spend>,
    /// The records that it may read; none: any.
    pub(super) part: Option<Part>,
    /// Whether its run is over: a curator that was kept beyond it pays for nothing.
    pub(super) over: Arc<AtomicBool>,
}
