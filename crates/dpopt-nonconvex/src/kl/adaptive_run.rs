//! The walk of adaptive noisy gradient descent: ask, be refused or be answered, step.

use std::ops::ControlFlow;

use dpopt_linalg::norm;
use dpopt_oracle::{Estimator, Number, Shifted};
use dpopt_privacy::{NoiseMultiplier, Refused};
use serde::Serialize;

use super::adaptive::{ACCEPT, AdaptiveGdPlan, AdaptiveSelection, NormQueries, SOLVER};
use crate::plan::Plan as _;
use crate::run::{Ended, Observer, Outcome, Release, ReleaseKind, RunError, Stop, check_start};

/// A released norm with what it says of the true one. Public.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReleasedNorm {
    /// The step at whose point it was released, counted from 0.
    pub step: u64,
    /// The released number; noise may make it negative.
    pub norm: f64,
    /// Standard deviation of its noise.
    pub noise_std: f64,
    /// norm + z noise_std: the true norm is at most that, for all norms of a run together with probability 1 - beta/2.
    pub upper: f64,
}

/// The result of an adaptive run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AdaptiveOutcome {
    /// As of any run. Steps are the gradient steps that were made.
    pub outcome: Outcome,
    /// The released norm with the smallest upper limit; for [`AdaptiveSelection::Last`] the latest. None if no norm was released.
    pub smallest: Option<ReleasedNorm>,
    /// How many norms were released.
    pub norms: u64,
}

impl AdaptiveGdPlan {
    /// Runs the plan, from the origin. The estimator must clip at [`AdaptiveGdPlan::clip`], read all records, and release norms.
    ///
    /// # Errors
    /// [`RunError`]; a release that the budget does not pay for is none, but a [`Stop`].
    pub fn run(
        &self,
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<AdaptiveOutcome, RunError> {
        self.run_from(&vec![0.0; self.facts.dim], estimator, observer)
    }

    /// As [`Self::run`], from `start` and not from the origin: a public point, such as that of a checkpoint. Bounds
    /// then hold if the initial gap is one at `start`.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension, or if the estimator releases no
    /// norms.
    pub fn run_from(
        &self,
        start: &[f64],
        estimator: &mut dyn Estimator,
        observer: &mut dyn Observer,
    ) -> Result<AdaptiveOutcome, RunError> {
        check_start(start, self.facts.dim, estimator.dim())?;
        if !estimator.offers_norms() {
            return Err(RunError::NoNorms { solver: SOLVER });
        }
        estimator.reserve(&self.spend())?;
        let mut run = Run {
            plan: self,
            estimator,
            observer,
            start,
            point: start.to_vec(),
            steps: 0,
            norms: 0,
            spent: 0.0,
            scale: self.clip,
            smallest: None,
            best: start.to_vec(),
            seen: Vec::new(),
        };
        let stop = run.walk()?;
        let stop = run.close(stop)?;
        run.finish(stop)
    }
}

/// A run on its way. All of it is public.
struct Run<'a> {
    plan: &'a AdaptiveGdPlan,
    estimator: &'a mut dyn Estimator,
    observer: &'a mut dyn Observer,
    start: &'a [f64],
    point: Vec<f64>,
    steps: u64,
    norms: u64,
    /// Squared mu of all releases so far.
    spent: f64,
    /// S of relative norms.
    scale: f64,
    smallest: Option<ReleasedNorm>,
    best: Vec<f64>,
    /// Points with a released norm, where the exponential mechanism chooses among them.
    seen: Vec<Vec<f64>>,
}

/// What a release led to.
enum Answer {
    /// A norm to make a step by.
    Norm(f64),
    Stop(Stop),
}

impl Run<'_> {
    fn walk(&mut self) -> Result<Stop, RunError> {
        loop {
            if self.steps >= self.plan.max_steps {
                return Ok(Stop::StepCap);
            }
            let norm = match self.ask_norm()? {
                Answer::Norm(norm) => norm,
                Answer::Stop(stop) => return Ok(stop),
            };
            if let Some(stop) = self.step(norm)? {
                return Ok(stop);
            }
        }
    }

    /// Asks for the norm at the present point, until one is accepted.
    fn ask_norm(&mut self) -> Result<Answer, RunError> {
        loop {
            let number = self.norms;
            let multiplier = self.plan.norm_multiplier(number, self.scale);
            // Scales that have underflowed have no multiplier, and no price either.
            let Ok(multiplier) = NoiseMultiplier::new(multiplier) else {
                return Ok(Answer::Stop(Stop::NormUnpaid));
            };
            if !self.within(multiplier, self.plan.for_steps()) {
                return Ok(Answer::Stop(Stop::NormUnpaid));
            }
            let at = Shifted::from(&self.point[..]);
            let Some(released) = paid(self.estimator.norm(at, multiplier))? else {
                return Ok(Answer::Stop(Stop::NormUnpaid));
            };
            self.spent += multiplier.get().powi(-2);
            self.norms += 1;
            let flow = self.note_norm(released, number);
            if flow == ControlFlow::Break(()) {
                return Ok(Answer::Stop(Stop::ByObserver));
            }
            if !released.number.is_finite() {
                return Ok(Answer::Stop(Stop::Diverged));
            }
            match self.plan.norms {
                NormQueries::Fixed => {
                    let gradient = self.plan.gradient_multiplier(self.steps, released.number);
                    // Written so that what is no number ends the run.
                    if !(gradient > 2f64.sqrt() / self.plan.mu) {
                        return Ok(Answer::Stop(Stop::Converged));
                    }
                    return Ok(Answer::Norm(released.number));
                }
                NormQueries::Relative if released.number >= ACCEPT * self.scale => {
                    self.scale = released.number.min(self.plan.clip);
                    return Ok(Answer::Norm(released.number));
                }
                NormQueries::Relative => self.scale *= 0.5,
            }
        }
    }

    /// Keeps what the outcome needs of a released norm, and shows it.
    fn note_norm(&mut self, released: Number, number: u64) -> ControlFlow<()> {
        let found = ReleasedNorm {
            step: self.steps,
            norm: released.number,
            noise_std: released.noise_std,
            upper: released.number + self.plan.tail(number) * released.noise_std,
        };
        let keep = match self.plan.selection {
            AdaptiveSelection::Last => true,
            _ => self.smallest.is_none_or(|old| found.upper < old.upper),
        };
        if keep {
            self.smallest = Some(found);
            self.best.copy_from_slice(&self.point);
        }
        let exponential = matches!(self.plan.selection, AdaptiveSelection::Exponential { .. });
        if exponential && self.seen.last() != Some(&self.point) {
            self.seen.push(self.point.clone());
        }
        self.observer.on_release(&Release {
            step: self.steps,
            steps: self.plan.max_steps,
            kind: ReleaseKind::Norm,
            point: &self.point,
            norm: released.number,
            noise_norm: released.noise_std,
        })
    }

    /// Makes a step by a gradient as exact as `norm` asks for, if that is paid for.
    fn step(&mut self, released_norm: f64) -> Result<Option<Stop>, RunError> {
        let multiplier = self.plan.gradient_multiplier(self.steps, released_norm);
        let Ok(multiplier) = NoiseMultiplier::new(multiplier) else {
            return Ok(Some(Stop::GradientUnpaid));
        };
        if !self.within(multiplier, self.plan.for_steps()) {
            return Ok(Some(Stop::GradientUnpaid));
        }
        self.step_by(multiplier)
    }

    /// Where the budget ended the run, and a share of it was kept: a step by a gradient with all that is left.
    fn close(&mut self, stop: Stop) -> Result<Stop, RunError> {
        let unpaid = matches!(stop, Stop::NormUnpaid | Stop::GradientUnpaid);
        if !unpaid || self.plan.closing_share == 0.0 {
            return Ok(stop);
        }
        let left = self.plan.mu * self.plan.mu - self.spent;
        // A little more noise than that pays for, so that no rounding stands in the way.
        let Ok(multiplier) = NoiseMultiplier::new((1.0 + 1e-9) / left.sqrt()) else {
            return Ok(stop);
        };
        match self.step_by(multiplier)? {
            Some(Stop::Diverged) => Ok(Stop::Diverged),
            _ => Ok(stop),
        }
    }

    /// Whether a release keeps the costs so far within a part of the budget. (The filter has the last word on all of it.)
    fn within(&self, multiplier: NoiseMultiplier, most: f64) -> bool {
        self.plan.closing_share == 0.0 || self.spent + multiplier.get().powi(-2) <= most
    }

    /// Makes a step by a gradient with this multiplier, if that is paid for.
    fn step_by(&mut self, multiplier: NoiseMultiplier) -> Result<Option<Stop>, RunError> {
        let Some(estimate) = paid(self.estimator.refresh(&self.point, multiplier))? else {
            return Ok(Some(Stop::GradientUnpaid));
        };
        self.spent += multiplier.get().powi(-2);
        let length = norm(estimate.gradient);
        if !length.is_finite() {
            return Ok(Some(Stop::Diverged));
        }
        let flow = self.observer.on_release(&Release {
            step: self.steps,
            steps: self.plan.max_steps,
            kind: ReleaseKind::Anchor,
            point: &self.point,
            norm: length,
            noise_norm: self.plan.root_dim * estimate.noise_std,
        });
        let next: Vec<f64> = self
            .point
            .iter()
            .zip(estimate.gradient)
            .map(|(w, g)| w - self.plan.step_size * g)
            .collect();
        // Gradients at a point that is not finite count as zero, which would look like those of a stationary point.
        if !next.iter().all(|w| w.is_finite()) {
            return Ok(Some(Stop::Diverged));
        }
        self.point = next;
        self.steps += 1;
        Ok((flow == ControlFlow::Break(())).then_some(Stop::ByObserver))
    }

    /// Selects, settles and reports.
    fn finish(self, stop: Stop) -> Result<AdaptiveOutcome, RunError> {
        let point = match (self.plan.selection, self.plan.selection_epsilon) {
            (AdaptiveSelection::Last, _) => self.point,
            (AdaptiveSelection::Exponential { .. }, Some(epsilon)) if !self.seen.is_empty() => {
                let among: Vec<Shifted<'_>> =
                    self.seen.iter().map(|w| Shifted::from(&w[..])).collect();
                let chosen = self.estimator.least_norm(&among, epsilon)?;
                // An index of one of them.
                self.seen.get(chosen).cloned().unwrap_or(self.best)
            }
            _ => self.best,
        };
        let spent = self.estimator.settle()?;
        let ended = Ended {
            start: self.start,
            point,
            stop,
            steps: self.steps,
            spent,
            counts: self.estimator.counts(),
        };
        Ok(AdaptiveOutcome {
            outcome: ended.outcome(|stop| self.plan.bound_at(stop)),
            smallest: self.smallest,
            norms: self.norms,
        })
    }
}

/// What was released; none where the cap does not pay for it.
fn paid<T>(release: Result<T, Refused>) -> Result<Option<T>, Refused> {
    match release {
        Ok(released) => Ok(Some(released)),
        Err(Refused::OverCap { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}
