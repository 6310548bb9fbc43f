//! A bound on the Goldstein distance of the population's loss, from records that nothing was computed from before.

use dpopt_linalg::distance;
use dpopt_oracle::query::MeanOfGradients;
use dpopt_oracle::{Differentiable, NoSample, Offers, Oracle as _, PrivateMean};
use dpopt_privacy::{ClipNorm, Event, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::{Known, PlanError, Premises, PublicFacts};
use serde::Serialize;

use super::{PrivateCertificateError, Terms, near};
use crate::window::{WindowSlack, WindowSubject, noise_slack};

/// A plan to release, once, the mean gradient over a window of public points on records that were never read.
///
/// # Formula
/// With n' unread records, W points y_t and L = `facts.lipschitz`: v = (1/n') sum over records of
/// clip((1/W) sum over t of g_i(y_t), L) + noise. With probability 1 - p over the records and the noise
///
/// ||(1/W) sum over t of grad F(y_t)|| <= ||v|| + L (1 + sqrt(2 ln(2/p)))/sqrt n' + sigma (sqrt d + sqrt(2 ln(2/p))) + rounding,
///
/// F the loss of the **population**: the records are n' independent draws from it, in an order that tells nothing. There is no
/// sqrt d in the term of the records, as one vector is estimated and not a field ([`uniform_gradient_gap`] is the price of the
/// other). Proof: `docs/privacy/goldstein.md`.
///
/// # Privacy
/// One `Gaussian(z)` with z = 1/mu on a slice of the pool of the curator of these records. Replace-one only: under zero-out an
/// erased record contributes nothing and is no draw from the population.
///
/// # The caller's part
/// The points may depend on any other records, and on nothing that was computed from these: what this curator released is
/// checked, what other curators and programs read can't be. A run on other records and this certificate compose in parallel;
/// give each a curator of its own (one ledger for both adds their costs up, which is more than they need). Failure probabilities
/// of several certificates add up.
///
/// ```
/// use dpopt_certify::GoldsteinSlicePlan;
/// use dpopt_linalg::Design;
/// use dpopt_oracle::{Glm, PrivateData, PrivateMean};
/// use dpopt_privacy::{Adjacency, ClipNorm, Curator, Mu};
/// use dpopt_solver::PublicFacts;
///
/// // Held out, and all alike: the mean gradient of the hinge at 0 is -(1, 0).
/// let rows = Design::dense(2, [1.0, 0.0].repeat(40_000))?;
/// let held_out = PrivateData::new(rows, vec![1.0; 40_000], ClipNorm::new(1.0)?, Adjacency::ReplaceOne, None)?;
/// let facts = PublicFacts::glm(40_000, 2, held_out.adjacency(), 1.0, Glm::Hinge.constants(1.0))?;
/// let plan = GoldsteinSlicePlan::new(&facts, Mu::new(0.5)?, 0.05, 0.1)?.with_points_moved();
///
/// let mut curator = Curator::protected(held_out.adjacency())?;
/// curator.reserve(&plan.spend())?;
/// let mut mean = PrivateMean::new(&held_out, Glm::Hinge, curator)?;
/// // Points of a window of a run on other records, moved at random as goldstein's are.
/// let found = plan.release(&mut mean, &[0.01, 0.02, -0.01, 0.03])?;
/// assert!(found.value > 0.99 && found.value < 1.03 && found.radius < 0.02);
/// mean.curator_mut().settle()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GoldsteinSlicePlan {
    noise_multiplier: NoiseMultiplier,
    noise_std: f64,
    slack: WindowSlack,
    moved: bool,
    terms: Terms,
}

/// A bound on the mean gradient of the population over a window of points.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SliceCertificate {
    /// At most so much.
    pub value: f64,
    /// Length of the released mean.
    pub released: f64,
    /// What is added to it.
    #[serde(flatten)]
    pub slack: WindowSlack,
    /// No point of the window is farther from their mean.
    pub radius: f64,
    /// Points in the window.
    pub points: usize,
    /// With at least this probability over the records and the noise.
    pub probability: f64,
    /// What the value is of.
    pub of: WindowSubject,
    /// The mean of the window's points.
    #[serde(skip)]
    pub point: Vec<f64>,
}

impl GoldsteinSlicePlan {
    /// A plan for n' = `facts.records` unread records that spends `mu` on them, and fails with probability `failure`.
    ///
    /// # Errors
    /// [`PrivateCertificateError::Hopeless`] unless less than `resolution` and than L is added to the length of what is released;
    /// [`NoSample::Adjacency`] but under replace-one; facts out of range.
    pub fn new(
        facts: &PublicFacts,
        mu: Mu,
        failure: f64,
        resolution: f64,
    ) -> Result<Self, PrivateCertificateError> {
        facts.check_lipschitz()?;
        NoSample::refuse(facts.adjacency)?;
        let clip = ClipNorm::new(facts.lipschitz).map_err(PlanError::from)?;
        let terms = Terms::of(facts, mu, clip, failure, resolution)?;
        let noise_multiplier = terms.noise_multiplier()?;
        // Steps of the lattice are at most 2^-29 of the radius.
        let noise_std = terms.noise_std(noise_multiplier) * (1.0 + (-29f64).exp2());
        let (root_dim, root) = (
            (facts.dim as f64).sqrt(),
            (2.0 * (2.0 / failure).ln()).sqrt(),
        );
        let slack = WindowSlack {
            noise: noise_slack(noise_std, root_dim, 1.0, 1.0, failure / 2.0),
            sampling: facts.lipschitz * (1.0 + root) / (facts.records as f64).sqrt(),
            rounding: terms.rounding(facts.dim),
        };
        let (added, limit) = (slack.total(), resolution.min(facts.lipschitz));
        let end = ("the Goldstein distance", added, limit);
        PrivateCertificateError::hopeful(facts, mu, end)?;
        Ok(Self {
            noise_multiplier,
            noise_std,
            slack,
            moved: false,
            terms,
        })
    }

    /// For points that were moved at random by a law with a density, as those of the Goldstein walks are: then no point is on a
    /// kink, and the value is of the Goldstein distance for a loss with kinks too. The caller's claim.
    #[must_use]
    pub fn with_points_moved(self) -> Self {
        Self {
            moved: true,
            ..self
        }
    }

    /// z.
    #[must_use]
    pub fn noise_multiplier(&self) -> NoiseMultiplier {
        self.noise_multiplier
    }

    /// What is added to the length of what is released.
    #[must_use]
    pub fn slack(&self) -> WindowSlack {
        self.slack
    }

    /// Its cost, on the records of the slice.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::ParallelComposed {
            events: vec![Event::gaussian(self.noise_multiplier)],
        })
    }

    /// Reads the next n' records of the pool of `mean`, and releases the mean of their gradients over `points`, from what is
    /// reserved.
    ///
    /// # Shapes
    /// `points`: W x d, one after another.
    ///
    /// # Errors
    /// [`PrivateCertificateError::NoSample`] where the curator released something of all records or of a sample of them, or can't tell
    /// ([`dpopt_oracle::Books::check_sample`]); [`PrivateCertificateError`] otherwise. Nothing was released then.
    pub fn release<L: Differentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        points: &[f64],
    ) -> Result<SliceCertificate, PrivateCertificateError> {
        let Terms { facts, radius, .. } = &self.terms;
        self.terms.check_shape(mean)?;
        near(points)?;
        check_unread(mean, facts.records)?;
        let dim = facts.dim;
        let query = MeanOfGradients::new(points, dim, *radius);
        let query = query.ok_or(PrivateCertificateError::NoPoints {
            numbers: points.len(),
            dim,
        })?;
        let over = Which::Next(facts.records);
        // A query with a radius has a bound, so something was released.
        let found = mean.release(&query, over, self.noise_multiplier)?;
        let released = found.map_or(0.0, |found| dpopt_linalg::norm(&found.mean));
        let known = mean.facts();
        let premises = Premises {
            // Those of the slice, which was checked to be unread and as long as planned for.
            records: known.records,
            adjacency: facts.adjacency,
            counted: true,
            unread: true,
            unregularized: true,
            asked: Offers::MEANS,
            lipschitz: radius.get(),
            smoothness: f64::INFINITY,
            frobenius: f64::INFINITY,
            saddle: None,
        };
        let covered = premises.hold(&Known::of(&known));
        let (count, ulps) = (query.count(), f64::EPSILON * (dim + query.count()) as f64);
        let mut slack = self.slack;
        slack.rounding += (ulps + 8.0 * f64::EPSILON) * (released + facts.lipschitz);
        let mut point = vec![0.0; dim];
        for at in points.chunks_exact(dim) {
            dpopt_linalg::add_scaled(&mut point, 1.0 / count as f64, at);
        }
        let at = points.chunks_exact(dim).map(|at| distance(at, &point));
        Ok(SliceCertificate {
            value: released + slack.total(),
            released,
            slack,
            radius: at.fold(0.0, f64::max) * (1.0 + ulps + 8.0 * f64::EPSILON),
            points: count,
            probability: 1.0 - self.terms.failure,
            of: WindowSubject::of(&covered, self.moved || known.smoothness.is_finite()),
            point,
        })
    }
}

/// Refuses a slice of `records` that may have been read, or that there are not.
fn check_unread<L: Differentiable>(
    mean: &mut PrivateMean<'_, L>,
    records: u64,
) -> Result<(), PrivateCertificateError> {
    mean.books().check_sample()?;
    // A slice is cut at the end of the records, and noise alone would look like a stationary point.
    let end = mean.curator().records_taken().saturating_add(records);
    let found = mean.data().public_records();
    if end > found {
        return Err(PrivateCertificateError::OtherData {
            what: "records up to the end of the slice",
            planned: end,
            found,
        });
    }
    Ok(())
}

/// How far the mean gradient of the **smoothed** losses of n records can be from the population's, at all points within `reach` of
/// a public one at once. It may be added to a bound on gradients of the smoothed loss and to no other: not to a
/// [`crate::WindowCertificate`].
///
/// # Formula
/// L (3 + sqrt(2 (d ln(1 + 2 R c_d sqrt(n)/a) + ln(1/p))))/sqrt n, with a = `smoothing`, R = `reach`, p = `failure` and
/// c_d <= sqrt((2 d + 4/pi)/pi): for gradients of losses that are smoothed over balls of radius a. **Without smoothing no such bound
/// holds** (`docs/theory/goldstein.md`, "From records to the population"). It grows with sqrt d; [`GoldsteinSlicePlan`] has no such
/// term.
///
/// # Errors
/// [`NoSample::Adjacency`] but under replace-one; a number out of range.
pub fn uniform_gradient_gap(
    facts: &PublicFacts,
    smoothing: f64,
    reach: f64,
    failure: f64,
) -> Result<f64, PrivateCertificateError> {
    facts.check_lipschitz()?;
    NoSample::refuse(facts.adjacency)?;
    for (name, value) in [("smoothing", smoothing), ("reach", reach)] {
        PlanError::positive(name, value)?;
    }
    PrivateCertificateError::fraction("failure", failure)?;
    let (n, d) = (facts.records as f64, facts.dim as f64);
    let pi = std::f64::consts::PI;
    let slope = ((2.0 * d + 4.0 / pi) / pi).sqrt();
    let net = d * (2.0 * reach * slope * n.sqrt() / smoothing).ln_1p();
    let root = (2.0 * (net - failure.ln())).sqrt();
    Ok(facts.lipschitz * (3.0 + root) / n.sqrt())
}
