//! Rows of the table: a start, a solver, and what its runs reach.

use std::num::NonZeroUsize;

use dpopt::certify::{Curved, MeanLoss, Objective, auc};
use dpopt::linalg::{add_scaled, least_eigenvectors};
use dpopt::nonconvex::{
    Budget, CurvatureStart, DpSgdPlan, ExtraFacts, Limits, NoObserver, NoisyGdPlan, Plan,
    PublicFacts, Solver,
};
use dpopt::oracle::{Constants, Glm, PrivateMean, QuadraticLink, Scale};
use dpopt::privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, SamplingRate};

use crate::data::{Data, FEATURES, ROW_NORM};
use crate::{Failure, timed};

/// r.
const COLUMNS: usize = 8;
/// The threshold b: same or different.
const THRESHOLD: f64 = 1.0;
/// Radius of the ball for solvers whose facts are to hold all the way. The result of a run without noise is at 2.6.
const BALL: f64 = 3.0;
/// Most passes of a run, the Hessian's included.
const PASSES: f64 = 60.0;
/// Steps of the run without noise.
const WITHOUT_NOISE: usize = 600;

/// Where a run starts, and of which point the facts are that it is planned from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Start {
    /// U = 0, with constants on the ball.
    Origin,
    /// A random factor of a public length, with constants there.
    Random(f64),
    /// Along the least eigenvectors of a private Hessian at 0, with constants there.
    Curvature,
}

/// What runs from there.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    /// Nothing.
    Stay,
    /// A solver as it plans.
    Default(&'static Solver),
    /// Noisy gradient descent: step size, momentum, clip.
    Descent(f64, f64, f64),
    /// DP-SGD on a tenth of the records at a time: step size, momentum, clip.
    Sampled(f64, f64, f64),
}

/// The data, the loss and the budget.
pub(crate) struct Setting<'a> {
    data: &'a Data,
    loss: QuadraticLink,
    budget: Budget,
}

/// What one run reached.
pub(crate) struct Run {
    pub(crate) auc: f64,
    pub(crate) passes: f64,
    pub(crate) seconds: f64,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(data: &'a Data, epsilon: f64) -> Result<Self, Failure> {
        let columns = NonZeroUsize::new(COLUMNS).ok_or("no columns")?;
        let loss = QuadraticLink::new(Glm::Logistic, columns, ClipNorm::new(BALL)?);
        Ok(Self {
            data,
            loss: loss.with_threshold(Scale::new(THRESHOLD)?),
            budget: Budget {
                epsilon: Epsilon::new(epsilon)?,
                delta: Delta::new(1e-6)?,
            },
        })
    }

    /// Length of a column so that a row of the largest norm along it just reaches the threshold.
    fn length() -> f64 {
        THRESHOLD.sqrt() / ROW_NORM
    }

    /// That of a random factor with as long columns.
    pub(crate) fn random() -> Start {
        Start::Random(Self::length() * (COLUMNS as f64).sqrt())
    }

    fn facts(&self, constants: &Constants, dim: usize) -> PublicFacts {
        PublicFacts {
            records: self.data.private.public_records(),
            dim,
            adjacency: Adjacency::ReplaceOne,
            lipschitz: constants.lipschitz,
            smoothness: constants.smoothness,
            initial_gap: constants.initial_gap,
            row_norm: ROW_NORM,
            score: constants.score,
            convexity: constants.convexity,
        }
    }

    fn mean(
        &self,
        loss: QuadraticLink,
        seed: u64,
    ) -> Result<PrivateMean<'_, QuadraticLink>, Failure> {
        let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        Ok(PrivateMean::new(&self.data.private, loss, curator)?.with_hessians())
    }

    /// One run.
    pub(crate) fn run(&self, start: Start, method: Method, seed: u64) -> Result<Run, Failure> {
        let (seconds, done) = timed(|| self.walk(start, method, seed));
        let (point, passes) = done?;
        Ok(Run {
            auc: self.auc(&point)?,
            passes,
            seconds,
        })
    }

    fn walk(&self, start: Start, method: Method, seed: u64) -> Result<(Vec<f64>, f64), Failure> {
        let mut mean = self.mean(self.loss, 1_000 + seed)?;
        let (point, budget, before) = match start {
            Start::Origin => (vec![0.0; mean.dim()], self.budget, 0.0),
            Start::Random(length) => (self.loss.start(FEATURES, length, seed), self.budget, 0.0),
            Start::Curvature => {
                let mut one = self.mean(self.loss.of_one_column(), 2_000 + seed)?;
                let there = one.constants_at(&[0.0; FEATURES]);
                let facts = self.facts(&there, FEATURES);
                let columns = NonZeroUsize::new(COLUMNS).ok_or("no columns")?;
                let shared = (&self.budget, CurvatureStart::SHARE);
                let plan = CurvatureStart::new(&facts, &there, columns, Self::length(), shared)?;
                (plan.release(&mut one)?.point, plan.rest, 1.0)
            }
        };
        let constants = match start {
            Start::Origin => mean.constants(),
            _ => mean.constants_at(&point),
        };
        let facts = self.facts(&constants, mean.dim());
        let left = PASSES - before;
        let plan: Box<dyn Plan> = match method {
            Method::Stay => return Ok((point, before)),
            Method::Default(solver) => self.within(solver, &facts, &mean, &budget, left)?,
            Method::Descent(step, momentum, clip) => {
                let plan = NoisyGdPlan::momentum(&facts, &budget, left as u64)?;
                Box::new(plan.with_parameters(left as u64, step, momentum, clip)?)
            }
            Method::Sampled(step, momentum, clip) => {
                let rate = SamplingRate::new(0.1)?;
                let steps = (left / rate.get()) as u64;
                Box::new(DpSgdPlan::with_parameters(
                    &facts, &budget, steps, rate, step, momentum, clip,
                )?)
            }
        };
        let outcome = plan.run_from(&point, &mut mean, &mut NoObserver)?;
        let passes = before + plan.gradients() / facts.records as f64;
        Ok((outcome.point, passes))
    }

    /// The plan of a solver under the first limit on its steps, halved from 1,024 a pass, that stays within so many passes; so not the
    /// most steps that would.
    fn within(
        &self,
        solver: &Solver,
        facts: &PublicFacts,
        mean: &PrivateMean<'_, QuadraticLink>,
        budget: &Budget,
        passes: f64,
    ) -> Result<Box<dyn Plan>, Failure> {
        let mut extra = ExtraFacts::default();
        extra.hessian = Some(dpopt::nonconvex::HessianFacts::of(&mean.constants()));
        let mut steps = 1024.0 * passes;
        loop {
            let plan = solver.plan(facts, &extra, budget, &Limits::steps(steps as u64))?;
            if plan.gradients() <= passes * facts.records as f64 * (1.0 + 1e-9) || steps < 2.0 {
                return Ok(plan);
            }
            steps *= 0.5;
        }
    }

    /// Area under the curve on the pairs of the test: distances are scores.
    fn auc(&self, point: &[f64]) -> Result<f64, Failure> {
        let test = &self.data.test;
        let scores: Vec<f64> = (0..test.labels().len())
            .map(|i| self.loss.square(test.design().row(i), point))
            .collect();
        Ok(auc(&scores, test.labels())?)
    }

    /// That of the Euclidean distance.
    pub(crate) fn euclidean(&self) -> Result<f64, Failure> {
        let test = &self.data.test;
        let rows = (0..test.labels().len()).map(|i| test.design().row(i).norm_upper());
        Ok(auc(&rows.collect::<Vec<f64>>(), test.labels())?)
    }

    /// That of gradient descent without noise, from the eigenvectors of the exact Hessian. The records are public, and this is research.
    pub(crate) fn without_noise(&self) -> Result<f64, Failure> {
        let one = self.loss.of_one_column();
        let hessian = MeanLoss::new(&self.data.public, &one)?.hessian(&[0.0; FEATURES]);
        let vectors = least_eigenvectors(FEATURES, &hessian, COLUMNS)?.vectors;
        let mut point = vec![0.0; FEATURES * COLUMNS];
        for (j, vector) in vectors.chunks_exact(FEATURES).enumerate() {
            for (row, x) in point.chunks_exact_mut(COLUMNS).zip(vector) {
                row[j] = Self::length() * x;
            }
        }
        let objective = MeanLoss::new(&self.data.public, &self.loss)?;
        let (mut gradient, mut velocity) = (vec![0.0; point.len()], vec![0.0; point.len()]);
        for _ in 0..WITHOUT_NOISE {
            objective.gradient(&point, &mut gradient);
            for (v, g) in velocity.iter_mut().zip(&gradient) {
                *v = 0.9 * *v + g;
            }
            add_scaled(&mut point, -0.1, &velocity);
        }
        self.auc(&point)
    }
}
