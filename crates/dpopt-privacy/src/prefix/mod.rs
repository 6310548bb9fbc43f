//! Private prefix sums: noise that is correlated over the steps of a period.
//!
//! A solver that follows a running sum S_t = x_1 + … + x_t of private vectors needs every S_t with
//! noise, not every x_t. Factor the matrix A of prefix sums as A = B C, add unit Gaussian noise w
//! to C x, and release B (C x + w) = S + B w. What it costs depends on the norms of the columns of
//! C, how accurate it is on the rows of B. [`PrefixNoise`] holds one factorisation's public
//! numbers and [`PrefixNoise::best`] chooses; [`crate::Prefix`] runs one on the lattice.
//!
//! ```
//! use dpopt_privacy::{ErrorMeasure, Participation, PrefixKind, PrefixNoise};
//!
//! let best = PrefixNoise::best(1024, Participation::Single, ErrorMeasure::Worst)?;
//! assert_eq!(best.kind(), PrefixKind::Toeplitz);
//! let tree = PrefixNoise::new(PrefixKind::Tree, 1024, Participation::Single)?;
//! assert!(best.worst_variance() < 0.1 * tree.worst_variance());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The proofs, and a table of variances, are in `docs/privacy/sums.md`.

mod blocks;
mod choose;
mod correlated;
mod design;
mod displacement;
mod error;
mod exact;
mod nodes;
mod normals;
mod period;
mod toeplitz;
mod tree;
mod tuned;

#[cfg(test)]
mod exactness_tests;

pub use choose::ErrorMeasure;
pub use design::PrefixNoise;
pub use error::PrefixError;
pub use tuned::TunedFactor;

pub(crate) use displacement::squared_displacement;
pub(crate) use period::PeriodNoise;

/// The factorisation behind the noise of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrefixKind {
    /// Fresh noise on every step; prefix t has the noise of t steps. Memory and time O(d) a step.
    Independent,
    /// A binary tree; prefix t has the noise of as many nodes as t has binary ones. Memory
    /// O(d log len), time O(d log len) a step.
    Tree,
    /// The same tree with every node's sum estimated from all nodes below it too (Honaker 2015).
    /// Memory and time like the tree's.
    Honaker,
    /// The square root of the prefix-sum matrix, a Toeplitz matrix. Memory O(t d), time O(t d)
    /// at step t.
    Toeplitz,
    /// The first `band` diagonals of that square root. Memory and time O(band d) a step.
    Banded {
        /// Number of diagonals, at least 1; more than there are steps are as good as all.
        band: u64,
    },
    /// A banded Toeplitz factor with coefficients of a planner's choice. Memory and time O(band d) a step.
    Tuned(TunedFactor),
}

impl std::fmt::Display for PrefixKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PrefixKind::Independent => f.write_str("independent"),
            PrefixKind::Tree => f.write_str("binary tree"),
            PrefixKind::Honaker => f.write_str("Honaker tree"),
            PrefixKind::Toeplitz => f.write_str("square-root Toeplitz"),
            PrefixKind::Banded { band } => write!(f, "Toeplitz of band {band}"),
            PrefixKind::Tuned(factor) => factor.fmt(f),
        }
    }
}

/// In how many steps of a period one record may take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Participation {
    /// In one: the steps read disjoint slices.
    Single,
    /// In at most `most` steps, any two at least `apart` steps apart: slices that come again.
    Repeated {
        /// Largest number of steps, at least 1.
        most: u64,
        /// Least distance of two steps, at least 1.
        apart: u64,
    },
    /// In all: every step reads all records.
    Every,
    /// In steps that are at least `apart` steps apart, in each of them by a coin of its own: Poisson samples of slices that come
    /// again. Of a factor with at most `apart` bands.
    Sampled {
        /// Least distance of two steps, at least 1.
        apart: u64,
    },
}

impl Participation {
    /// The pair (most, apart) over `len` steps that the sensitivity is of: of one sample, where samples pay one by one.
    pub(crate) fn limits(self, len: u64) -> (u64, u64) {
        match self {
            Participation::Single | Participation::Sampled { .. } => (1, len),
            Participation::Repeated { most, apart } => (most.min((len - 1) / apart + 1), apart),
            Participation::Every => (len, 1),
        }
    }

    /// The pair (most, apart) that the steps of one slice have to keep.
    pub(crate) fn turns(self, len: u64) -> (u64, u64) {
        match self {
            Participation::Sampled { apart } => (len, apart),
            _ => self.limits(len),
        }
    }
}

/// The nodes of the tree that are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// Those that some prefix is made of.
    Plain,
    /// All.
    Reduced,
}
