//! The one interface to private records: questions, and answers with noise that are paid for.

mod averaged;
mod books;
mod facts;
mod func;
mod pass;
mod private_mean;
mod private_values;
mod question;
mod sample;
mod smoothed;
mod smoothing;

use std::ops::Range;

use dpopt_privacy::{ClipNorm, Epsilon, NoiseMultiplier, Which};

pub use averaged::AveragedMeans;
pub use books::{Books, Counts};
pub use facts::{DomainStamp, Offers, OracleFacts};
pub use func::FnOracle;
pub use pass::Pass;
pub use private_mean::PrivateMean;
pub use private_values::PrivateValues;
pub use question::{Answer, Mean, Number, Period, PeriodTerms, Question};
pub use sample::NoSample;
pub use smoothed::SmoothedMeans;
pub use smoothing::{SmoothedDraw, SmoothedFields, Smoothing};

use crate::error::AskError;
use crate::query::{
    ChainProduct, Directional, HessianMatrix, HessianVector, Linear, Slopes, ValueChange,
};

/// Private records that answer questions about one field of vectors (the gradient of a loss, say), each answer with
/// noise and paid for.
///
/// An implementation holds the records and the budget. Who asks holds points and decides what to ask next; it draws no
/// noise, clips nothing, charges nothing and sees no record. The trait is dyn-safe. A wrapper forwards its three methods
/// and has forgotten nothing.
///
/// # Formula
/// A mean is (1/m) (sum over the records read of clip(q(x), C) + noise), with m public (all records, the rate times
/// them, the size of the sample, the length of the slice), and noise of standard deviation z s C in each coordinate,
/// s = 2 under replace-one and 1 otherwise.
///
/// # Privacy
/// That of the implementation. Each answer is one event, derived from what is read and the noise multiplier.
///
/// # Errors
/// When a question is answered by [`AskError`] nothing was released, charged, or handed out of the pool. Only where
/// records stay in a file and can't be read ([`AskError::Unreadable`]) does the slice of the pass count as read. An
/// answer that the reservation can't pay is refused before a record is read, and so is a point of the wrong length
/// ([`AskError::Shape`]).
pub trait Oracle {
    /// What is public of the records and the field.
    fn facts(&self) -> OracleFacts;

    /// The reservation, the counts, the pool, and randomness that is independent of the records.
    fn books(&mut self) -> &mut Books;

    /// Answers, and charges for it.
    ///
    /// # Errors
    /// [`AskError`]; [`AskError::NotOffered`] for a question that [`OracleFacts::offers`] does not name.
    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError>;

    /// [`Question::Mean`].
    ///
    /// # Errors
    /// [`AskError`].
    fn mean(
        &mut self,
        of: Linear<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        match self.answer(Question::Mean { of, over, noise })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer { to: "means" }),
        }
    }

    /// [`Question::Norm`].
    ///
    /// # Errors
    /// [`AskError`].
    fn norm(
        &mut self,
        of: Linear<'_>,
        shift: &[f64],
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        self.norm_within(of, None, shift, (over, noise))
    }

    /// [`Question::Norm`], of some coordinates.
    ///
    /// # Errors
    /// [`AskError`].
    fn norm_within(
        &mut self,
        of: Linear<'_>,
        within: Option<Range<usize>>,
        shift: &[f64],
        (over, noise): (Which<'_>, NoiseMultiplier),
    ) -> Result<Number, AskError> {
        match self.answer(Question::Norm {
            of,
            within,
            shift,
            over,
            noise,
        })? {
            Answer::Number(number) => Ok(number),
            _ => Err(AskError::WrongAnswer { to: "norms" }),
        }
    }

    /// [`Question::LeastNorm`].
    ///
    /// # Errors
    /// [`AskError`].
    fn least_norm(
        &mut self,
        among: &[(Linear<'_>, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, AskError> {
        match self.answer(Question::LeastNorm { among, epsilon })? {
            Answer::Chosen(index) if index < among.len() => Ok(index),
            _ => Err(AskError::WrongAnswer { to: "selections" }),
        }
    }

    /// [`Question::Slopes`].
    ///
    /// # Errors
    /// [`AskError`].
    fn slopes(
        &mut self,
        of: Slopes<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        match self.answer(Question::Slopes { of, over, noise })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer { to: "slopes" }),
        }
    }

    /// [`Question::Hessian`].
    ///
    /// # Errors
    /// [`AskError`].
    fn hessian(
        &mut self,
        of: HessianMatrix<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        match self.answer(Question::Hessian { of, over, noise })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer { to: "Hessians" }),
        }
    }

    /// [`Question::Chain`].
    ///
    /// # Errors
    /// [`AskError`].
    fn chain(&mut self, of: ChainProduct<'_>, noise: NoiseMultiplier) -> Result<Mean, AskError> {
        match self.answer(Question::Chain { of, noise })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer {
                to: "products of chained Hessians",
            }),
        }
    }

    /// [`Question::HessianVector`].
    ///
    /// # Errors
    /// [`AskError`].
    fn hessian_vector(
        &mut self,
        of: HessianVector<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        match self.answer(Question::HessianVector { of, over, noise })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer {
                to: "products with Hessians",
            }),
        }
    }

    /// [`Question::Value`].
    ///
    /// # Errors
    /// [`AskError`].
    fn value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        match self.answer(Question::Value {
            point,
            centre,
            radius,
            over,
            noise,
        })? {
            Answer::Number(number) => Ok(number),
            _ => Err(AskError::WrongAnswer { to: "values" }),
        }
    }

    /// [`Question::ValueChange`].
    ///
    /// # Errors
    /// [`AskError`].
    fn value_change(
        &mut self,
        of: ValueChange<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        match self.answer(Question::ValueChange { of, over, noise })? {
            Answer::Number(number) => Ok(number),
            _ => Err(AskError::WrongAnswer {
                to: "changes of values",
            }),
        }
    }

    /// [`Question::Directional`].
    ///
    /// # Errors
    /// [`AskError`].
    fn directional(
        &mut self,
        of: Directional<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        match self.answer(Question::Directional { of, over, noise })? {
            Answer::Number(number) => Ok(number),
            _ => Err(AskError::WrongAnswer {
                to: "slopes along a direction",
            }),
        }
    }

    /// [`Question::OpenPeriod`].
    ///
    /// # Errors
    /// [`AskError`].
    fn open_period(&mut self, terms: &PeriodTerms) -> Result<Period, AskError> {
        match self.answer(Question::OpenPeriod(terms))? {
            Answer::Period(period) => Ok(period),
            _ => Err(AskError::WrongAnswer { to: "prefix sums" }),
        }
    }

    /// [`Question::Step`].
    ///
    /// # Errors
    /// [`AskError`]; also for records other than the participation says, and after the last step.
    fn step(
        &mut self,
        period: &mut Period,
        of: Linear<'_>,
        over: Which<'_>,
    ) -> Result<Mean, AskError> {
        match self.answer(Question::Step { period, of, over })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer { to: "prefix sums" }),
        }
    }

    /// [`Question::Pass`].
    ///
    /// # Errors
    /// [`AskError`].
    fn pass(&mut self, pass: &Pass<'_>, noise: NoiseMultiplier) -> Result<Mean, AskError> {
        match self.answer(Question::Pass { pass: *pass, noise })? {
            Answer::Mean(mean) => Ok(mean),
            _ => Err(AskError::WrongAnswer { to: "passes" }),
        }
    }
}
