//! The boxes that cover the region under the normal density.
//!
//! The region `0 ≤ y < exp(−x²/2)`, `0 ≤ x < 4`, is covered by boxes of equal size: strip `j` is
//! `[j, j+1)/64` in `x`, floor `m` is `[m, m+1)/201` in `y`. A point that is uniform in the
//! boxes and lies under the curve has the normal law in `x`. Boxes that lie under the curve as
//! a whole need no look at `y` at all; they are 97 of 100.

use num_bigint::BigUint;
use std::sync::LazyLock;

use super::dyadic::low_bits;
use super::exponential::exp_of_minus;

/// Digits of a random word that choose a box.
pub(super) const BOX_BITS: u32 = 14;

/// Floors in one unit of `y`: the most for which all boxes have a number of 14 bits.
pub(super) const FLOORS: u64 = 201;

/// Strips before the tail, which begins at `x = 4`.
pub(super) const STRIPS: usize = 256;

/// Strips at whose edges the density is tabulated: up to `x = 5`, the first part of the tail.
pub(super) const EDGES: usize = 321;

/// How far above its tabulated value the density at an edge may be, in units of 2^−63.
pub(super) const DENSITY_WIDTH: u64 = 2;

/// With `t` box numbers for the tail, `x` in `[4+n, 5+n)` is proposed with density
/// `t·(15/16)/16^n` in units of the size of a box, `1/(64·201)`. What is proposed is accepted
/// with probability `16^n·exp(−x²/2)` times `TAIL_GAIN / (TAIL_PARTS·t)`.
pub(super) const TAIL_GAIN: u64 = FLOORS * 64 * 16;
/// See [`TAIL_GAIN`].
pub(super) const TAIL_PARTS: u64 = 15;

/// The table. It is computed once in a process, in integers.
pub(super) struct Strips {
    /// The strip of each box under the curve; zeros after those.
    inside: [u8; 1 << BOX_BITS],
    /// How many boxes are under the curve.
    inside_count: usize,
    /// Strip and floor of each box that the curve may cut.
    cut: Vec<(u8, u8)>,
    /// How many numbers stand for the tail.
    tail: u64,
    /// `exp(−(j/64)²/2)` at the edges, in units of 2^−63, rounded down.
    density: [u64; EDGES],
}

/// The meaning of a box number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// A box under the curve, in this strip.
    Inside(u64),
    /// A box that the curve may cut: strip and floor.
    Cut(u64, u64),
    /// A try in the tail.
    Tail,
    /// Nothing: choose again.
    Spare,
}

impl Strips {
    /// The table of this process.
    #[inline]
    pub(super) fn get() -> &'static Self {
        static TABLE: LazyLock<Strips> = LazyLock::new(Strips::compute);
        &TABLE
    }

    /// The strip of the box that the low 14 bits of a word choose, if it is under the curve.
    #[inline(always)]
    pub(super) fn inside(&self, word: u64) -> Option<u64> {
        let number = box_number(word);
        (number < self.inside_count).then(|| u64::from(self.inside[number]))
    }

    /// The meaning of the low 14 bits of a word.
    #[inline]
    pub(super) fn cell(&self, word: u64) -> Cell {
        if let Some(strip) = self.inside(word) {
            return Cell::Inside(strip);
        }
        let beyond = box_number(word) - self.inside_count;
        match self.cut.get(beyond) {
            Some(&(strip, floor)) => Cell::Cut(u64::from(strip), u64::from(floor)),
            None if ((beyond - self.cut.len()) as u64) < self.tail => Cell::Tail,
            None => Cell::Spare,
        }
    }

    /// Numbers that stand for the tail.
    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    /// `exp(−(j/64)²/2)·2^63` lies between this and this plus [`DENSITY_WIDTH`].
    pub(super) fn density(&self, edge: u64) -> Option<u64> {
        self.density.get(edge as usize).copied()
    }

    /// Classifies every box from enclosures of the density at the edges. A box whose place the
    /// enclosure leaves open counts as cut, which is always right: there the curve itself is
    /// looked at. So the law does not depend on how good the table is.
    fn compute() -> Self {
        let mut density = [0; EDGES];
        for (edge, lower) in density.iter_mut().enumerate() {
            let square = BigUint::from((edge * edge) as u64);
            // (j/64)²/2 = j²/2^13. The lower end is below 2^63.
            *lower = low_bits(&exp_of_minus(&square, 13, 63).lower) as u64;
        }
        // Heights are compared in units of 2^−63 / 201.
        let level = |floor: u64| u128::from(floor) << 63;
        let mut inside = [0; 1 << BOX_BITS];
        let mut inside_count = 0;
        let mut cut = Vec::new();
        for (strip, edges) in density.windows(2).take(STRIPS).enumerate() {
            let highest = u128::from(edges[0] + DENSITY_WIDTH) * u128::from(FLOORS);
            let lowest = u128::from(edges[1]) * u128::from(FLOORS);
            for floor in 0..FLOORS {
                if lowest >= level(floor + 1) {
                    inside[inside_count] = strip as u8;
                    inside_count += 1;
                } else if highest > level(floor) {
                    cut.push((strip as u8, floor as u8));
                }
            }
        }
        let at_tail = u128::from(density[STRIPS] + DENSITY_WIDTH);
        let tail = (at_tail * u128::from(TAIL_GAIN)).div_ceil(u128::from(TAIL_PARTS) << 63);
        Self {
            inside,
            inside_count,
            cut,
            tail: tail as u64,
            density,
        }
    }
}

#[inline(always)]
fn box_number(word: u64) -> usize {
    (word & ((1 << BOX_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table, computed again from libm's exponential function. Both agree because no edge
    /// is nearer than 1e-9 to a floor; libm errs by less than 1e-15.
    #[test]
    fn boxes_are_where_the_curve_says() {
        let table = Strips::get();
        let height = |edge: usize| 201.0 * libm::exp(-((edge * edge) as f64) / 8192.0);
        let mut number = 0;
        let mut cuts = Vec::new();
        for strip in 0..256 {
            let (high, low) = (height(strip), height(strip + 1));
            assert!((low - low.round()).abs() > 1e-9);
            for floor in 0..201_u64 {
                if floor as f64 + 1.0 <= low {
                    assert_eq!(table.cell(number), Cell::Inside(strip as u64));
                    number += 1;
                } else if (floor as f64) < high {
                    cuts.push(Cell::Cut(strip as u64, floor));
                }
            }
        }
        for cut in cuts {
            assert_eq!(table.cell(number), cut);
            number += 1;
        }
        // exp(−8)·201·1024/15 = 4.6.
        assert_eq!(table.tail(), 5);
        for _ in 0..5 {
            assert_eq!(table.cell(number), Cell::Tail);
            number += 1;
        }
        // Nothing was left out for want of numbers.
        assert!(number <= 1 << 14);
        for spare in number..1 << 14 {
            assert_eq!(table.cell(spare), Cell::Spare);
        }
    }

    #[test]
    fn densities_are_enclosed() {
        let table = Strips::get();
        for edge in 0..EDGES as u64 {
            let lower = table.density(edge).unwrap();
            let enclosure = exp_of_minus(&BigUint::from(edge * edge), 13, 127);
            assert!(BigUint::from(lower) << 64u32 <= enclosure.lower, "{edge}");
            assert!(
                enclosure.upper <= BigUint::from(lower + DENSITY_WIDTH) << 64u32,
                "{edge}"
            );
            let float = libm::exp(-((edge * edge) as f64) / 8192.0);
            assert!(
                (lower as f64 / 63_f64.exp2() - float).abs() < 1e-15,
                "{edge}"
            );
        }
        assert_eq!(table.density(EDGES as u64), None);
    }
}
