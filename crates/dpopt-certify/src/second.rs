//! Second order: gradient norm, least Hessian eigenvalue, and the direction that belongs to it.

use dpopt_linalg::{
    End, LanczosSettings, LanczosStatus, add_scaled, dot, extreme_eigenvalue, norm, norm_upper,
    symmetric_spectrum,
};
use serde::Serialize;

use crate::error::CertificateError;
use crate::objective::{Curved, gradient_at};
use crate::random::Normals;

/// Largest dimension for which a dense Hessian is formed (8 MiB, about 10^10 operations).
pub const MAX_HESSIAN_DIM: usize = 1024;
/// Up to here [`EigenMethod::Auto`] forms it. Tuned: about as fast as products there.
const AUTO_DENSE_DIM: usize = 96;

/// How the least eigenvalue is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum EigenMethod {
    /// Dense in up to 96 dimensions, else Lanczos.
    Auto,
    /// The whole spectrum of the dense Hessian, in up to [`MAX_HESSIAN_DIM`] dimensions.
    Dense,
    /// Lanczos on Hessian-vector products, from a random start.
    Lanczos,
}

/// How to look for the least eigenvalue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecondOrderSettings {
    /// How.
    pub method: EigenMethod,
    /// For Lanczos.
    pub lanczos: LanczosSettings,
    /// Seed of the start; the answer is the same for equal seeds.
    pub seed: u64,
}

impl Default for SecondOrderSettings {
    fn default() -> Self {
        Self {
            method: EigenMethod::Auto,
            lanczos: LanczosSettings::default(),
            seed: 0,
        }
    }
}

/// How close to second-order stationary a point is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SecondOrder {
    /// ||grad F(w)||.
    pub gradient_norm: f64,
    /// theta = <v, hess F(w) v>, at least the least eigenvalue; negative at a saddle.
    pub least_eigenvalue: f64,
    /// v, a unit vector: the direction in which F bends down most (or up least).
    pub direction: Vec<f64>,
    /// ||hess F(w) v - theta v||: some eigenvalue is within this of theta, for certain.
    pub residual: f64,
    /// The least eigenvalue is at least theta minus this, with probability at least `1 - failure`
    /// over the random start; large where too few products were allowed.
    pub beyond: f64,
    /// 0 for the dense spectrum.
    pub failure: f64,
    /// Size of rounding errors of the eigenvalue; those of the Hessian itself are not in it.
    pub rounding: f64,
    /// Hessian-vector products.
    pub products: usize,
    /// The method used: never [`EigenMethod::Auto`].
    pub method: EigenMethod,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// Whether a property holds, as far as the error bounds tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It holds.
    Yes,
    /// It does not hold.
    No,
    /// The error is too large to say.
    Undecided,
}

impl Verdict {
    /// Whether a number known to lie between `low` and `high` is at most `limit`.
    pub(crate) fn at_most(low: f64, high: f64, limit: f64) -> Self {
        if high <= limit {
            Verdict::Yes
        } else if low > limit {
            Verdict::No
        } else {
            Verdict::Undecided
        }
    }

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Verdict::Yes, Verdict::Yes) => Verdict::Yes,
            (Verdict::No, _) | (_, Verdict::No) => Verdict::No,
            _ => Verdict::Undecided,
        }
    }
}

impl SecondOrder {
    /// Where the least eigenvalue lies, with probability at least `1 - failure`.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        (
            self.least_eigenvalue - self.beyond,
            self.least_eigenvalue + self.rounding,
        )
    }

    /// Whether the point is alpha-second-order-stationary: ||grad F|| <= alpha and the least
    /// eigenvalue is at least -sqrt(rho alpha), rho being the Lipschitz constant of the Hessian.
    #[must_use]
    pub fn is_sosp(&self, alpha: f64, rho: f64) -> Verdict {
        let (low, high) = self.interval();
        Verdict::at_most(self.gradient_norm, self.gradient_norm, alpha).and(Verdict::at_most(
            -high,
            -low,
            (rho * alpha).sqrt(),
        ))
    }
}

/// Gradient norm and least Hessian eigenvalue of `objective` at `point`.
///
/// # Shapes
/// `point`: one coordinate per coordinate of the objective.
///
/// # Errors
/// [`CertificateError`], with [`CertificateError::TooManyDimensions`] for
/// [`EigenMethod::Dense`] above [`MAX_HESSIAN_DIM`].
///
/// # Complexity
/// Dense: one [`Curved::hessian`] and 9 d^3 operations, d^2 numbers. Lanczos: some tens of products where the least
/// eigenvalue stands alone, up to `max_products` where it does not; the basis in memory.
///
/// # Privacy
/// For public data only.
pub fn second_order<O: Curved + ?Sized>(
    objective: &O,
    point: &[f64],
    settings: &SecondOrderSettings,
) -> Result<SecondOrder, CertificateError> {
    let gradient_norm = norm(&gradient_at(objective, point)?);
    let dense = match settings.method {
        EigenMethod::Auto => point.len() <= AUTO_DENSE_DIM,
        EigenMethod::Dense => true,
        EigenMethod::Lanczos => false,
    };
    if dense {
        by_spectrum(objective, point, gradient_norm)
    } else {
        by_lanczos(objective, point, gradient_norm, settings)
    }
}

fn by_spectrum<O: Curved + ?Sized>(
    objective: &O,
    point: &[f64],
    gradient_norm: f64,
) -> Result<SecondOrder, CertificateError> {
    let dim = point.len();
    if dim > MAX_HESSIAN_DIM {
        return Err(CertificateError::TooManyDimensions {
            dim,
            limit: MAX_HESSIAN_DIM,
        });
    }
    let hessian = objective.hessian(point);
    let spectrum = symmetric_spectrum(dim, &hessian)?;
    let direction = spectrum.least_direction;
    let entry = |i: usize, j: usize| hessian[i.max(j) * dim + i.min(j)];
    let mut image: Vec<f64> = (0..dim)
        .map(|i| (0..dim).map(|j| entry(i, j) * direction[j]).sum())
        .collect();
    let theta = dot(&direction, &image) / dot(&direction, &direction);
    add_scaled(&mut image, -theta, &direction);
    // Eigenvalues of a backward stable method are off by a modest multiple of d units of rounding.
    let rounding = 4.0 * dim as f64 * f64::EPSILON * norm(&hessian);
    Ok(SecondOrder {
        gradient_norm,
        least_eigenvalue: theta,
        direction,
        residual: norm_upper(&image) + rounding,
        beyond: (theta - spectrum.eigenvalues[0]).max(0.0) + rounding,
        failure: 0.0,
        rounding,
        products: dim,
        method: EigenMethod::Dense,
        converged: true,
    })
}

fn by_lanczos<O: Curved + ?Sized>(
    objective: &O,
    point: &[f64],
    gradient_norm: f64,
    settings: &SecondOrderSettings,
) -> Result<SecondOrder, CertificateError> {
    let start = Normals::new(settings.seed).vector(point.len());
    let found = extreme_eigenvalue(&start, End::Least, &settings.lanczos, |v, out| {
        objective.hessian_vector(point, v, out);
    })?;
    let failure = settings.lanczos.failure;
    Ok(SecondOrder {
        gradient_norm,
        least_eigenvalue: found.value,
        residual: found.residual,
        beyond: found.beyond(failure),
        failure,
        rounding: found.rounding,
        products: found.products,
        method: EigenMethod::Lanczos,
        converged: found.status != LanczosStatus::NotConverged,
        direction: found.direction,
    })
}
