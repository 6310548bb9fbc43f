//! The canary audit: many runs with and without one record, and a test between them.

use super::statistic::Errors;
use super::{AuditError, CheckError, Claim, Kind, Label, Row, Settings, Statistic, Target};
use crate::checks::{in_parts, mixed};

/// Share of the runs on which the threshold is chosen; the bound is from the others.
const HELD_OUT: u64 = 5;
/// Thresholds that are tried.
const THRESHOLDS: usize = 400;

/// Which of two neighbouring data sets a run reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// The one with the canary.
    In,
    /// Its neighbour.
    Out,
}

type Score = Box<dyn Fn(World, u64) -> Result<f64, CheckError> + Send + Sync>;

/// A mechanism with a score that is high where the canary is in.
///
/// # Formula
/// A fifth of the runs choose the threshold. On the others Clopper-Pearson limits hold for both error rates
/// of the threshold test together, at the stated confidence; [`Statistic`] makes a lower bound of
/// them. The choice of the threshold can't hurt: it does not depend on the runs that are counted.
///
/// The likelihood ratio of what is released is the best score; any score is valid.
pub struct Canary {
    label: Label,
    claim: Claim,
    statistic: Statistic,
    quick: u64,
    full: u64,
    at_least: Option<f64>,
    score: Score,
}

impl Canary {
    /// A target whose runs are made by `score`, from a world and a seed; runs must depend on nothing
    /// else. 10,000 runs, 100,000 in a full audit.
    #[must_use]
    pub fn new(
        name: &str,
        group: &str,
        claim: Claim,
        statistic: Statistic,
        score: impl Fn(World, u64) -> Result<f64, CheckError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            label: Label::new(name, group),
            claim,
            statistic,
            quick: 10_000,
            full: 100_000,
            at_least: None,
            score: Box::new(score),
        }
    }

    /// Sets the number of runs, half of them in each world.
    #[must_use]
    pub fn with_runs(mut self, quick: u64, full: u64) -> Self {
        (self.quick, self.full) = (quick, full);
        self
    }

    /// Declares it a broken twin, whose claim must be refuted.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.label.control = true;
        self
    }

    /// Fails where the lower bound is below this: the auditor is too loose then.
    #[must_use]
    pub fn at_least(mut self, epsilon: f64) -> Self {
        self.at_least = Some(epsilon);
        self
    }

    /// The scores of the runs of one world.
    fn scores(&self, world: World, runs: u64, seed: u64) -> Result<Vec<f64>, AuditError> {
        let score = |run: u64| {
            let use_ = 2 * run + u64::from(world == World::In);
            let score = (self.score)(world, mixed(seed, use_))?;
            if score.is_nan() {
                return Err(AuditError::Score {
                    target: self.label.name.clone(),
                    run,
                    score,
                });
            }
            Ok(score)
        };
        let parts = in_parts(runs, |part| {
            part.map(score).collect::<Result<Vec<f64>, _>>()
        });
        let parts: Result<Vec<Vec<f64>>, _> = parts.into_iter().collect();
        Ok(parts?.concat())
    }
}

impl Target for Canary {
    fn label(&self) -> &Label {
        &self.label
    }

    fn audit(&self, settings: &Settings) -> Result<Row, AuditError> {
        // What has to be refuted, or to come near a bound, needs them all.
        let runs = if self.label.control || self.at_least.is_some() {
            settings.effort.pick(self.quick, self.full)
        } else {
            settings.effort.runs(self.quick, self.full)
        } / 2;
        if runs < 2 * HELD_OUT {
            return Err(AuditError::Setting {
                name: "runs",
                needs: "at least 20",
                value: 2.0 * runs as f64,
            });
        }
        let seed = self.label.seed(settings);
        let with = self.scores(World::In, runs, seed)?;
        let without = self.scores(World::Out, runs, seed)?;
        let held = (runs / HELD_OUT) as usize;
        let threshold = best_threshold(
            &self.statistic,
            self.claim.delta,
            settings.confidence,
            (&without[..held], &with[..held]),
        );
        let errors = count(&without[held..], &with[held..], threshold);
        let bound = self
            .statistic
            .bound(errors, self.claim.delta, settings.confidence)?;
        let refuted = match (bound.mu, self.claim.mu) {
            (Some(found), Some(claimed)) => found > claimed,
            _ => bound.epsilon > self.claim.epsilon,
        };
        let loose = self.at_least.is_some_and(|least| bound.epsilon < least);
        let why = if refuted {
            format!(
                "{} false alarms in {} runs and {} misses in {} refute the claim",
                errors.false_positives, errors.without, errors.false_negatives, errors.with
            )
        } else if loose {
            "the lower bound is below what this auditor must reach".to_owned()
        } else {
            "not refuted".to_owned()
        };
        // A loose auditor is no reason to let a twin pass, which has to be refuted.
        let failed = refuted || loose && !self.label.control;
        Ok(Row {
            claimed_epsilon: Some(self.claim.epsilon),
            delta: self.claim.delta,
            lower_bound: Some(bound.epsilon),
            claimed_mu: self.claim.mu,
            confidence: Some(settings.confidence),
            ..self.label.row(Kind::Canary, 2 * runs, failed, why)
        })
    }
}

/// The errors of "in if the score is at least the threshold".
fn count(without: &[f64], with: &[f64], threshold: f64) -> Errors {
    let high = |scores: &[f64]| scores.iter().filter(|&&s| s >= threshold).count() as u64;
    Errors {
        false_positives: high(without),
        without: without.len() as u64,
        false_negatives: with.len() as u64 - high(with),
        with: with.len() as u64,
    }
}

fn median(scores: &[f64]) -> f64 {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The threshold with the largest bound from these runs. (Their own number, and not that of the runs to
/// come, makes rare events look as uncertain as they are here; or else luck in a tail would win.)
fn best_threshold(
    statistic: &Statistic,
    delta: f64,
    confidence: f64,
    (without, with): (&[f64], &[f64]),
) -> f64 {
    let mut all: Vec<f64> = without.iter().chain(with).copied().collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let every = all.len().div_ceil(THRESHOLDS).max(1);
    let middle = median(without).midpoint(median(with));
    let mut best = (f64::NEG_INFINITY, f64::INFINITY);
    for &threshold in all.iter().step_by(every).chain([&middle]) {
        let errors = count(without, with, threshold);
        let merit = statistic.merit(errors, delta, confidence);
        // Where nothing is refuted yet, the largest difference of the rates promises most.
        let rates = 1.0
            - errors.false_positives as f64 / errors.without as f64
            - errors.false_negatives as f64 / errors.with as f64;
        let merit = if merit > 0.0 { merit } else { rates - 2.0 };
        // The best for shifted Gaussians; another must be clearly better, and not by luck.
        let favoured = threshold == middle && matches!(statistic, Statistic::GaussianDp);
        let merit = if favoured && merit > 0.0 {
            1.5 * merit
        } else {
            merit
        };
        if merit > best.0 {
            best = (merit, threshold);
        }
    }
    best.1
}
