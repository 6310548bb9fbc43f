//! `sosp` as a solver: what is shown of a plan, what it needs, and its walk.

use dpopt_oracle::Offers;
use dpopt_solver::{
    Auto, BoundSense, BoundedQuantity, Episode, Item, Needs, Plan, RunError, Solver, Stop, Terms,
    Unit, Value, Walk,
};

use super::level::{SospLevel, SospSpider};
use super::planner::{NAME, SospPlan, SospSettings};
use super::problem::Steps;
use super::walk::SospWalk;

/// Second-order stationary points on all records.
pub static SOSP: Solver = Solver {
    name: NAME,
    summary: "no saddle: gradient and least eigenvalue certified, all records",
    paper: "Liu and Talwar 2025 (arXiv 2410.07502), on all records: fresh or recursive estimates, whole Hessians",
    needs: Needs {
        hessian: true,
        ..Needs::NOTHING
    },
    uses_rank: false,
    bound: Some((BoundedQuantity::GradientNorm, BoundSense::WithProbability)),
    auto: Auto::Never(
        "it answers another question, whether the point is a saddle, and with a probability",
    ),
    theory_page: Some("theory/second-order.md#all-records"),
    privacy_page: "privacy/second-order.md#sosp",
    planner: |facts, extra, budget, limits| {
        let settings = SospSettings {
            targets: extra.second_order,
            failure: extra.failure(),
            ..SospSettings::new(limits.max_steps)
        };
        let hessian = extra.hessian_for(NAME)?;
        Ok(Box::new(SospPlan::new(facts, &hessian, budget, settings)?))
    },
};

impl Plan for SospPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let SospLevel {
            targets,
            step_size,
            gradient_multiplier,
            norm_multiplier,
            hessian_multiplier,
            episode,
            candidate,
            norm_quantile,
            curvature_quantile,
            operator,
            sign_error,
            most_steps,
            most_norms,
            most_hessians,
            spider,
            change_multiplier,
            cost,
        } = self.first;
        let mut items = vec![
            Item::ratio("mu", self.mu),
            Item::ratio("failure", self.settings.failure),
            Item::plain("anytime", Value::Flag(self.settings.targets.is_none())),
            Item::number("gradient_target", targets.gradient, Unit::GRADIENT),
            Item::number("curvature_target", targets.curvature, Unit::CURVATURE),
            Item::number("step_size", step_size, Unit::STEP_SIZE),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("gradient_multiplier", gradient_multiplier),
            Item::ratio("norm_multiplier", norm_multiplier),
            Item::ratio("hessian_multiplier", hessian_multiplier),
            Item::number("candidate", candidate, Unit::GRADIENT),
            Item::ratio("norm_quantile", norm_quantile),
            Item::ratio("curvature_quantile", curvature_quantile),
            Item::ratio("operator", operator),
            Item::number("sign_error", sign_error, Unit::GRADIENT),
            Item::count("most_steps", most_steps),
            Item::count("most_norms", most_norms),
            Item::count("most_hessians", most_hessians),
            Item::ratio("share_in_the_worst_case", cost / (self.mu * self.mu)),
            Item::plain("recursive", Value::Flag(spider.is_some())),
        ];
        items.extend(Episode::items(episode.as_ref()));
        if let Some(SospSpider {
            path,
            error,
            reach,
            most_anchors,
        }) = spider
        {
            items.push(Item::number("path", path, Unit::LENGTH));
            items.push(Item::number("error", error, Unit::GRADIENT));
            items.extend(reach.map(|reach| Item::ratio("escape_reach", reach)));
            items.push(Item::count("most_anchors", most_anchors));
        }
        items.extend(change_multiplier.map(|z| Item::ratio("change_multiplier", z)));
        items
    }

    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        Some(("hessian", self.hessian.items()))
    }

    fn needs(&self) -> Offers {
        let curvature = match self.first.episode {
            Some(_) => Offers::HESSIAN_PRODUCTS,
            None => Offers::HESSIANS,
        };
        let needed = Offers::MEANS | Offers::NORMS | curvature;
        match self.settings.steps {
            Steps::Planned => needed,
            Steps::Measured => needed | Offers::VALUE_CHANGES,
        }
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(SospWalk::new(self, start)?))
    }

    /// A certificate is about the point that it was made at.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Certified
    }

    /// All of it: what a step costs is known when it is made.
    fn share_spent(&self, _: u64) -> f64 {
        1.0
    }
}
