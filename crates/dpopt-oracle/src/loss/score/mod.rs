//! Saddle losses that see a record through its score <w, x>, its class and its group.
//!
//! | objective | question | y |
//! | --- | --- | --- |
//! | [`GroupDro`] | which scorer is best for the group that it serves worst? | weights of the groups, on a simplex |
//! | [`EqualOpportunity`] | do positives of all groups get the same scores? | prices of the differences, in a box |
//! | [`AucSaddle`] | are positives ranked above negatives? | one number |
//!
//! One objective is one file: a value, a slope in the score, and a few numbers behind the row. Passes are in here, once for all.

mod auc;
mod binned;
mod cells;
mod counts;
mod equal_opportunity;
mod group_dro;
mod places;
mod point;
mod second;
mod tally;

use dpopt_linalg::{
    Domain, Multiples, norm_upper, shorten_columns, shorten_multiples, subtract_shortened,
};
use dpopt_privacy::LatticeSum;

use super::glm::add_multiple;
use super::rows::{Block, Tailed, linear_pass};
use super::saddle::{JointChange, JointPoint, SaddleConstants, SaddleLoss};
use crate::positions::Positions;
use crate::records::{Example, Examples};

pub use auc::AucSaddle;
pub use binned::{ScoreBins, ScoreBinsError};
pub use cells::{Cell, CellShares, SharesError};
pub use counts::CellCounts;
pub use equal_opportunity::EqualOpportunity;
pub use group_dro::GroupDro;
use places::Places;
pub use point::{MeanAt, RecordAt};
pub use tally::Tally;

/// Only objectives of this module: what they do with a record runs without a guard against panics.
mod sealed {
    pub trait Sealed {}
}

/// A saddle loss of the score <w, x>, the cell, and few numbers: those of x behind the weights, and y.
///
/// # Privacy
/// As [`SaddleLoss`]: what a method returns is a function of its arguments alone. None may panic, whatever score and cell are (the group of
/// a hostile label is beyond all shares), since no guard catches it; so the trait is sealed. A loss of your own is a [`SaddleLoss`], which
/// is guarded.
pub trait ScoreSaddle: sealed::Sealed + Sync {
    /// Coordinates of x behind the weights.
    fn extra(&self) -> usize {
        0
    }

    /// Where y is.
    fn domain(&self) -> Domain;

    /// Constants of one record's loss, of rows of norm at most `row_norm`, before blocks are clipped.
    fn record_constants(&self, row_norm: f64) -> SaddleConstants;

    /// Constants of the mean loss.
    fn mean_constants(&self, row_norm: f64) -> MeanConstants;

    /// Whether both hold at every x, and for shares that are what was stated: neither released nor rounded.
    fn proven(&self) -> bool;

    /// The public share that hurts a bound most: of the group or class a record of which weighs most against its part in the mean.
    fn rarest(&self) -> f64;

    /// The clip of each block that is taken where none is given: a rule of public facts.
    fn clips(&self, row_norm: f64) -> BlockClips;

    /// f of a record with this score and cell.
    fn value(&self, score: f64, cell: Cell, at: At<'_>) -> f64;

    /// The derivative in the score; those in the numbers behind the weights and in y are written to `extra` and `y`, which hold
    /// zeros.
    fn slope(&self, score: f64, cell: Cell, at: At<'_>, extra: &mut [f64], y: &mut [f64]) -> f64;

    /// [`slope`](Self::slope) for each row of a block: in one call, which may take functions of many numbers at once. What a row gets depends on
    /// its score and label, and on the point, alone.
    fn slopes(&self, block: ScoreBlock<'_>, at: At<'_>) {
        let count = block.scores.len();
        let mut tail = vec![0.0; at.extra.len() + at.y.len()];
        for i in 0..count {
            tail.fill(0.0);
            let (extra, y) = tail.split_at_mut(at.extra.len());
            let cell = Cell::of(block.labels[i]);
            block.slopes[i] = self.slope(block.scores[i], cell, at, extra, y);
            for (j, x) in tail.iter().enumerate() {
                block.behind[j * count + i] = *x;
            }
        }
    }

    /// The second derivative in the score. Those in the score and each of the numbers behind the weights (of x, then y) are written to
    /// `cross`, those in two of these numbers to `corner`, row by row of the lower triangle; both hold zeros.
    fn second(
        &self,
        score: f64,
        cell: Cell,
        at: At<'_>,
        cross: &mut [f64],
        corner: &mut [f64],
    ) -> f64;

    /// Constants of one record's loss at a point, for rows of norm at most `row_norm` and scores of size at most `reach`.
    fn record_at(&self, row_norm: f64, reach: f64, at: At<'_>) -> RecordAt;

    /// Constants of the mean loss at a point, for records of which no cell has more than `excess` times its share.
    fn mean_at(&self, row_norm: f64, at: At<'_>, excess: f64) -> MeanAt;

    /// Whether F is convex in x for every y of the domain: then so is Phi, and its Hessian needs no release.
    fn convex_in_x(&self) -> bool {
        false
    }

    /// A set that has the domain in it, whose inside is open, and over which y* is the same wherever it lies inside: what is said of y* is
    /// about a neighbourhood. (A simplex has no inside.)
    fn open_domain(&self) -> Domain {
        self.domain()
    }
}

/// A point, without the weights.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The numbers of x behind the weights.
    pub extra: &'a [f64],
    /// y.
    pub y: &'a [f64],
}

/// The rows of a block: what is known of them, and what is to be filled. n rows, w numbers behind each.
#[derive(Debug)]
pub struct ScoreBlock<'a> {
    /// The scores, n; may be overwritten.
    pub scores: &'a mut [f64],
    /// The labels, n.
    pub labels: &'a [f64],
    /// The derivatives in the scores, n. They hold anything.
    pub slopes: &'a mut [f64],
    /// Those in the numbers behind the weights, then in y: number j of row i is `behind[j * n + i]`. They hold anything.
    pub behind: &'a mut [f64],
}

/// Constants of the mean loss, for every distribution of the records whose cells have the public shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanConstants {
    /// m.
    pub strong_concavity: f64,
    /// L_xx.
    pub smooth_xx: f64,
    /// L_xy.
    pub smooth_xy: f64,
    /// L_yy.
    pub smooth_yy: f64,
    /// At least Phi(0) - inf Phi.
    pub gap: f64,
}

/// Clip radii of the blocks of a record's field.
///
/// A joint clip alone would shorten what a record says of y by how long its gradient in x is: of rare groups, which are weighted up,
/// y would then hardly hear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockClips {
    /// C_x.
    pub x: f64,
    /// C_y.
    pub y: f64,
}

/// A [`ScoreSaddle`] as a saddle loss of [`Examples`], each block of whose field is shortened by itself.
///
/// # Formula
/// The field of a record is (g_x min(1, C_x/norm(g_x)), g_y min(1, C_y/norm(g_y))).
///
/// # Privacy
/// That of any [`SaddleLoss`]: both clips are a part of what a record contributes, and the sum clips once more. Weights of groups are in
/// the contribution before it is clipped, never after.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored<S> {
    objective: S,
    clips: BlockClips,
}

impl<S: ScoreSaddle> Scored<S> {
    /// With these clips; one that is not a positive number counts as infinite.
    #[must_use]
    pub fn new(objective: S, clips: BlockClips) -> Self {
        let positive = |clip: f64| if clip > 0.0 { clip } else { f64::INFINITY };
        let clips = BlockClips {
            x: positive(clips.x),
            y: positive(clips.y),
        };
        Self { objective, clips }
    }

    /// With the clips of the objective for rows of norm at most `row_norm`.
    #[must_use]
    pub fn with_own_clips(objective: S, row_norm: f64) -> Self {
        let clips = objective.clips(row_norm);
        Self::new(objective, clips)
    }

    /// The objective.
    #[must_use]
    pub fn objective(&self) -> &S {
        &self.objective
    }

    /// The clips.
    #[must_use]
    pub fn clips(&self) -> BlockClips {
        self.clips
    }

    /// Constants of one record's field, for rows of norm at most `row_norm`: of the shortened one, which is the gradient of nothing
    /// unless the field is [`whole`](Self::whole).
    ///
    /// Shortening is a projection, so constants of a smooth gradient stay. The bound on the Hessian is that of the loss.
    #[must_use]
    pub fn constants(&self, row_norm: f64) -> SaddleConstants {
        let of = self.objective.record_constants(row_norm);
        SaddleConstants {
            lipschitz_x: of.lipschitz_x.min(self.clips.x),
            lipschitz_y: of.lipschitz_y.min(self.clips.y),
            ..of
        }
    }

    /// Whether the clips leave every record's field as it is, and the constants are proven for every x and for these shares.
    ///
    /// Otherwise the field that is released is not the gradient of the loss, and no bound may be stated from the constants.
    #[must_use]
    pub fn whole(&self, row_norm: f64) -> bool {
        let of = self.objective.record_constants(row_norm);
        let finite = of.lipschitz_x.is_finite() && of.lipschitz_y.is_finite();
        let left = of.lipschitz_x <= self.clips.x && of.lipschitz_y <= self.clips.y;
        finite && left && self.objective.proven()
    }

    /// The slope of a row of this norm, and the numbers behind it (those of x, then y), each block shortened.
    #[inline]
    fn shortened(&self, score: f64, row: (f64, f64), at: At<'_>, tail: &mut [f64]) -> f64 {
        let (norm, label) = row;
        // It holds numbers of another record.
        tail.fill(0.0);
        let (extra, y) = tail.split_at_mut(at.extra.len());
        let mut slope = self.objective.slope(score, Cell::of(label), at, extra, y);
        let of_rest: f64 = extra.iter().map(|g| g * g).sum();
        let factor = below(slope * slope * (norm * norm) + of_rest, self.clips.x);
        if factor < 1.0 {
            slope *= factor;
            extra.iter_mut().for_each(|g| *g *= factor);
        }
        let factor = below(y.iter().map(|g| g * g).sum(), self.clips.y);
        if factor < 1.0 {
            y.iter_mut().for_each(|g| *g *= factor);
        }
        slope
    }
}

impl<S: ScoreSaddle> Scored<S> {
    /// As [`shortened`](Self::shortened), of all rows of a block; what is behind them in y is multiplied by the scale.
    fn shorten_all(&self, block: ScoreBlock<'_>, norms: &[f64], (at, scale): (At<'_>, f64)) {
        let ScoreBlock {
            scores,
            labels,
            slopes,
            behind,
        } = block;
        self.objective.slopes(
            ScoreBlock {
                scores,
                labels,
                slopes: &mut *slopes,
                behind: &mut *behind,
            },
            at,
        );
        let count = slopes.len();
        let (extra, y) = behind.split_at_mut(count * at.extra.len());
        shorten_multiples(slopes, norms, extra, self.clips.x);
        shorten_columns(y, count, self.clips.y, scale);
    }
}

/// min(1, clip/sqrt(squares)).
fn below(squares: f64, clip: f64) -> f64 {
    if squares > clip * clip {
        clip / squares.sqrt()
    } else {
        1.0
    }
}

impl<S: ScoreSaddle> SaddleLoss for Scored<S> {
    type Records = Examples;

    const MAY_PANIC: bool = false;

    fn x_dim(&self, records: &Examples) -> usize {
        records.columns() + self.objective.extra()
    }

    fn domain(&self) -> Domain {
        self.objective.domain()
    }

    fn saddle_constants(&self, records: &Examples) -> SaddleConstants {
        self.constants(records.row_norm())
    }

    fn is_whole(&self, records: &Examples) -> bool {
        self.whole(records.row_norm())
    }

    /// Those of [`ScoreSaddle::record_at`], which hold there whatever the shares are.
    fn saddle_constants_at(
        &self,
        records: &Examples,
        at: JointPoint<'_>,
    ) -> (SaddleConstants, bool) {
        let row_norm = records.row_norm();
        let (weights, extra) = split(at.x, self.objective.extra());
        let (reach, scale) = (row_norm * norm_upper(weights), at.scale);
        let at = At { extra, y: at.y };
        let of = self.objective.record_at(row_norm, reach, at);
        let constants = SaddleConstants {
            lipschitz_x: of.x.min(self.clips.x),
            lipschitz_y: of.y.min(self.clips.y),
            ..of.constants(scale)
        };
        (constants, of.x <= self.clips.x && of.y <= self.clips.y)
    }

    fn work(&self, records: &Examples) -> f64 {
        records.entries_per_row()
    }

    fn value(&self, record: Example<'_>, x: &[f64], y: &[f64]) -> f64 {
        let (weights, extra) = split(x, self.objective.extra());
        let (score, cell) = (record.row.dot(weights), Cell::of(record.label));
        self.objective.value(score, cell, At { extra, y })
    }

    fn gradient(&self, record: Example<'_>, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        let (weights, extra) = split(x, self.objective.extra());
        let score = record.row.dot(weights);
        let mut tail = vec![0.0; extra.len() + y.len()];
        let row = (record.norm, record.label);
        let slope = self.shortened(score, row, At { extra, y }, &mut tail);
        let (of_weights, of_extra) = out.0.split_at_mut(weights.len());
        add_multiple(slope, record.row, of_weights);
        let behind = of_extra.iter_mut().chain(out.1);
        behind.zip(&tail).for_each(|(out, g)| *out += g);
    }

    fn add_joint_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        at: JointPoint<'_>,
        sum: &mut LatticeSum,
    ) {
        let (point, extra) = split(at.x, self.objective.extra());
        let (scale, tail) = (at.scale, extra.len() + at.y.len());
        let at = At { extra, y: at.y };
        linear_pass(
            records,
            &positions,
            [Tailed { point, tail }],
            sum,
            |block| {
                let Block {
                    products: [scores],
                    labels,
                    norms,
                    multiples: slopes,
                    tails: behind,
                } = block;
                let block = ScoreBlock {
                    scores,
                    labels,
                    slopes,
                    behind,
                };
                self.shorten_all(block, norms, (at, scale));
            },
        );
    }

    fn add_joint_changes(
        &self,
        records: &Examples,
        positions: &Positions<'_>,
        change: &JointChange<'_>,
        sum: &mut LatticeSum,
    ) -> bool {
        let (from, to) = (change.from, change.to);
        let parts = |x| split(x, self.objective.extra());
        let ((point, start), (_, end), (along, _)) =
            (parts(from.x), parts(to.x), parts(change.along));
        let tail = start.len() + from.y.len();
        let at = |extra, y| (At { extra, y }, to.scale);
        let (start, end) = (at(start, from.y), at(end, to.y));
        let points = [point, along].map(|point| Tailed { point, tail });
        let mut before = Vec::new();
        let mut behind_before = Vec::new();
        linear_pass(records, positions, points, sum, |block| {
            let Block {
                products: [scores, moves],
                labels,
                norms,
                multiples: slopes,
                tails: behind,
            } = block;
            let moved = moves.iter_mut().zip(&*scores);
            moved.for_each(|(to, from)| *to += from);
            before.resize(slopes.len(), 0.0);
            behind_before.resize(behind.len(), 0.0);
            let block = ScoreBlock {
                scores,
                labels,
                slopes: &mut before,
                behind: &mut behind_before,
            };
            self.shorten_all(block, norms, start);
            let block = ScoreBlock {
                scores: moves,
                labels,
                slopes: &mut *slopes,
                behind: &mut *behind,
            };
            self.shorten_all(block, norms, end);
            let new = Multiples {
                multiples: slopes,
                columns: behind,
            };
            let old = Multiples {
                multiples: &before[..],
                columns: &behind_before[..],
            };
            subtract_shortened(new, old, norms, change.clip, change.momentum.kept());
        });
        true
    }
}

/// The weights, and the numbers behind them.
fn split(x: &[f64], extra: usize) -> (&[f64], &[f64]) {
    x.split_at(x.len().saturating_sub(extra))
}

/// ln(1 + e^-m), and 1/(1 + e^m): the logistic loss at the margin m and the size of its slope.
#[inline]
fn logistic_loss(margin: f64) -> (f64, f64) {
    let small = (-margin.abs()).exp();
    let loss = (-margin).max(0.0) + small.ln_1p();
    let slope = if margin > 0.0 { small } else { 1.0 } / (1.0 + small);
    (loss, slope)
}

/// 1/(1 + e^-z) and its derivative.
#[inline]
fn sigmoid(score: f64) -> (f64, f64) {
    let (_, below) = logistic_loss(score);
    let (_, above) = logistic_loss(-score);
    (above, above * below)
}

/// The largest second derivative of 1/(1 + e^-z), 1/(6 sqrt 3), rounded up.
const SIGMOID_CURVATURE: f64 = 0.096_225_1;
