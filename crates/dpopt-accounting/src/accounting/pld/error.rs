//! Why there is no bound.

/// Why no bound was computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PldError {
    /// The event is not a composition of Gaussians, Laplace noise, and Poisson samples of them.
    #[error("the privacy-loss accountant has no dominating pair for {event}")]
    Unsupported {
        /// The event, in words.
        event: String,
    },
    /// Epsilon is negative or not a number.
    #[error("epsilon must be at least 0, got {value}")]
    BadEpsilon {
        /// The rejected value.
        value: f64,
    },
    /// An option is out of range.
    #[error("option {name} is out of range: {value}")]
    BadOption {
        /// Name of the option.
        name: &'static str,
        /// The rejected value.
        value: f64,
    },
    /// More steps than can be counted exactly.
    #[error("{count} releases of one kind are more than the accountant composes ({limit})")]
    TooManySteps {
        /// The count that was asked for.
        count: u64,
        /// The largest that is taken.
        limit: u64,
    },
    /// The effective noise of a kind of step is outside what the quadrature resolves.
    #[error("an effective noise multiplier of {value} is outside [{smallest}, {largest}]")]
    Noise {
        /// The effective noise multiplier.
        value: f64,
        /// The smallest that is taken.
        smallest: f64,
        /// The largest that is taken.
        largest: f64,
    },
    /// A random allocation to so many steps that rounding leaves nothing certain.
    #[error(
        "a random allocation to {steps} steps has masses that are known to a relative error of {error:.1e} only"
    )]
    Allocation {
        /// The number of steps.
        steps: u64,
        /// The relative error.
        error: f64,
    },
    /// The lattice needs more points than allowed.
    #[error("the lattice needs {cells} points, {limit} are allowed")]
    TooFine {
        /// Points needed.
        cells: f64,
        /// Points allowed.
        limit: f64,
    },
    /// The law of a release came out with too little mass, so a bound from it would be too small.
    #[error("the privacy loss of a release has a total mass of {mass} on the lattice, below 1")]
    Incomplete {
        /// The mass that was found.
        mass: f64,
    },
    /// More records than the pair of a group is computed for.
    #[error("the pair of {records} records on samples is computed for at most {limit}")]
    GroupTooLarge {
        /// The records.
        records: u64,
        /// The largest number.
        limit: u64,
    },
    /// A tilted quantity left the double range.
    #[error("tilting by {theta} left the double range")]
    Overflow {
        /// The tilt.
        theta: f64,
    },
    /// The transform refused its input.
    #[error("the transform of length {size} failed")]
    Transform {
        /// Its length.
        size: usize,
    },
}
