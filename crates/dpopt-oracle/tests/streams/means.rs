//! Single releases: each question over each kind of records, of each loss, and from each store.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, RowFile, RowFileWriter};
use dpopt_oracle::{
    Activation, AskError, Batch, ClosureLoss, Constants, Convexity, Differentiable, ExamplesOnDisk,
    Glm, Head, Linear, Mlp, Momentum, Oracle, PeriodTerms, PrivateData, QuadraticLink, Schedule,
    Segment, Softmax,
};
use dpopt_privacy::{
    Adjacency, Epsilon, Participation, PrefixKind, SamplingRate, Slice, Spend, Which,
};

use crate::ranks;
use crate::run::{
    ADJACENCIES, DIM, LOSS, RECORDS, Told, batch_name, clip, data, declared, labels, level, means,
    points, rows, stored, uniforms, with_selection, z,
};
use crate::table::Table;

const Z: f64 = 0.5;
const RADIUS: f64 = 0.4;

pub(crate) fn all(threads: NonZeroUsize, table: &mut Table) {
    for adjacency in ADJACENCIES {
        questions(adjacency, threads, table);
        least_norms(adjacency, threads, table);
        periods(adjacency, threads, table);
        draws(adjacency, threads, table);
        losses(adjacency, threads, table);
        stores(adjacency, threads, table);
    }
}

/// Which records: as `Which`, but with a slice that is not yet taken.
#[derive(Debug, Clone, Copy)]
enum Reads {
    Everything,
    Poisson,
    FixedSize,
    Next,
    Slice,
}

impl Reads {
    const ALL: [Reads; 5] = [
        Reads::Everything,
        Reads::Poisson,
        Reads::FixedSize,
        Reads::Next,
        Reads::Slice,
    ];

    fn rate() -> SamplingRate {
        SamplingRate::new(0.2).unwrap()
    }

    fn over(self, slice: Option<&Slice>) -> Which<'_> {
        match self {
            Reads::Everything => Which::All,
            Reads::Poisson => Which::Poisson(Self::rate()),
            Reads::FixedSize => Which::FixedSize(40),
            Reads::Next => Which::Next(30),
            Reads::Slice => Which::Slice(slice.unwrap()),
        }
    }

    fn spend(self, releases: u64) -> Spend {
        let schedule = Schedule::new(RECORDS as u64);
        let releases = |batch| schedule.clone().releases(level(batch, Z), releases).spend();
        match self {
            Reads::Everything => releases(Batch::All),
            Reads::Poisson => releases(Batch::Poisson(Self::rate())),
            Reads::FixedSize => releases(Batch::FixedSize(40)),
            Reads::Next => releases(Batch::Next(30)),
            Reads::Slice => releases(Batch::Held(50)),
        }
    }
}

/// What is asked at the t-th of the points.
#[derive(Debug, Clone, Copy)]
enum Question {
    Field,
    ClippedField,
    Change,
    Momentum,
    Norm,
    NormOfChange,
    ShiftedNorm,
    Value,
}

impl Question {
    const ALL: [Question; 8] = [
        Question::Field,
        Question::ClippedField,
        Question::Change,
        Question::Momentum,
        Question::Norm,
        Question::NormOfChange,
        Question::ShiftedNorm,
        Question::Value,
    ];

    fn ask(
        self,
        means: &mut dyn Oracle,
        (from, to): (&[f64], &[f64]),
        over: Which<'_>,
        told: &mut Told,
    ) -> Result<(), AskError> {
        let step: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
        let segment = Segment::new(from, to, &step).unwrap();
        let field = Linear::field(to, clip(1.0));
        let change = Linear::change(segment, clip(0.8), clip(RADIUS));
        let momentum = Momentum::new(0.3).unwrap();
        let shift: Vec<f64> = (0..to.len()).map(|j| 0.1 * j as f64 - 0.2).collect();
        match self {
            Question::Field => told.mean(&means.mean(field, over, z(Z))?),
            Question::ClippedField => {
                let clipped = Linear::field(to, clip(0.15));
                told.mean(&means.mean(clipped, over, z(Z))?);
            }
            Question::Change => told.mean(&means.mean(change, over, z(Z))?),
            Question::Momentum => {
                let ask = Linear::momentum(segment, momentum, clip(0.8), clip(RADIUS));
                told.mean(&means.mean(ask, over, z(Z))?);
            }
            Question::Norm => told.number(means.norm(field, &[], over, z(Z))?),
            Question::NormOfChange => told.number(means.norm(change, &[], over, z(Z))?),
            Question::ShiftedNorm => told.number(means.norm(field, &shift, over, z(Z))?),
            Question::Value => told.number(means.value(to, 0.7, clip(0.5), over, z(Z))?),
        }
        Ok(())
    }
}

/// Three releases of each question over each kind of records.
fn questions(adjacency: Adjacency, threads: NonZeroUsize, table: &mut Table) {
    let (data, points) = (data(adjacency), points(DIM));
    for reads in Reads::ALL {
        for question in Question::ALL {
            let mut means = means(&data, LOSS, threads);
            if means.books().reserve(&reads.spend(3)).is_err() {
                continue;
            }
            let slice = matches!(reads, Reads::Slice).then(|| means.books().take_slice(50));
            // What an adjacency does not allow has no line.
            let Ok(slice) = slice.transpose() else {
                continue;
            };
            let mut told = Told::new();
            let all = [(0, 1), (1, 4), (4, 5)]
                .into_iter()
                .try_for_each(|(from, to)| {
                    let over = reads.over(slice.as_ref());
                    question.ask(&mut means, (&points[from], &points[to]), over, &mut told)
                });
            if all.is_ok() {
                let (spent, counts) = (means.books().settle().unwrap(), means.counts());
                told.line(
                    table,
                    &format!("{question:?} over {reads:?}"),
                    adjacency,
                    &spent,
                    counts,
                );
            }
        }
    }
}

/// A choice among fields, with shifts and without.
fn least_norms(adjacency: Adjacency, threads: NonZeroUsize, table: &mut Table) {
    let (data, points) = (data(adjacency), points(DIM));
    let epsilon = Epsilon::new(0.5).unwrap();
    let shift = [0.3; DIM];
    for (name, shift) in [("without shifts", &[][..]), ("with shifts", &shift[..])] {
        let mut means = means(&data, LOSS, threads);
        means
            .books()
            .reserve(&with_selection(Reads::Everything.spend(1), epsilon))
            .unwrap();
        let at = |k: usize| Linear::field(&points[k], clip(1.0));
        let among: Vec<_> = [0, 1, 4, 5, 6, 7, 8]
            .map(|k| (at(k), if k % 2 == 0 { shift } else { &[] }))
            .to_vec();
        let mut told = Told::new();
        told.text(&means.least_norm(&among, epsilon).unwrap().to_string());
        told.mean(&means.mean(at(3), Which::All, z(Z)).unwrap());
        let (spent, counts) = (means.books().settle().unwrap(), means.counts());
        told.line(
            table,
            &format!("least norm {name}"),
            adjacency,
            &spent,
            counts,
        );
    }
}

/// A field and changes, summed under each noise.
fn periods(adjacency: Adjacency, threads: NonZeroUsize, table: &mut Table) {
    let (data, points) = (data(adjacency), points(DIM));
    for kind in [
        PrefixKind::Independent,
        PrefixKind::Tree,
        PrefixKind::Honaker,
        PrefixKind::Toeplitz,
        PrefixKind::Banded { band: 3 },
    ] {
        for (participation, batch) in [
            (Participation::Every, Batch::All),
            (Participation::Single, Batch::Next(30)),
            (
                Participation::Repeated { most: 4, apart: 2 },
                Batch::Held(50),
            ),
        ] {
            let terms = PeriodTerms {
                kind,
                len: 8,
                participation,
                share: clip(0.02),
                noise_multiplier: z(Z),
            };
            let spend = Schedule::new(RECORDS as u64)
                .periods(batch, &terms, 1)
                .unwrap()
                .spend();
            let mut means = means(&data, LOSS, threads);
            if means.books().reserve(&spend).is_err() {
                continue;
            }
            let Ok(mut period) = means.open_period(&terms) else {
                continue;
            };
            let slices = match batch {
                Batch::Held(len) => (0..2).map(|_| means.books().take_slice(len)).collect(),
                _ => Ok(Vec::new()),
            };
            let Ok(slices) = slices else { continue };
            let mut told = Told::new();
            let mut from = &points[0];
            let all = points[..7].iter().enumerate().try_for_each(|(t, to)| {
                let step: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
                let segment = Segment::new(from, to, &step).unwrap();
                let ask = if t == 0 {
                    Linear::field(to, clip(1.0))
                } else {
                    Linear::change(segment, clip(1.0), clip(RADIUS))
                };
                from = to;
                let over = match batch {
                    Batch::All => Which::All,
                    Batch::Next(len) => Which::Next(len),
                    _ => Which::Slice(&slices[t % 2]),
                };
                means
                    .step(&mut period, ask, over)
                    .map(|sum| told.mean(&sum))
            });
            if all.is_ok() {
                let (spent, counts) = (means.books().settle().unwrap(), means.counts());
                told.line(
                    table,
                    &format!("period, {kind}, {}", batch_name(batch)),
                    adjacency,
                    &spent,
                    counts,
                );
            }
        }
    }
}

/// Public draws between releases.
fn draws(adjacency: Adjacency, threads: NonZeroUsize, table: &mut Table) {
    let (data, points) = (data(adjacency), points(DIM));
    let mut means = means(&data, LOSS, threads);
    means.books().reserve(&Reads::Everything.spend(3)).unwrap();
    let mut told = Told::new();
    for (t, point) in points[..3].iter().enumerate() {
        told.text(&means.books().draw_index(1 << (7 * t + 3)).to_string());
        let mut normals = vec![0.0; 7];
        means.books().draw_normals(&mut normals).unwrap();
        told.numbers(&normals);
        let ask = Linear::field(point, clip(1.0));
        told.mean(&means.mean(ask, Which::All, z(Z)).unwrap());
    }
    let (spent, counts) = (means.books().settle().unwrap(), means.counts());
    told.line(table, "draws between releases", adjacency, &spent, counts);
}

/// One loss: its field, change, momentum, norm and value over all records, and its field over a sample.
fn of_loss<L: Differentiable>(
    name: &str,
    data: &PrivateData<L::Records>,
    loss: impl Fn() -> L,
    threads: NonZeroUsize,
    table: &mut Table,
) {
    for (reads, questions) in [
        (
            Reads::Everything,
            &[
                Question::Field,
                Question::Change,
                Question::Momentum,
                Question::Norm,
                Question::Value,
            ][..],
        ),
        (Reads::Poisson, &[Question::Field]),
    ] {
        let mut means = means(data, loss(), threads);
        means.books().reserve(&reads.spend(10)).unwrap();
        let points = points(means.dim());
        let mut told = Told::new();
        let all = questions.iter().try_for_each(|question| {
            [(1, 4), (4, 5)].into_iter().try_for_each(|(from, to)| {
                question.ask(
                    &mut means,
                    (&points[from], &points[to]),
                    reads.over(None),
                    &mut told,
                )
            })
        });
        if all.is_ok() {
            let (spent, counts) = (means.books().settle().unwrap(), means.counts());
            told.line(
                table,
                &format!("{name} over {reads:?}"),
                data.adjacency(),
                &spent,
                counts,
            );
        }
    }
}

fn losses(adjacency: Adjacency, threads: NonZeroUsize, table: &mut Table) {
    let rows_and_labels = data(adjacency);
    for glm in Glm::ALL {
        of_loss(&format!("{glm}"), &rows_and_labels, || glm, threads, table);
    }
    let classes = (0..RECORDS).map(|i| (i % 3) as f32).collect();
    let classes = stored(
        Design::dense(DIM, rows().concat()).unwrap(),
        classes,
        adjacency,
    );
    of_loss(
        "softmax",
        &classes,
        || Softmax::new(3).unwrap(),
        threads,
        table,
    );
    for activation in Activation::ALL {
        let two_layers = Mlp::new(&[DIM, 4, 3], activation, Head::Softmax).unwrap();
        of_loss(
            &format!("mlp {activation:?}, softmax"),
            &classes,
            || two_layers.clone(),
            threads,
            table,
        );
        let three_layers = Mlp::new(&[DIM, 4, 3, 1], activation, Head::Squared).unwrap();
        of_loss(
            &format!("mlp {activation:?}, squared"),
            &classes,
            || three_layers.clone(),
            threads,
            table,
        );
    }

    let phase = QuadraticLink::phase_retrieval(Glm::Welsch, clip(2.0));
    let bounded = data(adjacency).with_label_bound(clip(1.5));
    of_loss("phase retrieval", &bounded, || phase, threads, table);

    let own = ranks::rows(RECORDS);
    let closure = || {
        ClosureLoss::new(
            DIM,
            Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex),
            |x: &[f64; DIM], w: &[f64]| x.iter().zip(w).map(|(x, w)| (w - x) * (w - x)).sum(),
            |x: &[f64; DIM], w: &[f64], out: &mut [f64]| {
                for ((out, x), w) in out.iter_mut().zip(x).zip(w) {
                    *out += 2.0 * (w - x);
                }
            },
        )
    };
    let any = rows()[own].to_vec();
    let any = PrivateData::made_up_of(any, adjacency, declared(adjacency)).unwrap();
    let any = ranks::joined(any);
    of_loss("closure", &any, closure, threads, table);
}

/// Enough records for several threads.
const MANY: usize = 5_000;

/// The same loss from each kind of rows, in memory and in a file.
fn stores(adjacency: Adjacency, threads: NonZeroUsize, table: &mut Table) {
    let mut next = uniforms(9);
    let numbers: Vec<f64> = (0..MANY * DIM).map(|_| 0.6 * next()).collect();
    let singles = numbers.iter().map(|x| *x as f32).collect();
    let bytes = (0..MANY * DIM).map(|k| (k * 37 % 251) as u8).collect();
    let mut sparse = Design::sparse(DIM).unwrap();
    let mut one_hot = Design::one_hot(DIM, 0.4).unwrap();
    for (i, row) in numbers.chunks(DIM).enumerate() {
        let columns: Vec<u32> = (0..DIM as u32)
            .filter(|j| (i as u32 * 5 + j * j) % 7 < 3)
            .collect();
        let entries: Vec<_> = columns
            .iter()
            .map(|&j| (j, row[j as usize] as f32))
            .collect();
        sparse.push_row(&entries).unwrap();
        one_hot.push_ones(&columns).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let labels: Vec<f32> = labels().into_iter().cycle().take(MANY).collect();
    let own = ranks::rows(MANY);
    let labels = labels[own.clone()].to_vec();
    let own: Vec<u32> = own.map(|i| i as u32).collect();
    let network = Mlp::new(&[DIM, 4, 1], Activation::Tanh, Head::Squared).unwrap();
    for (name, design) in [
        ("dense rows", Design::dense(DIM, numbers.clone()).unwrap()),
        (
            "dense rows in single precision",
            Design::dense32(DIM, singles).unwrap(),
        ),
        ("bytes", Design::bytes(DIM, bytes, 1.0 / 512.0).unwrap()),
        ("sparse rows", sparse),
        ("one-hot rows", one_hot),
    ] {
        let design = design.gathered(&own);
        let declared = (adjacency == Adjacency::AddRemove).then_some(MANY as u64);
        let path = folder.path().join(name);
        let writer = RowFileWriter::create(&path, &design, 1.0, "").unwrap();
        let mut writer = writer.with_block_bytes(1 << 14);
        writer.push(&design, &labels).unwrap();
        writer.finish().unwrap();
        let rows = ExamplesOnDisk::new(RowFile::open(&path).unwrap(), clip(1.0));
        let file = PrivateData::made_up_on_disk(rows, adjacency, declared).unwrap();
        let memory = PrivateData::made_up(design, labels.clone(), clip(1.0), adjacency, declared);
        for (data, place) in [(memory.unwrap(), "memory"), (file, "a file")] {
            let data = ranks::joined(data);
            of_loss(
                &format!("{name} in {place}"),
                &data,
                || LOSS,
                threads,
                table,
            );
            of_loss(
                &format!("{name} in {place}, mlp"),
                &data,
                || network.clone(),
                threads,
                table,
            );
        }
    }
}
