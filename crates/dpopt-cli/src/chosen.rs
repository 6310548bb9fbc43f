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

    /// What is proven of the point that a run returned, or why nothing is.
    pub(crate) fn bound_of(&self, outcome: &Outcome) -> Result<StatedBound, NoBound> {
        let (sense, adjacency) = (self.plan.bound_sense(), self.plan.facts().adjacency);
        let stated = self.plan.terms().states_a_bound();
        if stated && adjacency.record_count_is_public() && !sense.holds_under(adjacency) {
            return Err(NoBound::Erased);
        }
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
        if self.plan.bound().is_none() && certified.is_none() {
            return Err(match self.plan.terms().certifies() {
                true if !adjacency.record_count_is_public() => NoBound::DeclaredSize,
                true if unfinished => NoBound::NoCertificate,
                true if outcome.stop == Stop::Diverged => NoBound::Diverged,
                _ => NoBound::Plan,
            });
        }
        if !adjacency.record_count_is_public() {
            return Err(NoBound::DeclaredSize);
        }
        // A certificate asks nothing of the walk.
        let outside = |reach: &Reach| match certified {
            Some(_) => !(reach.result <= reach.ball),
            None => !(reach.walk.max(reach.result) <= reach.ball),
        };
        if self.reach.as_ref().is_some_and(outside) {
            return Err(NoBound::LeftBall);
        }
        // Unless it is said of the population: of that, records that the start hangs on are no fresh sample.
        let of_population = self.plan.bound_sense().of_population();
        if self.resumed && (of_population || certified.is_none()) {
            return Err(NoBound::Checkpoint);
        }
        if let Some(why) = self.no_sample.filter(|_| of_population) {
            return Err(why);
        }
        let withheld = outcome.withheld().map(|why| match why {
            Withheld::NoSample(NoSample::Adjacency { .. }) => NoBound::Erased,
            Withheld::NoSample(_) => NoBound::MaybeRead,
            Withheld::Constant { .. } | Withheld::Shortened => NoBound::Constants,
            Withheld::DeclaredSize { .. } => NoBound::DeclaredSize,
            Withheld::Noise { .. } => NoBound::Noise,
            _ => NoBound::Stop,
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
