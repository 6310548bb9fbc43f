//! Questions to a loss that is averaged along the rows of its records.

use dpopt_privacy::ClipNorm;

use super::segment::{Momentum, Segment};

/// The gradient at a point of the loss averaged along a record's own row, or its change along a segment: see
/// [`RowAverage`](crate::query::RowAverage).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AlongRows<'a> {
    /// w: the point, or the end of the segment.
    pub point: &'a [f64],
    /// The way from w' to w, and the weight of a fresh gradient (0 for a change); none for a gradient.
    pub before: Option<(Segment<'a>, Momentum)>,
    /// Clip radius of the gradient at each end, where there are two.
    pub clip: ClipNorm,
    /// r: over how much to both sides losses are averaged.
    pub reach: f64,
}

impl<'a> AlongRows<'a> {
    pub(crate) fn new(
        point: &'a [f64],
        before: Option<(Segment<'a>, Momentum)>,
        clip: ClipNorm,
        reach: f64,
    ) -> Self {
        Self {
            point,
            before,
            clip,
            reach,
        }
    }
}
