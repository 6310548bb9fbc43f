//! The faithful algorithm as a plan: what is shown of it, what it needs, and its walk.

use dpopt_oracle::Offers;
use dpopt_solver::{Item, Plan, RunError, Terms, Unit, Walk};

use super::planner::{FaithfulPlan, NAME};
use super::schedule::FaithfulSchedule;
use super::walk::FaithfulWalk;

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
