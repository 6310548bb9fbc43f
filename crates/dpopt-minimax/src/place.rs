//! A joint point on its way, and y that follows x: what all walks with inner steps share.

use dpopt_linalg::Domain;
use dpopt_oracle::Blocks;
use dpopt_solver::RunError;

use crate::facts::SaddleFacts;

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

impl Ascent {
    /// Refuses a plan by hand under which y never moves.
    pub(crate) fn checked(self, solver: &'static str, blocks: Blocks) -> Result<Self, RunError> {
        if self.steps == 0 && blocks.y > 0 {
            return Err(RunError::Schedule {
                solver,
                name: "number of steps of y for each of x",
                value: 0.0,
            });
        }
        Ok(self)
    }
}

/// What an estimate at a place leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// A step of y before the first of x.
    Before,
    /// A step of y.
    Inner,
    /// None: all steps of y were made at this x.
    Nothing,
}

/// A joint point, and which steps were made there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) blocks: Blocks,
    domain: Domain,
    ascent: Ascent,
    at: Vec<f64>,
    /// Ascent steps on anchors that are left.
    before: u64,
    /// Ascent steps made at this x.
    made: u64,
}

impl Place {
    /// At a starting point, whose y has to be in its domain.
    pub(crate) fn new(
        facts: &SaddleFacts,
        blocks: Blocks,
        ascent: Ascent,
        start: &[f64],
    ) -> Result<Self, RunError> {
        check_inside(blocks, &facts.domain, start)?;
        let mut at = start.to_vec();
        blocks.project(&facts.domain, &mut at);
        Ok(Self {
            blocks,
            domain: facts.domain.clone(),
            ascent,
            at,
            before: ascent.before,
            made: 0,
        })
    }

    pub(crate) fn at(&self) -> &[f64] {
        &self.at
    }

    /// Whether x has just moved, or nothing has.
    pub(crate) fn is_new(&self) -> bool {
        self.made == 0
    }

    /// The estimate of grad_x at the last point.
    pub(crate) fn x_part<'g>(&self, gradient: &'g [f64]) -> &'g [f64] {
        &gradient[..self.blocks.x]
    }

    /// Makes the ascent step of y that is due, along the estimate here.
    pub(crate) fn ascend(&mut self, gradient: &[f64]) -> Moved {
        let moved = if self.before > 0 {
            self.before -= 1;
            Moved::Before
        } else if self.made < self.ascent.steps {
            self.made += 1;
            Moved::Inner
        } else {
            return Moved::Nothing;
        };
        // The block of the field is s grad_y, and that of the point y/s.
        let rate = self.ascent.rate / self.blocks.scale.powi(2);
        let y = self.at.iter_mut().zip(gradient).skip(self.blocks.x);
        y.for_each(|(v, g)| *v += rate * g);
        self.blocks.project(&self.domain, &mut self.at);
        moved
    }

    /// A step of x: `x <- x + length direction`.
    pub(crate) fn step(&mut self, length: f64, direction: &[f64]) {
        let pairs = self.at.iter_mut().zip(direction).take(self.blocks.x);
        pairs.for_each(|(x, u)| *x += length * u);
        self.made = 0;
    }

    /// Begins with so many ascent steps on anchors again.
    pub(crate) fn restart(&mut self, before: u64) {
        (self.before, self.made) = (before, 0);
    }
}

/// Refuses a start whose y is outside of its domain.
pub(crate) fn check_inside(blocks: Blocks, domain: &Domain, start: &[f64]) -> Result<(), RunError> {
    let mut inside = start.to_vec();
    blocks.project(domain, &mut inside);
    let moved = inside
        .iter()
        .zip(start)
        .position(|(inside, start)| (inside - start).abs() > 1e-9 * (1.0 + start.abs()));
    match moved {
        None => Ok(()),
        Some(coordinate) => Err(RunError::StartOutside {
            coordinate,
            value: start[coordinate],
        }),
    }
}
