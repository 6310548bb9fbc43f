//! The one-run audit: many canaries, each in or out by a coin of its own, in a single run.
//!
//! Steinke, Nasr and Jagielski 2023 ("Privacy auditing with one (1) training run",
//! arXiv 2305.08846). The auditor scores every canary, guesses the r with the most telling scores and abstains
//! on the others. Under (epsilon, delta)-DP the number of correct guesses is dominated by that of r coins
//! of probability e^epsilon/(1 + e^epsilon), up to delta (their Theorem 5.2).

use super::binomial::{mass, upper_tail};
use super::{AuditError, CheckError, Claim, Kind, Label, Row, Settings, Target};
use crate::checks::mixed;

type Scores = Box<dyn Fn(&[bool], u64) -> Result<Vec<f64>, CheckError> + Send + Sync>;

/// A mechanism that takes any subset of its canaries, and scores each.
///
/// The claim must hold under an adjacency by which a canary may be absent: add-remove or
/// zero-out. The number of guesses is chosen on a run of its own.
pub struct OneRun {
    label: Label,
    claim: Claim,
    quick: u64,
    full: u64,
    scores: Scores,
}

impl OneRun {
    /// A target whose run on the canaries that are `true`, from a seed, gives one score for each canary,
    /// high where it seems to be in. `quick` and `full` are numbers of canaries.
    #[must_use]
    pub fn new(
        name: &str,
        group: &str,
        claim: Claim,
        (quick, full): (u64, u64),
        scores: impl Fn(&[bool], u64) -> Result<Vec<f64>, CheckError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            label: Label::new(name, group),
            claim,
            quick,
            full,
            scores: Box::new(scores),
        }
    }

    /// Declares it a broken twin, whose claim must be refuted.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.label.control = true;
        self
    }

    /// The canaries of one run with their scores, the most telling first: (guess, truth).
    fn guesses(&self, canaries: u64, seed: u64) -> Result<Vec<(bool, bool)>, AuditError> {
        let truth: Vec<bool> = (0..canaries)
            .map(|i| mixed(mixed(seed, 1), i) & 1 == 1)
            .collect();
        let scores = (self.scores)(&truth, mixed(seed, 2))?;
        if let Some(run) = scores.iter().position(|score| score.is_nan()) {
            return Err(AuditError::Score {
                target: self.label.name.clone(),
                run: run as u64,
                score: scores[run],
            });
        }
        let mut order: Vec<usize> = (0..scores.len().min(truth.len())).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        // Highest and lowest scores alternate: as many are guessed in as out.
        let (mut low, mut high) = (0, order.len());
        let mut guesses = Vec::with_capacity(order.len());
        while low < high {
            high -= 1;
            guesses.push((true, truth[order[high]]));
            if low < high {
                guesses.push((false, truth[order[low]]));
                low += 1;
            }
        }
        Ok(guesses)
    }
}

impl Target for OneRun {
    fn label(&self) -> &Label {
        &self.label
    }

    fn audit(&self, settings: &Settings) -> Result<Row, AuditError> {
        let canaries = settings.effort.pick(self.quick, self.full);
        let alpha = 1.0 - settings.confidence;
        let delta = self.claim.delta;
        let seed = self.label.seed(settings);
        let correct = |guesses: &[(bool, bool)]| {
            guesses
                .iter()
                .filter(|(guess, truth)| guess == truth)
                .count() as u64
        };
        let held_out = self.guesses(canaries, mixed(seed, 3))?;
        let mut best = (f64::NEG_INFINITY, 1);
        for share in [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0] {
            let r = ((canaries as f64 * share) as usize).clamp(1, held_out.len().max(1));
            let v = correct(&held_out[..r.min(held_out.len())]);
            let bound = one_run_bound(canaries, r as u64, v, delta, alpha);
            if bound > best.0 {
                best = (bound, r);
            }
        }
        let guesses = self.guesses(canaries, mixed(seed, 4))?;
        let r = best.1.min(guesses.len());
        let v = correct(&guesses[..r]);
        let bound = one_run_bound(canaries, r as u64, v, delta, alpha);
        let refuted = bound > self.claim.epsilon;
        let why = format!("{v} of {r} guesses correct");
        Ok(Row {
            claimed_epsilon: Some(self.claim.epsilon),
            delta,
            lower_bound: Some(bound),
            claimed_mu: self.claim.mu,
            confidence: Some(settings.confidence),
            ..self.label.row(Kind::OneRun, canaries, refuted, why)
        })
    }
}

/// The largest epsilon that `correct` right guesses out of `guesses`, on `canaries` canaries, refute at
/// level `alpha`; 0 if none.
#[must_use]
pub fn one_run_bound(canaries: u64, guesses: u64, correct: u64, delta: f64, alpha: f64) -> f64 {
    let refuted = |epsilon| one_run_p_value(canaries, guesses, correct, epsilon, delta) <= alpha;
    if !refuted(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0_f64, 40.0_f64);
    while high - low > 1e-6 {
        let middle = low.midpoint(high);
        if refuted(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// An upper bound on the probability of at least `correct` right guesses under (epsilon, delta)-DP.
///
/// # Formula
/// P(X >= v) + 2 m delta max over i = 1..v of P(v > X >= v - i)/i, with X binomial of r trials with
/// probability 1/(1 + e^-epsilon) (Steinke, Nasr and Jagielski 2023, Theorem 5.2 and Appendix D).
#[must_use]
pub fn one_run_p_value(canaries: u64, guesses: u64, correct: u64, epsilon: f64, delta: f64) -> f64 {
    let p = 1.0 / (1.0 + (-epsilon).exp());
    let tail = upper_tail(correct, guesses, p);
    let (mut worst, mut sum) = (0.0_f64, 0.0);
    if delta > 0.0 && p < 1.0 {
        for i in 1..=correct {
            let term = mass(correct - i, guesses, p);
            sum += term;
            worst = worst.max(sum / i as f64);
            // Beyond the mode, terms and their mean only fall.
            if term < 1e-30 && i > 1 && (correct - i) as f64 <= guesses as f64 * p {
                break;
            }
        }
    }
    (tail + 2.0 * canaries as f64 * delta * worst).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of r guesses right at delta = 0: the p-value is p^r, so that the bound solves
    /// 1/(1 + e^-epsilon) = alpha^(1/r).
    #[test]
    fn perfect_guesses_have_a_closed_form() {
        for r in [10_u64, 100, 1000] {
            let p = f64::powf(0.05, 1.0 / r as f64);
            let exact = (p / (1.0 - p)).ln();
            let bound = one_run_bound(5000, r, r, 0.0, 0.05);
            assert!((bound - exact).abs() < 1e-4, "{r} {bound} {exact}");
        }
    }

    /// A delta can only weaken what the guesses say.
    #[test]
    fn delta_lowers_the_bound() {
        let plain = one_run_bound(1000, 1000, 1000, 0.0, 0.05);
        let mut last = plain;
        for delta in [1e-9, 1e-6, 1e-5, 1e-4] {
            let next = one_run_bound(1000, 1000, 1000, delta, 0.05);
            assert!(next <= last);
            last = next;
        }
        assert!(last < plain);
    }

    /// Guesses by coins are right half the time, and say nothing.
    #[test]
    fn blind_guesses_say_nothing() {
        for (r, v) in [(100, 50), (1000, 510), (1000, 100)] {
            assert_eq!(one_run_bound(1000, r, v, 1e-6, 0.05), 0.0);
        }
    }
}
