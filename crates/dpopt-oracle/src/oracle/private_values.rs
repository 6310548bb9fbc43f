//! Private records of a loss that has values and no gradient, as an oracle.

use dpopt_privacy::Curator;

use super::{Answer, Books, Counts, Offers, Oracle, OracleFacts, PrivateMean, Question};
use crate::data::PrivateData;
use crate::error::{AskError, EstimatorError};
use crate::loss::Loss;

/// Private records and a loss that is a program without a gradient ([`ClosureLoss::values`](crate::ClosureLoss::values)): an oracle
/// that answers questions for slopes and values, and refuses all others before a record is read
/// ([`AskError::NotOffered`]). A plan that asks for gradients is refused before anything is reserved.
///
/// # Privacy
/// That of [`PrivateMean`], which answers.
pub struct PrivateValues<'a, L: Loss> {
    means: PrivateMean<'a, L>,
}

impl<'a, L: Loss> PrivateValues<'a, L> {
    /// Over `data`, on one thread.
    ///
    /// # Errors
    /// As [`PrivateMean::new`].
    pub fn new(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, EstimatorError> {
        PrivateMean::new(data, loss, curator).map(Self::of)
    }

    /// The releases of values by these means.
    #[must_use]
    pub fn of(means: PrivateMean<'a, L>) -> Self {
        Self { means }
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        self.means.curator()
    }

    /// The curator again, when nothing more is to be released.
    #[must_use]
    pub fn into_curator(self) -> Curator {
        self.means.into_curator()
    }

    /// Nominal counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.means.counts()
    }
}

impl<L: Loss> Oracle for PrivateValues<'_, L> {
    fn facts(&self) -> OracleFacts {
        OracleFacts {
            offers: Offers::VALUES | Offers::VALUE_CHANGES | Offers::SLOPES,
            ..self.means.public()
        }
    }

    fn books(&mut self) -> &mut Books {
        self.means.own_books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        Ok(match question {
            Question::Slopes { of, over, noise } => {
                Answer::Mean(self.means.release_slopes(&of, over, noise)?)
            }
            Question::Value {
                point,
                centre,
                radius,
                over,
                noise,
            } => Answer::Number(
                self.means
                    .release_value(point, centre, radius, over, noise)?,
            ),
            Question::ValueChange { of, over, noise } => {
                Answer::Number(self.means.release_value_change(&of, over, noise)?)
            }
            other => return Err(AskError::NotOffered { what: other.kind() }),
        })
    }
}
