//! Accountants: from events to (epsilon, delta).

pub mod pld;
