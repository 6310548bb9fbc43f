//! What is released by a ticket is, to the bit, what was recorded before there were tickets.

use dpopt_privacy::{
    Adjacency, Body, ChangedRecord, ClipNorm, Curator, Event, LatticeSum, Participation, Positions,
    PrefixKind, Refused, ReplayForAudits, ReplayedMechanism, ReplayedReads, SensitivityClaim,
    Spend, Which,
};

use crate::common::{bound, epsilon, rate, z};

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

fn sum(records: &[[f64; 2]], positions: impl Iterator<Item = u64>) -> LatticeSum {
    let mut sum = LatticeSum::new(bound(1.0, 2));
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

const SHIFTS: [&[f64]; 3] = [&[], &[1.0, -2.0], &[0.5]];

fn claim() -> SensitivityClaim {
    let radius = ClipNorm::new(0.5).unwrap();
    SensitivityClaim::new(radius, 4.0, 2, Adjacency::ReplaceOne, "a test").unwrap()
}

fn begin(curator: &mut Curator) -> Result<(), Refused> {
    let gaussian = Event::gaussian(z(2.0));
    let events = vec![
        gaussian.clone().repeated(3),
        gaussian.clone().poisson_sampled(rate(0.4)).repeated(3),
        Event::SampledWithoutReplacement {
            source_dataset_size: 8,
            sample_size: 3,
            event: Box::new(gaussian.clone()),
        }
        .repeated(2),
        Event::ExponentialMechanism {
            epsilon: epsilon(0.5),
        },
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
        Which::Poisson(rate(0.4)),
        Which::FixedSize(3),
        Which::Next(3),
        Which::Poisson(rate(0.4)),
    ] {
        let ticket = curator.grant(which, body, bound(1.0, 2), two)?;
        slices.extend(ticket.sample().slice().cloned());
        let sum = read(records, &ticket.sample().positions());
        out.extend(curator.redeem(ticket, sum)?);
    }
    for which in [
        Which::Slice(&slices[0]),
        Which::Poisson(rate(0.4)),
        Which::All,
        Which::FixedSize(3),
    ] {
        let ticket = curator.grant(which, body, bound(1.0, 2), two)?;
        let sum = read(records, &ticket.sample().positions());
        out.push(curator.redeem_norm(ticket, sum, SHIFTS[1])?);
    }
    assert!(
        curator
            .grant(Which::FixedSize(3), body, bound(1.0, 2), two)
            .is_err()
    );
    let ticket = curator.grant_claimed(Which::Next(2), body, &claim(), two)?;
    let output = records[ticket.sample().slice().map_or(0, |s| s.positions().start) as usize];
    out.extend(curator.redeem_claimed(ticket, &output)?);
    let every = Participation::Every;
    let mut period = curator.prefix(PrefixKind::Tree, bound(1.0, 2), 2, two, every)?;
    for _ in 0..2 {
        let ticket = period.grant(Which::All, body, curator)?;
        let sum = read(records, &ticket.sample().positions());
        out.extend(period.redeem(ticket, sum, curator)?);
    }
    let single = Participation::Single;
    let mut period = curator.prefix(PrefixKind::Independent, bound(1.0, 2), 2, two, single)?;
    let ticket = period.grant(Which::Next(1), body, curator)?;
    let sum = read(records, &ticket.sample().positions());
    out.extend(period.redeem(ticket, sum, curator)?);
    let mut ticket = curator.grant_choice(body, bound(1.0, 2), epsilon(0.5))?;
    for shift in SHIFTS {
        let sum = read(records, &ticket.sample().positions());
        ticket.add(sum, shift)?;
    }
    out.push(curator.redeem_choice(ticket)? as f64);
    Ok(out)
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
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        print_of(&with_tickets(&mut curator, &RECORDS).unwrap())
    });
    let recorded = [
        0xe960_6ae1_f895_d8bd,
        0x16b2_f93a_2121_7f62,
        0xd890_381a_c0b3_b2ca,
    ];
    assert_eq!(prints, recorded);
}

/// An audit finds each release with what it reads, and the claim of noise multiplier and epsilon.
#[test]
fn a_replay_finds_what_was_granted() {
    use ReplayedMechanism::{Exponential, Norm, Prefix, Sum};
    use ReplayedReads::{All, Slices};
    let mut neighbour = RECORDS;
    neighbour[1] = [-9.0, 0.1];
    let changed = ChangedRecord::InPlace(1);
    let tape = ReplayForAudits::new(Adjacency::ReplaceOne, 5, changed).unwrap();
    with_tickets(&mut tape.recorder(), &RECORDS).unwrap();
    with_tickets(&mut tape.replayer(), &neighbour).unwrap();
    let found = tape.report();
    assert!(found.divergence.is_none());
    let sampled = || ReplayedReads::Poisson(rate(0.4));
    let of_size = || ReplayedReads::FixedSize {
        size: 3,
        records: 8,
    };
    let period = |kind, participation, steps| Prefix {
        kind,
        len: 2,
        participation,
        steps,
    };
    let expected = [
        (Sum, All),
        (Sum, sampled()),
        (Sum, of_size()),
        (Sum, Slices(vec![0])),
        (Sum, sampled()),
        (Norm, Slices(vec![0])),
        (Norm, sampled()),
        (Norm, All),
        (Norm, of_size()),
        (Sum, Slices(vec![1])),
        (period(PrefixKind::Tree, Participation::Every, 2), All),
        (
            period(PrefixKind::Independent, Participation::Single, 1),
            Slices(vec![2]),
        ),
        (Exponential, All),
    ];
    assert_eq!(found.releases.len(), expected.len());
    for (release, (mechanism, reads)) in found.releases.iter().zip(expected) {
        assert_eq!((release.mechanism, &release.reads), (mechanism, &reads));
        // One over the noise multiplier of 2; the epsilon of the selection is 1/2 too.
        assert!((release.limit - 0.5).abs() < 1e-9);
        assert!(release.displacement <= release.limit);
        // The changed record is in every sample, in the first slice and in no other.
        let read = !matches!(&reads, Slices(slices) if slices != &[0]);
        assert_eq!(release.displacement > 0.0, read, "{mechanism:?} {reads:?}");
    }
}
