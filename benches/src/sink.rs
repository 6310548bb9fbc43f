//! The results of a row, and their receiver.

/// An error of any kind.
pub type Failure = Box<dyn std::error::Error>;
/// A result of any kind.
pub type Fallible<T> = Result<T, Failure>;
/// Named arrays that other tools compare their answers with.
pub type Arrays = Vec<(&'static str, Vec<f64>)>;

/// Times a work or writes its answer.
pub trait Sink {
    /// Takes one work, and what other tools compare themselves with.
    ///
    /// # Errors
    /// Those of the work.
    fn take(
        &mut self,
        work: &mut dyn FnMut() -> Fallible<f64>,
        answer: &mut dyn FnMut() -> Fallible<Arrays>,
    ) -> Fallible<()>;
}

/// A size among the words of a row.
pub(crate) fn size(word: &str) -> Fallible<usize> {
    word.parse()
        .map_err(|_| format!("`{word}` is not a size").into())
}

/// Takes a work that no other tool is compared with.
pub(crate) fn alone(sink: &mut dyn Sink, work: &mut dyn FnMut() -> Fallible<f64>) -> Fallible<()> {
    sink.take(work, &mut || Ok(Vec::new()))
}
