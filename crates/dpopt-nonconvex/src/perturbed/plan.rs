//! What is shown of a plan, and its walk.

use dpopt_solver::{Item, Plan, RunError, Stop, Terms, Unit, Value, Walk};

use super::planner::{PerturbedPlan, PerturbedSchedule, name_of};
use super::walk::PerturbedWalk;

impl Plan for PerturbedPlan {
    fn name(&self) -> &'static str {
        name_of(self.schedule.pass.is_some())
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let PerturbedSchedule {
            target,
            step_size,
            radius,
            watched,
            curvature,
            proven,
            steps,
            anchor,
            spider,
            pass,
            cost,
        } = self.schedule;
        let mut items = vec![
            Item::ratio("mu", self.mu),
            Item::ratio("failure", self.settings.failure),
            Item::number("target", target, Unit::GRADIENT),
            Item::number("step_size", step_size, Unit::STEP_SIZE),
            Item::number("perturbation", radius, Unit::LENGTH),
            Item::count("watched_steps", watched),
            Item::number("curvature_watched_for", curvature, Unit::CURVATURE),
            Item::plain("curvature_proven", Value::Flag(proven)),
            Item::count("steps", steps),
            Item::number("clip", self.clip(), Unit::GRADIENT),
            Item::ratio("anchor_noise_multiplier", anchor),
            Item::ratio("share_in_the_worst_case", cost / (self.mu * self.mu)),
            Item::plain("recursive", Value::Flag(spider.is_some())),
        ];
        if let Some(spider) = spider {
            items.push(Item::number(
                "longest_path",
                spider.path.sqrt(),
                Unit::LENGTH,
            ));
            items.push(Item::ratio("variation_noise_multiplier", spider.variation));
            items.push(Item::count("most_anchors", spider.most_anchors));
        }
        if let Some(pass) = pass {
            items.push(Item::count("anchor_batch", pass.anchor));
            items.push(Item::count("variation_batch", pass.variation));
            items.push(Item::count("records_in_the_worst_case", pass.records));
        }
        items
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        Ok(Box::new(PerturbedWalk::new(self, start)?))
    }

    /// The theorem is about runs that end where the walk stayed.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::SmallEstimate
    }

    fn warning(&self, _: f64) -> Option<String> {
        (!self.schedule.proven).then(|| {
            format!(
                "{} proves nothing of curvature at this size: that the walk stays is a sign that there is no saddle of curvature {:.3}, \
                 and no proof; {} certifies",
                self.name(),
                self.schedule.curvature,
                match self.schedule.pass {
                    Some(_) => "adaptive-batch",
                    None => "sosp",
                }
            )
        })
    }
}
