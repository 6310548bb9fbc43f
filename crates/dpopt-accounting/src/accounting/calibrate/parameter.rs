//! What can be calibrated.

/// A parameter that can be calibrated; named in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parameter {
    /// The noise multiplier.
    NoiseMultiplier,
    /// The number of steps.
    Steps,
    /// The sampling rate.
    SamplingRate,
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Parameter::NoiseMultiplier => "noise multiplier",
            Parameter::Steps => "number of steps",
            Parameter::SamplingRate => "sampling rate",
        })
    }
}
