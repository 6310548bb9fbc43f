//! The running estimate of the joint field, and y that follows x: what the solvers of recursive estimates share.

use dpopt_linalg::{Domain, distance};
use dpopt_oracle::{AskError, Blocks, Estimate, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{Asked, ReleaseKind, RunError, paid};

use crate::facts::SaddleFacts;

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

/// How y follows x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ascent {
    /// K: steps of y for each of x.
    pub(crate) steps: u64,
    /// lambda.
    pub(crate) rate: f64,
    /// Steps of y before the first of x, each on an anchor of its own; the next release is an anchor too.
    pub(crate) before: u64,
}

/// A joint point, the estimate there, and y on its way.
///
/// # Formula
/// At a new x: one release; then K times y <- Proj(y + lambda g_y) and a release. So each step of x has K + 1 releases, and the last is at the
/// x and y that the step starts from.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    blocks: Blocks,
    domain: Domain,
    ascent: Ascent,
    noise: Noise,
    running: Running,
    at: Vec<f64>,
    /// Where the estimate is.
    known: Option<Vec<f64>>,
    /// Ascent steps on anchors that are left.
    before: u64,
    /// Ascent steps made at this x.
    made: u64,
    /// Steps of x, and the squared path, since the last anchor.
    outer: u64,
    path: f64,
    /// The next release is an anchor.
    fresh: bool,
    /// Squared mu of all releases.
    spent: f64,
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
        let mut at = start.to_vec();
        blocks.project(&facts.domain, &mut at);
        let moved = at
            .iter()
            .zip(start)
            .position(|(inside, start)| (inside - start).abs() > 1e-9 * (1.0 + start.abs()));
        if let Some(coordinate) = moved {
            let value = start[coordinate];
            return Err(RunError::StartOutside { coordinate, value });
        }
        Ok(Self {
            blocks,
            domain: facts.domain.clone(),
            ascent,
            noise,
            running: Running::new(start.len(), clip),
            at,
            known: None,
            before: ascent.before,
            made: 0,
            outer: 0,
            path: 0.0,
            fresh: true,
            spent: 0.0,
        })
    }

    /// The joint point.
    pub(crate) fn at(&self) -> &[f64] {
        &self.at
    }

    /// Squared mu of all releases so far.
    pub(crate) fn spent(&self) -> f64 {
        self.spent
    }

    /// The estimate of grad_x at the last point.
    pub(crate) fn x_part<'g>(&self, gradient: &'g [f64]) -> &'g [f64] {
        &gradient[..self.blocks.x]
    }

    /// What the next release is.
    fn next(&self) -> ReleaseKind {
        let length = match &self.known {
            Some(known) => distance(known, &self.at),
            None => f64::INFINITY,
        };
        // Written so that a path that is not a number is too long.
        let within = self.path + length * length < self.noise.path;
        if self.fresh || !within || (self.made == 0 && self.outer >= self.noise.period) {
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
            Some(known) if kind != ReleaseKind::Anchor => distance(known, &self.at),
            _ => f64::INFINITY,
        };
        let released = match kind {
            ReleaseKind::Anchor => {
                self.running
                    .anchor(oracle, &self.at, Which::All, self.noise.anchor)
            }
            _ => self
                .running
                .vary(oracle, &self.at, Which::All, self.noise.variation),
        };
        if paid(released)?.is_none() {
            return Ok(None);
        }
        if kind == ReleaseKind::Anchor {
            (self.outer, self.path, self.fresh) = (0, 0.0, false);
        } else {
            self.path += length * length;
        }
        // A variation over no distance releases nothing.
        if length > 0.0 {
            self.spent += self.noise.cost(kind);
        }
        self.known = Some(self.at.clone());
        Ok(Some(kind))
    }

    /// What was released.
    pub(crate) fn asked(&self, kind: ReleaseKind) -> Asked<'_> {
        let estimate: Estimate<'_> = self.running.released().estimate();
        Asked::estimate_at(kind, &self.at, estimate)
    }

    /// Makes an ascent step of y along the estimate here; false where all of them were made at this x.
    pub(crate) fn ascend(&mut self, gradient: &[f64]) -> bool {
        if self.before > 0 {
            self.before -= 1;
            self.fresh = true;
        } else if self.made < self.ascent.steps {
            self.made += 1;
        } else {
            return false;
        }
        // The block of the field is s grad_y, and that of the point y/s.
        let rate = self.ascent.rate / self.blocks.scale.powi(2);
        let y = self.at.iter_mut().zip(gradient).skip(self.blocks.x);
        y.for_each(|(v, g)| *v += rate * g);
        self.blocks.project(&self.domain, &mut self.at);
        true
    }

    /// A step of x: `x <- x + length direction`.
    pub(crate) fn step(&mut self, length: f64, direction: &[f64]) {
        let pairs = self.at.iter_mut().zip(direction).take(self.blocks.x);
        pairs.for_each(|(x, u)| *x += length * u);
        self.made = 0;
        self.outer += 1;
    }

    /// Goes on with other noise, from an anchor, after so many ascent steps on anchors.
    pub(crate) fn restart(&mut self, noise: Noise, before: u64) {
        self.noise = noise;
        self.fresh = true;
        self.before = before;
        self.made = 0;
    }
}
