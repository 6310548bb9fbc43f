//! Ranking: positives above negatives, by the square surrogate of the area under the curve.

use dpopt_linalg::{Domain, logistic_pairs};

use super::point::diagonal;
use super::{
    At, BlockClips, Cell, CellShares, MeanAt, MeanConstants, RecordAt, SIGMOID_CURVATURE,
    ScoreBlock, ScoreSaddle, SharesError, sigmoid,
};
use crate::loss::SaddleConstants;

/// C_x over the bound on rows. Chosen after a look at Census-Income: see `docs/objectives.md`.
const CLIP: f64 = 0.125;
/// Largest size of y, whose best value is the mean score of negatives less that of positives, in [-1, 1].
const REACH: f64 = 1.5;
/// How far a and b may be from 1/2 for the constants to hold; their best values are within half of it.
const NEAR: f64 = 1.0;

/// The square surrogate of the AUC as a saddle problem, of the score h = 1/(1 + e^-z).
///
/// # Formula
/// x = (w, a', b') with a = 1/2 + a', b = 1/2 + b', y = theta in [-1.5, 1.5], p the public share of positives:
///
/// f = (1 - p) ((h - a)^2 - 2 (1 + theta) h) - p (1 - p) theta^2 for a positive, p ((h - b)^2 + 2 (1 + theta) h) - p (1 - p) theta^2 for
/// a negative. The mean at the best a, b and theta is p (1 - p) (E (1 - h+ + h-)^2 - 1), over pairs.
///
/// Constants for |a'|, |b'| <= 1 (their best values are within 1/2; beyond, the clip holds), with u = max(p, 1 - p): |h - a| <= 3/2 and 1 + theta <= 5/2, so
/// C_x = u hypot(2 X, 3), C_y = 2 u + 3 p (1 - p). Second derivatives in (z, a): at most A = 1/8 + 8 r, B = 1/2, 2 times u, with r =
/// 1/(6 sqrt 3); L_xx the largest row sum of [[A X^2, B X], [B X, 2]] times u, L_xy = u X/2, L_yy = 2 p (1 - p). In the mean each class weighs p (1 - p).
///
/// # Source
/// Ying, Wen and Lyu 2016 (NeurIPS), with a bounded score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AucSaddle {
    positive: f64,
    /// Sum of the negatives' shares over 1 - p, at least 1: published shares are rounded.
    over: f64,
}

impl AucSaddle {
    /// With the public share of positives. Each record is of a class, those of a cell without a share too, and no cell may be left out of
    /// the share of its class: shares of several groups are added up where they are stated, and refused where they are released and one
    /// was not seen above the noise.
    ///
    /// # Errors
    /// [`SharesError::TooFew`] where one class has no share, [`SharesError::Unknown`] where a cell has none and the others do not add up to 1
    /// to the last digits.
    pub fn new(shares: &CellShares) -> Result<Self, SharesError> {
        let positive = shares.positive();
        if !(positive > 0.0 && positive < 1.0) {
            let (cells, what) = (1, "classes");
            return Err(SharesError::TooFew { cells, what });
        }
        if let Some(cell) = shares.unknown().filter(|_| !shares.exact()) {
            let class = if cell.positive {
                "positive"
            } else {
                "negative"
            };
            let group = cell.group;
            return Err(SharesError::Unknown { group, class });
        }
        let all: f64 = shares.cells().map(|(_, share)| share).sum();
        let over = ((all - positive) / (1.0 - positive)).max(1.0);
        Ok(Self { positive, over })
    }

    /// p (1 - p).
    fn spread(&self) -> f64 {
        self.positive * (1.0 - self.positive)
    }

    /// A X^2, B X and 2.
    fn curvatures(row_norm: f64) -> (f64, f64, f64) {
        let square = 0.125 + SIGMOID_CURVATURE * (1.0 + 2.0 * NEAR + 2.0 * (1.0 + REACH));
        (square * row_norm * row_norm, 0.5 * row_norm, 2.0)
    }

    /// The weight of the class, the sign of 1 + theta, and which of a and b is its own.
    fn class(&self, cell: Cell) -> (f64, f64, usize) {
        if cell.positive {
            (1.0 - self.positive, -1.0, 0)
        } else {
            (self.positive, 1.0, 1)
        }
    }
}

impl super::sealed::Sealed for AucSaddle {}

impl ScoreSaddle for AucSaddle {
    fn extra(&self) -> usize {
        2
    }

    fn domain(&self) -> Domain {
        Domain::Box {
            low: vec![-REACH],
            high: vec![REACH],
        }
    }

    fn record_constants(&self, row_norm: f64) -> SaddleConstants {
        let u = self.positive.max(1.0 - self.positive);
        let (square, cross, own) = Self::curvatures(row_norm);
        let (with_y, of_y) = (0.5 * u * row_norm, 2.0 * self.spread());
        let squares = square * square + 2.0 * cross * cross + own * own;
        SaddleConstants {
            lipschitz_x: u * (2.0 * row_norm).hypot(3.0),
            lipschitz_y: 2.0 * u + 2.0 * REACH * self.spread(),
            smooth_xx: u * (square + cross).max(cross + own),
            smooth_xy: with_y,
            smooth_yy: of_y,
            hessian_frobenius: (u * u * squares + 2.0 * with_y * with_y + of_y * of_y).sqrt(),
        }
    }

    fn mean_constants(&self, row_norm: f64) -> MeanConstants {
        let (square, cross, own) = Self::curvatures(row_norm);
        let spread = self.spread();
        MeanConstants {
            strong_concavity: 2.0 * spread,
            smooth_xx: spread * (2.0 * square + 2.0 * cross).max(cross + own),
            smooth_xy: spread * row_norm,
            smooth_yy: 2.0 * spread,
            gap: spread,
        }
    }

    /// The constants are for |a'|, |b'| <= 1, and x is anywhere.
    fn proven(&self) -> bool {
        false
    }

    fn rarest(&self) -> f64 {
        self.positive.min(1.0 - self.positive)
    }

    fn clips(&self, row_norm: f64) -> BlockClips {
        BlockClips {
            x: CLIP * row_norm,
            y: self.record_constants(row_norm).lipschitz_y,
        }
    }

    fn value(&self, score: f64, cell: Cell, at: At<'_>) -> f64 {
        let (weight, sign, own) = self.class(cell);
        let (h, theta) = (sigmoid(score).0, at.y[0]);
        let residual = h - 0.5 - at.extra[own];
        let of_class = residual * residual + sign * 2.0 * (1.0 + theta) * h;
        weight * of_class - self.spread() * theta * theta
    }

    #[inline]
    fn slope(&self, score: f64, cell: Cell, at: At<'_>, extra: &mut [f64], y: &mut [f64]) -> f64 {
        let (weight, sign, own) = self.class(cell);
        let ((h, steep), theta) = (sigmoid(score), at.y[0]);
        let residual = h - 0.5 - at.extra[own];
        extra.fill(0.0);
        extra[own] = -2.0 * weight * residual;
        y[0] = 2.0 * (weight * sign * h - self.spread() * theta);
        2.0 * weight * steep * (residual + sign * (1.0 + theta))
    }

    fn slopes(&self, block: ScoreBlock<'_>, at: At<'_>) {
        let ScoreBlock {
            scores,
            labels,
            slopes,
            behind,
        } = block;
        let count = scores.len();
        // To h, and 1 - h in the places of slopes.
        logistic_pairs(scores, slopes);
        let (theta, spread) = (at.y[0], self.spread());
        let [positive, negative] = [true, false].map(|positive| {
            let (weight, sign, own) = self.class(Cell { positive, group: 0 });
            let centre = 0.5 + at.extra[own];
            (
                2.0 * weight,
                centre,
                sign * (1.0 + theta),
                2.0 * weight * sign,
            )
        });
        let (of_a, rest) = behind.split_at_mut(count);
        let (of_b, of_y) = rest.split_at_mut(count);
        let rows = scores.iter().zip(slopes).zip(labels);
        let out = of_a.iter_mut().zip(of_b).zip(of_y);
        for (((h, slope), label), ((a, b), y)) in rows.zip(out) {
            let above = *label > 0.0;
            let (weight, centre, pull, lever) = if above { positive } else { negative };
            let residual = h - centre;
            let own = -weight * residual;
            *a = if above { own } else { 0.0 };
            *b = if above { 0.0 } else { own };
            *y = lever * h - 2.0 * spread * theta;
            *slope = weight * (h * *slope) * (residual + pull);
        }
    }

    fn second(
        &self,
        score: f64,
        cell: Cell,
        at: At<'_>,
        cross: &mut [f64],
        corner: &mut [f64],
    ) -> f64 {
        let (weight, sign, own) = self.class(cell);
        let ((h, steep), theta) = (sigmoid(score), at.y[0]);
        cross[own] = -2.0 * weight * steep;
        cross[2] = 2.0 * weight * sign * steep;
        diagonal(corner, (own, own + 1), 2.0 * weight);
        diagonal(corner, (2, 3), -2.0 * self.spread());
        let pull = h - 0.5 - at.extra[own] + sign * (1.0 + theta);
        2.0 * weight * (steep * (1.0 - 2.0 * h) * pull + steep * steep)
    }

    /// With |h - a| <= 1/2 + |a'| at this a', and likewise for b.
    fn record_at(&self, row_norm: f64, _: f64, at: At<'_>) -> RecordAt {
        let theta = at.y[0];
        let mut found = RecordAt {
            x: 0.0,
            y: 0.0,
            hessian: [0.0, 0.0, 2.0 * self.spread()],
        };
        for positive in [false, true] {
            let (weight, _, own) = self.class(Cell { positive, group: 0 });
            let off = 0.5 + at.extra[own].abs();
            let pull = off + (1.0 + theta).abs();
            let x = 2.0 * weight * (0.25 * row_norm * pull).hypot(off);
            let curved = 2.0 * weight * (SIGMOID_CURVATURE * pull + 0.0625) * row_norm * row_norm;
            let cross = 0.5 * weight * row_norm;
            let of_x = (curved * curved + 2.0 * cross * cross + 4.0 * weight * weight).sqrt();
            found.x = found.x.max(x);
            let y = 2.0 * (weight + self.spread() * theta.abs());
            found.y = found.y.max(y);
            found.hessian[0] = found.hessian[0].max(of_x);
            found.hessian[1] = found.hessian[1].max(cross);
        }
        found
    }

    /// In the mean each class weighs at most p (1 - p) times the excess, negatives as much more as their shares are above 1 - p; |1 + theta| <= 5/2.
    fn mean_at(&self, row_norm: f64, at: At<'_>, excess: f64) -> MeanAt {
        let each = self.spread() * self.over * excess;
        let off = |own: usize| 0.5 + at.extra[own].abs();
        let pull = |own: usize| off(own) + 1.0 + REACH;
        let x = |own: usize| (0.25 * row_norm * pull(own)).hypot(off(own));
        // Without the squares, which are convex in (z, a): what is left is r (|h - a| + |1 + theta|).
        let bent = |own: usize| SIGMOID_CURVATURE * pull(own);
        MeanAt {
            strong_concavity: 2.0 * self.spread(),
            smooth_xy: each * row_norm,
            smooth_yy: 2.0 * self.spread(),
            joint_hessian_lipschitz: 4.0 * SIGMOID_CURVATURE * each * row_norm * row_norm,
            lipschitz: 2.0 * each * (x(0) + x(1)),
            concavity: 2.0 * each * row_norm * row_norm * (bent(0) + bent(1)),
        }
    }
}
