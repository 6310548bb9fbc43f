//! Noise alone: `noise rounded DIM`, `noise prefix-KIND DIM STEPS`.
//!
//! Work `step`: as many draws at a scale of 2^30 lattice steps; of prefix noise all steps of a period, on sums of nothing.

use std::num::NonZeroUsize;

use dpopt_benches::release::{Failure, curator};
use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};
use dpopt_privacy::{
    Body, Bound, ClipNorm, LatticeSum, NoiseMultiplier, Participation, PrefixKind, PrefixNoise,
    Spend, Threads, Which,
};

use crate::side::{Side, count};

/// Bands of banded noise.
const BAND: u64 = 4;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    Some(match *words {
        ["noise", "rounded", dim, t] => rounded(dim, t),
        ["noise", kind, dim, steps, _] => prefix(kind, dim, steps),
        _ => return None,
    })
}

/// The draws of a release of so many numbers, fresh each time.
pub(crate) fn draws(
    dim: usize,
    threads: NonZeroUsize,
) -> Result<impl FnMut() -> Result<f64, Failure>, Failure> {
    let threads = Threads::new(threads);
    let key = ReplayKeyForTests::from_seed(1);
    let noise = RoundedGaussian::new(30_f64.exp2())?;
    let mut sums = vec![0i64; dim];
    let mut id = fresh();
    Ok(move || {
        noise.add_release(key.as_key(), id(), &threads, &mut sums)?;
        Ok(sums[0] as f64)
    })
}

fn fresh() -> impl FnMut() -> StreamId {
    let mut release = 0;
    move || {
        release += 1;
        StreamId::new(Purpose::Noise, release)
    }
}

fn rounded(dim: &str, threads: &str) -> Result<(), Failure> {
    let draw = draws(count(dim)?, threads.parse()?)?;
    Side::new(vec![("step", Box::new(draw))]).serve()
}

fn prefix(kind: &str, dim: &str, steps: &str) -> Result<(), Failure> {
    let kind = match kind {
        "prefix-independent" => PrefixKind::Independent,
        "prefix-tree" => PrefixKind::Tree,
        "prefix-honaker" => PrefixKind::Honaker,
        "prefix-toeplitz" => PrefixKind::Toeplitz,
        "prefix-banded" => PrefixKind::Banded { band: BAND },
        other => return Err(format!("no noise `{other}`").into()),
    };
    let (dim, steps) = (count(dim)?, count(steps)? as u64);
    let bound = Bound::new(ClipNorm::new(1.0)?, dim)?;
    let z = NoiseMultiplier::new(1.0)?;
    let noise = PrefixNoise::new(kind, steps, Participation::Every)?;
    let event = noise.event(z)?.repeated(1000);
    let mut curator = curator();
    curator.reserve(&Spend::Fixed(event))?;
    let period = move || {
        let mut period = curator.prefix(kind, bound, steps, z, Participation::Every)?;
        let mut last = 0.0;
        for _ in 0..steps {
            let ticket = period.grant(Which::All, Body::of(1), &mut curator)?;
            last = period.redeem(ticket, LatticeSum::new(bound), &mut curator)?[0];
        }
        Ok(last)
    };
    Side::new(vec![("step", Box::new(period))]).serve()
}
