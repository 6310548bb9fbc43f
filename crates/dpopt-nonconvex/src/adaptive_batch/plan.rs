//! `adaptive-batch` as a solver: what is shown of a plan, what it needs, and its walk.

use dpopt_oracle::{Batch, Offers};
use dpopt_solver::{
    Auto, BoundSense, BoundedQuantity, Episode, Item, Needs, Plan, RunError, Solver, Stop, Terms,
    Unit, Walk,
};

use super::planner::{AdaptiveBatchPlan, AdaptiveBatchSettings, NAME};
use super::schedule::AdaptiveBatchSchedule;
use super::walk::AdaptiveBatchWalk;

/// Second-order stationary points of the population in one pass, with [`WalkConstants::Typical`](dpopt_solver::WalkConstants::Typical) unless
/// other constants were chosen.
pub static ADAPTIVE_BATCH: Solver = Solver {
    name: NAME,
    summary: "no saddle of the population: gradient and least eigenvalue certified in one pass",
    paper: "Liu and Talwar 2025 (arXiv 2410.07502), walk and certificate apart",
    needs: Needs {
        hessian: true,
        positions: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((
        BoundedQuantity::GradientNorm,
        BoundSense::PopulationWithProbability,
    )),
    auto: Auto::Never(
        "it answers another question, whether the point is a saddle, and with a probability",
    ),
    theory_page: Some("theory/second-order.md#in-one-pass"),
    privacy_page: "privacy/second-order.md#adaptive-batch",
    planner: |facts, extra, budget, limits| {
        let settings = AdaptiveBatchSettings {
            targets: extra.second_order,
            failure: extra.failure(),
            constants: extra.walk_constants.unwrap_or_default(),
            ..AdaptiveBatchSettings::new(limits.max_steps)
        };
        let hessian = extra.hessian_for(NAME)?;
        Ok(Box::new(AdaptiveBatchPlan::new(
            facts, &hessian, budget, settings,
        )?))
    },
};

impl Plan for AdaptiveBatchPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let AdaptiveBatchSchedule {
            targets,
            step_size,
            anchor_batch,
            variation,
            noise,
            period,
            drift,
            noise_multiplier,
            candidate,
            error,
            episode,
            hessian_batch,
            norm_batch,
            sign_batch,
            certificate_log,
            operator,
            sign_error,
            most_candidates,
            steps,
            records,
        } = self.schedule;
        let (rate, fixed) = match variation {
            Batch::PerLength(rate) => (Some(rate), None),
            Batch::Next(len) => (None, Some(len as f64)),
            _ => (None, None),
        };
        let mut items = vec![
            Item::word("constants", self.settings.constants),
            Item::ratio("failure", self.settings.failure),
            Item::number("gradient_target", targets.gradient, Unit::GRADIENT),
            Item::number("curvature_target", targets.curvature, Unit::CURVATURE),
            Item::number("step_size", step_size, Unit::STEP_SIZE),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("noise_multiplier", noise_multiplier),
            Item::count("anchor_batch", anchor_batch),
            Item::maybe("variation_batch_per_length", rate, Unit::ROW),
            Item::maybe("variation_batch", fixed, Unit::NONE),
            Item::word("noise", noise),
            Item::count("period", period),
            Item::number("drift", drift, Unit::LENGTH),
            Item::number("candidate", candidate, Unit::GRADIENT),
            Item::number("error", error, Unit::GRADIENT),
            Item::count("hessian_batch", hessian_batch),
            Item::count("norm_batch", norm_batch),
            Item::count("sign_batch", sign_batch),
            Item::ratio("certificate_log", certificate_log),
            Item::number("operator", operator, Unit::CURVATURE),
            Item::number("sign_error", sign_error, Unit::GRADIENT),
            Item::count("most_candidates", most_candidates),
            Item::count("planned_steps", steps),
            Item::count("planned_records", records),
        ];
        items.extend(Episode::items(episode.as_ref()));
        items
    }

    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        Some(("hessian", self.hessian.items()))
    }

    fn needs(&self) -> Offers {
        let curvature = match self.schedule.episode {
            Some(_) => Offers::HESSIAN_PRODUCTS,
            None => Offers::HESSIANS,
        };
        Offers::MEANS | Offers::PERIODS | Offers::NORMS | curvature
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(AdaptiveBatchWalk::new(self, start)?))
    }

    /// With rigorous constants such a plan is refused.
    fn warning(&self, _: f64) -> Option<String> {
        let (planned, most) = (self.schedule.steps, self.settings.max_steps);
        (planned > most).then(|| {
            format!(
                "{NAME} takes about {planned} steps to a certificate and may make {most}: it may end without one"
            )
        })
    }

    /// A certificate is about the point that it was made at.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Certified
    }

    /// Each record is read once: the run costs what its first release does.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}
