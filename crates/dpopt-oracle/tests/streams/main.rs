//! Every private mean, number, choice and period, and every estimator, releases the recorded bits: on made-up records, with a simulated
//! curator of a fixed seed.
//!
//! The table in `tests/data/streams.tsv` is a recording of the code's own output, and says that a stream is what it was, not that it is
//! right. A line is: case, adjacency, and hashes of what was released (with the deviations of the noise), of the event that was spent, and
//! of the counts.
//!
//! Losses call the system's `exp` and `ln`, so the bits are those of one C library, on processors with a fused multiply-add.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod estimators;
mod means;
mod run;
mod table;

use std::num::NonZeroUsize;

use table::Table;

#[test]
fn every_oracle_releases_the_recorded_stream_on_any_number_of_threads() {
    for threads in [1, 2] {
        let threads = NonZeroUsize::new(threads).unwrap();
        let mut table = Table::default();
        means::all(threads, &mut table);
        estimators::all(threads, &mut table);
        table.assert_is(include_str!("../data/streams.tsv"));
    }
}
