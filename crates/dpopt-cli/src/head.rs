//! How outputs are compared with a label.

use dpopt::oracle::{Glm, Softmax};

/// How outputs are compared with a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Head {
    /// One output: the scalar function of a quadratic loss, too.
    Scalar(Glm),
    /// One for each class.
    Classes(Softmax),
}
