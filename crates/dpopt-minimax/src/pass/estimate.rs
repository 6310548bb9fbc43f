//! How estimates are made, and the estimate that a pass walks on.

use dpopt_oracle::{AskError, Oracle, PrefixRecursive, Recursive, Tracked, TreeRounds};
use dpopt_privacy::PrefixKind;

/// How estimates are made of anchors and changes, each on records that were never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassEstimate {
    /// Changes with noise of their own: the noise of a period adds up.
    Chain,
    /// Changes under prefix-sum noise of this kind.
    Prefix(PrefixKind),
    /// Changes from an ancestor in a tree of points: the noise of as many of them adds up as the tree is deep.
    Rounds,
}

impl PassEstimate {
    /// The name of the solver.
    #[must_use]
    pub fn solver(self) -> &'static str {
        match self {
            Self::Chain => "rgda-chain",
            Self::Prefix(_) => "rgda-prefix",
            Self::Rounds => "rgda-rounds",
        }
    }
}

/// The estimate that a pass walks on.
pub(super) enum Estimates {
    Chain(Recursive),
    Prefix(Box<PrefixRecursive>),
    Rounds(TreeRounds),
}

impl Estimates {
    pub(super) fn begin_phase(&mut self) {
        match self {
            Self::Chain(all) => all.begin_phase(),
            Self::Prefix(all) => all.begin_phase(),
            Self::Rounds(all) => all.begin_phase(),
        }
    }

    pub(super) fn estimate(
        &mut self,
        oracle: &mut dyn Oracle,
        point: &[f64],
    ) -> Result<Tracked<'_>, AskError> {
        match self {
            Self::Chain(all) => all.estimate(oracle, point),
            Self::Prefix(all) => all.estimate(oracle, point),
            Self::Rounds(all) => all.estimate(oracle, point),
        }
    }
}
