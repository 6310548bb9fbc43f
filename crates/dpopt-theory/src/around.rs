//! An oracle around another one, with a function between them and whoever asks.

use dpopt_oracle::{Answer, AskError, Books, Oracle, OracleFacts, Question};

/// An oracle that answers by a function of another one and the question: it may change what is asked, and what is answered.
/// Facts and books are those of the other.
pub struct Around<O, F> {
    inner: O,
    answer: F,
}

impl<O, F: FnMut(&mut O, Question<'_>) -> Result<Answer, AskError>> Around<O, F> {
    /// With `answer` around `inner`.
    pub fn new(inner: O, answer: F) -> Self {
        Self { inner, answer }
    }

    /// The oracle below.
    pub fn inner(&self) -> &O {
        &self.inner
    }
}

impl<O: Oracle, F: FnMut(&mut O, Question<'_>) -> Result<Answer, AskError>> Oracle
    for Around<O, F>
{
    fn facts(&self) -> OracleFacts {
        self.inner.facts()
    }

    fn books(&mut self) -> &mut Books {
        self.inner.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        (self.answer)(&mut self.inner, question)
    }
}
