//! The linear query: the field at a point, less a part of it at another.

use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum};

use super::of_record::Query;
use crate::loss::{Differentiable, Momentum, RecordOf, Segment, add_change};
use crate::positions::Positions;

/// clip(g(w; x), C) - (1 - a) clip(g(w'; x), C), the whole clipped to a radius once more, with g the field (the gradient
/// of a loss).
///
/// | query | w' | a | radius |
/// | --- | --- | --- | --- |
/// | [`Linear::field`] (an anchor) | none | - | C |
/// | [`Linear::change`] (a variation) | yes | 0 | min(L1 ||w - w'||, 2 C) |
/// | [`Linear::momentum`] (a step of recursive momentum) | yes | in (0, 1] | a C + (1 - a) min(L1 ||w - w'||, 2 C) |
///
/// Clipping is 1-Lipschitz, so these radii shorten nothing where the constants are right. They are public, since both
/// points are, and enforced whatever the constants are worth.
#[derive(Debug, Clone, Copy)]
pub struct Linear<'a> {
    to: &'a [f64],
    before: Option<(Segment<'a>, Momentum)>,
    clip: ClipNorm,
    radius: ClipNorm,
}

impl<'a> Linear<'a> {
    /// The field at `point`, clipped to `clip`.
    #[must_use]
    pub fn field(point: &'a [f64], clip: ClipNorm) -> Self {
        Self {
            to: point,
            before: None,
            clip,
            radius: clip,
        }
    }

    /// The change along `segment` of the field clipped to `clip`, clipped to `radius` once more.
    #[must_use]
    pub fn change(segment: Segment<'a>, clip: ClipNorm, radius: ClipNorm) -> Self {
        Self {
            to: segment.to,
            before: Some((segment, Momentum::NONE)),
            clip,
            radius,
        }
    }

    /// The field at the end of `segment` less 1 - a times the field at its start, each clipped to `clip`, the whole
    /// clipped to `radius` once more: a times the field plus 1 - a times its change.
    #[must_use]
    pub fn momentum(
        segment: Segment<'a>,
        momentum: Momentum,
        clip: ClipNorm,
        radius: ClipNorm,
    ) -> Self {
        Self {
            to: segment.to,
            before: Some((segment, momentum)),
            clip,
            radius,
        }
    }

    /// The same query, clipped to another radius as a whole.
    #[must_use]
    pub fn within(self, radius: ClipNorm) -> Self {
        Self { radius, ..self }
    }

    /// w: the point, or the end of the segment.
    #[must_use]
    pub fn point(&self) -> &'a [f64] {
        self.to
    }

    /// The way from w' to w and the weight a (0 for a change); none for a field.
    #[must_use]
    pub fn before(&self) -> Option<(Segment<'a>, Momentum)> {
        self.before
    }

    /// The clip radius C of the field at each end.
    #[must_use]
    pub fn clip(&self) -> ClipNorm {
        self.clip
    }

    /// The clip radius of the whole.
    #[must_use]
    pub fn radius(&self) -> ClipNorm {
        self.radius
    }

    /// Fields of one record that it takes: one, or two.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        if self.before.is_some() { 2.0 } else { 1.0 }
    }

    /// Whether all its points have `dim` coordinates.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        match &self.before {
            None => self.to.len() == dim,
            Some((segment, _)) => segment.fits(dim),
        }
    }
}

impl<L: Differentiable> Query<L> for Linear<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.radius, self.to.len()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        Linear::fits(self, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        self.gradients()
    }

    fn sums_in_blocks(&self) -> bool {
        self.before.is_none() && L::SUMS_IN_BLOCKS
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        match &self.before {
            None => loss.gradient(record, self.to, out),
            Some((segment, momentum)) => {
                let mut before = vec![0.0; out.len()];
                let clip = self.clip.get();
                add_change(loss, record, segment, clip, *momentum, &mut before, out);
            }
        }
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        match &self.before {
            None => loss.add_gradients(records, positions, self.to, sum),
            Some((segment, momentum)) => {
                let clip = self.clip.get();
                loss.add_changes(records, positions, segment, clip, *momentum, sum);
            }
        }
    }
}
