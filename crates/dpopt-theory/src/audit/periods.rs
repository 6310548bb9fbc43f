//! Audits of recursive estimates under prefix-sum noise: every kind of noise, anchors inside and apart, several periods,
//! periods that end early, and phases with other settings.

use dpopt_oracle::{
    Batch, Drift, PeriodAnchor, PeriodTerms, PrefixRecursive, PrefixSettings, Refresh, Regularized,
    Regularizer, Scale, Schedule, share_of,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Participation, PrefixKind, SamplingRate};

use super::common::{DIM, RELATIONS, noise};
use super::estimators::{Case, FEW, MANY, On, allowed, begin, cases, end, level, track, walk};
use super::hostile::{means, private};
use super::mechanisms::kinds;
use super::{CheckError, CuratorReplay, Ran, Registry};

/// A walk goes so far along an estimate that the changes of long records are longer than a share.
const LONG: f64 = 2.0;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for (name, kind) in kinds()? {
            periods(registry, name, kind, adjacency)?;
        }
        other_batches(registry, adjacency)?;
        regularized(registry, adjacency)?;
    }
    Ok(())
}

/// Where periods get their anchor from, and when they end early.
#[derive(Debug, Clone, Copy)]
struct Shape {
    apart: bool,
    refresh: Refresh,
    /// Two phases, the second with other settings.
    other_phase: bool,
}

fn shapes() -> Vec<Shape> {
    let shape = |apart, refresh, other_phase| Shape {
        apart,
        refresh,
        other_phase,
    };
    vec![
        // Full periods, one after the other.
        shape(false, Refresh::by_phase(), false),
        shape(true, Refresh::by_phase(), false),
        // Periods that end early.
        shape(false, Refresh::every(3), true),
        shape(true, Refresh::on(Drift::Path(0.8)), true),
    ]
}

/// Four steps at most, of these records.
fn prefix_settings(
    kind: PrefixKind,
    batch: Batch,
    participation: Participation,
    shape: Shape,
    records: usize,
) -> Result<PrefixSettings, CheckError> {
    let read = divisor(batch, records);
    Ok(PrefixSettings {
        clip: ClipNorm::new(1.0)?,
        anchor: if shape.apart {
            PeriodAnchor::Apart(level(batch, 2.5)?)
        } else {
            PeriodAnchor::FirstStep(batch)
        },
        variation: batch,
        period: PeriodTerms {
            kind,
            len: 4,
            participation,
            share: share_of(1.0, read)?,
            noise_multiplier: noise(2.0)?,
        },
        refresh: shape.refresh,
    })
}

/// How many records a step's mean divides by.
fn divisor(batch: Batch, records: usize) -> f64 {
    match batch {
        Batch::Next(len) | Batch::Held(len) | Batch::FixedSize(len) => len as f64,
        Batch::Poisson(rate) => rate.get() * records as f64,
        _ => records as f64,
    }
}

fn period_run(
    kind: PrefixKind,
    batch: Batch,
    participation: Participation,
    records: usize,
    adjacency: Adjacency,
) -> impl Fn(Curator, &Case<Shape>) -> Result<Ran, CheckError> + Send + Sync {
    move |curator, (shape, hostile)| {
        let data = private(hostile, adjacency, records)?;
        let settings = prefix_settings(kind, batch, participation, *shape, records)?;
        let mut means = means(&data, curator)?;
        let mut estimate = PrefixRecursive::new(DIM, settings)?;
        let spend = Schedule::new(records as u64).prefix(&settings, 8)?;
        let mut shown = begin(&mut means, &spend.spend())?;
        walk(&mut means, &mut estimate, LONG, &mut shown);
        if shape.other_phase {
            // Half the share, which shortens what is longer.
            let mut settings = settings;
            settings.period.share = share_of(0.5, divisor(batch, records))?;
            estimate.begin_phase_with(settings)?;
            walk(&mut means, &mut estimate, LONG, &mut shown);
        }
        end(&mut means, shown)
    }
}

/// Periods of one kind: over all records, over slices that are read once, and over the slice of a phase.
fn periods(
    registry: &mut Registry,
    name: &str,
    kind: PrefixKind,
    adjacency: Adjacency,
) -> Result<(), CheckError> {
    let again = Participation::Repeated { most: 4, apart: 1 };
    let reads = [
        ("everything", Batch::All, Participation::Every, FEW),
        ("next", Batch::Next(1), Participation::Single, MANY),
        ("held", Batch::Held(3), again, MANY),
    ];
    for (read, batch, participation, records) in reads {
        let fine = allowed(batch, adjacency);
        if !fine && kind != PrefixKind::Tree {
            continue;
        }
        let target = CuratorReplay::new(
            &format!("recursive-{name}/{read}/{adjacency}"),
            "prefix-recursive",
            adjacency,
            move |effort| {
                let shapes = shapes();
                // A refusal doesn't come to a shape.
                let some = if fine {
                    effort.pick(&shapes[1..3], &shapes[..])
                } else {
                    &shapes[..1]
                };
                cases(adjacency, records, some)
            },
            period_run(kind, batch, participation, records, adjacency),
        );
        registry.add(target.refused_unless(fine));
    }
    Ok(())
}

/// Samples have no place in a period.
fn other_batches(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    for (name, batch) in [
        ("poisson", Batch::Poisson(SamplingRate::new(0.3)?)),
        ("fixed-size", Batch::FixedSize(2)),
    ] {
        registry.add(
            CuratorReplay::new(
                &format!("recursive-prefix-tree/{name}/{adjacency}"),
                "prefix-recursive",
                adjacency,
                move |_| cases(adjacency, FEW, &shapes()[..1]),
                period_run(
                    PrefixKind::Tree,
                    batch,
                    Participation::Every,
                    FEW,
                    adjacency,
                ),
            )
            .refused(),
        );
    }
    Ok(())
}

/// A regulariser around an estimate with periods.
fn regularized(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let weight = Scale::new(0.5)?;
    registry.add(CuratorReplay::new(
        &format!("regularized/prefix-recursive/{adjacency}"),
        "regularized",
        adjacency,
        move |_| cases(adjacency, FEW, &shapes()[1..2]),
        move |curator, (shape, hostile): &Case<Shape>| {
            let data = private(hostile, adjacency, FEW)?;
            let (kind, every) = (PrefixKind::Toeplitz, Participation::Every);
            let settings = prefix_settings(kind, Batch::All, every, *shape, FEW)?;
            let added = Regularized::new(Regularizer::Ridge(weight));
            let estimate = On(PrefixRecursive::new(DIM, settings)?, added);
            let spend = Schedule::new(FEW as u64).prefix(&settings, 3)?;
            track(means(&data, curator)?, estimate, &spend.spend())
        },
    ));
    Ok(())
}
