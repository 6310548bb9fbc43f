//! What a plan of a tree does.

use dpopt_oracle::{Batch, Level};
use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::OutputRule;

/// What a [`TreeSpiderPlan`](super::TreeSpiderPlan) does.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeSpiderSchedule {
    /// Rounds T.
    pub rounds: u64,
    /// Depth D.
    pub depth: u32,
    /// b, m_1, ..., m_D.
    pub batches: Vec<u64>,
    /// P: L1 times the length of all steps of a round.
    pub reach: f64,
    /// Length of a step, P/(2^D L1).
    pub step_length: f64,
    /// The walk stops at an estimate of at most this norm, 2 alpha; none: it never does.
    pub threshold: Option<f64>,
    /// Per-record clip radius, L0.
    pub clip: f64,
    /// Noise multiplier of every release, 1/mu.
    pub noise_multiplier: NoiseMultiplier,
    /// Which leaf is returned. With a threshold that of the smallest estimate, which is the leaf where the walk
    /// stopped, if it did; without one, a leaf drawn uniformly.
    pub output: OutputRule,
}

impl TreeSpiderSchedule {
    /// Leaves of a round, 2^D.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        1u64.checked_shl(self.depth).unwrap_or(u64::MAX)
    }

    /// Steps at most: leaves of all rounds.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.rounds.saturating_mul(self.leaves())
    }

    /// Records of one round, b + sum_j 2^(j-1) m_j.
    #[must_use]
    pub fn records_per_round(&self) -> u64 {
        let children = self.batches.iter().skip(1).enumerate();
        let root = self.batches.first().copied().unwrap_or(0);
        children.fold(root, |sum, (j, m)| {
            let nodes = 1u64.checked_shl(j as u32).unwrap_or(u64::MAX);
            sum.saturating_add(m.saturating_mul(nodes))
        })
    }

    /// Records and noise by depth, as [`TreeRounds`](dpopt_oracle::TreeRounds) takes them.
    #[must_use]
    pub fn levels(&self) -> Vec<Level> {
        let level = |&len: &u64| Level {
            batch: Batch::Next(len),
            noise_multiplier: self.noise_multiplier,
        };
        self.batches.iter().map(level).collect()
    }
}
