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
mod ranks;
mod run;
mod table;

use std::num::NonZeroUsize;

use table::Table;

const RECORDED: &str = include_str!("../data/streams.tsv");

#[test]
fn every_oracle_releases_the_recorded_stream_on_any_number_of_threads() {
    for threads in [1, 2] {
        let threads = NonZeroUsize::new(threads).unwrap();
        all(threads).assert_is(RECORDED);
    }
}

/// Networks in memory are added in blocks of positions by one process, and record by record by several, as from a file.
#[test]
fn several_ranks_release_the_recorded_stream() {
    let network = |case: &str| case.starts_with("mlp") || case.contains("in memory, mlp");
    for ranks in [1, 2, 4] {
        for table in ranks::on(ranks, || all(NonZeroUsize::MIN)) {
            table
                .without(network)
                .assert_is(&without(RECORDED, network));
            table
                .renamed(|case| {
                    let of_file = case.contains("in memory, mlp");
                    of_file.then(|| case.replace("in memory, mlp", "in a file, mlp"))
                })
                .assert_is(&only(RECORDED, |case| case.contains("in a file, mlp")));
        }
    }
}

fn all(threads: NonZeroUsize) -> Table {
    let mut table = Table::default();
    means::all(threads, &mut table);
    estimators::all(threads, &mut table);
    table
}

fn without(recorded: &str, leave: impl Fn(&str) -> bool) -> String {
    only(recorded, |case| !leave(case))
}

fn only(recorded: &str, keep: impl Fn(&str) -> bool) -> String {
    let lines = recorded.lines().filter(|line| keep(line));
    lines.collect::<Vec<_>>().join("\n")
}
