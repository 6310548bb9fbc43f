//! A second-order certificate of the population, on records that were never read.

use dpopt_oracle::{NoSample, Oracle as _, PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Event, Mu, Spend, Which};
use dpopt_solver::{PublicFacts, SecondOrderTargets};
use serde::Serialize;

use super::second::check_targets;
use super::slice::check_unread;
use super::{PrivateCertificateError, SecondOrderCertificate, SecondOrderPlan};

/// A plan to certify that a public point is second-order stationary for the **population**: ||grad F_P(w)|| <= alpha and
/// lambda_min(hess F_P(w)) >= -lambda, from n' = `facts.records` records that nothing was computed from before.
///
/// # Formula
/// As [`SecondOrderPlan`] on the slice, with p/2 for the noise. Certified iff
///
/// released norm + q s_1 + L0 t <= alpha  and  lambda' - q s_2 - L1 t >= -lambda,  t = sqrt(2 ln(4/p)/n').
///
/// No power and no logarithm of d: the two directions in which the population is looked at (its gradient, and the eigenvector of its least
/// eigenvalue) do not depend on the records, so the means along them are means of n' bounded numbers. `docs/theory/certificates.md`. A
/// certificate is false with probability at most p over the records and the noise. An episode in place of a Hessian is planned for
/// lambda - L1 t, and its exits are directions of the slice's Hessian.
///
/// # Privacy
/// `Gaussian` events on one slice of the pool, for the norm and for a Hessian or each product of an episode, at full radii: mu-GDP together, beside whatever was released of other slices. Replace-one only.
///
/// # The caller's part
/// The point may depend on any other records, and on nothing that was computed from these. The records are independent draws from the
/// population, in an order that tells nothing ([`dpopt_oracle::PrivateData::in_random_order`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SecondOrderSlicePlan {
    of_slice: SecondOrderPlan,
    targets: SecondOrderTargets,
    sampling: SecondOrderTargets,
    records: u64,
    failure: f64,
}

impl SecondOrderSlicePlan {
    /// A plan for n' = `facts.records` unread records that spends `mu` on them; see [`SecondOrderPlan::new`].
    ///
    /// # Errors
    /// [`NoSample::Adjacency`] but under replace-one; [`PrivateCertificateError::Hopeless`] where sampling alone exceeds a target;
    /// as [`SecondOrderPlan::new`].
    pub fn new(
        facts: &PublicFacts,
        frobenius: ClipNorm,
        mu: Mu,
        failure: f64,
        targets: SecondOrderTargets,
    ) -> Result<Self, PrivateCertificateError> {
        NoSample::refuse(facts.adjacency)?;
        check_targets(facts, targets)?;
        PrivateCertificateError::fraction("failure", failure)?;
        // For its own rounding.
        let root = (2.0 * (4.0 / failure).ln() / facts.records as f64).sqrt() * (1.0 + 1e-12);
        let sampling = SecondOrderTargets {
            gradient: facts.lipschitz * root,
            curvature: facts.smoothness * root,
        };
        let left = SecondOrderTargets {
            gradient: targets.gradient - sampling.gradient,
            curvature: targets.curvature - sampling.curvature,
        };
        let ends = [
            ("the gradient norm", sampling.gradient, targets.gradient),
            (
                "the least eigenvalue",
                sampling.curvature,
                targets.curvature,
            ),
        ];
        for end in ends {
            PrivateCertificateError::hopeful(facts, mu, end)?;
        }
        Ok(Self {
            of_slice: SecondOrderPlan::new(facts, frobenius, mu, 0.5 * failure, left)?,
            targets,
            sampling,
            records: facts.records,
            failure,
        })
    }

    /// What is added for sampling: to the gradient norm, and to minus the least eigenvalue.
    #[must_use]
    pub fn sampling(&self) -> SecondOrderTargets {
        self.sampling
    }

    /// Its cost, on the records of the slice.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::ParallelComposed {
            events: vec![self.of_slice.event()],
        })
    }

    /// Takes the next n' records of the pool of `mean`, and releases the gradient norm at `point`, and the Hessian too where that is short
    /// enough. Of what is returned `targets`, `failure` and the ends that are read (the upper one of the gradient, the lower one of the
    /// curvature) are of the population; the other ends are of the slice.
    ///
    /// # Errors
    /// [`PrivateCertificateError::NoSample`] as of [`super::GoldsteinSlicePlan::release`]; as of
    /// [`SecondOrderPlan::release`]. Where the first release was refused the slice stays taken.
    pub fn release<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<SecondOrderCertificate, PrivateCertificateError> {
        self.of_slice.check_shape(mean, point)?;
        check_unread(mean, self.records)?;
        let slice = mean.books().take_slice(self.records);
        let slice = slice.map_err(dpopt_oracle::AskError::from)?;
        let over = Which::Slice(&slice);
        let mut found = self.of_slice.release_over(mean, (point, None), over)?;
        found.targets = self.targets;
        found.failure = self.failure;
        found.gradient.high += self.sampling.gradient;
        found.gradient.failure = self.failure;
        if let Some(curvature) = &mut found.curvature {
            curvature.low -= self.sampling.curvature;
            curvature.failure = self.failure;
        }
        Ok(found)
    }
}
