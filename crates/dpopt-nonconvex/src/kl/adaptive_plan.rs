//! Adaptive noisy gradient descent as a solver: what is shown of a plan, and its walk.

use dpopt_oracle::Offers;
use dpopt_privacy::Epsilon;
use dpopt_solver::{
    Auto, BoundSense, BoundedQuantity, Item, Needs, Plan, RunError, Solver, Stop, Terms, Unit,
    Value, Walk,
};

use super::adaptive::{AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, NormQueries, SOLVER};
use super::adaptive_run::AdaptiveWalk;

/// Adaptive noisy gradient descent, with its default settings.
pub static ADAPTIVE_GD: Solver = Solver {
    name: SOLVER,
    summary: "smooth losses, of which no more is known than L0 and L1",
    paper: "Menart et al. 2023 (arXiv 2311.13447), Algorithm 3",
    needs: Needs::NOTHING,
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    auto: Auto::Never("its bound holds with a probability, and the others are on a mean"),
    theory_page: Some("theory/kl-condition.md#adaptive-gradient-descent"),
    privacy_page: "privacy/kl.md",
    planner: |facts, _, budget, limits| {
        let settings = AdaptiveSettings::new().with_max_steps(limits.max_steps);
        Ok(Box::new(AdaptiveGdPlan::new(facts, budget, settings)?))
    },
};

impl Plan for AdaptiveGdPlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let AdaptiveSettings {
            norms,
            selection,
            beta,
            max_steps,
        } = self.settings;
        let selection = match selection {
            AdaptiveSelection::Last => Item::word("selection", "last"),
            AdaptiveSelection::SmallestNorm => Item::word("selection", "smallest-norm"),
            AdaptiveSelection::Exponential { share } => Item::plain(
                "selection",
                Value::Group(vec![Item::plain(
                    "exponential",
                    Value::Group(vec![Item::ratio("share", share)]),
                )]),
            ),
        };
        let epsilon = self.selection_epsilon.map(Epsilon::get);
        vec![
            Item::ratio("mu", self.mu),
            Item::ratio("cap", 1.0 / self.mu),
            Item::maybe("selection_epsilon", epsilon, Unit::NONE),
            Item::ratio("beta", beta),
            Item::word(
                "norms",
                match norms {
                    NormQueries::Fixed => "fixed",
                    NormQueries::Relative => "relative",
                },
            ),
            selection,
            Item::number("step_size", self.step_size(), Unit::STEP_SIZE),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("gradient_ratio", self.gradient_ratio()),
            Item::ratio("root_dim", self.root_dim()),
            Item::ratio("closing_share", self.closing_share),
            Item::count("max_steps", max_steps),
        ]
    }

    fn needs(&self) -> Offers {
        let each = Offers::MEANS | Offers::NORMS;
        match self.selection_epsilon {
            Some(_) => each | Offers::SELECTIONS,
            None => each,
        }
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(AdaptiveWalk::new(self, start)?))
    }

    /// Whatever the budget or the plan ended: the bound is the largest that these come to.
    fn bound_covers(&self, stop: Stop) -> bool {
        matches!(
            stop,
            Stop::NormUnpaid | Stop::GradientUnpaid | Stop::Converged | Stop::StepCap
        )
    }

    /// All of it: what a step costs is known when it is made.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }

    fn warning(&self, trivial: f64) -> Option<String> {
        let least = self.least_norm_of_a_step();
        self.bound().is_none().then(|| {
            format!(
                "{SOLVER} has no bound for these public facts: it makes a first step only if the gradient norm at the start is \
                 seen to be at least {least:.4} (it is at most {trivial:.4}); otherwise it spends its budget and returns the \
                 starting point"
            )
        })
    }
}
