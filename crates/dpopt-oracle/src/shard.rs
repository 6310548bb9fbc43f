//! The part of the records that one of several ranks holds.

use std::ops::Range;

use dpopt_privacy::Together;
use zeroize::Zeroizing;

use crate::data_error::DataError;
use crate::positions::{Places, Positions};
use crate::records::Reorder;
use crate::seeded;

/// Which of all records are here, and who has the others.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) together: Together,
    /// Records on all ranks. Private under add/remove.
    pub(crate) total: u64,
    pub(crate) own: Own,
    /// Whether the records know where they are among all.
    pub(crate) placed: bool,
}

/// The positions, among all records, of those that are here, in their order.
#[derive(Clone)]
pub(crate) enum Own {
    /// Neighbouring ones.
    Range(Range<usize>),
    /// Increasing ones: those of a public order, or of a part.
    Listed(Vec<u32>),
}

/// The places of a release that this rank has, by the places that the records have here.
pub(crate) enum Here<'a> {
    Same(Places<'a>),
    /// Places of a sample. **Secret**.
    Some(Zeroizing<Vec<u32>>),
}

impl Here<'_> {
    pub(crate) fn places(&self) -> Places<'_> {
        match self {
            Here::Same(places) => places.clone(),
            Here::Some(list) => Positions::Listed(list).into(),
        }
    }
}

impl Shard {
    /// Has the positions of all ranks' records in a random order: those that are here stay here.
    pub(crate) fn reorder(
        &mut self,
        records: &mut impl Reorder,
        seed: u64,
    ) -> Result<(), DataError> {
        self.together.agree_on("the seed of the order", &seed)?;
        let all = seeded::order(self.total as usize, 1, seed);
        let (places, positions) = self.own.among(&all);
        records.reorder(&places);
        self.own = Own::Listed(positions);
        records.place(&|i| self.own.slot(i));
        Ok(())
    }
}

impl Own {
    /// Where the record at this place is among all.
    pub(crate) fn slot(&self, place: usize) -> usize {
        match self {
            Own::Range(range) => range.start + place,
            Own::Listed(list) => list.get(place).map_or(place, |&slot| slot as usize),
        }
    }

    /// Records here whose position is below this one.
    fn below(&self, position: usize) -> usize {
        match self {
            Own::Range(range) => position.clamp(range.start, range.end) - range.start,
            Own::Listed(list) => list.partition_point(|&slot| (slot as usize) < position),
        }
    }

    /// The place of this position, if it is here.
    fn place(&self, position: u32) -> Option<u32> {
        match self {
            Own::Range(range) => range
                .contains(&(position as usize))
                .then(|| position - range.start as u32),
            Own::Listed(list) => list.binary_search(&position).ok().map(|place| place as u32),
        }
    }

    /// Which of a part's positions are here: their places, and their numbers in the part.
    pub(crate) fn among(&self, part: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let numbered = part.iter().zip(0u32..);
        numbered
            .filter_map(|(&position, number)| Some((self.place(position)?, number)))
            .unzip()
    }

    /// The part of these that is here.
    pub(crate) fn here<'a>(&self, places: Places<'a>) -> Here<'a> {
        match places.without_order() {
            Positions::Range(range) => {
                let start = self.below(range.start);
                let end = self.below(range.end).max(start);
                Here::Same(Positions::Range(start..end).into())
            }
            Positions::Listed(all) => {
                // Increasing, as both lists are.
                let mut list = Zeroizing::new(Vec::with_capacity(all.len()));
                list.extend(all.iter().filter_map(|&position| self.place(position)));
                Here::Some(list)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every position of a release is at one rank, at the place where its record is.
    #[test]
    fn positions_are_split_between_the_ranks() {
        let listed: Vec<u32> = vec![1, 2, 7, 8];
        let rest: Vec<u32> = (0..10).filter(|i| !listed.contains(i)).collect();
        let splits = [
            [Own::Range(0..4), Own::Range(4..10)],
            [Own::Range(0..0), Own::Range(0..10)],
            [Own::Listed(listed), Own::Listed(rest)],
        ];
        let sample = [0, 2, 3, 7, 9];
        for asked in [
            Positions::Range(0..10),
            Positions::Range(3..8),
            Positions::Range(4..4),
            Positions::Listed(&sample),
            Positions::Listed(&[]),
        ] {
            for split in &splits {
                let mut found: Vec<usize> = Vec::new();
                for own in split {
                    let here = own.here(asked.clone().into());
                    let places = here.places().without_order();
                    let slots: Vec<usize> = places.iter().map(|i| own.slot(i)).collect();
                    assert!(slots.is_sorted());
                    found.extend(slots);
                }
                found.sort_unstable();
                assert_eq!(found, asked.iter().collect::<Vec<_>>());
            }
        }
    }
}
