//! Audits of the Gaussian mechanisms: sums, norms, samples, slices and prefix sums.

use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{
    Accountant, Adjacency, Body, Bound, ClipNorm, Curator, Delta, Epsilon, Event, LatticeSum,
    NoiseMultiplier, Participation, Positions, PrefixKind, PrefixNoise, Sample, SamplingRate,
    Spend, Which,
};

use super::hostile::neighbours;
use super::replay::{CuratorReplay, Pair, Ran};
use super::{AuditError, Canary, Claim, OneRun, Registry, Statistic, World};

/// delta of all claims here.
pub(super) const DELTA: f64 = 1e-6;
/// The relations.
pub(super) const RELATIONS: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];
/// Steps of a period that is scored.
const STEPS: u64 = 8;

/// A record: what it adds to a sum before it is clipped.
pub(super) type Record = [f64; 2];

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    for adjacency in RELATIONS {
        registry.add(replay("gaussian", adjacency, sums));
        registry.add(replay("poisson-gaussian", adjacency, poisson));
        if adjacency == Adjacency::ReplaceOne {
            registry.add(replay("fixed-size-gaussian", adjacency, fixed_size));
        }
        if adjacency.record_count_is_public() {
            registry.add(replay("slice-gaussian", adjacency, slices));
        }
        registry.add(replay("tuning", adjacency, tuning));
        for (name, kind) in kinds() {
            registry.add(periods(name, kind, adjacency));
        }
    }
    canaries(registry)?;
    Ok(())
}

pub(super) fn kinds() -> [(&'static str, PrefixKind); 5] {
    [
        ("prefix-independent", PrefixKind::Independent),
        ("prefix-tree", PrefixKind::Tree),
        ("prefix-honaker", PrefixKind::Honaker),
        ("prefix-toeplitz", PrefixKind::Toeplitz),
        ("prefix-banded", PrefixKind::Banded { band: 3 }),
    ]
}

/// Neighbours made of six records.
pub(super) fn pairs(adjacency: Adjacency) -> Vec<Pair<Vec<Record>>> {
    let bases = [
        vec![
            [0.1, 0.2],
            [-0.4, 0.0],
            [3.0, -4.0],
            [0.0, 0.0],
            [0.6, 0.8],
            [f64::NAN, 1.0],
        ],
        vec![[1.0, 0.0]; 6],
        vec![[0.0, 0.0]; 6],
    ];
    let contents = [
        ("opposite", [1.0, 0.0], [-1.0, 0.0]),
        ("diagonal", [0.6, 0.8], [-0.6, -0.8]),
        ("huge", [1e300, 1e300], [-1e300, -1e300]),
        ("infinite", [f64::INFINITY, 0.0], [-1e308, 0.0]),
        ("not a number", [f64::NAN, 0.0], [1e9, 1e9]),
        ("tiny", [1e-320, 0.0], [1.0, 0.0]),
    ];
    neighbours(adjacency, &bases, &contents, &[0.0, 0.0])
}

fn replay(
    name: &str,
    adjacency: Adjacency,
    run: fn(&mut Curator, &[Record]) -> Result<String, AuditError>,
) -> CuratorReplay<Vec<Record>> {
    CuratorReplay::new(
        &format!("{name}/replay/{adjacency}"),
        name,
        adjacency,
        move |_| pairs(adjacency),
        move |mut curator, records| {
            let outcome = run(&mut curator, records)?;
            Ok(Ran {
                spent: curator.spent(),
                outcome,
                refused: false,
            })
        },
    )
}

pub(super) fn noise(z: f64) -> Result<NoiseMultiplier, AuditError> {
    Ok(NoiseMultiplier::new(z)?)
}

pub(super) fn bound(dim: usize) -> Result<Bound, AuditError> {
    Ok(Bound::new(ClipNorm::new(1.0)?, dim)?)
}

/// The positions that a sample reads.
fn positions(sample: &Sample) -> Vec<usize> {
    match sample.positions() {
        Positions::Range(range) => range.map(|i| i as usize).collect(),
        Positions::Drawn(drawn) => drawn.reveal().iter().map(|&i| i as usize).collect(),
    }
}

/// The clipped sum of a sample's records, first coordinate times `sign`.
fn sum_of(records: &[Record], sample: &Sample, sign: f64) -> Result<LatticeSum, AuditError> {
    let mut sum = LatticeSum::new(bound(2)?);
    for i in positions(sample) {
        let [x, y] = records.get(i).copied().unwrap_or_default();
        sum.add_scaled(1.0, &[sign * x, y]);
    }
    Ok(sum)
}

fn body(records: &[Record]) -> Body {
    Body::of(records.len() as u64)
}

fn release(
    curator: &mut Curator,
    which: Which<'_>,
    records: &[Record],
    sign: f64,
    z: NoiseMultiplier,
) -> Result<Vec<f64>, AuditError> {
    let ticket = curator.grant(which, body(records), bound(2)?, z)?;
    let sum = sum_of(records, ticket.sample(), sign)?;
    Ok(curator.redeem(ticket, sum)?)
}

/// Releases a sum that was taken before its ticket.
pub(super) fn release_sum(
    curator: &mut Curator,
    which: Which<'_>,
    sum: LatticeSum,
    z: NoiseMultiplier,
) -> Result<Vec<f64>, AuditError> {
    let ticket = curator.grant(which, Body::of(2), sum.bound(), z)?;
    Ok(curator.redeem(ticket, sum)?)
}

/// Sums and a norm, with two multipliers; one release too many is refused.
fn sums(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let (one, two) = (noise(2.0)?, noise(3.5)?);
    let events = vec![Event::gaussian(one).repeated(2), Event::gaussian(two)];
    curator.reserve(&Spend::Fixed(Event::composed(events)))?;
    let all = Which::All;
    let first = release(curator, all, records, 1.0, one)?;
    let second = release(curator, all, records, first[0].signum(), two)?;
    let ticket = curator.grant(all, body(records), bound(2)?, one)?;
    let sum = sum_of(records, ticket.sample(), -1.0)?;
    let norm = curator.redeem_norm(ticket, sum, &[])?;
    let refused = release(curator, all, records, 1.0, one);
    Ok(format!(
        "{first:?} {second:?} {norm:?} {}",
        refused.is_err()
    ))
}

fn poisson(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let (z, rate) = (noise(1.5)?, SamplingRate::new(0.3)?);
    let sampled = Event::gaussian(z).poisson_sampled(rate);
    let events = vec![sampled.repeated(4), Event::gaussian(z)];
    curator.reserve(&Spend::Fixed(Event::composed(events)))?;
    let mut shown = format!("{:?}", release(curator, Which::All, records, 1.0, z)?);
    for _ in 0..4 {
        let released = release(curator, Which::Poisson(rate), records, 1.0, z)?;
        shown += &format!("{released:?}");
        // Without its sample it is another event.
        let refused = release(curator, Which::All, records, 1.0, z);
        shown += &format!("{}", refused.is_err());
    }
    Ok(shown)
}

fn fixed_size(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let z = noise(1.5)?;
    let event = Event::SampledWithoutReplacement {
        source_dataset_size: 6,
        sample_size: 2,
        event: Box::new(Event::gaussian(z)),
    };
    curator.reserve(&Spend::Fixed(event.repeated(4)))?;
    let mut shown = String::new();
    for _ in 0..4 {
        let released = release(curator, Which::FixedSize(2), records, 1.0, z)?;
        shown += &format!("{released:?}");
    }
    Ok(shown)
}

/// Three slices of two records, each queried twice; a third query of one is refused.
fn slices(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let (one, two) = (noise(2.0)?, noise(3.0)?);
    let share = Event::composed(vec![Event::gaussian(one), Event::gaussian(two)]);
    let spend = Event::ParallelComposed {
        events: vec![share],
    };
    curator.reserve(&Spend::Fixed(spend))?;
    curator.open_pool(6, 0)?;
    let mut shown = String::new();
    for _ in 0..3 {
        let slice = curator.take_slice(2)?;
        for (z, sign) in [(one, 1.0), (two, -1.0)] {
            let which = Which::Slice(&slice);
            let released = release(curator, which, records, sign, z)?;
            let refused = release(curator, which, records, sign, z);
            shown += &format!("{released:?}{}", refused.is_err());
        }
    }
    Ok(shown)
}

/// The best of several inner runs.
fn tuning(curator: &mut Curator, records: &[Record]) -> Result<String, AuditError> {
    let z = noise(3.0)?;
    let tuning = dpopt_privacy::selection::Tuning::new(Event::gaussian(z), 3.0, 1.0)?;
    curator.reserve(&Spend::Fixed(tuning.event()))?;
    let best = curator.repeat_and_select(&tuning, |inner| {
        match release(inner, Which::All, records, 1.0, z) {
            Ok(released) => (format!("{released:?}"), released[0]),
            Err(refused) => (refused.to_string(), f64::NEG_INFINITY),
        }
    })?;
    Ok(format!("{:?}", best.map(|best| best.value)))
}

/// Periods of six steps: on slices once, on slices that come again, and on all records.
fn periods(name: &str, kind: PrefixKind, adjacency: Adjacency) -> CuratorReplay<Vec<Record>> {
    CuratorReplay::new(
        &format!("{name}/replay/{adjacency}"),
        "prefix",
        adjacency,
        move |_| pairs(adjacency),
        move |mut curator, records| {
            let mut outcome = String::new();
            let mut patterns = vec![Participation::Every];
            if adjacency.record_count_is_public() {
                patterns.push(Participation::Single);
                patterns.push(Participation::Repeated { most: 2, apart: 3 });
            }
            let z = noise(2.0)?;
            let mut whole = Vec::new();
            let mut share = Vec::new();
            for &pattern in &patterns {
                let event = PrefixNoise::new(kind, 6, pattern)?.event(z)?;
                if pattern == Participation::Every {
                    whole.push(event);
                } else {
                    share.push(event);
                }
            }
            if !share.is_empty() {
                whole.push(Event::ParallelComposed {
                    events: vec![Event::composed(share)],
                });
                curator.open_pool(6, 0)?;
            }
            curator.reserve(&Spend::Fixed(Event::composed(whole)))?;
            let mut taken = Vec::new();
            if patterns.len() > 1 {
                for _ in 0..6 {
                    taken.push(curator.take_slice(1)?);
                }
            }
            for pattern in patterns {
                let mut period = curator.prefix(kind, bound(2)?, 6, z, pattern)?;
                for step in 0..6 {
                    let which = match pattern {
                        Participation::Every => Which::All,
                        Participation::Single => Which::Slice(&taken[step]),
                        _ => Which::Slice(&taken[step % 3]),
                    };
                    let ticket = period.grant(which, body(records), &mut curator)?;
                    let sum = sum_of(records, ticket.sample(), 1.0)?;
                    outcome += &format!("{:?}", period.redeem(ticket, sum, &mut curator)?);
                }
            }
            Ok(Ran {
                spent: curator.spent(),
                outcome,
                refused: false,
            })
        },
    )
}

/// The release of a sum of one coordinate over the canary (or its opposite, or nothing) and `rest` others
/// of size 1.
fn one_sum(world: World, adjacency: Adjacency, rest: usize) -> Result<LatticeSum, AuditError> {
    let mut sum = LatticeSum::new(bound(1)?);
    for _ in 0..rest {
        sum.add_scaled(1.0, &[1.0]);
    }
    match (world, adjacency) {
        (World::In, _) => sum.add_scaled(1.0, &[1.0]),
        (World::Out, Adjacency::ReplaceOne) => sum.add_scaled(1.0, &[-1.0]),
        (World::Out, Adjacency::ZeroOut) => sum.add_scaled(1.0, &[0.0]),
        (World::Out, _) => {}
    }
    Ok(sum)
}

/// One Gaussian release at epsilon 1.
pub(super) fn gaussian_canary(adjacency: Adjacency) -> Result<Canary, AuditError> {
    let mu = gdp::mu_for(Epsilon::new(1.0)?, Delta::new(DELTA)?)?.get();
    let z = noise(1.0 / mu)?;
    let canary = Canary::new(
        &format!("gaussian/canary/{adjacency}"),
        "gaussian",
        Claim::of(&Event::gaussian(z), DELTA, adjacency)?,
        Statistic::GaussianDp,
        move |world, seed| {
            let mut curator = Curator::simulated(adjacency, seed);
            curator.reserve(&Spend::Fixed(Event::gaussian(z)))?;
            let sum = one_sum(world, adjacency, 2)?;
            Ok(release_sum(&mut curator, Which::All, sum, z)?[0])
        },
    );
    Ok(canary.with_runs(200_000, 2_000_000))
}

fn canaries(registry: &mut Registry) -> Result<(), AuditError> {
    let mu = gdp::mu_for(Epsilon::new(1.0)?, Delta::new(DELTA)?)?.get();
    let z = noise(1.0 / mu)?;
    let reserve = move |curator: &mut Curator| curator.reserve(&Spend::Fixed(Event::gaussian(z)));
    for adjacency in RELATIONS {
        registry.add(gaussian_canary(adjacency)?.at_least(0.7));
    }
    let adjacency = Adjacency::AddRemove;
    let claim = Claim::of(&Event::gaussian(z), DELTA, adjacency)?;
    registry.add(
        Canary::new(
            "norm/canary/add-remove",
            "gaussian",
            claim,
            Statistic::GaussianDp,
            move |world, seed| {
                let mut curator = Curator::simulated(adjacency, seed);
                reserve(&mut curator)?;
                let sum = one_sum(world, adjacency, 2)?;
                let ticket = curator.grant(Which::All, Body::of(3), sum.bound(), z)?;
                Ok(curator.redeem_norm(ticket, sum, &[])?)
            },
        )
        .with_runs(100_000, 1_000_000),
    );
    let share = Event::ParallelComposed {
        events: vec![Event::gaussian(z)],
    };
    registry.add(
        Canary::new(
            "slice-gaussian/canary/replace-one",
            "slice-gaussian",
            Claim::of(&share, DELTA, Adjacency::ReplaceOne)?,
            Statistic::GaussianDp,
            move |world, seed| {
                let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
                curator.reserve(&Spend::Fixed(share.clone()))?;
                curator.open_pool(2, 0)?;
                let mut score = 0.0;
                for number in 0..2 {
                    let world = if number == 1 { world } else { World::In };
                    let sum = one_sum(world, Adjacency::ReplaceOne, 0)?;
                    score = release_sum(&mut curator, Which::Next(1), sum, z)?[0];
                }
                Ok(score)
            },
        )
        .with_runs(100_000, 1_000_000),
    );
    sampled(registry)?;
    for (name, kind) in kinds() {
        registry.add(period(name, kind, z)?);
    }
    one_run(registry)
}

/// Samples: the score is the likelihood ratio of the mixture.
fn sampled(registry: &mut Registry) -> Result<(), AuditError> {
    let (q, z) = (0.25, 0.8);
    let rate = SamplingRate::new(q)?;
    let event = move |scale: f64| -> Result<Event, AuditError> {
        Ok(Event::gaussian(noise(z * scale)?).poisson_sampled(rate))
    };
    let adjacency = Adjacency::AddRemove;
    registry.add(
        Canary::new(
            "poisson-gaussian/canary/add-remove",
            "poisson-gaussian",
            Claim::of(&event(1.0)?, DELTA, adjacency)?,
            Statistic::Family {
                event: Box::new(event),
                accountant: Accountant::Exact,
                adjacency,
            },
            move |world, seed| {
                let mut curator = Curator::simulated(adjacency, seed);
                curator.reserve(&Spend::Fixed(event(1.0)?))?;
                let records = if world == World::In { 1 } else { 0 };
                let (body, z) = (Body::declared(1, records), noise(z)?);
                let ticket = curator.grant(Which::Poisson(rate), body, bound(1)?, z)?;
                let drawn = !positions(ticket.sample()).is_empty();
                let sum = one_sum(if drawn { World::In } else { World::Out }, adjacency, 0)?;
                Ok(curator.redeem(ticket, sum)?[0])
            },
        )
        .with_runs(100_000, 1_000_000),
    );
    let event = |scale: f64| -> Result<Event, AuditError> {
        Ok(Event::SampledWithoutReplacement {
            source_dataset_size: 4,
            sample_size: 1,
            event: Box::new(Event::gaussian(noise(0.8 * scale)?)),
        })
    };
    let adjacency = Adjacency::ReplaceOne;
    registry.add(
        Canary::new(
            "fixed-size-gaussian/canary/replace-one",
            "fixed-size-gaussian",
            Claim::of(&event(1.0)?, DELTA, adjacency)?,
            Statistic::Family {
                event: Box::new(event),
                accountant: Accountant::Rdp,
                adjacency,
            },
            move |world, seed| {
                let mut curator = Curator::simulated(adjacency, seed);
                curator.reserve(&Spend::Fixed(event(1.0)?))?;
                let which = Which::FixedSize(1);
                let ticket = curator.grant(which, Body::of(4), bound(1)?, noise(0.8)?)?;
                let mut sum = LatticeSum::new(bound(1)?);
                for i in positions(ticket.sample()) {
                    let canary = if world == World::In { 1.0 } else { -1.0 };
                    sum.add_scaled(1.0, &[if i == 2 { canary } else { 0.0 }]);
                }
                Ok(curator.redeem(ticket, sum)?[0])
            },
        )
        .with_runs(100_000, 1_000_000),
    );
    Ok(())
}

/// A period on slices, the canary in the first: the likelihood ratio of all prefix sums.
fn period(name: &str, kind: PrefixKind, z: NoiseMultiplier) -> Result<Canary, AuditError> {
    let adjacency = Adjacency::ReplaceOne;
    let design = PrefixNoise::new(kind, STEPS, Participation::Single)?;
    let spend = Event::ParallelComposed {
        events: vec![design.event(z)?],
    };
    let claim = Claim::of(&spend, DELTA, adjacency)?;
    let score = move |world, seed| {
        let mut curator = Curator::simulated(adjacency, seed);
        curator.reserve(&Spend::Fixed(spend.clone()))?;
        curator.open_pool(STEPS, 0)?;
        let mut period = curator.prefix(kind, bound(1)?, STEPS, z, Participation::Single)?;
        let mut released = Vec::new();
        for step in 0..STEPS {
            let body = Body::of(STEPS);
            let ticket = period.grant(Which::Next(1), body, &mut curator)?;
            let world = if step == 0 { world } else { World::In };
            let sum = one_sum(world, adjacency, 0)?;
            released.push(period.redeem(ticket, sum, &mut curator)?[0]);
        }
        Ok(matched(kind, &released))
    };
    let canary = Canary::new(
        &format!("{name}/canary/replace-one"),
        "prefix",
        claim,
        Statistic::GaussianDp,
        score,
    );
    Ok(canary.with_runs(100_000, 1_000_000))
}

/// How much of a record in step 1 is in these prefix sums, weighed by the noise.
fn matched(kind: PrefixKind, released: &[f64]) -> f64 {
    let band = match kind {
        // The nodes that hold step 1 are the prefixes of 1, 2, 4, ... steps.
        PrefixKind::Tree | PrefixKind::Honaker => {
            let powers = (0..).map(|h| 1_usize << h);
            let ends = powers.take_while(|&end| end <= released.len());
            return ends.map(|end| released[end - 1]).sum();
        }
        PrefixKind::Independent => 1,
        PrefixKind::Banded { band } => band as usize,
        _ => released.len(),
    };
    // C times the steps, against the first column of C.
    let mut root = vec![1.0];
    for k in 1..band {
        root.push(root[k - 1] * (1.0 - 0.5 / k as f64));
    }
    let step = |t: usize| released[t] - if t == 0 { 0.0 } else { released[t - 1] };
    (0..band.min(released.len()))
        .map(|t| {
            let row: f64 = (0..=t).map(|k| root[k] * step(t - k)).sum();
            root[t] * row
        })
        .sum()
}

/// As many canaries as coordinates.
fn one_run(registry: &mut Registry) -> Result<(), AuditError> {
    for (name, epsilon) in [("gaussian/one-run/1", 1.0), ("gaussian/one-run/4", 4.0)] {
        let mu = gdp::mu_for(Epsilon::new(epsilon)?, Delta::new(DELTA)?)?.get();
        let z = noise(1.0 / mu)?;
        let claim = Claim::of(&Event::gaussian(z), DELTA, Adjacency::ZeroOut)?;
        registry.add(OneRun::new(
            name,
            "gaussian",
            claim,
            (50_000, 200_000),
            move |canaries, seed| {
                let mut curator = Curator::simulated(Adjacency::ZeroOut, seed);
                curator.reserve(&Spend::Fixed(Event::gaussian(z)))?;
                let mut sum = LatticeSum::new(bound(canaries.len())?);
                for (i, &present) in (0..).zip(canaries) {
                    sum.add_scaled_sparse(f64::from(u8::from(present)), &[i], &[1.0]);
                }
                release_sum(&mut curator, Which::All, sum, z)
            },
        ));
    }
    Ok(())
}
