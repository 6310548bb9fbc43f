//! Plans for smooth losses on losses that are averaged along their rows.

use std::sync::Arc;

use dpopt_oracle::{AskError, AveragedMeans, Convexity, Offers, Oracle};
use dpopt_privacy::ClipNorm;
use dpopt_solver::{
    Asked, Auto, BoundSense, BoundedQuantity, Budget, Closing, ExtraFacts, Item, Limits, Needs,
    Plan, PlanError, PublicFacts, RunError, Solver, Stop, Terms, Unit, Walk,
};

use super::GOLDSTEIN;
use super::planner::least_that_fits;
use crate::spider::boost::SPIDERBOOST;

const SOLVER: &str = "goldstein-envelope";

/// Component-wise Goldstein-stationary points of generalised linear losses.
pub static GOLDSTEIN_ENVELOPE: Solver = Solver {
    name: SOLVER,
    summary: "generalised linear losses with kinks; few steps, for a weaker statement",
    paper: "after Kornowski, Liu and Talwar 2025 (arXiv 2410.05880), Appendix B",
    needs: Needs {
        goldstein: true,
        ..Needs::NOTHING
    },
    bound: Some((
        BoundedQuantity::ComponentWiseGoldsteinDistance,
        BoundSense::RootMeanSquare,
    )),
    auto: Auto::Never("its statement is weaker: each gradient may be taken at a point of its own"),
    planner: |facts, extra, budget, limits| {
        let radius = extra.goldstein_radius_for(SOLVER)?;
        let plan = EnvelopePlan::new(facts, budget, radius, &SPIDERBOOST, limits)?;
        Ok(Box::new(plan))
    },
    ..GOLDSTEIN
};

/// A plan of a smooth solver, run on the loss with each record's part averaged along that record's row.
///
/// # Formula
/// f^r(w; x) = E f(w + t x/||x||; x), t uniform on [-r, r]. Of an L-Lipschitz loss of <w, x> it is L-Lipschitz and L/r-smooth, and at most
/// r L/2 from it, so the base solver has the facts L0 = L, L1 = L/r (or that of the loss, if less) and F0 + r L (F0 + r L/2 for
/// a convex loss). Its gradient is a mean of gradients of the record within r, so
///
/// (component-wise Goldstein distance at r) <= ||grad F^r(w)|| <= the base's bound.
///
/// The component-wise distance is the length of the shortest mean of vectors g_i, g_i in the Goldstein subdifferential **of record
/// i's loss** at radius r. It is at most the Goldstein distance of the mean loss: the weaker statement.
/// (`docs/theory/goldstein.md`, Theorem 5.)
///
/// # Privacy
/// That of the base plan: the same questions, of another function of each record. (`docs/privacy/goldstein.md`.)
#[derive(Debug, Clone)]
pub struct EnvelopePlan {
    terms: Terms,
    radius: f64,
    reach: ClipNorm,
    base: Arc<dyn Plan>,
}

/// Averages are taken over so much less than the radius, since rows are measured by an upper bound on their norm that is longer by 2^-20 at
/// most.
const WITHIN: f64 = 1.0 - 1.0 / 262_144.0;

impl EnvelopePlan {
    /// What `solver`, one for smooth losses on these records, plans for the averaged loss.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for a radius that is no positive number, or so small that L/r is none;
    /// [`PlanError::VacuousGoldstein`]; [`PlanError::NoBaseBound`] for a solver without a bound on the gradient norm for these records,
    /// or one that asks for more than means, of which there are no averages.
    pub fn new(
        facts: &PublicFacts,
        budget: &Budget,
        radius: f64,
        solver: &Solver,
        limits: &Limits,
    ) -> Result<Self, PlanError> {
        let averaged = Self::averaged(facts, radius)?;
        let base = |records: u64| {
            let facts = PublicFacts {
                records,
                ..averaged
            };
            solver.plan(&facts, &ExtraFacts::default(), budget, limits)
        };
        let base = match base(facts.records) {
            Err(PlanError::Vacuous { bound, .. }) => {
                return Err(PlanError::VacuousGoldstein {
                    solver: SOLVER,
                    bound,
                    radius,
                    trivial: averaged.trivial_bound(),
                    records: facts.records,
                    needed: least_that_fits(facts.records, |records| base(records).is_ok()),
                    dim: facts.dim,
                    mu: budget.mu()?.get(),
                });
            }
            other => other?,
        };
        let of_these = !base.bound_sense().of_population();
        let answered = Offers::MEANS.covers(base.needs());
        let bound = base.predicted_bound().filter(|_| of_these && answered);
        let bound = bound.ok_or(PlanError::NoBaseBound)?;
        let plan = Self::by_hand(facts, budget, radius, base)?;
        Ok(Self {
            terms: plan.terms.stating(Some(bound)),
            ..plan
        })
    }

    /// Any plan, run on the averaged loss. It states no bound. A run of one whose base asks for more than means is refused
    /// ([`RunError::NotOffered`]) before anything is reserved.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for a radius that is no positive number, or so small that L/r is none.
    pub fn by_hand(
        facts: &PublicFacts,
        budget: &Budget,
        radius: f64,
        base: Box<dyn Plan>,
    ) -> Result<Self, PlanError> {
        Self::averaged(facts, radius)?;
        let terms = Terms::new(facts, budget, base.steps(), base.spend())
            .with_gradients(base.gradients())
            .with_clip(base.clip())
            .with_access(base.access())
            .with_unread(base.unread())
            .with_output(base.output())
            .bounding_component_wise(radius, base.bound_sense());
        Ok(Self {
            terms,
            radius,
            reach: ClipNorm::new(radius * WITHIN)?,
            base: base.into(),
        })
    }

    /// The facts of the loss averaged within this radius.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn averaged(facts: &PublicFacts, radius: f64) -> Result<PublicFacts, PlanError> {
        facts.check_lipschitz()?;
        PlanError::positive("goldstein_radius", radius)?;
        let smoothness = facts.lipschitz / (radius * WITHIN) * (1.0 + 1e-12);
        if !smoothness.is_normal() {
            let name = "goldstein_radius";
            return Err(PlanError::BadFact {
                name,
                value: radius,
            });
        }
        // By Jensen an average of a convex loss is not below it.
        let off = match facts.convexity {
            Convexity::Convex => 0.5,
            Convexity::Nonconvex => 1.0,
        };
        Ok(PublicFacts {
            smoothness: facts.smoothness.min(smoothness),
            initial_gap: facts.initial_gap + off * radius * facts.lipschitz,
            // Rows take no part in what the base plans.
            row_norm: facts.row_norm.min(f64::MAX),
            ..*facts
        })
    }

    /// The base solver's plan.
    #[must_use]
    pub fn base(&self) -> &dyn Plan {
        &*self.base
    }

    /// r.
    #[must_use]
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Over how much to both sides of a point losses are averaged: r, less room for rounding.
    #[must_use]
    pub fn reach(&self) -> ClipNorm {
        self.reach
    }
}

impl Plan for EnvelopePlan {
    fn name(&self) -> &'static str {
        SOLVER
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        let facts = self.base.facts();
        let mut items = vec![
            Item::number("goldstein_radius", self.radius, Unit::LENGTH),
            Item::word("base", self.base.name()),
            Item::number("averaged_smoothness", facts.smoothness, Unit::CURVATURE),
            Item::number("averaged_gap", facts.initial_gap, Unit::LOSS),
        ];
        items.extend(self.base.items());
        items
    }

    fn needs(&self) -> Offers {
        Offers::ROW_AVERAGES
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let (answered, needed) = (Offers::MEANS, self.base.needs());
        if !answered.covers(needed) {
            return Err(RunError::NotOffered {
                solver: self.base.name(),
                what: answered.lacking(needed).join(", "),
            });
        }
        Ok(Box::new(Averaging {
            walk: self.base.walk(start)?,
            reach: self.reach,
        }))
    }

    fn bound_covers(&self, stop: Stop) -> bool {
        self.base.bound_covers(stop)
    }

    fn share_spent(&self, step: u64) -> f64 {
        self.base.share_spent(step)
    }
}

/// A walk that asks for averages in place of gradients.
struct Averaging<'a> {
    walk: Box<dyn Walk + 'a>,
    reach: ClipNorm,
}

impl Walk for Averaging<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let averaged = &mut AveragedMeans::new(oracle, self.reach);
        self.walk.ask(step, point, averaged)
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        self.walk.step(point, gradient, next);
    }

    fn stops_at(&self, released_norm: f64) -> bool {
        self.walk.stops_at(released_norm)
    }

    fn finished(&self) -> bool {
        self.walk.finished()
    }

    fn end(&self) -> Stop {
        self.walk.end()
    }

    fn in_blocks(&self) -> bool {
        self.walk.in_blocks()
    }

    fn close(&mut self, stop: Stop, oracle: &mut dyn Oracle) -> Result<Closing, AskError> {
        let averaged = &mut AveragedMeans::new(oracle, self.reach);
        self.walk.close(stop, averaged)
    }
}
