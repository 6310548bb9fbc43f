//! NPY and IDX: files as NumPy writes them, and files as nobody should.

use dpopt_data::formats::{
    Array, FormatError, HeaderProblem, MAX_COLUMNS, idx_rows, npy_rows, read_idx, read_idx_from,
    read_npy, read_npy_from,
};
use dpopt_linalg::{Design, FileEntry, Row};

use crate::support::{dense, gzip, idx, npy};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// A file of NumPy 2.4.6: its first bytes, the dictionary (padded to 128 bytes in all, as NumPy
/// pads it), the entries.
fn numpy(start: &str, dictionary: &str, entries: &str) -> Vec<u8> {
    let mut bytes = hex(start);
    bytes.extend(dictionary.as_bytes());
    bytes.resize(127, b' ');
    bytes.push(b'\n');
    bytes.extend(hex(entries));
    bytes
}

const V1: &str = "934e554d505901007600";
const F4: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
const F4_ENTRIES: &str = "0000c03f000010c06042a20dcdcccc3de6b1617f00000080";

fn rows(array: Array) -> Vec<Vec<f64>> {
    dense(&array.into_design(1.0).unwrap())
}

fn read(bytes: &[u8]) -> Result<Array, FormatError> {
    read_npy_from(bytes, "x.npy")
}

fn error(bytes: &[u8]) -> FormatError {
    read(bytes).err().expect("an error")
}

#[test]
fn files_of_numpy_are_read_as_numpy_reads_them() {
    for start in [V1, "934e554d5059020074000000", "934e554d5059030074000000"] {
        let array = read(&numpy(start, F4, F4_ENTRIES)).unwrap();
        let Row::Dense32(_) = array.into_design(1.0).unwrap().row(0) else {
            panic!("single precision stays so");
        };
        let found = rows(read(&numpy(start, F4, F4_ENTRIES)).unwrap());
        let expected = [[1.5f32, -2.25, 1e-30], [0.1, 3e38, -0.0]];
        for (found, expected) in found.iter().zip(&expected) {
            let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x)).collect();
            assert_eq!(*found, expected);
        }
    }
    let big = numpy(
        V1,
        "{'descr': '>f8', 'fortran_order': False, 'shape': (2, 2), }",
        "3fd5555555555555fe4ddd4baa009303400921fb54442d180000000000000000",
    );
    let expected = [[1.0 / 3.0, -2.5e300], [std::f64::consts::PI, 0.0]];
    assert_eq!(rows(read(&big).unwrap()), expected);
    let fortran = numpy(
        V1,
        "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }",
        "010070fefefff40103000080",
    );
    let expected = [[1.0, -2.0, 3.0], [-400.0, 500.0, -32768.0]];
    assert_eq!(rows(read(&fortran).unwrap()), expected);
    let images = numpy(
        V1,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3), }",
        "000102030405060708090a0b",
    );
    let array = read(&images).unwrap();
    assert_eq!((array.rows(), array.columns()), (2, 6));
    let design = array.into_design(0.5).unwrap();
    let Row::Bytes(row, 0.5) = design.row(1) else {
        panic!("bytes stay bytes");
    };
    assert_eq!(row, [6, 7, 8, 9, 10, 11]);
    let labels = |dictionary, entries| {
        let array = read(&numpy(V1, dictionary, entries)).unwrap();
        array.into_labels().unwrap()
    };
    assert_eq!(
        labels(
            "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }",
            "0100000000002000f9ffffffffffffff"
        ),
        // 2^53 + 1 is none in double precision.
        [9_007_199_254_740_992.0, -7.0]
    );
    assert_eq!(
        labels(
            "{'descr': '>u4', 'fortran_order': False, 'shape': (2,), }",
            "ffffffff00000005"
        ),
        [4_294_967_295.0, 5.0]
    );
    let booleans = numpy(
        V1,
        "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2), }",
        "0100",
    );
    assert_eq!(rows(read(&booleans).unwrap()), [[1.0, 0.0]]);
}

#[test]
fn gzip_is_unpacked() {
    let packed = gzip(&numpy(V1, F4, F4_ENTRIES));
    assert_eq!(rows(read(&packed).unwrap())[0][0], 1.5);
    let cut = error(&packed[..packed.len() - 9]);
    assert!(matches!(cut, FormatError::Gzip { .. }), "{cut}");
}

#[test]
fn every_bad_header_is_an_error_that_says_what_is_wrong() {
    let whole = numpy(V1, F4, F4_ENTRIES);
    for cut in 0..whole.len() {
        let error = error(&whole[..cut]);
        let right = match cut {
            0..6 => matches!(error, FormatError::WrongMagic { .. }),
            6..128 => matches!(
                error,
                FormatError::BadHeader {
                    problem: HeaderProblem::CutShort,
                    ..
                }
            ),
            _ => matches!(error, FormatError::Truncated { .. }),
        };
        assert!(right, "cut at {cut}: {error}");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(error(&longer), FormatError::Trailing { .. }));
    let mut zip = whole.clone();
    zip[..4].copy_from_slice(b"PK\x03\x04");
    assert!(error(&zip).to_string().contains("x.npy: not an NPY file"));

    let mut version = whole.clone();
    version[6] = 4;
    assert!(error(&version).to_string().contains("version 4.0"));
    // A header of 4 GiB is refused before room is made for it.
    let huge = hex("934e554d50590200ffffffff");
    assert!(error(&huge).to_string().contains("4294967295 bytes"));

    // A dictionary, and words of what is said of it.
    for row in include_str!("../data/npy_headers.tsv").lines() {
        let (dictionary, words) = row.split_once('\t').unwrap();
        let message = error(&npy(dictionary, &[0; 4])).to_string();
        assert!(message.contains(words), "{dictionary}: {message}");
    }
}

#[test]
fn shapes_are_multiplied_with_care() {
    let shaped = |shape: &str| {
        error(&npy(
            &format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"),
            &[0; 4],
        ))
    };
    // Columns are counted in the message; rows are not, they may be private.
    let wide = shaped("(1, 16777217)");
    assert!(wide.to_string().contains("16777217 columns"), "{wide}");
    assert!(matches!(
        shaped("(1, 4294967296, 4294967296)"),
        FormatError::TooManyColumns {
            columns: u64::MAX,
            ..
        }
    ));
    for shape in [
        "(18446744073709551615, 1)",
        "(9223372036854775807, 2)",
        "(1152921504606846976,)",
    ] {
        assert!(
            matches!(shaped(shape), FormatError::TooLarge { .. }),
            "{shape}"
        );
    }
    // A promise of 10^15 rows makes no room for them.
    assert!(matches!(
        shaped("(1000000000000000,)"),
        FormatError::Truncated { .. }
    ));
    // A million columns are fine.
    let entries = vec![0; 4_000_000];
    let array = read(&npy(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1000000)}",
        &entries,
    ));
    assert_eq!(array.unwrap().columns(), 1_000_000);
    const { assert!(MAX_COLUMNS >= 1_000_000) };
}

#[test]
fn a_matrix_is_no_list_of_labels() {
    let array = read(&numpy(V1, F4, F4_ENTRIES)).unwrap();
    let error = array.into_labels().err().unwrap();
    assert!(matches!(error, FormatError::NotLabels { columns: 3, .. }));
    let array = read(&npy(
        "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 3)}",
        &[],
    ));
    assert_eq!(array.unwrap().into_design(1.0).unwrap().rows(), 0);
    let array = read(&npy(
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 3)}",
        &[1, 2, 3],
    ));
    assert!(array.unwrap().into_design(f32::NAN).is_err());
}

#[test]
fn idx_files_are_read_by_the_format_s_own_table() {
    let read = |bytes: &[u8]| read_idx_from(bytes, "x.idx");
    let images = read(&idx(8, &[2, 1, 2], &[0, 255, 7, 9])).unwrap();
    let design = images.into_design(1.0 / 255.0).unwrap();
    assert!(matches!(design.row(0), Row::Bytes([0, 255], _)));
    let float = |kind, size: &[u32], entries: &[u8]| rows(read(&idx(kind, size, entries)).unwrap());
    assert_eq!(float(9, &[2], &[0xff, 0x7f]), [[-1.0], [127.0]]);
    assert_eq!(
        float(0x0b, &[1, 2], &[0x80, 0, 0x01, 0x02]),
        [[-32768.0, 258.0]]
    );
    assert_eq!(
        float(0x0c, &[1], &(-70_000i32).to_be_bytes()),
        [[-70_000.0]]
    );
    assert_eq!(float(0x0d, &[1], &1.5f32.to_be_bytes()), [[1.5]]);
    assert_eq!(float(0x0e, &[1], &1e-300f64.to_be_bytes()), [[1e-300]]);

    let whole = idx(8, &[2, 2], &[1, 2, 3, 4]);
    for cut in 0..whole.len() {
        let error = read(&whole[..cut]).err().unwrap();
        let right = match cut {
            0..2 => matches!(error, FormatError::WrongMagic { .. }),
            2..12 => matches!(error, FormatError::BadHeader { .. }),
            _ => matches!(error, FormatError::Truncated { .. }),
        };
        assert!(right, "cut at {cut}: {error}");
    }
    let message = |bytes: &[u8]| read(bytes).err().unwrap().to_string();
    assert!(message(b"\x93NUMPY").contains("not an IDX file"));
    assert!(message(&idx(7, &[1], &[0])).contains("0x07"));
    assert!(message(&idx(8, &[], &[0])).contains("0 dimensions"));
    assert!(message(&idx(8, &[1; 200], &[0])).contains("200 dimensions"));
    assert!(message(&idx(8, &[1, u32::MAX], &[0])).contains("4294967295 columns"));
    assert!(message(&idx(8, &[u32::MAX, 1 << 24], &[0])).contains("cut short"));
    assert!(message(&idx(8, &[1], &[0, 0])).contains("goes on"));
}

/// Rows of a design and of a file, bit for bit.
fn same_rows(design: &Design, block: &Design) -> bool {
    (0..design.rows()).all(|i| match (design.row(i), block.row(i)) {
        (Row::Dense(a), Row::Dense(b)) => a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits()),
        (Row::Dense32(a), Row::Dense32(b)) => {
            a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
        }
        (Row::Bytes(a, s), Row::Bytes(b, t)) => a == b && s == t,
        _ => false,
    })
}

#[test]
fn rows_that_stay_in_their_file_are_those_read_into_memory() {
    let folder = tempfile::TempDir::new().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let entries: Vec<u8> = (0..240u8).collect();
    for (descr, columns) in [("<f4", 5), ("<f8", 3), ("|u1", 12)] {
        let width = usize::from(descr.as_bytes()[2] - b'0');
        let rows = 240 / columns / width;
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {columns})}}");
        let path = put("x.npy", &npy(&text, &entries));
        let design = read_npy(&path).unwrap().into_design(0.25).unwrap();
        let file = npy_rows(&path, 0.25).unwrap();
        assert_eq!((file.rows(), file.columns()), (rows, columns));
        let mut reader = file.reader();
        assert!(
            same_rows(&design, reader.block(0..rows).unwrap()),
            "{descr}"
        );
    }
    let path = put("x.idx", &idx(8, &[4, 6, 10], &entries));
    let design = read_idx(&path).unwrap().into_design(0.5).unwrap();
    let file = idx_rows(&path, 0.5).unwrap();
    assert_eq!(file.layout().entry, FileEntry::U8 { scale: 0.5 });
    assert!(same_rows(&design, file.reader().block(0..4).unwrap()));

    // What can't stay where it is says why.
    let refused = |path| npy_rows(path, 1.0).err().unwrap().to_string();
    let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (20, 3)}";
    assert!(refused(put("f.npy", &npy(fortran, &entries))).contains("Fortran"));
    let big = "{'descr': '>f4', 'fortran_order': False, 'shape': (20, 3)}";
    assert!(refused(put("b.npy", &npy(big, &entries))).contains("little-endian"));
    let packed = put("x.npy.gz", &gzip(&numpy(V1, F4, F4_ENTRIES)));
    assert!(refused(packed).contains("compressed"));
    let short = "{'descr': '<f4', 'fortran_order': False, 'shape': (21, 3)}";
    assert!(refused(put("s.npy", &npy(short, &entries))).contains("cut short"));
    let floats = put("f.idx", &idx(0x0d, &[60], &entries));
    assert!(
        idx_rows(floats, 1.0)
            .err()
            .unwrap()
            .to_string()
            .contains("big-endian")
    );
    assert!(matches!(
        read_npy(folder.path().join("none.npy")),
        Err(FormatError::Read { .. })
    ));
}

/// An archive of arrays, and what else is no array, is named with its remedy.
#[test]
fn an_archive_of_arrays_is_named() {
    let error = read_npy_from(&b"PK\x03\x04\x14\0\0\0\0\0rest"[..], "x.npz")
        .err()
        .unwrap();
    assert!(error.to_string().contains("numpy.save"), "{error}");
    let error = read_idx_from(&b"\x93NUMPY\x01\0"[..], "x").err().unwrap();
    assert!(error.to_string().contains("an NPY file"), "{error}");
}
