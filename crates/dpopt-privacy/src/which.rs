//! Which records a release reads.

use crate::slice::Slice;
use crate::units::SamplingRate;

/// Which records a release reads: public, and known before anything is drawn or read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Which<'a> {
    /// Every record.
    All,
    /// A Poisson sample: each record enters with this probability, independently.
    Poisson(SamplingRate),
    /// A sample of this many records, all subsets of that size being equally likely.
    FixedSize(u64),
    /// This many records that no slice holds yet: the next slice of the pool.
    Next(u64),
    /// A slice that was taken before.
    Slice(&'a Slice),
    /// A Poisson sample of a slice that was taken before: each of its records enters with this probability, independently.
    Sampled(&'a Slice, SamplingRate),
}

/// Where a release is charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Account {
    /// To the whole reservation.
    Whole,
    /// To the share of one slice of the pool.
    Slice(u64),
    /// To the share of each of these.
    Chain(Vec<u64>),
}

impl Account {
    /// The slices that pay.
    pub(crate) fn slices(&self) -> &[u64] {
        match self {
            Account::Whole => &[],
            Account::Slice(slice) => std::slice::from_ref(slice),
            Account::Chain(slices) => slices,
        }
    }
}
