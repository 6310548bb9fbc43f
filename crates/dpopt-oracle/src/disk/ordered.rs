//! Rows of a file in a random order of runs of neighbours, and within each.

use std::ops::Range;

use dpopt_linalg::Wanted;
use zeroize::Zeroizing;

use super::source::{Blocks, ReadBlock, Rows};
use crate::error::AskError;
use crate::positions::Places;
use crate::records::{Examples, Slots};
use crate::seeded;

/// Rows of a file, and the order that places are in.
///
/// A pass reads the rows at the places of a slice or a sample where they lie, in the order of the file: sums do not depend on it. What goes by
/// position goes by that in the order.
pub(super) struct Ordered {
    pub(super) rows: Rows,
    /// None: that of the file.
    order: Option<Order>,
    /// The position of the first row among the records of all ranks.
    first: usize,
}

/// Two permutations, each the other's inverse: 8 bytes for each row.
struct Order {
    row_at: Vec<u32>,
    place_of: Vec<u32>,
}

impl Ordered {
    pub(super) fn as_they_come(rows: Rows) -> Self {
        Self {
            rows,
            order: None,
            first: 0,
        }
    }
}

impl Blocks for Ordered {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn blocks(&self) -> usize {
        self.rows.blocks()
    }

    fn block(&self, k: usize) -> Range<usize> {
        self.rows.block(k)
    }

    fn put_in_order(&mut self, seed: u64) -> usize {
        let run = self.rows.run();
        let row_at = seeded::order(self.rows.len(), run, seed);
        let mut place_of = vec![0; row_at.len()];
        for (place, &row) in row_at.iter().enumerate() {
            place_of[row as usize] = place as u32;
        }
        self.order = Some(Order { row_at, place_of });
        run
    }

    fn place_from(&mut self, first: usize) {
        self.first = first;
    }

    fn rows_at(&self, places: &Places<'_>) -> Option<Zeroizing<Vec<u32>>> {
        places.rows(&self.order.as_ref()?.row_at)
    }

    fn unchanged(&self) -> Result<(), AskError> {
        self.rows.unchanged()
    }

    fn reader(&self) -> Box<dyn ReadBlock + '_> {
        let reader = self.rows.reader();
        match &self.order {
            None if self.first > 0 => Box::new(Shifted {
                reader,
                by: self.first,
            }),
            None => reader,
            Some(order) => Box::new(Placed {
                reader,
                place_of: &order.place_of,
            }),
        }
    }
}

/// Notes of rows that were read where they stand among those of all ranks.
struct Shifted<'a> {
    reader: Box<dyn ReadBlock + 'a>,
    by: usize,
}

impl ReadBlock for Shifted<'_> {
    fn read(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        examples: &mut Examples,
    ) -> Result<(), AskError> {
        self.reader.read(k, wanted, examples)?;
        let (_, _, slots) = examples.buffers();
        match slots {
            Slots::From(first) => *first += self.by,
            Slots::Listed(list) => list.iter_mut().for_each(|slot| *slot += self.by as u32),
        }
        Ok(())
    }
}

/// Notes of rows that were read where they stand in the order.
struct Placed<'a> {
    reader: Box<dyn ReadBlock + 'a>,
    place_of: &'a [u32],
}

impl ReadBlock for Placed<'_> {
    fn read(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        examples: &mut Examples,
    ) -> Result<(), AskError> {
        self.reader.read(k, wanted, examples)?;
        let (_, _, slots) = examples.buffers();
        *slots = Slots::Listed(wanted.iter().map(|row| self.place_of[row]).collect());
        Ok(())
    }
}
