//! The norm of the mean gradient at a public point.

use dpopt_oracle::{Differentiable, Linear, PrivateMean};
use dpopt_privacy::{ClipNorm, Event, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::PublicFacts;
use serde::Serialize;

use super::{Interval, PrivateCertificateError, Terms, two_sided};

/// A plan to release the norm of the mean clipped gradient once.
///
/// # Formula
/// N = ||(1/n) sum clip(grad f(w; x_i), C)|| + s (C + step) z/n Z with z = 1/mu and s = 2 under
/// replace-one, else 1. The interval is N -+ q s (C + step) z/n, q the two-sided normal quantile: **no power of d**, as the noise
/// is on one number.
///
/// # Privacy
/// One `Gaussian(z)` on all records: mu-GDP. `docs/privacy/certificates.md`.
///
/// ```
/// use dpopt_linalg::Design;
/// use dpopt_solver::PublicFacts;
/// use dpopt_oracle::{Glm, PrivateData, PrivateMean};
/// use dpopt_privacy::{Adjacency, ClipNorm, Curator, Mu};
/// use dpopt_certify::GradientNormPlan;
///
/// // Two thousand equal records, so that the gradient norm at 0 is known: 1/2.
/// let design = Design::dense(2, [1.0, 0.0].repeat(2000))?;
/// let row_norm = ClipNorm::new(1.0)?;
/// let data = PrivateData::new(design, vec![1.0; 2000], row_norm, Adjacency::ReplaceOne, None)?;
/// let facts = PublicFacts::glm(2000, 2, data.adjacency(), 1.0, Glm::Logistic.constants(1.0))?;
///
/// // An eighth of a mu, gradients clipped to L0 = 1, 95 % confidence, and no wider than 0.1.
/// let plan = GradientNormPlan::new(&facts, Mu::new(0.125)?, ClipNorm::new(1.0)?, 0.05, 0.1)?;
/// let mut curator = Curator::protected(data.adjacency())?;
/// curator.reserve(&plan.spend())?;
/// let mut mean = PrivateMean::new(&data, Glm::Logistic, curator)?;
/// let found = plan.release(&mut mean, &[0.0, 0.0])?;
/// assert!(found.interval.high - found.interval.low <= plan.width);
/// mean.curator_mut().settle()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GradientNormPlan {
    /// z.
    pub noise_multiplier: NoiseMultiplier,
    /// Standard deviation of the noise.
    pub noise_std: f64,
    /// Width of the interval, ends at 0 and C aside. For a loss whose gradients are added as products of matrices
    /// (not [`Differentiable::EXACT_SUMS`]) the interval is wider, by 0.64 % of C for up to two million parameters.
    pub width: f64,
    terms: Terms,
}

/// A released gradient norm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivateGradientNorm {
    /// The released number; may be negative.
    pub released: f64,
    /// Standard deviation of its noise.
    pub noise_std: f64,
    /// Where the norm of the mean clipped gradient lies.
    pub interval: Interval,
}

impl GradientNormPlan {
    /// A plan that spends `mu`, clips gradients to `clip` (L0 leaves them whole), and states an interval that misses with probability
    /// `failure`.
    ///
    /// # Errors
    /// [`PrivateCertificateError::Vacuous`] unless the interval is narrower than `resolution` and
    /// than C, the range of the norm.
    pub fn new(
        facts: &PublicFacts,
        mu: Mu,
        clip: ClipNorm,
        failure: f64,
        resolution: f64,
    ) -> Result<Self, PrivateCertificateError> {
        let plan = Self::of(Terms::new(facts, mu, clip, failure, resolution)?)?;
        let range = clip.get();
        plan.terms
            .check_width("the gradient norm", plan.width, range)?;
        Ok(plan)
    }

    /// A plan of which one end is read.
    pub(super) fn at_any_width(
        facts: &PublicFacts,
        mu: Mu,
        clip: ClipNorm,
        failure: f64,
    ) -> Result<Self, PrivateCertificateError> {
        Self::of(Terms::new(facts, mu, clip, failure, f64::INFINITY)?)
    }

    fn of(terms: Terms) -> Result<Self, PrivateCertificateError> {
        let noise_multiplier = terms.noise_multiplier()?;
        let noise_std = terms.noise_std(noise_multiplier) * (1.0 + (-29f64).exp2());
        // Room for the rounding of the two ends.
        let half = two_sided(terms.failure) * noise_std + terms.rounding(terms.facts.dim);
        let width = 2.0 * half * (1.0 + 1e-12);
        Ok(Self {
            noise_multiplier,
            noise_std,
            width,
            terms,
        })
    }

    /// The public facts, and C.
    pub(super) fn planned(&self) -> (&PublicFacts, f64) {
        (&self.terms.facts, self.terms.radius.get())
    }

    /// Its cost.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::gaussian(self.noise_multiplier))
    }

    /// Releases the norm at `point`, from what is reserved at the curator of `mean`.
    ///
    /// # Errors
    /// [`PrivateCertificateError`]; nothing was released then.
    pub fn release<L: Differentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<PrivateGradientNorm, PrivateCertificateError> {
        self.terms.check_data(mean, point)?;
        let clip = self.terms.radius;
        let query = Linear::field(point, clip);
        let found = mean.release_norm(&query, Which::All, self.noise_multiplier)?;
        // A query with a positive radius always has a bound.
        let (released, noise_std) = found.map_or((0.0, 0.0), |m| (m.number, m.noise_std));
        let products = if L::EXACT_SUMS {
            0.0
        } else {
            of_products(mean.dim()) * clip.get()
        };
        let rounding = self.terms.rounding(mean.dim()) + products;
        let half = two_sided(self.terms.failure) * noise_std + rounding;
        Ok(PrivateGradientNorm {
            released,
            noise_std,
            interval: Interval {
                low: (released - half).clamp(0.0, self.terms.largest()),
                high: (released + half).clamp(0.0, self.terms.largest()),
                failure: self.terms.failure,
            },
        })
    }
}

/// How far the mean of contributions that are added as products of matrices may be from that of the clipped ones, over the clip
/// radius (`docs/privacy/sums.md`). In blocks the clip is 0.31 % shorter and the rest far smaller. Exact products have a
/// clip that is shorter by d^(1/4) 2^-14.5 and round factors, which moves the product by as much.
fn of_products(dim: usize) -> f64 {
    let exact = 2.0 * (dim as f64).sqrt().sqrt() * (-14.5f64).exp2();
    exact.max(0.0032)
}
