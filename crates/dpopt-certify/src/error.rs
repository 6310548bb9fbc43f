//! Errors of exact certificates.

use dpopt_linalg::{HullError, LanczosError, SpectrumError};

/// A certificate could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The point has another dimension than the objective.
    #[error("the objective has {objective} coordinates, the point has {point}")]
    Dimension {
        /// Coordinates of the objective.
        objective: usize,
        /// Coordinates of the point.
        point: usize,
    },
    /// A mean over no records.
    #[error("a certificate needs at least one record")]
    NoRecords,
    /// A record, the point, or a sum is not finite.
    #[error("the {0} is not finite")]
    NotFinite(&'static str),
    /// A parameter is out of range.
    #[error("{name} is out of range: {value}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The dense Hessian would be too large.
    #[error("dimension {dim} is above {limit}, the largest for which a dense Hessian is formed")]
    TooManyDimensions {
        /// The dimension asked for.
        dim: usize,
        /// The largest possible.
        limit: usize,
    },
    /// The eigenvalues could not be computed.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
    /// The Lanczos iteration could not be run.
    #[error(transparent)]
    Lanczos(#[from] LanczosError),
    /// The hull of gradients could not be searched.
    #[error(transparent)]
    Hull(#[from] HullError),
}
