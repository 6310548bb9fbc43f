//! What a public bound on the rank is worth without a projection.
//!
//! The gradient of a generalised linear loss lies in the span of the rows, of dimension r, and so
//! does everything that the descent lemma sees. Noise off the span moves no gradient; it lengthens
//! steps, and with them the noise of SpiderBoost's variations. `docs/theory/faster-rates.md` has the proofs.

use dpopt_solver::search::{MOST_STEPS, longest_that_fits, whole};
use dpopt_solver::{Budget, PlanError, PublicFacts, PublicRank};

use super::boost::{Candidate, SpiderBoostPlan};

/// Where (e^x - 1)/x^2 is least: the product of phase length and growth rate of off-span noise at which a
/// longer phase starts to cost more than the anchors it saves.
const BEST_GROWTH: f64 = 1.593_624;
/// Ratio of neighbouring trial values of T, first and second search.
const RATIOS: [f64; 2] = [1.05, 1.005];

impl SpiderBoostPlan {
    /// As [`SpiderBoostPlan::new`] for a loss whose gradients lie in a space of `rank` dimensions: a generalised linear one of rows that
    /// span no more, or a network's, with [`PublicRank::of_units`].
    ///
    /// # Formula
    /// With theta = s2^2/4, rho = 1 + (d - r) theta, S(m) = (rho^m - 1)/(rho - 1):
    ///
    /// - (D'): r theta S(q - 1) <= 1/2;
    /// - E||grad F(w)||^2 <= 4 L1 F0/T + r sigma1^2 S(q)/q.
    ///
    /// At r = d both are those of [`SpiderBoostPlan`]. In the rate, (r d)^(1/6) stands for d^(1/3).
    ///
    /// # Errors
    /// As [`SpiderBoostPlan::new`].
    pub fn within_rank(
        facts: &PublicFacts,
        budget: &Budget,
        max_steps: u64,
        rank: PublicRank,
    ) -> Result<Self, PlanError> {
        facts.check()?;
        if rank.get() >= facts.dim {
            return Self::new(facts, budget, max_steps);
        }
        let mu = budget.mu()?.get();
        let best = Search {
            facts,
            mu,
            span: rank.get() as f64,
            rest: (facts.dim - rank.get()) as f64,
        }
        .best(max_steps.max(1));
        Ok(Self::checked(facts, budget, mu, &best)?.with_rank(rank))
    }
}

struct Search<'a> {
    facts: &'a PublicFacts,
    mu: f64,
    span: f64,
    rest: f64,
}

impl Search<'_> {
    fn best(&self, max_steps: u64) -> Candidate {
        let mut best = Candidate::worst();
        let coarse: Vec<f64> = (1..25).map(|i| 0.04 * f64::from(i)).collect();
        self.over(1.0, max_steps as f64, RATIOS[0], &coarse, &mut best);
        let (steps, share) = (best.steps as f64, best.share.min(0.99));
        let fine: Vec<f64> = (-4..=4)
            .map(|i| (share + 0.01 * f64::from(i)).clamp(0.01, 0.99))
            .collect();
        let low = (steps / RATIOS[0]).max(1.0);
        let high = (steps * RATIOS[0]).min(max_steps as f64);
        self.over(low, high, RATIOS[1], &fine, &mut best);
        best
    }

    fn over(&self, low: f64, high: f64, ratio: f64, shares: &[f64], best: &mut Candidate) {
        for steps in whole(low, MOST_STEPS.min(high), ratio) {
            let optimisation = 4.0 * self.facts.smoothness * self.facts.initial_gap / steps as f64;
            if optimisation >= best.bound {
                continue;
            }
            // No split does better than all of mu for anchors and all of it for variations as well; noise grows within a phase.
            let most = longest_that_fits(steps, |q| self.descends(steps, 0.0, q));
            let fewest = (steps.div_ceil(most) as f64).sqrt();
            let sigma = self.facts.noise_std(self.facts.lipschitz, fewest / self.mu);
            if optimisation + self.span * sigma * sigma >= best.bound {
                continue;
            }
            for &share in shares {
                let descends = |q| self.descends(steps, share, q);
                let phase = longest_that_fits(steps, descends);
                let slow =
                    longest_that_fits(phase, |q| self.growth(steps, share, q) <= BEST_GROWTH);
                for phase in [phase, slow] {
                    let share = if phase == 1 { 1.0 } else { share };
                    let bound = optimisation + self.noise(steps, share, phase);
                    if bound < best.bound {
                        *best = Candidate {
                            steps,
                            phase,
                            share,
                            bound,
                        };
                    }
                }
            }
        }
    }

    /// theta = s2^2/4 of phases of length `phase`.
    fn theta(&self, steps: u64, share: f64, phase: u64) -> f64 {
        let variations = (steps - steps.div_ceil(phase)) as f64;
        if variations == 0.0 {
            return 0.0;
        }
        0.25 * variations * self.facts.noise_std(1.0, 1.0 / self.mu).powi(2) / (1.0 - share)
    }

    /// S(m).
    fn sum(&self, theta: f64, m: u64) -> f64 {
        let rate = self.rest * theta;
        if rate == 0.0 {
            return m as f64;
        }
        (m as f64 * rate.ln_1p()).exp_m1() / rate
    }

    /// (D').
    fn descends(&self, steps: u64, share: f64, phase: u64) -> bool {
        let theta = self.theta(steps, share, phase);
        self.span * theta * self.sum(theta, phase - 1) <= 0.5
    }

    fn growth(&self, steps: u64, share: f64, phase: u64) -> f64 {
        let theta = self.theta(steps, share, phase);
        phase as f64 * (self.rest * theta).ln_1p()
    }

    /// r sigma1^2 S(q)/q.
    fn noise(&self, steps: u64, share: f64, phase: u64) -> f64 {
        let anchors = steps.div_ceil(phase) as f64;
        let sigma = self
            .facts
            .noise_std(self.facts.lipschitz, (anchors / share).sqrt() / self.mu);
        let theta = self.theta(steps, share, phase);
        self.span * sigma * sigma * self.sum(theta, phase) / phase as f64
    }
}
