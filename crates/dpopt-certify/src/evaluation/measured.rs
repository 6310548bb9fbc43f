//! A number with an interval.

use serde::{Deserialize, Serialize};

/// Share of the range beyond which an interval is too wide for an estimate that was cut to an end
/// of the range. A choice.
const WIDE: f64 = 0.05;

/// A number of these records, with an interval for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// In the interval; `None` where the noise leaves it open: see `Measured::new`.
    pub estimate: Option<f64>,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Measured {
    /// From a released number, an interval, and the range of the quantity. There is no estimate where
    /// the number is NaN, outside of its interval, or cut to an end of the range while the interval
    /// is wider than [`WIDE`] of it.
    pub(super) fn new(
        released: Option<f64>,
        [low, high]: [f64; 2],
        [least, most]: [f64; 2],
    ) -> Self {
        let all = low <= least && high >= most;
        let nearest = released.map(|value| value.clamp(least, most));
        let cut = nearest != released && high - low > WIDE * (most - least);
        let estimate = nearest.filter(|value| !all && !cut && (low..=high).contains(value));
        Self {
            estimate,
            low,
            high,
        }
    }

    /// The estimate; without one the middle of the interval.
    #[must_use]
    pub fn middle(&self) -> f64 {
        self.estimate.unwrap_or(0.5 * (self.low + self.high))
    }

    /// By an increasing function.
    pub(super) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self {
            estimate: self.estimate.map(&of),
            low: of(self.low),
            high: of(self.high),
        }
    }
}
