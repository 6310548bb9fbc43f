//! The speed table of the clipped pass, as JSON: a part of what `cargo xtask bench` runs.
//!
//! One row per shape, type and number of threads: the median time of one clipped gradient sum of logistic
//! regression on the lattice (`pass`; `spider` for the difference of two points; `release` for the estimator around it,
//! with noise), and as its target the time in which a plain read of the same entries, by the
//! same number of threads in the same run, would reach 85 % of its bandwidth. The plain read is the faster one of two,
//! with and without prefetches of its own. Passes and reads alternate. `--quick` takes smaller
//! data and fewer repeats.
#![allow(clippy::print_stdout, reason = "the table is the product")]

use std::cell::RefCell;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use dpopt_benches::pass::{Asking, Bits, Dense, Query, Sparse, bound};
use dpopt_benches::release;
use serde_json::{Value, json};

/// Share of the bandwidth of a plain read that a pass should reach.
const SHARE: f64 = 0.85;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Times a pass and the reads beside it, alternating.
fn row(
    id: String,
    bytes: usize,
    target: Option<f64>,
    repeats: usize,
    reads: [&dyn Fn(); 2],
    pass: &dyn Fn(),
) -> Value {
    pass();
    let mut passes = Vec::new();
    let mut plain = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    for _ in 0..repeats {
        let read = [seconds(reads[0]), seconds(reads[1])];
        let time = seconds(pass);
        ratios.push(read[0].min(read[1]) / time);
        plain[0].push(read[0]);
        plain[1].push(read[1]);
        passes.push(time);
    }
    let read = median(&mut plain[0]).min(median(&mut plain[1]));
    let (time, ratio) = (median(&mut passes), median(&mut ratios));
    json!({
        "id": id,
        "seconds": time,
        "fastest": passes[0],
        "target": target.map(|share| read / share),
        "met": target.map(|share| ratio >= share),
        "repeats": repeats,
        "read_seconds": read,
        "read_fastest": plain[0][0].min(plain[1][0]),
        "share_of_read": ratio,
        "share_of_read_fastest": plain[0][0].min(plain[1][0]) / passes[0],
        "gigabytes_per_second": bytes as f64 / time / 1e9,
    })
}

fn dense<T: Bits>(
    out: &mut Vec<Value>,
    name: &str,
    (records, columns): (usize, usize),
    (repeats, target): (usize, Option<f64>),
    entry: impl Fn(f64) -> T,
) -> Result<(), Box<dyn std::error::Error>> {
    let data = Dense::new(records, columns, entry);
    let bound = bound(columns)?;
    let w: Vec<f64> = (0..columns).map(|j| (j as f64).sin()).collect();
    let displacement: Vec<f64> = w.iter().map(|w| 1e-3 * w * w).collect();
    for threads in [NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1)] {
        let read = |asking| {
            let data = &data;
            move || {
                black_box(data.read(threads, asking));
            }
        };
        let reads: [&dyn Fn(); 2] = [&read(Asking::No), &read(Asking::Ahead)];
        for (word, query) in [
            ("pass", Query::Gradient(&w)),
            ("spider", Query::Difference(&w, &displacement)),
        ] {
            let id = format!("{word}/{name}/{records}x{columns}/t{threads}");
            out.push(row(id, data.bytes(), target, repeats, reads, &|| {
                black_box(data.pass(query, bound, threads));
            }));
        }
    }
    Ok(())
}

/// Releases of the estimator on the same shapes, noise and charge included.
fn releases(
    out: &mut Vec<Value>,
    (records, columns): (usize, usize),
    (repeats, target): (usize, Option<f64>),
) -> Result<(), Box<dyn std::error::Error>> {
    let plain = Dense::new(records, columns, |x| x as f32);
    let data = release::rows(records, columns)?;
    for threads in [NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1)] {
        let read = |asking| {
            let plain = &plain;
            move || {
                black_box(plain.read(threads, asking));
            }
        };
        let reads: [&dyn Fn(); 2] = [&read(Asking::No), &read(Asking::Ahead)];
        let step = RefCell::new(release::logistic(&data, columns, threads)?);
        let refused = RefCell::new(None);
        let id = format!("release/f32/{records}x{columns}/t{threads}");
        out.push(row(id, plain.bytes(), target, repeats, reads, &|| {
            let mut step = step.borrow_mut();
            match step() {
                Ok(x) => {
                    black_box(x);
                }
                Err(error) => *refused.borrow_mut() = Some(error),
            }
        }));
        if let Some(error) = refused.into_inner() {
            return Err(error.into());
        }
    }
    Ok(())
}

fn sparse(
    out: &mut Vec<Value>,
    (records, columns, fields): (usize, usize, usize),
    repeats: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let data = Sparse::new(records, columns, fields);
    let bound = bound(columns)?;
    let w: Vec<f64> = (0..columns).map(|j| (j as f64).sin()).collect();
    for threads in [NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1)] {
        let read = |asking| {
            let data = &data;
            move || {
                black_box(data.read(threads, asking));
            }
        };
        let reads: [&dyn Fn(); 2] = [&read(Asking::No), &read(Asking::Ahead)];
        let id = format!("pass/onehot{fields}/{records}x{columns}/t{threads}");
        let mut line = row(id, data.bytes(), None, repeats, reads, &|| {
            black_box(data.pass(&w, bound, threads));
        });
        let per_entry = line["seconds"]
            .as_f64()
            .map(|s| 1e9 * s / data.stored() as f64);
        line["nanoseconds_per_entry"] = json!(per_entry);
        out.push(line);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (shrink, repeats) = if quick { (4, 7) } else { (1, 25) };
    let mut out = Vec::new();
    let target = Some(SHARE);
    for shape in [(100_000 / shrink, 1000), (1_000_000 / shrink, 50)] {
        dense(&mut out, "f32", shape, (repeats, target), |x| x as f32)?;
        dense(&mut out, "f64", shape, (repeats, target), |x| x)?;
        releases(&mut out, shape, (repeats, target))?;
    }
    dense(&mut out, "f32", (10_000, 100), (10 * repeats, None), |x| {
        x as f32
    })?;
    dense(&mut out, "f64", (10_000, 100), (10 * repeats, None), |x| x)?;
    releases(&mut out, (10_000, 100), (10 * repeats, None))?;
    for fields in [10, 20, 40] {
        sparse(&mut out, (200_000, 400, fields), repeats)?;
    }
    println!("{}", serde_json::to_string_pretty(&out)?);
    Ok(())
}
