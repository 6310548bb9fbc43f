//! A Hessian of rank one is added from the entries of a row, and is what products with unit vectors make.

use dpopt_linalg::Design;
use dpopt_oracle::query::{HessianMatrix, unpack_symmetric};
use dpopt_oracle::{Glm, PrivateData, PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{Adjacency, Event, Which};

use crate::common::{OneByOne, clip, simulated, sparse, uniforms, z};

const DIM: usize = 5;
const ROWS: usize = 60;

/// Entries of which about a half are zero, one row that is not finite, and one so large that its products overflow.
fn entries() -> Vec<f64> {
    let mut random = uniforms(3);
    let mut all: Vec<f64> = (0..ROWS * DIM)
        .map(|_| f64::from(random().max(0.0) as f32))
        .collect();
    all[7 * DIM + 2] = f64::NAN;
    all[9 * DIM..10 * DIM].fill(1e200);
    all
}

fn storages() -> Vec<(&'static str, Design)> {
    let entries = entries();
    let singles = entries.iter().map(|x| *x as f32).collect();
    let bytes = entries.iter().map(|x| (x * 255.0) as u8).collect();
    let columns = |row: &[f64]| -> Vec<u32> {
        let set = (0..).zip(row).filter(|(_, x)| **x > 0.4);
        set.map(|(j, _)| j).collect()
    };
    let mut one_hot = Design::one_hot(DIM, 0.5).unwrap();
    for row in entries.chunks(DIM) {
        one_hot.push_ones(&columns(row)).unwrap();
    }
    vec![
        ("sparse", sparse(DIM, entries.chunks(DIM))),
        ("dense", Design::dense(DIM, entries.clone()).unwrap()),
        ("singles", Design::dense32(DIM, singles).unwrap()),
        ("bytes", Design::bytes(DIM, bytes, 1.0 / 255.0).unwrap()),
        ("one-hot", one_hot),
    ]
}

fn released<L>(design: &Design, loss: L, radius: f64) -> Vec<f64>
where
    L: TwiceDifferentiable<Records = dpopt_oracle::Examples>,
{
    let labels = (0..ROWS).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 });
    let relation = Adjacency::ReplaceOne;
    let data = PrivateData::made_up(design.clone(), labels.collect(), clip(2.0), relation, None);
    let curator = simulated(relation, 11, Event::gaussian(z(1e-3)));
    let data = data.unwrap();
    let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
    let point = &[0.3, -0.2, 0.5, 0.1, -0.7];
    let query = HessianMatrix {
        point,
        radius: clip(radius),
    };
    let found = mean.release(&query, Which::All, z(1e-3)).unwrap();
    found.unwrap().mean
}

/// The noise is the same, so what differs is the rounding of at most [`ROWS`] contributions. At the smaller radius every
/// clip bites.
#[test]
fn the_form_does_not_change_the_release() {
    for (name, design) in storages() {
        for radius in [1.0, 0.01] {
            let fast = released(&design, Glm::Logistic, radius);
            let slow = released(&design, OneByOne(Glm::Logistic), radius);
            let worst = fast.iter().zip(&slow).map(|(a, b)| (a - b).abs());
            let worst = worst.fold(0.0, f64::max);
            // Each contribution is rounded to a multiple of at most 2^-29 of the radius.
            assert!(worst <= radius * 2f64.powi(-28), "{name} {radius} {worst}");
            let other = released(&design, Glm::Sigmoid, radius);
            assert!(
                fast.iter()
                    .zip(&other)
                    .any(|(a, b)| (a - b).abs() > 1e-4 * radius)
            );
            assert_eq!(unpack_symmetric(DIM, &fast).unwrap().len(), DIM * DIM);
        }
    }
}
