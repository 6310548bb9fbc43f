//! What the tests share: units, sums, curators, ledgers, and one release, step or norm of a sum that was taken before its
//! ticket: it is over ten records.

use std::path::Path;

use dpopt_privacy::{
    Adjacency, Body, Bound, ClipNorm, Curator, Delta, Epsilon, Event, FilterKind, LatticeSum,
    Ledger, LedgerError, NoiseMultiplier, Positions, Prefix, Refused, Sample, SamplingRate, Spend,
    Which,
};

pub(crate) fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

pub(crate) fn epsilon(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

pub(crate) fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

pub(crate) fn rate(value: f64) -> SamplingRate {
    SamplingRate::new(value).unwrap()
}

pub(crate) fn bound(radius: f64, dim: usize) -> Bound {
    Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap()
}

/// The sum of these rows.
pub(crate) fn sum<const D: usize>(rows: &[[f64; D]], radius: f64) -> LatticeSum {
    let mut sum = LatticeSum::new(bound(radius, D));
    for row in rows {
        sum.add_scaled(1.0, row);
    }
    sum
}

/// T releases at multiplier z cost T/z^2 in squared mu; mu(1, 1e-6) = 0.23670 (published value).
pub(crate) fn gaussians(value: f64, count: u64) -> Spend {
    Spend::Fixed(Event::gaussian(z(value)).repeated(count))
}

pub(crate) fn on_slices(share: Event) -> Event {
    Event::ParallelComposed {
        events: vec![share],
    }
}

/// With this reserved.
pub(crate) fn simulated(adjacency: Adjacency, seed: u64, event: Event) -> Curator {
    let mut curator = Curator::simulated(adjacency, seed);
    curator.reserve(&Spend::Fixed(event)).unwrap();
    curator
}

/// A ledger for replace-one at delta = 1e-6.
pub(crate) fn ledger(path: &Path, epsilon: f64, filter: FilterKind) -> Result<Ledger, LedgerError> {
    let (epsilon, relation) = (Epsilon::new(epsilon).unwrap(), Adjacency::ReplaceOne);
    Ledger::open_or_create(path, epsilon, delta(1e-6), relation, filter)
}

/// A protected curator with a ledger.
pub(crate) fn protected(ledger: Ledger) -> Curator {
    Curator::protected(ledger.adjacency())
        .unwrap()
        .with_ledger(ledger)
        .unwrap()
}

pub(crate) fn release(
    curator: &mut Curator,
    which: Which<'_>,
    sum: LatticeSum,
    z: NoiseMultiplier,
) -> Result<Vec<f64>, Refused> {
    let ticket = curator.grant(which, Body::of(10), sum.bound(), z)?;
    curator.redeem(ticket, sum)
}

pub(crate) fn release_norm(
    curator: &mut Curator,
    which: Which<'_>,
    sum: LatticeSum,
    shift: &[f64],
    z: NoiseMultiplier,
) -> Result<f64, Refused> {
    let ticket = curator.grant(which, Body::of(10), sum.bound(), z)?;
    curator.redeem_norm(ticket, sum, shift)
}

pub(crate) fn push(
    period: &mut Prefix,
    which: Which<'_>,
    sum: LatticeSum,
    curator: &mut Curator,
) -> Result<Vec<f64>, Refused> {
    let ticket = period.grant(which, Body::of(10), curator)?;
    period.redeem(ticket, sum, curator)
}

/// Which positions were drawn.
pub(crate) fn positions(sample: &Sample) -> Vec<usize> {
    match sample.positions() {
        Positions::Range(range) => range.map(|i| i as usize).collect(),
        Positions::Drawn(drawn) => drawn.reveal().iter().map(|&i| i as usize).collect(),
    }
}
