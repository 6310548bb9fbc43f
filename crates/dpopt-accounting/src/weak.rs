//! Budgets that promise next to nothing, by public facts alone.

use std::fmt;

use crate::{Delta, Epsilon};

/// Above this an epsilon is warned of.
const LARGEST: f64 = 10.0;

/// Why a budget promises next to nothing. In words it starts with the name of the number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weak {
    /// The epsilon is above 10.
    Epsilon(Epsilon),
    /// The delta is at or above one over the number of records.
    Delta(Delta, u64),
}

impl Weak {
    /// All that is weak in a budget for so many records. The rule is one for everything that takes a budget: epsilon > 10, delta >= 1/n.
    pub fn of(
        epsilon: Option<Epsilon>,
        delta: Option<Delta>,
        records: u64,
    ) -> impl Iterator<Item = Self> {
        let epsilon = epsilon.filter(|epsilon| epsilon.get() > LARGEST);
        let delta = delta.filter(|delta| delta.get() >= 1.0 / records as f64);
        let delta = delta.map(|delta| Self::Delta(delta, records));
        epsilon.map(Self::Epsilon).into_iter().chain(delta)
    }
}

impl fmt::Display for Weak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epsilon(epsilon) => {
                let epsilon = match epsilon.get() {
                    readable if readable < 1e6 => format!("{readable}"),
                    large => format!("{large:e}"),
                };
                write!(
                    f,
                    "epsilon {epsilon} is above {LARGEST}: what is released may change the odds of a guess at one record by a factor of \
                     e^{epsilon}, so that the guarantee hides next to nothing"
                )
            }
            Self::Delta(delta, records) => write!(
                f,
                "delta {:e} is not below one over the number of records ({:.3e}): a mechanism that publishes a random record would \
                 satisfy it",
                delta.get(),
                1.0 / *records as f64
            ),
        }
    }
}
