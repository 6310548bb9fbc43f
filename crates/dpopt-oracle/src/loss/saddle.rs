//! Losses of two points: minimised in the one, maximised in the other.

use std::borrow::Cow;

use dpopt_linalg::{Domain, DomainError};
use dpopt_privacy::LatticeSum;
use serde::Serialize;

use super::blocks::Blocks;
use super::segment::{Momentum, Segment};
use super::traits::{
    Bordered, Constants, Convexity, Differentiable, Loss, RecordOf, TwiceDifferentiable,
    add_contribution, add_each_change,
};
use crate::positions::Positions;
use crate::records::Records;

/// Constants of **one record's** loss: for clips and noise, and for nothing else. Those of the mean decide on steps and bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SaddleConstants {
    /// C_x: a bound on the norm of grad_x.
    pub lipschitz_x: f64,
    /// C_y: a bound on the norm of grad_y, on the domain.
    pub lipschitz_y: f64,
    /// L_xx: Lipschitz constant of grad_x in x.
    pub smooth_xx: f64,
    /// L_xy: Lipschitz constant of grad_x in y, and of grad_y in x.
    pub smooth_xy: f64,
    /// L_yy: Lipschitz constant of grad_y in y.
    pub smooth_yy: f64,
    /// C_F: a bound on the Frobenius norm of the Hessian in (x, y); infinite where none is known.
    pub hessian_frobenius: f64,
}

impl SaddleConstants {
    /// The clip radius of (grad_x, s grad_y): hypot(C_x, s C_y).
    #[must_use]
    pub fn clip(&self, scale: f64) -> f64 {
        self.lipschitz_x.hypot(scale * self.lipschitz_y)
    }

    /// A Lipschitz constant of (grad_x, s grad_y) in (x, y/s): the larger eigenvalue of [[L_xx, s L_xy], [s L_xy, s^2 L_yy]].
    ///
    /// # Source
    /// Each block of the Hessian has at most the norm in its place; so has the whole the norm of this matrix.
    #[must_use]
    pub fn smoothness(&self, scale: f64) -> f64 {
        let (a, b) = (self.smooth_xx, scale * scale * self.smooth_yy);
        let cross = scale * self.smooth_xy;
        0.5 * (a + b) + (0.5 * (a - b)).hypot(cross)
    }

    /// A bound on the Frobenius norm of the Hessian in (x, y/s).
    #[must_use]
    pub fn frobenius(&self, scale: f64) -> f64 {
        self.hessian_frobenius * scale.max(1.0).powi(2)
    }
}

/// One record of the body that a saddle loss is for.
pub type SaddleRecord<'a, L> = <<L as SaddleLoss>::Records as Records>::Record<'a>;

/// A loss f(x, y; record), minimised in x and maximised in y over a closed convex domain.
///
/// It is no [`Loss`], whose solvers would descend in y as well: [`Joint`] makes it one that says so.
///
/// # Privacy
/// As [`Loss`]: what a method returns is a function of its arguments alone.
pub trait SaddleLoss: Sync {
    /// The records that it is a loss of.
    type Records: Records;

    /// As [`Loss::MAY_PANIC`].
    const MAY_PANIC: bool = true;

    /// Number of coordinates of x.
    fn x_dim(&self, records: &Self::Records) -> usize;

    /// Where y is: its dimension is that of y. Public, and always the same.
    fn domain(&self) -> Domain;

    /// Constants of one record's loss, from the bounds that were enforced on the records. Must not read a record.
    fn saddle_constants(&self, records: &Self::Records) -> SaddleConstants;

    /// Constants of one record's loss at one public point, as [`Loss::constants_at`], and whether the field there is the gradient of the
    /// loss. Must not read a record.
    ///
    /// # Shapes
    /// `at`: x and y of the problem's dimensions. Its scale is the one under which C_F is asked for.
    fn saddle_constants_at(
        &self,
        records: &Self::Records,
        at: JointPoint<'_>,
    ) -> (SaddleConstants, bool) {
        let _ = at;
        (self.saddle_constants(records), self.is_whole(records))
    }

    /// Whether the field of every record is the gradient of its loss, and the constants hold at every x: [`Constants::whole`]. Must not
    /// read a record.
    fn is_whole(&self, records: &Self::Records) -> bool {
        let _ = records;
        true
    }

    /// About how many multiply-adds one gradient of one record takes.
    fn work(&self, records: &Self::Records) -> f64 {
        (self.x_dim(records) + self.domain().dim()) as f64
    }

    /// f(x, y; record).
    fn value(&self, record: SaddleRecord<'_, Self>, x: &[f64], y: &[f64]) -> f64;

    /// Adds grad_x and grad_y to `out`, which holds zeros.
    ///
    /// # Shapes
    /// `out.0`: that of x; `out.1`: that of y.
    fn gradient(
        &self,
        record: SaddleRecord<'_, Self>,
        x: &[f64],
        y: &[f64],
        out: (&mut [f64], &mut [f64]),
    );

    /// Adds (grad_x, s grad_y) of each of these records, clipped by the sum as one vector, to `sum`. The default makes a vector for each
    /// record; a loss with structure overrides it.
    ///
    /// # Privacy
    /// As [`Differentiable::add_gradients`]: each position makes one call of the sum, and nothing here panics.
    fn add_joint_gradients(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        at: JointPoint<'_>,
        sum: &mut LatticeSum,
    ) {
        let mut gradient = vec![0.0; at.x.len() + at.y.len()];
        for i in positions.iter() {
            gradient.fill(0.0);
            let finished = finishes::<Self, _>(|| {
                let (of_x, of_y) = gradient.split_at_mut(at.x.len());
                self.gradient(records.record(i), at.x, at.y, (of_x, &mut *of_y));
                of_y.iter_mut().for_each(|g| *g *= at.scale);
            });
            add_contribution(sum, finished, &gradient);
        }
    }

    /// Adds the changes of (grad_x, s grad_y) of each of these records, as [`Differentiable::add_changes`] does, to `sum`. False, and nothing
    /// is added, where the loss has no way of its own to do so; then it is done record by record.
    ///
    /// # Privacy
    /// As [`Differentiable::add_gradients`]. Whether it has a way of its own must not depend on the records.
    fn add_joint_changes(
        &self,
        records: &Self::Records,
        positions: &Positions<'_>,
        change: &JointChange<'_>,
        sum: &mut LatticeSum,
    ) -> bool {
        let _ = (records, positions, change, sum);
        false
    }
}

/// A change of a joint field that is asked for: the field at the end of a segment less what is kept of that at its start, each clipped.
#[derive(Debug, Clone, Copy)]
pub struct JointChange<'a> {
    /// Where the segment starts.
    pub from: JointPoint<'a>,
    /// Where it ends.
    pub to: JointPoint<'a>,
    /// Displacement of x from start to end.
    pub along: &'a [f64],
    /// The clip of the field at each end.
    pub clip: f64,
    /// What is kept.
    pub momentum: Momentum,
}

/// Where a joint field is asked for.
#[derive(Debug, Clone, Copy)]
pub struct JointPoint<'a> {
    /// x.
    pub x: &'a [f64],
    /// y, not y/s.
    pub y: &'a [f64],
    /// s.
    pub scale: f64,
}

/// Runs `evaluate` for a record of this loss; false when it panicked.
fn finishes<L: SaddleLoss + ?Sized, F: FnOnce()>(evaluate: F) -> bool {
    if L::MAY_PANIC {
        super::guard::finishes(evaluate)
    } else {
        evaluate();
        true
    }
}

/// A saddle loss with second derivatives.
pub trait TwiceSaddle: SaddleLoss {
    /// Adds the product of the Hessian in (x, y) with `direction` to `out`, which holds zeros.
    ///
    /// # Shapes
    /// `direction` and `out`: x + y numbers.
    fn hessian_vector(
        &self,
        record: SaddleRecord<'_, Self>,
        x: &[f64],
        y: &[f64],
        direction: &[f64],
        out: &mut [f64],
    );

    /// As [`TwiceDifferentiable::bordered`]: the last numbers behind the weights are y.
    fn bordered<'r>(
        &self,
        record: SaddleRecord<'r, Self>,
        x: &[f64],
        y: &[f64],
    ) -> Option<Bordered<'r>> {
        let _ = (record, x, y);
        None
    }
}

/// A saddle loss as a loss of the joint point (x, y/s): one release of (grad_x, s grad_y), with one clip and one charge, serves both blocks.
///
/// # Formula
/// Each record's (grad_x, s grad_y) is clipped to hypot(C_x, s C_y), its change between two joint points to L times their distance, with
/// L of [`SaddleConstants::smoothness`]. A larger s has less noise in y and more in x.
///
/// # Privacy
/// That of any [`Loss`]: the joint clip is enforced, whatever the constants and the scale. See `docs/privacy/minimax.md`.
///
/// It names its [`Blocks`], so that a run of a minimiser is refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Joint<L> {
    loss: L,
    scale: f64,
    /// Coordinates of y.
    y: usize,
}

/// A saddle loss that can't be asked about.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// No scale of y.
    #[error("the scale of y must be a positive finite number, got {scale}")]
    Scale {
        /// The number.
        scale: f64,
    },
    /// No domain of y.
    #[error("y has no domain: {0}")]
    Domain(#[from] DomainError),
    /// y may be anywhere.
    #[error(
        "the domain of y has no bound, and gradients of a loss that is strongly concave in y have none there"
    )]
    Unbounded,
}

impl<L: SaddleLoss> Joint<L> {
    /// With the scale s of y.
    ///
    /// # Errors
    /// [`BlocksError`], also for a domain of y that is empty or unbounded.
    pub fn new(loss: L, scale: f64) -> Result<Self, BlocksError> {
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(BlocksError::Scale { scale });
        }
        let domain = loss.domain();
        domain.check()?;
        if !domain.diameter().is_finite() {
            return Err(BlocksError::Unbounded);
        }
        Ok(Self {
            y: domain.dim(),
            loss,
            scale,
        })
    }

    /// The saddle loss.
    #[must_use]
    pub fn saddle(&self) -> &L {
        &self.loss
    }

    /// Where the x of a point of this length ends.
    fn x_of(&self, length: usize) -> usize {
        length.saturating_sub(self.y)
    }

    /// x and y of a joint point.
    fn parts<'p>(&self, point: &'p [f64]) -> (&'p [f64], Cow<'p, [f64]>) {
        let (x, v) = point.split_at(self.x_of(point.len()));
        let y = match self.scale {
            1.0 => Cow::Borrowed(v),
            scale => v.iter().map(|v| scale * v).collect(),
        };
        (x, y)
    }

    /// Multiplies the block of y.
    fn rescale(&self, out: &mut [f64]) {
        let x = self.x_of(out.len());
        if self.scale != 1.0 {
            out[x..].iter_mut().for_each(|g| *g *= self.scale);
        }
    }

    /// Without a gap: a saddle has none.
    fn joint_constants(&self, of: &SaddleConstants, whole: bool) -> Constants {
        let (clip, smoothness) = (of.clip(self.scale), of.smoothness(self.scale));
        let joint = Constants::new(clip, smoothness, f64::INFINITY, Convexity::Nonconvex)
            .with_hessian_frobenius(of.frobenius(self.scale))
            .of_whole_field(whole);
        match self.y {
            0 => joint,
            _ => joint.with_block_lipschitz([of.lipschitz_x, of.lipschitz_y]),
        }
    }

    fn add_gradient(&self, record: SaddleRecord<'_, L>, (x, y): (&[f64], &[f64]), out: &mut [f64]) {
        let at = self.x_of(out.len());
        self.loss.gradient(record, x, y, out.split_at_mut(at));
        self.rescale(out);
    }
}

impl<L: SaddleLoss> Loss for Joint<L> {
    type Records = L::Records;

    const MAY_PANIC: bool = L::MAY_PANIC;

    fn dim(&self, records: &L::Records) -> usize {
        self.loss.x_dim(records) + self.y
    }

    fn constants_on(&self, records: &L::Records) -> Constants {
        let of = self.loss.saddle_constants(records);
        self.joint_constants(&of, self.loss.is_whole(records))
    }

    fn constants_at(&self, records: &L::Records, point: &[f64]) -> Constants {
        if point.len() != self.dim(records) {
            return self.constants_on(records);
        }
        let (x, y) = self.parts(point);
        let (y, scale) = (&*y, self.scale);
        let at = JointPoint { x, y, scale };
        let (of, whole) = self.loss.saddle_constants_at(records, at);
        self.joint_constants(&of, whole)
    }

    /// None without y: then it is a problem of minimisation.
    fn blocks(&self, records: &L::Records) -> Option<Blocks> {
        (self.y > 0).then(|| Blocks {
            x: self.loss.x_dim(records),
            y: self.y,
            scale: self.scale,
        })
    }

    fn domain(&self) -> Option<Domain> {
        (self.y > 0).then(|| self.loss.domain())
    }

    fn work(&self, records: &L::Records) -> f64 {
        self.loss.work(records)
    }

    fn value(&self, record: RecordOf<'_, Self>, point: &[f64]) -> f64 {
        let (x, y) = self.parts(point);
        self.loss.value(record, x, &y)
    }
}

impl<L: SaddleLoss> Differentiable for Joint<L> {
    fn gradient(&self, record: RecordOf<'_, Self>, point: &[f64], out: &mut [f64]) {
        let (x, y) = self.parts(point);
        self.add_gradient(record, (x, &y), out);
    }

    fn add_gradients(
        &self,
        records: &L::Records,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        let (x, y) = self.parts(point);
        let (y, scale) = (&*y, self.scale);
        let at = JointPoint { x, y, scale };
        self.loss.add_joint_gradients(records, positions, at, sum);
    }

    fn add_changes(
        &self,
        records: &L::Records,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let [(from_x, from_y), (to_x, to_y)] = [self.parts(segment.from), self.parts(segment.to)];
        let scale = self.scale;
        let change = JointChange {
            from: JointPoint {
                x: from_x,
                y: &from_y,
                scale,
            },
            to: JointPoint {
                x: to_x,
                y: &to_y,
                scale,
            },
            along: &segment.displacement[..from_x.len()],
            clip,
            momentum,
        };
        if !self
            .loss
            .add_joint_changes(records, &positions, &change, sum)
        {
            add_each_change(self, records, &positions, (segment, clip, momentum), sum);
        }
    }
}

impl<L: TwiceSaddle> TwiceDifferentiable for Joint<L> {
    fn hessian_vector(
        &self,
        record: RecordOf<'_, Self>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let (x, y) = self.parts(point);
        let mut direction = direction.to_vec();
        self.rescale(&mut direction);
        self.loss.hessian_vector(record, x, &y, &direction, out);
        self.rescale(out);
    }

    fn bordered<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<Bordered<'r>> {
        let (x, y) = self.parts(point);
        let mut of = self.loss.bordered(record, x, &y)?;
        let before = of.border.len().checked_sub(self.y)?;
        let scale = |k: usize| if k < before { 1.0 } else { self.scale };
        let mut corner = of.corner.iter_mut();
        for (k, border) in of.border.iter_mut().enumerate() {
            *border *= scale(k);
            for (j, entry) in corner.by_ref().take(k + 1).enumerate() {
                *entry *= scale(k) * scale(j);
            }
        }
        Some(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::laws;

    /// f = a cos x_0 + y_0 (sin x_1 + a) - y_0^2 for records a in [-1, 1], |y_0| <= 1.
    struct Wave;

    impl SaddleLoss for Wave {
        type Records = Vec<f64>;

        fn x_dim(&self, _: &Vec<f64>) -> usize {
            2
        }

        fn domain(&self) -> Domain {
            Domain::ball(1, 1.0)
        }

        fn saddle_constants(&self, _: &Vec<f64>) -> SaddleConstants {
            SaddleConstants {
                lipschitz_x: 2f64.sqrt(),
                lipschitz_y: 4.0,
                smooth_xx: 1.0,
                smooth_xy: 1.0,
                smooth_yy: 2.0,
                // diag(1, 1), two entries of 1, and -2.
                hessian_frobenius: 8f64.sqrt(),
            }
        }

        fn value(&self, a: &f64, x: &[f64], y: &[f64]) -> f64 {
            a * x[0].cos() + y[0] * (x[1].sin() + a) - y[0] * y[0]
        }

        fn gradient(&self, a: &f64, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
            out.0[0] -= a * x[0].sin();
            out.0[1] += y[0] * x[1].cos();
            out.1[0] += x[1].sin() + a - 2.0 * y[0];
        }
    }

    impl TwiceSaddle for Wave {
        fn hessian_vector(&self, a: &f64, x: &[f64], y: &[f64], by: &[f64], out: &mut [f64]) {
            out[0] -= a * x[0].cos() * by[0];
            out[1] += x[1].cos() * by[2] - y[0] * x[1].sin() * by[1];
            out[2] += x[1].cos() * by[1] - 2.0 * by[2];
        }
    }

    fn records() -> Vec<f64> {
        vec![-1.0, 0.25, 1.0]
    }

    /// The joint field is the derivative of the value in (x, y/s), and the constants hold, for every scale.
    #[test]
    fn joint_losses_keep_the_laws() {
        for scale in [0.25, 1.0, 3.0] {
            let joint = Joint::new(Wave, scale).unwrap();
            // |y| = s |v| <= 1 at these points.
            let radius = 1.0 / scale.max(1.0);
            for point in laws::points(3, 6, radius) {
                let found = crate::check_gradient(&joint, &records(), &point).unwrap();
                assert!(found.worst < 1e-7, "{found:?}");
            }
            let points = laws::points(3, 6, radius);
            let points: Vec<&[f64]> = points.iter().map(|point| &point[..]).collect();
            let found = crate::check_constants(&joint, &records(), &points).unwrap();
            assert!(found.passed(), "{found:?}");
            laws::second_derivatives(&joint, &records(), radius);
        }
    }

    /// The bound on the Hessian of the joint point is that of [[L_xx, s L_xy], [s L_xy, s^2 L_yy]]: checked by hand.
    #[test]
    fn joint_constants_by_hand() {
        let of = Wave.saddle_constants(&records());
        assert_eq!(of.clip(2.0), (2.0f64 + 64.0).sqrt());
        // Eigenvalues of [[1, 2], [2, 8]]: (9 + sqrt(49 + 16))/2.
        assert!((of.smoothness(2.0) - (9.0 + 65f64.sqrt()) / 2.0).abs() < 1e-14);
        assert_eq!(of.frobenius(0.5), 8f64.sqrt());
        assert_eq!(of.frobenius(2.0), 4.0 * 8f64.sqrt());
    }

    #[test]
    fn blocks_split_join_and_project() {
        let blocks = Joint::new(Wave, 0.5).unwrap().blocks(&records()).unwrap();
        let mut point = blocks.join(&[1.0, 2.0], &[3.0]);
        assert_eq!(point, [1.0, 2.0, 6.0]);
        assert_eq!(blocks.split(&point), (vec![1.0, 2.0], vec![3.0]));
        blocks.project(&Wave.domain(), &mut point);
        assert_eq!(point, [1.0, 2.0, 2.0]);
    }

    #[test]
    fn scales_that_are_none_are_refused() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                Joint::new(Wave, scale),
                Err(BlocksError::Scale { .. })
            ));
        }
    }
}
