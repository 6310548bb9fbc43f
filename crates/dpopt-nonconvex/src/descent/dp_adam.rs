//! DP-Adam: Adam on the releases of DP-SGD.

use dpopt_oracle::{Access, Estimate, Estimator};
use dpopt_privacy::{NoiseMultiplier, Refused, Spend};
use serde::Serialize;

use crate::dp_sgd::DpSgdPlan;
use crate::facts::{Budget, PlanError, PublicFacts};
use crate::horizon::LOGIT_NOISE;
use crate::plan::Plan;
use crate::run::{Observer, Outcome, ReleaseKind, RunError, Walk};

/// beta1, beta2 and the stabiliser (for gradients of unit length) of the default plan: those of Adam's authors.
const FIRST: f64 = 0.9;
const SECOND: f64 = 0.999;
const STABILISER: f64 = 1e-8;

/// A plan for Adam on noisy clipped mean gradients. It states no bound on the gradient.
///
/// # Formula
/// m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - eta m^/(sqrt(max(v^ - s^2, u^2)) + e), coordinate by coordinate,
/// with m^ = m/(1 - b1^t), v^ = v/(1 - b2^t); s^2 is the noise variance per coordinate of the releases, averaged as v^ is (it
/// changes where the clip radius does), where `subtract_noise` is set and 0 otherwise, u the floor `stabiliser`, e the same.
/// Without the subtraction noise makes up nearly all of v, and Adam is momentum with a smaller step.
///
/// # Privacy
/// The releases are those of a [`DpSgdPlan`]; all else is post-processing of them and of public numbers.
///
/// # References
/// Kingma and Ba 2015 (Adam); Tang, Shpilevskiy and Lecuyer 2024 (the subtraction, there with a floor as well).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DpAdamPlan {
    /// What is released; its momentum is b1, its step size eta.
    #[serde(flatten)]
    pub releases: DpSgdPlan,
    /// b2.
    pub second_moment: f64,
    /// u and e, in units of a gradient.
    pub stabiliser: f64,
    /// Whether the variance of the noise is taken off the second moment.
    pub subtract_noise: bool,
}

impl DpAdamPlan {
    /// The default plan for generalised linear losses.
    ///
    /// # Formula
    /// Steps, sampling rate, clip radius and noise of [`DpSgdPlan::new`]; b1 = 0.9, b2 = 0.999, e = 1e-8 C, no subtraction. Of pure noise Adam makes
    /// steps of about eta in each coordinate, so that after T steps a row of norm X sees logit noise of about eta sqrt(T) X:
    /// eta = 1.5/(X sqrt T), the noise at which the other plans end (`docs/auto.md`). A rule of ours, not measured on real data.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        let sgd = DpSgdPlan::new(facts, budget, max_steps)?;
        let step_size = LOGIT_NOISE / (facts.row_norm * (sgd.steps as f64).sqrt());
        let stabiliser = STABILISER * sgd.clip;
        Self::on(
            DpSgdPlan {
                step_size,
                momentum: FIRST,
                ..sgd
            },
            SECOND,
            stabiliser,
            false,
        )
    }

    /// Adam on the releases of `releases`, whose momentum is taken for b1 and whose step size for eta.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for b2 outside [0, 1) or a stabiliser that is not positive and finite.
    pub fn on(
        releases: DpSgdPlan,
        second_moment: f64,
        stabiliser: f64,
        subtract_noise: bool,
    ) -> Result<Self, PlanError> {
        if !(0.0..1.0).contains(&second_moment) {
            return Err(PlanError::BadFact {
                name: "second_moment",
                value: second_moment,
            });
        }
        if !(stabiliser.is_finite() && stabiliser > 0.0) {
            return Err(PlanError::BadFact {
                name: "stabiliser",
                value: stabiliser,
            });
        }
        Ok(Self {
            releases,
            second_moment,
            stabiliser,
            subtract_noise,
        })
    }

    /// The releases of the plan.
    #[must_use]
    pub fn spend(&self) -> Spend {
        self.releases.spend()
    }

    /// Nominal number of per-record gradients that the plan costs.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        self.releases.gradients()
    }

    /// Runs the plan, from the origin. The estimator must be set as for [`DpSgdPlan::run`].
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    pub fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        let start = vec![0.0; self.releases.facts.dim];
        self.run_from(&start, estimator, observer)
    }

    /// As [`Self::run`], from `start`: a public point.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    pub fn run_from(
        &self,
        start: &[f64],
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        let sgd = &self.releases;
        let mut walk = Adam {
            plan: self,
            noise_multiplier: sgd.noise_multiplier,
            first: vec![0.0; sgd.facts.dim],
            second: vec![0.0; sgd.facts.dim],
            left: [1.0, 1.0],
            done: 0,
            noise: 0.0,
        };
        sgd.drive(&mut walk, start, estimator, observer)
    }
}

impl Plan for DpAdamPlan {
    fn facts(&self) -> &PublicFacts {
        &self.releases.facts
    }

    fn steps(&self) -> u64 {
        self.releases.steps
    }

    fn spend(&self) -> Spend {
        self.spend()
    }

    fn gradients(&self) -> f64 {
        self.gradients()
    }

    fn clip(&self) -> f64 {
        self.releases.clip
    }

    fn access(&self) -> Access {
        self.releases.access()
    }
}

struct Adam<'a> {
    plan: &'a DpAdamPlan,
    noise_multiplier: NoiseMultiplier,
    first: Vec<f64>,
    second: Vec<f64>,
    /// b1^t and b2^t.
    left: [f64; 2],
    /// t.
    done: u64,
    /// The variance of noise that is in `second`.
    noise: f64,
}

impl Walk for Adam<'_> {
    fn ask<'e>(
        &self,
        _step: u64,
        point: &[f64],
        estimator: &'e mut dyn Estimator,
    ) -> Result<(ReleaseKind, Estimate<'e>), Refused> {
        let estimate = estimator.refresh(point, self.noise_multiplier)?;
        Ok((ReleaseKind::Anchor, estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let sgd = &self.plan.releases;
        let (b1, b2, floor) = (sgd.momentum, self.plan.second_moment, self.plan.stabiliser);
        let std = if self.plan.subtract_noise {
            sgd.noise_std * (sgd.clip_at(self.done) / sgd.clip)
        } else {
            0.0
        };
        self.done += 1;
        self.noise = b2 * self.noise + (1.0 - b2) * std * std;
        self.left = [self.left[0] * b1, self.left[1] * b2];
        let [whole1, whole2] = self.left.map(|left| 1.0 - left);
        let noise = self.noise / whole2;
        let moments = self.first.iter_mut().zip(&mut self.second);
        for (((next, w), g), (m, v)) in next.iter_mut().zip(point).zip(gradient).zip(moments) {
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            let size = (*v / whole2 - noise).max(floor * floor).sqrt();
            *next = w - sgd.step_size * (*m / whole1) / (size + floor);
        }
    }
}
