//! Products of matrices by faer on one thread, as limits for the lines of `cargo xtask bench`.
//!
//! Prints multiply-adds of a second, the fastest of several: `gemm` and `syrk` (the lower triangle, which is what is counted) in double
//! precision, of 2000 rows and 535 columns, and `gemm-singles`.
#![allow(clippy::print_stdout, reason = "the rates are the product")]

use std::time::Instant;

use faer::linalg::matmul::{matmul, triangular};
use faer::{Accum, Mat, Par};

const ROWS: usize = 2000;
const COLUMNS: usize = 535;
const REPEATS: usize = 7;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn fastest(mut work: impl FnMut()) -> f64 {
    let times = (0..REPEATS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let entry = |i: usize, j: usize| ((i * 31 + j) as f64).sin();
    let rows = Mat::from_fn(ROWS, COLUMNS, entry);
    let mut product = Mat::zeros(COLUMNS, COLUMNS);
    let whole = (ROWS * COLUMNS * COLUMNS) as f64;
    let triangle = (ROWS * COLUMNS * (COLUMNS + 1) / 2) as f64;
    let gemm = fastest(|| {
        let (left, right) = (rows.transpose(), rows.as_ref());
        matmul(product.as_mut(), Accum::Replace, left, right, 1.0, Par::Seq);
    });
    let syrk = fastest(|| {
        triangular::matmul(
            product.as_mut(),
            triangular::BlockStructure::TriangularLower,
            Accum::Replace,
            rows.transpose(),
            triangular::BlockStructure::Rectangular,
            rows.as_ref(),
            triangular::BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
    });
    let singles = Mat::from_fn(ROWS, COLUMNS, |i, j| entry(i, j) as f32);
    let mut product = Mat::zeros(COLUMNS, COLUMNS);
    let gemm_singles = fastest(|| {
        let (left, right) = (singles.transpose(), singles.as_ref());
        matmul(product.as_mut(), Accum::Replace, left, right, 1.0, Par::Seq);
    });
    println!(
        "{{\"gemm\": {:e}, \"syrk\": {:e}, \"gemm-singles\": {:e}}}",
        whole / gemm,
        triangle / syrk,
        whole / gemm_singles
    );
}
