//! What randomness is for.

use std::fmt;

/// What the bits of a stream are for. Streams of different purposes never share a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Which records a step looks at.
    Sampling = 1,
    /// The noise of a release.
    Noise = 2,
    /// Random moves of a solver that need not be secret from the analysis, such as the
    /// perturbation that leaves a saddle point.
    Perturbation = 3,
}

impl Purpose {
    /// All purposes, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Sampling, Self::Noise, Self::Perturbation];
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sampling => "sampling",
            Self::Noise => "noise",
            Self::Perturbation => "perturbation",
        })
    }
}
