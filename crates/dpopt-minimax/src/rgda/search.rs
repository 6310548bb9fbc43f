//! The search of `rgda`'s planner: the least target that the budget pays for.

use dpopt_privacy::NoiseMultiplier;
use dpopt_solver::search::geometric;
use dpopt_solver::{Item, Split, Unit, Value, chi_reach};

use crate::blocks::{Numbers, scales, squares};
use crate::facts::{MeanFacts, SaddleFacts};
use crate::tracker::{Ascent, Noise};

/// Every step of length a/(2 L_Phi) with a released length of at least a, whose error is at most a/2, lowers Phi by a^2/(8 L_Phi).
const STEPS: f64 = 8.0;
/// Share of the error for what y is behind.
const LAG: f64 = 0.05;
/// Factor on the error of y in the practical preset: (4/3) e_y.
const PRACTICAL_Y: f64 = 4.0 / 3.0;
/// Factor on all errors there: the largest of a run, in place of a typical one. By runs on one problem at up to a million records.
const LARGEST: f64 = 1.04;

/// What an `RgdaPlan` does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) scale: f64,
    pub(crate) target: f64,
    pub(crate) steps: u64,
    pub(crate) inner: u64,
    pub(crate) before: u64,
    pub(crate) period: u64,
    pub(crate) path: f64,
    pub(crate) anchor: f64,
    pub(crate) variation: f64,
    /// Squared mu, of samples in the limit of many.
    pub(crate) cost: f64,
    pub(crate) proven: bool,
}

impl Schedule {
    /// What a plan says of it, with the length of a step of x and the clip.
    pub(crate) fn items(&self, step_length: f64, clip: f64) -> Vec<Item<'static>> {
        vec![
            Item::number("target", self.target, Unit::GRADIENT),
            Item::plain("proven", Value::Flag(self.proven)),
            Item::count("outer_steps", self.steps),
            Item::number("step_length", step_length, Unit::LENGTH),
            Item::count("inner_steps", self.inner),
            Item::count("steps_of_y_before", self.before),
            Item::ratio("scale", self.scale),
            Item::count("period", self.period),
            Item::maybe(
                "longest_path",
                self.path.is_finite().then(|| self.path.sqrt()),
                Unit::LENGTH,
            ),
            Item::number("clip", clip, Unit::GRADIENT),
            Item::ratio("anchor_noise_multiplier", self.anchor),
            Item::ratio("variation_noise_multiplier", self.variation),
        ]
    }

    /// The steps of y.
    pub(crate) fn ascent(&self, facts: &SaddleFacts) -> Ascent {
        Ascent {
            steps: self.inner,
            rate: Numbers::new(facts, self.scale).rate,
            before: self.before,
        }
    }

    pub(crate) fn releases(&self) -> f64 {
        all_releases(self.steps as f64, self.inner, self.before)
    }

    /// Anchors and variations, where no anchor comes early.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let (steps, period) = (self.steps as f64, self.period as f64);
        let counts = Counts {
            steps,
            inner: self.inner,
            before: self.before,
            period,
            early: 1.0,
        };
        let (anchors, variations) = counts.releases();
        (anchors as u64, variations as u64)
    }

    pub(crate) fn noise(&self) -> Result<Noise, dpopt_privacy::UnitError> {
        Ok(Noise {
            anchor: NoiseMultiplier::new(self.anchor)?,
            variation: NoiseMultiplier::new(self.variation)?,
            period: self.period,
            path: self.path,
        })
    }
}

/// What a plan is asked for.
pub(crate) struct Task<'a> {
    pub(crate) facts: &'a SaddleFacts,
    pub(crate) squared_mu: f64,
    pub(crate) max_steps: f64,
    /// p; none for the practical preset.
    pub(crate) failure: Option<f64>,
    /// T of a target, and how many anchors may come for each that is due.
    pub(crate) steps: &'a dyn Fn(f64) -> f64,
    pub(crate) early: f64,
    /// b: how many records a variation reads; none for all of them.
    pub(crate) batch: Option<f64>,
}

/// T of `rgda`.
pub(crate) fn descending(facts: &SaddleFacts, target: f64) -> f64 {
    let MeanFacts {
        value_smoothness,
        value_gap,
        ..
    } = facts.mean;
    (STEPS * value_smoothness * value_gap / (target * target)).ceil() + 1.0
}

impl Task<'_> {
    /// The schedule with the least a up to `most`, if there is one.
    pub(crate) fn least(&self, most: f64) -> Option<Schedule> {
        let mut best: Option<Schedule> = None;
        for scale in scales(self.facts) {
            // Another scale is of interest only where it does better than the best.
            let top = best.map_or(most, |best| best.target);
            best = self.least_at(scale, top).or(best);
        }
        best
    }

    /// The same under one scale of y.
    pub(crate) fn least_at(&self, scale: f64, most: f64) -> Option<Schedule> {
        let of = Numbers::new(self.facts, scale);
        let at = |target: f64| {
            self.cheapest(&of, target)
                .filter(|found| found.cost <= self.squared_mu)
        };
        let mut found = at(most)?;
        let (mut low, mut high) = (most * 1e-6, most);
        for _ in 0..30 {
            let middle = (low * high).sqrt();
            match at(middle) {
                Some(better) => (high, found) = (middle, better),
                None => low = middle,
            }
        }
        Some(found)
    }

    /// The cheapest schedule with this a.
    fn cheapest(&self, of: &Numbers, target: f64) -> Option<Schedule> {
        let sample = self.batch.map(|batch| Sample {
            batch,
            rate: batch / self.facts.records as f64,
        });
        let steps = (self.steps)(target);
        let mut best: Option<Schedule> = None;
        let mut factors = vec![1.0 / LAG];
        if self.failure.is_none() || of.contraction > 1e-9 {
            factors = vec![4.0, 16.0, 64.0];
        }
        for factor in factors {
            let inner = of.inner_steps(factor);
            let before =
                of.inner_steps((4.0 * of.smooth_xy * of.diameter / (LAG * target)).max(4.0));
            if all_releases(steps, inner, before) > self.max_steps {
                continue;
            }
            for period in geometric(1.0, steps.max(1.0), 1.12) {
                let counts = Counts {
                    steps,
                    inner,
                    before,
                    period: period.floor(),
                    early: self.early,
                };
                let found = match self.failure {
                    Some(failure) => proven(of, target, counts, (failure, sample)),
                    None => practical(of, target, counts),
                };
                if let Some(found) = found
                    && best.is_none_or(|old| found.cost < old.cost)
                {
                    best = Some(found);
                }
            }
        }
        best
    }
}

/// With an anchor more than are planned for.
fn all_releases(steps: f64, inner: u64, before: u64) -> f64 {
    (before + 1) as f64 + steps * (inner + 1) as f64
}

/// T, K, K_0 and q.
#[derive(Debug, Clone, Copy)]
struct Counts {
    steps: f64,
    inner: u64,
    before: u64,
    period: f64,
    /// Anchors for each that is due.
    early: f64,
}

impl Counts {
    /// Anchors and variations.
    fn releases(&self) -> (f64, f64) {
        let periods = (self.steps / self.period).ceil();
        (
            self.before as f64 + self.early * periods,
            self.steps * (self.inner + 1) as f64 - periods,
        )
    }
}

/// The schedule with these counts whose errors have typical size: `docs/theory/minimax.md`, "Practical constants".
fn practical(of: &Numbers, target: f64, counts: Counts) -> Option<Schedule> {
    let Counts {
        steps,
        inner,
        before,
        period,
        ..
    } = counts;
    let (anchors, variations) = counts.releases();
    let length = 0.5 * target / of.value_smoothness;
    let typical = of.x_dim.sqrt() + PRACTICAL_Y * of.coupling * of.y_dim.sqrt() / of.scale;
    let reach = LARGEST * typical;
    let movement = 1.0 + of.movement(inner);
    let a = of.anchor * of.anchor;
    let b = of.variation * of.variation * period * movement * length * length;
    let variance = (0.5 * target / reach).powi(2);
    let split = Split::new((a, anchors), (b, variations), variance);
    Some(Schedule {
        scale: of.scale,
        target,
        steps: steps as u64,
        inner,
        before,
        period: period as u64,
        path: f64::INFINITY,
        anchor: split.anchor,
        variation: split.variation,
        cost: split.cost,
        proven: false,
    })
}

/// What variations read.
#[derive(Debug, Clone, Copy)]
struct Sample {
    batch: f64,
    rate: f64,
}

impl Sample {
    /// With probability 1 - p no sum of sampling errors along a squared path of 1 is longer, for changes of Lipschitz constant 1: Bernstein's
    /// inequality for martingales, `docs/theory/minimax.md`.
    fn reach(&self, failure: f64) -> f64 {
        let log = (2.0 / failure).ln();
        (2.0 * log / self.batch).sqrt() + 4.0 * log / (3.0 * self.batch)
    }

    /// The multiplier before sampling, over the rate, that costs what this one on all records does, in the limit of many releases.
    fn multiplier(&self, whole: f64) -> f64 {
        let squared = (self.rate * whole).powi(-2);
        squared.ln_1p().powf(-0.5) / self.rate
    }
}

/// The schedule with these counts for which the theorem holds; none where its conditions don't.
fn proven(
    of: &Numbers,
    target: f64,
    counts: Counts,
    (failure, sample): (f64, Option<Sample>),
) -> Option<Schedule> {
    let Counts {
        steps,
        inner,
        before,
        period,
        ..
    } = counts;
    let (anchors, variations) = counts.releases();
    let length = 0.5 * target / of.value_smoothness;
    // Three events share p, and two more on samples; a reflection costs a factor of 2.
    let each = failure / if sample.is_some() { 5.0 } else { 3.0 };
    let sampled = sample.map_or(0.0, |of| of.reach(each / anchors)) * of.smoothness;
    let sampled_once =
        sample.map_or(0.0, |of| of.reach(each / variations.max(1.0))) * of.smoothness;
    // The noise of a variation on a sample, over that of one on all records that costs the same.
    let mut dearer = 1.0;
    let reach_x = chi_reach(of.x_dim, 0.5 * each / anchors);
    let reach_y = chi_reach(of.y_dim, 0.5 * each / anchors);
    let reach_one = chi_reach(of.y_dim, each / variations.max(1.0));
    // What y is behind.
    let left = of.left(inner);
    let lag = if of.y_dim > 0.0 {
        let behind = of.coupling * length * left / (1.0 - left);
        of.smooth_xy * (behind + of.left(inner + before) * of.diameter)
    } else {
        0.0
    };
    let per_y = of.coupling / of.scale;
    // Of a whole period, rounded: an anchor, and variations whose radii add up to L sqrt(N path).
    let rounded = |path: f64| {
        let changes = (period * (inner + 1) as f64 * path).sqrt();
        of.rounding() * (of.clip + of.smoothness * changes)
    };
    // Of y: what single variations, and what errors other than noise, do to it.
    let (mut nu, mut other_y) = (0.0, 0.0);
    for _ in 0..40 {
        let contraction = of.contraction + nu / of.scale;
        if !(contraction < 1.0) {
            return None;
        }
        // The path that fits depends on E_y: noise, which is at most what the whole error allows, and rounding.
        let most_y = if per_y > 0.0 {
            0.5 * target / (reach_x + per_y * reach_y) * reach_y / of.scale + other_y
        } else {
            0.0
        };
        let path = period * length * length
            + if inner == 0 {
                0.0
            } else {
                let kept = contraction.powf(inner as f64);
                let steady = (of.rate * of.smooth_xy + nu) * length / (1.0 - kept);
                let first = of.left(before) * of.diameter + 2.0 * most_y / of.strong_concavity;
                let jump = 2.0 * of.rate * most_y / (1.0 - kept);
                let excess = first.max(jump) / (1.0 - kept * kept).sqrt();
                let sum = period.sqrt() * steady + excess;
                squares(contraction, inner) * (sum / of.scale).powi(2)
            };
        let path = path * (1.0 + 1e-6);
        let of_samples = sampled * path.sqrt();
        let error =
            0.5 * target - lag - (1.0 + per_y) * rounded(path) - 1f64.hypot(per_y) * of_samples;
        if !(error > 0.0) {
            return None;
        }
        let variance = (error / (reach_x + per_y * reach_y)).powi(2);
        let a = of.anchor * of.anchor;
        let b = (of.variation * dearer).powi(2) * path;
        let split = Split::new((a, anchors), (b, variations), variance);
        let on_sample = sample.map_or(1.0, |of| of.multiplier(split.variation) / split.variation);
        // lambda x noise of y in one variation over its displacement.
        let single = reach_one * of.variation * dearer * split.variation
            + of.rounding() * of.smoothness
            + sampled_once;
        let needed = of.rate * single / of.scale;
        let others = (rounded(path) + of_samples) / of.scale;
        let settled = (needed <= nu && others <= other_y) || of.y_dim == 0.0;
        if settled && on_sample <= dearer {
            return Some(Schedule {
                scale: of.scale,
                target,
                steps: steps as u64,
                inner,
                before,
                period: period as u64,
                path,
                anchor: split.anchor,
                variation: split.variation * sample.map_or(1.0, |of| of.rate * dearer),
                cost: split.cost,
                proven: true,
            });
        }
        nu = nu.max(1.02 * needed);
        other_y = other_y.max(1.02 * others);
        if on_sample > dearer {
            dearer = 1.02 * on_sample;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole samples of 20 of 400 signs of which as many are up as down, eight changes of length 1 each: the largest sum of errors over a path of
    /// squared length 8. With failure 0.1 the reach is passed in none of 2,000 runs or few (a tenth would be 200), and a quarter of it in many.
    #[test]
    fn errors_of_samples_stay_within_their_reach() {
        let mut state = 9u64;
        let mut below = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as usize) % n
        };
        let of = Sample {
            batch: 20.0,
            rate: 0.05,
        };
        let reach = of.reach(0.1) * 8f64.sqrt();
        let (mut over, mut over_a_quarter) = (0, 0);
        for _ in 0..2_000 {
            let (mut sum, mut largest) = (0.0f64, 0.0f64);
            for _ in 0..8 {
                let mut signs: Vec<f64> = (0..400)
                    .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
                    .collect();
                for drawn in 0..20 {
                    let other = drawn + below(400 - drawn);
                    signs.swap(drawn, other);
                    sum += signs[drawn] / 20.0;
                }
                largest = largest.max(sum.abs());
            }
            over += u32::from(largest > reach);
            over_a_quarter += u32::from(largest > 0.25 * reach);
        }
        assert!(over <= 200, "{over}");
        assert!(over_a_quarter > 400, "{over_a_quarter}");
    }

    /// Many releases of the sampled multiplier cost what the whole one does: q^2 (e^(1/z^2) - 1) = 1/z'^2.
    #[test]
    fn a_sampled_multiplier_costs_what_the_whole_one_does() {
        for (rate, whole) in [(0.5, 3.0), (0.01, 200.0), (0.001, 30.0)] {
            let of = Sample { batch: 1.0, rate };
            let z = rate * of.multiplier(whole);
            let cost = rate * rate * (z.powi(-2).exp() - 1.0);
            assert!((cost * whole * whole - 1.0).abs() < 1e-9, "{rate} {whole}");
            // Never less noise than on all records.
            assert!(of.multiplier(whole) > whole);
        }
    }
}
