//! Slopes of values along directions: one product of matrices for all of them, and then scalar functions.

use dpopt_linalg::{Entries, Packed, Row, add_scaled};
use dpopt_privacy::LatticeSum;

use super::Glm;
use crate::loss::Rays;
use crate::positions::Positions;
use crate::records::{Examples, Records};

/// Rows that are multiplied together.
const BLOCK: usize = 64;

/// Adds the slopes of these records. What one adds depends on its row, its label and the rays alone.
pub(super) fn add_slopes(
    glm: Glm,
    records: &Examples,
    positions: &Positions<'_>,
    rays: &Rays<'_>,
    sum: &mut LatticeSum,
) {
    let (dim, width) = (rays.point.len(), rays.count() + 1);
    // The point, and then the directions.
    let entry = |i: usize, j: usize| match j {
        0 => rays.point[i],
        _ => rays.directions[(j - 1) * dim + i],
    };
    let mut slopes = vec![0.0; width - 1];
    let mut add = |label: f64, products: &[f64]| {
        if let Some((z, along)) = products.split_first() {
            for (slope, product) in slopes.iter_mut().zip(along) {
                *slope = rays.reach * product;
            }
            glm.rises(*z, &mut slopes, label);
            let way = 2.0 * rays.reach;
            slopes.iter_mut().for_each(|slope| *slope /= way);
        }
        sum.add_scaled(1.0, &slopes);
    };
    let entries = records.design().entries();
    if let Entries::Sparse | Entries::OneHot = entries {
        let table: Vec<f64> = (0..dim * width)
            .map(|k| entry(k / width, k % width))
            .collect();
        let mut products = vec![0.0; width];
        for i in positions.iter() {
            let record = records.record(i);
            products.fill(0.0);
            record.row.for_each(|j, x| {
                if let Some(all) = table.get(j * width..(j + 1) * width) {
                    add_scaled(&mut products, x, all);
                }
            });
            add(record.label, &products);
        }
        return;
    }
    let packed = Packed::new(dim, width, entry);
    let mut copied = Vec::new();
    let mut products = Vec::new();
    for block in positions.blocks(BLOCK) {
        let rows = match (&block, &entries) {
            (Positions::Range(range), Entries::Doubles(all)) => {
                &all[range.start * dim..range.end * dim]
            }
            _ => {
                copied.clear();
                for i in block.iter() {
                    copy(records.record(i).row, dim, &mut copied);
                }
                &copied[..]
            }
        };
        products.resize(block.len() * width, 0.0);
        packed.multiply(rows, &mut products);
        for (i, products) in block.iter().zip(products.chunks_exact(width)) {
            add(f64::from(records.labels()[i]), products);
        }
    }
}

/// Puts the entries of a row at the end.
fn copy(row: Row<'_>, dim: usize, to: &mut Vec<f64>) {
    if let Row::Dense(entries) = row {
        to.extend_from_slice(entries);
        return;
    }
    let start = to.len();
    to.resize(start + dim, 0.0);
    row.for_each(|j, x| {
        if let Some(to) = to.get_mut(start + j) {
            *to = x;
        }
    });
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::Design;
    use dpopt_privacy::{
        Adjacency, Body, Bound, ClipNorm, Curator, Event, NoiseMultiplier, Spend, Which,
    };
    use dpopt_testkit::uniforms;

    use super::*;

    const DIM: usize = 5;
    const ROWS: usize = 150;
    const COUNT: usize = 3;

    /// A sample of all records and the range of all are one sum, to the last integer.
    #[test]
    fn listed_rows_add_what_a_range_adds() {
        let mut next = uniforms(3);
        let mut numbers = |count: usize| -> Vec<f64> { (0..count).map(|_| next()).collect() };
        let (entries, point) = (numbers(ROWS * DIM), numbers(DIM));
        let directions = numbers(COUNT * DIM);
        let rays = Rays::new(&point, &directions, 0.3).unwrap();
        let singles = entries.iter().map(|x| *x as f32).collect();
        let listed: Vec<u32> = (0..ROWS as u32).collect();
        let radius = ClipNorm::new(0.7).unwrap();
        for design in [Design::dense(DIM, entries), Design::dense32(DIM, singles)] {
            let labels = (0..ROWS).map(|i| (i % 3) as f32 - 1.0).collect();
            let row_norm = ClipNorm::new(1.0).unwrap();
            let records = Examples::new(design.unwrap(), labels, row_norm).unwrap();
            for glm in Glm::ALL {
                let released = |positions: Positions<'_>| {
                    let mut sum = LatticeSum::new(Bound::new(radius, COUNT).unwrap());
                    add_slopes(glm, &records, &positions, &rays, &mut sum);
                    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
                    let z = NoiseMultiplier::new(1e-9).unwrap();
                    curator.reserve(&Spend::Fixed(Event::gaussian(z))).unwrap();
                    let body = Body::of(ROWS as u64);
                    let ticket = curator.grant(Which::All, body, sum.bound(), z).unwrap();
                    curator.redeem(ticket, sum).unwrap()
                };
                let range = released(Positions::Range(0..ROWS));
                assert!(range.iter().any(|x| x.abs() > 1e-3), "{glm}");
                assert_eq!(released(Positions::Listed(&listed)), range, "{glm}");
            }
        }
    }
}
