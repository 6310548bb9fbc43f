//! A run on private records, on the estimator that a plan asks for.

use std::num::NonZeroUsize;

use dpopt_oracle::{
    ConvexGlm, Counts, Estimate, Estimator, Glm, Level, Means, OutputPerturbed, Passes,
    PrivateData, PrivateMean, Recursion, Recursive, RecursiveSettings, Staged, Stages, Tracker,
    TreeRounds,
};
use dpopt_privacy::{ClipNorm, Curator, Event, NoiseMultiplier, Refused, Spend};

use crate::outcome::{Observer, Outcome};
use crate::plan::Plan;
use crate::run::RunError;

/// How the estimator of a plan is set up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Estimating {
    /// A running estimate that is told what to release.
    Running,
    /// A recursive estimate with records and noise from the plan.
    Recursive(RecursiveSettings),
    /// Rounds over trees.
    Tree {
        /// Records and noise by depth.
        levels: Vec<Level>,
        /// Fixed radii of changes.
        radii: Option<Vec<ClipNorm>>,
    },
    /// A slice of so many records for each stage.
    Staged(Vec<u64>),
    /// Passes over one record after the other.
    Passes,
    /// The records are embedded first.
    Embedded,
}

/// Records and a loss to run a plan on, and the curator that pays.
pub struct GlmRun<'a> {
    data: &'a PrivateData,
    loss: Glm,
    curator: Curator,
    threads: NonZeroUsize,
    start: Option<&'a [f64]>,
}

impl<'a> GlmRun<'a> {
    /// From the origin, on one thread.
    #[must_use]
    pub fn new(data: &'a PrivateData, loss: Glm, curator: Curator) -> Self {
        Self {
            data,
            loss,
            curator,
            threads: NonZeroUsize::MIN,
            start: None,
        }
    }

    /// On up to so many threads; results do not depend on it. Passes over one record after the other use one.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// From a public point, such as that of a checkpoint; none: from the origin.
    #[must_use]
    pub fn starting_at(mut self, start: Option<&'a [f64]>) -> Self {
        self.start = start;
        self
    }

    /// Runs a plan, on whatever estimator or passes it needs, and gives the curator back.
    ///
    /// # Privacy
    /// Nothing here draws, clips or charges: estimators of `dpopt-oracle` do, over the given curator. A projected plan reads
    /// the embedded records; its point is lifted, and its observer sees points of the embedded problem.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged. [`RunError::NotConvexSmooth`] and
    /// [`dpopt_oracle::EstimatorError::InAFile`] for passes that can't be made.
    pub fn run(
        self,
        plan: &dyn Plan,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Curator), RunError> {
        match plan.estimating() {
            Estimating::Passes => {
                let mut passes =
                    OutputPerturbed::new(self.data, ConvexGlm::new(self.loss)?, self.curator)?;
                let origin = vec![0.0; plan.dim()];
                let start = self.start.unwrap_or(&origin);
                let mut estimator = plan.over_passes(start, &mut passes)?;
                let outcome = plan.run_from(start, &mut *estimator, observer)?;
                drop(estimator);
                Ok((outcome, passes.into_curator()))
            }
            Estimating::Embedded => {
                if self.start.is_some() {
                    return Err(RunError::OwnEstimator {
                        solver: plan.name(),
                    });
                }
                let embedded = plan.embed(self.data)?;
                let mut means = PrivateMean::new(&embedded, self.loss, self.curator)?
                    .with_threads(self.threads);
                let outcome = run_over(plan, &mut means, None, observer)?;
                Ok((outcome, means.into_curator()))
            }
            _ => {
                let mut means = PrivateMean::new(self.data, self.loss, self.curator)?
                    .with_threads(self.threads);
                let outcome = run_over(plan, &mut means, self.start, observer)?;
                Ok((outcome, means.into_curator()))
            }
        }
    }
}

/// Runs a plan over private means, on the estimator that it needs. They stay with the caller, for the
/// guarantee and for other releases.
///
/// # Errors
/// [`RunError`]; [`RunError::OwnEstimator`] for passes over single records, which are not made of means.
pub fn run_over<M: Means>(
    plan: &dyn Plan,
    means: &mut M,
    start: Option<&[f64]>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let origin = vec![0.0; plan.dim()];
    let start = start.unwrap_or(&origin);
    let clip = ClipNorm::new(plan.clip()).map_err(RunError::Clip)?;
    match plan.walked_as() {
        Estimating::Recursive(settings) => {
            let mut tracker = Recursive::new(means, settings)?;
            plan.run_from(start, &mut Phases(&mut tracker), observer)
        }
        Estimating::Tree { levels, radii } => {
            let mut tracker = TreeRounds::new(means, clip, levels)?;
            if let Some(radii) = radii {
                tracker = tracker.with_radii(radii);
            }
            plan.run_from(start, &mut Phases(&mut tracker), observer)
        }
        Estimating::Staged(lengths) => {
            let mut stages = Staged::new(means, clip);
            plan.run_from(start, &mut ByStage::new(&mut stages, lengths), observer)
        }
        Estimating::Passes => Err(RunError::OwnEstimator {
            solver: plan.name(),
        }),
        _ => {
            let mut estimator = Recursion::over(means, clip).with_access(plan.access());
            plan.run_from(start, &mut estimator, observer)
        }
    }
}

/// A tracker as an estimator: an anchor begins a phase of the tracker, everything else goes on in it.
pub struct Phases<'a>(pub &'a mut dyn Tracker);

impl Estimator for Phases<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.0.reserve(spend)
    }

    fn refresh(&mut self, point: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.0.begin_phase();
        Ok(self.0.estimate(point)?.estimate)
    }

    fn advance(&mut self, point: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        Ok(self.0.estimate(point)?.estimate)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.0.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.0.settle()
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }
}

/// Stages as an estimator: an anchor begins a stage.
pub struct ByStage<'a> {
    stages: &'a mut dyn Stages,
    lengths: std::vec::IntoIter<u64>,
}

impl<'a> ByStage<'a> {
    /// With so many records for each stage.
    #[must_use]
    pub fn new(stages: &'a mut dyn Stages, lengths: Vec<u64>) -> Self {
        Self {
            stages,
            lengths: lengths.into_iter(),
        }
    }
}

impl Estimator for ByStage<'_> {
    fn dim(&self) -> usize {
        self.stages.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.stages.reserve(spend)
    }

    fn refresh(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.stages
            .begin_stage(self.lengths.next().unwrap_or(u64::MAX))?;
        self.stages.estimate(point, z)
    }

    fn advance(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.stages.estimate(point, z)
    }

    fn draw_index(&mut self, _: u64) -> u64 {
        0
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.stages.settle()
    }

    fn counts(&self) -> Counts {
        self.stages.counts()
    }
}

/// What a plan of passes runs on.
pub type PassEstimator<'a> = Box<dyn Estimator + 'a>;

/// Refuses a plan that has no passes.
pub(crate) fn no_passes<'a>(
    solver: &'static str,
    _: &'a mut dyn Passes,
) -> Result<PassEstimator<'a>, RunError> {
    Err(RunError::OwnEstimator { solver })
}
