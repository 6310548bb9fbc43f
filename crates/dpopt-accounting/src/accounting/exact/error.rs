//! Why there is no bound.

/// Why no bound was computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExactError {
    /// The event is not a composition of Gaussians and Poisson-sampled Gaussians.
    #[error("the exact accountant has no moment function for {event}")]
    Unsupported {
        /// The part that was refused, in words.
        event: String,
    },
    /// The event contains an unprotected release.
    #[error("the event contains an unprotected release, so no epsilon holds")]
    Unprotected,
    /// Epsilon is negative or not a number.
    #[error("epsilon must be finite and at least 0, got {value}")]
    BadEpsilon {
        /// The rejected value.
        value: f64,
    },
    /// More releases of one kind than can be counted exactly.
    #[error("{count} releases of one kind are more than the accountant composes ({limit})")]
    TooManySteps {
        /// The count that was asked for.
        count: u64,
        /// The largest that is taken.
        limit: u64,
    },
    /// The noise is outside what the quadrature resolves.
    #[error("an effective noise multiplier of {value} is outside [{smallest}, {largest}]")]
    Noise {
        /// The effective noise multiplier.
        value: f64,
        /// The smallest that is taken.
        smallest: f64,
        /// The largest that is taken.
        largest: f64,
    },
    /// The inner sum needs more nodes than allowed.
    #[error(
        "the moments at rate {rate}, sigma {sigma} and exponents up to {tilt} need more than \
         {limit} nodes"
    )]
    TooManyNodes {
        /// Largest exponent.
        tilt: f64,
        /// Sampling rate.
        rate: f64,
        /// Standard deviation over the clip norm.
        sigma: f64,
        /// Nodes allowed.
        limit: usize,
    },
    /// The moments decay too slowly along the contour: few releases of tiny rate, whose loss is
    /// nearly discrete.
    #[error("the contour integral needs more than {limit} arguments")]
    TooManyArguments {
        /// Arguments allowed for this event.
        limit: usize,
    },
    /// No saddle point within the range of exponents.
    #[error("no saddle point was found up to the exponent {tilt}")]
    NoSaddle {
        /// Where the search ended.
        tilt: f64,
    },
    /// The error bound is not smaller than the number itself.
    #[error(
        "the integral is known too poorly: delta lies between e^{ln_lower} and e^{ln_upper} \
         near epsilon {epsilon}"
    )]
    Unresolved {
        /// Epsilon at which delta was evaluated.
        epsilon: f64,
        /// log of the lower bound on delta.
        ln_lower: f64,
        /// log of the upper bound on delta.
        ln_upper: f64,
    },
    /// Too many different samples, too far apart to be merged.
    #[error("{kinds} different samples are too far apart, or their rates too near 1, to be merged")]
    Scattered {
        /// How many.
        kinds: usize,
    },
    /// The certified interval is wider than a thousandth: the upper end holds, but states more than it should.
    #[error("epsilon is only known to be between {lower} and {upper}")]
    Wide {
        /// At least this.
        lower: f64,
        /// At most this.
        upper: f64,
    },
}
