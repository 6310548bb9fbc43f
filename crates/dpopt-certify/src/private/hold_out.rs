//! One of several candidates by records that were held out: the first whose gradient is short, and a certificate of it.

use dpopt_oracle::query::Linear;
use dpopt_oracle::{PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Epsilon, Event, Mu, Spend};
use dpopt_solver::{Budget, PlanError, PublicFacts};

use super::second::{SecondOrderCertificate, SecondOrderPlan};
use super::{PrivateCertificateError, SecondOrderTargets};

/// Share of epsilon for the search. A choice.
const SEARCH: f64 = 0.25;

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

#[cfg(test)]
mod tests {
    use dpopt_linalg::Design;
    use dpopt_oracle::{Glm, PrivateData};
    use dpopt_privacy::{Adjacency, Curator, Delta};

    use super::*;

    const RECORDS: u64 = 20_000;
    const FAILURE: f64 = 0.05;
    const TARGETS: SecondOrderTargets = SecondOrderTargets {
        gradient: 0.1,
        curvature: 0.1,
    };

    fn facts(records: u64) -> PublicFacts {
        let constants = Glm::Welsch.constants(1.0);
        PublicFacts::glm(records, 2, Adjacency::ReplaceOne, 1.0, constants).unwrap()
    }

    fn plan(records: u64, candidates: usize) -> Result<HoldOutPlan, PrivateCertificateError> {
        let budget = Budget {
            epsilon: Epsilon::new(1.0).unwrap(),
            delta: Delta::new(1e-6).unwrap(),
        };
        let facts = facts(records);
        let frobenius = ClipNorm::new(facts.smoothness).unwrap();
        HoldOutPlan::new(&facts, frobenius, &budget, FAILURE, TARGETS, candidates)
    }

    /// Rows e_1 with labels of 0: at (t, 0) the gradient is t e^(-t^2/2) e_1, and the Hessian (1 - t^2) e^(-t^2/2) e_1 e_1'.
    fn found(plan: &HoldOutPlan, candidates: &[&[f64]], seed: u64) -> HeldOut {
        let rows = Design::dense(2, [1.0, 0.0].repeat(RECORDS as usize)).unwrap();
        let norm = ClipNorm::new(1.0).unwrap();
        let labels = vec![0.0; RECORDS as usize];
        let data = PrivateData::made_up(rows, labels, norm, Adjacency::ReplaceOne, None).unwrap();
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        curator.reserve(&plan.spend()).unwrap();
        let mut mean = PrivateMean::new(&data, Glm::Welsch, curator).unwrap();
        let found = plan.release(&mut mean, candidates).unwrap();
        mean.curator_mut().settle().unwrap();
        found
    }

    /// Two candidates with gradients of .6 and .3, one with a gradient of nearly T - e, one at the minimum: the third is found and certified. Of 200 runs more
    /// than 24 may find another with a probability below 1e-4 (p = .05), and as many may not certify it.
    #[test]
    fn the_first_short_one_is_found_and_certified() {
        let plan = plan(RECORDS, 4).unwrap();
        let (threshold, error) = plan.threshold();
        assert!(error > 0.0 && threshold + error < TARGETS.gradient);
        let short = 0.9 * (threshold - error);
        let all: [&[f64]; 4] = [&[1.0, 3.0], &[0.315, -2.0], &[short, 5.0], &[0.0, 0.0]];
        let (mut missed, mut uncertified) = (0, 0);
        for seed in 0..200 {
            let found = found(&plan, &all, seed);
            missed += u64::from(found.candidate != Some(2));
            let certified = found.certificate.is_some_and(|found| found.certified);
            uncertified += u64::from(!certified);
        }
        assert!(missed <= 24 && uncertified <= 24, "{missed} {uncertified}");
    }

    /// A gradient above T + e is taken with probability at most p; and as often as not one at T, which is what the noise is for.
    #[test]
    fn long_ones_are_not_taken() {
        let plan = plan(RECORDS, 1).unwrap();
        let (threshold, error) = plan.threshold();
        let taken = |length: f64| -> u64 {
            // t e^(-t^2/2) = length: t = length (1 + length^2/2) or so.
            let t = length * (0.5 * length * length).exp();
            let runs = 0..200;
            runs.filter(|seed| found(&plan, &[&[t, 0.0]], *seed).candidate.is_some())
                .count() as u64
        };
        let (long, even) = (taken(threshold + error), taken(threshold));
        // Four standard deviations of a fair coin are 28.
        assert!(long <= 24 && (72..=128).contains(&even), "{long} {even}");
    }

    /// Where a saddle comes first it is found, and not certified: the search looks at gradients only.
    #[test]
    fn a_saddle_is_not_certified() {
        // A label of sqrt 3 at 0 has curvature -2 e^(-3/2); here the rows are at t = 3, of gradient .033 and curvature -.089.
        let plan = plan(RECORDS, 1).unwrap();
        let far = found(&plan, &[&[4.0, 0.0]], 3);
        assert_eq!(far.candidate, Some(0));
        let certificate = far.certificate.unwrap();
        // t e^(-t^2/2) = .0013, (1 - t^2) e^(-t^2/2) = -.005 at t = 4: within the targets, and true.
        assert!(certificate.certified);
        let steep = HoldOutPlan {
            threshold: 0.4,
            ..plan
        };
        // At t = 2: .271 and -.406. With a threshold of .4 it is found, and the certificate says no.
        let found = found(&steep, &[&[2.0, 0.0]], 4);
        assert_eq!(found.candidate, Some(0));
        assert!(!found.certificate.unwrap().certified);
    }

    #[test]
    fn what_says_nothing_is_refused() {
        assert!(matches!(
            plan(300, 4),
            Err(PrivateCertificateError::Hopeless { .. })
        ));
        assert!(plan(RECORDS, 0).is_err());
        let two = plan(RECORDS, 2).unwrap();
        let rows = Design::dense(2, [1.0, 0.0].repeat(RECORDS as usize)).unwrap();
        let norm = ClipNorm::new(1.0).unwrap();
        let labels = vec![0.0; RECORDS as usize];
        let data = PrivateData::made_up(rows, labels, norm, Adjacency::ReplaceOne, None).unwrap();
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        curator.reserve(&two.spend()).unwrap();
        let mut mean = PrivateMean::new(&data, Glm::Welsch, curator).unwrap();
        let one: &[&[f64]] = &[&[0.0, 0.0]];
        assert!(matches!(
            two.release(&mut mean, one),
            Err(PrivateCertificateError::OtherData { .. })
        ));
    }
}
