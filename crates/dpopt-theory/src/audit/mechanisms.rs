//! Audits of the Gaussian mechanisms: sums, norms, samples, slices and prefix sums.

use dpopt_privacy::selection::Tuning;
use dpopt_privacy::{
    Accountant, Adjacency, Body, Curator, Event, LatticeSum, NoiseMultiplier, Participation,
    Positions, PrefixKind, PrefixNoise, Sample, SamplingRate, Spend, TunedFactor, Which,
};

use super::common::{DELTA, RELATIONS, bound, mu_for, noise};
use super::hostile::neighbours;
use super::{
    Canary, CheckError, Claim, CuratorReplay, OneRun, Pair, Ran, Registry, Statistic, World,
};

/// Steps of a period that is scored.
const STEPS: u64 = 8;

/// A record: what it adds to a sum before it is clipped.
pub(super) type Record = [f64; 2];

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let mut add = |name, run: Run| registry.add(replay(name, name, adjacency, run));
        add("gaussian", sums);
        add("poisson-gaussian", poisson);
        if adjacency == Adjacency::ReplaceOne {
            add("fixed-size-gaussian", fixed_size);
        }
        if adjacency.record_count_is_public() {
            add("slice-gaussian", slices);
        }
        add("tuning", tuning);
        for (name, kind) in kinds()? {
            let run =
                move |curator: &mut Curator, records: &[Record]| periods(kind, curator, records);
            registry.add(replay(name, "prefix", adjacency, run));
        }
    }
    canaries(registry)
}

pub(super) fn kinds() -> Result<[(&'static str, PrefixKind); 6], CheckError> {
    Ok([
        ("prefix-independent", PrefixKind::Independent),
        ("prefix-tree", PrefixKind::Tree),
        ("prefix-honaker", PrefixKind::Honaker),
        ("prefix-toeplitz", PrefixKind::Toeplitz),
        ("prefix-banded", PrefixKind::Banded { band: 3 }),
        // Falls more slowly than the square root.
        (
            "prefix-tuned",
            PrefixKind::Tuned(TunedFactor::new(4, &[0.8, 0.8, 0.3])?),
        ),
    ])
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

/// A run that shows what it returns.
pub(super) type Run = fn(&mut Curator, &[Record]) -> Result<String, CheckError>;

/// A replay of a run on all pairs.
pub(super) fn replay(
    name: &str,
    group: &str,
    adjacency: Adjacency,
    run: impl Fn(&mut Curator, &[Record]) -> Result<String, CheckError> + Send + Sync + 'static,
) -> CuratorReplay<Vec<Record>> {
    CuratorReplay::new(
        &format!("{name}/replay/{adjacency}"),
        group,
        adjacency,
        move |_| pairs(adjacency),
        move |mut curator, records| {
            let outcome = run(&mut curator, records)?;
            Ok(Ran::of(&curator, outcome))
        },
    )
}

/// The positions that a sample reads.
pub(super) fn positions(sample: &Sample) -> Vec<usize> {
    match sample.positions() {
        Positions::Range(range) => range.map(|i| i as usize).collect(),
        Positions::Drawn(drawn) => drawn.reveal().iter().map(|&i| i as usize).collect(),
    }
}

/// The clipped sum of a sample's records, first coordinate times `sign`.
pub(super) fn sum_of(
    records: &[Record],
    sample: &Sample,
    sign: f64,
) -> Result<LatticeSum, CheckError> {
    let mut sum = LatticeSum::new(bound(2)?);
    for i in positions(sample) {
        let [x, y] = records.get(i).copied().unwrap_or_default();
        sum.add_scaled(1.0, &[sign * x, y]);
    }
    Ok(sum)
}

pub(super) fn body(records: &[Record]) -> Body {
    Body::of(records.len() as u64)
}

pub(super) fn release(
    curator: &mut Curator,
    which: Which<'_>,
    records: &[Record],
    sign: f64,
    z: NoiseMultiplier,
) -> Result<Vec<f64>, CheckError> {
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
) -> Result<Vec<f64>, CheckError> {
    let ticket = curator.grant(which, Body::of(2), sum.bound(), z)?;
    Ok(curator.redeem(ticket, sum)?)
}

/// Sums and a norm, with two multipliers; one release too many is refused.
fn sums(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
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

fn poisson(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
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

fn fixed_size(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
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
fn slices(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
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
fn tuning(curator: &mut Curator, records: &[Record]) -> Result<String, CheckError> {
    let z = noise(3.0)?;
    let tuning = Tuning::new(Event::gaussian(z), 3.0, 1.0)?;
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
fn periods(
    kind: PrefixKind,
    curator: &mut Curator,
    records: &[Record],
) -> Result<String, CheckError> {
    let mut patterns = vec![Participation::Every];
    if curator.adjacency().record_count_is_public() {
        patterns.push(Participation::Single);
        patterns.push(Participation::Repeated { most: 2, apart: 3 });
    }
    let z = noise(2.0)?;
    let event = |pattern: &Participation| -> Result<Event, CheckError> {
        Ok(PrefixNoise::new(kind, 6, *pattern)?.event(z)?)
    };
    let mut events: Vec<Event> = patterns.iter().map(event).collect::<Result<_, _>>()?;
    let share = events.split_off(1);
    let sliced = !share.is_empty();
    if sliced {
        events.push(Event::ParallelComposed {
            events: vec![Event::composed(share)],
        });
        curator.open_pool(6, 0)?;
    }
    curator.reserve(&Spend::Fixed(Event::composed(events)))?;
    let mut taken = Vec::new();
    if sliced {
        for _ in 0..6 {
            taken.push(curator.take_slice(1)?);
        }
    }
    let mut outcome = String::new();
    for pattern in patterns {
        let mut period = curator.prefix(kind, bound(2)?, 6, z, pattern)?;
        for step in 0..6 {
            let which = match pattern {
                Participation::Every => Which::All,
                Participation::Single => Which::Slice(&taken[step]),
                _ => Which::Slice(&taken[step % 3]),
            };
            let ticket = period.grant(which, body(records), curator)?;
            let sum = sum_of(records, ticket.sample(), 1.0)?;
            outcome += &format!("{:?}", period.redeem(ticket, sum, curator)?);
        }
    }
    Ok(outcome)
}

/// The release of a sum of one coordinate over the canary (or its opposite, or nothing) and `rest` others
/// of size 1.
fn one_sum(world: World, adjacency: Adjacency, rest: usize) -> Result<LatticeSum, CheckError> {
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

/// The score of what a curator releases that has reserved `event`.
pub(super) fn scored(
    event: Event,
    adjacency: Adjacency,
    score: impl Fn(&mut Curator, World) -> Result<f64, CheckError>,
) -> impl Fn(World, u64) -> Result<f64, CheckError> {
    move |world, seed| {
        let mut curator = Curator::simulated(adjacency, seed);
        curator.reserve(&Spend::Fixed(event.clone()))?;
        score(&mut curator, world)
    }
}

/// A canary in Gaussian releases of `event`.
fn canary(
    name: &str,
    group: &str,
    adjacency: Adjacency,
    event: Event,
    score: impl Fn(&mut Curator, World) -> Result<f64, CheckError> + Send + Sync + 'static,
) -> Result<Canary, CheckError> {
    let claim = Claim::of(&event, DELTA, adjacency)?;
    let score = scored(event, adjacency, score);
    let name = format!("{name}/canary/{adjacency}");
    let canary = Canary::new(&name, group, claim, Statistic::GaussianDp, score);
    Ok(canary.with_runs(100_000, 1_000_000))
}

/// One Gaussian release at epsilon 1.
pub(super) fn gaussian_canary(adjacency: Adjacency) -> Result<Canary, CheckError> {
    let z = noise(1.0 / mu_for(1.0)?)?;
    let event = Event::gaussian(z);
    let canary = canary(
        "gaussian",
        "gaussian",
        adjacency,
        event,
        move |curator, world| {
            let sum = one_sum(world, adjacency, 2)?;
            Ok(release_sum(curator, Which::All, sum, z)?[0])
        },
    )?;
    Ok(canary.with_runs(200_000, 2_000_000))
}

fn canaries(registry: &mut Registry) -> Result<(), CheckError> {
    let z = noise(1.0 / mu_for(1.0)?)?;
    let event = Event::gaussian(z);
    for adjacency in RELATIONS {
        registry.add(gaussian_canary(adjacency)?.at_least(0.7));
    }
    let adjacency = Adjacency::AddRemove;
    let norm = move |curator: &mut Curator, world| {
        let sum = one_sum(world, adjacency, 2)?;
        let ticket = curator.grant(Which::All, Body::of(3), sum.bound(), z)?;
        Ok(curator.redeem_norm(ticket, sum, &[])?)
    };
    registry.add(canary("norm", "gaussian", adjacency, event.clone(), norm)?);
    let adjacency = Adjacency::ReplaceOne;
    let share = Event::ParallelComposed {
        events: vec![event],
    };
    let slice = move |curator: &mut Curator, world| {
        curator.open_pool(2, 0)?;
        let mut score = 0.0;
        for world in [World::In, world] {
            let sum = one_sum(world, adjacency, 0)?;
            score = release_sum(curator, Which::Next(1), sum, z)?[0];
        }
        Ok(score)
    };
    registry.add(canary(
        "slice-gaussian",
        "slice-gaussian",
        adjacency,
        share,
        slice,
    )?);
    sampled(registry)?;
    for (name, kind) in kinds()? {
        registry.add(period(name, kind, z)?);
    }
    one_run(registry)
}

/// A canary in a release on a sample, against the claim with its noise scaled.
pub(super) fn sampled_canary(
    name: &str,
    (adjacency, accountant): (Adjacency, Accountant),
    event: impl Fn(f64) -> Result<Event, CheckError> + Send + Sync + 'static,
    score: impl Fn(&mut Curator, World) -> Result<f64, CheckError> + Send + Sync + 'static,
) -> Result<Canary, CheckError> {
    let whole = event(1.0)?;
    let claim = Claim::of(&whole, DELTA, adjacency)?;
    let statistic = Statistic::Family {
        event: Box::new(event),
        accountant,
        adjacency,
    };
    let score = scored(whole, adjacency, score);
    let canary = Canary::new(
        &format!("{name}/canary/{adjacency}"),
        name,
        claim,
        statistic,
        score,
    );
    Ok(canary.with_runs(100_000, 1_000_000))
}

/// Samples: the score is the likelihood ratio of the mixture.
fn sampled(registry: &mut Registry) -> Result<(), CheckError> {
    let z = 0.8;
    let rate = SamplingRate::new(0.25)?;
    let event = move |scale: f64| Ok(Event::gaussian(noise(z * scale)?).poisson_sampled(rate));
    let adjacency = Adjacency::AddRemove;
    registry.add(sampled_canary(
        "poisson-gaussian",
        (adjacency, Accountant::Exact),
        event,
        move |curator, world| {
            let records = if world == World::In { 1 } else { 0 };
            let (body, z) = (Body::declared(1, records), noise(z)?);
            let ticket = curator.grant(Which::Poisson(rate), body, bound(1)?, z)?;
            let drawn = !positions(ticket.sample()).is_empty();
            let sum = one_sum(if drawn { World::In } else { World::Out }, adjacency, 0)?;
            Ok(curator.redeem(ticket, sum)?[0])
        },
    )?);
    let event = move |scale: f64| {
        Ok(Event::SampledWithoutReplacement {
            source_dataset_size: 4,
            sample_size: 1,
            event: Box::new(Event::gaussian(noise(z * scale)?)),
        })
    };
    registry.add(sampled_canary(
        "fixed-size-gaussian",
        (Adjacency::ReplaceOne, Accountant::Rdp),
        event,
        move |curator, world| {
            let ticket = curator.grant(Which::FixedSize(1), Body::of(4), bound(1)?, noise(z)?)?;
            let mut sum = LatticeSum::new(bound(1)?);
            for i in positions(ticket.sample()) {
                let canary = if world == World::In { 1.0 } else { -1.0 };
                sum.add_scaled(1.0, &[if i == 2 { canary } else { 0.0 }]);
            }
            Ok(curator.redeem(ticket, sum)?[0])
        },
    )?);
    Ok(())
}

/// A period on slices, the canary in the first: the likelihood ratio of all prefix sums.
fn period(name: &str, kind: PrefixKind, z: NoiseMultiplier) -> Result<Canary, CheckError> {
    let (adjacency, single) = (Adjacency::ReplaceOne, Participation::Single);
    let event = Event::ParallelComposed {
        events: vec![PrefixNoise::new(kind, STEPS, single)?.event(z)?],
    };
    canary(name, "prefix", adjacency, event, move |curator, world| {
        curator.open_pool(STEPS, 0)?;
        let mut period = curator.prefix(kind, bound(1)?, STEPS, z, single)?;
        let mut released = Vec::new();
        for step in 0..STEPS {
            let ticket = period.grant(Which::Next(1), Body::of(STEPS), curator)?;
            let world = if step == 0 { world } else { World::In };
            let sum = one_sum(world, adjacency, 0)?;
            released.push(period.redeem(ticket, sum, curator)?[0]);
        }
        Ok(matched(kind, &released))
    })
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
        PrefixKind::Tuned(factor) => return against(&factor.coefficients(), released),
        _ => released.len(),
    };
    let mut root = vec![1.0];
    for k in 1..band {
        root.push(root[k - 1] * (1.0 - 0.5 / k as f64));
    }
    against(&root, released)
}

/// C times the steps, against the first column of C.
fn against(column: &[f64], released: &[f64]) -> f64 {
    let step = |t: usize| released[t] - if t == 0 { 0.0 } else { released[t - 1] };
    (0..column.len().min(released.len()))
        .map(|t| {
            let row: f64 = (0..=t).map(|k| column[k] * step(t - k)).sum();
            column[t] * row
        })
        .sum()
}

/// As many canaries as coordinates.
fn one_run(registry: &mut Registry) -> Result<(), CheckError> {
    for (name, epsilon) in [("gaussian/one-run/1", 1.0), ("gaussian/one-run/4", 4.0)] {
        let z = noise(1.0 / mu_for(epsilon)?)?;
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
