//! Counts of cells, to be released.

use super::Cell;
use crate::loss::{Constants, Convexity, Differentiable, Loss};
use crate::records::{Example, Examples};

/// A loss whose gradient is the indicator of a record's cell, at every point: the mean gradient is the shares of the cells, and its
/// release is the way to shares that are not public.
///
/// # Formula
/// f(w; record of group g and class c) = w_(2g + c); w has 2 numbers for each group. A record of none of the groups counts in no cell.
///
/// # Privacy
/// Each record is in one cell, so its contribution has norm 1 at most, which the clip enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellCounts {
    /// Number of groups.
    pub groups: usize,
}

impl CellCounts {
    fn place(self, label: f64) -> Option<usize> {
        let Cell { positive, group } = Cell::of(label);
        // Not before: of a hostile label the group is the largest number.
        (group < self.groups).then(|| 2 * group + usize::from(positive))
    }
}

impl Loss for CellCounts {
    type Records = Examples;

    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Examples) -> usize {
        2 * self.groups
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        Constants::new(1.0, 0.0, f64::INFINITY, Convexity::Convex)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        self.place(record.label).map_or(0.0, |at| point[at])
    }
}

impl Differentiable for CellCounts {
    fn gradient(&self, record: Example<'_>, _: &[f64], out: &mut [f64]) {
        if let Some(at) = self.place(record.label) {
            out[at] += 1.0;
        }
    }
}
