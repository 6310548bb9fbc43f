//! Releases of other queries: `spider`, `hessian`, `slopes` and `zeroth-order`, each with records
//! and columns. The answer is the points, the directions, and the sum.

use std::cell::RefCell;
use std::num::NonZeroUsize;

use dpopt_oracle::query::{
    Directions, Frames, HessianMatrix, Slopes, SmoothedGradient, smoothed_gradient_bound,
};
use dpopt_oracle::{Examples, Glm, Linear, Loss, PrivateMean, Query, Segment};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};

use crate::numbers::{LITTLE, curator, rows, spend, wave};
use crate::releases::CLIP;
use crate::sink::{Arrays, Fallible, Sink, size};

/// The clip radius of a change.
const CHANGE: f64 = 1e-3;
/// Half the distance of the two values of a slope.
const SMOOTHING: f64 = 0.1;

/// Runs a task of this file.
pub(crate) fn run(words: &[&str], threads: NonZeroUsize, sink: &mut dyn Sink) -> Fallible<()> {
    let [task, records, columns] = *words else {
        return Err(format!("there is no task `{}`", words.join(" ")).into());
    };
    let (n, d) = (size(records)?, size(columns)?);
    let frame = NonZeroUsize::new(d).ok_or("no columns")?;
    let point = wave(d);
    let mut curator = curator();
    let data = rows(n, d, task != "slopes")?;
    match task {
        "spider" => {
            let along: Vec<f64> = point.iter().map(|w| 1e-3 * w * w).collect();
            let to: Vec<f64> = point.iter().zip(&along).map(|(x, d)| x + d).collect();
            let segment = Segment::new(&point, &to, &along).ok_or("points of one length")?;
            // Leaves a gradient whole, which is no longer than its row.
            let query = Linear::change(segment, ClipNorm::new(3.0)?, ClipNorm::new(CHANGE)?);
            let points = vec![("from", point.clone()), ("to", to.clone())];
            let mean = PrivateMean::new(&data, Glm::Logistic, curator)?;
            release(mean.with_threads(threads), &query, n, points, sink)
        }
        "hessian" => {
            let query = HessianMatrix {
                point: &point,
                radius: ClipNorm::new(CLIP)?,
            };
            let points = vec![("point", point.clone())];
            let mean = PrivateMean::new(&data, Glm::Logistic, curator)?;
            release(mean.with_threads(threads), &query, n, points, sink)
        }
        "slopes" => {
            let directions = Directions::draw(&mut curator, d, frame)?;
            let query = Slopes {
                point: &point,
                directions: &directions,
                smoothing: SMOOTHING,
                clip: ClipNorm::new(smoothed_gradient_bound(1.0, d))?,
            };
            let flat: Vec<f64> = directions.iter().flatten().copied().collect();
            let points = vec![("point", point.clone()), ("directions", flat)];
            let mean = PrivateMean::new(&data, Glm::Absolute, curator)?;
            release(mean.with_threads(threads), &query, n, points, sink)
        }
        _ => {
            let frames = Frames::draw(&mut curator, d, NonZeroUsize::MIN)?;
            let query = SmoothedGradient {
                point: &point,
                smoothing: SMOOTHING,
                frames: &frames,
                clip: ClipNorm::new(smoothed_gradient_bound(1.0, d))?,
            };
            let mean = PrivateMean::new(&data, Glm::Logistic, curator)?;
            release(mean.with_threads(threads), &query, n, Vec::new(), sink)
        }
    }
}

fn release<L: Loss<Records = Examples>>(
    mut mean: PrivateMean<'_, L>,
    query: &impl Query<L>,
    records: usize,
    points: Arrays,
    sink: &mut dyn Sink,
) -> Fallible<()> {
    mean.curator_mut().reserve(&spend()?)?;
    let mean = RefCell::new(mean);
    let released = |z| -> Fallible<Vec<f64>> {
        let z = NoiseMultiplier::new(z)?;
        let released = mean.borrow_mut().release(query, Which::All, z)?;
        Ok(released.ok_or("nothing was released")?.mean)
    };
    sink.take(&mut || Ok(released(1.0)?[0]), &mut || {
        // Without points no other tool can be asked.
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let sum = released(LITTLE)?
            .iter()
            .map(|x| x * records as f64)
            .collect();
        let mut all = points.clone();
        all.push(("sum", sum));
        Ok(all)
    })
}
