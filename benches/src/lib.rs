//! Benchmarks live in `benches/`, the speed tables of `cargo xtask bench` in `src/bin/`; here is what
//! they share.

#[cfg(feature = "census")]
pub mod census;
pub mod normals;
pub mod pass;
pub mod release;
