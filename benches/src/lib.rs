//! The rows of `cargo xtask bench`, and the work that each stands for.

mod limits;
mod noise;
mod numbers;
mod planning;
mod queries;
mod releases;
mod sink;

use std::num::NonZeroUsize;

use Amount::{Products, Unbounded};
pub use sink::{Arrays, Failure, Fallible, Sink};

/// Work of one call, for a rate beside those of the machine.
#[derive(Clone, Copy)]
pub enum Amount {
    /// Bytes that are read or drawn.
    Bytes(u64),
    /// Multiply-adds.
    Products(u64),
    /// A number that no rate of the machine bounds.
    Unbounded,
}

/// A row: the task and its sizes, whether it uses threads, and its amount.
pub struct Row(pub &'static str, pub bool, pub Amount);

const fn read(bytes: u64) -> Amount {
    Amount::Bytes(bytes)
}

const fn dense(entries: u64) -> Amount {
    Amount::Bytes(4 * entries)
}

/// All rows, the rates of the machine first.
pub const ROWS: &[Row] = &[
    Row("limit read", true, read(400_000_000)),
    Row("limit read-cache", true, read(4_000_000)),
    Row("limit singles", true, Products(limits::products(true))),
    Row("limit doubles", true, Products(limits::products(false))),
    Row("limit chacha", true, read(limits::DRAWN)),
    Row("limit gemm", false, Products(512 * 512 * 512)),
    Row("logistic 100000 1000", true, dense(100_000_000)),
    Row("logistic 1000000 50", true, dense(50_000_000)),
    Row("logistic 10000 100", true, dense(1_000_000)),
    Row("logistic64 50000 1000", true, read(400_000_000)),
    Row("spider 100000 1000", true, dense(100_000_000)),
    Row("spider 1000000 50", true, dense(50_000_000)),
    Row("one-hot 200000 500 36", true, dense(7_200_000)),
    Row("softmax 2048", true, Products(2 * 7840 * 2048)),
    Row("perceptron 2048", true, Products(2048 * 204_830)),
    Row("perceptron 256", true, Products(256 * 204_830)),
    Row("hessian 20000 535", true, Products(20_000 * 143_380)),
    Row("slopes 8192 100", false, Products(81_920_000)),
    Row("zeroth-order 10000 10", false, Unbounded),
    Row("file 4000000 50", true, dense(200_000_000)),
    Row("noise rounded 1000000", true, read(8_000_000)),
    Row(
        "noise prefix-independent 1000000 16",
        false,
        read(128_000_000),
    ),
    Row("noise prefix-tree 1000000 16", false, read(128_000_000)),
    Row("noise prefix-honaker 1000000 16", false, read(128_000_000)),
    Row("noise prefix-toeplitz 1000000 16", false, read(128_000_000)),
    Row("noise prefix-banded 1000000 16", false, read(128_000_000)),
    Row("account epsilon rdp", false, Unbounded),
    Row("account epsilon exact", false, Unbounded),
    Row("account epsilon pld", false, Unbounded),
    Row("account epsilon allocation", false, Unbounded),
    Row("account epsilon banded", false, Unbounded),
    Row("account calibrate rdp", false, Unbounded),
    Row("account calibrate exact", false, Unbounded),
    Row("account calibrate pld", false, Unbounded),
    Row("account calibrate allocation", false, Unbounded),
    Row("account calibrate banded", false, Unbounded),
    Row("plan minimisers", false, Unbounded),
    Row("plan auto", false, Unbounded),
    Row("plan saddles", false, Unbounded),
    Row("audit one-run 100000 2000 1600", false, Unbounded),
    Row("audit row gaussian", false, Unbounded),
];

impl Row {
    /// Makes the problem of the row on so many threads and hands its work to the sink.
    ///
    /// # Errors
    /// Those of the work, and a task that does not exist.
    pub fn run(&self, threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
        let words: Vec<&str> = self.0.split(' ').collect();
        let (task, rest) = words.split_first().ok_or("a row without a task")?;
        match *task {
            "limit" => limits::run(rest, threads, sink),
            "noise" => noise::run(rest, threads, sink),
            "account" | "plan" | "audit" => planning::run(&words, sink),
            "spider" | "hessian" | "slopes" | "zeroth-order" => queries::run(&words, threads, sink),
            _ => releases::run(&words, threads, sink),
        }
    }
}
