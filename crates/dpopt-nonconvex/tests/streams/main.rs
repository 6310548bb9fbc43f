//! Every solver releases the recorded bits: on made-up records, with a simulated curator of a fixed seed.
//!
//! The table in `tests/data/streams.tsv` is a recording of the code's own output, and says that a stream is what it was, not that it is
//! right. A line is: case, adjacency, how the run ended, its steps, and hashes of what the observer saw (step, kind, point, norm, norm of
//! the noise), of the returned point, of the event that was spent, and of the counts.
//!
//! Planners call the system's `exp`, `ln` and `pow`, so the bits are those of one C library, on processors with a fused multiply-add.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod cases;
#[path = "../../../dpopt-oracle/tests/streams/ranks.rs"]
mod ranks;
#[path = "../../../dpopt-oracle/tests/streams/table.rs"]
mod table;

use std::num::NonZeroUsize;

const RECORDED: &str = include_str!("../data/streams.tsv");

#[test]
fn every_solver_releases_the_recorded_stream_on_any_number_of_threads() {
    for threads in [1, 2] {
        let table = cases::all(NonZeroUsize::new(threads).unwrap());
        table.assert_is(RECORDED);
    }
}

#[test]
fn several_ranks_release_the_recorded_stream() {
    for ranks in [1, 2, 4] {
        for table in ranks::on(ranks, || cases::all(NonZeroUsize::MIN)) {
            table.assert_is(RECORDED);
        }
    }
}
