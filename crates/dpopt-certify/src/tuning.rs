//! The best of several private trainings, by a private score on records that were held out: repeat-and-select of whole runs.

use std::num::NonZeroUsize;

use dpopt_oracle::{ClassWeights, Offers, PrivateData};
use dpopt_privacy::selection::Best;
use dpopt_privacy::{Adjacency, Curator, Event, InnerRun, Part, Refused, Spend, TuningInParts};
use dpopt_solver::{GlmRun, NoObserver, Outcome, Plan, RunError, Stop, needs_one_product};
use serde::{Deserialize, Serialize};

use crate::evaluation::{EvaluatedModel, EvaluationError, FittedModel, ModelEvaluation};

/// One way to train.
#[derive(Debug, Clone)]
pub struct TuningCandidate<'a> {
    /// For the records that are trained on.
    pub plan: &'a dyn Plan,
    /// The fitted model.
    pub model: FittedModel,
    /// Public factors of records' losses in training, by their labels; none: all count alike.
    pub weights: Option<ClassWeights>,
    /// Where it starts; none: at the origin.
    pub start: Option<&'a [f64]>,
}

/// A candidate's records: the two parts of a table that [`PrivateData::set_aside`] makes. Another bound on rows makes other rows, of the
/// same records at the same positions.
#[derive(Clone, Copy)]
pub struct TuningRecords<'a> {
    /// To train on.
    pub train: &'a PrivateData,
    /// To score on.
    pub held: &'a PrivateData,
}

/// The number by which runs are compared, as the evaluation estimates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuningScore {
    /// Area under the ROC curve.
    Auc,
    /// Share of records that are called rightly.
    Accuracy,
    /// Mean absolute error, the smaller the better.
    AbsoluteError,
    /// Mean squared error, the smaller the better.
    SquaredError,
}

impl TuningScore {
    /// Every score.
    pub const ALL: [Self; 4] = [
        Self::Auc,
        Self::Accuracy,
        Self::AbsoluteError,
        Self::SquaredError,
    ];

    /// The score of an evaluation, larger for better models; none if the evaluation has no such score.
    #[must_use]
    pub fn of(self, found: &EvaluatedModel) -> Option<f64> {
        match (self, found) {
            (Self::Auc, EvaluatedModel::Scores(found)) => Some(found.auc.middle()),
            (Self::Accuracy, EvaluatedModel::Scores(found)) => Some(found.accuracy.middle()),
            (Self::Accuracy, EvaluatedModel::Classes(found)) => {
                Some(found.accuracy.records.middle())
            }
            (Self::AbsoluteError, EvaluatedModel::Number(found)) => {
                Some(-found.mean_absolute_error.records.middle())
            }
            (Self::SquaredError, EvaluatedModel::Number(found)) => {
                Some(-found.mean_squared_error.records.middle())
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for TuningScore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auc => "auc",
            Self::Accuracy => "accuracy",
            Self::AbsoluteError => "absolute-error",
            Self::SquaredError => "squared-error",
        })
    }
}

/// A tuning could not be planned or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// One candidate leaves nothing to choose.
    #[error("{given} candidates were given, and a choice is among two or more")]
    TooFew {
        /// How many.
        given: usize,
    },
    /// A solver whose releases rest on a claim about the loss.
    #[error(
        "candidate {candidate}, {solver}, makes passes whose sensitivity rests on a claim, which an inner run can't pass on; leave it out"
    )]
    Claimed {
        /// The number of the candidate, counted from 1.
        candidate: usize,
        /// Its solver.
        solver: &'static str,
    },
    /// The releases of a candidate can't be those of an inner run on a part of a table.
    #[error("candidate {candidate}, {solver}: {why}; leave it out")]
    Candidate {
        /// The number of the candidate, counted from 1.
        candidate: usize,
        /// Its solver.
        solver: &'static str,
        /// Why.
        why: Box<Refused>,
    },
    /// Not as many tables as candidates.
    #[error("{candidates} candidates have {records} pairs of records")]
    Records {
        /// Candidates.
        candidates: usize,
        /// Pairs.
        records: usize,
    },
    /// Records that are no part of the split that was planned for.
    #[error("the records of candidate {candidate} are not the two parts that were planned for")]
    OtherParts {
        /// The number of the candidate, counted from 1.
        candidate: usize,
    },
    /// Records, a plan or a model that do not go together.
    #[error("candidate {candidate}: {what} is {found}, and {planned} was planned for")]
    Mismatch {
        /// The number of the candidate, counted from 1.
        candidate: usize,
        /// The fact that differs.
        what: &'static str,
        /// In the plan.
        planned: u64,
        /// In the data.
        found: u64,
    },
    /// Records of another neighbouring relation.
    #[error(
        "candidate {candidate}: its records are of {found} adjacency, and {planned} was planned for"
    )]
    Adjacency {
        /// The number of the candidate, counted from 1.
        candidate: usize,
        /// In the plan.
        planned: Adjacency,
        /// In the data.
        found: Adjacency,
    },
    /// A solver of losses of one inner product, and another model.
    #[error(
        "candidate {candidate}, {solver}, is for losses of one inner product, and its model has several; leave it out"
    )]
    NotOneProduct {
        /// The number of the candidate, counted from 1.
        candidate: usize,
        /// Its solver.
        solver: &'static str,
    },
    /// The evaluation.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// A reservation was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A planned choice among candidates.
///
/// # Formula
/// A number K of runs is drawn, [`TuningInParts`]. Each run draws a candidate uniformly, trains it, evaluates the point on the records that
/// were held out, and the best by [`TuningScore`] is returned. Intervals of its evaluation hold all the same, where each was planned to
/// miss with a K-th of what is wanted: one of K runs misses with at most E K times the probability.
///
/// # Privacy
/// One [`Event::RepeatAndSelect`]. No closure and no observer sees a run: what a run that was not selected has released is dropped in here.
/// Time and memory tell how many there were. `docs/privacy/selection.md`.
pub struct TuningPlan<'a> {
    candidates: Vec<TuningCandidate<'a>>,
    evaluation: ModelEvaluation,
    by: TuningScore,
    adjacency: Adjacency,
    parts: [Part; 2],
    in_parts: TuningInParts,
}

/// The best run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// The number of its candidate, counted from 0.
    pub candidate: usize,
    /// How it was trained. A bound of its plan is none of the best of several runs.
    pub outcome: Outcome,
    /// Evaluation on the held-out records.
    pub evaluation: EvaluatedModel,
}

/// The best run is one that failed: so did all others.
#[derive(Debug)]
#[non_exhaustive]
pub enum TuningFailure {
    /// The number of runs was zero, as a Poisson number may be.
    NoRun,
    /// A release of training was refused.
    Training(RunError),
    /// The walk left the range of numbers.
    Diverged,
    /// The evaluation was refused.
    Evaluation(EvaluationError),
}

impl std::fmt::Display for TuningFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRun => f.write_str(
                "the number of runs that was drawn is zero, as a Poisson number may be: there is no model",
            ),
            Self::Training(error) => error.fmt(f),
            Self::Diverged => f.write_str("the best of the runs left the range of numbers"),
            Self::Evaluation(error) => error.fmt(f),
        }
    }
}

/// Plans that are made of all candidates. The total is nearly proportional to what one run gets, so three or four do.
const ROUNDS: usize = 12;
/// A plan of so much of the budget is good enough.
const CLOSE: f64 = 0.99;
/// First guess of the cost of the random number of runs: the search begins there.
const FIRST: f64 = 1.6;

/// The plan for nearly the largest epsilon of a run with which the whole tuning keeps to `wanted`;
/// none if there is none. `planned` plans for an epsilon of a run, and returns the epsilon of the whole.
///
/// # Errors
/// Those of `planned`.
pub fn tuning_within<T, E>(
    wanted: f64,
    mut planned: impl FnMut(f64) -> Result<(T, f64), E>,
) -> Result<Option<T>, E> {
    let mut epsilon = wanted / FIRST;
    let mut best: Option<(f64, T)> = None;
    for _ in 0..ROUNDS {
        let (found, total) = planned(epsilon)?;
        let share = total / wanted;
        let fits = share <= 1.0;
        if fits && best.as_ref().is_none_or(|(best, _)| *best < epsilon) {
            best = Some((epsilon, found));
        }
        if fits && share >= CLOSE {
            break;
        }
        // Aims into the gap.
        epsilon *= 0.5 * (1.0 + CLOSE) / share;
    }
    Ok(best.map(|(_, found)| found))
}

impl<'a> TuningPlan<'a> {
    /// A choice among these. The mean and the shape of the number of runs are those of [`dpopt_privacy::selection::Tuning::new`].
    ///
    /// # Errors
    /// [`TuningError`].
    pub fn new(
        candidates: Vec<TuningCandidate<'a>>,
        (evaluation, by): (ModelEvaluation, TuningScore),
        (adjacency, parts): (Adjacency, [Part; 2]),
        repeats: (f64, f64),
    ) -> Result<Self, TuningError> {
        let given = candidates.len();
        if given < 2 {
            return Err(TuningError::TooFew { given });
        }
        let claims = |of: &TuningCandidate<'_>| of.plan.needs().covers(Offers::PASSES);
        let mut numbered = (1..).zip(&candidates);
        if let Some((candidate, of)) = numbered.find(|(_, of)| claims(of)) {
            let solver = of.plan.name();
            return Err(TuningError::Claimed { candidate, solver });
        }
        for (candidate, of) in (1..).zip(&candidates) {
            let found = of.plan.facts().adjacency;
            if found != adjacency {
                return Err(TuningError::Adjacency {
                    candidate,
                    planned: adjacency,
                    found,
                });
            }
            let several = matches!(
                of.model,
                FittedModel::Classes(_) | FittedModel::Perceptron(_)
            );
            if several && needs_one_product(of.plan) {
                let solver = of.plan.name();
                return Err(TuningError::NotOneProduct { candidate, solver });
            }
        }
        let trained: Vec<Spend> = candidates.iter().map(|of| of.plan.spend()).collect();
        let scored = evaluation.typical()?.tally().spend();
        for ((candidate, of), spend) in (1..).zip(&candidates).zip(&trained) {
            let alone = (vec![spend.clone()], scored.clone());
            TuningInParts::new(adjacency, parts, alone, repeats).map_err(|why| {
                let solver = of.plan.name();
                let why = Box::new(why);
                TuningError::Candidate {
                    candidate,
                    solver,
                    why,
                }
            })?;
        }
        let in_parts = TuningInParts::new(adjacency, parts, (trained, scored), repeats)?;
        Ok(Self {
            candidates,
            evaluation,
            by,
            adjacency,
            parts,
            in_parts,
        })
    }

    /// The reservation.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(self.event())
    }

    /// Its cost.
    #[must_use]
    pub fn event(&self) -> Event {
        self.in_parts.event()
    }

    /// Runs them, from what the curator has reserved: [`TuningPlan::spend`]. Each candidate has its records. Settling is the caller's.
    ///
    /// # Errors
    /// [`TuningError`], before anything is charged. What became of the runs is the result: none of them may end the others.
    pub fn run(
        &self,
        records: &[TuningRecords<'_>],
        curator: &mut Curator,
        threads: NonZeroUsize,
    ) -> Result<Result<Tuned, TuningFailure>, TuningError> {
        if records.len() != self.candidates.len() {
            let (candidates, records) = (self.candidates.len(), records.len());
            return Err(TuningError::Records {
                candidates,
                records,
            });
        }
        let own = |of: &TuningRecords<'_>| [of.train.part(), of.held.part()];
        let other = |of: &TuningRecords<'_>| own(of) != self.parts.map(Some);
        if let Some(at) = records.iter().position(other) {
            return Err(TuningError::OtherParts { candidate: at + 1 });
        }
        for ((candidate, of), records) in (1..).zip(&self.candidates).zip(records) {
            self.check(candidate, of, records)?;
        }
        let best = curator.repeat_and_select_in_parts(&self.in_parts, |inner| {
            let tried = self.one(records, inner, threads);
            let score = match &tried {
                Ok(tuned) => self.by.of(&tuned.evaluation),
                Err(_) => None,
            };
            (tried, score.unwrap_or(f64::NEG_INFINITY))
        })?;
        Ok(match best {
            Some(Best { value, .. }) => value,
            None => Err(TuningFailure::NoRun),
        })
    }

    /// Refuses records of another adjacency, of other numbers, or of another model.
    fn check(
        &self,
        candidate: usize,
        of: &TuningCandidate<'_>,
        records: &TuningRecords<'_>,
    ) -> Result<(), TuningError> {
        for found in [records.train.adjacency(), records.held.adjacency()] {
            if found != self.adjacency {
                return Err(TuningError::Adjacency {
                    candidate,
                    planned: self.adjacency,
                    found,
                });
            }
        }
        let (facts, columns) = (of.plan.facts(), records.train.dim());
        let dim = facts.dim as u64;
        let weights = of.model.weights(columns).map_or(0, |found| found as u64);
        let start = of.start.map_or(dim, |start| start.len() as u64);
        let held = records.held;
        for (what, planned, found) in [
            (
                "the number of records that are trained on",
                facts.records,
                records.train.public_records(),
            ),
            (
                "the number of records that are held out",
                self.evaluation.records(),
                held.public_records(),
            ),
            ("the number of weights of the model", dim, weights),
            ("the length of the starting point", dim, start),
            (
                "the number of columns of the records that are held out",
                columns as u64,
                held.dim() as u64,
            ),
        ] {
            if planned != found {
                return Err(TuningError::Mismatch {
                    candidate,
                    what,
                    planned,
                    found,
                });
            }
        }
        Ok(())
    }

    /// One run.
    fn one(
        &self,
        records: &[TuningRecords<'_>],
        inner: InnerRun,
        threads: NonZeroUsize,
    ) -> Result<Tuned, TuningFailure> {
        let at = inner.candidate;
        let (Some(candidate), Some(records)) = (self.candidates.get(at), records.get(at)) else {
            return Err(TuningFailure::NoRun);
        };
        let train = inner.train;
        let run = match candidate.model.clone() {
            FittedModel::Linear(loss) => GlmRun::new(records.train, loss, train),
            FittedModel::Network(network) => {
                GlmRun::new(records.train, network.head(), train).of_network(Some(network))
            }
            FittedModel::Link(link) => {
                GlmRun::new(records.train, link.phi(), train).of_link(Some(link))
            }
            FittedModel::Classes(classes) => GlmRun::of_classes(records.train, classes, train),
            FittedModel::Perceptron(mlp) => GlmRun::of_perceptron(records.train, mlp, train),
        };
        let run = run.with_threads(threads).starting_at(candidate.start);
        let run = run.weighted(candidate.weights.clone());
        let (outcome, _) = run
            .run(candidate.plan, &mut NoObserver)
            .map_err(TuningFailure::Training)?;
        if outcome.stop == Stop::Diverged || !outcome.point.iter().all(|x| x.is_finite()) {
            return Err(TuningFailure::Diverged);
        }
        let (model, point) = (&candidate.model, &outcome.point[..]);
        let mut score = inner.score;
        let evaluated = self
            .evaluation
            .of_point(model, point, records.held.row_norm())
            .and_then(|plan| {
                let reserved = score.reserve(&plan.tally().spend());
                reserved.map_err(|refused| EvaluationError::Ask(refused.into()))?;
                plan.release(records.held, (model, point), score, threads)
            });
        let (evaluation, _) = evaluated.map_err(TuningFailure::Evaluation)?;
        Ok(Tuned {
            candidate: at,
            outcome,
            evaluation,
        })
    }
}
