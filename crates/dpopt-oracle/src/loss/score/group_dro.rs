//! Group-wise distributionally robust optimisation: the scorer that is best for the group it serves worst.

use dpopt_linalg::{Domain, logistic_losses};

use super::point::{diagonal, longest};
use super::{
    At, BlockClips, Cell, CellShares, MeanAt, MeanConstants, Places, RecordAt, ScoreBlock,
    ScoreSaddle, SharesError, logistic_loss,
};
use crate::loss::SaddleConstants;

/// How much a record's gradient may weigh at most, in lengths of a row. Chosen after a look at Census-Income: see `docs/objectives.md`.
const CLIP: f64 = 4.0;
/// Losses up to which the mean of a group is heard in full. Chosen as [`CLIP`].
const HEARD: f64 = 2.0;

/// Group DRO over g groups with public shares pi.
///
/// # Formula
/// f = (u_k/pi_k) l(z) - (m/2) norm(y - 1/g)^2 for a record of group k, l the logistic loss of its class, y on the probability simplex,
/// u_k = y_k + (1 - sum_j y_j)/g, which is y_k there: so grad_y is along the simplex, and what noise and clips do across it is nothing;
/// 0 in place of the first term for a record of no group. The mean is sum_k y_k (mean loss of group k), so Phi is the loss of the worst
/// group less what m makes of it: y* is the projection of 1/g + (losses)/m, inside of the simplex where m is above g times their
/// spread.
///
/// Constants, with q the least share: C_x = X/q, L_xx = X^2/(4q), L_xy = X/q, L_yy = m; of the mean L_xx = X^2/4 (the weights y add up to 1),
/// L_xy = sqrt(g) X (a change of y by its 1-norm), and Phi(0) - inf Phi <= ln 2.
///
/// # Source
/// Sagawa et al. 2020 (arXiv 1911.08731), with a quadratic regulariser.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupDro {
    /// For each group of the shares and each class: its coordinate of y, and 1/pi.
    of: Vec<[Option<(usize, f64)>; 2]>,
    cells: Vec<Vec<Cell>>,
    weight: f64,
    least: f64,
    /// Whether the shares are what they are stated to be.
    exact: bool,
}

impl GroupDro {
    /// Each cell, a class of a group, is a group of its own, or (`by_class` false) each group is one with both of its classes; m is
    /// `weight`.
    ///
    /// # Errors
    /// [`SharesError::TooFew`] below two, [`SharesError::Number`] for a weight that is not positive.
    pub fn new(shares: &CellShares, by_class: bool, weight: f64) -> Result<Self, SharesError> {
        if !(weight > 0.0 && weight.is_finite()) {
            let (name, value) = ("the weight of the dual regulariser", weight);
            return Err(SharesError::Number { name, value });
        }
        let mut cells: Vec<(Vec<Cell>, f64)> = Vec::new();
        for (cell, share) in shares.cells() {
            match cells.last_mut() {
                Some((group, sum)) if !by_class && group[0].group == cell.group => {
                    group.push(cell);
                    *sum += share;
                }
                _ => cells.push((vec![cell], share)),
            }
        }
        if cells.len() < 2 {
            let (cells, what) = (cells.len(), "groups");
            return Err(SharesError::TooFew { cells, what });
        }
        let mut of = vec![[None; 2]; shares.groups()];
        for (k, (group, share)) in cells.iter().enumerate() {
            for cell in group {
                of[cell.group][usize::from(cell.positive)] = Some((k, 1.0 / share));
            }
        }
        let least = cells.iter().map(|(_, share)| *share).fold(1.0, f64::min);
        Ok(Self {
            of,
            cells: cells.into_iter().map(|(group, _)| group).collect(),
            weight,
            least,
            exact: shares.exact(),
        })
    }

    /// The cells of each coordinate of y.
    #[must_use]
    pub fn groups(&self) -> &[Vec<Cell>] {
        &self.cells
    }

    fn of(&self, cell: Cell) -> Option<(usize, f64)> {
        self.of.get(cell.group)?[usize::from(cell.positive)]
    }

    /// u_k.
    #[inline]
    fn along(y: &[f64], k: usize) -> f64 {
        let rest = 1.0 - y.iter().sum::<f64>();
        y[k] + rest / y.len() as f64
    }

    /// The largest share's worth of each coordinate: 1/pi.
    fn weights(&self) -> impl Iterator<Item = (usize, f64)> {
        self.of.iter().flatten().flatten().copied()
    }
}

impl super::sealed::Sealed for GroupDro {}

impl ScoreSaddle for GroupDro {
    fn domain(&self) -> Domain {
        Domain::simplex(self.cells.len())
    }

    fn record_constants(&self, row_norm: f64) -> SaddleConstants {
        let (x, m, g) = (row_norm / self.least, self.weight, self.cells.len() as f64);
        let curved = 0.25 * row_norm * x;
        SaddleConstants {
            lipschitz_x: x,
            lipschitz_y: f64::INFINITY,
            smooth_xx: curved,
            smooth_xy: x,
            smooth_yy: m,
            hessian_frobenius: (curved * curved + 2.0 * x * x + g * m * m).sqrt(),
        }
    }

    fn mean_constants(&self, row_norm: f64) -> MeanConstants {
        MeanConstants {
            strong_concavity: self.weight,
            smooth_xx: 0.25 * row_norm * row_norm,
            smooth_xy: (self.cells.len() as f64).sqrt() * row_norm,
            smooth_yy: self.weight,
            gap: std::f64::consts::LN_2,
        }
    }

    fn proven(&self) -> bool {
        self.exact
    }

    fn rarest(&self) -> f64 {
        self.least
    }

    fn clips(&self, row_norm: f64) -> BlockClips {
        BlockClips {
            x: CLIP * row_norm,
            y: HEARD / self.least,
        }
    }

    fn value(&self, score: f64, cell: Cell, at: At<'_>) -> f64 {
        let even = 1.0 / at.y.len() as f64;
        let away: f64 = at.y.iter().map(|y| (y - even).powi(2)).sum();
        let loss = self.of(cell).map_or(0.0, |(k, weight)| {
            Self::along(at.y, k) * weight * logistic_loss(cell.sign() * score).0
        });
        loss - 0.5 * self.weight * away
    }

    #[inline]
    fn slope(&self, score: f64, cell: Cell, at: At<'_>, _: &mut [f64], y: &mut [f64]) -> f64 {
        let even = 1.0 / at.y.len() as f64;
        for (g, at) in y.iter_mut().zip(at.y) {
            *g = self.weight * (even - at);
        }
        let Some((k, weight)) = self.of(cell) else {
            return 0.0;
        };
        let (loss, slope) = logistic_loss(cell.sign() * score);
        y.iter_mut().for_each(|g| *g -= weight * loss * even);
        y[k] += weight * loss;
        -cell.sign() * slope * (Self::along(at.y, k) * weight)
    }

    fn slopes(&self, block: ScoreBlock<'_>, at: At<'_>) {
        let ScoreBlock {
            scores,
            labels,
            slopes,
            behind,
        } = block;
        let (count, even) = (scores.len(), 1.0 / at.y.len() as f64);
        for (score, label) in scores.iter_mut().zip(labels) {
            *score = if *label > 0.0 { *score } else { -*score };
        }
        // To the sizes of slopes, and the losses in the places of slopes.
        logistic_losses(scores, slopes);
        let rest = even * (1.0 - at.y.iter().sum::<f64>());
        let starts = |j: usize| self.weight * (even - at.y[j]);
        let mut places = Places::none();
        for rows in Places::parts(count) {
            for (place, i) in rows.clone().enumerate() {
                let cell = Cell::of(labels[i]);
                let size = scores[i];
                // What a row adds to the coordinate of its group, in the place of its score.
                (slopes[i], scores[i]) = match self.of(cell) {
                    Some((k, weight)) => {
                        let own = weight * slopes[i];
                        places.set(place, k, own);
                        (-cell.sign() * size * ((at.y[k] + rest) * weight), own)
                    }
                    None => {
                        places.leave(place);
                        (0.0, 0.0)
                    }
                };
            }
            let numbers = &scores[rows.clone()];
            places.spread(behind, (count, rows.start), numbers, (starts, even));
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
        let g = at.y.len();
        diagonal(corner, (0, g), -self.weight);
        let Some((k, weight)) = self.of(cell) else {
            return 0.0;
        };
        let (_, size) = logistic_loss(cell.sign() * score);
        let slope = -cell.sign() * size * weight;
        cross.iter_mut().for_each(|c| *c = -slope / g as f64);
        cross[k] += slope;
        Self::along(at.y, k) * weight * size * (1.0 - size)
    }

    /// |grad_x| <= u_k X/pi_k; grad_y at losses of 0 and of ln(1 + e^reach).
    fn record_at(&self, row_norm: f64, reach: f64, at: At<'_>) -> RecordAt {
        let g = at.y.len() as f64;
        let pull: Vec<f64> = at.y.iter().map(|y| self.weight * (1.0 / g - y)).collect();
        let most = reach + (-reach).exp().ln_1p();
        let mut found = RecordAt {
            x: 0.0,
            y: longest(&pull, &pull, 0.0),
            hessian: [0.0, 0.0, g.sqrt() * self.weight],
        };
        for (k, weight) in self.weights() {
            let own = Self::along(at.y, k).abs() * weight * row_norm;
            let mut heard = vec![-weight / g; at.y.len()];
            heard[k] += weight;
            found.x = found.x.max(own);
            found.y = found.y.max(longest(&pull, &heard, most));
            found.hessian[0] = found.hessian[0].max(0.25 * own * row_norm);
            let cross = weight * row_norm * (1.0 - 1.0 / g).sqrt();
            found.hessian[1] = found.hessian[1].max(cross);
        }
        found
    }

    /// grad_x F = sum_k u_k g_k, norm(g_k) <= X, and F is convex in x.
    fn mean_at(&self, row_norm: f64, at: At<'_>, excess: f64) -> MeanAt {
        let change = (at.y.len() as f64).sqrt() * row_norm * excess;
        MeanAt {
            strong_concavity: self.weight,
            smooth_xy: change,
            smooth_yy: self.weight,
            joint_hessian_lipschitz: 0.25 * row_norm * change,
            lipschitz: row_norm * excess,
            concavity: 0.0,
        }
    }

    /// A sum of logistic losses of a linear score, with weights that are not negative.
    fn convex_in_x(&self) -> bool {
        true
    }

    /// f is m-strongly concave across the simplex too, where its gradient is along it; so the best y of the box, if inside, is on the
    /// simplex.
    fn open_domain(&self) -> Domain {
        let g = self.cells.len();
        Domain::Box {
            low: vec![0.0; g],
            high: vec![1.0; g],
        }
    }
}
