//! Clipped gradients as users get them: `logistic`, `logistic64`, `one-hot`, `softmax`,
//! `perceptron` and rows in a file.
//!
//! The work is a release in the simulated mode, with its clipped exact sum, noise and charge; the
//! answer is the point and the sum.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use dpopt_linalg::{DesignFile, FileEntry, FileLayout};
use dpopt_oracle::{
    Activation, Differentiable, Examples, ExamplesOnDisk, Glm, Head, Mlp, PrivateData,
    PrivateGradient, Softmax,
};
use dpopt_privacy::{Adjacency, ClipNorm, NoiseMultiplier};

use crate::numbers::{IMAGES, LITTLE, curator, images, numbers, one_hot, rows, spend, wave};
use crate::sink::{Fallible, Sink, size};

/// The clip radius.
pub(crate) const CLIP: f64 = 0.5;

/// Runs a task of this file.
pub(crate) fn run(words: &[&str], threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
    match *words {
        [name @ ("logistic" | "logistic64"), n, d] => {
            let (n, d) = (size(n)?, size(d)?);
            let data = rows(n, d, name == "logistic")?;
            release(&data, Glm::Logistic, &wave(d), threads, sink)
        }
        ["one-hot", n, d, fields] => {
            let d = size(d)?;
            let data = one_hot(size(n)?, d, size(fields)?)?;
            release(&data, Glm::Logistic, &wave(d), threads, sink)
        }
        ["softmax", batch] => {
            let loss = Softmax::new(IMAGES[1]).ok_or("too few classes")?;
            let point = wave(IMAGES[0] * IMAGES[1]);
            release(&images(size(batch)?)?, loss, &point, threads, sink)
        }
        ["perceptron", batch] => {
            let sizes = [IMAGES[0], 128, IMAGES[1]];
            let loss = Mlp::new(&sizes, Activation::Relu, Head::Softmax)?;
            let point = loss.initial_point(1);
            release(&images(size(batch)?)?, loss, &point, threads, sink)
        }
        ["file", n, d] => {
            let name = format!("dpopt-bench-{}.f32", std::process::id());
            let path = std::env::temp_dir().join(name);
            let done = file(size(n)?, size(d)?, &path, threads, sink);
            std::fs::remove_file(&path)?;
            done
        }
        _ => Err(format!("there is no task `{}`", words.join(" ")).into()),
    }
}

fn release<L: Differentiable<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    point: &[f64],
    threads: NonZeroUsize,
    sink: &mut dyn Sink,
) -> Fallible<()> {
    let clip = ClipNorm::new(CLIP)?;
    let estimator = PrivateGradient::clipped(data, loss, curator(), clip)?;
    let mut estimator = estimator.with_threads(threads);
    estimator.reserve(&spend()?)?;
    let estimator = RefCell::new(estimator);
    let mean = |z| -> Fallible<Vec<f64>> {
        let z = NoiseMultiplier::new(z)?;
        Ok(estimator.borrow_mut().refresh(point, z)?.gradient.to_vec())
    };
    sink.take(&mut || Ok(mean(1.0)?[0]), &mut || {
        let records = data.public_records() as f64;
        let sum = mean(LITTLE)?.iter().map(|x| x * records).collect();
        Ok(vec![("point", point.to_vec()), ("sum", sum)])
    })
}

/// Writes the rows of `logistic` in single precision to a file that stays on the disk.
fn file(
    records: usize,
    columns: usize,
    path: &Path,
    threads: NonZeroUsize,
    sink: &mut dyn Sink,
) -> Fallible<()> {
    let mut number = numbers(1);
    let scale = (3.0 / columns as f64).sqrt();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for _ in 0..records * columns {
        out.write_all(&((scale * number()) as f32).to_le_bytes())?;
    }
    out.flush()?;
    let labels = (0..records).map(|_| number().signum() as f32).collect();
    let layout = FileLayout {
        offset: 0,
        rows: records,
        columns,
        entry: FileEntry::F32,
    };
    let norm = ClipNorm::new(3.0)?;
    let rows = ExamplesOnDisk::in_place(DesignFile::open(path, layout)?, labels, norm)?;
    let data = PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None)?;
    release(&data, Glm::Logistic, &wave(columns), threads, sink)
}
