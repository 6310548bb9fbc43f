//! How a loss is smoothed, and what its records are asked for then.

use std::num::NonZeroUsize;

use dpopt_privacy::Which;

use super::{Books, OracleFacts};
use crate::error::AskError;
use crate::loss::Momentum;
use crate::query::{
    BallGradient, Frames, Linear, Offsets, Smoothed, SmoothedDifference, SmoothedGradient,
};

/// How a loss is smoothed, and how its smoothed gradient is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smoothing {
    /// a: radius of the ball.
    pub radius: f64,
    /// L: of the loss of each record. What a change of slopes is clipped to follows from it.
    pub lipschitz: f64,
    /// How the gradient at a point is asked for. Changes are those of slopes along frames.
    pub fields: SmoothedFields,
    /// Most offsets of one release; where it reads more records they share them by position.
    pub offsets: NonZeroUsize,
    /// Most frames of one release.
    pub frames: NonZeroUsize,
}

/// How a smoothed gradient at a point is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SmoothedFields {
    /// One gradient of each record, at an offset of its own, no longer than L.
    Gradients,
    /// Slopes along a frame of its own, no longer than kappa_d L.
    Values,
}

/// Offsets or frames of one release: public.
pub enum SmoothedDraw {
    /// For gradients at a point.
    Offsets(Offsets),
    /// For slopes, and for changes of them.
    Frames(Frames),
}

impl Smoothing {
    /// Draws as many offsets or frames as `of` has use for over these records, before one of them is read.
    ///
    /// # Errors
    /// [`AskError::Shape`]; [`AskError::NotOffered`] for a radius that is no positive number, where every slope would be NaN and count as
    /// zero; [`AskError::Refused`] when the curator's streams are used up.
    pub fn draw(
        &self,
        of: &Linear<'_>,
        over: Which<'_>,
        (facts, books): (OracleFacts, &mut Books),
    ) -> Result<SmoothedDraw, AskError> {
        let dim = facts.dim;
        if !of.fits(dim) {
            return Err(AskError::Shape { dim });
        }
        if !(self.radius > 0.0 && self.radius.is_finite()) {
            let what = "smoothed fields whose radius is not a positive number";
            return Err(AskError::NotOffered { what });
        }
        let read = match over {
            Which::FixedSize(size) | Which::Next(size) => size,
            Which::Slice(slice) | Which::Sampled(slice, _) | Which::AllocatedIn(slice, _) => {
                slice.len()
            }
            _ => facts.records,
        };
        let read = NonZeroUsize::new(usize::try_from(read).unwrap_or(usize::MAX));
        let at_most = |most: NonZeroUsize| read.map_or(most, |read| read.min(most));
        let curator = books.curator_mut();
        Ok(match (of.before(), self.fields) {
            (None, SmoothedFields::Gradients) => {
                let count = at_most(self.offsets);
                SmoothedDraw::Offsets(Offsets::draw(curator, dim, self.radius, count)?)
            }
            _ => SmoothedDraw::Frames(Frames::draw(curator, dim, at_most(self.frames))?),
        })
    }

    /// The question to each record.
    ///
    /// # Errors
    /// [`AskError::NotOffered`] for a step of recursive momentum, and for a change with offsets.
    pub fn query<'a>(
        &self,
        of: &Linear<'a>,
        drawn: &'a SmoothedDraw,
    ) -> Result<Smoothed<'a>, AskError> {
        let (point, clip, smoothing) = (of.point(), of.radius(), self.radius);
        match (of.before(), drawn) {
            (None, SmoothedDraw::Offsets(offsets)) => Ok(Smoothed::Ball(BallGradient {
                point,
                offsets,
                clip,
            })),
            (None, SmoothedDraw::Frames(frames)) => Ok(Smoothed::Frame(SmoothedGradient {
                point,
                smoothing,
                frames,
                clip,
            })),
            (Some((segment, momentum)), SmoothedDraw::Frames(frames))
                if momentum == Momentum::NONE =>
            {
                Ok(Smoothed::Change(SmoothedDifference {
                    segment,
                    smoothing,
                    frames,
                    radius: Some(clip),
                }))
            }
            _ => Err(AskError::NotOffered {
                what: "steps of recursive momentum on a smoothed loss",
            }),
        }
    }
}
