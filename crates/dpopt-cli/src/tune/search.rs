//! The budget of one run, so that all runs together keep to theirs.

use std::num::NonZeroUsize;

use dpopt::certify::{
    EvaluatedLabel, ModelEvaluation, TuningCandidate, TuningPlan, TuningScore, tuning_within,
};
use dpopt::nonconvex::{Budget, PublicFacts};
use dpopt::privacy::{Accountant, Adjacency, Epsilon, Mu, Part, accounting::gdp};

use super::candidates::Candidate;
use crate::args::SolverArg;
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::evaluated::FAILURE;

/// Tuning is accounted, and held-out records are drawn, under this relation alone.
pub(super) const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

/// What does not change with the candidates.
#[derive(Clone, Copy)]
pub(super) struct Fixed {
    pub(super) parts: [Part; 2],
    /// Numbers of records of the parts.
    pub(super) sizes: [u64; 2],
    pub(super) label: EvaluatedLabel,
    pub(super) by: TuningScore,
    pub(super) total: Budget,
}

/// What does not change with the budget of a run.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) candidates: &'a [Candidate],
    /// Mean and shape of the number of runs.
    pub(super) repeats: (f64, f64),
    pub(super) fixed: Fixed,
}

/// Candidates with their plans, and what a run gets.
pub(super) struct Searched {
    pub(super) chosen: Vec<Chosen>,
    pub(super) evaluation: ModelEvaluation,
    /// Of one run.
    pub(super) epsilon: f64,
}

impl Searched {
    /// For each candidate the number, from 0, of the first that is the same run: its own, or an earlier one's.
    fn firsts(&self, candidates: &[Candidate]) -> Vec<usize> {
        let all: Vec<_> = candidates.iter().zip(&self.chosen).collect();
        // Weights of 1 are none.
        let fit = |of: &Candidate| {
            let weights = of.fit.weights.clone().filter(|of| !of.are_one());
            of.fit.clone().weighted(weights)
        };
        let plans: Vec<Option<String>> = all
            .iter()
            .map(|(_, of)| serde_json::to_string(&*of.plan).ok())
            .collect();
        let same = |one: usize, other: usize| {
            let ((a, of_a), (b, of_b)) = (all[one], all[other]);
            fit(a) == fit(b)
                && a.schema.row_norm() == b.schema.row_norm()
                && of_a.solver == of_b.solver
                && of_a.plan.spend().event() == of_b.plan.spend().event()
                && plans[one].is_some()
                && plans[one] == plans[other]
        };
        let first = |other: usize| (0..other).find(|one| same(*one, other)).unwrap_or(other);
        (0..all.len()).map(first).collect()
    }
}

impl Fixed {
    /// Of these candidates.
    pub(super) fn of(self, candidates: &[Candidate], repeats: (f64, f64)) -> Terms<'_> {
        Terms {
            candidates,
            repeats,
            fixed: self,
        }
    }

    /// The largest budget of a run, and what to say of candidates that turn out to be the same run, of which one is left: more runs than
    /// there are choices cost epsilon. All that are the same go at once, since a search is slow. `repeats`: mean and shape of the number
    /// of runs, for so many candidates.
    pub(super) fn search(
        self,
        candidates: &mut Vec<Candidate>,
        repeats: impl Fn(usize) -> (f64, f64),
    ) -> Result<(Searched, Vec<String>), CliError> {
        let mut words = Vec::new();
        loop {
            let terms = self.of(candidates, repeats(candidates.len()));
            let searched = terms.search()?;
            let firsts = searched.firsts(candidates);
            let named = |at: usize| candidates.get(at).map(Candidate::words).unwrap_or_default();
            let again: Vec<(usize, usize)> = firsts.into_iter().enumerate().collect();
            let (kept, again): (Vec<_>, Vec<_>) = again.into_iter().partition(|(at, of)| at == of);
            let Some(&(other, one)) = again.first() else {
                return Ok((searched, words));
            };
            if kept.len() == 1 {
                let problem = format!(
                    "{} and {}{} are the same run, and nothing is left to choose; take `dpopt train`",
                    named(one),
                    named(other),
                    match again.len() {
                        1 => String::new(),
                        more => format!(", and {} more,", more - 1),
                    }
                );
                return Err(CliError::flag("--candidate", problem));
            }
            words.extend(again.iter().map(|(other, one)| {
                let (one, other) = (named(*one), named(*other));
                format!("the candidates {one} and {other} are the same run, and count once")
            }));
            // Of equals one that names its solver is kept: at another budget `auto` may take another.
            for (other, one) in &again {
                let auto = |at: &usize| {
                    let of = candidates.get(*at).map(|candidate| candidate.solver);
                    matches!(of, Some(SolverArg::Auto))
                };
                if auto(one) && !auto(other) {
                    candidates.swap(*one, *other);
                }
            }
            let mut at = 0;
            candidates.retain(|_| {
                at += 1;
                kept.iter().any(|(kept, _)| kept + 1 == at)
            });
        }
    }
}

impl Terms<'_> {
    /// The largest budget of a run, nearly, for which all together keep to the total.
    fn search(&self) -> Result<Searched, CliError> {
        let wanted = self.fixed.total.epsilon.get();
        let best = tuning_within(wanted, |epsilon| -> Result<_, CliError> {
            let tried = self.planned(epsilon)?;
            let event = self.plan(&tried)?.event();
            let (_, total) = Accountant::least(&event, self.fixed.total.delta, ADJACENCY)?;
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
            delta: self.fixed.total.delta,
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
        let held = (self.fixed.sizes[1], ADJACENCY);
        // One of all runs misses with so many times the probability.
        let failure = FAILURE * self.some_run() / self.repeats.0;
        let evaluation = ModelEvaluation::new(held, Mu::new(mu)?, self.fixed.label, failure)?;
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
        Ok(of.fit.facts((self.fixed.sizes[0], ADJACENCY), row, label)?)
    }

    /// Of these plans.
    pub(super) fn plan<'a>(&'a self, of: &'a Searched) -> Result<TuningPlan<'a>, CliError> {
        let all = self.candidates.iter().zip(&of.chosen);
        let candidates = all.map(|(candidate, chosen)| -> Result<_, CliError> {
            let weights = candidate.fit.dim(candidate.schema.dim());
            Ok(TuningCandidate {
                plan: &*chosen.plan,
                model: candidate.fit.fitted(weights)?,
                weights: candidate
                    .fit
                    .weights
                    .as_ref()
                    .map(|of| of.factors().clone()),
                start: candidate.start.as_deref(),
            })
        });
        Ok(TuningPlan::new(
            candidates.collect::<Result<_, _>>()?,
            (of.evaluation, self.fixed.by),
            (ADJACENCY, self.fixed.parts),
            self.repeats,
        )?)
    }
}

/// All that the machine has, or so many.
pub(super) fn threads(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    asked.unwrap_or_else(all)
}
