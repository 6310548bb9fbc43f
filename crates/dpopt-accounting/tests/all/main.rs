//! The accountants, from outside.

mod common;

mod accounting_properties;
mod accounting_reference;
mod basic_composition;
mod calibration;
mod event_accounting;
mod event_laws;
mod event_selection;
mod exact;
mod group;
mod pld;
mod pld_allocation;
mod pld_fixed;
mod pld_laplace;
mod pld_mixed;
mod truncated;
mod tuning;
