//! What several experiments have in common: sizes, budgets, and the errors at the points of a run.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use dpopt_linalg::norm;
use dpopt_nonconvex::{Budget, Outcome, Plan, PublicFacts, Release, Stop};
use dpopt_oracle::{Convexity, Oracle};
use dpopt_privacy::{Adjacency, Delta, Epsilon};

use super::claim::{Axis, Measured, Trial};
use crate::checks::CheckError;
use crate::problem::Problem;

/// delta of most budgets.
pub(super) const DELTA: f64 = 1e-5;

/// How private a run is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Privacy {
    Epsilon(f64),
    Mu(f64),
}

/// One size of a problem.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) records: u64,
    pub(super) dim: usize,
    pub(super) privacy: Privacy,
}

impl Size {
    /// This size but for `x` along `axis`.
    pub(super) fn along(mut self, axis: Axis, x: f64) -> Self {
        match axis {
            Axis::Records => self.records = x as u64,
            Axis::Dimension => self.dim = x as usize,
            Axis::Mu => {
                self.privacy = match self.privacy {
                    Privacy::Epsilon(_) => Privacy::Epsilon(epsilon_at(x)),
                    Privacy::Mu(_) => Privacy::Mu(x),
                }
            }
            _ => {}
        }
        self
    }

    pub(super) fn budget(&self, delta: f64) -> Result<Budget, CheckError> {
        match self.privacy {
            Privacy::Epsilon(epsilon) => budget(epsilon, delta),
            Privacy::Mu(mu) => budget_at(mu, delta),
        }
    }

    pub(super) fn mu(&self) -> f64 {
        match self.privacy {
            Privacy::Epsilon(epsilon) => mu_at(epsilon),
            Privacy::Mu(mu) => mu,
        }
    }

    /// sqrt(d)/(n mu).
    pub(super) fn relative_noise(&self) -> f64 {
        (self.dim as f64).sqrt() / (self.records as f64 * self.mu())
    }

    /// What a planner is told of a problem of this size.
    pub(super) fn facts(&self, problem: &dyn Problem) -> PublicFacts {
        let known = problem.constants();
        PublicFacts {
            records: self.records,
            dim: self.dim,
            adjacency: Adjacency::ReplaceOne,
            lipschitz: known.lipschitz,
            smoothness: known.smoothness,
            initial_gap: known.initial_gap,
            row_norm: 1.0,
            score: Default::default(),
            convexity: Convexity::Nonconvex,
        }
    }
}

/// The norm of the gradient.
pub(super) fn gradient_norm(problem: &dyn Problem, point: &[f64]) -> f64 {
    let mut gradient = vec![0.0; point.len()];
    problem.gradient(point, &mut gradient);
    norm(&gradient)
}

/// Plans by the bits of the argument: they are the same for all trials there, and making one may take longer than a run.
pub(super) struct Plans<P>(Mutex<BTreeMap<u64, P>>);

impl<P: Clone> Plans<P> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// What is known at `x`, or what `make` makes.
    pub(super) fn at(
        &self,
        x: f64,
        make: impl FnOnce() -> Result<P, CheckError>,
    ) -> Result<P, CheckError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = known.get(&x.to_bits()) {
            return Ok(plan.clone());
        }
        let plan = make()?;
        known.insert(x.to_bits(), plan.clone());
        Ok(plan)
    }
}

/// The errors at the points of one run.
pub(super) struct Points {
    /// Their mean: where the output is drawn uniformly from the points, the expectation of its error given the run.
    pub(super) mean: f64,
    /// The mean of their squares.
    pub(super) square: f64,
    pub(super) outcome: Outcome,
}

impl Points {
    /// Runs `plan` to its end, with the exact error of each point at which something was released.
    pub(super) fn of(
        plan: &dyn Plan,
        oracle: &mut dyn Oracle,
        mut error: impl FnMut(&[f64]) -> f64,
    ) -> Result<Self, CheckError> {
        let (mut sum, mut squares, mut points) = (0.0, 0.0, 0u64);
        let outcome = plan.run(oracle, &mut |release: &Release<'_>| {
            let exact = error(release.point);
            sum += exact;
            squares += exact * exact;
            points += 1;
            ControlFlow::Continue(())
        })?;
        if !matches!(outcome.stop, Stop::Completed | Stop::SmallEstimate) {
            return Err(format!("the run ended with {:?}", outcome.stop).into());
        }
        Ok(Self {
            mean: sum / points as f64,
            square: squares / points as f64,
            outcome,
        })
    }

    /// Their mean and mean square, with the bound of the plan.
    pub(super) fn under(&self, bound: Option<f64>) -> Result<Measured, CheckError> {
        let bound = bound.ok_or("the plan states no bound")?;
        Ok(Measured::new(self.mean)
            .with_square(self.square)
            .with_bound(bound))
    }
}

pub(super) fn completed(stop: Stop) -> Result<(), CheckError> {
    match stop {
        Stop::Completed => Ok(()),
        other => Err(format!("the run ended with {other:?}").into()),
    }
}

/// Where a trial's problem stands in its family, from 0 to 1.
pub(super) fn share(trial: &Trial) -> f64 {
    trial.member as f64 / (trial.members.max(2) - 1) as f64
}

/// `count` numbers from `from` on, each sqrt(10) times the one before, rounded to whole ones.
pub(super) fn half_decades(from: f64, count: i32) -> Vec<f64> {
    (0..count)
        .map(|k| (from * 10f64.powf(0.5 * f64::from(k))).round())
        .collect()
}

/// The mu of five epsilons.
pub(super) fn five_mus() -> Vec<f64> {
    [0.25, 0.5, 1.0, 2.0, 4.0].map(mu_at).to_vec()
}

pub(super) fn budget(epsilon: f64, delta: f64) -> Result<Budget, CheckError> {
    Ok(Budget {
        epsilon: Epsilon::new(epsilon)?,
        delta: Delta::new(delta)?,
    })
}

/// mu of (epsilon, [`DELTA`]); NaN, which is reported as a bad argument, where there is none.
pub(super) fn mu_at(epsilon: f64) -> f64 {
    let mu = || Some(budget(epsilon, DELTA).ok()?.mu().ok()?.get());
    mu().unwrap_or(f64::NAN)
}

/// The epsilon of [`mu_at`], by bisection.
fn epsilon_at(mu: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 64.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if mu_at(middle) < mu {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Epsilons by the bits of mu and delta: every trial of a row asks for the same few.
static EPSILONS: Mutex<BTreeMap<(u64, u64), f64>> = Mutex::new(BTreeMap::new());

/// A budget of this mu, by bisection in epsilon.
///
/// # Errors
/// For a delta out of range.
pub fn budget_at(mu: f64, delta: f64) -> Result<Budget, CheckError> {
    let mut known = EPSILONS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (mu.to_bits(), delta.to_bits());
    if let Some(&epsilon) = known.get(&key) {
        return budget(epsilon, delta);
    }
    let (mut low, mut high) = (1e-6f64, 100.0f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if budget(middle, delta)?.mu()?.get() < mu {
            low = middle;
        } else {
            high = middle;
        }
    }
    known.insert(key, high);
    budget(high, delta)
}
