//! Evaluations and tuning through the public door.

mod evaluations;
mod hold_out;
mod tuning;
