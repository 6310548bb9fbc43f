//! Benchmarks live in `benches/`, the speed tables of `cargo xtask bench` in `src/bin/`; here is what
//! they share.

pub mod noise;
pub mod pass;
pub mod release;
