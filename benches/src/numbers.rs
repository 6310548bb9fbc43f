//! Made-up records, the same in `benches/peers/problems.py`.

use dpopt_linalg::Design;
use dpopt_oracle::PrivateData;
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};

use crate::sink::Fallible;

/// The noise multiplier of a sum that others are compared with.
pub(crate) const LITTLE: f64 = 1e-6;
/// Columns and classes of made-up images.
pub(crate) const IMAGES: [usize; 2] = [784, 10];

/// Repeatable numbers in [-1, 1).
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    }
}

/// sin 0, sin 1, ...
pub(crate) fn wave(dim: usize) -> Vec<f64> {
    (0..dim).map(|j| (j as f64).sin()).collect()
}

fn made_up(design: Design, labels: Vec<f32>, norm: f64) -> Fallible<PrivateData> {
    let norm = ClipNorm::new(norm)?;
    let relation = Adjacency::ReplaceOne;
    Ok(PrivateData::made_up(design, labels, norm, relation, None)?)
}

/// Rows of about unit norm in single or double precision, with labels 1 and -1.
pub(crate) fn rows(records: usize, columns: usize, single: bool) -> Fallible<PrivateData> {
    let mut number = numbers(1);
    let size = (3.0 / columns as f64).sqrt();
    let count = records * columns;
    let design = if single {
        Design::dense32(
            columns,
            (0..count).map(|_| (size * number()) as f32).collect(),
        )?
    } else {
        Design::dense(columns, (0..count).map(|_| size * number()).collect())?
    };
    let labels = (0..records).map(|_| number().signum() as f32).collect();
    made_up(design, labels, 3.0)
}

/// Images of 784 bytes in ten classes.
pub(crate) fn images(records: usize) -> Fallible<PrivateData> {
    let mut number = numbers(2);
    let pixels = (0..records * IMAGES[0])
        .map(|_| (128.0 * (number() + 1.0)) as u8)
        .collect();
    let design = Design::bytes(IMAGES[0], pixels, 1.0 / 255.0)?;
    let labels = (0..records).map(|i| (i % IMAGES[1]) as f32).collect();
    made_up(design, labels, 28.0)
}

/// One-hot rows: `fields` ones, each in a range of columns of its own, over sqrt(fields).
pub(crate) fn one_hot(records: usize, columns: usize, fields: usize) -> Fallible<PrivateData> {
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
    made_up(design, labels, 1.0)
}

/// A curator of made-up records.
pub(crate) fn curator() -> Curator {
    Curator::simulated(Adjacency::ReplaceOne, 1)
}

/// A budget for many releases, and for some with little noise.
pub(crate) fn spend() -> Fallible<Spend> {
    let many = |z, count| {
        let event = Event::gaussian(NoiseMultiplier::new(z)?);
        Fallible::Ok(event.repeated(count))
    };
    let events = vec![many(1.0, 1_000_000)?, many(LITTLE, 1000)?];
    Ok(Spend::Fixed(Event::composed(events)))
}
