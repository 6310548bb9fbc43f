//! What several experiments have in common: sizes, budgets, and the errors at the points of a run.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use dpopt_nonconvex::{Budget, Outcome, Plan, Release, Stop};
use dpopt_oracle::Oracle;
use dpopt_privacy::{Delta, Epsilon};

use super::claim::{Measured, Trial, TrialError};

/// delta of most budgets.
pub(super) const DELTA: f64 = 1e-5;

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
    ) -> Result<Self, TrialError> {
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
    pub(super) fn under(&self, bound: Option<f64>) -> Result<Measured, TrialError> {
        let bound = bound.ok_or("the plan states no bound")?;
        Ok(Measured::new(self.mean)
            .with_square(self.square)
            .with_bound(bound))
    }
}

pub(super) fn completed(stop: Stop) -> Result<(), TrialError> {
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

pub(super) fn budget(epsilon: f64, delta: f64) -> Result<Budget, TrialError> {
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
pub(super) fn epsilon_at(mu: f64) -> f64 {
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
pub(super) fn budget_at(mu: f64, delta: f64) -> Result<Budget, TrialError> {
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
