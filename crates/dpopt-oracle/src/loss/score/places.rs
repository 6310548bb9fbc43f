//! The coordinate of y that each row of a block has to itself.

use std::ops::Range;

/// Rows at a time.
const PART: usize = 64;

/// Of some rows of a block: the coordinate of each row's own group, and by what its number is multiplied there.
pub(super) struct Places {
    at: [usize; PART],
    weights: [f64; PART],
}

impl Places {
    /// No coordinates, and weights of 1.
    pub(super) fn none() -> Self {
        Self {
            at: [usize::MAX; PART],
            weights: [1.0; PART],
        }
    }

    /// The rows of a block, as many at a time as there are places.
    pub(super) fn parts(count: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let starts = (0..count).step_by(PART);
        starts.map(move |start| (start, start..count.min(start + PART)))
    }

    /// The coordinate of row i of the part; that of no group is beyond all of them.
    pub(super) fn set(&mut self, i: usize, coordinate: usize) {
        self.at[i] = coordinate;
    }

    /// The weight of row i of the part.
    pub(super) fn weigh(&mut self, i: usize, weight: f64) {
        self.weights[i] = weight;
    }

    /// Adds the number of each of these rows, weighted, to its own coordinate.
    pub(super) fn add(&self, rows: Range<usize>, count: usize, numbers: &[f64], y: &mut [f64]) {
        let own = self.at.iter().zip(&self.weights);
        for (i, (&k, weight)) in rows.zip(own) {
            if k != usize::MAX {
                y[k * count + i] += weight * numbers[i];
            }
        }
    }
}
