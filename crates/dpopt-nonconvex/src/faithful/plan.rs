//! The faithful algorithm as a solver: what is shown of a plan, what it needs, and its walk.

use dpopt_oracle::Offers;
use dpopt_solver::{Auto, Item, Needs, Plan, RunError, Solver, Terms, Unit, Walk};

use super::planner::{FaithfulPlan, FaithfulSettings, NAME};
use super::schedule::FaithfulSchedule;
use super::walk::FaithfulWalk;

/// Algorithm 3 of Liu and Talwar with the repairs that its privacy needs, for comparison. In the library only.
pub static ADAPTIVE_BATCH_FAITHFUL: Solver = Solver {
    name: NAME,
    summary: "one pass as a paper has it, for comparison: a trajectory and its episodes, nothing certified",
    paper: "Liu and Talwar 2025 (arXiv 2410.07502), Algorithm 3 with its privacy repaired",
    needs: Needs {
        hessian: true,
        positions: true,
        library: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: None,
    auto: Auto::Never,
    theory_page: Some("theory/adaptive-batch-faithful.md"),
    privacy_page: "privacy/adaptive-batch-faithful.md",
    planner: |facts, extra, budget, limits| {
        let settings = FaithfulSettings {
            target: extra.second_order.map(|targets| targets.gradient),
            failure: extra.failure(),
            ..FaithfulSettings::new(limits.max_steps)
        };
        let hessian = extra.hessian_for(NAME)?;
        Ok(Box::new(FaithfulPlan::new(
            facts, &hessian, budget, settings,
        )?))
    },
};

impl Plan for FaithfulPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let FaithfulSchedule {
            target,
            step_size,
            anchor_batch,
            variation_rate,
            noise,
            period,
            drift,
            noise_multiplier,
            candidate,
            error,
            hessian_batch,
            hessian_rate,
            product_noise_multiplier,
            episode,
            radius,
            episodes_per_chain,
            steps,
            records,
        } = self.schedule;
        vec![
            Item::ratio("failure", self.settings.failure),
            Item::number("gradient_target", target, Unit::GRADIENT),
            Item::number("step_size", step_size, Unit::STEP_SIZE),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("noise_multiplier", noise_multiplier),
            Item::count("anchor_batch", anchor_batch),
            Item::number("variation_batch_per_length", variation_rate, Unit::ROW),
            Item::word("noise", noise),
            Item::count("period", period),
            Item::number("drift", drift, Unit::LENGTH),
            Item::number("candidate", candidate, Unit::GRADIENT),
            Item::number("error", error, Unit::GRADIENT),
            Item::count("hessian_batch", hessian_batch),
            Item::number("hessian_batch_per_length", hessian_rate, Unit::ROW),
            Item::ratio("product_noise_multiplier", product_noise_multiplier),
            Item::count("episode", episode),
            Item::number("radius", radius, Unit::LENGTH),
            Item::count("episodes_per_chain", episodes_per_chain),
            Item::count("planned_steps", steps),
            Item::count("planned_records", records),
        ]
    }

    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        Some(("hessian", self.hessian.items()))
    }

    fn needs(&self) -> Offers {
        Offers::MEANS | Offers::PERIODS | Offers::CHAINS
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(FaithfulWalk::new(self, start, None)?))
    }

    fn warning(&self, _: f64) -> Option<String> {
        let (planned, records) = (self.schedule.records, self.terms.facts().records);
        (planned > records).then(|| {
            format!(
                "{NAME} may read {planned} records at this target, and there are {records}: it may end before it has descended"
            )
        })
    }

    /// Each record is read by one release, or pays for one chain: the run costs what its first release does.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}
