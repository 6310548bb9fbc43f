//! Zeroth-order queries: gradients of the smoothed loss from values alone.
//!
//! The smoothed loss is F_alpha(w) = E F(w + alpha u), u uniform in the unit ball. With y uniform
//! on the sphere, d (f(w + alpha y) - f(w - alpha y)) / (2 alpha) y has its gradient as mean. The
//! directions of one record are an orthonormal frame, so that one frame gives
//! v = sum_j b_j y_j with b_j = (f(w + alpha y_j) - f(w - alpha y_j)) / (2 alpha), and ||v|| = ||b||.

use std::num::NonZeroUsize;

use dpopt_linalg::{add_scaled, orthonormalise};
use dpopt_privacy::{Bound, ClipNorm, Curator, LatticeError, LatticeSum, Refused};

use super::of_record::Query;
use crate::loss::{Loss, RecordOf, Segment, add_contribution, guarded};
use crate::positions::Positions;
use crate::records::Records;

/// Public orthonormal frames; record i uses frame i modulo their number.
///
/// The variance of the directions is divided by the number of frames, not of records: with one
/// frame for all it never shrinks.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    dim: usize,
    count: usize,
    /// One after the other.
    frames: Vec<f64>,
}

impl Frames {
    /// Draws `count` independent frames with the Haar law, independent of the data.
    ///
    /// # Errors
    /// [`Refused`] when the curator's streams are used up, or a dimension of 0.
    pub fn draw(curator: &mut Curator, dim: usize, count: NonZeroUsize) -> Result<Self, Refused> {
        let size = dim * dim;
        let mut frames = vec![0.0; size * count.get()];
        curator.draw_normals(&mut frames)?;
        for frame in frames.chunks_exact_mut(size.max(1)) {
            // Normals that are too nearly dependent have probability about 1e-8: drawn again.
            while !orthonormalise(frame, dim) {
                curator.draw_normals(frame)?;
            }
        }
        Ok(Self {
            dim,
            count: count.get(),
            frames,
        })
    }

    /// Dimension of the directions, and their number in each frame.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of frames.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn of(&self, position: usize) -> &[f64] {
        let size = self.dim * self.dim;
        let start = position % self.count * size;
        &self.frames[start..start + size]
    }
}

/// The estimate of grad F_alpha(w) from 2d values of each record, clipped to `clip`.
///
/// For an L-Lipschitz loss it is at most kappa_d L long, with kappa_1 = 1 and
/// kappa_d^2 = max(d/2, 1 + (d - 1)(sqrt 2 - 1)^2), whatever the frame: two points at distance
/// sqrt(2) alpha give |b_i| + |b_j| <= sqrt(2) L.
///
/// # Privacy
/// Records are tied to frames by position, so positions must stay when a record changes: refused
/// under add-remove. The clip is enforced, whatever the loss is.
#[derive(Debug, Clone, Copy)]
pub struct SmoothedGradient<'a> {
    /// w.
    pub point: &'a [f64],
    /// alpha.
    pub smoothing: f64,
    /// The directions.
    pub frames: &'a Frames,
    /// The clip radius.
    pub clip: ClipNorm,
}

/// The change of [`SmoothedGradient`] along a segment, with the same directions at both ends, from
/// 4d values of each record.
///
/// For an L-Lipschitz loss it is at most sqrt(d) L ||w - w'|| / alpha long, surely: each b_j changes
/// by at most L ||w - w'|| / alpha.
///
/// # Privacy
/// As for [`SmoothedGradient`]. The radius must be the one of **this** segment: see
/// [`smoothed_change_radius`].
#[derive(Debug, Clone, Copy)]
pub struct SmoothedDifference<'a> {
    /// From w' to w.
    pub segment: Segment<'a>,
    /// alpha.
    pub smoothing: f64,
    /// The directions.
    pub frames: &'a Frames,
    /// The clip radius; none for equal points.
    pub radius: Option<ClipNorm>,
}

/// kappa_d L: the longest [`SmoothedGradient`] of an L-Lipschitz loss.
#[must_use]
pub fn smoothed_gradient_bound(lipschitz: f64, dim: usize) -> f64 {
    let d = dim as f64;
    let root = std::f64::consts::SQRT_2 - 1.0;
    let square = if dim <= 1 {
        1.0
    } else {
        (0.5 * d).max(1.0 + (d - 1.0) * root * root)
    };
    lipschitz * square.sqrt() * (1.0 + 1e-12)
}

/// sqrt(d) L / alpha, rounded up: how many times the length of a move the longest [`SmoothedDifference`] of an L-Lipschitz loss is.
///
/// Infinite where it is no positive number (a loss without a constant, alpha = 0): nothing is known of a change then, and zero would say
/// that there is none.
#[must_use]
pub fn smoothed_change_per_length(lipschitz: f64, dim: usize, smoothing: f64) -> f64 {
    let most = (dim as f64).sqrt() * lipschitz / smoothing * (1.0 + 1e-12);
    if most > 0.0 { most } else { f64::INFINITY }
}

/// sqrt(d) L ||w - w'|| / alpha, rounded up: the longest [`SmoothedDifference`] of an L-Lipschitz
/// loss; none for equal points.
///
/// Where it is not finite (a loss without a constant, alpha = 0) it is the largest number there is, which
/// no lattice holds: the release is refused. Without a radius it would silently be taken for zero.
#[must_use]
pub fn smoothed_change_radius(
    lipschitz: f64,
    segment: &Segment<'_>,
    smoothing: f64,
) -> Option<ClipNorm> {
    let length = dpopt_linalg::norm(segment.displacement) * (1.0 + 1e-12);
    if length == 0.0 {
        return None;
    }
    let radius = length * smoothed_change_per_length(lipschitz, segment.from.len(), smoothing);
    // Nor for one that is too short.
    ClipNorm::new(radius.clamp(f64::MIN_POSITIVE, f64::MAX)).ok()
}

/// Adds sum_j b_j y_j to `out`, with 2 alpha b_j what `rise` gives for the direction y_j.
fn add_slopes(smoothing: f64, frame: &[f64], out: &mut [f64], mut rise: impl FnMut(&[f64]) -> f64) {
    for direction in frame.chunks_exact(out.len().max(1)) {
        let slope = rise(direction) / (2.0 * smoothing);
        add_scaled(out, slope, direction);
    }
}

/// The value at point + step direction; `moved` is scratch.
fn value_at(
    value: &mut impl FnMut(&[f64]) -> f64,
    point: &[f64],
    (step, direction): (f64, &[f64]),
    moved: &mut [f64],
) -> f64 {
    moved.copy_from_slice(point);
    add_scaled(moved, step, direction);
    value(moved)
}

/// Adds what `contribute` gives for each record and its slot.
pub(super) fn add_by_slot<L: Loss>(
    records: &L::Records,
    positions: &Positions<'_>,
    sum: &mut LatticeSum,
    contribute: impl Fn(RecordOf<'_, L>, usize, &mut [f64], &mut [f64]),
) {
    let mut out = vec![0.0; sum.bound().dim()];
    let mut moved = out.clone();
    for i in positions.iter() {
        out.fill(0.0);
        let finished = guarded::<L, _>(|| {
            contribute(records.record(i), records.slot(i), &mut moved, &mut out);
        });
        add_contribution(sum, finished, &out);
    }
}

impl SmoothedGradient<'_> {
    /// Adds the contribution of a record in this slot, whose loss at a point is `value`, before the clip. `moved` is scratch.
    ///
    /// # Shapes
    /// `moved`, `out`: d.
    pub fn write(
        &self,
        slot: usize,
        mut value: impl FnMut(&[f64]) -> f64,
        moved: &mut [f64],
        out: &mut [f64],
    ) {
        add_slopes(self.smoothing, self.frames.of(slot), out, |direction| {
            let mut at = |step| value_at(&mut value, self.point, (step, direction), moved);
            at(self.smoothing) - at(-self.smoothing)
        });
    }
}

impl<L: Loss> Query<L> for SmoothedGradient<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.clip, self.point.len()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.frames.dim == dim
    }

    fn gradients_per_record(&self) -> f64 {
        0.0
    }

    fn values_per_record(&self) -> f64 {
        2.0 * self.frames.dim as f64
    }

    fn needs_fixed_positions(&self) -> bool {
        true
    }

    /// In the first slot; [`Query::add`] gives each record its own.
    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut moved = vec![0.0; out.len()];
        self.write(0, |point| loss.value(record, point), &mut moved, out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        add_by_slot::<L>(records, &positions, sum, |record, slot, moved, out| {
            self.write(slot, |point| loss.value(record, point), moved, out);
        });
    }
}

impl SmoothedDifference<'_> {
    /// Adds the contribution of a record in this slot, whose loss at a point is `value`, before the clip. `moved` is scratch.
    ///
    /// The change of each value comes first: two long estimates would leave the rounding of both in a short change.
    ///
    /// # Shapes
    /// `moved`, `out`: d.
    pub fn write(
        &self,
        slot: usize,
        mut value: impl FnMut(&[f64]) -> f64,
        moved: &mut [f64],
        out: &mut [f64],
    ) {
        let Segment { from, to, .. } = self.segment;
        add_slopes(self.smoothing, self.frames.of(slot), out, |direction| {
            let mut change = |step| {
                let mut at = |point| value_at(&mut value, point, (step, direction), moved);
                at(to) - at(from)
            };
            change(self.smoothing) - change(-self.smoothing)
        });
    }
}

impl<L: Loss> Query<L> for SmoothedDifference<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        self.radius
            .map(|radius| Bound::new(radius, self.segment.from.len()))
            .transpose()
    }

    fn fits(&self, dim: usize) -> bool {
        self.segment.fits(dim) && self.frames.dim == dim
    }

    fn gradients_per_record(&self) -> f64 {
        0.0
    }

    fn values_per_record(&self) -> f64 {
        4.0 * self.frames.dim as f64
    }

    fn needs_fixed_positions(&self) -> bool {
        true
    }

    /// In the first slot; [`Query::add`] gives each record its own.
    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut moved = vec![0.0; out.len()];
        self.write(0, |point| loss.value(record, point), &mut moved, out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        add_by_slot::<L>(records, &positions, sum, |record, slot, moved, out| {
            self.write(slot, |point| loss.value(record, point), moved, out);
        });
    }
}
