//! Which records of a body a pass reads.

use std::ops::Range;

/// Positions of the records that a pass, or a part of one, reads. They don't print.
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
