//! What a run is made of: a walk, what the walk is given, and how it may fail.

use dpopt_linalg::{MapError, dot};
use dpopt_oracle::{
    Answer, AskError, Blocks, Books, DataError, Estimate, EstimatorError, Glm, Linear,
    NotConvexSmooth, Number, Oracle, OracleFacts, PassError, Question, Regularized, Regularizer,
};
use dpopt_privacy::{PoolError, Refused, UnitError};

use crate::outcome::{Observer, OutputRule, ReleaseKind, ReleasedNorm, Stop};
use crate::second_order::SecondOrderTargets;
use crate::withheld::Withheld;

/// A walk: where it asks for a release, and how it moves on it. What all walks share, reserving,
/// watching, keeping the output, stopping and settling, is in [`Plan::run`](crate::Plan::run).
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

    /// Whether it names the point to return where a block is asked for.
    fn in_blocks(&self) -> bool {
        false
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
    /// [`Outcome::norms`](crate::Outcome::norms).
    pub norms: u64,
    /// [`Outcome::norm`](crate::Outcome::norm).
    pub norm: Option<ReleasedNorm>,
    /// What was certified of the point by releases there: it is then the bound of the run, in place of the plan's.
    pub certified: Option<Certified>,
}

/// What a walk certified of the point that it returns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certified {
    /// The numbers. Of an infinite curvature nothing is known; one below 0 says that all eigenvalues are above 0.
    pub reached: SecondOrderTargets,
    /// What it rests on.
    pub rests_on: RestsOn,
}

/// The constants of records that a claim rests on beside the bound on their fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestsOn {
    /// Whether it needs L1: products with Hessians, variations and samples do, a whole Hessian does not.
    pub smoothness: bool,
    /// What records' Hessians were clipped to in Frobenius norm, where whole ones were released.
    pub frobenius: Option<f64>,
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
    pub(crate) start: Option<&'a [f64]>,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) regularizer: Option<Regularizer>,
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

/// A problem, by its blocks.
struct Split(Option<Blocks>);

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("a minimisation problem"),
            Some(blocks) => write!(f, "a saddle problem with {blocks}"),
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
    /// The y of the starting point of a saddle problem is outside of its domain.
    #[error(
        "coordinate {coordinate} of the starting point is {value}, and y is outside of its domain there"
    )]
    StartOutside {
        /// The coordinate of the joint point, counted from 0.
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
    /// Projections and passes over single records are made for losses of <w, x>.
    #[error(
        "{solver} is for losses of one inner product <w, x> here, and that of a network, of a quadratic link or of several classes is none"
    )]
    NotOneProduct {
        /// The solver.
        solver: &'static str,
    },
    /// A network, or a quadratic link, has a loss of its output already, and another one was given.
    #[error("the loss is {loss}, and that of the network or link is {head}")]
    OtherHead {
        /// The loss that was given.
        loss: Glm,
        /// The network's.
        head: Glm,
    },
    /// The plan and the oracle don't split a point alike: one of them is of a saddle problem, or of another.
    #[error("{solver} walks on {}, and the field of this oracle is that of {}", Split(*plan), Split(*oracle))]
    Blocks {
        /// The solver.
        solver: &'static str,
        /// The plan's.
        plan: Option<Blocks>,
        /// The oracle's.
        oracle: Option<Blocks>,
    },
    /// The plan is for another set that y is in.
    #[error(
        "{solver} was planned for another domain of y than that of this loss: where y is best, and what follows from it, would be of \
         another problem"
    )]
    Domain {
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
    /// Records' products with Hessians may be shortened, and are those of no matrix then.
    #[error(
        "{solver} tells curvature by products with Hessians of up to {planned} in norm, and those of these records may be {found}: clipped \
         products are those of no matrix"
    )]
    ClippedProducts {
        /// The solver.
        solver: &'static str,
        /// L1 of the plan.
        planned: f64,
        /// L1 of the oracle; infinite where there is none.
        found: f64,
    },
    /// The pool has fewer records left than a whole run takes.
    #[error("{solver} takes {needed} records that were never read, and {left} are left")]
    TooFewUnread {
        /// The solver.
        solver: &'static str,
        /// What the plan takes.
        needed: u64,
        /// What is left.
        left: u64,
    },
    /// A pass over single records ends at a point, to which no gradient of a regulariser can be added; and a joint point of a saddle
    /// problem has an x and a y, of which a regulariser knows nothing.
    #[error("{solver} can't add a regulariser")]
    NoRegularizer {
        /// The solver.
        solver: &'static str,
    },
    /// A plan by hand can't be walked.
    #[error("{solver} can't be walked with a {name} of {value}")]
    Schedule {
        /// The solver.
        solver: &'static str,
        /// What of its schedule.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A plan by hand returns the mean of a block, and the walk has none.
    #[error("{solver} does not walk in blocks, and can't return `{rule}`")]
    NoBlocks {
        /// The solver.
        solver: &'static str,
        /// The rule.
        rule: OutputRule,
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
    /// A premise of what was to be stated does not hold.
    #[error("no certificate: {0}")]
    NotCovered(#[from] Withheld),
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

/// What was released; none where the cap does not pay for it.
///
/// # Errors
/// Any other.
pub fn paid<T>(release: Result<T, AskError>) -> Result<Option<T>, AskError> {
    match release {
        Ok(released) => Ok(Some(released)),
        Err(AskError::Refused(Refused::OverCap { .. })) => Ok(None),
        Err(other) => Err(other),
    }
}

/// What was released; none where it reads more records than there are that were never read.
///
/// # Errors
/// Any other.
pub fn in_stock<T>(release: Result<T, AskError>) -> Result<Option<T>, AskError> {
    match release {
        Ok(released) => Ok(Some(released)),
        Err(AskError::Refused(Refused::Pool(PoolError::UsedUp { .. }))) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Keeps the point that the output rule asks for, in O(d) memory.
pub(crate) struct Output {
    rule: OutputRule,
    /// For [`OutputRule::Uniform`]: the step whose point is returned.
    chosen: u64,
    point: Vec<f64>,
    best: f64,
}

impl Output {
    pub(crate) fn new(rule: OutputRule, steps: u64, start: &[f64], books: &mut Books) -> Self {
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
    pub(crate) fn offer(&mut self, step: u64, point: &[f64], norm: f64) {
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

    pub(crate) fn finish(self, last: Vec<f64>) -> Vec<f64> {
        match self.rule {
            // A walk in blocks names its point itself.
            OutputRule::Last | OutputRule::UniformBlock | OutputRule::SmallestReleasedBlock => last,
            _ => self.point,
        }
    }
}

/// An oracle for the sum of the field and of the gradient of a regulariser: norms, Hessians, their products and changes of values are those of the sum. Means stay those
/// of the field; the run adds to the estimates that are made of them.
pub(crate) struct Regularizing<'a> {
    pub(crate) oracle: &'a mut dyn Oracle,
    pub(crate) added: Option<Regularized>,
}

impl Regularizing<'_> {
    pub(crate) fn add_to(&self, point: &[f64], gradient: &mut [f64]) {
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
                within,
                shift,
                over,
                noise,
            } => {
                let shift = &added.shift(of.point(), shift)[..];
                self.oracle.answer(Question::Norm {
                    of,
                    within,
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
            Question::Hessian { of, over, noise } => {
                let (point, regularizer) = (of.point, added.regularizer());
                let mut mean = self.oracle.hessian(of, over, noise)?;
                regularizer.add_hessian(point, &mut mean.mean);
                Ok(Answer::Mean(mean))
            }
            Question::Chain { of, noise } => {
                let mut mean = self.oracle.chain(of, noise)?;
                // Its Hessian is diagonal, and estimated by nobody.
                let regularizer = added.regularizer();
                let end = of.end().unwrap_or_default().iter();
                for ((out, w), v) in mean.mean.iter_mut().zip(end).zip(of.direction) {
                    *out += regularizer.curvature(*w) * v;
                }
                Ok(Answer::Mean(mean))
            }
            Question::HessianVector { of, over, noise } => {
                let regularizer = added.regularizer();
                let mut mean = self.oracle.hessian_vector(of, over, noise)?;
                for ((product, w), v) in mean.mean.iter_mut().zip(of.point).zip(of.direction) {
                    *product += regularizer.curvature(*w) * v;
                }
                Ok(Answer::Mean(mean))
            }
            Question::Directional { of, over, noise } => {
                let mut gradient = vec![0.0; of.point.len()];
                added.regularizer().add_gradient(of.point, &mut gradient);
                let added = dot(&gradient, of.direction);
                let released = self.oracle.directional(of, over, noise)?;
                Ok(Answer::Number(Number::new(
                    released.number + added,
                    released.noise_std,
                )))
            }
            Question::ValueChange { of, over, noise } => {
                let regularizer = added.regularizer();
                let added = regularizer.value(of.to) - regularizer.value(of.from);
                let released = self.oracle.value_change(of, over, noise)?;
                Ok(Answer::Number(Number::new(
                    released.number + added,
                    released.noise_std,
                )))
            }
            other => self.oracle.answer(other),
        }
    }
}
