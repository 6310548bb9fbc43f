//! Plans, walks and certificates of saddle problems, from outside.

mod common;

mod bad_input;
mod docs;
mod gda;
mod sampled;
mod scored_certificates;
