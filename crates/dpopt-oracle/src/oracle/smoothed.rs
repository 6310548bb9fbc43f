//! The smoothed loss as the field of an oracle.

use super::{Answer, Books, Offers, Oracle, OracleFacts, Question, SmoothedFields, Smoothing};
use crate::error::AskError;
use crate::query::{smoothed_change_per_length, smoothed_gradient_bound};

/// An oracle whose field is the gradient of the smoothed loss F_a(w) = E F(w + u), u uniform in the ball of radius a, made
/// of one that answers for smoothed fields. Every estimator works on it.
///
/// # Formula
/// Each record has an offset, or a frame, of its own, fresh for each question. The field at w is the mean of the records'
/// gradients at w + u_i, or of what slopes along their frames make of it; a change is that of slopes along the same frame
/// at both ends. A record's change is at most sqrt(d) L ||w - w'||/a long, which is what
/// [`OracleFacts::smoothness`] says here.
///
/// # Privacy
/// That of the oracle below. Offsets and frames are drawn before a record is read and are public. Records are tied to
/// them by position: refused under add-remove.
pub struct SmoothedMeans<'a> {
    inner: &'a mut dyn Oracle,
    smoothing: Smoothing,
}

impl<'a> SmoothedMeans<'a> {
    /// Smoothed means of `inner`.
    pub fn new(inner: &'a mut dyn Oracle, smoothing: Smoothing) -> Self {
        Self { inner, smoothing }
    }
}

impl Oracle for SmoothedMeans<'_> {
    fn facts(&self) -> OracleFacts {
        let facts = self.inner.facts();
        let Smoothing {
            radius,
            lipschitz,
            fields,
            ..
        } = self.smoothing;
        let smoothness = smoothed_change_per_length(lipschitz, facts.dim, radius);
        // Clips are those that were planned for, and the loss below may be steeper.
        let steepest = match facts.told {
            true => lipschitz.max(facts.lipschitz),
            false => lipschitz,
        };
        let longest = match fields {
            SmoothedFields::Gradients => steepest,
            SmoothedFields::Values => smoothed_gradient_bound(steepest, facts.dim),
        };
        let periods = facts.offers.covers(Offers::PERIODS);
        let offers = match facts.offers.covers(Offers::SMOOTHED) {
            true if periods => Offers::MEANS | Offers::PERIODS,
            true => Offers::MEANS,
            false => Offers::NOTHING,
        };
        OracleFacts {
            offers,
            ..facts.with_constants(longest, smoothness)
        }
    }

    fn books(&mut self) -> &mut Books {
        self.inner.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let smoothing = self.smoothing;
        self.inner.answer(match question {
            Question::Mean { of, over, noise } => Question::Smoothed {
                of,
                smoothing,
                over,
                noise,
            },
            Question::Step { period, of, over } => Question::SmoothedStep {
                period,
                of,
                smoothing,
                over,
            },
            period @ Question::OpenPeriod(_) => period,
            other => return Err(AskError::NotOffered { what: other.kind() }),
        })
    }
}
