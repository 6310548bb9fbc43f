//! Blocks of positions: what may be added in floating point before it goes onto the lattice.

use crate::adjacency::Adjacency;
use crate::units::SamplingRate;

/// Records in a block where every record is read. Tuned: they share the inner caches with what they are multiplied
/// with, and two blocks are enough work for two threads.
const WIDTH: u64 = 128;
/// Records of a sample that a block has on average.
const EXPECTED: f64 = 112.0;
/// Records of a block that are added in single precision; a sample with more of them in a block takes the slower way.
const MOST: u64 = 160;
/// The widest block. It bounds how many records are added in double precision.
pub(super) const WIDEST: u64 = 1 << 20;

/// The positions of the data that share a floating-point sum.
///
/// Block b holds positions b width to (b + 1) width - 1. The width is public and so is a record's position, so a record
/// that is exchanged, zeroed, drawn into a sample or not drawn changes the sum of one block and
/// leaves all other blocks as they are. Under add/remove adjacency positions are not fixed, and there are no blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedBlocks {
    adjacency: Adjacency,
    width: u64,
}

impl FixedBlocks {
    /// Blocks for sums over all records or over a range of them; none under add/remove.
    #[must_use]
    pub fn of_all(adjacency: Adjacency) -> Option<Self> {
        Self::with_width(adjacency, WIDTH)
    }

    /// Blocks for samples of about this share of the records, as wide as gives them 112 records on average; none under
    /// add/remove.
    #[must_use]
    pub fn of_samples(adjacency: Adjacency, rate: SamplingRate) -> Option<Self> {
        Self::with_width(adjacency, (EXPECTED / rate.get()) as u64)
    }

    fn with_width(adjacency: Adjacency, width: u64) -> Option<Self> {
        match adjacency {
            Adjacency::ReplaceOne | Adjacency::ZeroOut => Some(Self {
                adjacency,
                width: width.clamp(1, WIDEST),
            }),
            Adjacency::AddRemove => None,
        }
    }

    /// The adjacency under which positions are fixed.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// Positions in a block, at most 2^20.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The most records of one block that are added in single precision.
    pub(super) fn most(&self) -> u64 {
        MOST.min(self.width)
    }
}

/// The blocks that a sum has taken up.
pub(super) struct Placed {
    pub(super) blocks: FixedBlocks,
    /// Increasing.
    taken: Vec<u64>,
}

impl Placed {
    pub(super) fn new(blocks: FixedBlocks) -> Self {
        Self {
            blocks,
            taken: Vec::new(),
        }
    }

    /// Takes up the block of these positions.
    ///
    /// # Panics
    /// When they are in more than one block, or not after the blocks taken before.
    pub(super) fn take(&mut self, positions: &std::ops::Range<u64>) {
        let width = self.blocks.width;
        let block = positions.start / width;
        assert!(
            positions.start < positions.end && (positions.end - 1) / width == block,
            "positions of one block"
        );
        assert!(
            self.taken.last().is_none_or(|&last| last < block),
            "blocks in order, each once"
        );
        self.taken.push(block);
    }

    /// The blocks of both.
    ///
    /// # Panics
    /// When they share one.
    pub(super) fn merge(mut self, other: Self) -> Self {
        assert!(
            self.blocks == other.blocks,
            "partial sums must share the width of their blocks"
        );
        self.taken.extend(other.taken);
        self.taken.sort_unstable();
        assert!(
            self.taken.windows(2).all(|pair| pair[0] < pair[1]),
            "a block belongs to one partial sum"
        );
        self
    }
}
