//! The run that all solvers share: reserve, ask, show, move, settle.

use std::ops::ControlFlow;

use dpopt_linalg::{MapError, distance, norm};
use dpopt_oracle::{
    Answer, AskError, Books, DataError, Estimate, EstimatorError, Linear, NotConvexSmooth, Offers,
    Oracle, OracleFacts, PassError, Question, Regularized, Regularizer,
};
use dpopt_privacy::{Refused, UnitError};

use crate::outcome::{Observer, Outcome, OutputRule, Release, ReleaseKind, ReleasedNorm, Stop};
use crate::plan::Plan;

/// A walk: where it asks for a release, and how it moves on it. What all walks share, reserving,
/// watching, keeping the output, stopping and settling, is in [`Plan::run`].
pub trait Walk {
    /// Asks for what the step needs at `point`. The state of the estimate is the walk's own.
    ///
    /// # Errors
    /// [`AskError`].
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError>;

    /// Writes the point after `point` to `next`.
    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]);

    /// Whether an estimate of this norm ends the run.
    fn stops_at(&self, released_norm: f64) -> bool {
        let _ = released_norm;
        false
    }

    /// Whether all is done though the plan has steps left.
    fn finished(&self) -> bool {
        false
    }

    /// How a run ends that has no steps left.
    fn end(&self) -> Stop {
        Stop::Completed
    }

    /// The last word of a walk, before the run is settled: it may still ask.
    ///
    /// # Errors
    /// [`AskError`].
    fn close(&mut self, stop: Stop, oracle: &mut dyn Oracle) -> Result<Closing, AskError> {
        let _ = (stop, oracle);
        Ok(Closing::default())
    }
}

/// What a walk asked for and was given.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Asked<'a> {
    /// An estimate of the gradient at the point.
    Estimate {
        /// How it came about.
        kind: ReleaseKind,
        /// Where it is, if that is not the walk's point.
        at: Option<&'a [f64]>,
        /// The estimate.
        gradient: &'a [f64],
        /// Standard deviation per coordinate of all noise in it.
        noise_std: f64,
    },
    /// A number beside the walk, which stays where it is and asks again.
    Norm {
        /// The released number.
        norm: f64,
        /// Standard deviation of its noise.
        noise_std: f64,
    },
    /// Nothing: the run is over.
    Nothing(Stop),
}

impl<'a> Asked<'a> {
    /// A released estimate.
    #[must_use]
    pub fn estimate(kind: ReleaseKind, estimate: Estimate<'a>) -> Self {
        Self::Estimate {
            kind,
            at: None,
            gradient: estimate.gradient,
            noise_std: estimate.noise_std,
        }
    }

    /// A released estimate at a point of the walk's choice.
    #[must_use]
    pub fn estimate_at(kind: ReleaseKind, point: &'a [f64], estimate: Estimate<'a>) -> Self {
        Self::Estimate {
            kind,
            at: Some(point),
            gradient: estimate.gradient,
            noise_std: estimate.noise_std,
        }
    }
}

/// What a walk says at its end.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Closing {
    /// The point to return; none: that of the plan's output rule.
    pub point: Option<Vec<f64>>,
    /// [`Outcome::norms`].
    pub norms: u64,
    /// [`Outcome::norm`].
    pub norm: Option<ReleasedNorm>,
}

impl Closing {
    /// With this point returned.
    #[must_use]
    pub fn at(point: Vec<f64>) -> Self {
        Self {
            point: Some(point),
            ..Self::default()
        }
    }
}

/// What a run is given beside its plan and its oracle.
pub struct Run<'a> {
    start: Option<&'a [f64]>,
    observer: &'a mut dyn Observer,
    regularizer: Option<Regularizer>,
}

impl<'a> Run<'a> {
    /// From the origin, shown to `observer`.
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self {
            start: None,
            observer,
            regularizer: None,
        }
    }

    /// From a public point; none: from the origin.
    #[must_use]
    pub fn starting_at(self, start: Option<&'a [f64]>) -> Self {
        Self { start, ..self }
    }

    /// With the exact gradient of a public regulariser added to each estimate after its release, and to the means whose norms are
    /// released. The plan has to be made for the sum.
    #[must_use]
    pub fn with_regularizer(self, regularizer: Regularizer) -> Self {
        Self {
            regularizer: Some(regularizer),
            ..self
        }
    }
}

/// A run could not be made or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The oracle's dimension is not the plan's.
    #[error("the plan is for dimension {plan}, the oracle has {oracle}")]
    Dimension {
        /// Dimension in the plan.
        plan: usize,
        /// Dimension of the oracle.
        oracle: usize,
    },
    /// The starting point holds a number that is not finite.
    #[error("coordinate {coordinate} of the starting point is {value}, not a finite number")]
    Start {
        /// The coordinate, counted from 0.
        coordinate: usize,
        /// What stands there.
        value: f64,
    },
    /// The starting point has not the plan's dimension.
    #[error("the plan is for dimension {plan}, the starting point has {start}")]
    StartDimension {
        /// Dimension in the plan.
        plan: usize,
        /// Dimension of the starting point.
        start: usize,
    },
    /// A plan under a projection starts at the origin.
    #[error("{solver} under a projection starts at the origin, and can't start elsewhere")]
    StartProjected {
        /// The solver.
        solver: &'static str,
    },
    /// The oracle does not answer the questions of the plan.
    #[error("{solver} asks for {what}, which this oracle does not release")]
    NotOffered {
        /// The solver.
        solver: &'static str,
        /// The kinds of questions.
        what: String,
    },
    /// A pass over single records ends at a point, to which no gradient of a regulariser can be added.
    #[error("{solver} can't add a regulariser")]
    NoRegularizer {
        /// The solver.
        solver: &'static str,
    },
    /// An oracle or an estimator of the plan could not be set up.
    #[error(transparent)]
    Estimator(#[from] EstimatorError),
    /// The records can't be projected.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The loss is not what the privacy of the plan's passes rests on.
    #[error(transparent)]
    NotConvexSmooth(#[from] NotConvexSmooth),
    /// A point does not fit the projection that it was found under.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A clip radius of the plan is out of range.
    #[error(transparent)]
    Clip(UnitError),
    /// A reservation or release was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A pass over records was refused.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A question was not answered.
    #[error(transparent)]
    Ask(AskError),
}

impl From<AskError> for RunError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(refused) => Self::Refused(refused),
            AskError::Pass(pass) => Self::Pass(pass),
            other => Self::Ask(other),
        }
    }
}

/// Walks: reserve, then ask, show, move, and at the end settle. A run that ends in an error is settled where that is
/// still possible.
pub(crate) fn run<P: Plan + ?Sized>(
    plan: &P,
    oracle: &mut dyn Oracle,
    run: Run<'_>,
) -> Result<Outcome, RunError> {
    let origin = vec![0.0; plan.dim()];
    let start = run.start.unwrap_or(&origin);
    let facts = oracle.facts();
    check_start(start, plan.dim(), facts.dim)?;
    if !facts.offers.covers(plan.needs()) {
        return Err(RunError::NotOffered {
            solver: plan.name(),
            what: facts.offers.lacking(plan.needs()).join(", "),
        });
    }
    if run.regularizer.is_some() && plan.needs().covers(Offers::PASSES) {
        return Err(RunError::NoRegularizer {
            solver: plan.name(),
        });
    }
    let mut walk = plan.walk(start)?;
    let mut with = Regularizing {
        oracle,
        added: run.regularizer.map(Regularized::new),
    };
    with.books().reserve(&plan.spend())?;
    let result = on_the_way(plan, &mut *walk, start, &mut with, run.observer);
    // The bound is about as many records as were planned for, and a noise that hangs on the adjacency.
    let planned = (plan.facts().records, plan.facts().adjacency);
    let result = result.map(|outcome| Outcome {
        bound: outcome
            .bound
            .filter(|_| planned == (facts.records, facts.adjacency)),
        ..outcome
    });
    if result.is_err() {
        // Where this fails too, the reservation stands, and the first error says more.
        let _ = with.books().settle();
    }
    result
}

fn on_the_way<P: Plan + ?Sized>(
    plan: &P,
    walk: &mut dyn Walk,
    start: &[f64],
    oracle: &mut Regularizing<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let steps = plan.steps();
    let mut output = Output::new(plan.output(), steps, start, oracle.books());
    let mut point = start.to_vec();
    let mut next = point.clone();
    let (mut gradient, mut shown) = (point.clone(), point.clone());
    let root_dim = (point.len() as f64).sqrt();
    let mut done = 0;
    let stop = loop {
        if done >= steps || walk.finished() {
            break walk.end();
        }
        let (kind, released, noise_norm) = match walk.ask(done, &point, oracle)? {
            Asked::Nothing(stop) => break stop,
            Asked::Norm { norm, noise_std } => (ReleaseKind::Norm, norm, noise_std),
            Asked::Estimate {
                kind,
                at,
                gradient: estimate,
                noise_std,
            } => {
                let place = at.unwrap_or(&point);
                if estimate.len() != point.len() || place.len() != point.len() {
                    return Err(AskError::Shape { dim: point.len() }.into());
                }
                gradient.copy_from_slice(estimate);
                shown.copy_from_slice(place);
                let length = match kind {
                    ReleaseKind::Pass => distance(estimate, &point),
                    _ => {
                        oracle.add_to(&shown, &mut gradient);
                        norm(&gradient)
                    }
                };
                (kind, length, root_dim * noise_std)
            }
        };
        if kind != ReleaseKind::Norm {
            if !released.is_finite() {
                break Stop::Diverged;
            }
            output.offer(done, &shown, released);
        }
        let flow = observer.on_release(&Release {
            step: done,
            steps,
            kind,
            point: match kind {
                ReleaseKind::Pass => &gradient,
                ReleaseKind::Norm => &point,
                _ => &shown,
            },
            vector: match kind {
                ReleaseKind::Norm => &[],
                _ => &gradient,
            },
            norm: released,
            noise_norm,
        });
        if kind == ReleaseKind::Norm {
            if flow == ControlFlow::Break(()) {
                break Stop::ByObserver;
            }
            if !released.is_finite() {
                break Stop::Diverged;
            }
            continue;
        }
        if walk.stops_at(released) {
            done += 1;
            break Stop::SmallEstimate;
        }
        walk.step(&point, &gradient, &mut next);
        done += 1;
        // Gradients at a point that is not finite count as zero, so its estimates would look like
        // those of a stationary point.
        if !next.iter().all(|w| w.is_finite()) {
            break Stop::Diverged;
        }
        std::mem::swap(&mut point, &mut next);
        if flow == ControlFlow::Break(()) {
            break Stop::ByObserver;
        }
    };
    let closing = walk.close(stop, oracle)?;
    let books = oracle.books();
    let spent = books.settle()?;
    let counts = books.counts();
    let walked = closing.point.unwrap_or_else(|| output.finish(point));
    let returned_start = walked == start;
    Ok(Outcome {
        bound: plan.bound_at(stop),
        returned_start,
        point: plan.lift(walked)?,
        stop,
        steps: done,
        spent,
        counts,
        norms: closing.norms,
        norm: closing.norm,
    })
}

/// Refuses a plan, an oracle and a starting point that don't go together.
fn check_start(start: &[f64], plan: usize, oracle: usize) -> Result<(), RunError> {
    if oracle != plan {
        return Err(RunError::Dimension { plan, oracle });
    }
    if start.len() != plan {
        return Err(RunError::StartDimension {
            plan,
            start: start.len(),
        });
    }
    if let Some(coordinate) = start.iter().position(|w| !w.is_finite()) {
        let value = start[coordinate];
        return Err(RunError::Start { coordinate, value });
    }
    Ok(())
}

/// Keeps the point that the output rule asks for, in O(d) memory.
struct Output {
    rule: OutputRule,
    /// For [`OutputRule::Uniform`]: the step whose point is returned.
    chosen: u64,
    point: Vec<f64>,
    best: f64,
}

impl Output {
    fn new(rule: OutputRule, steps: u64, start: &[f64], books: &mut Books) -> Self {
        let chosen = match rule {
            OutputRule::Uniform => books.draw_index(steps),
            _ => 0,
        };
        Self {
            rule,
            chosen,
            point: start.to_vec(),
            best: f64::INFINITY,
        }
    }

    /// Shows the point of `step`, at which an estimate of norm `norm` was released.
    fn offer(&mut self, step: u64, point: &[f64], norm: f64) {
        let keep = match self.rule {
            // Until the chosen step is reached the latest point stands in, for a run that is
            // stopped before it.
            OutputRule::Uniform => step <= self.chosen,
            OutputRule::Last | OutputRule::UniformBlock | OutputRule::SmallestReleasedBlock => {
                false
            }
            OutputRule::SmallestReleasedNorm => norm < self.best,
        };
        if keep {
            self.best = norm;
            self.point.copy_from_slice(point);
        }
    }

    fn finish(self, last: Vec<f64>) -> Vec<f64> {
        match self.rule {
            // A walk in blocks names its point itself.
            OutputRule::Last | OutputRule::UniformBlock | OutputRule::SmallestReleasedBlock => last,
            _ => self.point,
        }
    }
}

/// An oracle for the sum of the field and of the gradient of a regulariser: norms are those of the sum. Means stay those
/// of the field; the run adds to the estimates that are made of them.
struct Regularizing<'a> {
    oracle: &'a mut dyn Oracle,
    added: Option<Regularized>,
}

impl Regularizing<'_> {
    fn add_to(&self, point: &[f64], gradient: &mut [f64]) {
        if let Some(added) = &self.added {
            added.regularizer().add_gradient(point, gradient);
        }
    }
}

impl Oracle for Regularizing<'_> {
    fn facts(&self) -> OracleFacts {
        self.oracle.facts()
    }

    fn books(&mut self) -> &mut Books {
        self.oracle.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let Some(added) = &self.added else {
            return self.oracle.answer(question);
        };
        match question {
            Question::Norm {
                of,
                shift,
                over,
                noise,
            } => {
                let shift = &added.shift(of.point(), shift)[..];
                self.oracle.answer(Question::Norm {
                    of,
                    shift,
                    over,
                    noise,
                })
            }
            Question::LeastNorm { among, epsilon } => {
                let shifts: Vec<Vec<f64>> = among
                    .iter()
                    .map(|(of, shift)| added.shift(of.point(), shift))
                    .collect();
                let among: Vec<(Linear<'_>, &[f64])> = among
                    .iter()
                    .zip(&shifts)
                    .map(|((of, _), shift)| (*of, &shift[..]))
                    .collect();
                let among = &among[..];
                self.oracle.answer(Question::LeastNorm { among, epsilon })
            }
            other => self.oracle.answer(other),
        }
    }
}
