//! What this machine can do at most: `limits`.
//!
//! Works, a second each at most: `read` and `read-cache` (bytes of a second, of an array larger than the caches and of one that stays in them),
//! `singles` and `doubles` (fused multiply-adds of a second), `chacha` (bytes of a second). Their values are the rates; the fastest of several.

use std::num::NonZeroUsize;

use dpopt_benches::pass::{Asking, Dense};
use dpopt_benches::release::{Failure, timed};
use dpopt_lanes::{Kernel, LANES, Lanes, SINGLES, dispatch};
use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, StreamId};

use crate::side::Side;

/// Rounds of a peak.
const ROUNDS: usize = 4_000_000;
const REPEATS: usize = 5;
/// Words of the generator in one repeat.
const WORDS: usize = 1 << 17;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    match *words {
        ["limits", t] => Some(limits(t)),
        _ => None,
    }
}

fn limits(threads: &str) -> Result<(), Failure> {
    let threads: NonZeroUsize = threads.parse()?;
    let read = move |records| {
        let data = Dense::new(records, 1000, |x| x as f32);
        let read = |asking| data.bytes() as f64 / timed(|| data.read(threads, asking)).0;
        let one = || read(Asking::No).max(read(Asking::Ahead));
        Ok((0..REPEATS).map(|_| one()).fold(0.0, f64::max))
    };
    let peak = move |of: fn() -> f64| Ok(each(threads, of));
    Side::new(vec![
        ("read", Box::new(move || read(100_000))),
        ("read-cache", Box::new(move || read(1000))),
        ("singles", Box::new(move || peak(|| multiply_adds(true)))),
        ("doubles", Box::new(move || peak(|| multiply_adds(false)))),
        ("chacha", Box::new(move || peak(generator))),
    ])
    .serve()
}

/// The sum of the rates of so many threads at the same time, the fastest of several.
fn each(threads: NonZeroUsize, rate: fn() -> f64) -> f64 {
    let one = || {
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(rate)).collect();
            let own = rate();
            let others = others.into_iter().map(|other| other.join().unwrap_or(0.0));
            own + others.sum::<f64>()
        })
    };
    (0..REPEATS).map(|_| one()).fold(0.0, f64::max)
}

fn generator() -> f64 {
    let mut stream = ReplayKeyForTests::from_seed(1).stream(StreamId::new(Purpose::Noise, 0));
    let mut words = vec![0u64; WORDS];
    let mut fill = || {
        for _ in 0..50 {
            stream.fill_words(&mut words);
        }
    };
    let (seconds, ()) = timed(&mut fill);
    std::hint::black_box(&words);
    50.0 * (8 * WORDS) as f64 / seconds
}

/// Fused multiply-adds of a second on registers alone, with as many sums as are fastest.
fn multiply_adds(single: bool) -> f64 {
    [peak::<5>(single), peak::<6>(single), peak::<8>(single)]
        .into_iter()
        .fold(0.0, f64::max)
}

fn peak<const R: usize>(single: bool) -> f64 {
    let (seconds, sum) = timed(|| dispatch(Peak::<R>(single)));
    std::hint::black_box(sum);
    let lanes = if single { SINGLES } else { LANES };
    (ROUNDS * R * lanes) as f64 / seconds
}

struct Peak<const R: usize>(bool);

impl<const R: usize> Kernel for Peak<R> {
    type Output = f64;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> f64 {
        let factor = std::hint::black_box(0.999);
        if self.0 {
            let a = lanes.splat_single(factor as f32);
            let mut sums = [a; R];
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = lanes.mul_add_singles(*sum, a, a);
                }
            }
            let all = sums.map(|sum| f64::from(lanes.to_singles(sum)[0]));
            all.iter().sum()
        } else {
            let a = lanes.splat(factor);
            let mut sums = [a; R];
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = lanes.mul_add(*sum, a, a);
                }
            }
            sums.map(|sum| lanes.to_doubles(sum)[0]).iter().sum()
        }
    }
}
