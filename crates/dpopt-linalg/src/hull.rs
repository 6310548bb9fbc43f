//! The point of a convex hull nearest to 0, with its duality gap (Wolfe's algorithm).

#[cfg(test)]
mod tests;

use faer::Mat;
use faer::linalg::solvers::SolveLstsq;

use crate::vector::{add_scaled, dot, norm};

/// Gaps below this, relative to the longest point, are rounding.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// A hull can't be searched.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HullError {
    /// No points.
    #[error("the hull of no points is empty")]
    Empty,
    /// A point has another dimension.
    #[error("a point of {got} coordinates in a hull of dimension {dim}")]
    Dimension {
        /// Dimension of the hull.
        dim: usize,
        /// Coordinates of the point.
        got: usize,
    },
    /// A point is not finite.
    #[error("a point of the hull is not finite")]
    NotFinite,
    /// The tolerance is not a positive number.
    #[error("the tolerance must be a positive number, got {0}")]
    Tolerance(f64),
}

/// A point of the hull, and how near it is to the nearest one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HullPoint {
    /// x = sum of weight times point: in the hull, whatever else happened.
    pub point: Vec<f64>,
    /// ||x||: an upper bound on the distance of the hull from 0.
    pub norm: f64,
    /// Positive weights that sum to 1, by the position of the point.
    pub weights: Vec<(usize, f64)>,
    /// max over points u of <x, x - u>/||x||, at least 0 (0 for x = 0): the duality gap over the
    /// norm, which bounds how much longer x is than the nearest point.
    pub gap: f64,
    /// Whether the norm or the gap is at most the tolerance, or the gap no more than rounding.
    pub converged: bool,
}

impl HullPoint {
    /// A lower bound on the distance of the hull from 0: every point u of it has
    /// <x, u>/||x|| >= ||x|| - gap, so it is at least that long.
    #[must_use]
    pub fn lower_bound(&self) -> f64 {
        (self.norm - self.gap).max(0.0)
    }
}

/// A set of points to which more are added, and the point of its convex hull nearest to 0.
///
/// # Shapes
/// Points of d coordinates, any number of them; duplicates are welcome.
#[derive(Debug, Clone)]
pub struct Hull {
    dim: usize,
    points: Vec<f64>,
    longest: f64,
    /// Support of the last answer: where the next search starts.
    support: Vec<(usize, f64)>,
}

impl Hull {
    /// The hull of no points yet, in dimension `dim`.
    #[must_use]
    pub fn new(dim: usize) -> Self {
        Self {
            dim,
            points: Vec::new(),
            longest: 0.0,
            support: Vec::new(),
        }
    }

    /// Adds a point; returns its position.
    ///
    /// # Errors
    /// [`HullError::Dimension`], [`HullError::NotFinite`].
    pub fn push(&mut self, point: &[f64]) -> Result<usize, HullError> {
        if point.len() != self.dim {
            return Err(HullError::Dimension {
                dim: self.dim,
                got: point.len(),
            });
        }
        let length = norm(point);
        if !length.is_finite() {
            return Err(HullError::NotFinite);
        }
        self.longest = self.longest.max(length);
        self.points.extend_from_slice(point);
        Ok(self.len() - 1)
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len() / self.dim.max(1)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The point of the hull nearest to 0, up to `tolerance` in its norm.
    ///
    /// # Algorithm
    /// Wolfe's: the nearest point of the affine hull of a small independent subset, by least
    /// squares (QR), with the point of least inner product joining and points of weight zero leaving.
    /// Where rounding spoils the affine step, an exact Frank-Wolfe step takes its place, which
    /// always comes nearer. Point, weights and gap of the answer are computed from the points
    /// themselves, so they hold however the search went.
    ///
    /// # Errors
    /// [`HullError::Empty`], [`HullError::Tolerance`].
    ///
    /// # Complexity
    /// For each step, N d + d k^2 with k at most d + 1 points in the subset.
    ///
    /// # References
    /// Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976).
    pub fn nearest(&mut self, tolerance: f64) -> Result<HullPoint, HullError> {
        if !(tolerance > 0.0) {
            return Err(HullError::Tolerance(tolerance));
        }
        if self.is_empty() {
            return Err(HullError::Empty);
        }
        if self.support.is_empty() {
            let shortest = (0..self.len())
                .min_by(|&a, &b| norm(self.at(a)).total_cmp(&norm(self.at(b))))
                .unwrap_or(0);
            self.support = vec![(shortest, 1.0)];
        }
        // Steps are few in practice; the cap is for what rounding may do.
        for _ in 0..100 + 20 * self.len() {
            let (answer, entering) = self.answer(tolerance);
            if answer.converged {
                return Ok(answer);
            }
            let before = self.support.clone();
            if self.support.iter().all(|&(i, _)| i != entering) {
                self.support.push((entering, 0.0));
            }
            self.reach_affine_minimum();
            if !(norm(&self.combination()) < answer.norm) {
                self.support = before;
                self.frank_wolfe(&answer, entering);
                if !(norm(&self.combination()) < answer.norm) {
                    // Rounding leaves no way down: the answer says how far it is.
                    return Ok(answer);
                }
            }
        }
        Ok(self.answer(tolerance).0)
    }

    fn at(&self, i: usize) -> &[f64] {
        &self.points[i * self.dim..][..self.dim]
    }

    fn combination(&self) -> Vec<f64> {
        let mut point = vec![0.0; self.dim];
        for &(i, weight) in &self.support {
            add_scaled(&mut point, weight, self.at(i));
        }
        point
    }

    /// The current point with its gap, and the point that the gap comes from.
    fn answer(&self, tolerance: f64) -> (HullPoint, usize) {
        let point = self.combination();
        let length = norm(&point);
        let unit: Vec<f64> = if length > 0.0 {
            point.iter().map(|x| x / length).collect()
        } else {
            vec![0.0; self.dim]
        };
        let (mut entering, mut gap) = (0, 0.0f64);
        // Against differences, so that a small gap does not come from two large numbers.
        let mut difference = vec![0.0; self.dim];
        for i in 0..self.len() {
            for (out, (x, u)) in difference.iter_mut().zip(point.iter().zip(self.at(i))) {
                *out = x - u;
            }
            let here = dot(&unit, &difference);
            if here > gap {
                (entering, gap) = (i, here);
            }
        }
        let converged = length <= tolerance || gap <= tolerance.max(ROUNDING * self.longest);
        let answer = HullPoint {
            norm: length,
            weights: self.support.clone(),
            gap,
            converged,
            point,
        };
        (answer, entering)
    }

    /// Minor cycle: moves to the nearest point of the affine hull of the support, dropping points on
    /// the way.
    fn reach_affine_minimum(&mut self) {
        while self.support.len() > 1 {
            let Some(affine) = self.affine_weights() else {
                return;
            };
            if affine.iter().all(|w| *w > 0.0) {
                for (entry, w) in self.support.iter_mut().zip(affine) {
                    entry.1 = w;
                }
                return;
            }
            // As far towards it as all weights stay at least 0.
            let step = self
                .support
                .iter()
                .zip(&affine)
                .filter(|(_, to)| **to <= 0.0)
                .map(|((_, from), to)| if from > to { from / (from - to) } else { 0.0 })
                .fold(1.0, f64::min);
            let mut dropped = 0;
            let mut least = (f64::INFINITY, 0);
            for (k, (entry, to)) in self.support.iter_mut().zip(&affine).enumerate() {
                let moved = (1.0 - step) * entry.1 + step * to;
                entry.1 = if *to <= 0.0 && moved <= 1e-14 {
                    0.0
                } else {
                    moved
                };
                dropped += usize::from(entry.1 <= 0.0);
                if *to <= 0.0 && entry.1 < least.0 {
                    least = (entry.1, k);
                }
            }
            if dropped == 0 {
                self.support.remove(least.1);
            }
            self.support.retain(|entry| entry.1 > 0.0);
            self.normalise();
        }
    }

    fn normalise(&mut self) {
        let sum: f64 = self.support.iter().map(|entry| entry.1).sum();
        self.support.iter_mut().for_each(|entry| entry.1 /= sum);
    }

    /// Weights, of sum 1 and any sign, of the nearest point of the affine hull of the support:
    /// proportional to the least-squares solution of (U; s 1^T) u = (0; s).
    fn affine_weights(&self) -> Option<Vec<f64>> {
        let k = self.support.len();
        if k > self.dim + 1 || !(self.longest > 0.0) {
            return None;
        }
        let matrix = Mat::from_fn(self.dim + 1, k, |row, column| {
            if row == self.dim {
                1.0
            } else {
                self.at(self.support[column].0)[row] / self.longest
            }
        });
        let goal = Mat::from_fn(
            self.dim + 1,
            1,
            |row, _| {
                if row == self.dim { 1.0 } else { 0.0 }
            },
        );
        let solution = matrix.qr().solve_lstsq(&goal);
        let sum: f64 = (0..k).map(|i| solution[(i, 0)]).sum();
        let weights: Vec<f64> = (0..k).map(|i| solution[(i, 0)] / sum).collect();
        (sum > 0.0 && weights.iter().all(|w| w.is_finite())).then_some(weights)
    }

    /// To the nearest point of the segment from the current point to `entering`.
    fn frank_wolfe(&mut self, answer: &HullPoint, entering: usize) {
        let difference: Vec<f64> = answer
            .point
            .iter()
            .zip(self.at(entering))
            .map(|(x, u)| x - u)
            .collect();
        let length = norm(&difference);
        if !(length > 0.0) {
            return;
        }
        let step = (answer.gap / length * (answer.norm / length)).min(1.0);
        for entry in &mut self.support {
            entry.1 *= 1.0 - step;
        }
        match self.support.iter_mut().find(|entry| entry.0 == entering) {
            Some(entry) => entry.1 += step,
            None => self.support.push((entering, step)),
        }
        self.support.retain(|entry| entry.1 > 0.0);
        self.normalise();
    }
}
