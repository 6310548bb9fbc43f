//! Benchmarks live in `benches/`, the speed table of `cargo xtask bench` in `src/bin/speed.rs`.

pub mod noise;
