//! Audits of batches that are drawn by more than a coin for each record: random allocations, and samples with a largest batch.
//!
//! A replay puts the changed record into every step, and compares with the claim of releases that are not sampled; canaries are drawn as they
//! come, and hold the claims of the draws.

use std::sync::Arc;

use dpopt_nonconvex::{Batches, DpSgdPlan, Plan, PublicFacts};
use dpopt_privacy::{
    Accountant, Adjacency, Allocation, Body, ChangedRecord, Curator, Event, LatticeSum,
    SamplingRate, Spend, Which,
};

use super::common::{DELTA, DIM, RELATIONS, bound, noise};
use super::mechanisms::{Record, positions, release, replay, scored};
use super::plans::{FEW, dp_sgd};
use super::solvers::walks;
use super::twins::{Neighbours, Twin, Z, add, ran};
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const ALLOCATED: &str = "allocated-gaussian";
const TRUNCATED: &str = "truncated-gaussian";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        if adjacency.record_count_is_public() {
            registry.add(replay(TRUNCATED, TRUNCATED, adjacency, truncated));
        }
        registry.add(replay(ALLOCATED, ALLOCATED, adjacency, allocated));
        let plan = |batches| -> Result<Arc<dyn Plan>, CheckError> {
            let sgd = dp_sgd(adjacency, DIM)?;
            // What a limit costs depends on how many records there are.
            let facts = PublicFacts {
                records: FEW,
                ..*sgd.facts()
            };
            let few = DpSgdPlan::by_hand(&facts, sgd.budget(), *sgd.schedule());
            Ok(Arc::new(few.with_batches(batches)?))
        };
        let named = |what| ("dp-sgd", what);
        let of = (adjacency, FEW);
        let allocated = plan(Batches::Allocated)?;
        registry.add(walks(named("allocated-batches"), &allocated, of, None));
        if adjacency.record_count_is_public() {
            let limited = plan(Batches::AtMost(4))?;
            registry.add(walks(named("largest-batch"), &limited, of, None));
        }
    }
    for adjacency in RELATIONS {
        registry.add(allocation(adjacency)?);
    }
    registry.add(limited()?);
    TWINS.iter().try_for_each(|twin| add(registry, twin))
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

/// Beside another record.
const LEAVES: Neighbours = Neighbours(&[1.0, 0.3], &[0.3], ChangedRecord::Removed(0));

fn clipped(data: &[f64]) -> f64 {
    data.iter().map(|x| x.clamp(-1.0, 1.0)).sum()
}

const TWINS: [Twin; 4] = [
    Twin {
        // A batch that keeps one record at most, charged as one that keeps all: who comes into it pushes another out.
        name: "truncated-samples/a-limit-that-is-not-accounted",
        data: Neighbours(&[1.0, -1.0], &[-1.0], ChangedRecord::Removed(0)),
        run: |tape, data, _| {
            let kept = data.get(..1).map_or(0.0, clipped);
            let score = tape.gaussian(&[kept], Z)[0];
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // Places that are drawn afresh at each of three steps, which may all fall on it, charged as one allocation to one of them.
        name: "allocation/drawn-afresh-at-each-step",
        data: LEAVES,
        run: |tape, data, _| {
            let score = (0..3).map(|_| tape.gaussian(&[clipped(data)], Z)[0]).sum();
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // A step that is released twice, charged once.
        name: "allocation/a-step-released-twice",
        data: LEAVES,
        run: |tape, data, _| {
            let score = (0..2).map(|_| tape.gaussian(&[clipped(data)], Z)[0]).sum();
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // An allocation to one of three steps that is published, so that its step is known, charged as if it were secret (of many epochs
        // mu is then smaller by the root of the steps).
        name: "allocation/revealed",
        data: LEAVES,
        run: |tape, data, _| {
            let score = tape.gaussian(&[clipped(data)], Z)[0];
            ran(1.0 / (Z * 3f64.sqrt()), score)
        },
    },
];

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
