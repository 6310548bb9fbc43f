//! Estimates in tree rounds: a variation is taken from an ancestor, not from the last point.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah 2023 ("Faster Rates of Convergence to Stationary Points in
//! Differentially Private Optimization", arXiv 2206.00846), Algorithm 2. This is a tree of *points*, each change
//! on new records with noise of its own; it has nothing to do with the binary tree of prefix-sum noise.

use dpopt_privacy::ClipNorm;

use super::batch::{HeldSlice, Level, check_batches};
use super::estimate::{Released, StepKind, Tracked};
use super::running::Running;
use crate::error::{AskError, EstimatorError};
use crate::oracle::Oracle;

/// Rounds of 2^D estimates, D being the depth: the leaves of a binary tree, in order. The root is an anchor; a
/// right child at depth j adds the change from its parent's point; a left child is its parent.
///
/// # Formula
/// Leaf l > 0 of a round has its last right child at depth j = D - (trailing zeros of l):
/// estimate = that of node j - 1 on the path, plus the mean of the change from that node's point to the
/// new one, clipped to min(L1 ||w - w_parent||, 2C), or to a radius set for its depth. Its noise has as many terms as l has binary ones, and the
/// root's.
///
/// # Privacy
/// One Gaussian event for each root and each right child, on the records it reads: on unread records each record
/// pays for one.
pub struct TreeRounds {
    running: Running,
    levels: Vec<Level>,
    /// Clip radii of changes by depth, from 1 on, where they are set.
    radii: Vec<ClipNorm>,
    held: HeldSlice,
    /// The nodes of the path to the last leaf, by depth; empty before the first round.
    path: Vec<Released>,
    /// The next leaf of the round; 0 for a root.
    leaf: u64,
}

impl TreeRounds {
    /// Deepest tree: 2^40 leaves.
    pub const MAX_DEPTH: usize = 40;

    /// Estimates at points of `dim` coordinates, clipping the field to `clip`; `levels[0]` is the root, `levels[j]` a right child at
    /// depth j.
    ///
    /// # Errors
    /// [`EstimatorError::Depth`] for no root, or a tree deeper than [`TreeRounds::MAX_DEPTH`]; as for a
    /// [`super::Recursive`] estimate otherwise.
    pub fn new(dim: usize, clip: ClipNorm, levels: Vec<Level>) -> Result<Self, EstimatorError> {
        let Some((root, children)) = levels.split_first() else {
            return Err(EstimatorError::Depth { levels: 0 });
        };
        if children.len() > Self::MAX_DEPTH {
            let levels = levels.len();
            return Err(EstimatorError::Depth { levels });
        }
        check_batches(root.batch, root.batch)?;
        for child in children {
            check_batches(root.batch, child.batch)?;
        }
        Ok(Self {
            running: Running::new(dim, clip),
            levels,
            radii: Vec::new(),
            held: HeldSlice::default(),
            path: Vec::new(),
            leaf: 0,
        })
    }

    /// Clips changes at depth j to `radii[j - 1]`, with noise to match, and not to what their displacement allows: then
    /// the noise of a leaf has a variance that is known before the run. Depths without a radius stay as they were.
    #[must_use]
    pub fn with_radii(mut self, radii: Vec<ClipNorm>) -> Self {
        self.radii = radii;
        self
    }

    /// D.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The depth of the node that is released for leaf `leaf`; 0 for the root.
    fn depth_of(&self, leaf: u64) -> usize {
        match leaf {
            0 => 0,
            // Below 2^40, at most D zeros.
            _ => self.depth() - leaf.trailing_zeros() as usize,
        }
    }

    /// The estimate at `point`, the next leaf.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then, and the round goes on at the same leaf.
    pub fn estimate(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
    ) -> Result<Tracked<'_>, AskError> {
        self.running.check(oracle, point)?;
        // Changes to a point that is not finite count as zero; a root there says nothing wrong.
        let finite = self.running.length_to(point).is_finite();
        let leaf = if finite { self.leaf } else { 0 };
        let depth = self.depth_of(leaf);
        let Level {
            batch,
            noise_multiplier,
        } = self.levels[depth];
        let kind = if leaf == 0 {
            let over = self.held.over(batch, 0.0, oracle)?;
            self.running.anchor(oracle, point, over, noise_multiplier)?;
            StepKind::Anchor
        } else {
            self.running.resume(&self.path[depth - 1])?;
            if self.running.stays_at(oracle, point) {
                self.running.hold();
                StepKind::Held
            } else {
                let length = self.running.length_to(point);
                let over = self.held.over(batch, length, oracle)?;
                let radius = self.radii.get(depth - 1).copied();
                self.running
                    .vary_within(oracle, point, over, noise_multiplier, radius)?;
                StepKind::Variation
            }
        };
        let released = self.running.released();
        self.path.resize(self.levels.len(), released.clone());
        self.path[depth..].fill(released.clone());
        self.leaf = (leaf + 1) & ((1 << self.depth()) - 1);
        Ok(Tracked::new(released.estimate(), kind))
    }

    /// Begins a phase: the next estimate is a root, on new records where a phase has its own.
    pub fn begin_phase(&mut self) {
        self.leaf = 0;
        self.held.release();
    }
}
