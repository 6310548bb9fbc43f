//! A tracker as an estimator that is told when to start anew.

use dpopt_oracle::{Counts, Estimate, Estimator, Tracker};
use dpopt_privacy::{Event, NoiseMultiplier, Refused, Spend};

/// An anchor begins a phase of the tracker, everything else goes on in it. Records and noise are the tracker's
/// own.
pub(crate) struct Phases<'a>(pub(crate) &'a mut dyn Tracker);

impl Estimator for Phases<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.0.reserve(spend)
    }

    fn refresh(&mut self, point: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.0.begin_phase();
        Ok(self.0.estimate(point)?.estimate)
    }

    fn advance(&mut self, point: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        Ok(self.0.estimate(point)?.estimate)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.0.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.0.settle()
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }
}
