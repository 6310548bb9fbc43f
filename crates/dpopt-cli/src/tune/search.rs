//! The budget of one run, so that all runs together keep to theirs.

use std::num::NonZeroUsize;

use dpopt::certify::{
    EvaluatedLabel, ModelEvaluation, TuningCandidate, TuningPlan, TuningScore, tuning_within,
};
use dpopt::nonconvex::{Budget, PublicFacts};
use dpopt::privacy::{Accountant, Adjacency, Epsilon, Mu, Part, accounting::gdp};

use super::candidates::Candidate;
use crate::choose::Chosen;
use crate::error::CliError;
use crate::evaluated::FAILURE;

/// Tuning is accounted, and held-out records are drawn, under this relation alone.
pub(super) const ADJACENCY: Adjacency = Adjacency::ReplaceOne;
/// What does not change with the budget of a run.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) candidates: &'a [Candidate],
    pub(super) parts: [Part; 2],
    /// Numbers of records of the parts.
    pub(super) sizes: [u64; 2],
    pub(super) label: EvaluatedLabel,
    pub(super) by: TuningScore,
    /// Mean and shape of the number of runs.
    pub(super) repeats: (f64, f64),
    pub(super) total: Budget,
}

/// Candidates with their plans, and what a run gets.
pub(super) struct Searched {
    pub(super) chosen: Vec<Chosen>,
    pub(super) evaluation: ModelEvaluation,
    /// Of one run.
    pub(super) epsilon: f64,
}

impl Terms<'_> {
    /// The largest budget of a run, nearly, for which all together keep to the total.
    pub(super) fn search(&self) -> Result<Searched, CliError> {
        let wanted = self.total.epsilon.get();
        let best = tuning_within(wanted, |epsilon| -> Result<_, CliError> {
            let tried = self.planned(epsilon)?;
            let event = self.plan(&tried)?.event();
            let (_, total) = Accountant::least(&event, self.total.delta, ADJACENCY)?;
            Ok((tried, total))
        })?;
        best.ok_or_else(|| {
            let problem = format!(
                "no budget of a run was found for which all runs keep to {wanted}; give more, or fewer --repeats"
            );
            CliError::flag("--epsilon", problem)
        })
    }

    /// For runs of this epsilon.
    fn planned(&self, epsilon: f64) -> Result<Searched, CliError> {
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: self.total.delta,
        };
        let mut chosen = Vec::new();
        for (number, of) in (1..).zip(self.candidates) {
            let problem = |error: CliError| {
                let problem = format!(
                    "number {number} ({}) can't be planned with epsilon {epsilon:.3} for each run ({error}); leave it out, or give more \
                     --epsilon",
                    of.words()
                );
                CliError::flag("--candidate", problem)
            };
            let facts = self.facts(of)?;
            let planned = of.how.choose(of.solver, &of.fit, &facts, &budget);
            chosen.push(planned.map_err(problem)?);
        }
        // Rounded down by more than the accountant rounds up.
        let mu = gdp::mu_for(budget.epsilon, budget.delta)?.get() * (1.0 - 1e-9);
        let held = (self.sizes[1], ADJACENCY);
        // One of all runs misses with so many times the probability.
        let failure = FAILURE * self.some_run() / self.repeats.0;
        let evaluation = ModelEvaluation::new(held, Mu::new(mu)?, self.label, failure)?;
        Ok(Searched {
            chosen,
            evaluation,
            epsilon,
        })
    }

    /// The probability that there is a run, and so a model: a Poisson number may be zero.
    fn some_run(&self) -> f64 {
        let (mean, shape) = self.repeats;
        if shape.is_infinite() {
            -(-mean).exp_m1()
        } else {
            1.0
        }
    }

    /// Public facts of the part that is trained on.
    pub(super) fn facts(&self, of: &Candidate) -> Result<PublicFacts, CliError> {
        let schema = &of.schema;
        let row = (schema.dim(), schema.row_norm());
        let label = Some(schema.label().largest_code());
        Ok(of.fit.facts((self.sizes[0], ADJACENCY), row, label)?)
    }

    /// Of these plans.
    pub(super) fn plan<'a>(&self, of: &'a Searched) -> Result<TuningPlan<'a>, CliError> {
        let all = self.candidates.iter().zip(&of.chosen);
        let candidates = all.map(|(candidate, chosen)| -> Result<_, CliError> {
            let weights = candidate.fit.dim(candidate.schema.dim());
            Ok(TuningCandidate {
                plan: &*chosen.plan,
                model: candidate.fit.fitted(weights)?,
                start: None,
            })
        });
        Ok(TuningPlan::new(
            candidates.collect::<Result<_, _>>()?,
            (of.evaluation, self.by),
            (ADJACENCY, self.parts),
            self.repeats,
        )?)
    }
}

/// All that the machine has, or so many.
pub(super) fn threads(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    asked.unwrap_or_else(all)
}
