//! When a recursive estimate starts anew: decided by public facts.

use serde::{Deserialize, Serialize};

/// How far the points have moved since the last anchor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Drift {
    /// The sum of the displacements' lengths. With limit kappa/M it is the drift of Liu and Talwar 2025
    /// (arXiv 2410.07502, Algorithm 3), who add up the norms of gradients at step size 1/M.
    Path(f64),
    /// The sum of the squared lengths: what the variance of independent noise in proportion to each
    /// displacement grows with.
    SquaredPath(f64),
}

/// When an estimate is refreshed. All its conditions are looked at; one that holds is enough.
///
/// # Privacy
/// The decision is a function of the number of steps and of public points.
///
/// The first estimate is always an anchor, and so is one after a point that is not finite, after
/// `begin_phase`, and one whose variation would read as many records as an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refresh {
    /// Every so many estimates: at number 0, q, 2q, … since the last anchor for another reason.
    pub every: Option<u64>,
    /// When the drift, with the step that leads to the new point, reaches the limit.
    pub drift: Option<Drift>,
}

impl Refresh {
    /// At the start of a phase only.
    #[must_use]
    pub fn by_phase() -> Self {
        Self::default()
    }

    /// Every `steps` estimates; a fresh one each time for 0 and 1.
    #[must_use]
    pub fn every(steps: u64) -> Self {
        Self::default().or_every(steps)
    }

    /// When the drift reaches its limit.
    #[must_use]
    pub fn on(drift: Drift) -> Self {
        Self {
            drift: Some(drift),
            ..Self::default()
        }
    }

    /// Every `steps` estimates as well.
    #[must_use]
    pub fn or_every(self, steps: u64) -> Self {
        Self {
            every: Some(steps),
            ..self
        }
    }

    /// How many of `steps` estimates are anchors, if that is known beforehand: ceil(steps / q), where
    /// there is no other reason.
    #[must_use]
    pub fn anchors(&self, steps: u64) -> Option<u64> {
        match (self.every, self.drift) {
            (Some(every), None) => Some(steps.div_ceil(every.max(1))),
            (None, None) => Some(steps.min(1)),
            _ => None,
        }
    }
}

/// Counts and path since the last anchor.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Meter {
    /// Estimates since the last anchor, it included; 0 before the first.
    estimates: u64,
    path: f64,
    squared_path: f64,
}

impl Meter {
    /// Whether an estimate `length` away from the last one is to be an anchor.
    pub(super) fn wants_anchor(&self, rule: &Refresh, length: f64) -> bool {
        let reached = match rule.drift {
            None => false,
            // Written so that a drift that is not a number is too long.
            Some(Drift::Path(limit)) => !(self.path + length < limit),
            Some(Drift::SquaredPath(limit)) => !(self.squared_path + length * length < limit),
        };
        self.estimates == 0
            || rule.every.is_some_and(|every| self.estimates >= every)
            || reached
            || !length.is_finite()
    }

    /// An anchor was released.
    pub(super) fn anchored(&mut self) {
        *self = Self {
            estimates: 1,
            ..Self::default()
        };
    }

    /// The estimate was moved by `length`, or held at 0.
    pub(super) fn moved(&mut self, length: f64) {
        self.estimates += 1;
        self.path += length;
        self.squared_path += length * length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the estimates are anchors, at steps of these lengths.
    fn anchors(rule: Refresh, lengths: &[f64]) -> Vec<bool> {
        let mut meter = Meter::default();
        let decide = |&length: &f64| {
            let anchor = meter.wants_anchor(&rule, length);
            if anchor {
                meter.anchored();
            } else {
                meter.moved(length);
            }
            anchor
        };
        lengths.iter().map(decide).collect()
    }

    #[test]
    fn a_clock_refreshes_every_so_many_steps() {
        for q in 1..5_u64 {
            let found = anchors(Refresh::every(q), &[1.0; 13]);
            for (t, anchor) in (0..).zip(&found) {
                assert_eq!(*anchor, t % q == 0, "{q} {t}");
            }
            let count = found.iter().filter(|a| **a).count() as u64;
            assert_eq!(Refresh::every(q).anchors(13), Some(count));
        }
        assert_eq!(anchors(Refresh::every(0), &[1.0; 3]), [true; 3]);
        assert_eq!(
            anchors(Refresh::by_phase(), &[1.0; 4]),
            [true, false, false, false]
        );
        assert_eq!(Refresh::by_phase().anchors(4), Some(1));
        assert_eq!(Refresh::on(Drift::Path(1.0)).anchors(4), None);
    }

    /// The step that reaches the limit is not taken as a variation, and the sum starts at zero after it.
    #[test]
    fn drift_counts_the_step_that_leads_to_the_point() {
        let path = Refresh::on(Drift::Path(1.0));
        let lengths = [9.0, 0.5, 0.25, 0.25, 0.75, 0.125, 0.125, 0.0];
        // Sums after the first anchor: 0.5, 0.75, 1 (anchor), 0.75, 0.875, 1 (anchor), 0.
        assert_eq!(
            anchors(path, &lengths),
            [true, false, false, true, false, false, true, false]
        );
        let squares = Refresh::on(Drift::SquaredPath(0.5));
        // 0.25, 0.3125, 0.375, then 0.9375 (anchor), 1/64, 1/32, 1/32.
        assert_eq!(
            anchors(squares, &lengths),
            [true, false, false, false, true, false, false, false]
        );
        let either = path.or_every(2);
        assert_eq!(
            anchors(either, &[0.1, 0.1, 0.1, 2.0, 0.1]),
            [true, false, true, true, false]
        );
    }

    #[test]
    fn a_length_that_is_not_finite_refreshes() {
        for length in [f64::NAN, f64::INFINITY] {
            for rule in [
                Refresh::by_phase(),
                Refresh::every(9),
                Refresh::on(Drift::Path(1.0)),
                Refresh::on(Drift::SquaredPath(1.0)),
            ] {
                assert_eq!(anchors(rule, &[0.0, length, 0.0]), [true, true, false]);
            }
        }
    }
}
