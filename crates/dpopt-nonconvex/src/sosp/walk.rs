//! The walk: descend, and at a candidate certify, escape or go on.

use dpopt_linalg::{add_scaled, norm};
use dpopt_oracle::{AskError, Linear, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{
    Asked, Closing, PublicFacts, ReleaseKind, ReleasedNorm, RunError, SecondOrderTargets, Stop,
    Walk, paid,
};

use super::level::SospLevel;
use super::planner::SospPlan;
use crate::saddle::{self, Curved, Lowest, is_near};

/// A run on its way. All of it is public.
pub(super) struct SospWalk<'a> {
    plan: &'a SospPlan,
    clip: ClipNorm,
    frobenius: ClipNorm,
    level: SospLevel,
    number: i32,
    /// Gradients, norms and Hessians of this level so far.
    steps: u64,
    norms_here: u64,
    hessians: u64,
    /// Squared mu of all releases so far.
    spent: f64,
    running: Running,
    /// Where the walk is.
    at: Vec<f64>,
    /// The estimate there, with that of a regulariser, if it is so short that the norm is to be released.
    candidate: Option<Vec<f64>>,
    /// The last point that was certified, and what of it.
    best: Option<(Vec<f64>, SecondOrderTargets)>,
    norms: u64,
    norm: Option<ReleasedNorm>,
    stop: Option<Stop>,
}

/// What a candidate turned out to be.
enum Found {
    /// ||grad F|| <= gradient and lambda_min >= -curvature.
    Certified(SecondOrderTargets),
    /// The gradient may be longer than the target.
    Long,
    /// <u, hess F u> <= -bend.
    Saddle { direction: Vec<f64>, bend: f64 },
    /// The budget does not pay for the answer, or it can't be evaluated.
    Nothing(Stop),
}

impl<'a> SospWalk<'a> {
    pub(super) fn new(plan: &'a SospPlan, start: &[f64]) -> Result<Self, RunError> {
        let clip = ClipNorm::new(plan.terms.clip()).map_err(RunError::Clip)?;
        Ok(Self {
            plan,
            clip,
            frobenius: ClipNorm::new(plan.hessian.frobenius).map_err(RunError::Clip)?,
            level: plan.first,
            number: 0,
            steps: 0,
            norms_here: 0,
            hessians: 0,
            spent: 0.0,
            running: Running::new(start.len(), clip),
            at: start.to_vec(),
            candidate: None,
            best: None,
            norms: 0,
            norm: None,
            stop: None,
        })
    }

    /// How the run ends where it can't go on.
    fn ended(&self, otherwise: Stop) -> Stop {
        match self.best {
            Some(_) => Stop::Certified,
            None => otherwise,
        }
    }

    /// What a candidate is, by a norm and a Hessian.
    fn resolve(&mut self, step: u64, oracle: &mut dyn Oracle) -> Result<Found, AskError> {
        let level = self.level;
        let unpaid = Found::Nothing(Stop::BudgetUsed);
        let Ok(norm_z) = NoiseMultiplier::new(level.norm_multiplier) else {
            return Ok(unpaid);
        };
        let field = Linear::field(&self.at, self.clip);
        let Some(released) = paid(oracle.norm(field, &[], Which::All, norm_z))? else {
            return Ok(unpaid);
        };
        self.spent += norm_z.get().powi(-2);
        self.norms += 1;
        self.norms_here += 1;
        let dim = self.at.len();
        let upper = released.number
            + level.norm_quantile * released.noise_std
            + PublicFacts::rounding(self.clip.get(), dim);
        let found = ReleasedNorm {
            // The step at whose gradient this point became a candidate.
            step: step.saturating_sub(1),
            norm: released.number,
            noise_std: released.noise_std,
            upper,
        };
        if self.best.is_none() {
            self.norm = Some(found);
        }
        // NaN is no certificate.
        if !(upper <= level.targets.gradient) {
            return Ok(Found::Long);
        }
        self.hessians += 1;
        Ok(match self.curvature(oracle)? {
            None => unpaid,
            Some(Curved::Diverged) => Found::Nothing(Stop::Diverged),
            Some(Curved::Saddle { direction, bend }) => Found::Saddle { direction, bend },
            Some(Curved::Flat { low }) => {
                self.norm = Some(found);
                Found::Certified(SecondOrderTargets {
                    // No length is below 0: then this limit is one of the few that are wrong, and the target says what was asked.
                    gradient: if upper > 0.0 {
                        upper
                    } else {
                        level.targets.gradient
                    },
                    curvature: (-low).max(0.0),
                })
            }
        })
    }

    /// What is told of the curvature where the walk is; nothing where that is not paid for.
    fn curvature(&mut self, oracle: &mut dyn Oracle) -> Result<Option<Curved>, AskError> {
        let level = self.level;
        if let Some(episode) = &level.episode {
            let episode = (episode, self.plan.terms.facts().records as f64);
            let told = saddle::by_episode(oracle, &self.at, episode, Which::All);
            return Ok(paid(told)?.map(|(curved, cost)| {
                self.spent += cost;
                curved
            }));
        }
        let Ok(z) = NoiseMultiplier::new(level.hessian_multiplier) else {
            return Ok(None);
        };
        let released = saddle::lowest(oracle, &self.at, self.frobenius, Which::All, z);
        let Some(released) = paid(released)? else {
            return Ok(None);
        };
        self.spent += z.get().powi(-2);
        let Some(Lowest {
            value,
            direction,
            noise_std,
            rounding,
        }) = released
        else {
            return Ok(Some(Curved::Diverged));
        };
        let low = value - level.curvature_quantile * noise_std - rounding;
        Ok(Some(if low >= -level.targets.curvature {
            Curved::Flat { low }
        } else {
            Curved::Saddle {
                direction,
                bend: -value - level.operator * noise_std - rounding,
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
        match self.resolve(step, oracle)? {
            Found::Nothing(stop) => self.stop = Some(self.ended(stop)),
            Found::Long => add_scaled(&mut self.at, -self.level.step_size, gradient),
            Found::Saddle { direction, bend } => {
                let length = self.level.escape_length(self.plan.hessian.lipschitz, bend);
                saddle::leave(&mut self.at, gradient, &direction, length);
            }
            Found::Certified(reached) => {
                self.best = Some((self.at.clone(), reached));
                match self.plan.finer(self.number, reached.gradient) {
                    Some((number, level)) => {
                        (self.number, self.level) = (number, level);
                        (self.steps, self.norms_here, self.hessians) = (0, 0, 0);
                    }
                    None => self.stop = Some(Stop::Certified),
                }
            }
        }
        Ok(())
    }

    /// Why another gradient is of no use, if it is not.
    fn pointless(&self, multiplier: NoiseMultiplier) -> Option<Stop> {
        let SospLevel {
            most_steps,
            most_hessians,
            ..
        } = self.level;
        if self.steps >= most_steps
            || self.norms_here >= most_steps
            || self.hessians >= most_hessians
        {
            return Some(self.ended(Stop::StepCap));
        }
        let cost = multiplier.get().powi(-2) + self.level.certificate_cost();
        let left = self.plan.mu * self.plan.mu - self.spent;
        (cost > left).then(|| self.ended(Stop::BudgetUsed))
    }
}

impl Walk for SospWalk<'_> {
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
            return Ok(Asked::Nothing(self.ended(Stop::Diverged)));
        }
        let multiplier = NoiseMultiplier::new(self.level.gradient_multiplier);
        let Ok(multiplier) = multiplier else {
            return Ok(Asked::Nothing(self.ended(Stop::BudgetUsed)));
        };
        if let Some(stop) = self.pointless(multiplier) {
            return Ok(Asked::Nothing(stop));
        }
        let released = self
            .running
            .anchor(oracle, &self.at, Which::All, multiplier);
        if paid(released)?.is_none() {
            return Ok(Asked::Nothing(self.ended(Stop::BudgetUsed)));
        }
        self.spent += multiplier.get().powi(-2);
        self.steps += 1;
        let estimate = self.running.released().estimate();
        Ok(Asked::estimate_at(ReleaseKind::Anchor, &self.at, estimate))
    }

    /// A candidate stays where it is until it is resolved.
    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        if norm(gradient) <= self.level.candidate {
            self.candidate = Some(gradient.to_vec());
        } else {
            add_scaled(&mut self.at, -self.level.step_size, gradient);
        }
        next.copy_from_slice(&self.at);
    }

    fn end(&self) -> Stop {
        self.ended(Stop::StepCap)
    }

    /// The last certified point.
    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        let mut closing = match self.best.take() {
            Some((point, reached)) => {
                let mut closing = Closing::at(point);
                closing.certified = Some(reached);
                closing
            }
            // Where it is now: the point before may be one that it has left as a saddle.
            None if self.at.iter().all(|w| w.is_finite()) => Closing::at(self.at.clone()),
            None => Closing::default(),
        };
        closing.norms = self.norms;
        closing.norm = self.norm;
        Ok(closing)
    }
}
