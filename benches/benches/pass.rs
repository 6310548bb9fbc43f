//! One clipped gradient sum of logistic regression on the lattice, beside a plain read of its data; releases of a
//! perceptron; and the zeroth-order pair beside its function evaluations.
//!
//! Run with `cargo bench -p dpopt-benches --bench pass`; `cargo xtask bench` has the larger shapes.

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dpopt_benches::pass::{Asking, Bits, Dense, Query, Sparse, bound};
use dpopt_benches::release::{self, ByValues};
use dpopt_oracle::Glm;

fn dense<T: Bits>(c: &mut Criterion, name: &str, entry: impl Fn(f64) -> T + Copy) {
    for (records, columns) in [(10_000, 100), (20_000, 1000), (200_000, 50)] {
        let data = Dense::new(records, columns, entry);
        let bound = bound(columns).unwrap();
        let w: Vec<f64> = (0..columns).map(|j| (j as f64).sin()).collect();
        let displacement: Vec<f64> = w.iter().map(|w| 1e-3 * w).collect();
        let mut group = c.benchmark_group(format!("{name}/{records}x{columns}"));
        group.throughput(Throughput::Bytes(data.bytes() as u64));
        group.sample_size(20);
        for threads in [1, 2] {
            let count = NonZeroUsize::new(threads).unwrap();
            group.bench_function(BenchmarkId::new("read", threads), |b| {
                b.iter(|| black_box(data.read(count, Asking::No)));
            });
            group.bench_function(BenchmarkId::new("gradient", threads), |b| {
                b.iter(|| black_box(data.pass(Query::Gradient(&w), bound, count)));
            });
            group.bench_function(BenchmarkId::new("difference", threads), |b| {
                b.iter(|| black_box(data.pass(Query::Difference(&w, &displacement), bound, count)));
            });
        }
        group.finish();
    }
}

fn passes(c: &mut Criterion) {
    dense(c, "f32", |x| x as f32);
    dense(c, "f64", |x| x);
    let data = Sparse::new(100_000, 400, 20);
    let bound = bound(400).unwrap();
    let w: Vec<f64> = (0..400).map(|j| f64::from(j).sin()).collect();
    let mut group = c.benchmark_group("onehot20/100000x400");
    group.throughput(Throughput::Elements(data.stored() as u64));
    group.sample_size(20);
    group.bench_function("gradient", |b| {
        b.iter(|| black_box(data.pass(&w, bound, NonZeroUsize::MIN)));
    });
    group.finish();
}

/// One step of a perceptron 784-128-10, and the zeroth-order pair beside the function evaluations that it makes.
fn releases(c: &mut Criterion) {
    let mut group = c.benchmark_group("perceptron");
    group.sample_size(20);
    for batch in [256usize, 2048] {
        let data = release::images(batch).unwrap();
        for threads in [1, 2] {
            let count = NonZeroUsize::new(threads).unwrap();
            let mut step = release::perceptron(&data, count).unwrap();
            group.throughput(Throughput::Elements(batch as u64));
            group.bench_function(BenchmarkId::new(batch.to_string(), threads), |b| {
                b.iter(|| black_box(step.release().unwrap()));
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("zeroth-order");
    group.sample_size(20);
    for (records, columns) in [(10_000, 10), (1_000, 50)] {
        let data = release::rows(records, columns).unwrap();
        let mut step = release::zeroth_order(&data, columns, NonZeroUsize::MIN).unwrap();
        let mut values = release::values(records, columns);
        group.throughput(Throughput::Elements((2 * columns * records) as u64));
        let shape = format!("{records}x{columns}");
        group.bench_function(BenchmarkId::new("release", &shape), |b| {
            b.iter(|| black_box(step().unwrap()));
        });
        group.bench_function(BenchmarkId::new("values", &shape), |b| {
            b.iter(|| black_box(values()));
        });
    }
    group.finish();
}

/// Slopes along a whole frame that all records share, beside the product of matrices in them and the loop over directions.
fn slopes(c: &mut Criterion) {
    let mut group = c.benchmark_group("slopes");
    group.sample_size(10);
    for (records, columns) in [(8_192, 100), (65_536, 16)] {
        let data = release::doubles(records, columns).unwrap();
        // Multiply-adds of the product, twice.
        let work = 2 * records * columns * columns;
        group.throughput(Throughput::Elements(work as u64));
        let shape = format!("{records}x{columns}");
        let mut bare = release::product(records, columns);
        group.bench_function(BenchmarkId::new("product", &shape), |b| {
            b.iter(|| black_box(bare()));
        });
        for loss in [Glm::Absolute, Glm::Logistic] {
            let mut step = release::slopes(&data, loss, columns).unwrap();
            let name = format!("release of {loss}");
            group.bench_function(BenchmarkId::new(name, &shape), |b| {
                b.iter(|| black_box(step().unwrap()));
            });
        }
        let mut loops = release::slopes(&data, ByValues(Glm::Absolute), columns).unwrap();
        group.bench_function(BenchmarkId::new("direction by direction", &shape), |b| {
            b.iter(|| black_box(loops().unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, passes, releases, slopes);
criterion_main!(benches);
