//! Audits of the estimators over private means: every refresh rule and batch, the tree of rounds, norms and values.
//! Periods of prefix sums are in `periods`.

use std::fmt::Debug;

use dpopt_oracle::{
    AskError, Batch, Drift, Fresh, Level, Linear, Oracle, PrefixRecursive, Recursive,
    RecursiveSettings, Refresh, Regularized, Regularizer, Scale, Schedule, Segment, Tracked,
    TreeRounds,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, SamplingRate, Spend, Which};

use super::common::{DIM, RELATIONS, noise};
use super::hostile::{HostileMeans, means, on_hostile, private};
use super::{CheckError, CuratorReplay, Hostile, Pair, Ran, Registry, hostile_pairs};

/// Records of runs that read all of them, or samples.
pub(super) const FEW: usize = 6;
/// Records of runs that read slices.
pub(super) const MANY: usize = 14;
/// Estimates asked for.
const STEPS: usize = 13;
/// How far a walk goes along an estimate; so far that steps are shorter than 1, mostly.
const SHORT: f64 = 0.3;

/// A variant of a run, and its records.
pub(super) type Case<V> = (V, Vec<Hostile>);

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        rules(registry, adjacency)?;
        batches(registry, adjacency)?;
        fresh(registry, adjacency)?;
        trees(registry, adjacency)?;
        numbers(registry, adjacency)?;
        regularized(registry, adjacency)?;
    }
    Ok(())
}

/// The hostile pairs, once for each variant.
pub(super) fn cases<V: Copy + Debug>(
    adjacency: Adjacency,
    records: usize,
    variants: &[V],
) -> Vec<Pair<Case<V>>> {
    let mut all = Vec::new();
    for &variant in variants {
        for pair in hostile_pairs(adjacency, records) {
            all.push(Pair {
                name: format!("{variant:?}, {}", pair.name),
                recorded: (variant, pair.recorded),
                replayed: (variant, pair.replayed),
                changed: pair.changed,
            });
        }
    }
    all
}

/// Whether a release on these records can be made at all.
pub(super) fn allowed(batch: Batch, adjacency: Adjacency) -> bool {
    match batch {
        Batch::FixedSize(_) => adjacency == Adjacency::ReplaceOne,
        Batch::Next(_) | Batch::PerLength(_) | Batch::Held(_) => adjacency.record_count_is_public(),
        _ => true,
    }
}

fn slices(batch: Batch) -> bool {
    matches!(batch, Batch::Next(_) | Batch::PerLength(_) | Batch::Held(_))
}

pub(super) fn level(batch: Batch, z: f64) -> Result<Level, CheckError> {
    Ok(Level {
        batch,
        noise_multiplier: noise(z)?,
    })
}

/// An estimate that follows a point, of any kind.
pub(super) trait Follows {
    fn follow(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<Tracked<'_>, AskError>;

    fn new_phase(&mut self);
}

macro_rules! follows {
    ($($kind:ty),+) => {$(
        impl Follows for $kind {
            fn follow(
                &mut self,
                oracle: &mut dyn Oracle,
                point: &[f64],
            ) -> Result<Tracked<'_>, AskError> {
                self.estimate(oracle, point)
            }

            fn new_phase(&mut self) {
                self.begin_phase();
            }
        }
    )+};
}
follows!(Fresh, Recursive, PrefixRecursive, TreeRounds);

/// An estimate, and a regulariser on top.
pub(super) struct On<E>(pub(super) E, pub(super) Regularized);

impl<E: Follows> Follows for On<E> {
    fn follow(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<Tracked<'_>, AskError> {
        let mut tracked = self.0.follow(oracle, point)?;
        tracked.estimate = self.1.plus(tracked.estimate, point);
        Ok(tracked)
    }

    fn new_phase(&mut self) {
        self.0.new_phase();
    }
}

/// What a walk has shown so far.
#[derive(Default)]
pub(super) struct Shown {
    text: String,
    refused: bool,
}

impl Shown {
    fn refusal(&mut self, error: &impl std::fmt::Display) {
        self.text += &error.to_string();
        self.refused = true;
    }
}

/// Reserves `spend`, walks, and settles; shows all that is public.
pub(super) fn track(
    mut oracle: impl Oracle,
    mut estimate: impl Follows,
    spend: &Spend,
) -> Result<Ran, CheckError> {
    let mut shown = begin(&mut oracle, spend)?;
    walk(&mut oracle, &mut estimate, SHORT, &mut shown);
    end(&mut oracle, shown)
}

/// Reserves `spend`, or, where that is refused, releases on all records.
pub(super) fn begin(oracle: &mut dyn Oracle, spend: &Spend) -> Result<Shown, CheckError> {
    let mut shown = Shown::default();
    if let Err(error) = oracle.books().reserve(spend) {
        shown.refusal(&error);
        let whole = vec![
            Event::gaussian(noise(2.0)?).repeated(3),
            Event::gaussian(noise(3.0)?).repeated(3),
        ];
        let whole = Spend::Fixed(Event::composed(whole));
        oracle.books().reserve(&whole)?;
    }
    Ok(shown)
}

/// Walks along the estimates until one is refused, standing still at times, to a point that is not finite, and with a
/// new phase on the way.
pub(super) fn walk(
    oracle: &mut dyn Oracle,
    estimate: &mut dyn Follows,
    pace: f64,
    shown: &mut Shown,
) {
    // No point of this problem.
    if let Err(error) = estimate.follow(oracle, &[]) {
        shown.text += &error.to_string();
    }
    let mut point = vec![0.1; oracle.facts().dim];
    let far = vec![f64::INFINITY; point.len()];
    for step in 0..STEPS {
        if step == 6 {
            estimate.new_phase();
        }
        let at = if step == 9 { &far } else { &point };
        match estimate.follow(oracle, at) {
            Ok(tracked) => {
                shown.text += &format!("{:?} {:?};", tracked.kind, tracked.estimate);
                if step % 4 != 2 {
                    for (w, g) in point.iter_mut().zip(tracked.estimate.gradient) {
                        *w -= pace * g;
                    }
                }
            }
            Err(error) => {
                shown.refusal(&error);
                return;
            }
        }
    }
}

pub(super) fn end(oracle: &mut dyn Oracle, shown: Shown) -> Result<Ran, CheckError> {
    let books = oracle.books();
    Ok(Ran {
        spent: books.settle()?,
        outcome: format!("{} {:?}", shown.text, books.counts()),
        refused: shown.refused,
    })
}

fn every_rule() -> [(&'static str, Refresh); 6] {
    [
        ("every-1", Refresh::every(1)),
        ("every-3", Refresh::every(3)),
        ("by-phase", Refresh::by_phase()),
        ("path", Refresh::on(Drift::Path(0.8))),
        ("squared-path", Refresh::on(Drift::SquaredPath(0.5))),
        ("path-or-every-4", Refresh::on(Drift::Path(2.0)).or_every(4)),
    ]
}

pub(super) fn recursive_settings(
    clip: f64,
    anchor: Batch,
    variation: Batch,
    refresh: Refresh,
) -> Result<RecursiveSettings, CheckError> {
    Ok(RecursiveSettings {
        clip: ClipNorm::new(clip)?,
        anchor: level(anchor, 2.0)?,
        variation: level(variation, 3.0)?,
        refresh,
    })
}

fn recursive_run(
    anchor: Batch,
    variation: Batch,
    records: usize,
    adjacency: Adjacency,
) -> impl Fn(Curator, &Case<Refresh>) -> Result<Ran, CheckError> + Send + Sync {
    move |curator, (refresh, hostile)| {
        let settings = recursive_settings(1.0, anchor, variation, *refresh)?;
        let data = private(hostile, adjacency, records)?;
        // Fewer than the walk would like, where there are many.
        let spend = Schedule::new(records as u64).recursive(&settings, 10, 5);
        let estimate = Recursive::new(DIM, settings)?;
        track(means(&data, curator)?, estimate, &spend.spend())
    }
}

/// Every rule, on all records.
fn rules(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    for (name, rule) in every_rule() {
        registry.add(CuratorReplay::new(
            &format!("recursive/{name}/{adjacency}"),
            "recursive",
            adjacency,
            move |_| cases(adjacency, FEW, &[rule]),
            recursive_run(Batch::All, Batch::All, FEW, adjacency),
        ));
    }
    Ok(())
}

/// Every batch, with a clock and with a drift; with every rule in a full audit.
fn batches(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let rate = SamplingRate::new(0.3)?;
    let pairs = [
        ("poisson", Batch::Poisson(rate), Batch::Poisson(rate)),
        ("everything-poisson", Batch::All, Batch::Poisson(rate)),
        ("fixed-size", Batch::FixedSize(2), Batch::FixedSize(2)),
        ("next", Batch::Next(3), Batch::Next(1)),
        ("per-length", Batch::Next(4), Batch::PerLength(1.5)),
        ("held", Batch::Held(5), Batch::Held(5)),
        ("everything-held", Batch::All, Batch::Held(4)),
        ("next-held", Batch::Next(2), Batch::Held(3)),
    ];
    for (name, anchor, variation) in pairs {
        let records = if slices(anchor) || slices(variation) {
            MANY
        } else {
            FEW
        };
        let both = allowed(anchor, adjacency) && allowed(variation, adjacency);
        let target = CuratorReplay::new(
            &format!("recursive/{name}/{adjacency}"),
            "recursive",
            adjacency,
            move |effort| {
                let all: Vec<Refresh> = every_rule().map(|(_, rule)| rule).to_vec();
                let some = [Refresh::every(4), Refresh::on(Drift::Path(0.8))];
                // Ledgers of samples are integrated for each pair; a refusal doesn't come to a rule.
                let quick = if both && slices(variation) {
                    &some[..]
                } else {
                    &some[..1]
                };
                cases(adjacency, records, effort.pick(quick, &all[..]))
            },
            recursive_run(anchor, variation, records, adjacency),
        );
        registry.add(target.refused_unless(both));
    }
    Ok(())
}

/// One batch of every kind.
fn one_of_each() -> Result<[(&'static str, Batch); 5], CheckError> {
    Ok([
        ("everything", Batch::All),
        ("poisson", Batch::Poisson(SamplingRate::new(0.3)?)),
        ("fixed-size", Batch::FixedSize(2)),
        ("next", Batch::Next(2)),
        ("held", Batch::Held(5)),
    ])
}

fn fresh(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    for (name, batch) in one_of_each()? {
        let records = if slices(batch) { MANY } else { FEW };
        let name = format!("fresh/{name}");
        let target = on_hostile(&name, "fresh", (adjacency, records), move |means| {
            let level = level(batch, 2.0)?;
            let estimate = Fresh::new(DIM, ClipNorm::new(1.0)?, level)?;
            let spend = Schedule::new(records as u64).releases(level, 11);
            track(means, estimate, &spend.spend())
        });
        registry.add(target.refused_unless(allowed(batch, adjacency)));
    }
    Ok(())
}

/// Trees of three levels: the changed record is in the root, in a right child of each depth, and in none.
fn trees(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let rate = SamplingRate::new(0.3)?;
    let all = [
        ("everything", [Batch::All; 3]),
        ("poisson", [Batch::Poisson(rate); 3]),
        ("fixed-size", [Batch::FixedSize(2); 3]),
        ("next", [Batch::Next(3), Batch::Next(2), Batch::Next(1)]),
        (
            "per-length",
            [Batch::Next(3), Batch::PerLength(2.0), Batch::PerLength(1.0)],
        ),
        ("held", [Batch::Held(6); 3]),
    ];
    for (name, batches) in all {
        let records = if slices(batches[0]) { MANY } else { FEW };
        let name = format!("tree-rounds/{name}");
        let target = on_hostile(&name, "tree-rounds", (adjacency, records), move |means| {
            let [root, upper, lower] = batches;
            let levels = vec![level(root, 2.0)?, level(upper, 3.0)?, level(lower, 3.0)?];
            let spend = Schedule::new(records as u64)
                .releases(levels[0], 5)
                .releases(levels[1], 3)
                .releases(levels[2], 5);
            let estimate = TreeRounds::new(DIM, ClipNorm::new(1.0)?, levels)?;
            track(means, estimate, &spend.spend())
        });
        registry.add(target.refused_unless(allowed(batches[0], adjacency)));
    }
    Ok(())
}

/// Norms and values, of a field and of a change, on every kind of records.
fn numbers(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    for (value, what) in [(false, "norm"), (true, "value")] {
        for (name, batch) in one_of_each()? {
            let (name, size) = (format!("released-{what}/{name}"), (adjacency, FEW));
            let target = on_hostile(&name, "released-numbers", size, move |means| {
                numbers_of(means, batch, value)
            });
            // A row of zeros may have a value.
            let none = value && adjacency == Adjacency::ZeroOut;
            registry.add(target.refused_unless(allowed(batch, adjacency) && !none));
        }
    }
    Ok(())
}

fn numbers_of(mut means: HostileMeans<'_>, batch: Batch, value: bool) -> Result<Ran, CheckError> {
    let z = noise(2.0)?;
    let level = level(batch, 2.0)?;
    let spend = Schedule::new(FEW as u64).releases(level, 3).spend();
    let (mut shown, mut refused) = (String::new(), false);
    if let Err(error) = means.books().reserve(&spend) {
        shown = error.to_string();
        refused = true;
        let whole = Event::gaussian(z).repeated(2);
        means.books().reserve(&Spend::Fixed(whole))?;
    }
    let clip = ClipNorm::new(1.0)?;
    let (from, to) = ([0.1; DIM], [0.3, -0.2, 0.1]);
    let displacement: Vec<f64> = to.iter().zip(&from).map(|(a, b)| a - b).collect();
    let segment = Segment::new(&from, &to, &displacement).ok_or("no segment")?;
    let radius = ClipNorm::new(0.5)?;
    let field = Linear::field(&to, clip);
    let change = Linear::change(segment, clip, radius);
    let held = match batch {
        Batch::Held(len) => means.books().take_slice(len).ok(),
        _ => None,
    };
    for of in [field, change, field, change] {
        let over = match (batch, &held) {
            (Batch::All, _) => Which::All,
            (Batch::Poisson(rate), _) => Which::Poisson(rate),
            (Batch::FixedSize(size), _) => Which::FixedSize(size),
            (_, Some(slice)) => Which::Slice(slice),
            (_, None) => Which::Next(2),
        };
        let released = if value {
            let centre = 0.25;
            means.value(&to, centre, radius, over, z)
        } else {
            means.norm(of, &[], over, z)
        };
        match released {
            Ok(number) => shown += &format!("{number:?};"),
            Err(error) => {
                shown += &error.to_string();
                refused = true;
            }
        }
    }
    let counts = means.counts();
    Ok(Ran {
        spent: means.books().settle()?,
        outcome: format!("{shown} {counts:?}"),
        refused,
    })
}

/// A regulariser around a recursive estimate.
fn regularized(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let weight = Scale::new(0.5)?;
    registry.add(CuratorReplay::new(
        &format!("regularized/recursive/{adjacency}"),
        "regularized",
        adjacency,
        move |_| cases(adjacency, FEW, &[Refresh::every(3)]),
        move |curator, (refresh, hostile): &Case<Refresh>| {
            let settings = recursive_settings(1.0, Batch::All, Batch::All, *refresh)?;
            let data = private(hostile, adjacency, FEW)?;
            let added = Regularized::new(Regularizer::Nonconvex(weight));
            let estimate = On(Recursive::new(DIM, settings)?, added);
            let spend = Schedule::new(FEW as u64).recursive(&settings, 5, 5);
            track(means(&data, curator)?, estimate, &spend.spend())
        },
    ));
    Ok(())
}
