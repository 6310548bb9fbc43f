//! One release, step or norm of a sum that was taken before its ticket: it is over ten records.
#![allow(dead_code, reason = "each test file uses its own part")]

use dpopt_privacy::{
    Body, Curator, LatticeSum, NoiseMultiplier, Positions, Prefix, Refused, Sample, Which,
};

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
