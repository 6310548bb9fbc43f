//! Seconds for an epoch of a perceptron 784-128-10 over 60,000 records, released step by step: in blocks of fixed
//! positions (replace-one), by exact products (add-remove), and with one record in each step, which leaves the noise and little else. Beside
//! them the same products of matrices in double precision without clipping, rounding or noise. They
//! alternate in one run, and the fastest of each counts.
//!
//! The last column is the rate of multiply-adds of forward and back products in blocks, noise taken off, in 10^9 per second.
//!
//! Run with `cargo run --release -p dpopt-oracle --example perceptron_epoch`.
#![allow(clippy::print_stdout, reason = "the table is the product")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use dpopt_linalg::{Design, Packed};
use dpopt_oracle::{Activation, Head, Mlp, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};

const SIZES: [usize; 3] = [784, 128, 10];
const RECORDS: f64 = 60_000.0;

/// Multiply-adds for one record: forward, and the sum of outer products; and back through the second layer.
const MULTIPLY_ADDS: f64 = 2.0 * (785.0 * 128.0 + 129.0 * 10.0) + 128.0 * 10.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mlp = Mlp::new(&SIZES, Activation::Relu, Head::Softmax)?;
    let point = mlp.initial_point(1);
    let z = NoiseMultiplier::new(1.0)?;
    println!("batch threads  blocks s  exact s  noise s  plain s  blocks less noise s  G/s");
    for batch in [2048usize, 256] {
        let pixels: Vec<u8> = (0..batch * SIZES[0])
            .map(|i| ((i * 7919) >> 3) as u8)
            .collect();
        let data = |rows: usize, adjacency: Adjacency| {
            let design = Design::bytes(SIZES[0], pixels[..rows * SIZES[0]].to_vec(), 1.0 / 255.0)?;
            let labels = (0..rows).map(|i| (i % 10) as f32).collect();
            let declared = (adjacency == Adjacency::AddRemove).then_some(rows as u64);
            let data =
                PrivateData::made_up(design, labels, ClipNorm::new(28.0)?, adjacency, declared)?;
            Ok::<_, Box<dyn std::error::Error>>(data)
        };
        let all = [
            data(batch, Adjacency::ReplaceOne)?,
            data(batch, Adjacency::AddRemove)?,
            data(1, Adjacency::ReplaceOne)?,
        ];
        for threads in [NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1)] {
            let mut estimators = Vec::new();
            for data in &all {
                let curator = Curator::simulated(data.adjacency(), 1);
                let clip = ClipNorm::new(1.0)?;
                let mut estimator = PrivateGradient::clipped(data, mlp.clone(), curator, clip)?
                    .with_threads(threads);
                estimator.reserve(&Spend::Fixed(Event::gaussian(z).repeated(1000)))?;
                estimators.push(estimator);
            }
            let mut best = [f64::INFINITY; 4];
            for _ in 0..if batch > 1000 { 25 } else { 100 } {
                for (estimator, best) in estimators.iter_mut().zip(&mut best) {
                    let mut released = Ok(0.0);
                    *best = best.min(seconds(|| {
                        released = estimator.refresh(&point, z).map(|e| e.noise_std);
                    }));
                    released?;
                }
                best[3] = best[3].min(seconds(|| plain(&point, &pixels, batch)));
            }
            let [blocks, exact, noise, plain] = best.map(|t| t * RECORDS / batch as f64);
            let rate = MULTIPLY_ADDS * RECORDS / (blocks - noise) * 1e-9;
            println!(
                "{batch:5} {threads:7} {blocks:9.3} {exact:8.3} {noise:8.3} {plain:8.3} {:20.3} {rate:4.0}",
                blocks - noise
            );
        }
    }
    Ok(())
}

/// One gradient of the mean by products of matrices in `f64`, on one thread, in blocks as the clipped pass has them.
fn plain(point: &[f64], pixels: &[u8], batch: usize) {
    const BLOCK: usize = 128;
    let [m, n, k] = SIZES;
    let (first, second) = point.split_at((m + 1) * n);
    let forward = Packed::new(m + 1, n, |i, j| first[i * n + j]);
    let last = Packed::new(n + 1, k, |i, j| second[i * k + j]);
    let back = Packed::new(k, n, |j, i| second[i * k + j]);
    let mut total = vec![0.0; point.len()];
    let mut product = vec![0.0; (m + 1) * n];
    for start in (0..batch).step_by(BLOCK) {
        let count = BLOCK.min(batch - start);
        let inputs: Vec<f64> = (start..start + count)
            .flat_map(|r| {
                let row = pixels[r * m..][..m].iter();
                row.map(|&x| f64::from(x) / 255.0).chain([1.0])
            })
            .collect();
        let mut hidden = vec![0.0; count * n];
        forward.multiply(&inputs, &mut hidden);
        let active: Vec<f64> = hidden
            .chunks(n)
            .flat_map(|h| h.iter().map(|z| z.max(0.0)).chain([1.0]))
            .collect();
        let mut out = vec![0.0; count * k];
        last.multiply(&active, &mut out);
        for (r, out) in out.chunks_mut(k).enumerate() {
            let sum: f64 = out.iter().map(|z| z.exp()).sum();
            out.iter_mut().for_each(|z| *z = z.exp() / sum);
            out[(start + r) % 10] -= 1.0;
        }
        let mut delta = vec![0.0; count * n];
        back.multiply(&out, &mut delta);
        for (d, h) in delta.iter_mut().zip(&hidden) {
            *d *= f64::from(u8::from(*h > 0.0));
        }
        for (left, right, (m, n), offset) in [
            (&inputs, &delta, (m + 1, n), 0),
            (&active, &out, (n + 1, k), first.len()),
        ] {
            let transposed: Vec<f64> = (0..m * count)
                .map(|i| left[i % count * m + i / count])
                .collect();
            let right = Packed::new(count, n, |r, j| right[r * n + j]);
            let product = &mut product[..m * n];
            right.multiply(&transposed, product);
            for (t, p) in total[offset..].iter_mut().zip(&*product) {
                *t += p;
            }
        }
    }
    black_box(total);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
