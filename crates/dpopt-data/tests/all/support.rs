//! Files of arrays, packed bytes and dense rows for the tests.

use std::io::Write;

use dpopt_linalg::Design;
use flate2::{Compression, write::GzEncoder};

/// An NPY file of version 1 with this dictionary and no padding.
pub(crate) fn npy(dictionary: &str, entries: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dictionary.len() as u16).to_le_bytes());
    bytes.extend(dictionary.as_bytes());
    bytes.extend(entries);
    bytes
}

pub(crate) fn idx(kind: u8, sizes: &[u32], entries: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(entries);
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn dense(design: &Design) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let mut row = vec![0.0; design.columns()];
        design.row(i).for_each(|j, x| row[j] = x);
        row
    };
    (0..design.rows()).map(row).collect()
}
