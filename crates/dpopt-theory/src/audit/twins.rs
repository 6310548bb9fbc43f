//! Controls of the audits themselves: mistakes around the real curator, and noise that one run must
//! find too small.

use dpopt_privacy::{Adjacency, ChangedRecord, Event, LatticeSum, Spend, Which};

use super::common::{DELTA, bound, noise};
use super::mechanisms::release_sum;
use super::{AuditTape, CheckError, Claim, CuratorReplay, OneRun, Pair, Ran, Registry};

const GROUP: &str = "twins";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    real_curator(registry)?;
    one_run(registry)
}

/// Mistakes around the real curator: what its assumptions rule out, and a ledger that forgets.
fn real_curator(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ZeroOut;
    let z = noise(4.0)?;
    let pairs = || {
        vec![Pair {
            name: "one record".to_owned(),
            recorded: vec![1.0],
            replayed: vec![0.0],
            changed: ChangedRecord::InPlace(0),
        }]
    };
    for (name, times, forget) in [
        ("record-added-twice/replay", 2, false),
        ("ledger-forgets-a-release/replay", 1, true),
    ] {
        registry.add(
            CuratorReplay::new(
                name,
                GROUP,
                adjacency,
                move |_| pairs(),
                move |mut curator, data: &Vec<f64>| {
                    curator.reserve(&Spend::Fixed(Event::gaussian(z).repeated(2)))?;
                    for _ in 0..2 {
                        let mut sum = LatticeSum::new(bound(1)?);
                        for x in data {
                            for _ in 0..times {
                                sum.add_scaled(1.0, &[*x]);
                            }
                        }
                        release_sum(&mut curator, Which::All, sum, z)?;
                    }
                    let spent = curator.spent();
                    Ok(Ran {
                        spent: if forget { Event::gaussian(z) } else { spent },
                        outcome: String::new(),
                        refused: false,
                    })
                },
            )
            .control(),
        );
    }
    Ok(())
}

/// One run sees half the noise where the claim is an epsilon of 2 or so, and a hundredth of it anywhere.
fn one_run(registry: &mut Registry) -> Result<(), CheckError> {
    for (name, mu, factor) in [
        ("half-the-noise/one-run", 0.4483, 0.5),
        ("a-hundredth-of-the-noise/one-run", 0.2367, 0.01),
    ] {
        registry.add(
            OneRun::new(
                name,
                GROUP,
                Claim::gaussian(mu, DELTA)?,
                (100_000, 200_000),
                move |canaries, seed| {
                    let exact: Vec<f64> =
                        canaries.iter().map(|&x| f64::from(u8::from(x))).collect();
                    Ok(AuditTape::recording(seed).gaussian(&exact, factor / mu))
                },
            )
            .control(),
        );
    }
    Ok(())
}
