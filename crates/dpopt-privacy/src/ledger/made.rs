//! The run that a ledger has open.

use super::book::Listed;
use super::disk::Pulse;
use crate::event::Event;

/// A run draws one part in so many of its reservation at a time, or one release where that is more.
const DRAWS: f64 = 20.0;

/// The run that is open in this process.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) run: u64,
    pub(super) reserved: f64,
    /// What may be released. It is on record and was synced by this process.
    pub(super) drawn: f64,
    /// What was released, rounded up.
    pub(super) released: f64,
    /// Cost of the share of slices, until a release on one of them was paid.
    pub(super) share: Option<f64>,
    /// Beats for as long as this process could go on releasing.
    pub(super) pulse: Option<(String, Box<dyn Pulse>)>,
    /// How many releases of each kind.
    pub(super) kinds: Vec<Listed>,
    /// What one of each costs.
    pub(super) costs: Vec<f64>,
    pub(super) total: u64,
    /// The total when they were last listed, or that was tried.
    pub(super) tried: u64,
    /// The reservation was not found on record: nothing is released before it is.
    pub(super) doubtful: bool,
}

impl Made {
    /// What one release costs in the filter's unit, where it is known.
    pub(super) fn known_cost(&self, event: &Event, on_slices: bool) -> Option<f64> {
        if on_slices {
            // All slices are paid together with the first release on any of them.
            return Some(self.share.unwrap_or(0.0));
        }
        let mut kinds = self.kinds.iter().zip(&self.costs);
        let known = kinds.find(|(kind, _)| kind.is_kind(event, false));
        known.map(|(_, cost)| *cost)
    }

    /// What is released after one more of that cost, rounded up; never above the reservation,
    /// which the curator keeps to.
    pub(super) fn after(&self, cost: f64) -> f64 {
        let sum = if cost == 0.0 {
            self.released
        } else {
            (self.released + cost).next_up()
        };
        // What is not a number is the whole.
        if sum <= self.reserved {
            sum
        } else {
            self.reserved
        }
    }

    /// What to draw for releases of `needed` in all: a part of the reservation more than was
    /// released, so that no more than that is lost, or one release where that is more.
    pub(super) fn next_draw(&self, needed: f64) -> f64 {
        // So many releases as the part is worth, whatever their sum was rounded up to.
        let part = self.reserved / DRAWS * (1.0 + 1e-9);
        needed.max(self.released + part).min(self.reserved)
    }
}
