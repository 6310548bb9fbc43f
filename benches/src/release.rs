//! Whole releases of the estimator, as users get them: what the tables and the comparison with other tools time.

use std::num::NonZeroUsize;
use std::time::Instant;

use dpopt_linalg::{Design, Packed, Row};
use dpopt_oracle::query::{Directions, Frames, Slopes, SmoothedGradient, smoothed_gradient_bound};
use dpopt_oracle::{
    Activation, AskError, Differentiable, Example, Examples, Glm, Head, Loss, Mlp, PrivateData,
    PrivateGradient, PrivateMean, Softmax,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend, Which};

pub use by_values::ByValues;

use crate::pass::numbers;

#[path = "../../crates/dpopt-oracle/tests/all/by_values.rs"]
mod by_values;

/// An error of any kind.
pub type Failure = Box<dyn std::error::Error>;

/// Layer sizes of the perceptron.
pub const SIZES: [usize; 3] = [784, 128, 10];
/// The clip radius.
pub const CLIP: f64 = 0.5;
/// The noise multiplier of a sum that others are compared with.
pub const LITTLE: f64 = 1e-6;
/// How many releases are paid for in advance.
const RELEASES: u64 = 1_000_000;

/// The seconds of one call, and what it returned.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// Made-up rows of about unit norm in single precision, with labels 1 and -1.
///
/// # Errors
/// Those of [`PrivateData::new`].
pub fn rows(records: usize, columns: usize) -> Result<PrivateData, Failure> {
    let mut number = numbers(1);
    let size = (3.0 / columns as f64).sqrt();
    let entries = (0..records * columns)
        .map(|_| (size * number()) as f32)
        .collect();
    let labels = (0..records).map(|_| number().signum() as f32).collect();
    let design = Design::dense32(columns, entries)?;
    let norm = ClipNorm::new(3.0)?;
    Ok(PrivateData::made_up(
        design,
        labels,
        norm,
        Adjacency::ReplaceOne,
        None,
    )?)
}

/// The same in double precision.
///
/// # Errors
/// Those of [`PrivateData::new`].
pub fn doubles(records: usize, columns: usize) -> Result<PrivateData, Failure> {
    let mut number = numbers(1);
    let size = (3.0 / columns as f64).sqrt();
    let entries = (0..records * columns).map(|_| size * number()).collect();
    let labels = (0..records).map(|_| number().signum() as f32).collect();
    let design = Design::dense(columns, entries)?;
    let norm = ClipNorm::new(3.0)?;
    Ok(PrivateData::made_up(
        design,
        labels,
        norm,
        Adjacency::ReplaceOne,
        None,
    )?)
}

/// Made-up images of 784 bytes in ten classes.
///
/// # Errors
/// Those of [`PrivateData::new`].
pub fn images(records: usize) -> Result<PrivateData, Failure> {
    let mut number = numbers(2);
    let pixels = (0..records * SIZES[0])
        .map(|_| (128.0 * (number() + 1.0)) as u8)
        .collect();
    let design = Design::bytes(SIZES[0], pixels, 1.0 / 255.0)?;
    let labels = (0..records).map(|i| (i % SIZES[2]) as f32).collect();
    let norm = ClipNorm::new(28.0)?;
    Ok(PrivateData::made_up(
        design,
        labels,
        norm,
        Adjacency::ReplaceOne,
        None,
    )?)
}

/// Made-up one-hot rows: `fields` ones, each in a range of columns of its own, over sqrt(fields); labels 1 and -1.
///
/// # Errors
/// Those of [`PrivateData::new`].
pub fn one_hot(records: usize, columns: usize, fields: usize) -> Result<PrivateData, Failure> {
    let mut number = numbers(1);
    let width = columns / fields;
    let mut design = Design::one_hot(columns, (1.0 / fields as f64).sqrt() as f32)?;
    let mut ones = vec![0; fields];
    for _ in 0..records {
        for (field, one) in ones.iter_mut().enumerate() {
            // Squared: some categories are frequent.
            let category = (number() * number()).abs() * width as f64;
            *one = (field * width + category as usize) as u32;
        }
        design.push_ones(&ones)?;
    }
    let labels = (0..records).map(|_| number().signum() as f32).collect();
    let norm = ClipNorm::new(1.0)?;
    Ok(PrivateData::made_up(
        design,
        labels,
        norm,
        Adjacency::ReplaceOne,
        None,
    )?)
}

/// Releases of a clipped gradient.
pub struct Step<'a, L: Differentiable<Records = Examples>> {
    estimator: PrivateGradient<'a, L>,
    point: Vec<f64>,
    records: f64,
}

impl<L: Differentiable<Records = Examples>> Step<'_, L> {
    /// Makes one as users get it and returns its first coordinate.
    ///
    /// # Errors
    /// Those of the estimator.
    pub fn release(&mut self) -> Result<f64, Failure> {
        let z = NoiseMultiplier::new(1.0)?;
        Ok(self.estimator.refresh(&self.point, z)?.gradient[0])
    }

    /// The sum that is released, with [`LITTLE`] noise.
    ///
    /// # Errors
    /// Those of the estimator.
    pub fn sums(&mut self) -> Result<Vec<f64>, Failure> {
        let z = NoiseMultiplier::new(LITTLE)?;
        let mean = self.estimator.refresh(&self.point, z)?.gradient;
        Ok(mean.iter().map(|x| x * self.records).collect())
    }

    /// Where.
    #[must_use]
    pub fn point(&self) -> &[f64] {
        &self.point
    }
}

/// Releases of the clipped gradient of multinomial regression in ten classes.
///
/// # Errors
/// Those of the estimator.
pub fn softmax(data: &PrivateData, threads: NonZeroUsize) -> Result<Step<'_, Softmax>, Failure> {
    let loss = Softmax::new(SIZES[2]).ok_or("too few classes")?;
    gradient(data, loss, wave(SIZES[0] * SIZES[2]), threads)
}

/// Releases of the clipped gradient of logistic regression.
///
/// # Errors
/// Those of the estimator.
pub fn logistic(
    data: &PrivateData,
    columns: usize,
    threads: NonZeroUsize,
) -> Result<Step<'_, Glm>, Failure> {
    gradient(data, Glm::Logistic, wave(columns), threads)
}

/// Releases of the clipped gradient of a perceptron.
///
/// # Errors
/// Those of the estimator.
pub fn perceptron(data: &PrivateData, threads: NonZeroUsize) -> Result<Step<'_, Mlp>, Failure> {
    let mlp = Mlp::new(&SIZES, Activation::Relu, Head::Softmax)?;
    let point = mlp.initial_point(1);
    gradient(data, mlp, point, threads)
}

/// sin 0, sin 1, ...
#[must_use]
pub fn wave(dim: usize) -> Vec<f64> {
    (0..dim).map(|j| (j as f64).sin()).collect()
}

fn gradient<L: Differentiable<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    point: Vec<f64>,
    threads: NonZeroUsize,
) -> Result<Step<'_, L>, Failure> {
    let clip = ClipNorm::new(CLIP)?;
    let mut estimator =
        PrivateGradient::clipped(data, loss, curator(), clip)?.with_threads(threads);
    estimator.reserve(&spend()?)?;
    Ok(Step {
        estimator,
        point,
        records: data.public_records() as f64,
    })
}

/// What pays for many releases, and for some with little noise.
///
/// # Errors
/// None: the numbers are fine.
pub fn spend() -> Result<Spend, Failure> {
    let many =
        |z, count| Ok::<_, Failure>(Event::gaussian(NoiseMultiplier::new(z)?).repeated(count));
    Ok(Spend::Fixed(Event::composed(vec![
        many(1.0, RELEASES)?,
        many(LITTLE, 1000)?,
    ])))
}

/// Releases of the zeroth-order gradient of logistic regression.
///
/// # Errors
/// Those of the estimator.
pub fn zeroth_order(
    data: &PrivateData,
    columns: usize,
    threads: NonZeroUsize,
) -> Result<impl FnMut() -> Result<f64, AskError>, Failure> {
    let mut curator = curator();
    let frames = Frames::draw(&mut curator, columns, NonZeroUsize::MIN)?;
    let point: Vec<f64> = (0..columns).map(|j| (j as f64).sin()).collect();
    let clip = ClipNorm::new(smoothed_gradient_bound(1.0, columns))?;
    let mut mean = PrivateMean::new(data, Glm::Logistic, curator)?.with_threads(threads);
    let z = NoiseMultiplier::new(1.0)?;
    mean.curator_mut().reserve(&spend()?)?;
    Ok(move || {
        let query = SmoothedGradient {
            point: &point,
            smoothing: 0.1,
            frames: &frames,
            clip,
        };
        let released = mean.release(&query, Which::All, z)?;
        Ok(released.map_or(0.0, |released| released.mean[0]))
    })
}

/// Releases of the slopes of a loss along a frame that all records share.
///
/// # Errors
/// Those of the estimator.
pub fn slopes<L: Loss<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    columns: usize,
) -> Result<impl FnMut() -> Result<f64, AskError>, Failure> {
    let mut curator = curator();
    let frame = NonZeroUsize::new(columns).ok_or("no columns")?;
    let directions = Directions::draw(&mut curator, columns, frame)?;
    let point: Vec<f64> = (0..columns).map(|j| (j as f64).sin()).collect();
    let clip = ClipNorm::new(smoothed_gradient_bound(1.0, columns))?;
    let mut mean = PrivateMean::new(data, loss, curator)?;
    let z = NoiseMultiplier::new(1.0)?;
    mean.curator_mut().reserve(&spend()?)?;
    Ok(move || {
        let query = Slopes {
            point: &point,
            directions: &directions,
            smoothing: 0.1,
            clip,
        };
        let released = mean.release(&query, Which::All, z)?;
        Ok(released.map_or(0.0, |released| released.mean[0]))
    })
}

/// The matrix product of [`slopes`] and no more, in blocks of 64 rows.
pub fn product(records: usize, columns: usize) -> impl FnMut() -> f64 {
    let mut number = numbers(1);
    let rows: Vec<f64> = (0..records * columns).map(|_| number()).collect();
    let matrix = Packed::new(columns, columns, |i, j| ((i * 31 + j) as f64).sin());
    let mut out = vec![0.0; 64 * columns];
    move || {
        let mut total = 0.0;
        for block in rows.chunks_exact(64 * columns) {
            matrix.multiply(block, &mut out);
            total += out[0];
        }
        total
    }
}

/// The function evaluations of [`zeroth_order`] and no more: 2 d values of each of `records` records.
pub fn values(records: usize, columns: usize) -> impl FnMut() -> f64 {
    let mut number = numbers(1);
    let size = (3.0 / columns as f64).sqrt();
    let rows: Vec<f32> = (0..records * columns)
        .map(|_| (size * number()) as f32)
        .collect();
    let points: Vec<f64> = (0..2 * columns * columns).map(|_| number()).collect();
    move || {
        let mut total = 0.0;
        for row in rows.chunks_exact(columns) {
            let example = Example {
                row: Row::Dense32(row),
                label: 1.0,
                norm: 1.0,
            };
            for point in points.chunks_exact(columns) {
                total += Loss::value(&Glm::Logistic, example, point);
            }
        }
        total
    }
}

/// A curator of made-up records.
#[must_use]
pub fn curator() -> Curator {
    Curator::simulated(Adjacency::ReplaceOne, 1)
}
