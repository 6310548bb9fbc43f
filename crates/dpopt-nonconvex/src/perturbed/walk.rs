//! The walk: descend, perturb, watch.

use dpopt_linalg::{add_scaled, distance, norm};
use dpopt_oracle::{AskError, Oracle, Running};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, UnitError, Which};
use dpopt_solver::{
    Asked, Closing, NextStep, PerturbAndWatch, ReleaseKind, RunError, Stop, Walk, in_stock, paid,
};

use super::planner::{PerturbedPlan, PerturbedSpider};
use crate::saddle::is_near;

/// A run on its way. All of it is public.
pub(super) struct PerturbedWalk<'a> {
    plan: &'a PerturbedPlan,
    running: Running,
    anchor_noise: NoiseMultiplier,
    spider: Option<(PerturbedSpider, NoiseMultiplier)>,
    /// Anchors so far, and the squared path since the last; none before it.
    anchors: u64,
    path: Option<f64>,
    at: Vec<f64>,
    watch: PerturbAndWatch,
    /// Where the last perturbation began.
    anchor: Vec<f64>,
    /// The point with the shortest estimate.
    best: (f64, Vec<f64>),
}

impl<'a> PerturbedWalk<'a> {
    pub(super) fn new(plan: &'a PerturbedPlan, start: &[f64]) -> Result<Self, RunError> {
        let multiplier =
            |z: f64| NoiseMultiplier::new(z).map_err(|error: UnitError| RunError::Clip(error));
        let schedule = plan.schedule;
        let clip = ClipNorm::new(plan.terms.clip()).map_err(RunError::Clip)?;
        let spider = match schedule.spider {
            Some(spider) => Some((spider, multiplier(spider.variation)?)),
            None => None,
        };
        Ok(Self {
            plan,
            running: Running::new(start.len(), clip),
            anchor_noise: multiplier(schedule.anchor)?,
            spider,
            anchors: 0,
            path: None,
            at: start.to_vec(),
            watch: PerturbAndWatch::new(plan.escape(), schedule.target),
            anchor: start.to_vec(),
            best: (f64::INFINITY, start.to_vec()),
        })
    }

    /// The squared path with the next variation, and its noise; none for an anchor.
    fn variation(&self) -> Option<(f64, NoiseMultiplier)> {
        let ((spider, noise), path) = (self.spider?, self.path?);
        let path = path + distance(&self.at, &self.running.released().point).powi(2);
        // A path that is not a number is too long.
        (path < spider.path).then_some((path, noise))
    }
}

impl Walk for PerturbedWalk<'_> {
    fn ask(&mut self, _: u64, _: &[f64], oracle: &mut dyn Oracle) -> Result<Asked<'_>, AskError> {
        if let Some(by) = self.watch.perturbation(oracle.books())? {
            add_scaled(&mut self.at, 1.0, &by);
        }
        if !is_near(&self.at) {
            return Ok(Asked::Nothing(Stop::Diverged));
        }
        let variation = self.variation();
        let most = self
            .spider
            .map_or(u64::MAX, |(spider, _)| spider.most_anchors);
        if variation.is_none() && self.anchors >= most {
            return Ok(Asked::Nothing(Stop::StepCap));
        }
        let (kind, path) = match variation {
            Some((path, _)) => (ReleaseKind::Variation, path),
            None => (ReleaseKind::Anchor, 0.0),
        };
        let pass = self.plan.schedule.pass;
        let released = match variation {
            Some((_, noise)) => {
                let over = pass.map_or(Which::All, |pass| Which::Next(pass.variation));
                self.running.vary(oracle, &self.at, over, noise).map(|_| ())
            }
            None => {
                let over = pass.map_or(Which::All, |pass| Which::Next(pass.anchor));
                let noise = self.anchor_noise;
                self.running
                    .anchor(oracle, &self.at, over, noise)
                    .map(|_| ())
            }
        };
        let Some(released) = paid(in_stock(released))? else {
            return Ok(Asked::Nothing(Stop::BudgetUsed));
        };
        if released.is_none() {
            return Ok(Asked::Nothing(Stop::RecordsExhausted));
        }
        self.path = Some(path);
        self.anchors += u64::from(kind == ReleaseKind::Anchor);
        let estimate = self.running.released().estimate();
        Ok(Asked::estimate_at(kind, &self.at, estimate))
    }

    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        let length = norm(gradient);
        if length < self.best.0 {
            self.best = (length, self.at.clone());
        }
        match self.watch.next(&self.at, gradient) {
            NextStep::Descend => add_scaled(&mut self.at, -self.plan.schedule.step_size, gradient),
            NextStep::Step(size) => add_scaled(&mut self.at, -size, gradient),
            NextStep::Perturb => self.anchor.copy_from_slice(&self.at),
            _ => {}
        }
        next.copy_from_slice(&self.at);
    }

    fn finished(&self) -> bool {
        self.watch.stayed()
    }

    fn end(&self) -> Stop {
        match self.watch.stayed() {
            true => Stop::SmallEstimate,
            false => Stop::StepCap,
        }
    }

    /// The anchor; where no try ended there, the point of the shortest estimate.
    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        Ok(Closing::at(match self.watch.stayed() {
            true => std::mem::take(&mut self.anchor),
            false => std::mem::take(&mut self.best.1),
        }))
    }
}
