//! First order: value and gradient norm.

use dpopt_linalg::norm;
use serde::Serialize;

use crate::error::CertificateError;
use crate::objective::{Objective, gradient_at, value_at};

/// How close to first-order stationary a point is: F(w) and ||grad F(w)||, up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FirstOrder {
    /// F(w).
    pub value: f64,
    /// ||grad F(w)||; at a kink, of one Clarke subgradient.
    pub gradient_norm: f64,
}

/// The exact value and gradient norm of `objective` at `point`.
///
/// # Shapes
/// `point`: one coordinate per coordinate of the objective.
///
/// # Errors
/// [`CertificateError`] for a wrong dimension, or numbers that are not finite.
///
/// # Privacy
/// For public data only.
///
/// ```
/// use dpopt_linalg::Design;
/// use dpopt_oracle::{Glm, PublicData};
/// use dpopt_certify::{GlmMean, first_order, second_order, SecondOrderSettings, Verdict};
///
/// // Two antipodal Welsch records, a saddle in the first coordinate: curvature -3 e^-2.
/// let design = Design::dense(2, vec![1.0, 0.0, 1.0, 0.0])?;
/// let data = PublicData::new(design, vec![2.0, -2.0])?;
/// let objective = GlmMean::new(&data, Glm::Welsch)?;
/// assert!(first_order(&objective, &[0.0, 0.0])?.gradient_norm < 1e-15);
/// let second = second_order(&objective, &[0.0, 0.0], &SecondOrderSettings::default())?;
/// assert!((second.least_eigenvalue + 3.0 * (-2f64).exp()).abs() < 1e-12);
/// assert_eq!(second.is_sosp(0.01, 1.0), Verdict::No);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn first_order<O: Objective + ?Sized>(
    objective: &O,
    point: &[f64],
) -> Result<FirstOrder, CertificateError> {
    let gradient = gradient_at(objective, point)?;
    Ok(FirstOrder {
        value: value_at(objective, point)?,
        gradient_norm: norm(&gradient),
    })
}
