//! Gradients of the smoothed loss from one gradient of each record, at an offset of its own.

use std::num::NonZeroUsize;

use dpopt_linalg::norm;
use dpopt_privacy::{Bound, ClipNorm, Curator, LatticeError, LatticeSum, Refused};

use super::of_record::Query;
use super::smoothed::add_by_slot;
use super::{SmoothedDifference, SmoothedGradient};
use crate::loss::{Differentiable, RecordOf};
use crate::positions::Positions;

/// Public vectors, uniform in the ball of a radius; record i uses number i modulo their count.
///
/// What offsets miss is divided by their number, not by that of the records: with one for all it never shrinks.
#[derive(Debug, Clone, PartialEq)]
pub struct Offsets {
    dim: usize,
    count: usize,
    /// One after the other.
    vectors: Vec<f64>,
}

impl Offsets {
    /// Draws `count` independent vectors, uniform in the ball of radius `radius`, independent of the data.
    ///
    /// # Formula
    /// The first d coordinates of a uniform vector of the unit sphere in d + 2 dimensions are uniform in the unit ball
    /// (Archimedes, for d = 1).
    ///
    /// # Errors
    /// [`Refused`] when the curator's streams are used up.
    pub fn draw(
        curator: &mut Curator,
        dim: usize,
        radius: f64,
        count: NonZeroUsize,
    ) -> Result<Self, Refused> {
        let mut normals = vec![0.0; (dim + 2) * count.get()];
        curator.draw_normals(&mut normals)?;
        let mut vectors = Vec::with_capacity(dim * count.get());
        for normals in normals.chunks_exact(dim + 2) {
            let length = norm(normals);
            // All zero with no probability to speak of.
            let scale = if length > 0.0 { radius / length } else { 0.0 };
            vectors.extend(normals[..dim].iter().map(|x| x * scale));
        }
        Ok(Self {
            dim,
            count: count.get(),
            vectors,
        })
    }

    /// Coordinates of each vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of vectors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn of(&self, position: usize) -> &[f64] {
        let start = position % self.count * self.dim;
        &self.vectors[start..start + self.dim]
    }
}

/// The gradient at w + u_i, u_i the record's own offset, clipped to `clip`. Its mean over u_i is the gradient of F_alpha.
///
/// # Privacy
/// Records are tied to offsets by position, so positions must stay when a record changes: refused under add-remove. The
/// clip is enforced, whatever the loss is.
#[derive(Debug, Clone, Copy)]
pub struct BallGradient<'a> {
    /// w.
    pub point: &'a [f64],
    /// The u_i.
    pub offsets: &'a Offsets,
    /// The clip radius.
    pub clip: ClipNorm,
}

impl BallGradient<'_> {
    /// Adds the contribution of a record in this slot, whose gradient at a point `gradient` adds to its second argument,
    /// before the clip. `moved` is scratch.
    ///
    /// # Shapes
    /// `moved`, `out`: d.
    pub fn write(
        &self,
        slot: usize,
        gradient: impl FnOnce(&[f64], &mut [f64]),
        moved: &mut [f64],
        out: &mut [f64],
    ) {
        let sums = self.point.iter().zip(self.offsets.of(slot));
        for (moved, (w, u)) in moved.iter_mut().zip(sums) {
            *moved = w + u;
        }
        gradient(moved, out);
    }
}

impl<L: Differentiable> Query<L> for BallGradient<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.clip, self.point.len()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim && self.offsets.dim == dim
    }

    fn gradients_per_record(&self) -> f64 {
        1.0
    }

    fn needs_fixed_positions(&self) -> bool {
        true
    }

    /// In the first slot; [`Query::add`] gives each record its own.
    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let mut moved = vec![0.0; out.len()];
        let gradient = |point: &[f64], out: &mut [f64]| loss.gradient(record, point, out);
        self.write(0, gradient, &mut moved, out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        add_by_slot::<L>(records, &positions, sum, |record, slot, moved, out| {
            let gradient = |point: &[f64], out: &mut [f64]| loss.gradient(record, point, out);
            self.write(slot, gradient, moved, out);
        });
    }
}

/// A query of the smoothed field in which each record has an offset or a frame of its own.
///
/// # Privacy
/// That of each: refused under add-remove.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Smoothed<'a> {
    /// The gradient at the record's own offset.
    Ball(BallGradient<'a>),
    /// Slopes along the record's own frame.
    Frame(SmoothedGradient<'a>),
    /// Their change.
    Change(SmoothedDifference<'a>),
}

/// The same expression for each kind.
macro_rules! each {
    ($smoothed:expr, $query:ident => $result:expr) => {
        match $smoothed {
            Smoothed::Ball($query) => $result,
            Smoothed::Frame($query) => $result,
            Smoothed::Change($query) => $result,
        }
    };
}

impl<'a> Smoothed<'a> {
    /// How many offsets or frames there are.
    #[must_use]
    pub fn groups(&self) -> usize {
        match self {
            Smoothed::Ball(query) => query.offsets.count,
            Smoothed::Frame(query) => query.frames.count(),
            Smoothed::Change(query) => query.frames.count(),
        }
    }

    /// Whether points, offsets and frames have `dim` coordinates.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        match self {
            Smoothed::Ball(query) => query.point.len() == dim && query.offsets.dim == dim,
            Smoothed::Frame(query) => query.point.len() == dim && query.frames.dim() == dim,
            Smoothed::Change(query) => query.segment.fits(dim) && query.frames.dim() == dim,
        }
    }

    /// Gradients of one record that it takes.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        match self {
            Smoothed::Ball(_) => 1.0,
            _ => 0.0,
        }
    }

    /// Values of one record that it takes: none, 2d or 4d.
    #[must_use]
    pub fn values(&self) -> f64 {
        let values = match self {
            Smoothed::Ball(_) => 0,
            Smoothed::Frame(query) => 2 * query.frames.dim(),
            Smoothed::Change(query) => 4 * query.frames.dim(),
        };
        values as f64
    }

    /// Adds the contribution of a record in this slot to `out`, before the clip, from its values and its gradient, which
    /// `gradient` adds to its second argument. `moved` is scratch.
    ///
    /// # Shapes
    /// `moved`, `out`: d.
    pub fn write(
        &self,
        slot: usize,
        value: impl FnMut(&[f64]) -> f64,
        gradient: impl FnOnce(&[f64], &mut [f64]),
        moved: &mut [f64],
        out: &mut [f64],
    ) {
        match self {
            Smoothed::Ball(query) => query.write(slot, gradient, moved, out),
            Smoothed::Frame(query) => query.write(slot, value, moved, out),
            Smoothed::Change(query) => query.write(slot, value, moved, out),
        }
    }
}

impl<L: Differentiable> Query<L> for Smoothed<'_> {
    fn bound(&self, loss: &L) -> Result<Option<Bound>, LatticeError> {
        each!(self, query => query.bound(loss))
    }

    fn fits(&self, dim: usize) -> bool {
        Smoothed::fits(self, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        self.gradients()
    }

    fn values_per_record(&self) -> f64 {
        self.values()
    }

    fn needs_fixed_positions(&self) -> bool {
        true
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        each!(self, query => query.contribution(loss, record, out));
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        each!(self, query => query.add(loss, records, positions, sum));
    }
}
