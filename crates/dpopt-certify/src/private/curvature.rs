//! The curvature of the mean loss along one public direction.

use dpopt_linalg::norm;
use dpopt_oracle::query::Curvature;
use dpopt_oracle::{PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Event, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::PublicFacts;
use serde::Serialize;

use super::{Interval, PrivateCertificateError, Terms, two_sided};

/// A plan to release <v, hess F(w) v> once, for a public unit vector v: one that an earlier release
/// or a run on public data has given.
///
/// # Formula
/// (1/n) (sum clip(<v, hess f(w; x_i) v>, L1) + s L1 z Z) with z = 1/mu: one number, so no power of d. Its upper end bounds the
/// least eigenvalue from above, so a negative one proves a saddle or a maximum along v.
///
/// # Privacy
/// One `Gaussian(z)` on all records: mu-GDP.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CurvaturePlan {
    /// z.
    pub noise_multiplier: NoiseMultiplier,
    /// Standard deviation of the noise.
    pub noise_std: f64,
    /// Width of the interval.
    pub width: f64,
    terms: Terms,
}

/// A released curvature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivateCurvature {
    /// The released number.
    pub released: f64,
    /// Standard deviation of its noise.
    pub noise_std: f64,
    /// Where <v, H v> lies, H the mean Hessian with each record's curvature clipped.
    pub interval: Interval,
}

impl CurvaturePlan {
    /// A plan that spends `mu` and clips curvatures to `smoothness` (L1 leaves them whole).
    ///
    /// # Errors
    /// [`PrivateCertificateError::Vacuous`] unless the interval is narrower than `resolution` and
    /// than 2 L1.
    pub fn new(
        facts: &PublicFacts,
        mu: Mu,
        smoothness: ClipNorm,
        failure: f64,
        resolution: f64,
    ) -> Result<Self, PrivateCertificateError> {
        let terms = Terms::new(facts, mu, smoothness, failure, resolution)?;
        let noise_multiplier = terms.noise_multiplier()?;
        let noise_std = terms.noise_std(noise_multiplier);
        let width = 2.0 * (two_sided(failure) * noise_std + terms.rounding(1));
        terms.check_width("the curvature", width, 2.0 * smoothness.get())?;
        Ok(Self {
            noise_multiplier,
            noise_std,
            width,
            terms,
        })
    }

    /// Its cost.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::gaussian(self.noise_multiplier))
    }

    /// Releases the curvature at `point` along `direction`, which is brought to norm 1.
    ///
    /// # Errors
    /// [`PrivateCertificateError`]; nothing was released then.
    pub fn release<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        point: &[f64],
        direction: &[f64],
    ) -> Result<PrivateCurvature, PrivateCertificateError> {
        self.terms.check_data(mean, point)?;
        let length = norm(direction);
        if !(length > 0.0 && length.is_finite()) {
            return Err(PrivateCertificateError::OutOfRange {
                name: "the norm of the direction",
                value: length,
            });
        }
        let unit: Vec<f64> = direction.iter().map(|x| x / length).collect();
        let query = Curvature {
            point,
            direction: &unit,
            radius: Some(self.terms.radius),
        };
        let found = mean.release(&query, Which::All, self.noise_multiplier)?;
        let (released, noise_std) = found.map_or((0.0, 0.0), |m| {
            (m.mean.first().copied().unwrap_or(0.0), m.noise_std)
        });
        let half = two_sided(self.terms.failure) * noise_std + self.terms.rounding(1);
        let limit = self.terms.largest();
        Ok(PrivateCurvature {
            released,
            noise_std,
            interval: Interval {
                low: (released - half).clamp(-limit, limit),
                high: (released + half).clamp(-limit, limit),
                failure: self.terms.failure,
            },
        })
    }
}
