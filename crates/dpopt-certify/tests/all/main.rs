//! Evaluations and tuning through the public door.

mod evaluations;
mod tuning;
