//! An oracle from a function: for tests, simulations and closed forms.

use dpopt_privacy::Curator;

use super::{Answer, Books, Oracle, OracleFacts, Question};
use crate::error::AskError;

/// An oracle whose answers a function gives. It protects nothing by itself: what it answers, with which noise, and
/// whether it charges for it, is the function's matter.
pub struct FnOracle<F> {
    facts: OracleFacts,
    books: Books,
    answer: F,
}

impl<F: FnMut(&mut Books, Question<'_>) -> Result<Answer, AskError>> FnOracle<F> {
    /// With the books of `curator`.
    pub fn new(facts: OracleFacts, curator: Curator, answer: F) -> Self {
        Self {
            books: Books::new(curator, facts.records),
            facts,
            answer,
        }
    }
}

impl<F: FnMut(&mut Books, Question<'_>) -> Result<Answer, AskError>> Oracle for FnOracle<F> {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        (self.answer)(&mut self.books, question)
    }
}
