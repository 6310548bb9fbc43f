//! Rows in a file are the rows in memory, bit for bit, however they are read.

use std::io::Write;
use std::path::PathBuf;

use dpopt_linalg::{Design, DesignFile, DesignFileError, FileEntry, FileLayout, Row};
use proptest::prelude::*;
use tempfile::TempDir;

const ENTRIES: [FileEntry; 3] = [
    FileEntry::F64,
    FileEntry::F32,
    FileEntry::U8 { scale: 0.25 },
];

/// Entry (i, j) of the matrix that the tests write: a byte, so that every storage holds it.
fn value(i: usize, j: usize) -> u8 {
    ((i * 131 + j * 37) % 251) as u8
}

struct Written {
    _folder: TempDir,
    path: PathBuf,
    layout: FileLayout,
}

fn write(rows: usize, columns: usize, offset: u64, entry: FileEntry) -> Written {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows");
    let mut bytes = vec![0xa5; offset as usize];
    for i in 0..rows {
        for j in 0..columns {
            let x = value(i, j);
            match entry {
                FileEntry::F64 => bytes.extend(f64::from(x).to_le_bytes()),
                FileEntry::F32 => bytes.extend(f32::from(x).to_le_bytes()),
                _ => bytes.push(x),
            }
        }
    }
    std::fs::File::create(&path)
        .unwrap()
        .write_all(&bytes)
        .unwrap();
    let layout = FileLayout {
        offset,
        rows,
        columns,
        entry,
    };
    Written {
        _folder: folder,
        path,
        layout,
    }
}

fn assert_rows(block: &Design, positions: impl ExactSizeIterator<Item = usize>, entry: FileEntry) {
    assert_eq!(block.rows(), positions.len());
    for (k, i) in positions.enumerate() {
        let same = match (block.row(k), entry) {
            (Row::Dense(x), FileEntry::F64) => {
                (0..x.len()).all(|j| x[j].to_bits() == f64::from(value(i, j)).to_bits())
            }
            (Row::Dense32(x), FileEntry::F32) => {
                (0..x.len()).all(|j| x[j].to_bits() == f32::from(value(i, j)).to_bits())
            }
            (Row::Bytes(x, scale), FileEntry::U8 { .. }) => {
                scale == 0.25 && (0..x.len()).all(|j| x[j] == value(i, j))
            }
            _ => false,
        };
        assert!(same, "row {i}, read as row {k} of a block, {entry:?}");
    }
}

#[test]
fn every_cut_into_blocks_gives_the_same_rows() {
    for entry in ENTRIES {
        let written = write(257, 13, 77, entry);
        let file = DesignFile::open(&written.path, written.layout).unwrap();
        for size in [1, 2, 7, 64, 256, 257, 1000] {
            let mut reader = file.reader();
            for start in (0..257).step_by(size) {
                let rows = start..(start + size).min(257);
                let block = reader.block(rows.clone()).unwrap();
                assert_rows(block, rows, entry);
                // What a caller does to a block is gone in the next one.
                for i in 0..block.rows() {
                    block.scale_row(i, 0.0);
                }
            }
        }
        assert_eq!(file.reader().block(5..5).unwrap().rows(), 0);
    }
}

#[test]
fn threads_share_one_file() {
    let written = write(4000, 50, 3, FileEntry::F32);
    let file = DesignFile::open(&written.path, written.layout).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let file = &file;
            scope.spawn(move || {
                let mut reader = file.reader();
                for start in (t * 10..4000).step_by(40) {
                    let block = reader.block(start..start + 10).unwrap();
                    assert_rows(block, start..start + 10, FileEntry::F32);
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn gathered_rows_are_the_rows_at_those_positions(
        positions in proptest::collection::vec(0u32..3000, 0..200),
        sorted: bool,
        columns in 1usize..600,
        kind in 0usize..3,
    ) {
        let entry = ENTRIES[kind];
        let written = write(3000, columns.min(if kind == 0 { 60 } else { 600 }), 11, entry);
        let file = DesignFile::open(&written.path, written.layout).unwrap();
        let mut positions = positions;
        if sorted {
            positions.sort_unstable();
        }
        let mut reader = file.reader();
        let block = reader.gather(&positions).unwrap();
        assert_rows(block, positions.iter().map(|&i| i as usize), entry);
    }
}

#[test]
fn what_is_not_there_is_an_error_with_the_numbers() {
    let written = write(10, 3, 5, FileEntry::F32);
    let open = |layout| DesignFile::open(&written.path, layout);
    let more = FileLayout {
        rows: 11,
        ..written.layout
    };
    assert!(matches!(
        open(more),
        Err(DesignFileError::TooShort {
            needed: 137,
            found: 125,
            rows: 11,
            columns: 3,
            ..
        })
    ));
    // Lengths whose product overflows are refused, not wrapped.
    for (rows, columns, offset) in [
        (usize::MAX, 4, 0),
        (1 << 62, 1, 0),
        (1, 3, u64::MAX - 3),
        (usize::MAX / 3 + 1, 3, 0),
    ] {
        let layout = FileLayout {
            rows,
            columns,
            offset,
            ..written.layout
        };
        assert!(matches!(
            open(layout),
            Err(DesignFileError::TooLarge { .. })
        ));
    }
    let none = FileLayout {
        columns: 0,
        ..written.layout
    };
    assert!(matches!(open(none), Err(DesignFileError::Design { .. })));
    let scale = FileLayout {
        entry: FileEntry::U8 { scale: f32::NAN },
        ..written.layout
    };
    assert!(matches!(open(scale), Err(DesignFileError::Design { .. })));
    let file = open(written.layout).unwrap();
    let mut reader = file.reader();
    assert!(matches!(
        reader.block(3..11),
        Err(DesignFileError::OutOfRange {
            row: 10,
            rows: 10,
            ..
        })
    ));
    assert!(reader.gather(&[1, 10]).is_err());
    // Cut short behind our back.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&written.path)
        .unwrap()
        .set_len(60)
        .unwrap();
    assert!(reader.block(0..4).is_ok());
    assert!(matches!(
        reader.block(3..10),
        Err(DesignFileError::Read { .. })
    ));
}
