//! A second-order certificate: a gradient norm and a least eigenvalue under one budget.

use dpopt_oracle::{Convexity, Offers, Oracle as _, PrivateMean, TwiceDifferentiable};
use dpopt_privacy::{ClipNorm, Event, Mu, Spend, Which};
use dpopt_solver::{
    Covered, Episode, EpisodeEnd, Known, PlanError, Premises, PublicFacts, Radii,
    SecondOrderTargets, Withheld,
};
use serde::Serialize;

use super::products::{self, WithProducts};
use super::{
    GradientNormPlan, Interval, LeastEigenvaluePlan, MAX_PRIVATE_HESSIAN_DIM,
    PrivateCertificateError, two_sided,
};

/// A plan to certify that a public point is second-order stationary: ||grad F(w)|| <= alpha and lambda_min(hess F(w)) >= -lambda.
///
/// # Formula
/// One [`GradientNormPlan`] with mu_1 and one [`LeastEigenvaluePlan`] with mu_2, mu_1^2 + mu_2^2 = mu^2. Certified iff
///
/// released norm + q s_1 <= alpha  and  lambda' - q s_2 >= -lambda,
///
/// with s_1 = s L0/(n mu_1), s_2 = s C_F/(n mu_2), s = 2 under replace-one and else 1, q the two-sided normal quantile at p. Each line is
/// false with probability at most p/2, so a certificate is false with probability at most p, **at any point and after any walk**:
/// nothing is asked of how the point was found, of L1 (but by episodes) or of rho. Neither margin has a power of d; but of a spectrum that is flat near
/// its least eigenvalue the released one is low by up to s_2 sqrt(2 d), which costs certificates. mu is split by
/// mu_1^2 : mu_2^2 = x^(2/3) : y^(2/3), x = q L0/alpha and y = (q + sqrt(2 d)) C_F/lambda, which makes the sum of what is
/// lost relative to the two targets least (a choice of ours; any split is valid).
///
/// **Without a Hessian**: above 1,024 dimensions, and where C_F is so much above L1 that it is cheaper, curvature is told by an [`Episode`] of
/// products with the Hessian, which takes what it needs of mu: certified iff it stays, and an exit is a direction u with <u, hess F u> <= -h
/// (where the number of records is public). Then C_F is not used, and L1 has to bound each record's Hessian in operator norm. `docs/theory/second-order.md`.
///
/// # Privacy
/// Under add-remove F is the sum of losses over the declared number of records. Two `Gaussian` events on all records: mu-GDP together. The second
/// is not released where the first fails. An episode is so many Gaussian events, whose multipliers follow the lengths that it had, under a
/// filter: what it did not need is given back.
///
/// ```
/// use dpopt_certify::{SecondOrderPlan, SecondOrderTargets};
/// use dpopt_linalg::Design;
/// use dpopt_oracle::{Glm, PrivateData, PrivateMean};
/// use dpopt_privacy::{Adjacency, ClipNorm, Curator, Mu};
/// use dpopt_solver::PublicFacts;
///
/// // Welsch losses that are all least at w = 0.
/// let rows = Design::dense(2, [0.6, 0.8, 0.8, -0.6].repeat(5_000))?;
/// let data = PrivateData::new(rows, vec![0.0; 10_000], ClipNorm::new(1.0)?, Adjacency::ReplaceOne, None)?;
/// let facts = PublicFacts::glm(10_000, 2, data.adjacency(), 1.0, Glm::Welsch.constants(1.0))?;
/// // Hessians of generalised linear losses have rank one: C_F = L1.
/// let frobenius = ClipNorm::new(facts.smoothness)?;
/// let targets = SecondOrderTargets { gradient: 0.02, curvature: 0.02 };
/// let plan = SecondOrderPlan::new(&facts, frobenius, Mu::new(0.5)?, 0.05, targets)?;
/// let mut curator = Curator::protected(data.adjacency())?;
/// curator.reserve(&plan.spend())?;
/// let mut mean = PrivateMean::new(&data, Glm::Welsch, curator)?;
/// let found = plan.release(&mut mean, &[0.0, 0.0])?;
/// assert!(found.certified && found.gradient.high <= 0.02);
/// mean.curator_mut().settle()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SecondOrderPlan {
    targets: SecondOrderTargets,
    gradient: GradientNormPlan,
    curvature: Curvature,
    failure: f64,
}

/// How curvature is told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
enum Curvature {
    Whole(LeastEigenvaluePlan),
    Episode {
        episode: Episode,
        adjacency: dpopt_privacy::Adjacency,
        records: u64,
    },
}

/// The outcome of a [`SecondOrderPlan`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SecondOrderCertificate {
    /// Whether ||grad F(w)|| <= alpha and lambda_min(hess F(w)) >= -lambda are certified.
    pub certified: bool,
    /// Why nothing is certified whatever was released: the loss shortens its own field, or has larger constants than were planned with.
    /// Then the intervals are about clipped gradients and Hessians, and F is not the loss. An episode is not run, since products that are
    /// clipped are those of no matrix.
    #[serde(skip)]
    pub covered: Result<Covered, Withheld>,
    /// alpha and lambda.
    pub targets: SecondOrderTargets,
    /// A certificate is false with at most this probability: that of the upper end of `gradient` and of the lower end of
    /// `curvature` together.
    pub failure: f64,
    /// Where the gradient norm lies.
    pub gradient: Interval,
    /// Where the least eigenvalue lies; none where nothing was spent on it: the gradient norm was not certified, or products would be
    /// clipped. An upper end below zero proves that the point is no local minimum. Of an episode under add-remove an end is infinite where it
    /// is not lambda: more records than were declared may be there, and then an exit proves nothing. Of a convex loss it is not below 0.
    pub curvature: Option<Interval>,
    /// The least eigenvalue's direction in the released matrix, or that of an episode's exit: where to go from a saddle.
    #[serde(skip)]
    pub direction: Option<Vec<f64>>,
}

/// Refuses targets that are no positive numbers, and those that any point meets: the ends of an interval are cut to the range.
pub(super) fn check_targets(
    facts: &PublicFacts,
    targets: SecondOrderTargets,
) -> Result<(), PrivateCertificateError> {
    for (name, value) in [("alpha", targets.gradient), ("lambda", targets.curvature)] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(PrivateCertificateError::OutOfRange { name, value });
        }
    }
    let trivial = [
        ("the gradient norm", targets.gradient, facts.lipschitz),
        ("the least eigenvalue", targets.curvature, facts.smoothness),
    ];
    for (what, target, limit) in trivial {
        if target >= limit {
            return Err(PrivateCertificateError::Trivial {
                what,
                target,
                limit,
            });
        }
    }
    Ok(())
}

/// [`check_targets`], and a C_F below L1.
fn check(
    facts: &PublicFacts,
    frobenius: ClipNorm,
    targets: SecondOrderTargets,
) -> Result<(), PrivateCertificateError> {
    check_targets(facts, targets)?;
    if frobenius.get() < facts.smoothness {
        return Err(PrivateCertificateError::OutOfRange {
            name: "C_F, which is below L1,",
            value: frobenius.get(),
        });
    }
    Ok(())
}

impl SecondOrderPlan {
    /// A plan that spends `mu` in all, for Hessians of records of Frobenius norm at most `frobenius` (C_F).
    ///
    /// # Errors
    /// [`PrivateCertificateError::Hopeless`] where the noise alone exceeds a target, [`PrivateCertificateError::DearEpisode`] where there is only an
    /// episode and it needs more than `mu`, [`PrivateCertificateError::NoEpisode`] where there is none at any budget; [`PrivateCertificateError::Trivial`] for a target that
    /// every point meets (L0, L1); [`PrivateCertificateError::OutOfRange`] for targets that are not positive and for C_F < L1; as [`LeastEigenvaluePlan::new`].
    pub fn new(
        facts: &PublicFacts,
        frobenius: ClipNorm,
        mu: Mu,
        failure: f64,
        targets: SecondOrderTargets,
    ) -> Result<Self, PrivateCertificateError> {
        if facts.dim > MAX_PRIVATE_HESSIAN_DIM {
            check(facts, frobenius, targets)?;
            return Self::with_episode(facts, mu, failure, targets);
        }
        Self::of(facts, frobenius, mu, (failure, true), targets)
    }

    /// As [`SecondOrderPlan::new`], with a whole Hessian whatever an episode costs: for what the least eigenvalue *is*, and not for a target. An
    /// episode tells one number, and for a wide target hardly anything.
    ///
    /// # Errors
    /// As [`SecondOrderPlan::new`]; [`PrivateCertificateError::TooManyDimensions`] above 1,024.
    pub fn with_hessian(
        facts: &PublicFacts,
        frobenius: ClipNorm,
        mu: Mu,
        failure: f64,
        targets: SecondOrderTargets,
    ) -> Result<Self, PrivateCertificateError> {
        Self::of(facts, frobenius, mu, (failure, false), targets)
    }

    fn of(
        facts: &PublicFacts,
        frobenius: ClipNorm,
        mu: Mu,
        (failure, allow_episode): (f64, bool),
        targets: SecondOrderTargets,
    ) -> Result<Self, PrivateCertificateError> {
        check(facts, frobenius, targets)?;
        let clip = ClipNorm::new(facts.lipschitz).map_err(PlanError::from)?;
        let (first, second) = split(facts, frobenius, mu, failure, targets)?;
        // Up to there a whole Hessian is cheaper: sqrt 2 C_F/(L1 (1 - theta)) against 20 and more.
        if frobenius.get() > 4.0 * facts.smoothness
            && allow_episode
            && let Ok((_, cost)) = products::cheapest(facts, mu, failure, targets.curvature)
        {
            let operator = two_sided(failure) + (2.0 * facts.dim as f64).sqrt();
            let noise = (1.0 - products::LEAST_BEND) * targets.curvature / operator;
            // An episode that leaves too little for the norm is none.
            if (facts.noise_std(frobenius.get(), 1.0) / noise).powi(2) > cost
                && let Ok(plan) = Self::with_episode(facts, mu, failure, targets)
            {
                return Ok(plan);
            }
        }
        // An end that is not read may be far off: the widths are checked for the other ones.
        let gradient = GradientNormPlan::at_any_width(facts, first, clip, failure)?;
        let curvature = LeastEigenvaluePlan::at_any_width(facts, second, frobenius, failure)?;
        let ends = [
            ("the gradient norm", 0.5 * gradient.width, targets.gradient),
            ("the least eigenvalue", curvature.below, targets.curvature),
        ];
        for end in ends {
            PrivateCertificateError::hopeful(facts, mu, end)?;
        }
        Ok(Self {
            targets,
            gradient,
            curvature: Curvature::Whole(curvature),
            failure,
        })
    }

    /// As [`SecondOrderPlan::new`], with an episode whatever it costs beside a whole Hessian.
    ///
    /// # Errors
    /// As [`SecondOrderPlan::new`], but for what is said there of C_F.
    pub fn with_episode(
        facts: &PublicFacts,
        mu: Mu,
        failure: f64,
        targets: SecondOrderTargets,
    ) -> Result<Self, PrivateCertificateError> {
        check_targets(facts, targets)?;
        let clip = ClipNorm::new(facts.lipschitz).map_err(PlanError::from)?;
        let (episode, cost) = products::cheapest(facts, mu, failure, targets.curvature)?;
        let left = (mu.get() * mu.get() - cost).sqrt() * (1.0 - 1e-12);
        let first = Mu::new(left).map_err(PlanError::from)?;
        let gradient = GradientNormPlan::at_any_width(facts, first, clip, failure)?;
        let end = ("the gradient norm", 0.5 * gradient.width, targets.gradient);
        PrivateCertificateError::hopeful(facts, mu, end)?;
        episode
            .event(facts.adjacency, facts.records as f64)
            .map_err(PlanError::from)?;
        let curvature = Curvature::Episode {
            episode,
            adjacency: facts.adjacency,
            records: facts.records,
        };
        Ok(Self {
            targets,
            gradient,
            curvature,
            failure,
        })
    }

    /// The episode that tells curvature; none where a whole Hessian does.
    #[must_use]
    pub fn episode(&self) -> Option<&Episode> {
        match &self.curvature {
            Curvature::Whole(_) => None,
            Curvature::Episode { episode, .. } => Some(episode),
        }
    }

    /// alpha and lambda.
    #[must_use]
    pub fn targets(&self) -> SecondOrderTargets {
        self.targets
    }

    /// Margin added to the released gradient norm, and taken from the released eigenvalue (lambda for
    /// an episode that stays).
    #[must_use]
    pub fn margins(&self) -> SecondOrderTargets {
        SecondOrderTargets {
            gradient: 0.5 * self.gradient.width,
            curvature: match &self.curvature {
                Curvature::Whole(plan) => plan.below,
                Curvature::Episode { episode, .. } => episode.terms.curvature,
            },
        }
    }

    /// Its cost, at most.
    #[must_use]
    pub fn spend(&self) -> Spend {
        match &self.curvature {
            Curvature::Whole(_) => Spend::Fixed(self.event()),
            Curvature::Episode { .. } => Spend::AtMost(self.event()),
        }
    }

    /// All releases, at their dearest.
    fn event(&self) -> Event {
        let second = match &self.curvature {
            Curvature::Whole(plan) => Event::gaussian(plan.noise_multiplier),
            Curvature::Episode {
                episode,
                adjacency,
                records,
            } => episode
                .event(*adjacency, *records as f64)
                .unwrap_or(Event::NoOp),
        };
        Event::composed(vec![
            Event::gaussian(self.gradient.noise_multiplier),
            second,
        ])
    }

    /// Releases the gradient norm at `point`, and the Hessian too where that is short enough.
    ///
    /// # Errors
    /// [`PrivateCertificateError`], as of the two plans.
    pub fn release<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<SecondOrderCertificate, PrivateCertificateError> {
        let gradient = self.gradient.release(mean, point)?.interval;
        let covered = self.covered(mean, point);
        // Clipped products are those of no matrix: nothing is asked, and nothing is known.
        let of_no_hessian =
            matches!(&self.curvature, Curvature::Episode { .. }) && covered.is_err();
        let holds = covered.is_ok();
        let mut found = SecondOrderCertificate {
            certified: false,
            covered,
            targets: self.targets,
            failure: self.failure,
            gradient,
            curvature: None,
            direction: None,
        };
        if gradient.high <= self.targets.gradient && !of_no_hessian {
            let (mut interval, direction) = self.curvature_over(mean, point)?;
            // So is a mean of Hessians that were shortened, or a multiple of it.
            if mean.constants_at(point).convexity == Convexity::Convex {
                interval.low = interval.low.max(0.0);
                interval.high = interval.high.max(0.0);
            }
            found.certified = holds && interval.low >= -self.targets.curvature;
            found.curvature = Some(interval);
            found.direction = direction;
        }
        Ok(found)
    }

    /// Whether this loss, at this point alone, is what was planned for. Data of another size, adjacency or noise were refused.
    fn covered<L: TwiceDifferentiable>(
        &self,
        mean: &PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<Covered, Withheld> {
        let (facts, lipschitz) = self.gradient.planned();
        let mut known = mean.facts().with_all_constants(&mean.constants_at(point));
        let (smoothness, frobenius) = match &self.curvature {
            Curvature::Whole(plan) => {
                let most = (facts.dim as f64).sqrt() * known.smoothness;
                known.hessian_frobenius = known.hessian_frobenius.map(|told| told.min(most));
                (f64::INFINITY, plan.clip())
            }
            Curvature::Episode { episode, .. } => (episode.terms.smoothness, f64::INFINITY),
        };
        let premises = Premises {
            records: facts.records,
            adjacency: facts.adjacency,
            // The claim is about the sum over the declared number.
            counted: false,
            unread: false,
            unregularized: true,
            // The interval of the norm has room for sums in single precision.
            asked: Offers::NOTHING,
            lipschitz,
            smoothness,
            frobenius,
            saddle: None,
        };
        premises.hold(&Known::of(&known))
    }

    /// Where the least eigenvalue lies, and a direction of negative curvature.
    fn curvature_over<L: TwiceDifferentiable>(
        &self,
        mean: &mut PrivateMean<'_, L>,
        point: &[f64],
    ) -> Result<(Interval, Option<Vec<f64>>), PrivateCertificateError> {
        let (episode, adjacency, records) = match &self.curvature {
            Curvature::Whole(plan) => {
                let found = plan.release(mean, point)?;
                return Ok((found.interval, Some(found.direction)));
            }
            Curvature::Episode {
                episode,
                adjacency,
                records,
            } => (episode, *adjacency, *records as f64),
        };
        let terms = (records, Radii::Realised);
        let ran = episode.run(&mut WithProducts(mean), point, Which::All, terms)?;
        // Where more records may be there than were declared, no M bounds H, and an exit tells nothing: (b) needs that, (a) does not.
        let (widest, bend) = match adjacency.record_count_is_public() {
            true => (episode.terms.smoothness, -episode.bend),
            false => (f64::INFINITY, f64::INFINITY),
        };
        let (low, high, direction) = match ran.end {
            EpisodeEnd::Stayed => (-episode.terms.curvature, widest, None),
            EpisodeEnd::Left(direction) => (-widest, bend, Some(direction)),
            EpisodeEnd::Diverged => (-widest, widest, None),
        };
        let interval = Interval {
            low,
            high,
            failure: self.failure,
        };
        Ok((interval, direction))
    }
}

/// mu_1 and mu_2.
fn split(
    facts: &PublicFacts,
    frobenius: ClipNorm,
    mu: Mu,
    failure: f64,
    targets: SecondOrderTargets,
) -> Result<(Mu, Mu), PrivateCertificateError> {
    PrivateCertificateError::fraction("failure", failure)?;
    let quantile = two_sided(failure);
    let operator = quantile + (2.0 * facts.dim as f64).sqrt();
    let x = (quantile * facts.lipschitz / targets.gradient)
        .cbrt()
        .powi(2);
    let y = (operator * frobenius.get() / targets.curvature)
        .cbrt()
        .powi(2);
    // Kept off the ends; the squares add up to less than mu^2 after rounding.
    let share = (x / (x + y)).clamp(0.01, 0.99);
    let part = |share: f64| Mu::new(mu.get() * share.sqrt() * (1.0 - 1e-12));
    let first = part(share).map_err(PlanError::from)?;
    let second = part(1.0 - share).map_err(PlanError::from)?;
    Ok((first, second))
}
