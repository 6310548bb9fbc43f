//! The coordinate of y that each row of a block has to itself.

use std::ops::Range;

use dpopt_linalg::spread;

/// Rows at a time.
const PART: usize = 32;

/// For rows of a block: the coordinate of each row's own group, and what it adds there.
pub(super) struct Places {
    own: [f64; PART],
    more: [f64; PART],
}

impl Places {
    /// No coordinates.
    pub(super) fn none() -> Self {
        Self {
            own: [-1.0; PART],
            more: [0.0; PART],
        }
    }

    /// The rows of a block, as many at a time as there are places.
    pub(super) fn parts(count: usize) -> impl Iterator<Item = Range<usize>> {
        let starts = (0..count).step_by(PART);
        starts.map(move |start| start..count.min(start + PART))
    }

    /// Row i of the part adds that to this coordinate.
    pub(super) fn set(&mut self, i: usize, coordinate: usize, more: f64) {
        (self.own[i], self.more[i]) = (coordinate as f64, more);
    }

    /// Row i of the part is of no group.
    pub(super) fn leave(&mut self, i: usize) {
        self.own[i] = -1.0;
    }

    /// Fills coordinate j of the rows from number `first` on with `starts(j)`, less a share of each row's number, and what it adds.
    pub(super) fn spread(
        &self,
        y: &mut [f64],
        (count, first): (usize, usize),
        numbers: &[f64],
        (starts, share): (impl Fn(usize) -> f64, f64),
    ) {
        let of = (starts, share);
        spread(y, (count, first), numbers, of, &self.own, &self.more);
    }
}
