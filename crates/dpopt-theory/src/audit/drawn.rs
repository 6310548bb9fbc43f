//! Audits of batches that are drawn by more than a coin for each record: random allocations, and samples with a largest batch.
//!
//! A replay puts the changed record into every step, and compares with the claim of releases that are not sampled; canaries are drawn as they
//! come, and hold the claims of the draws.

use dpopt_privacy::{
    Accountant, Adjacency, Allocation, Body, Curator, Event, LatticeSum, SamplingRate, Spend, Which,
};

use super::common::{DELTA, RELATIONS, bound, noise};
use super::mechanisms::{Record, positions, release, replay, scored};
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const ALLOCATED: &str = "allocated-gaussian";
const TRUNCATED: &str = "truncated-gaussian";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        if adjacency.record_count_is_public() {
            registry.add(replay(TRUNCATED, TRUNCATED, adjacency, truncated));
        }
        registry.add(replay(ALLOCATED, ALLOCATED, adjacency, allocated));
        registry.add(allocation(adjacency)?);
    }
    registry.add(limited()?);
    Ok(())
}

/// Two allocations to three steps, with a refusal of other terms in between, and one of two steps of three that stops early.
fn allocated(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let z = noise(1.5)?;
    let one = Allocation::to_one_of(3);
    let two = Allocation {
        steps: 3,
        participations: 2,
    };
    let once = |of: Allocation| of.event(Event::gaussian(z));
    curator.reserve(&Spend::Fixed(Event::composed(vec![
        once(one).repeated(2),
        once(two),
    ])))?;
    let mut shown = String::new();
    for step in 0..8 {
        let of = if step < 6 { one } else { two };
        shown += &format!(
            "{:?}",
            release(curator, Which::Allocated(of), records, 1.0, z)?
        );
        let other = Which::Allocated(Allocation::to_one_of(4));
        shown += &format!("{}", release(curator, other, records, 1.0, z).is_err());
    }
    Ok(shown)
}

/// Four samples of two records at most.
fn truncated(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let (z, rate) = (noise(1.5)?, SamplingRate::new(0.3)?);
    let event = Event::TruncatedSubsampledGaussian {
        dataset_size: 6,
        sampling_probability: rate,
        truncated_batch_size: 2,
        noise_multiplier: z,
    };
    curator.reserve(&Spend::Fixed(event.repeated(4)))?;
    let mut shown = String::new();
    for _ in 0..4 {
        let released = release(curator, Which::Truncated(rate, 2), records, 1.0, z)?;
        let poisson = release(curator, Which::Poisson(rate), records, 1.0, z);
        shown += &format!("{released:?}{}", poisson.is_err());
    }
    Ok(shown)
}

const STEPS: u64 = 3;
const MULTIPLIER: f64 = 1.0;

/// One record, allocated to one of three steps, beside nothing, its opposite or zeros.
fn allocation(adjacency: Adjacency) -> Result<Canary, CheckError> {
    let of = Allocation::to_one_of(STEPS);
    let event = move |scale: f64| Ok(of.event(Event::gaussian(noise(MULTIPLIER * scale)?)));
    let whole = event(1.0)?;
    let claim = Claim::of(&whole, DELTA, adjacency)?;
    // Curves of one epoch far below its epsilon are out of the accountant's reach where a record comes or goes.
    let statistic = match adjacency {
        Adjacency::ReplaceOne => Statistic::Family {
            event: Box::new(event),
            accountant: Accountant::Pld,
            adjacency,
        },
        _ => Statistic::ApproximateDp,
    };
    let score = scored(whole, adjacency, move |curator, world| {
        let z = noise(MULTIPLIER)?;
        let canary = match (world, adjacency) {
            (World::In, _) => 1.0,
            (_, Adjacency::ReplaceOne) => -1.0,
            _ => 0.0,
        };
        let mut evidence = Vec::new();
        for _ in 0..STEPS {
            let ticket = curator.grant(Which::Allocated(of), Body::of(1), bound(1)?, z)?;
            let mut sum = LatticeSum::new(bound(1)?);
            if !positions(ticket.sample()).is_empty() {
                sum.add_scaled(1.0, &[canary]);
            }
            evidence.push(curator.redeem(ticket, sum)?[0]);
        }
        Ok(log_ratio(&evidence, adjacency))
    });
    let name = format!("{ALLOCATED}/canary/{adjacency}");
    Ok(Canary::new(&name, ALLOCATED, claim, statistic, score).with_runs(100_000, 600_000))
}

/// Log of how much likelier these numbers are with a record of size 1 than without it, or with its opposite.
fn log_ratio(sums: &[f64], adjacency: Adjacency) -> f64 {
    let variance = (adjacency.sum_sensitivity() * MULTIPLIER).powi(2);
    let term = |x: f64, size: f64| ((x * size - 0.5 * size * size) / variance).exp();
    let of = |size: f64| sums.iter().map(|&x| term(x, size)).sum::<f64>();
    match adjacency {
        Adjacency::ReplaceOne => (of(1.0) / of(-1.0)).ln(),
        _ => (of(1.0) / sums.len() as f64).ln(),
    }
}

/// Of the samples with a largest batch: one of four records in the mean, and at most.
const RATE: f64 = 0.25;
const RECORDS: u64 = 4;
const SAMPLES: u64 = 4;
const SMALL: f64 = 0.5;

/// A canary among records that are its opposites: in a full batch it takes the place of one of them.
fn limited() -> Result<Canary, CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let rate = SamplingRate::new(RATE)?;
    let event = move |scale: f64| -> Result<Event, CheckError> {
        let one = Event::TruncatedSubsampledGaussian {
            dataset_size: RECORDS,
            sampling_probability: rate,
            truncated_batch_size: 1,
            noise_multiplier: noise(SMALL * scale)?,
        };
        Ok(one.repeated(SAMPLES))
    };
    let whole = event(1.0)?;
    let claim = Claim::of(&whole, DELTA, adjacency)?;
    let statistic = Statistic::Family {
        event: Box::new(event),
        accountant: Accountant::Pld,
        adjacency,
    };
    let score = scored(whole, adjacency, move |curator, world| {
        let canary = if world == World::In { 1.0 } else { -1.0 };
        let z = noise(SMALL)?;
        let mut score = 0.0;
        for _ in 0..SAMPLES {
            let body = Body::of(RECORDS);
            let ticket = curator.grant(Which::Truncated(rate, 1), body, bound(1)?, z)?;
            let mut sum = LatticeSum::new(bound(1)?);
            for i in positions(ticket.sample()) {
                sum.add_scaled(1.0, &[if i == 0 { canary } else { -1.0 }]);
            }
            score += of_limited(curator.redeem(ticket, sum)?[0]);
        }
        Ok(score)
    });
    let name = format!("{TRUNCATED}/canary/{adjacency}");
    Ok(Canary::new(&name, TRUNCATED, claim, statistic, score).with_runs(200_000, 1_000_000))
}

/// Log of how much likelier a number is where the canary is 1 than where it is -1, as all others are. The batch is empty with probability
/// (1-q)^n; every record is as likely as every other to be the one in it.
fn of_limited(x: f64) -> f64 {
    let empty = (1.0 - RATE).powi(RECORDS as i32);
    let own = (1.0 - empty) / RECORDS as f64;
    let deviation = 2.0 * SMALL;
    let density = |mean: f64| (-0.5 * ((x - mean) / deviation).powi(2)).exp();
    let others = empty * density(0.0) + (1.0 - empty - own) * density(-1.0);
    ((others + own * density(1.0)) / (others + own * density(-1.0))).ln()
}
