//! Audits of every query of a private mean, of losses of several shapes, and of records on disk.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use dpopt_linalg::{RowFile, RowFileWriter};
use dpopt_oracle::query::{
    BallGradient, Directional, Directions, Frames, HessianMatrix, HessianVector,
    HessianVectorDifference, Offsets, RowAverage, Slopes, SmoothedDifference, SmoothedGradient,
    Value, ValueChange,
};
use dpopt_oracle::{
    Activation, AskError, Batch, ClassWeights, ClosureLoss, Constants, Convexity, Differentiable,
    ExamplesOnDisk, Glm, Head, Linear, Mlp, Momentum, Network, Oracle as _, PrivateData,
    PrivateMean, Quantile, Query, Recursive, Refresh, Schedule, Segment, Softmax, Weighted,
};
use dpopt_privacy::{
    Adjacency, ChangedRecord, ClipNorm, Curator, Event, NoiseMultiplier, SamplingRate, Spend, Which,
};

use super::common::{DIM, RELATIONS, declared, noise};
use super::estimators::{level, recursive_settings, track};
use super::hostile::{HostileMeans, on_hostile, private};
use super::labelled::{Labelled, NOBODY, ROWS, design, examples, labelled_pairs};
use super::{
    CheckError, CuratorReplay, Effort, Hostile, HostileLoss, Pair, Ran, Registry, hostile_pairs,
};

const RECORDS: usize = 6;
/// So many rows are in three blocks of positions.
const BLOCKS: usize = 258;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for (what, release) in QUERIES {
            query(registry, (what, release), adjacency)?;
        }
        losses(registry, adjacency)?;
        perceptrons_in_blocks(registry, adjacency)?;
        on_disk(registry, adjacency)?;
    }
    Ok(())
}

const FROM: &[f64; DIM] = &[0.1; DIM];
const POINT: &[f64; DIM] = &[0.3, -0.2, 0.1];
const DIRECTION: &[f64; DIM] = &[0.6, 0.0, 0.8];
const SMOOTHING: f64 = 0.1;

/// Means that are asked, over these records, with what is drawn for some queries.
struct Ask<'m, 'd> {
    means: &'m mut HostileMeans<'d>,
    over: Which<'m>,
    drawn: (&'m Frames, &'m Directions, &'m Offsets),
    clip: ClipNorm,
    half: ClipNorm,
    segment: Segment<'m>,
    z: NoiseMultiplier,
}

impl Ask<'_, '_> {
    fn shown(&mut self, query: &impl Query<HostileLoss>) -> Result<String, CheckError> {
        Ok(shown(self.means, query, self.over))
    }
}

type Release = fn(&mut Ask<'_, '_>) -> Result<String, CheckError>;

/// The queries there are, with the names that rows have.
const QUERIES: [(&str, Release); 19] = [
    ("gradient", |ask| ask.shown(&Linear::field(POINT, ask.clip))),
    ("gradient-difference", |ask| {
        ask.shown(&Linear::change(ask.segment, ask.clip, ask.half))
    }),
    ("momentum", |ask| {
        let momentum = Momentum::new(0.3)?;
        ask.shown(&Linear::momentum(ask.segment, momentum, ask.clip, ask.half))
    }),
    ("value", |ask| {
        ask.shown(&Value {
            point: POINT,
            centre: 0.25,
            radius: ask.clip,
        })
    }),
    ("value-change", |ask| {
        let of = ValueChange {
            from: FROM,
            to: POINT,
            radius: ask.half,
        };
        Ok(said(ask.means.value_change(of, ask.over, ask.z)))
    }),
    ("directional", |ask| {
        let of = Directional {
            point: POINT,
            direction: DIRECTION,
            radius: ask.half,
        };
        Ok(said(ask.means.directional(of, ask.over, ask.z)))
    }),
    ("hessian-vector", |ask| {
        ask.shown(&HessianVector {
            point: POINT,
            direction: DIRECTION,
            radius: Some(ask.half),
        })
    }),
    ("hessian-vector-difference", |ask| {
        ask.shown(&HessianVectorDifference {
            from: FROM,
            to: POINT,
            direction: DIRECTION,
            radius: Some(ask.half),
        })
    }),
    ("hessian-matrix", |ask| {
        ask.shown(&HessianMatrix {
            point: POINT,
            radius: ask.clip,
        })
    }),
    // The whole one by a question, as a walk asks.
    ("hessian", |ask| {
        let of = HessianMatrix {
            point: POINT,
            radius: ask.clip,
        };
        Ok(said(ask.means.hessian(of, ask.over, ask.z)))
    }),
    // A product by a question, as an episode asks.
    ("hessian-product", |ask| {
        let of = HessianVector {
            point: POINT,
            direction: &[0.6, 0.0, -0.8],
            radius: Some(ask.clip),
        };
        Ok(said(ask.means.hessian_vector(of, ask.over, ask.z)))
    }),
    ("smoothed-gradient", |ask| {
        ask.shown(&SmoothedGradient {
            point: POINT,
            smoothing: SMOOTHING,
            frames: ask.drawn.0,
            clip: ask.clip,
        })
    }),
    ("smoothed-difference", |ask| {
        ask.shown(&SmoothedDifference {
            segment: ask.segment,
            smoothing: SMOOTHING,
            frames: ask.drawn.0,
            radius: Some(ask.half),
        })
    }),
    ("slopes", |ask| {
        ask.shown(&Slopes {
            point: POINT,
            directions: ask.drawn.1,
            smoothing: SMOOTHING,
            clip: ask.clip,
        })
    }),
    ("ball-gradient", |ask| {
        ask.shown(&BallGradient {
            point: POINT,
            offsets: ask.drawn.2,
            clip: ask.clip,
        })
    }),
    ("row-average", |ask| {
        let field = Linear::field(POINT, ask.clip);
        ask.shown(&RowAverage::new(field, ask.half))
    }),
    ("row-average-difference", |ask| row_difference(ask, 1.0)),
    ("row-average-difference-short", |ask| {
        row_difference(ask, 1e-9)
    }),
    ("row-average-difference-least", |ask| {
        row_difference(ask, 1e-300)
    }),
];

/// Over a move of this length from the origin, where the shortest still leads to another point. L =
/// 1, and the radius is the move over r.
fn row_difference(ask: &mut Ask<'_, '_>, length: f64) -> Result<String, CheckError> {
    let (from, to) = ([0.0; DIM], [length, 0.0, 0.0]);
    let segment = Segment::new(&from, &to, &to).ok_or("no segment")?;
    let change = Linear::change(segment, ask.clip, ClipNorm::new(length / ask.half.get())?);
    ask.shown(&RowAverage::new(change, ask.half))
}

/// A value may stand on a row of zeros, and directions go by position.
fn allowed(name: &str, adjacency: Adjacency) -> bool {
    match name {
        "value" => adjacency != Adjacency::ZeroOut,
        "smoothed-gradient" | "smoothed-difference" | "ball-gradient" => {
            adjacency.record_count_is_public()
        }
        _ => true,
    }
}

/// What a release shows, or its refusal after an exclamation mark.
fn shown<L: Differentiable>(
    means: &mut PrivateMean<'_, L>,
    query: &impl Query<L>,
    over: Which<'_>,
) -> String {
    match noise(2.0) {
        Ok(z) => said(means.release(query, over, z)),
        Err(error) => format!("!{error};"),
    }
}

fn said(released: Result<impl std::fmt::Debug, AskError>) -> String {
    match released {
        Ok(released) => format!("{released:?};"),
        Err(refused) => format!("!{refused};"),
    }
}

/// One query on all records, on samples and on unread records, each once more than is reserved.
fn query(
    registry: &mut Registry,
    (what, release): (&'static str, Release),
    adjacency: Adjacency,
) -> Result<(), CheckError> {
    let rate = SamplingRate::new(0.3)?;
    let name = format!("query/{what}");
    let target = on_hostile(&name, "queries", (adjacency, RECORDS), move |mut means| {
        let level = |batch| level(batch, 2.0);
        let mut schedule = Schedule::new(RECORDS as u64).releases(level(Batch::All)?, 2);
        schedule = schedule.releases(level(Batch::Poisson(rate))?, 1);
        let mut all = vec![Which::All, Which::Poisson(rate)];
        if adjacency == Adjacency::ReplaceOne && what == "gradient" {
            schedule = schedule.releases(level(Batch::FixedSize(2))?, 1);
            all.push(Which::FixedSize(2));
        }
        if adjacency.record_count_is_public() {
            schedule = schedule.releases(level(Batch::Next(2))?, 1);
            all.extend([Which::Next(2), Which::Next(4)]);
        }
        let curator = means.books().curator_mut();
        curator.reserve(&schedule.spend())?;
        let frames = Frames::draw(curator, DIM, NonZeroUsize::MIN.saturating_add(1))?;
        let two = NonZeroUsize::MIN.saturating_add(1);
        let directions = Directions::draw(curator, DIM, two)?;
        let offsets = Offsets::draw(curator, DIM, 0.1, two)?;
        let displacement: Vec<f64> = POINT.iter().zip(FROM).map(|(a, b)| a - b).collect();
        let segment = Segment::new(FROM, POINT, &displacement).ok_or("no segment")?;
        let (clip, half, z) = (ClipNorm::new(1.0)?, ClipNorm::new(0.5)?, noise(2.0)?);
        let mut outcome = String::new();
        for over in all.iter().chain(&[Which::All, Which::All]) {
            outcome += &release(&mut Ask {
                means: &mut means,
                over: *over,
                drawn: (&frames, &directions, &offsets),
                clip,
                half,
                segment,
                z,
            })?;
        }
        Ok(Ran {
            spent: means.curator().spent(),
            refused: !allowed(what, adjacency) && !outcome.contains("Some("),
            outcome: format!("{outcome} {:?}", means.counts()),
        })
    });
    registry.add(target.refused_unless(allowed(what, adjacency)));
    Ok(())
}

/// A clip that is shorter than most gradients at the start.
const SHORT: f64 = 0.2;

/// Anchors and variations of any loss, on all records.
fn recursive<L: Differentiable>(
    data: &PrivateData<L::Records>,
    loss: L,
    curator: Curator,
) -> Result<Ran, CheckError> {
    let settings = recursive_settings(SHORT, Batch::All, Batch::All, Refresh::every(3))?;
    let means = PrivateMean::new(data, loss, curator)?;
    let estimate = Recursive::new(means.dim(), settings)?;
    let spend = Schedule::new(data.public_records()).recursive(&settings, 5, 5);
    track(means, estimate, &spend.spend())
}

/// A replay of recursive estimates of a loss on labelled rows.
fn on_rows<L: Differentiable<Records = dpopt_oracle::Examples> + Send + Clone + 'static>(
    registry: &mut Registry,
    name: &str,
    adjacency: Adjacency,
    loss: L,
) {
    registry.add(CuratorReplay::new(
        &format!("loss/{name}/{adjacency}"),
        "losses",
        adjacency,
        move |_| labelled_pairs(adjacency),
        move |curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, adjacency, ROWS)?;
            recursive(&data, loss.clone(), curator)
        },
    ));
}

fn losses(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    for (name, loss) in [
        ("logistic", Glm::Logistic),
        ("welsch", Glm::Welsch),
        ("hinge", Glm::Hinge),
        ("relu", Glm::Relu),
        ("poisson", "poisson:3".parse()?),
    ] {
        on_rows(registry, name, adjacency, loss);
    }
    let softmax = Softmax::new(3).ok_or("no classes")?;
    on_rows(registry, "softmax", adjacency, softmax);
    let factors = ClassWeights::of_signs(0.5, 4.0)?;
    let weighted = Weighted::new(Glm::Logistic, factors);
    on_rows(registry, "weighted-logistic", adjacency, weighted);
    let factors = ClassWeights::of_classes(vec![4.0, 1.0, 0.5])?;
    let weighted = Weighted::new(softmax, factors);
    on_rows(registry, "weighted-softmax", adjacency, weighted);
    on_rows(registry, "perceptron-squared", adjacency, perceptron(1)?);
    on_rows(registry, "perceptron-softmax", adjacency, perceptron(3)?);
    let logistic = Head::Scalar(Glm::Logistic);
    let mlp = Mlp::new(&[DIM, 3, 2, 1], Activation::Relu, logistic)?;
    on_rows(registry, "perceptron-logistic", adjacency, mlp);
    for (name, activation, head) in [
        (
            "network-pinball",
            Activation::Relu,
            Glm::Pinball(Quantile::new(0.9)?),
        ),
        ("network-logistic", Activation::Silu, Glm::Logistic),
    ] {
        on_rows(
            registry,
            name,
            adjacency,
            Network::new(4, activation, head)?,
        );
    }
    // Says that it is constant, and jumps; what it answers is too long, or nothing at all.
    registry.add(CuratorReplay::new(
        &format!("loss/lying-closure/{adjacency}"),
        "losses",
        adjacency,
        move |_| hostile_pairs(adjacency, RECORDS),
        move |curator, records: &Vec<Hostile>| {
            let constants = Constants::new(1e-3, 1e-3, 0.0, Convexity::Convex);
            let loss = ClosureLoss::new(
                DIM,
                constants,
                |record: &Hostile, point: &[f64]| record.sign * point[0],
                |record: &Hostile, point: &[f64], out: &mut [f64]| record.add_gradient(point, out),
            );
            recursive(&private(records, adjacency, RECORDS)?, loss, curator)
        },
    ));
    Ok(())
}

fn perceptron(outputs: usize) -> Result<Mlp, CheckError> {
    let head = if outputs == 1 {
        Head::Squared
    } else {
        Head::Softmax
    };
    Ok(Mlp::new(&[DIM, 4, outputs], Activation::Tanh, head)?)
}

/// Gradients of perceptrons, summed by products of floating-point blocks where positions are fixed and by exact
/// products under add-remove: over all records and samples; records change at the ends of blocks.
fn perceptrons_in_blocks(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let mlp = perceptron(1)?;
    let rate = SamplingRate::new(0.3)?;
    let z = noise(2.0)?;
    let clip = ClipNorm::new(0.5)?;
    registry.add(CuratorReplay::new(
        &format!("query/perceptron-blocks/{adjacency}"),
        "queries",
        adjacency,
        move |effort| pairs_of_blocks(adjacency, effort),
        move |mut curator, records: &Vec<Labelled>| {
            let gaussian = Event::gaussian(z);
            let sampled = gaussian.clone().poisson_sampled(rate);
            let spend = Event::composed(vec![gaussian.repeated(2), sampled]);
            curator.reserve(&Spend::Fixed(spend))?;
            let data = examples(design(records)?, adjacency, BLOCKS)?;
            let mut means = PrivateMean::new(&data, mlp.clone(), curator)?;
            let mut point = mlp.initial_point(3);
            let mut outcome = String::new();
            for over in [Which::All, Which::Poisson(rate), Which::All] {
                outcome += &shown(&mut means, &Linear::field(&point, clip), over);
                // A point at which all weights are large.
                point.iter_mut().for_each(|w| *w *= 30.0);
            }
            Ok(Ran::of(means.curator(), outcome))
        },
    ));
    Ok(())
}

fn pairs_of_blocks(adjacency: Adjacency, effort: Effort) -> Vec<Pair<Vec<Labelled>>> {
    let positions: &[usize] = effort.pick(
        &[0, 127, 128, 255, 256, 257],
        &[0, 1, 63, 64, 127, 128, 200, 255, 256, 257],
    );
    let few = labelled_pairs(Adjacency::ReplaceOne);
    // The contents of the first position, of which there are as many as data sets and contents.
    let contents = few
        .iter()
        .filter(|pair| pair.changed == ChangedRecord::InPlace(0))
        .filter_map(|pair| {
            let (one, two) = (pair.recorded.first()?, pair.replayed.first()?);
            Some((pair.name.clone(), *one, *two))
        });
    let mut pairs = Vec::new();
    for (name, one, two) in contents {
        for &at in positions {
            let base = |i: usize| -> Labelled {
                let x = (i as f64 * 0.7).sin();
                ([x, 0.4 - 0.3 * x, 0.5 * x * x], (i % 3) as f32)
            };
            let with = |record: Labelled| {
                let mut all: Vec<Labelled> = (0..BLOCKS).map(base).collect();
                all[at] = record;
                all
            };
            let without = || {
                let mut all = with(NOBODY);
                all.remove(at);
                all
            };
            let place = at as u64;
            let (recorded, replayed, changed) = match adjacency {
                Adjacency::ReplaceOne => (with(one), with(two), ChangedRecord::InPlace(place)),
                Adjacency::AddRemove => (with(two), without(), ChangedRecord::Removed(place)),
                _ => (with(one), with(NOBODY), ChangedRecord::InPlace(place)),
            };
            pairs.push(Pair {
                name: format!("{name}, really at {at}"),
                recorded,
                replayed,
                changed,
            });
        }
    }
    pairs
}

/// A file of made-up rows, which goes when this does.
struct Kept {
    path: PathBuf,
}

static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

impl Kept {
    fn new(records: &[Labelled]) -> Result<Self, CheckError> {
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let name = format!("dpopt-audit-{}-{number}.rows", std::process::id());
        let kept = Self {
            path: std::env::temp_dir().join(name),
        };
        let (design, labels) = design(records)?;
        let writer = RowFileWriter::create(&kept.path, &design, 0.0, "made up")?;
        // Three rows to a block.
        let mut writer = writer.with_block_bytes(90);
        writer.push(&design, &labels)?;
        writer.finish()?;
        Ok(kept)
    }

    fn open(&self, adjacency: Adjacency) -> Result<PrivateData, CheckError> {
        let file = RowFile::open(&self.path)?;
        let on_disk = ExamplesOnDisk::new(file, ClipNorm::new(1.0)?);
        Ok(PrivateData::made_up_on_disk(
            on_disk,
            adjacency,
            declared(adjacency, ROWS),
        )?)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A file that stays behind holds nothing of anybody.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Rows on disk in the recorded run, and a neighbour of them in memory: whatever is public must be the same, and the
/// sums as near as those of neighbours are.
fn on_disk(registry: &mut Registry, adjacency: Adjacency) -> Result<(), CheckError> {
    let rate = SamplingRate::new(0.3)?;
    for (name, batch) in [
        ("everything", Batch::All),
        ("poisson", Batch::Poisson(rate)),
        ("next", Batch::Next(2)),
    ] {
        let fine = !matches!(batch, Batch::Next(_)) || adjacency.record_count_is_public();
        let target = CuratorReplay::new(
            &format!("on-disk/{name}/{adjacency}"),
            "on-disk",
            adjacency,
            move |effort| disk_pairs(adjacency, effort),
            move |curator, (stored, records): &(bool, Vec<Labelled>)| {
                let kept = if *stored {
                    Some(Kept::new(records)?)
                } else {
                    None
                };
                let data = match &kept {
                    Some(kept) => kept.open(adjacency)?,
                    None => examples(design(records)?, adjacency, ROWS)?,
                };
                let settings = recursive_settings(SHORT, batch, batch, Refresh::every(3))?;
                let means = PrivateMean::new(&data, Glm::Sigmoid, curator)?;
                let estimate = Recursive::new(means.dim(), settings)?;
                let spend = Schedule::new(ROWS as u64).recursive(&settings, 5, 5);
                track(means, estimate, &spend.spend())
            },
        );
        registry.add(target.refused_unless(fine));
    }
    Ok(())
}

/// Every eleventh of the pairs (files take their time), on disk first and then in memory, or the other way round.
fn disk_pairs(adjacency: Adjacency, effort: Effort) -> Vec<Pair<(bool, Vec<Labelled>)>> {
    let all = labelled_pairs(adjacency).into_iter().enumerate();
    all.filter(|(number, _)| effort == Effort::Full || number % 11 == 0)
        .map(|(number, pair)| Pair {
            name: pair.name,
            recorded: (number % 2 == 0, pair.recorded),
            replayed: (number % 2 == 1, pair.replayed),
            changed: pair.changed,
        })
        .collect()
}
