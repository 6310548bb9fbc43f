//! The planner: step, error and contraction by a public search, targets from the last one up.

use dpopt_solver::{KlCondition, PublicFacts};

use super::budget::{Draft, Tail, squared_mus};
use super::descent::Pace;

/// a: step length over G/L.
const STEPS: [f64; 7] = [0.03, 0.06, 0.1, 0.18, 0.3, 0.5, 0.8];
/// b: allowed error over G.
const ERRORS: [f64; 7] = [0.95, 0.9, 0.8, 0.7, 0.6, 0.45, 0.3];
/// c: ratio of the targets of neighbouring phases; the largest first, whose plans have the fewest phases to look at.
const RATIOS: [f64; 8] = [25.0, 12.0, 6.5, 4.0, 2.7, 2.0, 1.5, 1.2];
/// How much the bound may grow to save steps.
const CONCESSION: f64 = 1.05;
/// Phases of a plan at most.
const MOST_PHASES: usize = 10_000;

/// What all candidates share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) kl: &'a KlCondition,
    /// Lipschitz constant of the gradient of the objective, regulariser included.
    pub(super) smoothness: f64,
    pub(super) mu: f64,
    pub(super) failure: f64,
    pub(super) max_steps: u64,
}

/// (a, b, c).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) step: f64,
    pub(super) error: f64,
    pub(super) ratio: f64,
}

impl Search<'_> {
    /// The phases of a shape for a last target; none where they take too many steps.
    pub(super) fn drafts(&self, shape: &Shape, last: f64) -> Option<Vec<Draft>> {
        let gap = self.facts.initial_gap;
        let mut drafts = Vec::new();
        let (mut target, mut steps) = (last, 0.0);
        while target < gap {
            let start = (shape.ratio * target).min(gap);
            let draft = self.draft(shape, start, target);
            steps += draft.updates;
            if !(steps <= self.max_steps as f64) || drafts.len() == MOST_PHASES {
                return None;
            }
            drafts.push(draft);
            target = start;
        }
        drafts.reverse();
        Some(drafts)
    }

    /// The phase from excess `start` to excess `target`.
    fn draft(&self, shape: &Shape, start: f64, target: f64) -> Draft {
        let (kl, facts) = (self.kl, self.facts);
        let pace = Pace {
            step: shape.step,
            error: shape.error,
            kappa: kl.kappa(),
        };
        // Below the target by what a step can add to it. The condition number at the lower level is no smaller.
        let level =
            target / (1.0 + pace.overshoot() / kl.condition_number(self.smoothness, target));
        let gradient = kl.gradient_norm_at(level);
        let step_length = shape.step * gradient / self.smoothness;
        let condition = kl.condition_number(self.smoothness, level);
        Draft {
            target,
            updates: pace.steps(start / level, target / level, condition),
            step_length,
            stop_below: (1.0 - shape.error) * gradient,
            allowed_error: shape.error * gradient,
            anchor: facts.noise_std(facts.lipschitz, 1.0),
            variation: facts.noise_std(
                (facts.smoothness * step_length).min(2.0 * facts.lipschitz),
                1.0,
            ),
        }
    }

    fn affordable(&self, shape: &Shape, last: f64, tail: Tail) -> Option<Vec<Draft>> {
        let drafts = self.drafts(shape, last)?;
        let cost: f64 = squared_mus(&drafts, self.facts.dim, self.failure, tail).sum();
        (cost <= self.mu * self.mu).then_some(drafts)
    }

    /// About the least last target that a shape can afford, given one that it can: at most that.
    fn least(&self, shape: &Shape, known: f64) -> f64 {
        let fits = |log: f64| self.affordable(shape, log.exp(), Tail::Closed).is_some();
        let (mut good, mut step) = (known.ln(), 0.25);
        while step < 700.0 && fits(good - step) {
            good -= step;
            step *= 2.0;
        }
        let mut bad = good - step;
        for _ in 0..18 {
            let middle = 0.5 * (good + bad);
            if fits(middle) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        good.exp()
    }

    /// The best shape and its least target; an error with the least bound above F0 where there is none below it.
    pub(super) fn best(&self) -> Result<(Shape, Vec<Draft>), f64> {
        let gap = self.facts.initial_gap;
        let almost = gap * (1.0 - 1e-6);
        let mut best: Option<(Shape, f64)> = None;
        for shape in shapes() {
            // A plan that only just helps is not to be missed for the closed tail.
            let (sought, tail) = match best {
                Some((_, target)) => (0.999 * target, Tail::Closed),
                None => (almost, Tail::Exact),
            };
            if self.affordable(&shape, sought, tail).is_some() {
                best = Some((shape, self.least(&shape, sought)));
            }
        }
        let (shape, target) = best.ok_or_else(|| self.hopeless())?;
        let most = (CONCESSION * target).min(almost);
        let thrifty = self.thrifty(shape, most);
        self.finish(thrifty, self.least(&thrifty, most))
            .or_else(|| self.finish(shape, target))
            .ok_or_else(|| self.hopeless())
    }

    /// The least target of a shape under the exact tail, which affords a little more than `known`.
    fn finish(&self, shape: Shape, known: f64) -> Option<(Shape, Vec<Draft>)> {
        let (mut good, mut bad) = (known.ln(), known.ln() - 1.0);
        for _ in 0..24 {
            let middle = 0.5 * (good + bad);
            match self.affordable(&shape, middle.exp(), Tail::Exact) {
                Some(_) => good = middle,
                None => bad = middle,
            }
        }
        let drafts = self.affordable(&shape, good.exp(), Tail::Exact)?;
        Some((shape, drafts))
    }

    /// Of the shapes near `shape` that can afford `target` the one with the fewest steps.
    fn thrifty(&self, shape: Shape, target: f64) -> Shape {
        let near = shapes().filter(|other| {
            other.ratio == shape.ratio || (other.step == shape.step && other.error == shape.error)
        });
        let steps = |drafts: Vec<Draft>| drafts.iter().map(|draft| draft.updates).sum::<f64>();
        let mut best = (shape, f64::INFINITY);
        for other in near {
            let taken = self.affordable(&other, target, Tail::Closed).map(steps);
            if let Some(taken) = taken.filter(|taken| *taken < best.1) {
                best = (other, taken);
            }
        }
        best.0
    }

    /// The excess at which one phase would be affordable that begins just above its target; at least F0.
    fn hopeless(&self) -> f64 {
        let gap = self.facts.initial_gap;
        let cost = |shape: Shape| {
            let drafts = [self.draft(&shape, gap, gap * (1.0 - 1e-6))];
            squared_mus(&drafts, self.facts.dim, self.failure, Tail::Exact).sum::<f64>()
        };
        let least = shapes().map(cost).fold(f64::INFINITY, f64::min);
        self.refused(gap * (least / (self.mu * self.mu)).powf(0.5 * self.kl.kappa()))
    }

    /// What a refusal names: never less than F0, where the number of steps is what is missing.
    pub(super) fn refused(&self, bound: f64) -> f64 {
        bound.max(self.facts.initial_gap)
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    let of = |ratio| {
        STEPS.into_iter().flat_map(move |step| {
            ERRORS
                .into_iter()
                .map(move |error| Shape { step, error, ratio })
        })
    };
    RATIOS.into_iter().flat_map(of)
}
