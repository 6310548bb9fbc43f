//! A planned solver: why it was picked, what its plan states, and what a run with it says.

use dpopt::minimax::SaddleSolver;
use dpopt::nonconvex::{AutoReason, BoundSense, Outcome, Plan, StatedBound, Stop, Withheld};
use dpopt::oracle::NoSample;

use crate::args::{AnySolver, SolverArg};
use crate::no_bound::NoBound;
use crate::sosp_args::How;

/// How far a walk went that should have stayed in a ball around 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reach {
    pub(crate) walk: f64,
    pub(crate) result: f64,
    pub(crate) ball: f64,
}

/// A planned solver.
pub(crate) struct Chosen {
    pub(crate) solver: AnySolver,
    pub(crate) plan: Box<dyn Plan>,
    /// The line of the public rule that picked it; none where the user named it.
    pub(crate) picked: Option<AutoReason>,
    /// Public claims that it was planned with: name, value.
    pub(crate) claims: Vec<(&'static str, f64)>,
    /// How `sosp` goes about it.
    pub(crate) how: Option<How>,
    /// Whether the walk starts at a checkpoint's point.
    pub(crate) resumed: bool,
    /// Whether the solver of a saddle problem was left to auto.
    pub(crate) by_rule: bool,
    /// What is odd about the facts that it was planned with.
    pub(crate) odd: Option<String>,
    /// The largest norms of the points of the walk and of the result, where constants hold on a ball only, and its radius.
    pub(crate) reach: Option<Reach>,
    /// Why slices of these records may be no fresh sample of the population; none where nothing tells against it.
    pub(crate) no_sample: Option<NoBound>,
}

impl Chosen {
    /// A plan of a saddle problem.
    pub(crate) fn saddle(
        solver: &'static SaddleSolver,
        plan: Box<dyn Plan>,
        asked: SolverArg,
    ) -> Self {
        Self {
            solver: AnySolver::Saddle(solver),
            plan,
            picked: None,
            claims: Vec::new(),
            how: None,
            resumed: false,
            by_rule: asked == SolverArg::Auto,
            odd: None,
            reach: None,
            no_sample: None,
        }
    }

    /// The bound that the plan states of its runs, or the reason that it states none: what public facts say before a run.
    pub(crate) fn planned_bound(&self) -> Result<StatedBound, NoBound> {
        self.foreseen(self.plan.bound(), false)
    }

    /// `bound`, unless public facts rule it out. `certified`: it was released of the result itself.
    fn foreseen(
        &self,
        bound: Option<StatedBound>,
        certified: bool,
    ) -> Result<StatedBound, NoBound> {
        let (terms, sense) = (self.plan.terms(), self.plan.bound_sense());
        let adjacency = self.plan.facts().adjacency;
        let counted = adjacency.record_count_is_public();
        if terms.states_a_bound() && counted && !sense.holds_under(adjacency) {
            return Err(NoBound::Erased);
        }
        let bound = bound.ok_or(match terms.certifies() && !counted {
            true => NoBound::DeclaredSize,
            false => NoBound::Plan,
        })?;
        if !counted {
            return Err(NoBound::DeclaredSize);
        }
        // A certificate holds wherever the walk began, unless it is of the population: the start depends on the records.
        let of_population = sense.of_population();
        if self.resumed && (of_population || !certified) {
            return Err(NoBound::Checkpoint);
        }
        match self.no_sample.filter(|_| of_population) {
            Some(why) => Err(why),
            None => Ok(bound),
        }
    }

    /// What is proven of the point that a run returned, or why nothing is.
    pub(crate) fn bound_of(&self, outcome: &Outcome) -> Result<StatedBound, NoBound> {
        // What was released of the result itself holds of the records wherever the walk began, and whatever the plan stated before it.
        let certified = outcome.bound().filter(|bound| bound.curvature.is_some());
        let unfinished = matches!(
            outcome.stop,
            Stop::BudgetUsed
                | Stop::StepCap
                | Stop::CandidatesUsed
                | Stop::RecordsExhausted
                | Stop::NoGain
        );
        let planned = self.plan.bound().or(certified);
        self.foreseen(planned, certified.is_some())
            .map_err(|why| match why {
                NoBound::Plan if self.plan.terms().certifies() && unfinished => {
                    NoBound::NoCertificate
                }
                NoBound::Plan
                    if self.plan.terms().certifies() && outcome.stop == Stop::Diverged =>
                {
                    NoBound::Diverged
                }
                why => why,
            })?;
        // A certificate asks nothing of the walk.
        let outside = |reach: &Reach| match certified {
            Some(_) => !(reach.result <= reach.ball),
            None => !(reach.walk.max(reach.result) <= reach.ball),
        };
        if self.reach.as_ref().is_some_and(outside) {
            return Err(NoBound::LeftBall);
        }
        let withheld = outcome.withheld().map(|why| match why {
            Withheld::NoSample(NoSample::Adjacency { .. }) => NoBound::Erased,
            Withheld::NoSample(_) => NoBound::MaybeRead,
            Withheld::Constant { .. }
            | Withheld::Shortened
            | Withheld::Blocks
            | Withheld::Domain => NoBound::Constants,
            Withheld::DeclaredSize { .. } => NoBound::DeclaredSize,
            Withheld::OtherRecords { .. } => NoBound::OtherRecords,
            Withheld::SinglePrecision => NoBound::SinglePrecision,
            Withheld::Regularized => NoBound::Regularized,
        });
        if let Some(why) = withheld {
            return Err(why);
        }
        let bound = outcome.bound().ok_or(match outcome.stop {
            Stop::Diverged => NoBound::Diverged,
            _ if unfinished => NoBound::NoCertificate,
            _ => NoBound::Stop,
        })?;
        let with_probability = matches!(
            bound.sense,
            BoundSense::WithProbability | BoundSense::PopulationWithProbability
        );
        if outcome.returned_start() && !with_probability {
            return Err(NoBound::Start);
        }
        Ok(bound)
    }

    /// What the starting point satisfies already. Of a checkpoint's point nothing is known but the bound on all gradients.
    pub(crate) fn trivial_bound(&self) -> f64 {
        if self.resumed {
            self.plan.facts().lipschitz
        } else {
            self.plan.trivial_bound()
        }
    }

    /// What public facts tell already: that they are odd, and that a run may learn nothing.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_plan = self.plan.warning(self.trivial_bound());
        self.odd.iter().cloned().chain(of_plan).collect()
    }

    /// Why this solver.
    pub(crate) fn reason(&self) -> String {
        match (self.picked, self.solver) {
            (Some(reason), _) => format!("auto: {reason}"),
            (None, AnySolver::Saddle(_)) if self.by_rule => {
                "auto: no solver of saddle problems with a bound is for tables of this kind"
                    .to_owned()
            }
            (None, _) => "as asked for".to_owned(),
        }
    }
}
