//! One of several candidates by records that were held out: the first whose gradient is short, and a certificate of it.

use dpopt_oracle::query::Linear;
use dpopt_oracle::{PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Epsilon, Event, Mu, Spend};
use dpopt_solver::{Budget, LibraryPlan, PlanError, PublicFacts};

use super::second::{SecondOrderCertificate, SecondOrderPlan};
use super::{PrivateCertificateError, SecondOrderTargets};

/// Share of epsilon for the search. A choice.
const SEARCH: f64 = 0.25;

/// Plans of this crate that choose a point, in the library only: beside those of the crates of solvers.
pub static LIBRARY: &[&LibraryPlan] = &[&HOLD_OUT];

static HOLD_OUT: LibraryPlan = LibraryPlan {
    name: "hold-out",
    plan: "HoldOutPlan",
    summary: "the first of several candidates whose gradient is short on records that were held out, by above-threshold, and one certificate of it",
    positions: false,
    theory_page: None,
    privacy_page: "privacy/hold-out.md",
};

/// A plan to find the first of several public candidates whose gradient is short on records that were held out, and to certify it there.
///
/// # Formula
/// Of candidates w_1, .., w_K, in their order, the first with ||grad F(w_k)|| seen below
///
/// T = alpha - 2 m - e,  e = (2 s L0/(n epsilon'))(ln(4/p) + 2 ln(4K/p)),
///
/// by the sparse vector technique at epsilon', m the margin of the certificate of a norm; then one [`SecondOrderPlan`] at it. With probability 1 - p a gradient of length
/// T - e or less is not passed over, and none above T + e is taken: a norm that the certificate then fails with probability at most p. No sqrt d. The certificate is false with probability at most
/// p, however the candidates and the one of them came about: its noise is fresh. F is the mean over the records that were held out.
///
/// # Privacy
/// One `AboveThreshold(epsilon')`, which is epsilon'-DP for all candidates together, and the certificate's Gaussians. A search is no Gaussian, so the two are
/// composed by the accountant of mixed events. Beside a run on **other** records that is parallel composition: give each a curator of its own.
/// `docs/privacy/hold-out.md`.
#[derive(Debug, Clone, Copy)]
pub struct HoldOutPlan {
    epsilon: Epsilon,
    clip: ClipNorm,
    threshold: f64,
    error: f64,
    candidates: usize,
    certificate: SecondOrderPlan,
}

/// What a [`HoldOutPlan`] found.
#[derive(Debug, Clone)]
pub struct HeldOut {
    /// Which candidate, counted from 0; none where none was seen to have a short gradient.
    pub candidate: Option<usize>,
    /// Of it.
    pub certificate: Option<SecondOrderCertificate>,
}

impl HoldOutPlan {
    /// A plan that spends `budget` on the records that were held out, of which `facts` are: a quarter of epsilon on the search.
    ///
    /// # Errors
    /// As [`HoldOutPlan::of`] and [`SecondOrderPlan::with_hessian`]; an accounting error.
    pub fn new(
        facts: &PublicFacts,
        frobenius: ClipNorm,
        budget: &Budget,
        failure: f64,
        targets: SecondOrderTargets,
        candidates: usize,
    ) -> Result<Self, PrivateCertificateError> {
        let epsilon = Epsilon::new(SEARCH * budget.epsilon.get()).map_err(PlanError::from)?;
        let (_, multiplier) = budget.calibrated(facts.adjacency, |z| {
            Event::composed(vec![Event::AboveThreshold { epsilon }, Event::gaussian(z)])
        })?;
        let mu = Mu::new(1.0 / multiplier.get()).map_err(PlanError::from)?;
        let certificate = SecondOrderPlan::with_hessian(facts, frobenius, mu, failure, targets)?;
        Self::of(facts, epsilon, failure, certificate, candidates)
    }

    /// A plan with this search and this certificate, which has a whole Hessian.
    ///
    /// # Errors
    /// [`PrivateCertificateError::Hopeless`] where the noise of the search and of the norm exceeds the target, and for no candidate.
    pub fn of(
        facts: &PublicFacts,
        epsilon: Epsilon,
        failure: f64,
        certificate: SecondOrderPlan,
        candidates: usize,
    ) -> Result<Self, PrivateCertificateError> {
        let clip = ClipNorm::new(facts.lipschitz).map_err(PlanError::from)?;
        let count = candidates as f64;
        // A norm is rounded down to whole steps.
        let unit = facts.noise_std(clip.get(), 1.0) * (1.0 + 1e-6);
        let error = 2.0 * unit / epsilon.get()
            * ((4.0 / failure).ln() + 2.0 * (4.0 * count / failure).ln());
        let target = certificate.targets().gradient;
        let threshold = target - 2.0 * certificate.margins().gradient - error;
        let whole = matches!(certificate.spend(), Spend::Fixed(_));
        // NaN must be refused.
        if !(threshold - error > 0.0) || candidates == 0 || !whole {
            return Err(PrivateCertificateError::Hopeless {
                what: "the gradient norm of a candidate",
                added: 2.0 * (error + certificate.margins().gradient),
                limit: target,
                records: facts.records,
                mu: epsilon.get(),
            });
        }
        Ok(Self {
            epsilon,
            clip,
            threshold,
            error,
            candidates,
            certificate,
        })
    }

    /// T, and e.
    #[must_use]
    pub fn threshold(&self) -> (f64, f64) {
        (self.threshold, self.error)
    }

    /// Its cost.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let search = Event::AboveThreshold {
            epsilon: self.epsilon,
        };
        let certificate = self.certificate.event();
        Spend::Fixed(Event::composed(vec![search, certificate]))
    }

    /// Searches, and certifies what was found.
    ///
    /// # Errors
    /// [`PrivateCertificateError`]: before anything is released, for another number of candidates than was planned for and as of
    /// [`SecondOrderPlan::release`].
    pub fn release<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        candidates: &[&[f64]],
    ) -> Result<HeldOut, PrivateCertificateError> {
        let (planned, found) = (self.candidates as u64, candidates.len() as u64);
        super::equal("candidates", planned, found)?;
        for point in candidates {
            self.certificate.check_data(mean, point)?;
        }
        let fields = candidates.iter().map(|w| Linear::field(w, self.clip));
        let fields: Vec<Linear<'_>> = fields.collect();
        let first = mean.first_short_norm(&fields, self.threshold, self.epsilon)?;
        let certificate = match first {
            Some(i) => Some(self.certificate.release(mean, candidates[i])?),
            None => None,
        };
        Ok(HeldOut {
            candidate: first,
            certificate,
        })
    }
}
