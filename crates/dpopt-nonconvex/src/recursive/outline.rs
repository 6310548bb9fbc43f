//! What the two plans have in common: stages, weights, radii, and the bound that picks them.

use dpopt_oracle::Convexity;
use dpopt_solver::{Budget, Item, PlanError, PublicFacts, Unit, Value};

use super::facts::ConvexFacts;

/// Factors by which the weights of the regularisers may grow; the paper's is 2.
const GROWTHS: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Most stages that are tried.
const MOST_STAGES: u64 = 12;
/// Weights are tried from 4 L1 down, this many for each factor of 2.
const TRIES_PER_OCTAVE: i32 = 2;
/// How many factors of 2 down.
const OCTAVES: i32 = 34;

/// One stage: minimise F(w) + (M/2) ||w - c||^2 in a ball, privately.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct StageOutline {
    /// Records n_t in its slice.
    pub records: u64,
    /// M_t, the sum of all weights so far.
    pub modulus: f64,
    /// The weight lambda_{t-1} that came last.
    pub weight: f64,
    /// Radius R_t of the ball around the starting point.
    pub radius: f64,
    /// alpha_t: bound on the expected excess of the regularised population risk.
    pub risk: f64,
}

impl StageOutline {
    /// As a plan shows them.
    pub(super) fn items(&self) -> Vec<Item<'static>> {
        vec![
            Item::count("records", self.records),
            Item::number("modulus", self.modulus, Unit::CURVATURE),
            Item::number("weight", self.weight, Unit::CURVATURE),
            Item::number("radius", self.radius, Unit::LENGTH),
            Item::number("risk", self.risk, Unit::LOSS),
        ]
    }
}

/// The outer loop of a plan.
///
/// # Formula
/// lambda_t = lambda b^t, M_t = lambda_0 + ... + lambda_{t-1}. With alpha_t the excess population risk of stage t:
///
/// E||grad F(w_T)|| <= lambda R + sqrt(2 (L1 + M_T) alpha_T) + sqrt(2 M_T alpha_T)
///   + sum_{t<T} [ lambda_t sqrt(2 alpha_t/(2 lambda_t + M_t)) + M_t (lambda_t/(lambda_t + M_t)) sqrt(2 alpha_t/M_t) ].
///
/// The planner minimises it over lambda, b and T. (Ours; the paper's algorithm with its errata repaired has constants 4 and
/// sqrt(lambda L1) R in the place of lambda R.)
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Outline {
    /// lambda.
    pub weight: f64,
    /// b.
    pub growth: f64,
    /// The bound on E||grad F||.
    pub bound: f64,
    /// The stages.
    pub stages: Vec<StageOutline>,
}

impl Outline {
    /// As a plan shows them.
    pub(super) fn items(&self) -> Vec<Item<'static>> {
        let stages = self.stages.iter().map(StageOutline::items).collect();
        vec![
            Item::number("weight", self.weight, Unit::CURVATURE),
            Item::ratio("growth", self.growth),
            Item::number("bound", self.bound, Unit::GRADIENT),
            Item::plain("stages", Value::Rows(stages)),
        ]
    }
}

/// What is given to the inner solver's bound.
pub(super) struct Given {
    pub(super) records: u64,
    pub(super) modulus: f64,
    /// Bound on the expected squared distance from its start to the minimiser.
    pub(super) squared_distance: f64,
}

/// What the inner solver answers.
pub(super) struct Solved<P> {
    /// alpha.
    pub(super) risk: f64,
    /// By how much its output may leave the ball.
    pub(super) overshoot: f64,
    pub(super) plan: P,
}

/// What a planner may choose.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Search {
    /// b, with T = 1 + floor(log_b(L1/lambda)); all are tried without it.
    growth: Option<f64>,
    /// Whether a bound that says nothing is no error.
    allow_vacuous: bool,
}

impl Search {
    /// Anything, whatever the bound says.
    pub(super) fn even_if_vacuous() -> Self {
        Self {
            growth: None,
            allow_vacuous: true,
        }
    }

    /// With this b, whatever the bound says.
    pub(super) fn with_growth(growth: f64) -> Result<Self, PlanError> {
        if !(growth > 1.0 && growth.is_finite()) {
            return Err(PlanError::BadFact {
                name: "growth",
                value: growth,
            });
        }
        Ok(Self {
            growth: Some(growth),
            allow_vacuous: true,
        })
    }
}

/// The facts that a planner has checked.
pub(super) struct Task<'a> {
    pub(super) solver: &'static str,
    pub(super) facts: &'a PublicFacts,
    pub(super) radius: f64,
    /// What the starting point satisfies.
    pub(super) trivial: f64,
    pub(super) mu: f64,
}

impl<'a> Task<'a> {
    pub(super) fn new(
        solver: &'static str,
        facts: &'a ConvexFacts,
        budget: &Budget,
        needed: u64,
    ) -> Result<Self, PlanError> {
        let public = &facts.public;
        public.check()?;
        let radius = facts.radius.ok_or(PlanError::RadiusMissing {
            solver,
            lipschitz: public.lipschitz,
            smoothness: public.smoothness,
            useful_below: public.trivial_bound() / public.smoothness,
        })?;
        PlanError::positive("radius", radius)?;
        if public.convexity != Convexity::Convex {
            return Err(PlanError::NotConvex {
                solver,
                lipschitz: public.lipschitz,
                smoothness: public.smoothness,
            });
        }
        if public.records < needed {
            return Err(PlanError::TooFewRecords {
                solver,
                records: public.records,
                needed,
            });
        }
        Ok(Self {
            solver,
            facts: public,
            radius,
            trivial: facts.trivial_bound(),
            mu: budget.mu()?.get(),
        })
    }

    /// The best outline and the inner plans that go with it, each of which reads so many `slices`.
    pub(super) fn search<P>(
        &self,
        how: Search,
        solve: impl Fn(&Given) -> Option<Solved<P>>,
        slices: impl Fn(&P) -> usize,
    ) -> Result<(Outline, Vec<P>), PlanError> {
        let PublicFacts {
            adjacency, records, ..
        } = *self.facts;
        PlanError::positions(self.solver, (adjacency, records), |_| {
            let (_, plans) = self.best(how.growth, &solve)?;
            Some(plans.iter().map(slices).sum::<usize>() as u64)
        })?;
        let best = self.best(how.growth, &solve);
        let bound = best.as_ref().map_or(f64::INFINITY, |best| best.0.bound);
        match best {
            Some(best) if how.allow_vacuous || bound < self.trivial => Ok(best),
            _ => Err(PlanError::Vacuous {
                solver: self.solver,
                bound,
                trivial: self.trivial,
                records: self.facts.records,
                dim: self.facts.dim,
                mu: self.mu,
            }),
        }
    }

    fn best<P>(
        &self,
        growth: Option<f64>,
        solve: &impl Fn(&Given) -> Option<Solved<P>>,
    ) -> Option<(Outline, Vec<P>)> {
        let mut best: Option<(Outline, Vec<P>)> = None;
        let mut offer = |weight: f64, growth: f64, stages: u64| {
            let limit = best.as_ref().map_or(f64::INFINITY, |best| best.0.bound);
            if let Some(found) = self.outline(weight, growth, stages, limit, solve) {
                best = Some(found);
                return true;
            }
            false
        };
        let mut choice = (0.0, 2.0, 1);
        let smoothness = self.facts.smoothness;
        for half in 0..=OCTAVES * TRIES_PER_OCTAVE {
            let weight = 4.0 * smoothness * (-f64::from(half) / f64::from(TRIES_PER_OCTAVE)).exp2();
            if let Some(growth) = growth {
                let stages = 1 + (smoothness / weight).log(growth).max(0.0) as u64;
                if offer(weight, growth, stages) {
                    choice = (weight, growth, stages);
                }
                continue;
            }
            for growth in GROWTHS {
                for stages in 1..=MOST_STAGES {
                    // With one stage the growth plays no part.
                    if (stages > 1 || growth == GROWTHS[0]) && offer(weight, growth, stages) {
                        choice = (weight, growth, stages);
                    }
                }
            }
        }
        let (weight, growth, stages) = choice;
        for part in -8..=8 {
            offer(weight * (f64::from(part) / 16.0).exp2(), growth, stages);
        }
        best
    }

    /// The outline with these choices, if its bound is below `limit`.
    fn outline<P>(
        &self,
        weight: f64,
        growth: f64,
        count: u64,
        limit: f64,
        solve: &impl Fn(&Given) -> Option<Solved<P>>,
    ) -> Option<(Outline, Vec<P>)> {
        let records = self.facts.records / count;
        let (mut modulus, mut last, mut radius) = (0.0, weight, self.radius);
        let mut squared_distance = self.radius * self.radius;
        let mut bound = weight * self.radius;
        let (mut stages, mut plans) = (Vec::new(), Vec::new());
        for stage in 1..=count {
            modulus += last;
            if !(bound < limit && modulus.is_finite()) {
                return None;
            }
            let Solved {
                risk,
                overshoot,
                plan,
            } = solve(&Given {
                records,
                modulus,
                squared_distance,
            })?;
            stages.push(StageOutline {
                records,
                modulus,
                weight: last,
                radius,
                risk,
            });
            plans.push(plan);
            if stage == count {
                bound += (2.0 * (self.facts.smoothness + modulus) * risk).sqrt()
                    + (2.0 * modulus * risk).sqrt();
                break;
            }
            last *= growth;
            squared_distance = 2.0 * risk / (2.0 * last + modulus);
            bound += last * squared_distance.sqrt()
                + modulus * (last / (last + modulus)) * (2.0 * risk / modulus).sqrt();
            if overshoot > 0.0 {
                // A Gaussian vector is longer than sqrt(d) + 6 with probability below e^-18; the gradient is
                // at most L0 then as always.
                bound += 1.6e-8 * self.facts.lipschitz;
            }
            radius = radius.hypot(radius + overshoot);
        }
        (bound < limit).then_some((
            Outline {
                weight,
                growth,
                bound,
                stages,
            },
            plans,
        ))
    }
}
