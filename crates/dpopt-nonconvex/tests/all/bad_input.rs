//! Mechanisms that can't be, in one table: each is refused by type, with its numbers, before anything is drawn.

use std::error::Error;

use dpopt_nonconvex::{Batches, DpMfPlan, DpMfSettings};
use dpopt_privacy::accounting::group::Group;
use dpopt_privacy::{
    Accountant, Adjacency, Bound, ClipNorm, Curator, Event, MAX_NODES, Participation, PrefixKind,
    SamplingRate,
};

use crate::common::{budget, facts, z};

type Case = (
    &'static str,
    fn() -> Result<(), Box<dyn Error>>,
    &'static [&'static str],
);

fn planned(change: fn(&mut DpMfSettings)) -> Result<(), Box<dyn Error>> {
    let mut settings = DpMfSettings {
        epochs: 4,
        batch: 10,
        sampling_rate: None,
        batches: Batches::Poisson,
        band: None,
        step_size: 0.5,
        momentum: 0.9,
        cool_down: 0.0,
        clip: 1.0,
    };
    change(&mut settings);
    DpMfPlan::with_settings(&facts(4, 100), &budget(1.0), settings, 1000)?;
    Ok(())
}

/// Opens a period of 12 steps; whatever comes of it, nothing was spent.
fn opened(kind: PrefixKind, participation: Participation) -> Result<(), Box<dyn Error>> {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let bound = Bound::new(ClipNorm::new(1.0)?, 2)?;
    let period = curator.prefix(kind, bound, 12, z(1.0), participation).err();
    assert_eq!(curator.spent(), Event::NoOp);
    match period {
        Some(refused) => Err(refused.into()),
        None => Ok(()),
    }
}

fn accounted(event: &Event) -> Result<(), Box<dyn Error>> {
    Accountant::least(event, budget(1.0).delta, Adjacency::ZeroOut)?;
    Ok(())
}

fn allocated(steps: u64, participations: u64) -> Event {
    Event::RandomAllocation {
        num_steps: steps,
        num_participations: participations,
        event: Box::new(Event::gaussian(z(1.0))),
    }
}

fn truncated(most: u32) -> Event {
    Event::TruncatedSubsampledGaussian {
        dataset_size: 1000,
        sampling_probability: SamplingRate::new(0.1).unwrap(),
        truncated_batch_size: most,
        noise_multiplier: z(1.0),
    }
}

/// What is refused, and what its message names.
const CASES: [Case; 12] = [
    (
        "bands longer than the run",
        || planned(|s| s.band = Some(41)),
        &["band", "41", "40"],
    ),
    (
        "bands longer than a cycle of samples",
        || {
            planned(|s| {
                s.sampling_rate = SamplingRate::new(0.2).ok();
                s.band = Some(11);
            })
        },
        &["band", "11", "10"],
    ),
    (
        "samples that bands bring together",
        || {
            opened(
                PrefixKind::Banded { band: 5 },
                Participation::Sampled { apart: 4 },
            )
        },
        &["4", "5"],
    ),
    (
        "samples under a tree",
        || opened(PrefixKind::Tree, Participation::Sampled { apart: 4 }),
        &["4", "12"],
    ),
    (
        "samples no step apart",
        || opened(PrefixKind::Independent, Participation::Sampled { apart: 0 }),
        &["0"],
    ),
    (
        "no participation",
        || {
            opened(
                PrefixKind::Independent,
                Participation::Repeated { most: 0, apart: 3 },
            )
        },
        &["0", "3"],
    ),
    (
        "more participations than steps",
        || accounted(&allocated(5, 6)),
        &["6"],
    ),
    (
        "no participation in an allocation",
        || accounted(&allocated(5, 0)),
        &["0"],
    ),
    (
        "a truncation below the mean batch",
        || accounted(&truncated(99)),
        &["99"],
    ),
    (
        "a schedule of more than a million events",
        || {
            let many = vec![Event::gaussian(z(1.0)); MAX_NODES as usize];
            accounted(&Event::composed(vec![Event::composed(many), Event::NoOp]))
        },
        &["1000000"],
    ),
    (
        "a group larger than the data",
        || {
            Group::of(11, 10)?;
            Ok(())
        },
        &["11", "10"],
    ),
    (
        "a group of nobody",
        || {
            Group::of(0, 10)?;
            Ok(())
        },
        &["one"],
    ),
];

#[test]
fn what_cannot_be_is_refused_with_its_numbers() {
    for (name, make, named) in CASES {
        let Err(refused) = make() else {
            panic!("{name} was accepted");
        };
        let message = refused.to_string();
        for word in named {
            assert!(message.contains(word), "{name}: `{message}` lacks {word}");
        }
    }
    // The same within its limits.
    for make in [
        || planned(|s| s.band = Some(40)),
        || {
            opened(
                PrefixKind::Banded { band: 4 },
                Participation::Sampled { apart: 4 },
            )
        },
        || accounted(&allocated(6, 2)),
        || accounted(&truncated(150)),
    ] as [fn() -> Result<(), Box<dyn Error>>; 4]
    {
        make().unwrap();
    }
}
