//! The walk: descend, and at a candidate certify, escape or go on.

use dpopt_linalg::{add_scaled, distance, dot, norm};
use dpopt_oracle::{AskError, Linear, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{
    Asked, Certified, Closing, PublicFacts, ReleaseKind, ReleasedNorm, RestsOn, RunError,
    SecondOrderTargets, Stop, Walk, paid,
};

use super::level::{SospLevel, SospSpider};
use super::measured::{Backtracking, escape_falls, farthest, step_falls};
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
    /// Anchors of this level so far, and how long the changes since the last one are together.
    anchors: u64,
    path: f64,
    /// Whether the next estimate is to be an anchor whatever the path is.
    anew: bool,
    /// Squared mu of all releases so far.
    spent: f64,
    running: Running,
    /// Where the walk is.
    at: Vec<f64>,
    /// The estimate there, with that of a regulariser, if it is so short that the norm is to be released.
    candidate: Option<Vec<f64>>,
    /// The estimate there, where how far to go along it is to be measured; the last such eta, 0 before the first.
    downhill: Option<Vec<f64>>,
    eta: f64,
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
            anchors: 0,
            path: 0.0,
            anew: true,
            spent: 0.0,
            running: Running::new(start.len(), clip),
            at: start.to_vec(),
            candidate: None,
            downhill: None,
            eta: 0.0,
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

    /// What a candidate is, by a norm and a Hessian: the one first that more candidates fail. Fresh estimates are of long gradients more
    /// often than not; recursive ones that are short are of short ones, and then it is the curvature that is in doubt.
    fn resolve(&mut self, step: u64, oracle: &mut dyn Oracle) -> Result<Found, AskError> {
        let recursive = self.level.spider.is_some();
        let (mut norm, mut curvature) = (None, None);
        for of_norm in [!recursive, recursive] {
            if of_norm {
                match self.norm_here(step, oracle)? {
                    Ok(found) if found.upper <= self.level.targets.gradient => norm = Some(found),
                    // NaN is no certificate.
                    Ok(_) => return Ok(Found::Long),
                    Err(stop) => return Ok(Found::Nothing(stop)),
                }
            } else {
                match self.curvature_here(oracle)? {
                    Ok(Found::Certified(found)) => curvature = Some(found.curvature),
                    Ok(found) => return Ok(found),
                    Err(stop) => return Ok(Found::Nothing(stop)),
                }
            }
        }
        let (Some(norm), Some(curvature)) = (norm, curvature) else {
            return Ok(Found::Long);
        };
        self.norm = Some(norm);
        Ok(Found::Certified(SecondOrderTargets {
            // No length is below 0: then this limit is one of the few that are wrong, and the target says what was asked.
            gradient: if norm.upper > 0.0 {
                norm.upper
            } else {
                self.level.targets.gradient
            },
            curvature,
        }))
    }

    /// The norm here, released by itself; why there is none.
    fn norm_here(
        &mut self,
        step: u64,
        oracle: &mut dyn Oracle,
    ) -> Result<Result<ReleasedNorm, Stop>, AskError> {
        let level = self.level;
        let Ok(multiplier) = NoiseMultiplier::new(level.norm_multiplier) else {
            return Ok(Err(Stop::BudgetUsed));
        };
        let field = Linear::field(&self.at, self.clip);
        let Some(released) = paid(oracle.norm(field, &[], Which::All, multiplier))? else {
            return Ok(Err(Stop::BudgetUsed));
        };
        self.spent += multiplier.get().powi(-2);
        self.norms += 1;
        self.norms_here += 1;
        let upper = released.number
            + level.norm_quantile * released.noise_std
            + PublicFacts::rounding(self.clip.get(), self.at.len());
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
        Ok(Ok(found))
    }

    /// Whether all eigenvalues of the Hessian here are above -lambda: a saddle, or certified of a gradient of any length; why that is not known.
    fn curvature_here(&mut self, oracle: &mut dyn Oracle) -> Result<Result<Found, Stop>, AskError> {
        self.hessians += 1;
        Ok(match self.curvature(oracle)? {
            None => Err(Stop::BudgetUsed),
            Some(Curved::Diverged) => Err(Stop::Diverged),
            Some(Curved::Saddle { direction, bend }) => Ok(Found::Saddle { direction, bend }),
            Some(Curved::Flat { low }) => Ok(Found::Certified(SecondOrderTargets {
                gradient: f64::INFINITY,
                curvature: (-low).max(0.0),
            })),
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
            // The error of a recursive estimate stays with it, so another is asked for in place of a step.
            Found::Long if self.level.spider.is_some() => self.anew = true,
            Found::Long => self.descend(gradient, oracle)?,
            Found::Saddle { direction, bend } if self.level.change_multiplier.is_some() => {
                let side = if dot(gradient, &direction) > 0.0 {
                    -1.0
                } else {
                    1.0
                };
                let direction: Vec<f64> = direction.iter().map(|u| side * u).collect();
                let falls = escape_falls(bend);
                let farthest = farthest(self.plan.terms.facts().initial_gap, falls(1.0), 2.0);
                self.measured(oracle, &direction, farthest, falls)?;
            }
            Found::Saddle { direction, bend } => {
                let length = self.level.escape_length(self.plan.hessian.lipschitz, bend);
                match self.level.spider {
                    // The estimate does not tell the side: a public coin does.
                    Some(SospSpider {
                        error,
                        reach: Some(_),
                        ..
                    }) if dot(gradient, &direction).abs() < error => {
                        let side = [-1.0, 1.0][(oracle.books().draw_index(2) & 1) as usize];
                        add_scaled(&mut self.at, side * length, &direction);
                    }
                    _ => saddle::leave(&mut self.at, gradient, &direction, length),
                }
            }
            Found::Certified(reached) => {
                self.best = Some((self.at.clone(), reached));
                match self.plan.finer(self.number, reached.gradient) {
                    Some((number, level)) => {
                        (self.number, self.level) = (number, level);
                        (self.steps, self.norms_here, self.hessians) = (0, 0, 0);
                        (self.anchors, self.anew) = (0, true);
                    }
                    None => self.stop = Some(Stop::Certified),
                }
            }
        }
        Ok(())
    }

    /// A step against an estimate, of the planned size or of a measured one.
    fn descend(&mut self, gradient: &[f64], oracle: &mut dyn Oracle) -> Result<(), AskError> {
        if self.level.change_multiplier.is_none() {
            add_scaled(&mut self.at, -self.level.step_size, gradient);
            return Ok(());
        }
        let against: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let falls = step_falls(dot(gradient, gradient));
        let mut most = farthest(self.plan.terms.facts().initial_gap, falls(1.0), 1.0);
        if self.eta > 0.0 {
            most = most.min(2.0 * self.eta);
        }
        self.eta = self
            .measured(oracle, &against, most, falls)?
            .unwrap_or(self.eta);
        Ok(())
    }

    /// Goes as far along `direction` as is seen to gain enough, and says which multiple of it that is; stops where nothing is, where the budget
    /// does not pay for a trial and a certificate after it, and where the way is out of the range of numbers.
    fn measured(
        &mut self,
        oracle: &mut dyn Oracle,
        direction: &[f64],
        farthest: f64,
        falls: impl Fn(f64) -> f64,
    ) -> Result<Option<f64>, AskError> {
        let multiplier = NoiseMultiplier::new(self.level.change_multiplier.unwrap_or(f64::NAN));
        let Ok(multiplier) = multiplier else {
            self.stop = Some(self.ended(Stop::BudgetUsed));
            return Ok(None);
        };
        let search = Backtracking {
            at: &self.at,
            direction,
            length: norm(direction),
            lipschitz: self.clip.get(),
            multiplier,
        };
        let after = self.level.certificate_cost() + self.level.gradient_multiplier.powi(-2);
        let left = self.plan.mu * self.plan.mu - self.spent - after;
        let (found, spent) = search.search(oracle, farthest, falls, left)?;
        self.spent += spent;
        match found {
            Ok(multiple) => add_scaled(&mut self.at, multiple, direction),
            Err(stop) => self.stop = Some(self.ended(stop)),
        }
        Ok(found.ok())
    }

    /// How the next estimate is made: its kind, its noise multiplier, and how long the changes since the last anchor are with it.
    fn next(&self) -> (ReleaseKind, f64, f64) {
        let anchor = (ReleaseKind::Anchor, self.level.gradient_multiplier, 0.0);
        let Some(SospSpider { path: most, .. }) = self.level.spider else {
            return anchor;
        };
        let length = distance(&self.at, &self.running.released().point);
        let path = self.path + length;
        // Without a change nothing would be released, and one that is not a number is too long.
        if self.anew || length == 0.0 || !(path <= most && length < 0.5 * most) {
            return anchor;
        }
        let multiplier = self.level.gradient_multiplier * (most / length).sqrt();
        (ReleaseKind::Variation, multiplier, path)
    }

    /// Why another gradient is of no use, if it is not.
    fn pointless(&self, kind: ReleaseKind, multiplier: NoiseMultiplier) -> Option<Stop> {
        let SospLevel {
            most_steps,
            most_norms,
            most_hessians,
            spider,
            ..
        } = self.level;
        let most_anchors = spider.map_or(u64::MAX, |spider| spider.most_anchors);
        if self.steps >= most_steps
            || self.norms_here >= most_norms
            || self.hessians >= most_hessians
            || (kind == ReleaseKind::Anchor && self.anchors >= most_anchors)
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
        } else if let Some(gradient) = self.downhill.take() {
            self.descend(&gradient, oracle)?;
        }
        if let Some(stop) = self.stop {
            return Ok(Asked::Nothing(stop));
        }
        if !is_near(&self.at) {
            return Ok(Asked::Nothing(self.ended(Stop::Diverged)));
        }
        let (kind, multiplier, path) = self.next();
        let Ok(multiplier) = NoiseMultiplier::new(multiplier) else {
            return Ok(Asked::Nothing(self.ended(Stop::BudgetUsed)));
        };
        if let Some(stop) = self.pointless(kind, multiplier) {
            return Ok(Asked::Nothing(stop));
        }
        let before = oracle.books().counts().releases;
        let released = match kind {
            ReleaseKind::Variation => self.running.vary(oracle, &self.at, Which::All, multiplier),
            _ => self
                .running
                .anchor(oracle, &self.at, Which::All, multiplier),
        };
        if paid(released)?.is_none() {
            return Ok(Asked::Nothing(self.ended(Stop::BudgetUsed)));
        }
        // Where the field can't change, as that of an oracle with an L1 of 0, nothing is released and nothing charged.
        if oracle.books().counts().releases > before {
            self.spent += multiplier.get().powi(-2);
        }
        self.steps += 1;
        self.anchors += u64::from(kind == ReleaseKind::Anchor);
        (self.path, self.anew) = (path, false);
        let estimate = self.running.released().estimate();
        Ok(Asked::estimate_at(kind, &self.at, estimate))
    }

    /// A candidate stays where it is until it is resolved.
    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        if norm(gradient) <= self.level.candidate {
            self.candidate = Some(gradient.to_vec());
        } else if self.level.change_multiplier.is_some() {
            self.downhill = Some(gradient.to_vec());
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
                // A whole Hessian is clipped by C_F.
                let whole = self.plan.first.episode.is_none();
                let rests_on = RestsOn {
                    smoothness: !whole,
                    frobenius: whole.then_some(self.frobenius.get()),
                };
                closing.certified = Some(Certified { reached, rests_on });
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
