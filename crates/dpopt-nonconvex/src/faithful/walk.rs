//! The walk: Algorithm 3, one step at a time.

use std::sync::{Arc, Mutex, PoisonError};

use dpopt_linalg::{add_scaled, distance, norm};
use dpopt_oracle::query::HessianLink;
use dpopt_oracle::{AskError, HessianChain, Oracle, PrefixRecursive, StepKind};
use dpopt_solver::{Asked, Closing, ReleaseKind, RunError, Stop, Walk, in_stock};

use super::episodes::{CentredEnd, CentredEpisode, Trace};
use super::planner::FaithfulPlan;
use crate::saddle::is_near;

/// A run on its way. All of it is public.
pub(super) struct FaithfulWalk<'a> {
    plan: &'a FaithfulPlan,
    trace: Option<&'a Mutex<Trace>>,
    estimate: PrefixRecursive,
    chain: HessianChain,
    at: Vec<f64>,
    /// The estimate there, without that of a regulariser.
    field: Vec<f64>,
    /// Steps until an episode may begin.
    frozen: u64,
    /// Episodes of the chain.
    count: u64,
    episode: Option<Open>,
    step: u64,
    trajectory: Vec<Vec<f64>>,
    episodes: Vec<CentredEpisode>,
    stop: Option<Stop>,
}

/// An episode on its way: g and H of its start, which it keeps though a period and a chain may begin in it.
struct Open {
    step: u64,
    anchor: Vec<f64>,
    gradient: Vec<f64>,
    links: Vec<Arc<HessianLink>>,
    length: u64,
    radius: f64,
}

impl<'a> FaithfulWalk<'a> {
    pub(super) fn new(
        plan: &'a FaithfulPlan,
        start: &[f64],
        trace: Option<&'a Mutex<Trace>>,
    ) -> Result<Self, RunError> {
        let (facts, schedule) = (plan.terms.facts(), &plan.schedule);
        let estimate = schedule.estimate(facts).map_err(RunError::Clip)?;
        let chain = schedule
            .chain(facts, &plan.hessian)
            .map_err(RunError::Clip)?;
        Ok(Self {
            plan,
            trace,
            estimate: PrefixRecursive::new(start.len(), estimate)?,
            chain: HessianChain::new(chain)?,
            at: start.to_vec(),
            field: vec![0.0; start.len()],
            frozen: 0,
            count: 0,
            episode: None,
            step: 0,
            trajectory: Vec::new(),
            episodes: Vec::new(),
            stop: None,
        })
    }

    /// The step of an episode: in the model, with fresh noise. Its radius is below Xi before each product.
    fn model_step(&mut self, oracle: &mut dyn Oracle) -> Result<(), AskError> {
        let schedule = &self.plan.schedule;
        let Some(open) = &mut self.episode else {
            return Ok(());
        };
        let along: Vec<f64> = self
            .at
            .iter()
            .zip(&open.anchor)
            .map(|(x, y)| x - y)
            .collect();
        let product = self.chain.product(oracle, &open.links, &along)?;
        add_scaled(&mut self.at, -schedule.step_size, &open.gradient);
        add_scaled(&mut self.at, -schedule.step_size, &product.mean);
        open.length += 1;
        open.radius = distance(&self.at, &open.anchor);
        self.frozen = self.frozen.saturating_sub(1);
        // NaN has left, too; the run then ends.
        if !(open.radius < schedule.radius) {
            // Back to the sphere: post-processing, and no step is longer than was planned for.
            let back = schedule.radius / open.radius;
            for (x, y) in self.at.iter_mut().zip(&open.anchor) {
                *x = y + back * (*x - y);
            }
            self.end_episode(CentredEnd::Left);
        } else if self.frozen == 0 {
            self.end_episode(CentredEnd::Stayed);
        }
        Ok(())
    }

    fn end_episode(&mut self, end: CentredEnd) {
        if let Some(open) = self.episode.take() {
            self.episodes.push(CentredEpisode {
                step: open.step,
                gradient: norm(&open.gradient),
                links: open.links.len() as u64,
                anchor: open.anchor,
                length: open.length,
                radius: open.radius,
                end,
            });
        }
    }
}

impl Walk for FaithfulWalk<'_> {
    fn ask(
        &mut self,
        step: u64,
        _: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        self.step = step;
        if self.stop.is_none() {
            self.model_step(oracle)?;
        }
        if let Some(stop) = self.stop {
            return Ok(Asked::Nothing(stop));
        }
        if !is_near(&self.at) {
            return Ok(Asked::Nothing(Stop::Diverged));
        }
        let no_episode_left = self.count >= self.plan.schedule.episodes_per_chain;
        if no_episode_left || self.chain.wants_anchor(&self.at) {
            self.estimate.begin_phase();
        }
        let Some(tracked) = in_stock(self.estimate.estimate(oracle, &self.at))? else {
            return Ok(Asked::Nothing(Stop::RecordsExhausted));
        };
        self.field.copy_from_slice(tracked.estimate.gradient);
        let (kind, carried) = match tracked.kind {
            StepKind::Anchor => {
                self.count = 0;
                let carried = self.chain.anchor(oracle, &self.at);
                (ReleaseKind::Anchor, carried)
            }
            _ => (ReleaseKind::Variation, self.chain.extend(oracle, &self.at)),
        };
        // The gradient is released and shown; the run ends after it.
        if in_stock(carried)?.is_none() {
            self.stop = Some(Stop::RecordsExhausted);
        }
        Ok(Asked::Estimate {
            kind,
            at: Some(&self.at),
            gradient: &self.field,
            noise_std: tracked.estimate.noise_std,
        })
    }

    /// Where an episode is on its way the step is made when its product can be asked for: [`FaithfulWalk::model_step`].
    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        let schedule = &self.plan.schedule;
        self.trajectory.push(self.at.clone());
        if self.stop.is_none() && self.episode.is_none() {
            if self.frozen == 0 && norm(gradient) <= schedule.candidate {
                self.frozen = schedule.episode;
                self.count += 1;
                self.episode = Some(Open {
                    step: self.step,
                    anchor: self.at.clone(),
                    gradient: gradient.to_vec(),
                    links: self.chain.links().to_vec(),
                    length: 0,
                    radius: 0.0,
                });
            } else {
                add_scaled(&mut self.at, -schedule.step_size, gradient);
                self.frozen = self.frozen.saturating_sub(1);
            }
        }
        next.copy_from_slice(&self.at);
    }

    fn end(&self) -> Stop {
        if self.plan.schedule.steps > self.plan.settings.max_steps {
            Stop::StepCap
        } else {
            Stop::Completed
        }
    }

    /// The plan's output rule names the point.
    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        self.end_episode(CentredEnd::Cut);
        if self.trajectory.last() != Some(&self.at) {
            self.trajectory.push(std::mem::take(&mut self.at));
        }
        if let Some(trace) = self.trace {
            let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
            *trace = Trace {
                trajectory: std::mem::take(&mut self.trajectory),
                episodes: std::mem::take(&mut self.episodes),
            };
        }
        Ok(Closing::default())
    }
}
