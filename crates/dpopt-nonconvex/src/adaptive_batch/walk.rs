//! The walk: descend on estimates of a period, and at a candidate certify, escape or go on, all on unread records.

use dpopt_linalg::{add_scaled, norm};
use dpopt_oracle::{AskError, Linear, Oracle, PrefixRecursive, StepKind};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{
    Asked, Certified, Closing, PublicFacts, ReleaseKind, ReleasedNorm, RestsOn, RunError,
    SecondOrderTargets, Stop, Walk, in_stock, paid,
};

use super::planner::AdaptiveBatchPlan;
use crate::saddle::{self, Curved, Lowest, escape_length, is_near};

/// A run on its way. All of it is public.
pub(super) struct AdaptiveBatchWalk<'a> {
    plan: &'a AdaptiveBatchPlan,
    clip: ClipNorm,
    frobenius: ClipNorm,
    noise: NoiseMultiplier,
    estimate: PrefixRecursive,
    /// Where the walk is.
    at: Vec<f64>,
    /// The estimate there, without that of a regulariser.
    field: Vec<f64>,
    /// The same with it, if it is so short that the point is a candidate.
    candidate: Option<Vec<f64>>,
    candidates: u64,
    /// The shortest estimate since the last saddle, and its point.
    best: Option<(f64, Vec<f64>)>,
    certified: Option<SecondOrderTargets>,
    norms: u64,
    norm: Option<ReleasedNorm>,
    stop: Option<Stop>,
}

/// What a candidate turned out to be.
enum Found {
    /// ||grad F|| <= gradient and lambda_min >= -curvature.
    Certified(SecondOrderTargets),
    /// The gradient may be longer than the target, or an episode longer than its slice pays for.
    Untold,
    /// <u, hess F u> <= -bend, and a gradient for its sign.
    Saddle {
        direction: Vec<f64>,
        bend: f64,
        gradient: Vec<f64>,
    },
    /// Too few records are left for the answer, or it can't be evaluated.
    Nothing(Stop),
}

/// What was told of a candidate's curvature.
enum Told {
    Curved(Curved),
    /// An episode came to the end of what its records pay for.
    Nothing,
}

impl<'a> AdaptiveBatchWalk<'a> {
    pub(super) fn new(plan: &'a AdaptiveBatchPlan, start: &[f64]) -> Result<Self, RunError> {
        let schedule = &plan.schedule;
        let settings = schedule
            .estimate(plan.terms.facts())
            .map_err(RunError::Clip)?;
        Ok(Self {
            plan,
            clip: settings.clip,
            frobenius: ClipNorm::new(plan.hessian.frobenius).map_err(RunError::Clip)?,
            noise: settings.period.noise_multiplier,
            estimate: PrefixRecursive::new(start.len(), settings)?,
            at: start.to_vec(),
            field: vec![0.0; start.len()],
            candidate: None,
            candidates: 0,
            best: None,
            certified: None,
            norms: 0,
            norm: None,
            stop: None,
        })
    }

    /// What a candidate is: first by a Hessian, which reads fewer records than the norm of a certificate.
    fn resolve(
        &mut self,
        step: u64,
        gradient: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Found, AskError> {
        const EXHAUSTED: Found = Found::Nothing(Stop::RecordsExhausted);
        let (schedule, facts) = (&self.plan.schedule, self.plan.terms.facts());
        let Some(told) = in_stock(self.curvature(oracle))? else {
            return Ok(EXHAUSTED);
        };
        let field = Linear::field(&self.at, self.clip);
        let low = match told {
            Told::Nothing => return Ok(Found::Untold),
            Told::Curved(Curved::Diverged) => return Ok(Found::Nothing(Stop::Diverged)),
            Told::Curved(Curved::Flat { low }) => low,
            Told::Curved(Curved::Saddle { direction, bend }) => {
                let over = Which::Next(schedule.sign_batch);
                let sign = match in_stock(oracle.mean(field, over, self.noise))? {
                    Some(released) => {
                        let mut sign = released.mean;
                        // What a regulariser adds.
                        for ((sign, sum), part) in sign.iter_mut().zip(gradient).zip(&self.field) {
                            *sign += sum - part;
                        }
                        sign
                    }
                    // The run ends, and not at what it has just seen to be a saddle: the estimate at hand gives the sign.
                    None => {
                        self.stop = Some(Stop::RecordsExhausted);
                        gradient.to_vec()
                    }
                };
                return Ok(Found::Saddle {
                    direction,
                    bend,
                    gradient: sign,
                });
            }
        };
        let over = Which::Next(schedule.norm_batch);
        let Some(released) = in_stock(oracle.norm(field, &[], over, self.noise))? else {
            return Ok(EXHAUSTED);
        };
        self.norms += 1;
        let upper = released.number
            + schedule.norm_margin(facts, released.noise_std)
            + PublicFacts::rounding(self.clip.get(), self.at.len());
        self.norm = Some(ReleasedNorm {
            // The step at whose estimate this point became a candidate.
            step: step.saturating_sub(1),
            norm: released.number,
            noise_std: released.noise_std,
            upper,
        });
        if !(upper <= schedule.targets.gradient) {
            return Ok(Found::Untold);
        }
        Ok(Found::Certified(SecondOrderTargets {
            // No length is below 0: then this limit is one of the few that are wrong, and the target says what was asked.
            gradient: if upper > 0.0 {
                upper
            } else {
                schedule.targets.gradient
            },
            curvature: (-low).max(0.0),
        }))
    }

    /// What is told of the curvature where the walk is.
    fn curvature(&self, oracle: &mut dyn Oracle) -> Result<Told, AskError> {
        let (schedule, facts) = (&self.plan.schedule, self.plan.terms.facts());
        let over = Which::Next(schedule.hessian_batch);
        if let Some(episode) = &schedule.episode {
            let episode = (episode, schedule.hessian_batch as f64);
            let told = saddle::by_episode(oracle, &self.at, episode, over);
            return Ok(match paid(told)?.map(|told| told.0) {
                None => Told::Nothing,
                // It was planned for what sampling leaves of lambda.
                Some(Curved::Flat { .. }) => Told::Curved(Curved::Flat {
                    low: -schedule.targets.curvature,
                }),
                Some(Curved::Saddle { direction, bend }) => Told::Curved(Curved::Saddle {
                    direction,
                    bend: bend - schedule.operator,
                }),
                Some(Curved::Diverged) => Told::Curved(Curved::Diverged),
            });
        }
        let released = saddle::lowest(oracle, &self.at, self.frobenius, over, self.noise)?;
        let Some(Lowest {
            value,
            direction,
            noise_std,
            rounding,
        }) = released
        else {
            return Ok(Told::Curved(Curved::Diverged));
        };
        let most = facts.smoothness.min(self.frobenius.get());
        let low = value - schedule.curvature_margin(most, noise_std) - rounding;
        // NaN is no certificate.
        Ok(Told::Curved(if low >= -schedule.targets.curvature {
            Curved::Flat { low }
        } else {
            Curved::Saddle {
                direction,
                bend: -value - schedule.operator - rounding,
            }
        }))
    }

    /// Goes on from a candidate whose estimate was `gradient`.
    fn leave(
        &mut self,
        step: u64,
        gradient: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<(), AskError> {
        if self.candidates >= self.plan.schedule.most_candidates {
            self.stop = Some(Stop::CandidatesUsed);
            return Ok(());
        }
        self.candidates += 1;
        match self.resolve(step, gradient, oracle)? {
            Found::Nothing(stop) => self.stop = Some(stop),
            Found::Certified(reached) => {
                self.certified = Some(reached);
                self.stop = Some(Stop::Certified);
            }
            Found::Untold => {
                add_scaled(&mut self.at, -self.plan.schedule.step_size, gradient);
                // The estimate was off.
                self.estimate.begin_phase();
            }
            Found::Saddle {
                direction,
                bend,
                gradient,
            } => {
                let (rho, schedule) = (self.plan.hessian.lipschitz, &self.plan.schedule);
                let length = escape_length(rho, bend, schedule.sign_error);
                saddle::leave(&mut self.at, &gradient, &direction, length);
                self.best = None;
            }
        }
        Ok(())
    }
}

impl Walk for AdaptiveBatchWalk<'_> {
    fn ask(
        &mut self,
        step: u64,
        _: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        if let Some(gradient) = self.candidate.take() {
            self.leave(step, &gradient, oracle)?;
        }
        if let Some(stop) = self.stop {
            return Ok(Asked::Nothing(stop));
        }
        if !is_near(&self.at) {
            return Ok(Asked::Nothing(Stop::Diverged));
        }
        let Some(tracked) = in_stock(self.estimate.estimate(oracle, &self.at))? else {
            return Ok(Asked::Nothing(Stop::RecordsExhausted));
        };
        self.field.copy_from_slice(tracked.estimate.gradient);
        let kind = match tracked.kind {
            StepKind::Anchor => ReleaseKind::Anchor,
            _ => ReleaseKind::Variation,
        };
        Ok(Asked::estimate_at(kind, &self.at, tracked.estimate))
    }

    /// A candidate stays where it is until it is resolved.
    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        let length = norm(gradient);
        if self.best.as_ref().is_none_or(|best| length < best.0) {
            self.best = Some((length, self.at.clone()));
        }
        if length <= self.plan.schedule.candidate {
            self.candidate = Some(gradient.to_vec());
        } else {
            add_scaled(&mut self.at, -self.plan.schedule.step_size, gradient);
        }
        next.copy_from_slice(&self.at);
    }

    fn end(&self) -> Stop {
        Stop::StepCap
    }

    /// The certified point, or that of the shortest estimate since the last saddle.
    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        let at = match self.best.take() {
            Some((_, best)) if self.certified.is_none() => best,
            _ => std::mem::take(&mut self.at),
        };
        let mut closing = match at.iter().all(|w| w.is_finite()) {
            true => Closing::at(at),
            false => Closing::default(),
        };
        let whole = self.plan.schedule().episode.is_none();
        // Its margins for samples rest on L1, whatever Hessians are clipped to.
        let rests_on = RestsOn {
            smoothness: true,
            frobenius: whole.then_some(self.frobenius.get()),
        };
        closing.certified = self
            .certified
            .map(|reached| Certified { reached, rests_on });
        closing.norms = self.norms;
        closing.norm = self.norm;
        Ok(closing)
    }
}
