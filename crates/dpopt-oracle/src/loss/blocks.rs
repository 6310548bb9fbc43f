//! The two parts of a joint point.

use std::fmt;

use dpopt_linalg::Domain;
use serde::Serialize;

/// How the coordinates of a joint point (x, v) are split, v = y/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Blocks {
    /// Coordinates of x, in which the value function is minimised: the first ones.
    pub x: usize,
    /// Coordinates of y, in which the loss is maximised: those after them.
    pub y: usize,
    /// s: a joint point holds y/s, and the field s grad_y. Public.
    pub scale: f64,
}

impl Blocks {
    /// Coordinates of a joint point.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.x + self.y
    }

    /// x and y of a joint point.
    ///
    /// # Shapes
    /// `point`: `x + y` numbers; what is missing of a shorter one is left out.
    #[must_use]
    pub fn split(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (x, v) = point.split_at(self.x.min(point.len()));
        (x.to_vec(), v.iter().map(|v| self.scale * v).collect())
    }

    /// The joint point of x and y.
    #[must_use]
    pub fn join(&self, x: &[f64], y: &[f64]) -> Vec<f64> {
        x.iter()
            .copied()
            .chain(y.iter().map(|y| y / self.scale))
            .collect()
    }

    /// Brings the y of a joint point into its domain.
    pub fn project(&self, domain: &Domain, point: &mut [f64]) {
        let Some(block) = point.get_mut(self.x..) else {
            return;
        };
        block.iter_mut().for_each(|v| *v *= self.scale);
        domain.project(block);
        block.iter_mut().for_each(|v| *v /= self.scale);
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { x, y, scale } = self;
        write!(f, "{x} + {y} coordinates (scale {scale})")
    }
}
