//! What adaptive noisy gradient descent is sure of, with probability 1 - beta: before a run and after it.
//!
//! Proofs: `docs/theory/kl-condition.md`. All sums of costs there are in squared mu. Each bound is the root of a decreasing
//! function: what a run must have cost if it ended above.

use dpopt_solver::{KlCondition, Outcome, PlanError};

use super::adaptive::{
    ACCEPT, AdaptiveGdPlan, AdaptiveSelection, GRID_COST, NormQueries, SCALE_ERROR, SOLVER,
};

/// What is known of one size of excess or gradient: how many steps and norms a run has made above it.
struct Reached {
    steps: f64,
    norms: f64,
}

impl AdaptiveGdPlan {
    /// Bound on the excess F(w_T) - min F of the **last** point under a KL condition with kappa in [1, 2], with probability 1 - beta.
    /// The minimum is that over the valley that the run starts in: the connected part of {F <= F(w_0)} around w_0, or for fixed
    /// norms of {F <= max(F(w_0), min F + (gamma psi)^kappa + psi^2/(4 L1))}, psi being the error of a norm. There the condition
    /// must hold, and F be L1-smooth and its gradient at most L0 long, with a regulariser too; and F be L1-smooth on what the closing
    /// step may reach. [`AdaptiveSelection::Last`] returns that point, the other selections do not.
    ///
    /// # Formula
    /// The excess Phi at which B(Phi) = mu^2, with I_p = int_Phi^F0 x^(-p) dx, eta = 1/L1, and counts of steps and norms that
    /// follow from Phi themselves. Relative norms:
    ///
    /// B = (8 q^2 + 130 z^2) Delta^2 ((4 gamma^4/eta) I_(4/kappa) + gamma^2 Phi^(-2/kappa)),
    ///
    /// with 3 mu^2/4 in place of mu^2, and 2 eta q^2 Delta^2/mu^2 more for the closing step.
    ///
    /// Fixed norms: the largest of (2 gamma psi)^kappa + eta psi^2/4, (gamma (2^(1/64) 2 sqrt 2 q Delta/mu + psi))^kappa and the root of
    ///
    /// B = c (1 + T) + 16 q^2 Delta^2 ((16 gamma^4/(3 eta)) I_(4/kappa) + gamma^2 Phi^(-2/kappa)),
    /// T = (16 gamma^2/(3 eta)) I_(2/kappa), with c the cost of a norm.
    ///
    /// Costs of gradients are 2^(1/32) times that, for the grid of multipliers; and where [`AdaptiveSettings::with_max_steps`](super::AdaptiveSettings::with_max_steps) ends the run
    /// before the budget does, the bound is that of so many steps.
    ///
    /// # Errors
    /// [`PlanError::KlExponent`]; [`PlanError::KlGap`] where F0 > (gamma L0)^kappa; [`PlanError::VacuousRisk`] where the bound is not below the initial gap.
    pub fn risk_bound(&self, kl: &KlCondition) -> Result<f64, PlanError> {
        if !(1.0..=2.0).contains(&kl.kappa()) {
            return Err(PlanError::KlExponent {
                solver: SOLVER,
                kappa: kl.kappa(),
                least: 1.0,
                most: 2.0,
            });
        }
        let gap = self.terms.facts().initial_gap;
        let most = kl.excess_bound(self.terms.facts().lipschitz);
        if gap > most * (1.0 + 1e-9) {
            return Err(PlanError::KlGap {
                most,
                initial_gap: gap,
            });
        }
        let squared_mu = self.for_steps();
        let mut bound = largest(gap, |phi| self.cost_above(kl, phi) > squared_mu);
        bound = bound.max(largest(gap, |phi| {
            self.steps_above(kl, phi) > self.settings.max_steps as f64
        }));
        if self.settings.norms == NormQueries::Fixed {
            let psi = self.norm_error();
            let floor = kl.excess_bound(2.0 * psi) + 0.25 * self.step_size() * psi * psi;
            bound = bound
                .max(floor)
                .max(kl.excess_bound(self.converged_norm() + psi));
        }
        bound += self.closing_loss();
        if bound < gap {
            return Ok(bound);
        }
        Err(self.terms.facts().vacuous_risk(SOLVER, bound, self.mu))
    }

    /// Bound on the gradient norm at the point that a run returned, from what it released and from F0, with probability
    /// 1 - beta and whatever ended the run; no KL condition is needed. None for [`AdaptiveSelection::Last`] where no norm was
    /// released at the last point, and where nothing was released.
    ///
    /// # Formula
    /// The smaller of two. By the released norm: its upper limit N + z sigma. By descent over the T steps that were made: the
    /// smallest true norm is at most m = sqrt(F0/(lambda T)) (lambda = eta/4; relative) or sqrt(4 F0/(eta T) + psi^2) (fixed), and
    /// the smallest upper limit at most 2 m or m + 2 psi. For the exponential mechanism the smallest limit, or m, and
    /// (2 Delta/epsilon) log(2 (T+1)/beta) more; that one fails with probability 3 beta/2.
    #[must_use]
    pub fn bound_after(&self, outcome: &Outcome) -> Option<f64> {
        let steps = outcome.steps as f64;
        let least = self.least_after(steps);
        let smallest = outcome.norm.as_ref().map(|found| found.upper);
        match self.settings.selection {
            AdaptiveSelection::Last => {
                let at_last = outcome.norm.as_ref();
                at_last
                    .filter(|found| found.step == outcome.steps)
                    .map(|found| found.upper)
            }
            AdaptiveSelection::SmallestNorm => smallest.map(|upper| upper.min(self.seen(least))),
            AdaptiveSelection::Exponential { .. } => {
                let epsilon = self.selection_epsilon?.get();
                let gap = 2.0 * self.sensitivity() / epsilon
                    * (2.0 * (steps + 1.0) / self.settings.beta).ln();
                smallest.map(|upper| upper.min(least) + gap)
            }
        }
    }

    /// The same before a run: the largest that it can come to, if the budget or the number of steps ends the run.
    pub(super) fn predict(&self) -> Option<f64> {
        if self.settings.selection == AdaptiveSelection::Last {
            return None;
        }
        let trivial = self.terms.facts().trivial_bound();
        let paid = largest(trivial, |x| self.cost_of_gradients(x) > self.mu * self.mu);
        let capped = self.least_after(self.settings.max_steps as f64);
        let least = paid.max(capped);
        let bound = match (self.settings.selection, self.selection_epsilon) {
            (AdaptiveSelection::SmallestNorm, _) => match self.settings.norms {
                NormQueries::Fixed => self.seen(least),
                // The cost is stated for the limit itself.
                NormQueries::Relative => paid.max(self.seen(capped)),
            },
            (AdaptiveSelection::Exponential { .. }, Some(epsilon)) => {
                let points = (self.settings.max_steps as f64).min(self.most_norms()) + 1.0;
                least
                    + 2.0 * self.sensitivity() / epsilon.get()
                        * (2.0 * points / self.settings.beta).ln()
            }
            _ => return None,
        };
        (bound < trivial).then_some(bound)
    }

    /// The smallest true norm after so many steps.
    fn least_after(&self, steps: f64) -> f64 {
        if steps < 1.0 {
            return f64::INFINITY;
        }
        let psi = self.norm_error();
        (4.0 * self.terms.facts().initial_gap / (self.step_size() * steps) + psi * psi).sqrt()
    }

    /// The smallest upper limit of a released norm, where a true one is at most `least`.
    fn seen(&self, least: f64) -> f64 {
        match self.settings.norms {
            NormQueries::Fixed => least + 2.0 * self.norm_error(),
            NormQueries::Relative => 2.0 * least,
        }
    }

    /// psi: how far off a fixed norm can be; 0 for relative ones, whose error is a share of them.
    fn norm_error(&self) -> f64 {
        match self.settings.norms {
            NormQueries::Fixed => self.tail(0) * self.fixed_multiplier() * self.sensitivity(),
            NormQueries::Relative => 0.0,
        }
    }

    /// By how much the closing step may raise F: eta/2 times the square of its noise. A run that got far below the bound may have made
    /// more steps than lead to the bound, and its tail is that of all steps that could be paid for.
    fn closing_loss(&self) -> f64 {
        if self.closing_share() == 0.0 {
            return 0.0;
        }
        let most = Reached {
            steps: self.most_norms().min(self.settings.max_steps as f64),
            norms: 0.0,
        };
        let least = self.closing_share() * self.mu * self.mu;
        0.5 * self.step_size() * self.gradient_share(&most) / least
    }

    /// No released norm above this ends a run because a gradient would take half of the budget. Multipliers are rounded down to the
    /// grid before they are compared, so that norms of up to one ratio of the grid more do.
    fn converged_norm(&self) -> f64 {
        let reach = self.root_dim() + self.tail(0);
        (2.0 * GRID_COST).sqrt() * reach * self.sensitivity() / (self.gradient_ratio() * self.mu)
    }

    /// Steps that can be made above an excess, before the last.
    fn steps_above(&self, kl: &KlCondition, phi: f64) -> f64 {
        let decrease = match self.settings.norms {
            NormQueries::Fixed => 3.0 / 16.0,
            NormQueries::Relative => 0.25,
        } * self.step_size();
        let gamma = kl.gamma();
        gamma * gamma / decrease * integral(2.0 / kl.kappa(), phi, self.terms.facts().initial_gap)
    }

    /// At most so much has been asked for where the budget ends a run above an excess.
    fn cost_above(&self, kl: &KlCondition, phi: f64) -> f64 {
        let (gamma, power) = (kl.gamma(), 4.0 / kl.kappa());
        let steps = self
            .steps_above(kl, phi)
            .min(self.settings.max_steps as f64);
        let norm = kl.gradient_norm_at(phi);
        let reached = self.reached(steps, norm);
        let area = gamma.powi(4) * integral(power, phi, self.terms.facts().initial_gap);
        match self.settings.norms {
            NormQueries::Fixed => {
                let norms = (steps + 1.0) / self.fixed_multiplier().powi(2);
                let gradient = 16.0 * self.gradient_share(&reached);
                norms + gradient * (area / (0.1875 * self.step_size()) + norm.powi(-2))
            }
            NormQueries::Relative => {
                let each = 8.0 * self.gradient_share(&reached) + 130.0 * self.norm_share(&reached);
                each * (area / (0.25 * self.step_size()) + norm.powi(-2))
            }
        }
    }

    /// The same without a KL condition, where the smallest true norm (fixed) or upper limit (relative) is `x`.
    fn cost_of_gradients(&self, x: f64) -> f64 {
        let gap = self.terms.facts().initial_gap;
        let psi = self.norm_error();
        match self.settings.norms {
            NormQueries::Fixed => {
                if x <= (2.0 * psi).max(self.converged_norm() + psi) {
                    return f64::INFINITY;
                }
                let steps = 4.0 * gap / (self.step_size() * (x * x - psi * psi));
                let norm = self.fixed_multiplier().powi(-2);
                let gradient = 16.0 * self.gradient_share(&self.reached(steps, x)) / (x * x);
                (steps + 1.0) * (norm + gradient)
            }
            NormQueries::Relative => {
                let steps = 16.0 * gap / (self.step_size() * x * x);
                let reached = self.reached(steps, 0.5 * x);
                let each = 8.0 * self.gradient_share(&reached) + 170.0 * self.norm_share(&reached);
                each / (x * x) * (4.0 * steps + 1.0)
            }
        }
    }

    /// Steps and norms so far, where all gradients were longer than `norm`.
    fn reached(&self, steps: f64, norm: f64) -> Reached {
        let norms = match self.settings.norms {
            NormQueries::Fixed => steps + 1.0,
            NormQueries::Relative => 3.0 * steps + 2.0 + (self.terms.clip() / norm).log2().max(0.0),
        };
        Reached {
            steps,
            norms: norms.min(self.most_norms()),
        }
    }

    /// q^2 Delta^2, and what the grid adds.
    fn gradient_share(&self, reached: &Reached) -> f64 {
        let reach = self.reach(reached.steps.min(1e18) as u64) * self.sensitivity();
        GRID_COST * reach * reach
    }

    /// z^2 Delta^2, and what the grid adds.
    fn norm_share(&self, reached: &Reached) -> f64 {
        let tail = self.tail(reached.norms.min(1e18) as u64) * self.sensitivity();
        GRID_COST * tail * tail
    }
}

/// int_low^high x^(-power) dx; 0 for an empty interval.
fn integral(power: f64, low: f64, high: f64) -> f64 {
    if !(low < high) {
        0.0
    } else if (power - 1.0).abs() < 1e-6 {
        // The difference of the powers would be one of rounding errors. From int x^-1 times the largest of x^(1 - power).
        let excess = power - 1.0;
        (high / low).ln() * low.powf(-excess).max(high.powf(-excess))
    } else {
        (low.powf(1.0 - power) - high.powf(1.0 - power)) / (power - 1.0)
    }
}

/// The largest number up to `most` above which a condition does not hold any more; it holds for all below, and the answer is
/// rounded up.
fn largest(most: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(most) {
        return most;
    }
    let (mut low, mut high) = ((most * 1e-280).max(f64::MIN_POSITIVE), most);
    if !holds(low) {
        return low;
    }
    // Halves the logarithm of the ratio each time: 2^-80 of 650 is nothing.
    for _ in 0..80 {
        let middle = low.sqrt() * high.sqrt();
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

// The constants of the bounds are for these two.
const _: () = assert!(SCALE_ERROR == 0.25 && ACCEPT == 0.75);
