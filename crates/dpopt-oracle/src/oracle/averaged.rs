//! Losses averaged along their rows as the field of an oracle.

use dpopt_privacy::ClipNorm;

use super::{Answer, Books, Offers, Oracle, OracleFacts, Question};
use crate::error::AskError;

/// An oracle whose field is the gradient of the loss averaged along each record's own row, over r to both sides, made of one that
/// answers for such fields (records of generalised linear losses). Every estimator works on it.
///
/// # Formula
/// See [`RowAverage`](crate::query::RowAverage). The field of a record is at most L long and Lipschitz with L/r, which is what
/// [`OracleFacts::smoothness`] says here, or the loss's own constant where that is less.
///
/// # Privacy
/// That of the oracle below. Nothing is drawn, and no position takes part.
pub struct AveragedMeans<'a> {
    inner: &'a mut dyn Oracle,
    reach: ClipNorm,
}

impl<'a> AveragedMeans<'a> {
    /// Averages of `inner`, with r = `reach`.
    pub fn new(inner: &'a mut dyn Oracle, reach: ClipNorm) -> Self {
        Self { inner, reach }
    }
}

impl Oracle for AveragedMeans<'_> {
    fn facts(&self) -> OracleFacts {
        let facts = self.inner.facts();
        let smoothness = facts.lipschitz / self.reach.get() * (1.0 + 1e-12);
        let offers = match facts.offers.covers(Offers::ROW_AVERAGES) {
            true => Offers::MEANS,
            false => Offers::NOTHING,
        };
        OracleFacts {
            offers,
            ..facts.with_constants(facts.lipschitz, facts.smoothness.min(smoothness))
        }
    }

    fn books(&mut self) -> &mut Books {
        self.inner.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let Question::Mean { of, over, noise } = question else {
            let what = question.kind();
            return Err(AskError::NotOffered { what });
        };
        let reach = self.reach;
        self.inner.answer(Question::Averaged {
            of,
            reach,
            over,
            noise,
        })
    }
}
