//! DP-Adam: Adam on the releases of DP-SGD.

use dpopt_oracle::{AskError, Oracle};
use dpopt_solver::{
    Asked, Batches, Budget, Item, Plan, PlanError, PublicFacts, RunError, Solver, Terms, Unit,
    Value, Walk,
};

use super::Fresh;
use super::dp_sgd::{DP_SGD, DpSgdPlan, DpSgdSchedule};
use super::horizon::{Horizon, NO_RULE};

const SOLVER: &str = "dp-adam";
/// DP-Adam.
pub static DP_ADAM: Solver = Solver {
    name: SOLVER,
    paper: "Kingma and Ba 2015; Tang, Shpilevskiy and Lecuyer 2024",
    planner: |facts, extra, budget, limits| {
        let units = extra.units(facts);
        let plan = DpAdamPlan::in_units(facts, &units, budget, limits.max_steps)?;
        Ok(Box::new(plan.with_batches(extra.batches)?))
    },
    auto: NO_RULE,
    ..DP_SGD
};

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
#[derive(Debug, Clone, PartialEq)]
pub struct DpAdamPlan {
    releases: DpSgdPlan,
    second_moment: f64,
    stabiliser: f64,
    subtract_noise: bool,
}

impl DpAdamPlan {
    /// The default plan for generalised linear losses and networks.
    ///
    /// # Formula
    /// Steps, sampling rate, clip radius and noise of [`DpSgdPlan::new`]; b1 = 0.9, b2 = 0.999, e = 1e-8 C, no subtraction. Of pure noise Adam makes
    /// steps of about eta in each coordinate, so that after T steps a row of norm X sees logit noise of about eta sqrt(T) X:
    /// eta = 1.5/(X sqrt T), the noise at which the other plans end (`docs/solvers.md`); of a loss with kinks 0.025 F0/(L0 sqrt T). A rule of ours, not measured on real data.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(facts: &PublicFacts, budget: &Budget, max_steps: u64) -> Result<Self, PlanError> {
        Self::in_units(facts, facts, budget, max_steps)
    }

    /// As [`DpAdamPlan::new`], with the constants of `units` in the rule, as [`DpSgdPlan::in_units`].
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn in_units(
        facts: &PublicFacts,
        units: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
    ) -> Result<Self, PlanError> {
        let sgd = DpSgdPlan::in_units(facts, units, budget, max_steps)?;
        let DpSgdSchedule { steps, clip, .. } = *sgd.schedule();
        let horizon = Horizon::new(units, budget.mu()?.get())?;
        let step_size = horizon.reach / (steps as f64).sqrt();
        let releases = sgd.scheduled(|schedule| DpSgdSchedule {
            step_size,
            momentum: FIRST,
            ..schedule
        });
        Self::on(releases, SECOND, STABILISER * clip, false)
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
        PlanError::positive("stabiliser", stabiliser)?;
        Ok(Self {
            releases,
            second_moment,
            stabiliser,
            subtract_noise,
        })
    }

    /// The same on batches that are drawn so: see [`DpSgdPlan::with_batches`].
    ///
    /// # Errors
    /// As there.
    pub fn with_batches(self, batches: Batches) -> Result<Self, PlanError> {
        Ok(Self {
            releases: self.releases.with_batches(batches)?,
            ..self
        })
    }

    /// What is released; its momentum is b1, its step size eta.
    #[must_use]
    pub fn releases(&self) -> &DpSgdPlan {
        &self.releases
    }

    /// b2.
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        self.second_moment
    }

    /// u and e, in units of a gradient.
    #[must_use]
    pub fn stabiliser(&self) -> f64 {
        self.stabiliser
    }
}

impl Plan for DpAdamPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        self.releases.terms()
    }

    fn items(&self) -> Vec<Item<'_>> {
        let mut items = self.releases.items();
        for item in &mut items {
            // Adam's steps have a length of about eta, whatever that of the gradient is.
            if item.name == "step_size" {
                item.unit = Unit::LENGTH;
            }
        }
        items.extend([
            Item::ratio("second_moment", self.second_moment),
            Item::number("stabiliser", self.stabiliser, Unit::GRADIENT),
            Item::plain("subtract_noise", Value::Flag(self.subtract_noise)),
        ]);
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(Adam {
            plan: self,
            estimate: self.releases.estimate()?,
            first: vec![0.0; start.len()],
            second: vec![0.0; start.len()],
            left: [1.0, 1.0],
            done: 0,
            noise: 0.0,
        }))
    }
}

struct Adam<'a> {
    plan: &'a DpAdamPlan,
    estimate: Fresh,
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
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.estimate.ask(step, point, oracle)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        let sgd = self.plan.releases.schedule();
        let (b1, b2, floor) = (sgd.momentum, self.plan.second_moment, self.plan.stabiliser);
        let std = if self.plan.subtract_noise {
            self.plan.releases.noise_std() * (sgd.clip_at(self.done) / sgd.clip)
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
