//! A public order: slices are those of the records in that order, in memory and in a file, and what is read as a whole does not see it.
//!
//! Un-noised sums can't be read. Two simulated curators with the same seed draw the same noise, so equal releases mean equal sums.

use std::num::NonZeroUsize;
use std::path::Path;

use dpopt_linalg::{Design, RowFile, RowFileWriter};
use dpopt_oracle::{
    Answer, AskError, DataError, ExamplesOnDisk, Glm, Linear, Oracle, PrivateData, PrivateMean,
    Question, SmoothedFields, Smoothing,
};
use dpopt_privacy::{Adjacency, Event, PoolError, Refused, Which};
use tempfile::TempDir;

use crate::common::{clip, simulated, z};

const ROWS: usize = 120;
const SEED: u64 = 11;
/// Hardly any noise: records are told apart.
const Z: f64 = 1e-6;

/// Record i alone has entries (1, i + 1)/2^10, and the slope of its hinge is -1.
fn design() -> Design {
    let entries = (0..ROWS).flat_map(|i| [1.0 / 1024.0, (i + 1) as f64 / 1024.0]);
    Design::dense(2, entries.collect()).unwrap()
}

fn in_memory() -> PrivateData {
    let labels = vec![1.0; ROWS];
    PrivateData::made_up(design(), labels, clip(1.0), Adjacency::ReplaceOne, None).unwrap()
}

/// In blocks of so many rows.
fn in_a_file(path: &Path, design: &Design, rows: usize) -> PrivateData {
    let mut writer = RowFileWriter::create(path, design, 1.0, "")
        .unwrap()
        .with_block_bytes(rows * 20);
    writer.push(design, &[1.0; ROWS]).unwrap();
    writer.finish().unwrap();
    let rows = ExamplesOnDisk::new(RowFile::open(path).unwrap(), clip(1.0));
    PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None).unwrap()
}

fn means(data: &PrivateData) -> PrivateMean<'_, Glm> {
    let one = Event::gaussian(z(Z));
    let each = Event::ParallelComposed { events: vec![one] };
    let curator = simulated(Adjacency::ReplaceOne, 5, each);
    PrivateMean::new(data, Glm::Hinge, curator).unwrap()
}

/// Which record stands at each position: the second entry of one gradient at 0.
fn read_one_by_one(data: &PrivateData) -> Vec<usize> {
    let mut means = means(data);
    let origin = vec![0.0; data.dim()];
    let field = Linear::field(&origin, clip(1.0));
    let mut one = |_| {
        let mean = means.mean(field, Which::Next(1), z(Z)).unwrap();
        (-mean.mean[1] * 1024.0).round() as usize - 1
    };
    (0..ROWS).map(&mut one).collect()
}

fn is_permutation(order: &[usize]) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted == (0..ROWS).collect::<Vec<_>>()
}

#[test]
fn positions_are_in_the_order_of_the_seed_and_each_record_has_one() {
    let plain = read_one_by_one(&in_memory());
    assert_eq!(plain, (0..ROWS).collect::<Vec<_>>());
    let mut seen = Vec::new();
    for seed in 0..4 {
        let data = in_memory().in_random_order(seed).unwrap();
        assert_eq!(data.order().map(|order| order.seed), Some(seed));
        let order = read_one_by_one(&data);
        assert!(is_permutation(&order), "{order:?}");
        // Of a random one about one stays where it was; more than 12 have a probability below 1e-9.
        let fixed = order.iter().enumerate().filter(|(i, k)| i == *k).count();
        assert!(fixed <= 12, "{order:?}");
        assert!(!seen.contains(&order));
        seen.push(order);
    }
}

#[test]
fn in_a_file_runs_stay_together() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows");
    for rows in [7, 10, ROWS] {
        let plain = in_a_file(&path, &design(), rows);
        assert_eq!(read_one_by_one(&plain), (0..ROWS).collect::<Vec<_>>());
        let data = in_a_file(&path, &design(), rows)
            .in_random_order(SEED)
            .unwrap();
        assert_eq!(data.order().unwrap().run, rows as u64);
        let order = read_one_by_one(&data);
        assert!(is_permutation(&order), "{order:?}");
        let mut in_turn: Vec<usize> = order.iter().map(|&i| i / rows).collect();
        in_turn.dedup();
        assert_eq!(in_turn.len(), ROWS.div_ceil(rows), "{order:?}");
        let moved = in_turn.windows(2).any(|pair| pair[1] != pair[0] + 1);
        assert_eq!(moved, rows < ROWS);
        std::fs::remove_file(&path).unwrap();
    }
}

/// Blocks of sparse rows end where their entries have them end, so that one record decides where others lie: the order may not follow them.
#[test]
fn the_order_of_a_file_does_not_depend_on_a_record() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows");
    let found = [2, 40].map(|entries| {
        let mut design = Design::sparse(64).unwrap();
        for i in 0..ROWS {
            // The first record is short in one of two neighbours, and long in the other.
            let filled = if i == 0 { entries } else { 2 };
            let entry = |j| {
                if j == 1 {
                    (i + 1) as f32 / 1024.0
                } else {
                    1.0 / 1024.0
                }
            };
            let row: Vec<_> = (0..filled).map(|j| (j, entry(j))).collect();
            design.push_row(&row).unwrap();
        }
        let data = in_a_file(&path, &design, 12);
        let rows = RowFile::open(&path).unwrap();
        let ends: Vec<_> = (0..rows.blocks()).map(|k| rows.block(k).end).collect();
        let order = read_one_by_one(&data.in_random_order(SEED).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(is_permutation(&order), "{order:?}");
        (ends, order)
    });
    assert_ne!(found[0].0, found[1].0, "the blocks moved");
    assert_eq!(found[0].1, found[1].1);
}

/// Each record of a slice has an offset of its own, whatever the order: what goes by position goes by that in the order.
#[test]
fn offsets_are_by_position_in_the_order() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows");
    let file = in_a_file(&path, &design(), ROWS)
        .in_random_order(SEED)
        .unwrap();
    let memory = in_memory().in_random_order(SEED).unwrap();
    let smoothed = |data: &PrivateData| {
        let mut means = means(data);
        let smoothing = Smoothing {
            radius: 3.0,
            lipschitz: 1.0,
            fields: SmoothedFields::Gradients,
            offsets: NonZeroUsize::new(ROWS).unwrap(),
            frames: NonZeroUsize::new(ROWS).unwrap(),
        };
        let field = Linear::field(&[0.0, 500.0], clip(1.0));
        let mut of = |len: u64| {
            let over = Which::Next(len);
            let question = Question::Smoothed {
                of: field,
                smoothing,
                over,
                noise: z(Z),
            };
            match means.answer(question).unwrap() {
                Answer::Mean(mean) => mean.mean,
                _ => panic!("a mean was asked for"),
            }
        };
        [of(31), of(40)]
    };
    assert_eq!(smoothed(&file), smoothed(&memory));
}

/// One record's slices in two orders: each release would be charged to a slice of its own, and the record would pay for one of them. Two
/// Gaussian releases of multiplier z on it cost sqrt 2/z.
#[test]
fn a_curator_meets_no_second_order() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows");
    let ordered = |seed| in_memory().in_random_order(seed).unwrap();
    let (first, plain) = (ordered(3), in_memory());
    let (other, again) = (ordered(4), ordered(3));
    // The same seed, and another order.
    let file = in_a_file(&path, &design(), 10).in_random_order(3).unwrap();
    let origin = [0.0; 2];
    let field = Linear::field(&origin, clip(1.0));
    let mut at_first = means(&first);
    let begun = at_first.mean(field, Which::Next(70), z(Z)).unwrap();
    assert_eq!(begun.mean.len(), 2);
    let held = at_first.books().take_slice(5).unwrap();
    let mut curator = at_first.into_curator();
    for data in [&plain, &other, &file] {
        let mut means = PrivateMean::new(data, Glm::Hinge, curator).unwrap();
        for which in [Which::Next(40), Which::Slice(&held)] {
            let error = means.mean(field, which, z(Z)).unwrap_err();
            let Refused::Pool(PoolError::OtherNumbering { known, asked }) = refused(error) else {
                panic!("another order");
            };
            assert_eq!((known.order, asked.order), (first.order(), data.order()));
        }
        curator = means.into_curator();
        // Nothing was taken.
        assert_eq!(curator.records_left(), 45);
    }
    // The same order of another copy goes on.
    let mut means = PrivateMean::new(&again, Glm::Hinge, curator).unwrap();
    for which in [Which::Slice(&held), Which::Next(45)] {
        means.mean(field, which, z(Z)).unwrap();
    }
}

/// A slice that was taken, and not read, is of the order that it is read in first.
#[test]
fn a_pool_in_the_order_of_the_table_takes_no_other() {
    let (plain, ordered) = (in_memory(), in_memory().in_random_order(3).unwrap());
    let origin = [0.0; 2];
    let field = Linear::field(&origin, clip(1.0));
    let mut means = means(&plain);
    let held = means.books().take_slice(5).unwrap();
    means.mean(field, Which::Slice(&held), z(Z)).unwrap();
    let curator = means.into_curator();
    let mut means = PrivateMean::new(&ordered, Glm::Hinge, curator).unwrap();
    let error = means.mean(field, Which::Next(9), z(Z)).unwrap_err();
    let Refused::Pool(PoolError::OtherNumbering { known, .. }) = refused(error) else {
        panic!("another order");
    };
    assert_eq!(known.order, None);
}

/// A record that is left by one split and left by another, too, has a position in both parts, and a third one in the table.
#[test]
fn a_curator_meets_no_second_part() {
    let split = |seed| in_memory().set_aside(40, seed).unwrap();
    let ((left, held), (other, _), whole) = (split(1), split(2), in_memory());
    let (again, _) = split(1);
    let ordered = split(1).0.in_random_order(3).unwrap();
    let origin = [0.0; 2];
    let field = Linear::field(&origin, clip(1.0));
    let mut at_first = means(&left);
    at_first.mean(field, Which::Next(30), z(Z)).unwrap();
    let slice = at_first.books().take_slice(5).unwrap();
    let mut curator = at_first.into_curator();
    let records_left = curator.records_left();
    for data in [&held, &other, &whole, &ordered] {
        let mut means = PrivateMean::new(data, Glm::Hinge, curator).unwrap();
        for which in [Which::Next(10), Which::Slice(&slice)] {
            let error = means.mean(field, which, z(Z)).unwrap_err();
            let Refused::Pool(PoolError::OtherNumbering { known, asked }) = refused(error) else {
                panic!("another part");
            };
            assert_eq!((known.part, asked.part), (left.part(), data.part()));
            assert_eq!(asked.order, data.order());
        }
        curator = means.into_curator();
        assert_eq!(curator.records_left(), records_left);
    }
    let mut means = PrivateMean::new(&again, Glm::Hinge, curator).unwrap();
    means.mean(field, Which::Slice(&slice), z(Z)).unwrap();
}

fn refused(error: AskError) -> Refused {
    match error {
        AskError::Refused(refused) => refused,
        other => panic!("{other}"),
    }
}

#[test]
fn a_second_order_and_one_without_positions_are_refused() {
    let data = in_memory().in_random_order(3).unwrap();
    let error = data.in_random_order(4).err();
    assert_eq!(error, Some(DataError::InOrder { seed: 3 }));
    // Whoever has a curator with slices of one order gets no other.
    let data = in_memory();
    let _ = means(&data);
    let error = data.in_random_order(4).err();
    assert_eq!(error, Some(DataError::OrderTooLate));
    let size = Some(ROWS as u64);
    let labels = vec![1.0; ROWS];
    let data = PrivateData::made_up(design(), labels, clip(1.0), Adjacency::AddRemove, size);
    let error = data.unwrap().in_random_order(3).err();
    assert_eq!(error, Some(DataError::NoOrder(Adjacency::AddRemove)));
}
