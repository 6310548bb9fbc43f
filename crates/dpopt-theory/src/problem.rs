//! Problems whose objective is known in closed form.

/// A problem could not be set up.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// A parameter is not a positive finite number.
    #[error("{name} must be a positive finite number, got {value}")]
    NotPositive {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The slope is above what the constants allow.
    #[error("slope {slope} is above {limit}, the largest that the constants allow")]
    SlopeTooLarge {
        /// The slope asked for.
        slope: f64,
        /// The largest possible.
        limit: f64,
    },
    /// The dimension is too small.
    #[error("dimension {0} is below 2")]
    TooFewDimensions(usize),
}

/// An objective F with exact value, gradient and constants. Every record has this same loss, so
/// the mean over records is F itself, whatever their number.
pub trait Problem {
    /// Dimension d of points and gradients.
    fn dim(&self) -> usize;

    /// L0: bound on the gradient norm.
    fn lipschitz(&self) -> f64;

    /// L1: Lipschitz constant of the gradient.
    fn smoothness(&self) -> f64;

    /// F0 = F(0) - inf F.
    fn initial_gap(&self) -> f64;

    /// F at `point`.
    ///
    /// # Shapes
    /// `point`: d.
    fn value(&self, point: &[f64]) -> f64;

    /// Writes the gradient of F at `point` to `out`.
    ///
    /// # Shapes
    /// `point` and `out`: d.
    fn gradient(&self, point: &[f64], out: &mut [f64]);
}
