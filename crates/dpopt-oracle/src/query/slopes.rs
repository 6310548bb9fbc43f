//! Slopes along directions that all records share: gradients of the smoothed loss from few values.
//!
//! With y uniform on the sphere, d (f(w + a y) - f(w - a y)) / (2 a) y has the gradient of the smoothed loss
//! F_a(w) = E F(w + a u), u uniform in the ball, as its mean. Of m orthonormal directions y_j a record gives the m
//! slopes b_j alone; (d/m) sum_j b_j y_j is made of the released mean.

use std::num::NonZeroUsize;

use dpopt_linalg::{add_scaled, orthonormalise};
use dpopt_privacy::{Bound, ClipNorm, Curator, LatticeError, LatticeSum, Refused};

use super::of_record::Query;
use crate::loss::{Loss, Rays, RecordOf};
use crate::positions::Positions;

/// m orthonormal directions in d dimensions, uniform among all such m-tuples: public, and the same for all records.
#[derive(Debug, Clone, PartialEq)]
pub struct Directions {
    dim: usize,
    count: usize,
    /// One after the other.
    vectors: Vec<f64>,
}

impl Directions {
    /// Draws `count` directions in `dim` dimensions with the Haar law, independent of the data; no more than `dim`.
    ///
    /// # Errors
    /// [`Refused`] when the curator's streams are used up.
    ///
    /// # Complexity
    /// O(d m^2) time, O(d m) memory.
    pub fn draw(curator: &mut Curator, dim: usize, count: NonZeroUsize) -> Result<Self, Refused> {
        let count = count.get().min(dim);
        let mut vectors = vec![0.0; dim * count];
        loop {
            curator.draw_normals(&mut vectors)?;
            // Normals that are too nearly dependent have probability about 1e-8: drawn again.
            if count == 0 || orthonormalise(&mut vectors, dim) {
                return Ok(Self {
                    dim,
                    count,
                    vectors,
                });
            }
        }
    }

    /// Coordinates of each direction, d.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of directions, m.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The directions, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.vectors.chunks_exact(self.dim.max(1))
    }

    /// (d/m) sum_j b_j y_j: the estimate of the gradient that the mean slopes b make. A function of what was released
    /// and of public directions.
    ///
    /// # Shapes
    /// `slopes`: m.
    #[must_use]
    pub fn lift(&self, slopes: &[f64]) -> Vec<f64> {
        let scale = self.dim as f64 / self.count as f64;
        let mut lifted = vec![0.0; self.dim];
        for (direction, slope) in self.iter().zip(slopes) {
            add_scaled(&mut lifted, scale * slope, direction);
        }
        lifted
    }
}

/// The slopes b_j = (f(w + a y_j) - f(w - a y_j)) / (2 a) of each record along m directions that all records share,
/// clipped to `clip` **as one vector of m numbers**: 2m values of each record, and no gradient.
///
/// For an L-Lipschitz loss they are at most kappa_m L long, with kappa_1 = 1 and
/// kappa_m^2 = max(m/2, 1 + (m - 1)(sqrt 2 - 1)^2), whatever the directions
/// ([`smoothed_gradient_bound`](super::smoothed_gradient_bound) of m).
///
/// # Privacy
/// A contribution is a function of one record and of public values: no position is tied to a direction. So it is
/// legal under every adjacency and on every sample. A record with a value that is not finite, at any direction,
/// contributes zero. The clip is enforced, whatever the loss is.
///
/// # Complexity
/// O(d m) memory for each thread: the points are made once, and not for each record.
#[derive(Debug, Clone, Copy)]
pub struct Slopes<'a> {
    /// w.
    pub point: &'a [f64],
    /// The directions.
    pub directions: &'a Directions,
    /// a.
    pub smoothing: f64,
    /// The clip radius, in m dimensions.
    pub clip: ClipNorm,
}

impl Slopes<'_> {
    /// Whether point and directions have `dim` coordinates. Asked before a record is read.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.directions.dim == dim
    }

    /// Values asked of each record: 2m.
    #[must_use]
    pub fn values(&self) -> f64 {
        2.0 * self.directions.count as f64
    }

    fn rays(&self) -> Rays<'_> {
        // The query has been asked whether it fits.
        Rays {
            point: self.point,
            directions: &self.directions.vectors,
            reach: self.smoothing,
        }
    }

    /// Writes the slopes of a loss whose value at a point is `value` to `out`, before the clip.
    ///
    /// # Shapes
    /// `out`: m.
    pub fn write(&self, value: impl FnMut(&[f64]) -> f64, out: &mut [f64]) {
        let rays = self.rays();
        rays.write_slopes(&rays.ends(), value, out);
    }
}

impl<L: Loss> Query<L> for Slopes<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.clip, self.directions.count).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        Slopes::fits(self, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        0.0
    }

    fn values_per_record(&self) -> f64 {
        self.values()
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        self.write(|point| loss.value(record, point), out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        loss.add_slopes(records, positions, &self.rays(), sum);
    }
}
