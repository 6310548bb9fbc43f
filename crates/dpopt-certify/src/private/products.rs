//! Certificates by products with the Hessian, where there is no whole one.

use dpopt_oracle::{
    Answer, AskError, Books, Mean, Oracle, OracleFacts, PrivateMean, Question, TwiceDifferentiable,
};
use dpopt_privacy::Mu;
use dpopt_solver::{Episode, EpisodeTerms, PublicFacts};

use super::PrivateCertificateError;

/// h/lambda of an exit, to try: the largest for which an episode takes at most half of mu^2. Choices; the first needs least.
const BENDS: [f64; 5] = [LEAST_BEND, 0.35, 0.5, 0.6, 0.7];
pub(super) const LEAST_BEND: f64 = 0.25;

/// The episode, and what it costs in squared mu.
pub(super) fn cheapest(
    facts: &PublicFacts,
    mu: Mu,
    failure: f64,
    curvature: f64,
) -> Result<(Episode, f64), PrivateCertificateError> {
    facts.check()?;
    PrivateCertificateError::fraction("failure", failure)?;
    let terms = EpisodeTerms {
        dim: facts.dim,
        smoothness: facts.smoothness,
        curvature,
        missed: 0.5 * failure,
        false_exit: 0.5 * failure,
    };
    let (records, most) = (facts.records as f64, mu.get() * mu.get());
    let mut best = None;
    let mut dearest = f64::INFINITY;
    for (i, bend) in BENDS.into_iter().enumerate() {
        let Some(episode) = Episode::cheapest(&terms, bend * curvature) else {
            continue;
        };
        let cost = episode.cost(facts.adjacency, records);
        dearest = dearest.min(cost);
        let share = if i == 0 { 0.99 } else { 0.5 };
        if cost <= share * most {
            best = Some((episode, cost));
        }
    }
    best.ok_or(match dearest.is_finite() {
        true => PrivateCertificateError::DearEpisode {
            cost: dearest,
            budget: most,
            curvature,
            records: facts.records,
        },
        false => PrivateCertificateError::NoEpisode {
            curvature,
            smoothness: facts.smoothness,
            dim: facts.dim,
            missed: terms.missed,
        },
    })
}

/// Private means that answer questions for products, whether they were told to or not.
pub(super) struct WithProducts<'m, 'a, L: TwiceDifferentiable>(
    pub(super) &'m mut PrivateMean<'a, L>,
);

impl<L: TwiceDifferentiable> Oracle for WithProducts<'_, '_, L> {
    fn facts(&self) -> OracleFacts {
        self.0.facts()
    }

    fn books(&mut self) -> &mut Books {
        self.0.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let Question::HessianVector { of, over, noise } = question else {
            return self.0.answer(question);
        };
        let mean = self.0.release(&of, over, noise)?;
        let zero = || Mean::new(vec![0.0; of.point.len()], 0.0);
        Ok(Answer::Mean(mean.unwrap_or_else(zero)))
    }
}
