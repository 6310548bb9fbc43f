//! Certificates of private data: each is one release, planned, reserved and charged.
//!
//! A plan is made from public facts: the noise that a share of the budget allows, and the width of
//! the interval that will be stated. A plan whose interval would be too wide to tell anything is an
//! error with the numbers. Reserve [`GradientNormPlan::spend`] (or the composition of several), release, settle.
//!
//! An interval is about the mean of the **clipped** contributions over the public number of
//! records. That is the mean loss's own gradient or Hessian where the constants behind the clip
//! radii are right; where they are wrong the privacy stands and the statement is about another function. Both sides of an
//! interval hold together with the stated probability over the noise, for fixed data.

mod gradient;
mod population;
mod products;
#[cfg(test)]
mod products_tests;
mod second;
mod spectrum;
#[cfg(test)]
mod tests;

use dpopt_oracle::{AskError, Loss, NoSample, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Mu, NoiseMultiplier};
use dpopt_solver::{PlanError, PublicFacts, normal_reach};
use serde::Serialize;

use super::CertificateError;

pub use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
pub use dpopt_solver::SecondOrderTargets;
pub use gradient::{GradientNormPlan, PrivateGradientNorm};
pub use population::PopulationGap;
pub use second::{SecondOrderCertificate, SecondOrderPlan};
pub use spectrum::{LeastEigenvaluePlan, PrivateLeastEigenvalue};

/// A private certificate could not be planned or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateCertificateError {
    /// A public fact is not usable.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The interval would be too wide.
    #[error(
        "{what} could only be told to within an interval of width {width:.4e}, and less than {limit:.4e} is needed: more records (now {records}) or more budget (now mu = {mu:.4}) would help"
    )]
    Vacuous {
        /// The quantity to certify.
        what: &'static str,
        /// Width of the interval.
        width: f64,
        /// The upper limit: the resolution asked for, or the range of the quantity.
        limit: f64,
        /// n.
        records: u64,
        /// Gaussian-DP budget.
        mu: f64,
    },
    /// A parameter is out of range.
    #[error("{name} is out of range: {value}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The Hessian would be too large.
    #[error("dimension {dim} is above {limit}, the largest for which a private Hessian is formed")]
    TooManyDimensions {
        /// The dimension.
        dim: usize,
        /// The largest possible.
        limit: usize,
    },
    /// The data are not those that were planned for.
    #[error("planned for {planned} {what}, the data have {found}")]
    OtherData {
        /// The fact that differs.
        what: &'static str,
        /// In the plan.
        planned: u64,
        /// In the data.
        found: u64,
    },
    /// The data have another adjacency than was planned for, and the noise another size.
    #[error("planned for {planned} adjacency, the data have {found}")]
    OtherAdjacency {
        /// In the plan.
        planned: Adjacency,
        /// Adjacency of the data.
        found: Adjacency,
    },
    /// An episode of products with the Hessian costs more than there is.
    #[error(
        "to tell curvatures of -{curvature:.4e} by products with the Hessian costs {cost:.4e} of squared mu, and there is {budget:.4e}: more records (now {records}) would help"
    )]
    DearEpisode {
        /// Cost of the cheapest episode.
        cost: f64,
        /// mu^2.
        budget: f64,
        /// lambda.
        curvature: f64,
        /// n.
        records: u64,
    },
    /// No episode of products with the Hessian tells so little curvature in so many dimensions, whatever it may cost.
    #[error(
        "no products with the Hessian tell curvatures of -{curvature:.4e} from none in {dim} dimensions but with probability {missed:.1e}, with \
         Hessians of up to {smoothness:.4e}: the rounding of releases may hide them; more records would not help, but larger curvatures \
         or a larger probability would"
    )]
    NoEpisode {
        /// lambda.
        curvature: f64,
        /// L1.
        smoothness: f64,
        /// d.
        dim: usize,
        /// p.
        missed: f64,
    },
    /// Nothing could be certified: what is added to the released number is no smaller than what it may come to.
    #[error(
        "{added:.4e} is added to what is released of {what}, and only less than {limit:.4e} says something: more records (now {records}) or more budget (now mu = {mu:.4}) would help"
    )]
    Hopeless {
        /// The quantity to certify.
        what: &'static str,
        /// The slack added to the released number.
        added: f64,
        /// The target, or the range of the quantity.
        limit: f64,
        /// n.
        records: u64,
        /// Gaussian-DP budget.
        mu: f64,
    },
    /// From so few records nothing follows for the population at a point that depends on them.
    #[error(
        "from {records} records in {dim} dimensions {added:.4e} is added for {what}, and every point has less than {limit:.4e}"
    )]
    OfPopulation {
        /// The quantity.
        what: &'static str,
        /// The slack added to the released number.
        added: f64,
        /// Bound that holds at every point.
        limit: f64,
        /// n.
        records: u64,
        /// d.
        dim: usize,
    },
    /// A target that every point meets.
    #[error("every point meets a target of {target} for {what}, which is at most {limit} anywhere")]
    Trivial {
        /// The quantity to certify.
        what: &'static str,
        /// The target.
        target: f64,
        /// Bound that holds at every point.
        limit: f64,
    },
    /// The records are no fresh sample of the population that a claim is about.
    #[error(transparent)]
    NoSample(#[from] NoSample),
    /// Gradients at a point that is not finite count as zero, and would look like those of a stationary one.
    #[error("a point has a coordinate of {value}, at which records may count as zero")]
    FarPoint {
        /// The coordinate.
        value: f64,
    },
    /// The release was refused.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The release could not be evaluated.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl PrivateCertificateError {
    /// Refuses what is not strictly between 0 and 1.
    fn fraction(name: &'static str, value: f64) -> Result<(), Self> {
        if value > 0.0 && value < 1.0 {
            Ok(())
        } else {
            Err(Self::OutOfRange { name, value })
        }
    }

    /// Refuses where what is added to the released number is no smaller than `limit`, and a NaN.
    fn hopeful(
        facts: &PublicFacts,
        mu: Mu,
        (what, added, limit): (&'static str, f64, f64),
    ) -> Result<(), Self> {
        if added < limit {
            return Ok(());
        }
        Err(Self::Hopeless {
            what,
            added,
            limit,
            records: facts.records,
            mu: mu.get(),
        })
    }
}

/// An interval for a number, with the probability that it is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The interval misses with at most this probability over the noise.
    pub failure: f64,
}

impl Interval {
    /// Whether the number is at most `limit`, on the event that the interval holds.
    #[must_use]
    pub fn at_most(&self, limit: f64) -> super::Verdict {
        super::Verdict::at_most(self.low, self.high, limit)
    }

    /// Whether the number is at least `limit`, on the event that the interval holds.
    #[must_use]
    pub fn at_least(&self, limit: f64) -> super::Verdict {
        super::Verdict::at_most(-self.high, -self.low, -limit)
    }
}

/// The common part of all plans.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Terms {
    facts: PublicFacts,
    mu: f64,
    radius: ClipNorm,
    failure: f64,
    resolution: f64,
}

impl Terms {
    fn new(
        facts: &PublicFacts,
        mu: Mu,
        radius: ClipNorm,
        failure: f64,
        resolution: f64,
    ) -> Result<Self, PrivateCertificateError> {
        facts.check()?;
        PrivateCertificateError::fraction("failure", failure)?;
        // NaN must be refused, and no resolution may be asked for.
        if !(resolution > 0.0) {
            let (name, value) = ("resolution", resolution);
            return Err(PrivateCertificateError::OutOfRange { name, value });
        }
        Ok(Self {
            facts: *facts,
            mu: mu.get(),
            radius,
            failure,
            resolution,
        })
    }

    /// 1/mu, rounded up.
    fn noise_multiplier(&self) -> Result<NoiseMultiplier, PrivateCertificateError> {
        Ok(NoiseMultiplier::new((1.0 / self.mu).next_up()).map_err(PlanError::from)?)
    }

    /// Standard deviation, per coordinate of the mean, of the noise at that multiplier.
    fn noise_std(&self, noise_multiplier: NoiseMultiplier) -> f64 {
        let sensitivity = self.radius.get() * self.facts.adjacency.sum_sensitivity();
        noise_multiplier.get() * sensitivity / self.facts.records as f64
    }

    /// No mean of clipped contributions is larger; unknown where more records than the public number
    /// may be there.
    fn largest(&self) -> f64 {
        if self.facts.adjacency.record_count_is_public() {
            self.radius.get()
        } else {
            f64::INFINITY
        }
    }

    /// Refuses an interval as wide as the quantity's range, or wider than asked for.
    fn check_width(
        &self,
        what: &'static str,
        width: f64,
        range: f64,
    ) -> Result<(), PrivateCertificateError> {
        let limit = self.resolution.min(range);
        if width < limit {
            return Ok(());
        }
        Err(PrivateCertificateError::Vacuous {
            what,
            width,
            limit,
            records: self.facts.records,
            mu: self.mu,
        })
    }

    /// Refuses data of another size, shape or adjacency than planned for, and points out of reach.
    fn check_data<L: Loss>(
        &self,
        mean: &PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<(), PrivateCertificateError> {
        near(point)?;
        let (planned, found) = (self.facts.adjacency, mean.data().adjacency());
        if planned != found {
            return Err(PrivateCertificateError::OtherAdjacency { planned, found });
        }
        equal("parameters", self.facts.dim as u64, mean.dim() as u64)?;
        equal("records", self.facts.records, mean.data().public_records())
    }

    /// [`PublicFacts::rounding`] of a mean of `dim` coordinates.
    fn rounding(&self, dim: usize) -> f64 {
        PublicFacts::rounding(self.radius.get(), dim)
    }
}

fn equal(what: &'static str, planned: u64, found: u64) -> Result<(), PrivateCertificateError> {
    if planned == found {
        return Ok(());
    }
    Err(PrivateCertificateError::OtherData {
        what,
        planned,
        found,
    })
}

/// Refuses points at which inner products may overflow.
fn near(points: &[f64]) -> Result<(), PrivateCertificateError> {
    // NaN must be refused. Rows are at most 1e100 long.
    match points.iter().find(|x| !(x.abs() <= 1e100)) {
        Some(&value) => Err(PrivateCertificateError::FarPoint { value }),
        None => Ok(()),
    }
}

/// t with P(|Z| > t) <= failure for a standard normal Z.
fn two_sided(failure: f64) -> f64 {
    normal_reach(0.5 * failure)
}
