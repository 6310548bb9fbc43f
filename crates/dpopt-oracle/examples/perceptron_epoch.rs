//! Seconds for an epoch of a perceptron 784-128-10 over 60,000 records: clipped and summed exactly, beside the same
//! products of matrices without clipping, rounding or noise. The two alternate in one run.
//!
//! Run with `cargo run --release -p dpopt-oracle --example perceptron_epoch`.
#![allow(clippy::print_stdout, reason = "the table is the product")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use dpopt_linalg::{Design, Packed};
use dpopt_oracle::{Activation, Estimator, Head, Mlp, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};

const SIZES: [usize; 3] = [784, 128, 10];
const RECORDS: f64 = 60_000.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mlp = Mlp::new(&SIZES, Activation::Relu, Head::Softmax)?;
    let point = mlp.initial_point(1);
    let z = NoiseMultiplier::new(1.0)?;
    println!("batch threads  release s  plain s  ratio");
    for batch in [2048usize, 256] {
        let pixels: Vec<u8> = (0..batch * SIZES[0])
            .map(|i| ((i * 7919) >> 3) as u8)
            .collect();
        for threads in [NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1)] {
            let design = Design::bytes(SIZES[0], pixels.clone(), 1.0 / 255.0)?;
            let labels = (0..batch).map(|i| (i % 10) as f32).collect();
            let norm = ClipNorm::new(28.0)?;
            let data = PrivateData::new(design, labels, norm, Adjacency::ReplaceOne, None)?;
            let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
            let mut estimator =
                PrivateGradient::clipped(&data, mlp.clone(), curator, ClipNorm::new(1.0)?)?
                    .with_threads(threads);
            estimator.reserve(&Spend::Fixed(Event::gaussian(z).repeated(1000)))?;
            let (mut releases, mut plains) = (Vec::new(), Vec::new());
            for _ in 0..15 {
                plains.push(seconds(|| plain(&point, &pixels, batch)));
                let mut released = Ok(0.0);
                releases.push(seconds(|| {
                    released = estimator.refresh(&point, z).map(|e| e.noise_std);
                }));
                released?;
            }
            let steps = RECORDS / batch as f64;
            let (release, plain) = (median(&mut releases) * steps, median(&mut plains) * steps);
            println!(
                "{batch:5} {threads:7} {release:10.3} {plain:8.3} {:6.2}",
                release / plain
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

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
