//! Noise alone: `rounded DIM`, and `prefix-KIND DIM STEPS` for all steps of a
//! period on empty sums. Scales are 2^30 lattice steps.

use std::num::NonZeroUsize;

use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};
use dpopt_privacy::{
    Body, Bound, ClipNorm, LatticeSum, NoiseMultiplier, Participation, PrefixKind, PrefixNoise,
    Spend, Threads, Which,
};

use crate::numbers::curator;
use crate::sink::{Fallible, Sink, size};

/// Bands of banded noise.
const BAND: u64 = 4;

/// Runs a task of this file.
pub(crate) fn run(words: &[&str], threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
    match *words {
        ["rounded", dim] => draws(size(dim)?, threads, sink),
        [kind, dim, steps] => prefix(kind, size(dim)?, size(steps)? as u64, sink),
        _ => Err("there is no such noise".into()),
    }
}

/// The draws of a release of so many numbers.
fn draws(dim: usize, threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
    let scale = 30_f64.exp2();
    let rounded = RoundedGaussian::new(scale)?;
    let (key, threads) = (ReplayKeyForTests::from_seed(1), Threads::new(threads));
    let mut sums = vec![0i64; dim];
    let mut release = 0;
    let mut draw = || {
        release += 1;
        let id = StreamId::new(Purpose::Noise, release);
        rounded.add_release(key.as_key(), id, &threads, &mut sums)?;
        Ok(sums[0] as f64)
    };
    sink.take(&mut draw, &mut || Ok(vec![("none", Vec::new())]))
}

fn prefix(kind: &str, dim: usize, steps: u64, sink: &mut dyn Sink) -> Fallible<()> {
    let kind = match kind {
        "prefix-independent" => PrefixKind::Independent,
        "prefix-tree" => PrefixKind::Tree,
        "prefix-honaker" => PrefixKind::Honaker,
        "prefix-toeplitz" => PrefixKind::Toeplitz,
        "prefix-banded" => PrefixKind::Banded { band: BAND },
        other => return Err(format!("there is no noise `{other}`").into()),
    };
    let bound = Bound::new(ClipNorm::new(1.0)?, dim)?;
    let z = NoiseMultiplier::new(1.0)?;
    let noise = PrefixNoise::new(kind, steps, Participation::Every)?;
    let event = noise.event(z)?.repeated(1000);
    let mut curator = curator();
    curator.reserve(&Spend::Fixed(event))?;
    let mut period = || {
        let mut period = curator.prefix(kind, bound, steps, z, Participation::Every)?;
        let mut last = 0.0;
        for _ in 0..steps {
            let ticket = period.grant(Which::All, Body::of(1), &mut curator)?;
            last = period.redeem(ticket, LatticeSum::new(bound), &mut curator)?[0];
        }
        Ok(last)
    };
    sink.take(&mut period, &mut || Ok(vec![("none", Vec::new())]))
}
