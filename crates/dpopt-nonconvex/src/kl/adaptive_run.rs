//! The walk of adaptive noisy gradient descent: ask, be refused or be answered, step.

use dpopt_oracle::{AskError, Linear, Number, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{Asked, Closing, ReleaseKind, ReleasedNorm, RunError, Stop, Walk, paid};

use super::adaptive::{ACCEPT, AdaptiveGdPlan, AdaptiveSelection, NormQueries};

/// What is asked for next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Norm,
    /// A gradient as exact as this norm asks for.
    Gradient(f64),
    Nothing(Stop),
}

/// A run on its way. All of it is public.
pub(super) struct AdaptiveWalk<'a> {
    plan: &'a AdaptiveGdPlan,
    clip: ClipNorm,
    running: Running,
    next: Next,
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

impl<'a> AdaptiveWalk<'a> {
    pub(super) fn new(plan: &'a AdaptiveGdPlan, start: &[f64]) -> Result<Self, RunError> {
        let clip = ClipNorm::new(plan.terms.clip()).map_err(RunError::Clip)?;
        Ok(Self {
            plan,
            clip,
            running: Running::new(start.len(), clip),
            next: Next::Norm,
            norms: 0,
            spent: 0.0,
            scale: plan.terms.clip(),
            smallest: None,
            best: start.to_vec(),
            seen: Vec::new(),
        })
    }

    /// Asks for the norm at the point; none where it is not paid for.
    fn ask_norm(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Option<Number>, AskError> {
        let number = self.norms;
        let multiplier = self.plan.norm_multiplier(number, self.scale);
        // Scales that have underflowed have no multiplier, and no price either.
        let Ok(multiplier) = NoiseMultiplier::new(multiplier) else {
            return Ok(None);
        };
        if !self.within(multiplier) {
            return Ok(None);
        }
        let field = Linear::field(point, self.clip);
        let Some(released) = paid(oracle.norm(field, &[], Which::All, multiplier))? else {
            return Ok(None);
        };
        self.spent += multiplier.get().powi(-2);
        self.norms += 1;
        self.note_norm(step, point, released, number);
        self.next = self.after(step, released.number);
        Ok(Some(released))
    }

    /// What a released norm leads to.
    fn after(&mut self, step: u64, released: f64) -> Next {
        match self.plan.settings.norms {
            NormQueries::Fixed => {
                let gradient = self.plan.gradient_multiplier(step, released);
                // NaN must end the run.
                if gradient > 2f64.sqrt() / self.plan.mu {
                    Next::Gradient(released)
                } else {
                    Next::Nothing(Stop::Converged)
                }
            }
            NormQueries::Relative if released >= ACCEPT * self.scale => {
                self.scale = released.min(self.plan.terms.clip());
                Next::Gradient(released)
            }
            NormQueries::Relative => {
                self.scale *= 0.5;
                Next::Norm
            }
        }
    }

    /// Keeps what the outcome needs of a released norm.
    fn note_norm(&mut self, step: u64, point: &[f64], released: Number, number: u64) {
        let found = ReleasedNorm {
            step,
            norm: released.number,
            noise_std: released.noise_std,
            upper: released.number + self.plan.tail(number) * released.noise_std,
        };
        let selection = self.plan.settings.selection;
        let keep = match selection {
            AdaptiveSelection::Last => true,
            _ => self.smallest.is_none_or(|old| found.upper < old.upper),
        };
        if keep {
            self.smallest = Some(found);
            self.best.copy_from_slice(point);
        }
        let exponential = matches!(selection, AdaptiveSelection::Exponential { .. });
        if exponential && self.seen.last().map(Vec::as_slice) != Some(point) {
            self.seen.push(point.to_vec());
        }
    }

    /// Asks for a gradient with the multiplier that `norm` asks for; false where it is not paid for.
    fn ask_gradient(
        &mut self,
        step: u64,
        norm: f64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<bool, AskError> {
        let multiplier = self.plan.gradient_multiplier(step, norm);
        let Ok(multiplier) = NoiseMultiplier::new(multiplier) else {
            return Ok(false);
        };
        self.next = Next::Norm;
        Ok(self.within(multiplier) && self.anchor(multiplier, point, oracle)?)
    }

    /// Where the budget ended the run, and a share of it was kept: a gradient with all that is left, for a last step.
    fn ask_closing(
        &mut self,
        stop: Stop,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<bool, AskError> {
        self.next = Next::Nothing(stop);
        if self.plan.closing_share == 0.0 {
            return Ok(false);
        }
        let left = self.plan.mu * self.plan.mu - self.spent;
        // A little more noise than that pays for, so that no rounding stands in the way.
        match NoiseMultiplier::new((1.0 + 1e-9) / left.sqrt()) {
            Ok(multiplier) => self.anchor(multiplier, point, oracle),
            Err(_) => Ok(false),
        }
    }

    /// Whether a release keeps the costs so far within what steps may cost. (The filter has the last word on all of it.)
    fn within(&self, multiplier: NoiseMultiplier) -> bool {
        self.plan.closing_share == 0.0
            || self.spent + multiplier.get().powi(-2) <= self.plan.for_steps()
    }

    /// Releases a gradient, if that is paid for.
    fn anchor(
        &mut self,
        multiplier: NoiseMultiplier,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<bool, AskError> {
        let released = self.running.anchor(oracle, point, Which::All, multiplier);
        if paid(released)?.is_none() {
            return Ok(false);
        }
        self.spent += multiplier.get().powi(-2);
        Ok(true)
    }
}

impl Walk for AdaptiveWalk<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let unpaid = match self.next {
            Next::Nothing(stop) => return Ok(Asked::Nothing(stop)),
            Next::Norm => match self.ask_norm(step, point, oracle)? {
                Some(released) => {
                    return Ok(Asked::Norm {
                        norm: released.number,
                        noise_std: released.noise_std,
                    });
                }
                None => Some(Stop::NormUnpaid),
            },
            Next::Gradient(norm) => {
                (!self.ask_gradient(step, norm, point, oracle)?).then_some(Stop::GradientUnpaid)
            }
        };
        if let Some(stop) = unpaid
            && !self.ask_closing(stop, point, oracle)?
        {
            return Ok(Asked::Nothing(stop));
        }
        let estimate = self.running.released().estimate();
        Ok(Asked::estimate(ReleaseKind::Anchor, estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        crate::spider::descend(point, self.plan.step_size(), gradient, next);
    }

    fn end(&self) -> Stop {
        match self.next {
            Next::Nothing(stop) => stop,
            _ => Stop::StepCap,
        }
    }

    /// Selects.
    fn close(&mut self, _: Stop, oracle: &mut dyn Oracle) -> Result<Closing, AskError> {
        let selection = (self.plan.settings.selection, self.plan.selection_epsilon);
        let mut closing = match selection {
            (AdaptiveSelection::Last, _) => Closing::default(),
            (AdaptiveSelection::Exponential { .. }, Some(epsilon)) if !self.seen.is_empty() => {
                let none: &[f64] = &[];
                let fields = self.seen.iter().map(|w| Linear::field(w, self.clip));
                let among: Vec<_> = fields.map(|field| (field, none)).collect();
                let chosen = oracle.least_norm(&among, epsilon)?;
                Closing::at(self.seen.swap_remove(chosen))
            }
            _ => Closing::at(self.best.clone()),
        };
        closing.norms = self.norms;
        closing.norm = self.smallest;
        Ok(closing)
    }
}
