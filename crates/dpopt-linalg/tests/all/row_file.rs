//! A file of rows holds a design and its labels to the bit, and nobody who writes one by hand is believed.

use std::path::{Path, PathBuf};

use dpopt_linalg::{Design, Row, RowFile, RowFileProblem, RowFileWriter, Wanted};
use tempfile::TempDir;

const COLUMNS: usize = 13;

/// Rows of each storage with factors, empty rows and numbers that are none.
fn designs(rows: usize) -> Vec<Design> {
    let number = |i: usize, j: usize| match (i * 31 + j * 17) % 23 {
        0 => f64::NAN,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        k => (k as f64 - 11.0) * 1.1,
    };
    let all = (0..rows).flat_map(|i| (0..COLUMNS).map(move |j| (i, j)));
    let mut bytes = Design::bytes(
        COLUMNS,
        all.clone().map(|(i, j)| (i * 7 + j) as u8).collect(),
        0.25,
    )
    .unwrap();
    let mut sparse = Design::sparse(COLUMNS).unwrap();
    let mut one_hot = Design::one_hot(COLUMNS, -1.5).unwrap();
    for i in 0..rows {
        let columns: Vec<u32> = (0..COLUMNS as u32)
            .filter(|j| (i as u32 * 5 + j * j).is_multiple_of(1 + i as u32 % 4))
            .take(i % 9)
            .collect();
        let entries: Vec<_> = columns
            .iter()
            .map(|&j| (j, number(i, j as usize) as f32))
            .collect();
        sparse.push_row(&entries).unwrap();
        one_hot.push_ones(&columns).unwrap();
        if i % 3 == 0 {
            bytes.scale_row(i, 0.3);
            one_hot.scale_row(i, 0.7);
        }
    }
    let singles = all.clone().map(|(i, j)| number(i, j) as f32).collect();
    vec![
        Design::dense(COLUMNS, all.map(|(i, j)| number(i, j)).collect()).unwrap(),
        Design::dense32(COLUMNS, singles).unwrap(),
        bytes,
        sparse,
        one_hot,
    ]
}

fn labels(rows: usize) -> Vec<f32> {
    let label = |i: usize| if i % 5 == 4 { f32::NAN } else { i as f32 };
    (0..rows).map(label).collect()
}

/// The bits of a row.
fn bits(row: Row<'_>) -> (Vec<u32>, Vec<u64>, u32) {
    match row {
        Row::Dense(x) => (vec![], x.iter().map(|x| x.to_bits()).collect(), 0),
        Row::Dense32(x) => (
            vec![],
            x.iter().map(|x| u64::from(x.to_bits())).collect(),
            1,
        ),
        Row::Bytes(x, f) => (
            vec![],
            x.iter().map(|&x| u64::from(x)).collect(),
            f.to_bits(),
        ),
        Row::Sparse(j, x) => (
            j.to_vec(),
            x.iter().map(|x| u64::from(x.to_bits())).collect(),
            2,
        ),
        Row::OneHot(j, f) => (j.to_vec(), vec![], f.to_bits()),
    }
}

struct Written {
    _folder: TempDir,
    path: PathBuf,
}

fn write(design: &Design, block: usize) -> Written {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    let labels = labels(design.rows());
    let mut writer = RowFileWriter::create(&path, design, 2.5, "a note, größer")
        .unwrap()
        .with_block_bytes(block);
    // In pieces, as a converter does.
    for start in (0..design.rows()).step_by(11) {
        let end = (start + 11).min(design.rows());
        let mut piece = design.without_rows();
        let mut whole = design.without_rows();
        whole.append(design).unwrap();
        for i in start..end {
            match whole.row(i) {
                Row::Sparse(j, x) => {
                    let row: Vec<_> = j.iter().copied().zip(x.iter().copied()).collect();
                    piece.push_row(&row).unwrap();
                }
                _ => {
                    // Pieces of other storages need their factors: all at once.
                    piece = design.without_rows();
                    break;
                }
            }
        }
        if piece.rows() == 0 {
            writer.push(design, &labels).unwrap();
            break;
        }
        writer.push(&piece, &labels[start..end]).unwrap();
    }
    writer.finish().unwrap();
    Written {
        _folder: folder,
        path,
    }
}

#[test]
fn every_storage_comes_back_to_the_bit_whatever_the_blocks_and_the_rows_wanted() {
    for rows in [0, 1, 203] {
        for design in designs(rows) {
            // One row, odd and even numbers of rows, all rows.
            for block in [1, 3 * 108, 4 * 108, 1 << 18] {
                let written = write(&design, block);
                let file = RowFile::open(&written.path).unwrap();
                assert_eq!((file.rows(), file.columns()), (rows, COLUMNS));
                assert_eq!(
                    (file.note(), file.row_norm()),
                    ("a note, größer", Some(2.5))
                );
                let labels = labels(rows);
                let mut seen = 0;
                let (mut found, mut some) = (file.empty(), vec![7.0; 3]);
                let mut reader = file.reader();
                for k in 0..file.blocks() {
                    let all = file.block(k);
                    assert_eq!(all.start, seen);
                    seen = all.end;
                    let odd: Vec<u32> = all
                        .clone()
                        .map(|i| i as u32)
                        .filter(|i| i % 3 == 1)
                        .collect();
                    let last = [all.end as u32 - 1];
                    for wanted in [
                        Wanted::Range(all.clone()),
                        Wanted::Range(all.start..all.end - 1),
                        Wanted::Range(all.end - 1..all.end),
                        Wanted::Listed(&odd),
                        Wanted::Listed(&last),
                    ] {
                        reader.read(k, &wanted, &mut found, &mut some).unwrap();
                        assert_eq!((found.rows(), some.len()), (wanted.len(), wanted.len()));
                        for (at, i) in wanted.iter().enumerate() {
                            assert_eq!(bits(found.row(at)), bits(design.row(i)), "row {i}");
                            assert_eq!(some[at].to_bits(), labels[i].to_bits());
                        }
                        // What is done to a block is gone in the next one.
                        for at in 0..found.rows() {
                            found.scale_row(at, 0.0);
                        }
                    }
                }
                assert_eq!(seen, rows);
                let (whole, again) = file.load().unwrap();
                assert_eq!((whole.rows(), again.len()), (rows, rows));
            }
        }
    }
}

#[test]
fn a_file_that_was_not_finished_is_not_there() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    let design = &designs(5)[3];
    let mut writer = RowFileWriter::create(&path, design, 0.0, "").unwrap();
    writer.push(design, &labels(5)).unwrap();
    let parts = std::fs::read_dir(folder.path()).unwrap();
    let parts: Vec<_> = parts.map(|file| file.unwrap().path()).collect();
    assert!(parts.len() == 1 && parts[0].extension().is_some_and(|end| end == "part"));
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // Labels that don't fit, and rows of another storage.
    let mut writer = RowFileWriter::create(&path, design, 0.0, "").unwrap();
    assert!(writer.push(design, &labels(4)).is_err());
    assert!(writer.push(&designs(5)[0], &labels(5)).is_err());
}

/// The rows are private. A link that somebody planted where a draft might be is not followed, and a
/// file that others may read is replaced by one that they may not.
#[cfg(unix)]
#[test]
fn a_file_of_rows_is_for_its_owner_and_follows_no_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    let other = folder.path().join("other");
    std::fs::write(&other, "untouched").unwrap();
    for name in ["rows.dpr", "rows.dpr.part", ".rows.dpr.part"] {
        symlink(&other, folder.path().join(name)).unwrap();
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for _ in 0..2 {
        let design = &designs(5)[3];
        let mut writer = RowFileWriter::create(&path, design, 0.0, "").unwrap();
        writer.push(design, &labels(5)).unwrap();
        // Also while it is written.
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            let plain = file.file_type().unwrap().is_file();
            if plain && ![&path, &other].contains(&&file.path()) {
                assert_eq!(mode(&file.path()), 0o600);
            }
        }
        writer.finish().unwrap();
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "untouched");
        RowFile::open(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    }
}

fn problem(path: &Path) -> RowFileProblem {
    RowFile::open(path).err().unwrap().problem
}

#[test]
fn every_cut_and_every_addition_is_noticed_when_the_file_is_opened() {
    for design in designs(9) {
        let written = write(&design, 300);
        let whole = std::fs::read(&written.path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&written.path, &whole[..cut]).unwrap();
            let _ = problem(&written.path);
        }
        for more in [&[0u8][..], &[0; 16], &[255; 40]] {
            std::fs::write(&written.path, [&whole, more].concat()).unwrap();
            let _ = problem(&written.path);
        }
    }
}

#[test]
fn whatever_a_byte_of_the_file_is_changed_to_reading_ends_in_rows_or_an_error() {
    for design in designs(9) {
        let written = write(&design, 300);
        let whole = std::fs::read(&written.path).unwrap();
        for at in 0..whole.len() {
            for change in [1, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                std::fs::write(&written.path, &bytes).unwrap();
                let Ok(file) = RowFile::open(&written.path) else {
                    continue;
                };
                if let Ok((rows, labels)) = file.load() {
                    assert_eq!((rows.rows(), labels.len()), (9, 9));
                    let all = vec![1.0; rows.columns()];
                    for i in 0..9 {
                        // Columns are in range, so this does not panic.
                        let _ = rows.row(i).dot(&all);
                    }
                }
            }
        }
    }
}

#[test]
fn sizes_that_overflow_or_promise_too_much_are_refused() {
    let design = &designs(3)[1];
    let written = write(design, 300);
    let whole = std::fs::read(&written.path).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&written.path, &file).unwrap();
        problem(&written.path)
    };
    assert!(matches!(with(0, b"\x93NUMPY"), RowFileProblem::WrongMagic));
    assert!(matches!(with(8, &[2]), RowFileProblem::Version(2)));
    assert!(matches!(with(14, &[1]), RowFileProblem::Header(_)));
    assert!(matches!(with(16, &[255; 8]), RowFileProblem::Unfinished));
    for rows in [u64::MAX - 1, 1 << 62, u64::MAX / 56 + 1] {
        assert!(matches!(
            with(16, &rows.to_le_bytes()),
            RowFileProblem::Header(_)
        ));
    }
    for columns in [0, (1 << 24) + 1, u64::MAX] {
        assert!(matches!(
            with(24, &columns.to_le_bytes()),
            RowFileProblem::Header(_)
        ));
    }
    for norm in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(matches!(
            with(40, &norm.to_le_bytes()),
            RowFileProblem::Header(_)
        ));
    }
    for block in [0u32, u32::MAX] {
        assert!(matches!(
            with(36, &block.to_le_bytes()),
            RowFileProblem::Header(_)
        ));
    }
    assert!(matches!(with(48, &[255; 8]), RowFileProblem::Header(_)));
    assert!(matches!(with(48, &[0, 0, 1]), RowFileProblem::Truncated));
    assert!(matches!(with(12, &[5]), RowFileProblem::Header(_)));
}

#[test]
fn a_file_that_changes_is_noticed() {
    let written = write(&designs(40)[0], 1000);
    let file = RowFile::open(&written.path).unwrap();
    file.unchanged().unwrap();
    let handle = std::fs::OpenOptions::new()
        .write(true)
        .open(&written.path)
        .unwrap();
    let before = handle.metadata().unwrap().modified().unwrap();
    std::io::Write::write_all(&mut &handle, b"\x89").unwrap();
    // The clock of a file system is coarse: a second later, without waiting for it.
    let later = before + std::time::Duration::from_secs(1);
    handle.set_modified(later).unwrap();
    assert!(matches!(
        file.unchanged().unwrap_err().problem,
        RowFileProblem::Changed
    ));
    handle.set_len(500).unwrap();
    assert!(matches!(
        file.load().err().unwrap().problem,
        RowFileProblem::Io(_)
    ));
}
