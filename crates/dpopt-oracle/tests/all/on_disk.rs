//! Examples in a file contribute what they do in memory, to the bit.
//!
//! Un-noised sums can't be read. Two simulated curators with the same seed draw the same noise and the same samples, so equal
//! releases mean equal sums.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use dpopt_linalg::{Design, DesignFile, FileEntry, FileLayout, JlMap, RowFile, RowFileWriter};
use dpopt_oracle::query::{Frames, SmoothedGradient};
use dpopt_oracle::{
    Activation, AskError, Constants, ConvexGlm, Convexity, DataError, Differentiable,
    EstimatorError, Example, Examples, ExamplesOnDisk, Glm, Head, Loss, Mlp, Momentum,
    OutputPerturbed, Positions, PrivateData, PrivateGradient, PrivateMean, QuadraticLink, Softmax,
};
use dpopt_privacy::{
    Adjacency, Allocation, Curator, Event, LatticeSum, NoiseMultiplier, SamplingRate, Spend, Which,
};
use tempfile::TempDir;

use crate::common::{clip, z};

const DIM: usize = 19;
/// For four threads the public number must be above 3 * 2048.
const ROWS: usize = 6301;

fn number(i: usize, j: usize) -> f64 {
    if j == 3 && i % 997 == 5 {
        return f64::NAN;
    }
    // Lengths around the bound of 1, some far above it.
    ((i * 73 + j * 29 + i * j) % 101) as f64 / if i.is_multiple_of(7) { 10.0 } else { 300.0 } - 0.11
}

fn designs(rows: usize) -> Vec<Design> {
    let all = (0..rows).flat_map(|i| (0..DIM).map(move |j| number(i, j)));
    let bytes = (0..rows * DIM).map(|k| (k * 37 % 251) as u8).collect();
    let mut sparse = Design::sparse(DIM).unwrap();
    let mut one_hot = Design::one_hot(DIM, 0.4).unwrap();
    for i in 0..rows {
        let columns: Vec<u32> = (0..DIM as u32)
            .filter(|j| (i as u32 * 5 + j * j) % 7 < 2)
            .collect();
        let row: Vec<_> = columns
            .iter()
            .map(|&j| (j, number(i, j as usize) as f32))
            .collect();
        sparse.push_row(&row).unwrap();
        one_hot.push_ones(&columns).unwrap();
    }
    vec![
        Design::dense(DIM, all.clone().collect()).unwrap(),
        Design::dense32(DIM, all.map(|x| x as f32).collect()).unwrap(),
        Design::bytes(DIM, bytes, 1.0 / 512.0).unwrap(),
        sparse,
        one_hot,
    ]
}

fn labels(rows: usize) -> Vec<f32> {
    (0..rows)
        .map(|i| match i % 11 {
            10 => f32::INFINITY,
            k => [1.0, 0.0, 2.0, -1.0][k % 4],
        })
        .collect()
}

fn in_memory(design: &Design) -> PrivateData {
    let labels = labels(design.rows());
    let data = PrivateData::made_up(
        design.clone(),
        labels,
        clip(1.0),
        Adjacency::ReplaceOne,
        None,
    );
    data.unwrap().with_label_bound(clip(1.5))
}

fn write(path: &Path, design: &Design, block: usize) {
    let mut writer = RowFileWriter::create(path, design, 1.0, "")
        .unwrap()
        .with_block_bytes(block);
    writer.push(design, &labels(design.rows())).unwrap();
    writer.finish().unwrap();
}

fn from_file(path: &Path) -> PrivateData {
    let rows = ExamplesOnDisk::new(RowFile::open(path).unwrap(), clip(1.0));
    let data = PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None).unwrap();
    data.with_label_bound(clip(1.5))
}

const Z: f64 = 1e-3;

/// A gradient, a difference, and both in a step of recursive momentum.
fn releases<L: Differentiable<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    access: Which<'static>,
    threads: usize,
) -> Vec<Vec<f64>> {
    let z = z(Z);
    let event = match access {
        Which::Poisson(rate) => Event::gaussian(z).poisson_sampled(rate),
        Which::FixedSize(size) => Event::SampledWithoutReplacement {
            source_dataset_size: ROWS as u64,
            sample_size: size,
            event: Box::new(Event::gaussian(z)),
        },
        Which::Truncated(rate, most) => Event::TruncatedSubsampledGaussian {
            dataset_size: ROWS as u64,
            sampling_probability: rate,
            truncated_batch_size: most,
            noise_multiplier: z,
        },
        Which::Allocated(of) => of.event(Event::gaussian(z)),
        _ => Event::gaussian(z),
    };
    let mut estimator = PrivateGradient::clipped(
        data,
        loss,
        Curator::simulated(Adjacency::ReplaceOne, 7),
        clip(0.3),
    )
    .unwrap()
    .reading(access, access)
    .with_threads(NonZeroUsize::new(threads).unwrap());
    estimator.reserve(&Spend::Fixed(event.repeated(3))).unwrap();
    let point: Vec<f64> = (0..estimator.mean().dim())
        .map(|j| (j as f64).sin())
        .collect();
    let anchor = estimator.refresh(&point, z).unwrap().gradient.to_vec();
    let next: Vec<f64> = point.iter().map(|x| 1.25 * x).collect();
    let moved = estimator.advance(&next, z).unwrap().gradient.to_vec();
    let momentum = Momentum::new(0.3).unwrap();
    let back = estimator.advance_with_momentum(&point, momentum, z);
    let back = back.unwrap().gradient.to_vec();
    vec![anchor, moved, back]
}

#[test]
fn every_storage_block_access_and_number_of_threads_gives_the_sums_of_memory() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    for design in designs(ROWS) {
        let memory = in_memory(&design);
        // Odd and even numbers of rows, one of them a single block.
        for (block, threads) in [(5000, 1), (9999, 2), (20_000, 3), (1 << 20, 4), (5000, 4)] {
            write(&path, &design, block);
            let file = from_file(&path);
            assert_eq!((file.dim(), file.public_records()), (DIM, ROWS as u64));
            for access in [
                Which::All,
                Which::Poisson(SamplingRate::new(0.001).unwrap()),
                Which::Poisson(SamplingRate::new(0.6).unwrap()),
                Which::FixedSize(1),
                Which::FixedSize(37),
                Which::FixedSize(ROWS as u64),
                Which::Truncated(SamplingRate::new(0.02).unwrap(), ROWS as u32 / 40),
                Which::Allocated(Allocation::to_one_of(3)),
                Which::Allocated(Allocation {
                    steps: 5,
                    participations: 2,
                }),
            ] {
                let expected = releases(&memory, Glm::Logistic, access, 1);
                let found = releases(&file, Glm::Logistic, access, threads);
                assert_eq!(found, expected, "{access:?}, {threads} threads");
            }
        }
    }
}

/// A loss of one's own, record by record, that panics on some records.
struct Own;

impl Loss for Own {
    type Records = Examples;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        record.row.dot(point).cos()
    }
}

impl Differentiable for Own {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        assert!(record.row.dot(point) < 0.5);
        let factor = record.norm + record.label;
        record.row.for_each(|j, entry| out[j] += entry * factor);
    }
}

#[test]
fn other_losses_and_queries_by_position_do_not_see_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    for design in designs(1201) {
        let memory = in_memory(&design);
        write(&path, &design, 4001);
        let file = from_file(&path);
        let full = Which::All;
        for glm in Glm::ALL {
            assert_eq!(
                releases(&file, glm, full, 2),
                releases(&memory, glm, full, 1)
            );
        }
        let softmax = || Softmax::new(3).unwrap();
        assert_eq!(
            releases(&file, softmax(), full, 1),
            releases(&memory, softmax(), full, 1)
        );
        let phase = || QuadraticLink::phase_retrieval(Glm::Welsch, clip(2.0));
        assert_eq!(
            releases(&file, phase(), full, 1),
            releases(&memory, phase(), full, 1)
        );
        assert_eq!(
            releases(&file, Own, full, 1),
            releases(&memory, Own, full, 1)
        );
        // Frames go by the position among all records, in a sample too.
        let smoothed = |data: &PrivateData, over: Which<'_>, event: Event| {
            let z = z(Z);
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
            let frames = Frames::draw(&mut curator, DIM, NonZeroUsize::new(7).unwrap()).unwrap();
            curator.reserve(&Spend::Fixed(event)).unwrap();
            let mut mean = PrivateMean::new(data, Glm::Welsch, curator).unwrap();
            let point = vec![0.1; DIM];
            let query = SmoothedGradient {
                point: &point,
                smoothing: 0.1,
                frames: &frames,
                clip: clip(1.0),
            };
            mean.release(&query, over, z).unwrap().unwrap().mean
        };
        let z = z(Z);
        let rate = SamplingRate::new(0.05).unwrap();
        for (over, event) in [
            (Which::All, Event::gaussian(z)),
            (
                Which::Poisson(rate),
                Event::gaussian(z).poisson_sampled(rate),
            ),
        ] {
            assert_eq!(
                smoothed(&file, over, event.clone()),
                smoothed(&memory, over, event)
            );
        }
    }
}

/// A perceptron without sums in blocks of fixed positions.
struct NoBlocks(Mlp);

impl Loss for NoBlocks {
    type Records = Examples;

    fn dim(&self, records: &Examples) -> usize {
        self.0.dim(records)
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.0.constants_on(records)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        self.0.value(record, point)
    }
}

impl Differentiable for NoBlocks {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        self.0.gradient(record, point, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        self.0.add_gradients(records, positions, point, sum);
    }
}

/// In memory, and where positions are fixed, gradients of perceptrons are added in blocks in single precision. The blocks of a
/// file are others, so there they are added in double precision, and the two sums are close, not equal.
#[test]
fn perceptrons_in_a_file_are_those_in_memory_without_blocks() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    let mlp = || Mlp::new(&[DIM, 5, 3], Activation::Tanh, Head::Softmax).unwrap();
    let full = Which::All;
    for design in designs(1201) {
        let memory = in_memory(&design);
        write(&path, &design, 4001);
        let file = releases(&from_file(&path), mlp(), full, 2);
        assert_eq!(file, releases(&memory, NoBlocks(mlp()), full, 1));
        let blocks = releases(&memory, mlp(), full, 1);
        assert!(file != blocks, "no blocks in memory");
        // Gradients are 0.3 long; 0.2 % of it is cut off in blocks, single precision is far better than 0.1 %.
        let apart = file[0].iter().zip(&blocks[0]).map(|(a, b)| (a - b).powi(2));
        assert!(apart.sum::<f64>().sqrt() < 0.003 * 0.3);
    }
}

#[test]
fn what_needs_records_in_memory_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    write(&path, &designs(20)[0], 4001);
    let data = from_file(&path);
    let map = JlMap::gaussian(4, DIM, 1).unwrap();
    assert_eq!(
        data.embedded(&map, clip(1.0)).err(),
        Some(DataError::InAFile)
    );
    let loss = ConvexGlm::new(Glm::Logistic).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let passes = OutputPerturbed::new(&data, loss, curator);
    assert!(matches!(passes.err(), Some(EstimatorError::InAFile)));
}

#[test]
fn dense_rows_in_place_give_the_sums_of_memory() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("raw");
    let numbers: Vec<f64> = (0..ROWS * DIM).map(|k| number(k / DIM, k % DIM)).collect();
    let bytes: Vec<u8> = (0..ROWS * DIM).map(|k| (k * 37 % 251) as u8).collect();
    let kinds = [
        FileEntry::F64,
        FileEntry::F32,
        FileEntry::U8 { scale: 1.0 / 512.0 },
    ];
    for (design, entry) in designs(ROWS).iter().zip(kinds) {
        let content: Vec<u8> = match entry {
            FileEntry::F64 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            FileEntry::F32 => numbers
                .iter()
                .flat_map(|x| (*x as f32).to_le_bytes())
                .collect(),
            _ => bytes.clone(),
        };
        std::fs::write(&path, [&[9; 13][..], &content].concat()).unwrap();
        let layout = FileLayout {
            offset: 13,
            rows: ROWS,
            columns: DIM,
            entry,
        };
        let open = || DesignFile::open(&path, layout).unwrap();
        assert_eq!(
            ExamplesOnDisk::in_place(open(), labels(ROWS - 1), clip(1.0)).err(),
            Some(DataError::LabelCount)
        );
        let rows = ExamplesOnDisk::in_place(open(), labels(ROWS), clip(1.0)).unwrap();
        let file = PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None)
            .unwrap()
            .with_label_bound(clip(1.5));
        let memory = in_memory(design);
        for access in [
            Which::All,
            Which::Poisson(SamplingRate::new(0.02).unwrap()),
            Which::FixedSize(501),
        ] {
            assert_eq!(
                releases(&file, Glm::Logistic, access, 4),
                releases(&memory, Glm::Logistic, access, 1)
            );
        }
    }
}

#[test]
fn no_records_are_data_where_their_number_is_private() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    for design in designs(0) {
        write(&path, &design, 1000);
        let open = || ExamplesOnDisk::new(RowFile::open(&path).unwrap(), clip(1.0));
        assert_eq!(
            PrivateData::made_up_on_disk(open(), Adjacency::ReplaceOne, None).err(),
            Some(DataError::Empty(Adjacency::ReplaceOne))
        );
        let file = PrivateData::made_up_on_disk(open(), Adjacency::AddRemove, Some(10)).unwrap();
        let memory =
            PrivateData::made_up(design, vec![], clip(1.0), Adjacency::AddRemove, Some(10))
                .unwrap();
        let run = |data| {
            let z = NoiseMultiplier::new(1.0).unwrap();
            let curator = Curator::simulated(Adjacency::AddRemove, 1);
            let mut estimator = PrivateGradient::new(data, Glm::Logistic, curator).unwrap();
            estimator
                .reserve(&Spend::Fixed(Event::gaussian(z)))
                .unwrap();
            estimator.refresh(&[0.0; DIM], z).unwrap().gradient.to_vec()
        };
        assert_eq!(run(&file), run(&memory));
    }
}

#[test]
fn a_file_that_changes_between_two_passes_is_refused_before_the_second_is_charged() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    let design = &designs(ROWS)[0];
    type Change = fn(&std::fs::File);
    let changes: [Change; 3] = [
        |file| file.set_len(5000).unwrap(),
        |mut file| file.write_all(&[0x89]).unwrap(),
        |file| file.set_len(1 << 22).unwrap(),
    ];
    let mut texts = Vec::new();
    for change in changes {
        write(&path, design, 5000);
        let data = from_file(&path);
        let z = NoiseMultiplier::new(1.0).unwrap();
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator).unwrap();
        let event = Event::gaussian(z).repeated(2);
        estimator.reserve(&Spend::Fixed(event)).unwrap();
        estimator.refresh(&[0.0; DIM], z).unwrap();
        let written = OpenOptions::new().write(true).open(&path).unwrap();
        let before = written.metadata().unwrap().modified().unwrap();
        change(&written);
        // The clock of a file system is coarse: a second later, without waiting for it.
        let later = before + std::time::Duration::from_secs(1);
        written.set_modified(later).unwrap();
        let refused = estimator.refresh(&[0.0; DIM], z).err().unwrap();
        assert!(matches!(
            refused,
            AskError::Unreadable {
                kind: ErrorKind::InvalidData,
                ..
            }
        ));
        texts.push(refused.to_string());
        assert_eq!(estimator.counts().releases, 1);
        let spent = estimator.settle().unwrap();
        assert_eq!(
            spent.to_string(),
            Event::gaussian(z).repeated(1).to_string()
        );
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
}
