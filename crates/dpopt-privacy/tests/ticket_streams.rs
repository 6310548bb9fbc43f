//! What is released by a ticket is, to the bit, what was released before there were tickets.

use dpopt_privacy::{
    Adjacency, Body, Bound, ChangedRecord, ClipNorm, Curator, Epsilon, Event, LatticeSum,
    NoiseMultiplier, Participation, Positions, PrefixKind, Reads, Refused, ReplayForAudits,
    SamplingRate, SensitivityClaim, Spend, Touched, Which,
};

const RECORDS: [[f64; 2]; 8] = [
    [0.3, 0.4],
    [-1.0, 2.0],
    [0.0, 0.1],
    [5.0, 5.0],
    [f64::NAN, 1.0],
    [-0.2, -0.9],
    [0.7, 0.0],
    [1e-3, -1e-3],
];

fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn bound() -> Bound {
    Bound::new(ClipNorm::new(1.0).unwrap(), 2).unwrap()
}

fn sum(records: &[[f64; 2]], positions: impl Iterator<Item = u64>) -> LatticeSum {
    let mut sum = LatticeSum::new(bound());
    for i in positions {
        sum.add_scaled(1.0, &records[i as usize]);
    }
    sum
}

fn read(records: &[[f64; 2]], positions: &Positions<'_>) -> LatticeSum {
    match positions {
        Positions::Range(range) => sum(records, range.clone()),
        Positions::Drawn(drawn) => sum(records, drawn.reveal().iter().map(|&i| u64::from(i))),
    }
}

fn rate() -> SamplingRate {
    SamplingRate::new(0.4).unwrap()
}

fn epsilon() -> Epsilon {
    Epsilon::new(0.5).unwrap()
}

const SHIFTS: [&[f64]; 3] = [&[], &[1.0, -2.0], &[0.5]];

fn claim() -> SensitivityClaim {
    let radius = ClipNorm::new(0.5).unwrap();
    SensitivityClaim::new(radius, 4.0, 2, Adjacency::ReplaceOne, "a test").unwrap()
}

fn begin(curator: &mut Curator) -> Result<(), Refused> {
    let gaussian = Event::gaussian(z(2.0));
    let events = vec![
        gaussian.clone().repeated(3),
        gaussian.clone().poisson_sampled(rate()).repeated(3),
        Event::SampledWithoutReplacement {
            source_dataset_size: 8,
            sample_size: 3,
            event: Box::new(gaussian.clone()),
        }
        .repeated(2),
        Event::ExponentialMechanism { epsilon: epsilon() },
        Event::ParallelComposed {
            events: vec![gaussian.repeated(3)],
        },
    ];
    curator.open_pool(8, 0)?;
    curator.reserve_claimed(&Spend::Fixed(Event::composed(events)), "a test")
}

fn with_tickets(curator: &mut Curator, records: &[[f64; 2]]) -> Result<Vec<f64>, Refused> {
    begin(curator)?;
    let (body, two) = (Body::of(8), z(2.0));
    let mut out = Vec::new();
    let mut slices = Vec::new();
    for which in [
        Which::All,
        Which::Poisson(rate()),
        Which::FixedSize(3),
        Which::Next(3),
        Which::Poisson(rate()),
    ] {
        let ticket = curator.grant(which, body, bound(), two)?;
        slices.extend(ticket.sample().slice().cloned());
        let sum = read(records, &ticket.sample().positions());
        out.extend(curator.redeem(ticket, sum)?);
    }
    for which in [
        Which::Slice(&slices[0]),
        Which::Poisson(rate()),
        Which::All,
        Which::FixedSize(3),
    ] {
        let ticket = curator.grant(which, body, bound(), two)?;
        let sum = read(records, &ticket.sample().positions());
        out.push(curator.redeem_norm(ticket, sum, SHIFTS[1])?);
    }
    assert!(
        curator
            .grant(Which::FixedSize(3), body, bound(), two)
            .is_err()
    );
    let ticket = curator.grant_claimed(Which::Next(2), body, &claim(), two)?;
    let output = records[ticket.sample().slice().map_or(0, |s| s.positions().start) as usize];
    out.extend(curator.redeem_claimed(ticket, &output)?);
    let every = Participation::Every;
    let mut period = curator.prefix(PrefixKind::Tree, bound(), 2, two, every)?;
    for _ in 0..2 {
        let ticket = period.grant(Which::All, body, curator)?;
        let sum = read(records, &ticket.sample().positions());
        out.extend(period.redeem(ticket, sum, curator)?);
    }
    let single = Participation::Single;
    let mut period = curator.prefix(PrefixKind::Independent, bound(), 2, two, single)?;
    let ticket = period.grant(Which::Next(1), body, curator)?;
    let sum = read(records, &ticket.sample().positions());
    out.extend(period.redeem(ticket, sum, curator)?);
    let mut ticket = curator.grant_choice(body, bound(), epsilon())?;
    for shift in SHIFTS {
        let sum = read(records, &ticket.sample().positions());
        ticket.add(sum, shift)?;
    }
    out.push(curator.redeem_choice(ticket)? as f64);
    Ok(out)
}

fn without_tickets(curator: &mut Curator, records: &[[f64; 2]]) -> Result<Vec<f64>, Refused> {
    begin(curator)?;
    let (adjacency, two) = (Adjacency::ReplaceOne, z(2.0));
    let all = || sum(records, 0..8).finish(adjacency, Touched::All);
    let drawn = |positions: &[u32]| sum(records, positions.iter().map(|&i| u64::from(i)));
    let poisson = |curator: &mut Curator| {
        let sample = curator.poisson_sample(rate(), 8).unwrap();
        let sum = drawn(sample.secret_positions().reveal());
        sum.finish(adjacency, Touched::Poisson(sample))
    };
    let fixed = |curator: &mut Curator| {
        let sample = curator.fixed_size_sample(3, 8).unwrap();
        let sum = drawn(sample.secret_positions().reveal());
        sum.finish(adjacency, Touched::FixedSize(sample))
    };
    let mut out = Vec::new();
    out.extend(curator.release(&all(), two)?);
    let sealed = poisson(curator);
    out.extend(curator.release(&sealed, two)?);
    let sealed = fixed(curator);
    out.extend(curator.release(&sealed, two)?);
    let slice = curator.take_slice(3)?;
    let on_slice = || sum(records, slice.positions());
    let sealed = on_slice().finish(adjacency, Touched::Slice(slice.clone()));
    out.extend(curator.release(&sealed, two)?);
    let sealed = poisson(curator);
    out.extend(curator.release(&sealed, two)?);
    out.push(curator.release(
        &sealed_norm(on_slice().finish(adjacency, Touched::Slice(slice.clone()))),
        two,
    )?);
    let sealed = poisson(curator);
    out.push(curator.release(&sealed_norm(sealed), two)?);
    out.push(curator.release(&sealed_norm(all()), two)?);
    let sealed = fixed(curator);
    out.push(curator.release(&sealed_norm(sealed), two)?);
    let reads = Reads::FixedSize {
        size: 3,
        records: 8,
    };
    assert!(curator.check_release(reads, bound(), two).is_err());
    let slice = curator.take_slice(2)?;
    let output = records[slice.positions().start as usize];
    let sealed = claim().seal(&output, Touched::Slice(slice));
    out.extend(curator.release_claimed(&sealed, two)?);
    let every = Participation::Every;
    let mut period = curator.prefix(PrefixKind::Tree, bound(), 2, two, every)?;
    for _ in 0..2 {
        out.extend(period.push(all(), curator)?);
    }
    let single = Participation::Single;
    let mut period = curator.prefix(PrefixKind::Independent, bound(), 2, two, single)?;
    let slice = curator.take_slice(1)?;
    let step = sum(records, slice.positions()).finish(adjacency, Touched::Slice(slice));
    out.extend(period.push(step, curator)?);
    let norms = SHIFTS.map(|shift| all().norm_from(shift));
    out.push(curator.exponential_least_norm(&norms, epsilon())? as f64);
    Ok(out)
}

fn sealed_norm(
    sealed: dpopt_privacy::Sensitive<dpopt_privacy::Vector>,
) -> dpopt_privacy::Sensitive<dpopt_privacy::Scalar> {
    sealed.norm_from(SHIFTS[1])
}

/// FNV-1a of the bits.
fn print_of(released: &[f64]) -> u64 {
    let bytes = released.iter().flat_map(|x| x.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn releases_are_the_same_to_the_bit() {
    let prints = [1, 2, 77].map(|seed| {
        let curator = || Curator::simulated(Adjacency::ReplaceOne, seed);
        let (mut old, mut new) = (curator(), curator());
        let before = without_tickets(&mut old, &RECORDS).unwrap();
        let released = with_tickets(&mut new, &RECORDS).unwrap();
        assert_eq!(released, before);
        assert_eq!(new.spent(), old.spent());
        print_of(&before)
    });
    let recorded = [
        0xe960_6ae1_f895_d8bd,
        0x16b2_f93a_2121_7f62,
        0xd890_381a_c0b3_b2ca,
    ];
    assert_eq!(prints, recorded);
}

/// An audit finds the same events, scales and displacements.
#[test]
fn a_replay_finds_the_same() {
    let mut neighbour = RECORDS;
    neighbour[1] = [-9.0, 0.1];
    type Run = fn(&mut Curator, &[[f64; 2]]) -> Result<Vec<f64>, Refused>;
    let report = |run: Run| {
        let changed = ChangedRecord::InPlace(1);
        let tape = ReplayForAudits::new(Adjacency::ReplaceOne, 5, changed).unwrap();
        run(&mut tape.recorder(), &RECORDS).unwrap();
        run(&mut tape.replayer(), &neighbour).unwrap();
        tape.report()
    };
    let found = report(with_tickets);
    assert_eq!(found, report(without_tickets));
    assert!(found.divergence.is_none());
    assert!(
        found
            .releases
            .iter()
            .any(|release| release.displacement > 0.0)
    );
}
