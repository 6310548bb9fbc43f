//! Places of records in their order, and rows of a body of records.

use std::ops::Range;

use dpopt_privacy::Sample;
use zeroize::Zeroizing;

/// Places in the public order of all records: slices are cut and samples drawn by place.
///
/// A pass reads rows, and only the storage knows which row stands at a place. So places become [`Positions`] through it and in no
/// other way: where the order is a map beside the file, a pass that leaves the map out does not compile.
#[derive(Clone)]
pub(crate) struct Places<'a>(Positions<'a>);

impl<'a> Places<'a> {
    /// Those of a granted release. **Secret** for a sample.
    pub(crate) fn of(sample: &'a Sample) -> Self {
        Self(match sample.positions() {
            dpopt_privacy::Positions::Range(range) => {
                Positions::Range(range.start as usize..range.end as usize)
            }
            dpopt_privacy::Positions::Drawn(drawn) => Positions::Listed(drawn.reveal()),
        })
    }

    /// The same numbers as rows, of a body whose records lie in the order.
    pub(crate) fn without_order(self) -> Positions<'a> {
        self.0
    }

    /// The rows of a body that has `row_at[k]` at place k, increasing; none for all places, which are all rows.
    pub(crate) fn rows(&self, row_at: &[u32]) -> Option<Zeroizing<Vec<u32>>> {
        if let Positions::Range(range) = &self.0
            && range.len() == row_at.len()
        {
            return None;
        }
        let mut rows = Zeroizing::default();
        self.0.copy(row_at, &mut rows, |row| row);
        rows.sort_unstable();
        Some(rows)
    }
}

impl<'a> From<Positions<'a>> for Places<'a> {
    fn from(numbers: Positions<'a>) -> Self {
        Self(numbers)
    }
}

/// Rows of a body of records that a pass, or a part of one, reads. They don't print.
#[derive(Clone)]
pub enum Positions<'a> {
    /// Neighbouring ones.
    Range(Range<usize>),
    /// Increasing ones, as a sample has them. **Secret**: they say who was drawn.
    Listed(&'a [u32]),
}

impl Positions<'_> {
    /// How many there are. **Secret** for a sample, and for all records under add/remove.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Positions::Range(range) => range.len(),
            Positions::Listed(list) => list.len(),
        }
    }

    /// Whether there are none. **Secret** as the length is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (range, list) = match self {
            Positions::Range(range) => (range.clone(), &[][..]),
            Positions::Listed(list) => (0..0, *list),
        };
        range.chain(list.iter().map(|&i| i as usize))
    }

    /// Puts what stands at these positions of `all` into `to`, which is emptied first.
    pub(crate) fn copy<T: Copy, U>(&self, all: &[T], to: &mut Vec<U>, each: impl Fn(T) -> U) {
        to.clear();
        match self {
            Positions::Range(range) => to.extend(all[range.clone()].iter().map(|&x| each(x))),
            Positions::Listed(list) => to.extend(list.iter().map(|&i| each(all[i as usize]))),
        }
    }

    /// Pieces of `size` positions, the last one shorter.
    pub(crate) fn blocks(&self, size: usize) -> impl Iterator<Item = Positions<'_>> {
        let size = size.max(1);
        (0..self.len().div_ceil(size)).map(move |k| self.piece(k, size))
    }

    /// Piece number `k` of `size` positions.
    pub(crate) fn piece(&self, k: usize, size: usize) -> Positions<'_> {
        let len = self.len();
        let start = k.saturating_mul(size).min(len);
        let end = start.saturating_add(size).min(len);
        match self {
            Positions::Range(range) => Positions::Range(range.start + start..range.start + end),
            Positions::Listed(list) => Positions::Listed(&list[start..end]),
        }
    }
}
