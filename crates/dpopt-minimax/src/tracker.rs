//! The running estimate of the joint field, and y that follows x: what the solvers of recursive estimates share.

use dpopt_linalg::distance;
use dpopt_oracle::{AskError, Blocks, Estimate, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Refused, Which};
use dpopt_solver::{Asked, ReleaseKind, RunError, paid};

use crate::facts::SaddleFacts;
pub(crate) use crate::place::Ascent;
use crate::place::{Moved, Place};

/// Noise of releases, and when there is an anchor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Noise {
    pub(crate) anchor: NoiseMultiplier,
    pub(crate) variation: NoiseMultiplier,
    /// q: an anchor every so many steps of x.
    pub(crate) period: u64,
    /// An anchor before the squared path since the last one reaches this. Public: it is made of points.
    pub(crate) path: f64,
}

impl Noise {
    pub(crate) fn cost(&self, kind: ReleaseKind) -> f64 {
        match kind {
            ReleaseKind::Anchor => self.anchor.get().powi(-2),
            _ => self.variation.get().powi(-2),
        }
    }
}

/// A joint point, the estimate there, and y on its way.
///
/// # Formula
/// At a new x: one release; then K times y <- Proj(y + lambda g_y) and a release. So each step of x has K + 1 releases, and the last is at the
/// x and y that the step starts from.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    place: Place,
    noise: Noise,
    /// What variations read.
    variations: Which<'static>,
    running: Running,
    /// Where the estimate is.
    known: Option<Vec<f64>>,
    /// Steps of x, and the squared path, since the last anchor.
    outer: u64,
    path: f64,
    /// The next release is an anchor.
    fresh: bool,
    /// Squared mu of all releases.
    spent: f64,
    anchors: u64,
}

impl Tracker {
    pub(crate) fn new(
        facts: &SaddleFacts,
        blocks: Blocks,
        ascent: Ascent,
        noise: Noise,
        start: &[f64],
    ) -> Result<Self, RunError> {
        let clip = ClipNorm::new(facts.joint(blocks.scale).lipschitz).map_err(RunError::Clip)?;
        Ok(Self {
            place: Place::new(facts, blocks, ascent, start)?,
            noise,
            variations: Which::All,
            running: Running::new(start.len(), clip),
            known: None,
            outer: 0,
            path: 0.0,
            fresh: true,
            spent: 0.0,
            anchors: 0,
        })
    }

    /// With variations on samples.
    pub(crate) fn sampling(self, variations: Which<'static>) -> Self {
        Self { variations, ..self }
    }

    /// The joint point.
    pub(crate) fn at(&self) -> &[f64] {
        self.place.at()
    }

    /// Squared mu of all releases so far.
    pub(crate) fn spent(&self) -> f64 {
        self.spent
    }

    /// Anchors so far.
    pub(crate) fn anchors(&self) -> u64 {
        self.anchors
    }

    /// x.
    pub(crate) fn x(&self) -> &[f64] {
        self.place.x_part(self.place.at())
    }

    /// The estimate of grad_x at the last point.
    pub(crate) fn x_part<'g>(&self, gradient: &'g [f64]) -> &'g [f64] {
        self.place.x_part(gradient)
    }

    /// What the next release is.
    fn next(&self) -> ReleaseKind {
        let length = match &self.known {
            Some(known) => distance(known, self.place.at()),
            None => f64::INFINITY,
        };
        // Written so that a path that is not a number is too long.
        let within = self.path + length * length < self.noise.path;
        if self.fresh || !within || (self.place.is_new() && self.outer >= self.noise.period) {
            ReleaseKind::Anchor
        } else {
            ReleaseKind::Variation
        }
    }

    /// Squared mu of the next release, at most.
    pub(crate) fn next_cost(&self) -> f64 {
        self.noise.cost(self.next())
    }

    /// Releases the field where the walk is; none where the budget does not pay for it.
    pub(crate) fn release(
        &mut self,
        oracle: &mut dyn Oracle,
    ) -> Result<Option<ReleaseKind>, AskError> {
        let kind = self.next();
        let length = match &self.known {
            Some(known) if kind != ReleaseKind::Anchor => distance(known, self.place.at()),
            _ => f64::INFINITY,
        };
        let released = match kind {
            ReleaseKind::Anchor => {
                self.running
                    .anchor(oracle, self.place.at(), Which::All, self.noise.anchor)
            }
            _ => self.running.vary(
                oracle,
                self.place.at(),
                self.variations,
                self.noise.variation,
            ),
        };
        // Of a fixed number of releases on samples none of this kind may be left, where an anchor came early.
        let none_left = matches!(
            &released,
            Err(AskError::Refused(Refused::NotReserved { slice: None, .. }))
        );
        if none_left || paid(released)?.is_none() {
            return Ok(None);
        }
        if kind == ReleaseKind::Anchor {
            (self.outer, self.path, self.fresh) = (0, 0.0, false);
            self.anchors += 1;
        } else {
            self.path += length * length;
        }
        // A variation over no distance releases nothing.
        if length > 0.0 {
            self.spent += self.noise.cost(kind);
        }
        self.known = Some(self.place.at().to_vec());
        Ok(Some(kind))
    }

    /// What was released.
    pub(crate) fn asked(&self, kind: ReleaseKind) -> Asked<'_> {
        let estimate: Estimate<'_> = self.running.released().estimate();
        Asked::estimate_at(kind, self.place.at(), estimate)
    }

    /// Makes an ascent step of y along the estimate here; false where all of them were made at this x.
    pub(crate) fn ascend(&mut self, gradient: &[f64]) -> bool {
        let moved = self.place.ascend(gradient);
        self.fresh |= moved == Moved::Before;
        moved != Moved::Nothing
    }

    /// A step of x: `x <- x + length direction`.
    pub(crate) fn step(&mut self, length: f64, direction: &[f64]) {
        self.place.step(length, direction);
        self.outer += 1;
    }

    /// Goes on with other noise, from an anchor, after so many ascent steps on anchors.
    pub(crate) fn restart(&mut self, noise: Noise, before: u64) {
        self.noise = noise;
        self.fresh = true;
        self.place.restart(before);
    }
}
