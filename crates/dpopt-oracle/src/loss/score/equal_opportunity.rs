//! Equal opportunity: positives of all groups get the same scores, in the mean.

use dpopt_linalg::{Domain, logistic_pairs};

use super::point::{diagonal, longest};
use super::{
    At, BlockClips, Cell, CellShares, MeanAt, MeanConstants, Places, RecordAt, SIGMOID_CURVATURE,
    ScoreBlock, ScoreSaddle, SharesError, logistic_loss, sigmoid,
};
use crate::loss::SaddleConstants;

/// Logistic loss, with a price on how far the mean score of a group's positives is from that of all positives.
///
/// # Formula
/// With h = 1/(1 + e^-z), T_k the mean of h over the positives of group k and T that over all positives,
///
/// F = (mean logistic loss) + sum_k y_k (T_k - T) - (m/2) norm(y)^2, every |y_k| at most 1:
///
/// a positive record of group k adds h (y_k/pi_k - sum_j y_j/pi_+), pi_k the share of those among all records. Phi adds (1/2m) sum_k (T_k -
/// T)^2, as long as y* is inside of the box.
///
/// Constants, with a = max_k (1/pi_k + (g - 1)/pi_+), b = max_k sqrt((1/pi_k - 1/pi_+)^2 + (g - 1)/pi_+^2), r = 1/(6 sqrt 3) the largest second derivative
/// of h: C_x = X (1 + a/4), C_y = b + m sqrt g, L_xx = X^2 (1/4 + r a), L_xy = X b/4, L_yy = m. Of the mean: with q_k =
/// pi_k/pi_+, positives weigh sum_k |y_k - q_k sum_j y_j| <= sum_k ((1 - q_k) + q_k (g - 1)) = 2 (g - 1) in all, so L_xx = X^2 (1/4 + 2 r (g - 1));
/// L_xy = sqrt(g) X/2 (norm(v_k - v) <= X/2 for each k, v_k the means of h' x). Phi(0) = ln 2, and Phi >= F(., 0) >= 0.
///
/// # Source
/// Hardt, Price and Srebro 2016 (arXiv 1610.02413) for the aim; the saddle form is ours.
#[derive(Debug, Clone, PartialEq)]
pub struct EqualOpportunity {
    /// For each group of the shares: its coordinate of y, and 1/pi of its positives.
    of: Vec<Option<(usize, f64)>>,
    /// The group of each coordinate of y.
    groups: Vec<usize>,
    /// 1/pi_+.
    all: f64,
    /// a and b.
    reach: (f64, f64),
    weight: f64,
    /// Whether the shares are what they are stated to be.
    exact: bool,
}

impl EqualOpportunity {
    /// Over the groups whose positives have a share; m is `weight`.
    ///
    /// # Errors
    /// [`SharesError::TooFew`] below two such groups, [`SharesError::Number`] for a weight that is not positive.
    pub fn new(shares: &CellShares, weight: f64) -> Result<Self, SharesError> {
        if !(weight > 0.0 && weight.is_finite()) {
            let (name, value) = ("the weight of the dual regulariser", weight);
            return Err(SharesError::Number { name, value });
        }
        let positive: Vec<(Cell, f64)> = shares.cells().filter(|(cell, _)| cell.positive).collect();
        if positive.len() < 2 {
            let (cells, what) = (positive.len(), "groups with positives");
            return Err(SharesError::TooFew { cells, what });
        }
        let all = 1.0 / shares.positive();
        let others = (positive.len() - 1) as f64;
        let mut of = vec![None; shares.groups()];
        let mut reach = (0.0f64, 0.0f64);
        for (k, (cell, share)) in positive.iter().enumerate() {
            let own = 1.0 / share;
            of[cell.group] = Some((k, own));
            reach.0 = reach.0.max(own + others * all);
            reach.1 = reach.1.max((own - all).hypot(others.sqrt() * all));
        }
        Ok(Self {
            of,
            groups: positive.iter().map(|(cell, _)| cell.group).collect(),
            all,
            reach,
            weight,
            exact: shares.exact(),
        })
    }

    /// The group of each coordinate of y.
    #[must_use]
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    fn of(&self, cell: Cell) -> Option<(usize, f64)> {
        self.of
            .get(cell.group)
            .copied()
            .flatten()
            .filter(|_| cell.positive)
    }
}

impl super::sealed::Sealed for EqualOpportunity {}

impl ScoreSaddle for EqualOpportunity {
    fn domain(&self) -> Domain {
        let g = self.groups.len();
        Domain::Box {
            low: vec![-1.0; g],
            high: vec![1.0; g],
        }
    }

    fn record_constants(&self, row_norm: f64) -> SaddleConstants {
        let ((a, b), m, g) = (self.reach, self.weight, self.groups.len() as f64);
        let curved = row_norm * row_norm * (0.25 + SIGMOID_CURVATURE * a);
        let cross = 0.25 * row_norm * b;
        SaddleConstants {
            lipschitz_x: row_norm * (1.0 + 0.25 * a),
            lipschitz_y: b + m * g.sqrt(),
            smooth_xx: curved,
            smooth_xy: cross,
            smooth_yy: m,
            hessian_frobenius: (curved * curved + 2.0 * cross * cross + g * m * m).sqrt(),
        }
    }

    fn mean_constants(&self, row_norm: f64) -> MeanConstants {
        let g = self.groups.len() as f64;
        let weights = 2.0 * (g - 1.0);
        MeanConstants {
            strong_concavity: self.weight,
            smooth_xx: row_norm * row_norm * (0.25 + SIGMOID_CURVATURE * weights),
            smooth_xy: 0.5 * g.sqrt() * row_norm,
            smooth_yy: self.weight,
            gap: std::f64::consts::LN_2,
        }
    }

    fn proven(&self) -> bool {
        self.exact
    }

    fn rarest(&self) -> f64 {
        let weights = self.of.iter().flatten().map(|(_, own)| *own);
        weights.fold(1.0, f64::max).recip()
    }

    /// C_x = X, that of the logistic loss. y is heard in full.
    fn clips(&self, row_norm: f64) -> BlockClips {
        BlockClips {
            x: row_norm,
            y: self.record_constants(row_norm).lipschitz_y,
        }
    }

    fn value(&self, score: f64, cell: Cell, at: At<'_>) -> f64 {
        let price = self.of(cell).map_or(0.0, |(k, own)| {
            let sum: f64 = at.y.iter().sum();
            sigmoid(score).0 * (at.y[k] * own - sum * self.all)
        });
        let squares: f64 = at.y.iter().map(|y| y * y).sum();
        logistic_loss(cell.sign() * score).0 + price - 0.5 * self.weight * squares
    }

    #[inline]
    fn slope(&self, score: f64, cell: Cell, at: At<'_>, _: &mut [f64], y: &mut [f64]) -> f64 {
        for (g, at) in y.iter_mut().zip(at.y) {
            *g = -self.weight * at;
        }
        let (_, size) = logistic_loss(cell.sign() * score);
        let slope = -cell.sign() * size;
        let Some((k, own)) = self.of(cell) else {
            return slope;
        };
        let (h, steep) = sigmoid(score);
        y.iter_mut().for_each(|g| *g -= h * self.all);
        y[k] += h * own;
        let sum: f64 = at.y.iter().sum();
        slope + steep * (at.y[k] * own - sum * self.all)
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
        let prices = self.all * at.y.iter().sum::<f64>();
        let starts = |j: usize| -self.weight * at.y[j];
        let mut places = Places::none();
        for rows in Places::parts(count) {
            for (place, i) in rows.clone().enumerate() {
                let cell = Cell::of(labels[i]);
                let (h, below) = (scores[i], slopes[i]);
                let slope = if cell.positive { -below } else { h };
                (slopes[i], scores[i]) = match self.of(cell) {
                    Some((k, own)) => {
                        places.set(place, k, own * h);
                        (slope + h * below * (at.y[k] * own - prices), h)
                    }
                    None => {
                        places.leave(place);
                        (slope, 0.0)
                    }
                };
            }
            let numbers = &scores[rows.clone()];
            places.spread(behind, (count, rows.start), numbers, (starts, self.all));
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
        diagonal(corner, (0, at.y.len()), -self.weight);
        let (h, steep) = sigmoid(score);
        let Some((k, own)) = self.of(cell) else {
            return steep;
        };
        cross.iter_mut().for_each(|c| *c = -steep * self.all);
        cross[k] += steep * own;
        let price = at.y[k] * own - at.y.iter().sum::<f64>() * self.all;
        steep + steep * (1.0 - 2.0 * h) * price
    }

    /// With the prices p_k = y_k/pi_k - (sum_j y_j)/pi_+ of the point.
    fn record_at(&self, row_norm: f64, _: f64, at: At<'_>) -> RecordAt {
        let g = at.y.len();
        let sum: f64 = at.y.iter().sum();
        let pull: Vec<f64> = at.y.iter().map(|y| -self.weight * y).collect();
        let mut found = RecordAt {
            x: row_norm,
            y: longest(&pull, &pull, 0.0),
            hessian: [
                0.25 * row_norm * row_norm,
                0.0,
                (g as f64).sqrt() * self.weight,
            ],
        };
        for (k, own) in self.of.iter().copied().flatten() {
            let price = (at.y[k] * own - sum * self.all).abs();
            let mut heard = vec![-self.all; g];
            heard[k] += own;
            found.x = found.x.max(row_norm * (1.0 + 0.25 * price));
            found.y = found.y.max(longest(&pull, &heard, 1.0));
            let curved = row_norm * row_norm * (0.25 + SIGMOID_CURVATURE * price);
            found.hessian[0] = found.hessian[0].max(curved);
            let none = vec![0.0; g];
            let cross = 0.25 * row_norm * longest(&none, &heard, 1.0);
            found.hessian[1] = found.hessian[1].max(cross);
        }
        found
    }

    /// As in [`EqualOpportunity`], with groups that are `excess` times as large: positives weigh at most 2 (g - 1) times that in all.
    fn mean_at(&self, row_norm: f64, at: At<'_>, excess: f64) -> MeanAt {
        let g = at.y.len() as f64;
        let weights = 2.0 * (g - 1.0) * excess;
        MeanAt {
            strong_concavity: self.weight,
            smooth_xy: 0.5 * g.sqrt() * row_norm * excess,
            smooth_yy: self.weight,
            joint_hessian_lipschitz: 2.0
                * SIGMOID_CURVATURE
                * g.sqrt()
                * row_norm
                * row_norm
                * excess,
            lipschitz: row_norm * (1.0 + 0.25 * weights),
            concavity: SIGMOID_CURVATURE * row_norm * row_norm * weights,
        }
    }
}
