//! Rows that stay in a file: `file RECORDS COLUMNS PATH` writes them there, in single precision.
//!
//! Work `step`: a release of the clipped gradient; `read`: a plain read of the file by as many threads; `noise`. Answer: the point, and the sum.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use dpopt_benches::pass::numbers;
use dpopt_benches::release::{self, Failure};
use dpopt_linalg::{DesignFile, FileEntry, FileLayout};
use dpopt_oracle::{ExamplesOnDisk, PrivateData};
use dpopt_privacy::{Adjacency, ClipNorm};

use crate::noise::draws;
use crate::side::{Side, count};

/// Bytes of one plain read.
const PIECE: usize = 1 << 20;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    match *words {
        ["file", n, d, path, t] => Some(file(n, d, Path::new(path), t)),
        _ => None,
    }
}

fn file(records: &str, columns: &str, path: &Path, threads: &str) -> Result<(), Failure> {
    let (records, columns): (usize, usize) = (count(records)?, count(columns)?);
    let threads: NonZeroUsize = threads.parse()?;
    let labels = write(records, columns, path)?;
    let layout = FileLayout {
        offset: 0,
        rows: records,
        columns,
        entry: FileEntry::F32,
    };
    let norm = ClipNorm::new(3.0)?;
    let rows = ExamplesOnDisk::in_place(DesignFile::open(path, layout)?, labels, norm)?;
    let data = PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None)?;
    let step = &RefCell::new(release::logistic(&data, columns, threads)?);
    let draw = draws(columns, threads)?;
    let length = (records * columns * 4) as u64;
    Side::new(vec![
        ("step", Box::new(move || step.borrow_mut().release())),
        ("noise", Box::new(draw)),
        ("read", Box::new(move || read(path, length, threads))),
    ])
    .with_answer(move || {
        let mut step = step.borrow_mut();
        let (sum, point) = (step.sums()?, step.point().to_vec());
        Ok(vec![("point", point), ("sum", sum)])
    })
    .serve()
}

/// Writes the rows of [`release::rows`] to the file, and returns their labels.
fn write(records: usize, columns: usize, path: &Path) -> Result<Vec<f32>, Failure> {
    let mut number = numbers(1);
    let size = (3.0 / columns as f64).sqrt();
    let mut out = BufWriter::with_capacity(PIECE, File::create(path)?);
    for _ in 0..records * columns {
        out.write_all(&((size * number()) as f32).to_le_bytes())?;
    }
    let file = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    // Pages that are not written yet can't be dropped.
    file.sync_all()?;
    Ok((0..records).map(|_| number().signum() as f32).collect())
}

/// Reads the file once by so many threads and does nothing with it.
fn read(path: &Path, length: u64, threads: NonZeroUsize) -> Result<f64, Failure> {
    let threads = threads.get() as u64;
    let part = |t: u64| -> std::io::Result<f64> {
        let (from, to) = (length * t / threads, length * (t + 1) / threads);
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let (mut piece, mut left, mut sum) = (vec![0; PIECE], (to - from) as usize, 0.0);
        while left > 0 {
            let now = left.min(PIECE);
            file.read_exact(&mut piece[..now])?;
            sum += f64::from(piece[now - 1]);
            left -= now;
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        let part = &part;
        let workers: Vec<_> = (1..threads).map(|t| scope.spawn(move || part(t))).collect();
        let mut sum = part(0)?;
        for worker in workers {
            sum += worker.join().map_err(|_| "a reader ended")??;
        }
        Ok(sum)
    })
}
