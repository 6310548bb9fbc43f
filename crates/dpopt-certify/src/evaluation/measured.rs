//! A number with an interval.

use serde::{Deserialize, Serialize};

use super::ratio::Ratio;

/// A number of these records, with an interval for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// In the interval.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Measured {
    pub(super) fn of(ratio: &Ratio, ends: [f64; 2]) -> Self {
        Self {
            estimate: ratio.estimate(ends),
            low: ends[0],
            high: ends[1],
        }
    }
}
