//! What solvers of second order share: the least eigenvalue of a released Hessian, and the step along its direction.

use dpopt_linalg::{add_scaled, dot, norm, symmetric_spectrum};
use dpopt_oracle::query::{HessianMatrix, unpack_symmetric};
use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{Episode, EpisodeEnd, PublicFacts, Radii};

/// Rows are at most 1e100 long: no product with a point whose coordinates are at most so large overflows.
const FAR: f64 = 1e100;

/// Whether no record at the point counts as zero because a product with it overflows, which would look stationary.
pub(crate) fn is_near(point: &[f64]) -> bool {
    point.iter().all(|w| w.abs() <= FAR)
}

/// The least eigenvalue of a released Hessian.
pub(crate) struct Lowest {
    /// It.
    pub(crate) value: f64,
    /// Its unit vector.
    pub(crate) direction: Vec<f64>,
    /// Standard deviation of the noise along a direction that is fixed.
    pub(crate) noise_std: f64,
    /// Largest error by rounding.
    pub(crate) rounding: f64,
}

/// Releases the Hessian at a point, clipped to `radius`, for its least eigenvalue; none where that can't be computed: noise beyond the range
/// of numbers, or an iteration that does not converge on a matrix that is public by then.
pub(crate) fn lowest(
    oracle: &mut dyn Oracle,
    at: &[f64],
    radius: ClipNorm,
    over: Which<'_>,
    noise_multiplier: NoiseMultiplier,
) -> Result<Option<Lowest>, AskError> {
    let of = HessianMatrix { point: at, radius };
    let (dim, coordinates) = (at.len(), of.coordinates());
    let released = oracle.hessian(of, over, noise_multiplier)?;
    let Some(matrix) = unpack_symmetric(dim, &released.mean) else {
        return Err(AskError::Shape { dim });
    };
    let Ok(spectrum) = symmetric_spectrum(dim, &matrix) else {
        return Ok(None);
    };
    Ok(Some(Lowest {
        value: spectrum.eigenvalues[0],
        direction: spectrum.least_direction,
        noise_std: released.noise_std,
        rounding: PublicFacts::rounding(radius.get(), coordinates)
            + 4.0 * dim as f64 * f64::EPSILON * norm(&matrix),
    }))
}

/// What was told of a point's curvature.
pub(crate) enum Curved {
    /// lambda_min >= low.
    Flat { low: f64 },
    /// <u, hess F u> <= -bend.
    Saddle { direction: Vec<f64>, bend: f64 },
    /// It can't be evaluated.
    Diverged,
}

/// What an episode over so many records tells, and what it cost in squared mu.
pub(crate) fn by_episode(
    oracle: &mut dyn Oracle,
    at: &[f64],
    (episode, records): (&Episode, f64),
    over: Which<'_>,
) -> Result<(Curved, f64), AskError> {
    let ran = episode.run(oracle, at, over, (records, Radii::Realised))?;
    let curved = match ran.end {
        EpisodeEnd::Stayed => Curved::Flat {
            low: -episode.terms.curvature,
        },
        EpisodeEnd::Left(direction) => Curved::Saddle {
            direction,
            bend: episode.bend,
        },
        EpisodeEnd::Diverged => Curved::Diverged,
    };
    Ok((curved, ran.cost))
}

/// How far to go along a unit vector u with <u, hess F u> <= -bend, where the sign costs at most `sign_error` per length: the r at which
/// bend r^2/2 - rho r^3/6 - sign_error r is largest, (bend + sqrt(bend^2 - 2 rho sign_error))/rho.
pub(crate) fn escape_length(hessian_lipschitz: f64, bend: f64, sign_error: f64) -> f64 {
    let bend = bend.max(0.0);
    let root = bend * bend - 2.0 * hessian_lipschitz * sign_error;
    (bend + root.max(0.0).sqrt()) / hessian_lipschitz
}

/// By how much F falls at least in that step, where that is more than nothing.
pub(crate) fn escape_falls(hessian_lipschitz: f64, bend: f64, sign_error: f64) -> Option<f64> {
    let length = escape_length(hessian_lipschitz, bend, sign_error);
    let per_length = 0.5 * bend * length - hessian_lipschitz * length * length / 6.0 - sign_error;
    (per_length > 0.0).then_some(per_length * length)
}

/// Goes `length` along `direction`, against `gradient`.
pub(crate) fn leave(at: &mut [f64], gradient: &[f64], direction: &[f64], length: f64) {
    let against = if dot(gradient, direction) > 0.0 {
        -1.0
    } else {
        1.0
    };
    add_scaled(at, against * length, direction);
}
