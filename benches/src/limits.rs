//! Rates of the machine: `read` and `read-cache` (an array larger than the caches, and one that
//! stays in them), `singles` and `doubles` (fused multiply-adds on registers), `chacha`, and `gemm`
//! (a product of matrices in double precision).

use std::hint::black_box;
use std::num::NonZeroUsize;

use dpopt_lanes::{Kernel, LANES, Lanes, SINGLES, dispatch};
use dpopt_linalg::Packed;
use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, StreamId};
use pulp::{Simd, WithSimd};

use crate::sink::{Fallible, Sink, alone};

/// Rounds of a peak.
const ROUNDS: usize = 1_000_000;
/// Sums that are added to at the same time.
const SUMS: usize = 8;
/// Bytes of the generator in one call.
pub(crate) const DRAWN: u64 = 8 * WORDS as u64;
const WORDS: usize = 1 << 20;

/// Multiply-adds of one call on one thread.
pub(crate) const fn products(single: bool) -> u64 {
    let lanes = if single { SINGLES } else { LANES };
    (ROUNDS * SUMS * lanes) as u64
}

/// Runs a task of this file.
pub(crate) fn run(words: &[&str], threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
    match *words {
        ["read"] => read(100_000_000, threads, sink),
        ["read-cache"] => read(1_000_000, threads, sink),
        ["singles"] => each(threads, &|| dispatch(Peak(true)), sink),
        ["doubles"] => each(threads, &|| dispatch(Peak(false)), sink),
        ["chacha"] => each(threads, &generator, sink),
        ["gemm"] => {
            let matrix = Packed::new(512, 512, |i, j| ((i * 31 + j) as f64).sin());
            let rows: Vec<f64> = (0..512 * 512).map(|i| f64::from(i).sin()).collect();
            let mut out = vec![0.0; rows.len()];
            alone(sink, &mut || {
                matrix.multiply(&rows, &mut out);
                Ok(out[0])
            })
        }
        _ => Err(format!("there is no limit `{}`", words.join(" ")).into()),
    }
}

/// Calls a work on so many threads at the same time.
fn each(
    threads: NonZeroUsize,
    work: &(dyn Fn() -> f64 + Sync),
    sink: &mut dyn Sink,
) -> Fallible<()> {
    alone(sink, &mut || {
        Ok(std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(work)).collect();
            let own = work();
            let others = others.into_iter().map(|other| other.join().unwrap_or(0.0));
            own + others.sum::<f64>()
        }))
    })
}

fn read(count: usize, threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
    let numbers = vec![1.0f32; count];
    let part = count.div_ceil(threads.get());
    alone(sink, &mut || {
        let sum = std::thread::scope(|scope| {
            let mut parts = numbers.chunks(part);
            let own = parts.next().unwrap_or_default();
            let read = |numbers| pulp::Arch::new().dispatch(Read(numbers));
            let others: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            let own = read(own);
            let others = others.into_iter().map(|other| other.join().unwrap_or(0));
            others.fold(own, u32::wrapping_add)
        });
        Ok(f64::from(sum))
    })
}

/// The sum of the bits of an array.
struct Read<'a>(&'a [f32]);

impl WithSimd for Read<'_> {
    type Output = u32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u32 {
        let mut sums = [0u32; 128];
        let (chunks, rest) = self.0.as_chunks::<128>();
        for chunk in chunks {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum = sum.wrapping_add(x.to_bits());
            }
        }
        let rest = rest.iter().map(|x| x.to_bits());
        sums.into_iter().chain(rest).fold(0, u32::wrapping_add)
    }
}

fn generator() -> f64 {
    let mut stream = ReplayKeyForTests::from_seed(1).stream(StreamId::new(Purpose::Noise, 0));
    let mut words = vec![0u64; WORDS];
    stream.fill_words(&mut words);
    black_box(words)[0] as f64
}

struct Peak(bool);

impl Kernel for Peak {
    type Output = f64;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> f64 {
        let factor = black_box(0.999);
        if self.0 {
            let a = lanes.splat_single(factor as f32);
            let mut sums = [a; SUMS];
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = lanes.mul_add_singles(*sum, a, a);
                }
            }
            sums.map(|sum| f64::from(lanes.to_singles(sum)[0]))
                .iter()
                .sum()
        } else {
            let a = lanes.splat(factor);
            let mut sums = [a; SUMS];
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = lanes.mul_add(*sum, a, a);
                }
            }
            sums.map(|sum| lanes.to_doubles(sum)[0]).iter().sum()
        }
    }
}
