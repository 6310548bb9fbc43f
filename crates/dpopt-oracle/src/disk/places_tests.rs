//! Every kind of access reads the records at its places, wherever they lie; slices have none in common.
//!
//! Record i is the unit vector e_i, so that a gradient at 0 with hardly any noise says who was read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use dpopt_linalg::{Design, DesignFile, FileEntry, FileLayout, RowFile, RowFileWriter};
use dpopt_privacy::exchange::ThreadRanks;
use dpopt_privacy::{
    Adjacency, Allocation, ClipNorm, Curator, Event, NoiseMultiplier, SamplingRate, Slice, Spend,
    Together, Which,
};
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::ordered::Ordered;
use super::source::{Blocks, ReadBlock};
use super::{ExamplesOnDisk, Stored};
use crate::data::PrivateData;
use crate::error::AskError;
use crate::loss::Glm;
use crate::oracle::PrivateMean;
use crate::positions::{Places, Positions};
use crate::query::Linear;
use crate::seeded;

const ROWS: usize = 120;
const SEED: u64 = 11;
const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

fn norm() -> ClipNorm {
    ClipNorm::new(1.0).unwrap()
}

fn unit_rows(rows: Range<usize>, sparse: bool) -> Design {
    if sparse {
        let mut design = Design::sparse(ROWS).unwrap();
        rows.for_each(|i| design.push_row(&[(i as u32, 1.0)]).unwrap());
        return design;
    }
    let entry = |k: usize| f64::from(u8::from(k % ROWS == k / ROWS));
    Design::dense(
        ROWS,
        (rows.start * ROWS..rows.end * ROWS).map(entry).collect(),
    )
    .unwrap()
}

fn in_memory(rows: Range<usize>, sparse: bool) -> PrivateData {
    let labels = vec![1.0; rows.len()];
    let design = unit_rows(rows, sparse);
    PrivateData::made_up(design, labels, norm(), ADJACENCY, None).unwrap()
}

/// In blocks of so many rows, where the rows are dense.
fn in_a_file(path: &Path, rows: Range<usize>, sparse: bool, block: usize) -> ExamplesOnDisk {
    let design = unit_rows(rows.clone(), sparse);
    let mut writer = RowFileWriter::create(path, &design, 1.0, "")
        .unwrap()
        .with_block_bytes(block * (8 * ROWS + 4));
    writer.push(&design, &vec![1.0; rows.len()]).unwrap();
    writer.finish().unwrap();
    ExamplesOnDisk::new(RowFile::open(path).unwrap(), norm())
}

fn where_they_lie(path: &Path) -> ExamplesOnDisk {
    let entry = |k: usize| f64::from(u8::from(k % ROWS == k / ROWS)).to_le_bytes();
    let bytes: Vec<u8> = (0..ROWS * ROWS).flat_map(entry).collect();
    std::fs::write(path, bytes).unwrap();
    let layout = FileLayout {
        offset: 0,
        rows: ROWS,
        columns: ROWS,
        entry: FileEntry::F64,
    };
    let file = DesignFile::open(path, layout).unwrap();
    ExamplesOnDisk::in_place(file, vec![1.0; ROWS], norm()).unwrap()
}

/// The broken twin: it takes the places of a sample for rows.
struct Unmapped(Ordered);

impl Blocks for Unmapped {
    fn len(&self) -> usize {
        Blocks::len(&self.0)
    }
    fn blocks(&self) -> usize {
        self.0.blocks()
    }
    fn block(&self, k: usize) -> Range<usize> {
        self.0.block(k)
    }
    fn put_in_order(&mut self, seed: u64) -> usize {
        Blocks::put_in_order(&mut self.0, seed)
    }
    fn place_from(&mut self, first: usize) {
        Blocks::place_from(&mut self.0, first);
    }
    fn rows_at(&self, places: &Places<'_>) -> Option<Zeroizing<Vec<u32>>> {
        match places.clone().without_order() {
            Positions::Range(_) => self.0.rows_at(places),
            Positions::Listed(_) => None,
        }
    }
    fn unchanged(&self) -> Result<(), AskError> {
        self.0.unchanged()
    }
    fn reader(&self) -> Box<dyn ReadBlock + '_> {
        self.0.reader()
    }
}

/// Where the records lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Storage {
    Memory { sparse: bool },
    File { sparse: bool, block: usize },
    InPlace,
    OnRanks { ranks: usize },
    FilesOnRanks { ranks: usize },
    Twin,
}

const STORAGES: [Storage; 8] = [
    Storage::Memory { sparse: false },
    Storage::Memory { sparse: true },
    Storage::File {
        sparse: false,
        block: 7,
    },
    Storage::File {
        sparse: false,
        block: ROWS,
    },
    Storage::File {
        sparse: true,
        block: ROWS,
    },
    Storage::InPlace,
    Storage::OnRanks { ranks: 3 },
    Storage::FilesOnRanks { ranks: 2 },
];

impl Storage {
    /// What comes of all records, stored so and in this order; nothing where there is no such order.
    fn with<T: Send>(
        self,
        seed: Option<u64>,
        work: impl Fn(&PrivateData, Curator) -> T + Sync,
    ) -> Option<T> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("rows");
        let on_disk = |rows| PrivateData::made_up_on_disk(rows, ADJACENCY, None).unwrap();
        let ordered = |data: PrivateData| match seed {
            Some(seed) => data.in_random_order(seed).ok(),
            None => Some(data),
        };
        let curator = Curator::simulated(ADJACENCY, 5);
        let data = match self {
            Self::Memory { sparse } => in_memory(0..ROWS, sparse),
            Self::File { sparse, block } => on_disk(in_a_file(&path, 0..ROWS, sparse, block)),
            Self::InPlace => on_disk(where_they_lie(&path)),
            Self::Twin => {
                let rows = in_a_file(&path, 0..ROWS, false, 7);
                let face = rows.face();
                let stored: Box<dyn Stored<_>> = Box::new(Unmapped(rows.rows));
                PrivateData::stored_elsewhere(face, stored, ADJACENCY, ROWS as u64)
            }
            Self::OnRanks { ranks } | Self::FilesOnRanks { ranks } => {
                let on_one = |rank: ThreadRanks| {
                    let together = Together::new(Box::new(rank)).unwrap();
                    let at = |k: usize| ROWS * k / ranks;
                    let rows = at(together.rank())..at(together.rank() + 1);
                    let data = match self {
                        Self::FilesOnRanks { .. } => {
                            let path = path.with_extension(together.rank().to_string());
                            on_disk(in_a_file(&path, rows, false, 7))
                        }
                        _ => in_memory(rows, false),
                    };
                    let data = ordered(data.joined(&together).unwrap())?;
                    let curator = Curator::simulated(ADJACENCY, 5);
                    Some(work(&data, curator.joined(&together).unwrap()))
                };
                let on_one = &on_one;
                return std::thread::scope(|scope| {
                    let all = ThreadRanks::new(ranks, Duration::from_secs(60));
                    let started = all
                        .into_iter()
                        .map(|rank| scope.spawn(move || on_one(rank)));
                    let started: Vec<_> = started.collect();
                    let mut found = started.into_iter().map(|one| one.join().unwrap());
                    found.next().unwrap()
                });
            }
        };
        Some(work(&ordered(data)?, curator))
    }
}

/// One of each kind, on this slice where it is of one. A new kind does not compile until it stands here.
fn next_kind<'s>(last: Option<Which<'s>>, slice: &'s Slice) -> Option<Which<'s>> {
    let rate = SamplingRate::new(0.5).unwrap();
    let steps = Allocation::to_one_of(3);
    Some(match last {
        None => Which::All,
        Some(Which::All) => Which::Poisson(rate),
        Some(Which::Poisson(_)) => Which::FixedSize(37),
        Some(Which::FixedSize(_)) => Which::Truncated(rate, 60),
        Some(Which::Truncated(..)) => Which::Allocated(steps),
        Some(Which::Allocated(_)) => Which::Next(23),
        Some(Which::Next(_)) => Which::Slice(slice),
        Some(Which::Slice(_)) => Which::Sampled(slice, rate),
        Some(Which::Sampled(..)) => Which::AllocatedIn(slice, steps),
        Some(Which::AllocatedIn(..)) => return None,
    })
}

fn kind(number: usize, slice: &Slice) -> Option<Which<'_>> {
    (0..number).fold(next_kind(None, slice), |last, _| next_kind(last, slice))
}

/// Its event, whether a slice pays for it, and what a mean over it is divided by.
fn terms(which: Which<'_>, z: NoiseMultiplier) -> (Event, bool, f64) {
    let (one, all) = (Event::gaussian(z), ROWS as f64);
    match which {
        Which::All => (one, false, all),
        Which::Poisson(rate) => (one.poisson_sampled(rate), false, all * rate.get()),
        Which::FixedSize(size) => {
            let event = Event::SampledWithoutReplacement {
                source_dataset_size: ROWS as u64,
                sample_size: size,
                event: Box::new(one),
            };
            (event, false, size as f64)
        }
        Which::Truncated(rate, most) => {
            let event = Event::TruncatedSubsampledGaussian {
                dataset_size: ROWS as u64,
                sampling_probability: rate,
                truncated_batch_size: most,
                noise_multiplier: z,
            };
            (event, false, all * rate.get())
        }
        Which::Allocated(of) => (of.event(one), false, all * of.share()),
        Which::Next(len) => (one, true, len as f64),
        Which::Slice(slice) => (one, true, slice.len() as f64),
        Which::Sampled(slice, rate) => (
            one.poisson_sampled(rate),
            true,
            slice.len() as f64 * rate.get(),
        ),
        Which::AllocatedIn(slice, of) => (of.event(one), true, slice.len() as f64 * of.share()),
    }
}

/// The first slice of so many records as it is read as a whole, and what `which` reads of the next, or of everything.
struct Reads {
    first: BTreeSet<usize>,
    then: BTreeSet<usize>,
    /// As it was released.
    mean: Vec<f64>,
    /// Of the order that the records are in.
    run: Option<usize>,
}

fn read(
    data: &PrivateData,
    mut curator: Curator,
    len: u64,
    which: impl Fn(&Slice) -> Which<'_>,
) -> Reads {
    let z = NoiseMultiplier::new(1e-6).unwrap();
    curator.open_pool(ROWS as u64, 0).unwrap();
    let slices = [(); 2].map(|()| curator.take_slice(len).unwrap());
    let [first, second] = &slices;
    let which = which(second);
    let (event, on_slice, denominator) = terms(which, z);
    // The first slice is read as a whole.
    let of_slices = |mut events: Vec<Event>| {
        if !events.contains(&Event::gaussian(z)) {
            events.push(Event::gaussian(z));
        }
        Event::ParallelComposed { events }
    };
    let event = match on_slice {
        true => of_slices(vec![event]),
        false => Event::composed(vec![event, of_slices(Vec::new())]),
    };
    curator.reserve(&Spend::Fixed(event)).unwrap();
    let mut means = PrivateMean::new(data, Glm::Hinge, curator).unwrap();
    let query = Linear::field(&[0.0; ROWS], norm());
    let mut release = |which, denominator: f64| {
        let mean = means.release(&query, which, z).unwrap().unwrap().mean;
        let counts = mean.iter().map(|x| -x * denominator);
        let of = |(i, count): (usize, f64)| {
            // Noise of deviation 2e-6.
            assert!((count - count.round()).abs() < 1e-3, "{which:?}: {count}");
            assert!((0.0..1.5).contains(&count.abs()), "{which:?}: {count}");
            (count.round() == 1.0).then_some(i)
        };
        let read: BTreeSet<usize> = counts.enumerate().filter_map(of).collect();
        (read, mean)
    };
    let (first, _) = release(Which::Slice(first), len as f64);
    let (then, mean) = release(which, denominator);
    let run = data.order().map(|order| order.run as usize);
    Reads {
        first,
        then,
        mean,
        run,
    }
}

/// Which kinds of access break the law on this storage, and how many records two slices share there.
///
/// Without an order, places of records in memory are the records; in an order the record at a place is the one that the order names.
fn broken(storage: Storage, seed: Option<u64>) -> Vec<(String, usize)> {
    let mut broken = Vec::new();
    let mut curator = Curator::simulated(ADJACENCY, 1);
    curator.open_pool(ROWS as u64, 0).unwrap();
    let any = curator.take_slice(40).unwrap();
    for (number, which) in (0..).map_while(|number| Some((number, kind(number, &any)?))) {
        let reads = |storage: Storage, seed| {
            storage.with(seed, |data, curator| {
                read(data, curator, 40, |slice| {
                    kind(number, slice).unwrap_or(Which::All)
                })
            })
        };
        let Some(found) = reads(storage, seed) else {
            continue;
        };
        // Sparse entries are in single precision.
        let sparse = match storage {
            Storage::Memory { sparse } | Storage::File { sparse, .. } => sparse,
            Storage::InPlace
            | Storage::OnRanks { .. }
            | Storage::FilesOnRanks { .. }
            | Storage::Twin => false,
        };
        let memory = Storage::Memory { sparse };
        let places = reads(memory, None).unwrap().then;
        let expected: BTreeSet<usize> = match (found.run, seed) {
            (Some(run), Some(seed)) => {
                let row_at = seeded::order(ROWS, run, seed);
                places.iter().map(|&place| row_at[place] as usize).collect()
            }
            _ => places,
        };
        let shared = match terms(which, NoiseMultiplier::new(1.0).unwrap()) {
            (_, true, _) => found.first.intersection(&found.then).count(),
            (_, false, _) => 0,
        };
        // An order of one run is the order of the records in memory.
        let to_the_bit = found.run.is_none_or(|run| run == 1 || run >= ROWS);
        let same = !to_the_bit || found.mean == reads(memory, seed).unwrap().mean;
        if found.then != expected || shared > 0 || !same {
            broken.push((format!("{which:?}"), shared));
        }
    }
    broken
}

#[test]
fn every_access_reads_the_records_at_its_places_on_every_storage() {
    for storage in STORAGES {
        for seed in [None, Some(SEED), Some(12)] {
            let found = broken(storage, seed);
            assert!(found.is_empty(), "{storage:?}, order {seed:?}: {found:?}");
        }
    }
}

/// In an order it reads records of the first slice again, at the price of the second.
#[test]
fn a_storage_that_takes_places_for_rows_is_caught() {
    assert!(broken(Storage::Twin, None).is_empty());
    let found = broken(Storage::Twin, Some(SEED));
    let shared = |kind: &str| {
        let mut all = found.iter();
        all.find(|(of, _)| of.starts_with(kind)).map(|(_, k)| *k)
    };
    assert!(
        shared("Sampled") > Some(0) && shared("AllocatedIn") > Some(0),
        "{found:?}"
    );
    assert!(
        shared("Poisson") == Some(0) && shared("Slice").is_none(),
        "{found:?}"
    );
}

/// The halves of a table, one read as a whole and the other by a sample at rate 1: a record in both would be in two releases and pay for one.
#[test]
fn a_sample_of_one_half_has_no_record_of_the_other() {
    for storage in STORAGES {
        let halves = |data: &PrivateData, curator| {
            let rate = SamplingRate::new(1.0).unwrap();
            read(data, curator, ROWS as u64 / 2, |slice| {
                Which::Sampled(slice, rate)
            })
        };
        if let Some(found) = storage.with(Some(SEED), halves) {
            assert_eq!(
                found.first.intersection(&found.then).count(),
                0,
                "{storage:?}"
            );
            assert_eq!(found.first.len() + found.then.len(), ROWS);
        }
    }
}
