//! Constants of objectives of scores at one public point.

use crate::loss::saddle::SaddleConstants;

/// Constants of **one record's** loss at one public point (x, y): for rows of norm at most X and scores of size at most X norm(w). For the
/// clips of releases there, which then shorten nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordAt {
    /// A bound on the norm of grad_x.
    pub x: f64,
    /// A bound on the norm of grad_y.
    pub y: f64,
    /// Bounds on the Frobenius norms of the blocks of the Hessian: in x, between x and y, in y.
    pub hessian: [f64; 3],
}

impl RecordAt {
    /// A bound on the Frobenius norm of the Hessian in (x, y/s).
    #[must_use]
    pub fn frobenius(&self, scale: f64) -> f64 {
        let [xx, xy, yy] = self.hessian;
        let (cross, of_y) = (scale * xy, scale * scale * yy);
        (xx * xx + 2.0 * cross * cross + of_y * of_y).sqrt()
    }

    /// As constants of a joint point of this scale: for clips at this point alone, and without smoothness.
    #[must_use]
    pub fn constants(&self, scale: f64) -> SaddleConstants {
        SaddleConstants {
            lipschitz_x: self.x,
            lipschitz_y: self.y,
            smooth_xx: self.hessian[0],
            smooth_xy: self.hessian[1],
            smooth_yy: self.hessian[2],
            hessian_frobenius: self.frobenius(scale) / scale.max(1.0).powi(2),
        }
    }
}

/// Constants of the **mean** loss at one public x, for every y of the domain. No cell may have more than `excess` times its share of
/// the records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanAt {
    /// m, whatever the shares.
    pub strong_concavity: f64,
    /// Lipschitz constant of grad_x F in y.
    pub smooth_xy: f64,
    /// Lipschitz constant of grad_y F in y.
    pub smooth_yy: f64,
    /// Lipschitz constant in y of the Hessian of F in (x, y).
    pub joint_hessian_lipschitz: f64,
    /// No gradient of Phi at x is longer than that: a bound that is not below it says nothing.
    pub lipschitz: f64,
    /// The Hessian of Phi at x has no eigenvalue below minus that, whatever the records are; 0 where F is convex in x.
    pub concavity: f64,
}

/// Puts `value` on the diagonal of a lower triangle, from row `first` on.
pub(super) fn diagonal(corner: &mut [f64], (first, last): (usize, usize), value: f64) {
    for k in first..last {
        corner[k * (k + 3) / 2] = value;
    }
}

/// The largest norm of a + t b for t in [0, `most`]: at one of the ends, since norms are convex.
pub(super) fn longest(a: &[f64], b: &[f64], most: f64) -> f64 {
    let at = |t: f64| {
        let squares = a.iter().zip(b).map(|(a, b)| (a + t * b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    at(0.0).max(at(most))
}
