//! Releases of other queries: `spider RECORDS COLUMNS`, `hessian RECORDS COLUMNS`, `slopes RECORDS COLUMNS`.
//!
//! Work `step`: a release; `noise`: its draws by themselves; of slopes also `product`: the matrix product in them. Answer: the points, the directions, and the sum.

use std::cell::RefCell;
use std::num::NonZeroUsize;

use dpopt_benches::release::{self, CLIP, Failure, LITTLE, curator, spend, wave};
use dpopt_oracle::query::{Directions, HessianMatrix, Slopes, smoothed_gradient_bound};
use dpopt_oracle::{Examples, Glm, Linear, Loss, PrivateData, PrivateMean, Query, Segment};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};

use crate::noise::draws;
use crate::side::{Numbers, Side, Work, count};

/// The clip radius of a change.
const CHANGE: f64 = 1e-3;
/// Half the distance of the two values of a slope.
const SMOOTHING: f64 = 0.1;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    Some(match *words {
        ["spider", n, d, t] => spider(n, d, t),
        ["hessian", n, d, t] => hessian(n, d, t),
        ["slopes", n, d, t] => slopes(n, d, t),
        _ => return None,
    })
}

fn spider(records: &str, columns: &str, threads: &str) -> Result<(), Failure> {
    let columns = count(columns)?;
    let data = release::rows(count(records)?, columns)?;
    let from = wave(columns);
    let along: Vec<f64> = from.iter().map(|w| 1e-3 * w * w).collect();
    let to: Vec<f64> = from.iter().zip(&along).map(|(x, d)| x + d).collect();
    let segment = Segment::new(&from, &to, &along).ok_or("points of one length")?;
    // Leaves a gradient whole, which is no longer than its row.
    let clip = ClipNorm::new(3.0)?;
    let radius = ClipNorm::new(CHANGE)?;
    let query = Linear::change(segment, clip, radius);
    let points = vec![("from", from.clone()), ("to", to.clone())];
    serve(
        &data,
        Glm::Logistic,
        &query,
        threads.parse()?,
        columns,
        points,
        None,
    )
}

fn hessian(records: &str, columns: &str, threads: &str) -> Result<(), Failure> {
    let columns = count(columns)?;
    let data = release::rows(count(records)?, columns)?;
    let point = wave(columns);
    let query = HessianMatrix {
        point: &point,
        radius: ClipNorm::new(CLIP)?,
    };
    let points = vec![("point", point.clone())];
    let dim = query.coordinates();
    serve(
        &data,
        Glm::Logistic,
        &query,
        threads.parse()?,
        dim,
        points,
        None,
    )
}

fn slopes(records: &str, columns: &str, threads: &str) -> Result<(), Failure> {
    let (records, columns) = (count(records)?, count(columns)?);
    let data = release::doubles(records, columns)?;
    let frame = NonZeroUsize::new(columns).ok_or("no columns")?;
    let directions = Directions::draw(&mut curator(), columns, frame)?;
    let point = wave(columns);
    let query = Slopes {
        point: &point,
        directions: &directions,
        smoothing: SMOOTHING,
        clip: ClipNorm::new(smoothed_gradient_bound(1.0, columns))?,
    };
    let flat: Vec<f64> = directions.iter().flatten().copied().collect();
    let points = vec![("point", point.clone()), ("directions", flat)];
    let mut bare = release::product(records, columns);
    let product: Work<'_> = ("product", Box::new(move || Ok(bare())));
    serve(
        &data,
        Glm::Absolute,
        &query,
        threads.parse()?,
        columns,
        points,
        Some(product),
    )
}

fn serve<L: Loss<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    query: &impl Query<L>,
    threads: NonZeroUsize,
    dim: usize,
    points: Numbers,
    limit: Option<Work<'_>>,
) -> Result<(), Failure> {
    let mut mean = PrivateMean::new(data, loss, curator())?.with_threads(threads);
    mean.curator_mut().reserve(&spend()?)?;
    let mean = &RefCell::new(mean);
    let release = move |z| -> Result<Vec<f64>, Failure> {
        let released = mean
            .borrow_mut()
            .release(query, Which::All, NoiseMultiplier::new(z)?)?;
        Ok(released.ok_or("nothing was released")?.mean)
    };
    let draw = draws(dim, threads)?;
    let mut works: Vec<Work<'_>> = vec![
        ("step", Box::new(move || Ok(release(1.0)?[0]))),
        ("noise", Box::new(draw)),
    ];
    works.extend(limit);
    let records = data.public_records() as f64;
    Side::new(works)
        .with_answer(move || {
            let mut sum = release(LITTLE)?;
            sum.iter_mut().for_each(|x| *x *= records);
            let mut all = points.clone();
            all.push(("sum", sum));
            Ok(all)
        })
        .serve()
}
