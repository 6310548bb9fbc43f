//! The planner of a pass: periods, batches and the length of a step.

use dpopt_solver::search::whole;

use super::estimate::PassEstimate;
use super::period::Period;
use crate::blocks::{Numbers, scales};
use crate::facts::SaddleFacts;

/// The fourth root of 7: the fourth moment of a mean of at least one record, over its second.
const FOURTH: f64 = 1.626_576_561_697_786;
/// Longest period that is tried.
const LONGEST: f64 = 3e4;

/// Everything that a pass does, and what is proven of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) scale: f64,
    pub(super) inner: u64,
    pub(super) before: u64,
    pub(super) period: Period,
    /// P.
    pub(super) periods: u64,
    /// h.
    pub(super) length: f64,
    /// b.
    pub(super) root: u64,
    /// beta: records of a change over its length.
    pub(super) rate: f64,
    /// Lambda: the path of a period, in the fourth mean.
    pub(super) path: f64,
    /// e: error of an estimate in grad Phi, root mean square.
    pub(super) error: f64,
    /// On the mean gradient norm over all steps of x, of runs that make them all.
    pub(super) bound: f64,
}

pub(super) struct Search<'a> {
    pub(super) facts: &'a SaddleFacts,
    pub(super) estimate: PassEstimate,
    pub(super) mu: f64,
    /// Records for the walk.
    pub(super) records: u64,
    /// p.
    pub(super) failure: f64,
    pub(super) max_steps: u64,
}

/// ln P, ln h, and the logit of the part of the records that anchors read.
type Knobs = [f64; 3];

impl Search<'_> {
    pub(super) fn best(&self) -> Option<Shape> {
        let all = scales(self.facts);
        let middle = all[all.len() / 2];
        let of = Numbers::new(self.facts, middle);
        let factors: &[f64] = match of.contraction > 1e-9 {
            true => &[4.0, 16.0, 64.0],
            false => &[4.0],
        };
        let mut best: Option<(Shape, Knobs)> = None;
        for &factor in factors {
            let inner = of.inner_steps(factor);
            let most = (self.max_steps / (inner + 1)).min(self.records) as f64;
            for q in whole(1.0, most.min(LONGEST), 1.3) {
                self.try_at(middle, (inner, q), None, &mut best);
            }
        }
        let (found, knobs) = best?;
        let q = found.period.steps;
        for &scale in &all {
            for q in [q * 7 / 8, q, q + q.div_ceil(8)] {
                self.try_at(scale, (found.inner, q.max(1)), Some(knobs), &mut best);
            }
        }
        best.map(|(shape, _)| shape)
    }

    /// The best with this scale, K and q.
    fn try_at(
        &self,
        scale: f64,
        (inner, q): (u64, u64),
        from: Option<Knobs>,
        best: &mut Option<(Shape, Knobs)>,
    ) {
        let of = Numbers::new(self.facts, scale);
        let trivial = self.facts.trivial_bound();
        let before = of.inner_steps((40.0 * of.smooth_xy * of.diameter / trivial).max(4.0));
        let Ok(period) = Period::new(self.estimate, q, inner) else {
            return;
        };
        let at = |knobs: &Knobs| self.shape(&of, &period, (inner, before), *knobs);
        let value = |shape: &Option<Shape>| shape.map_or(f64::INFINITY, |shape| shape.bound);
        let start = from.unwrap_or_else(|| {
            // Few steps where noise rules, many where sampling does.
            let most = (self.records as f64).cbrt();
            let gap = self.facts.mean.value_gap / of.value_smoothness;
            let tried = (0..8).map(|fewer| {
                let periods = (most / q as f64 * 0.3f64.powi(fewer)).max(1.0);
                let length = (2.0 * gap / (periods * q as f64)).sqrt();
                [periods.ln(), length.ln(), 0.0]
            });
            let least = tried.min_by(|a, b| value(&at(a)).total_cmp(&value(&at(b))));
            least.unwrap_or_default()
        });
        let (mut knobs, mut found) = (start, at(&start));
        let mut width = if from.is_some() { 0.3 } else { 1.2 };
        while width > 0.02 {
            let mut better = false;
            for axis in 0..3 {
                for sign in [-1.0, 1.0] {
                    let mut other = knobs;
                    other[axis] += sign * width;
                    let tried = at(&other);
                    if value(&tried) < value(&found) {
                        (knobs, found, better) = (other, tried, true);
                    }
                }
            }
            if !better {
                width *= 0.5;
            }
        }
        if let Some(found) = found
            && best.is_none_or(|(old, _)| found.bound < old.bound)
        {
            *best = Some((found, knobs));
        }
    }

    /// The pass with these numbers, where the records suffice for it: the theorem of `docs/theory/minimax.md`.
    fn shape(
        &self,
        of: &Numbers,
        period: &Period,
        (inner, before): (u64, u64),
        [periods, length, share]: Knobs,
    ) -> Option<Shape> {
        let (periods, h) = (periods.exp().floor().max(1.0), length.exp());
        let (q, variations) = (period.steps as f64, period.variations as f64);
        let releases = before as f64 + periods * (variations + 1.0);
        if !(releases <= self.max_steps as f64) {
            return None;
        }
        let share = if variations > 0.0 {
            1.0 / (1.0 + (-share).exp())
        } else {
            1.0
        };
        // A change reads at most one record more than its length asks for.
        let left = self.records as f64 - periods * variations;
        let anchors = before as f64 + periods;
        let root = (share * left / anchors).floor();
        if !(root >= 1.0) {
            return None;
        }
        let spare = self.failure.powf(-0.25);
        let for_path = (left - anchors * root) / (spare * period.reads * periods);
        if variations > 0.0 && !(for_path > 0.0) {
            return None;
        }
        let sensitivity = self.facts.adjacency.sum_sensitivity() / self.mu;
        let shown = |rate: f64, path: f64| Errors {
            of,
            period,
            root,
            rate,
            path,
            anchor: sensitivity * of.clip / root,
            change: if variations > 0.0 {
                sensitivity * of.smoothness / rate
            } else {
                0.0
            },
        };
        let mut path = (q - 1.0) * h + of.smooth_xy * q * h / (of.strong_concavity * of.scale);
        for _ in 0..60 {
            path = path.max(f64::MIN_POSITIVE);
            let rate = for_path / path;
            let errors = shown(rate, path);
            let needed = errors.path(h, inner, before);
            if needed <= path {
                let error = errors.of_value(self.facts.record.lipschitz_x);
                let lag = errors.lag(h, inner, before);
                let descent = self.facts.mean.value_gap / (h * periods * q);
                let bound = descent + 0.5 * of.value_smoothness * h + 2.0 * (error + lag);
                return bound.is_finite().then_some(Shape {
                    scale: of.scale,
                    inner,
                    before,
                    period: *period,
                    periods: periods as u64,
                    length: h,
                    root: root as u64,
                    rate,
                    path,
                    error: error + lag,
                    bound,
                });
            }
            path = 1.02 * needed;
            if !path.is_finite() {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
impl Search<'_> {
    /// The least bound on a grid that has nothing to do with how it is searched.
    pub(super) fn least_of_a_grid(&self) -> f64 {
        let mut least = f64::INFINITY;
        for scale in scales(self.facts).into_iter().step_by(3) {
            let of = Numbers::new(self.facts, scale);
            for q in whole(1.0, 2000.0, 1.4) {
                let Ok(period) = Period::new(self.estimate, q, 1) else {
                    continue;
                };
                for periods in dpopt_solver::search::geometric(1.0, 1e5, 1.5) {
                    for h in dpopt_solver::search::geometric(1e-4, 1.0, 1.35) {
                        for share in [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0] {
                            let knobs = [periods.ln(), h.ln(), share];
                            if let Some(shape) = self.shape(&of, &period, (1, 1), knobs) {
                                least = least.min(shape.bound);
                            }
                        }
                    }
                }
            }
        }
        least
    }
}

/// The errors of an estimate.
struct Errors<'a> {
    of: &'a Numbers,
    period: &'a Period,
    root: f64,
    rate: f64,
    path: f64,
    /// Noise of an anchor and of a change, per coordinate.
    anchor: f64,
    change: f64,
}

impl Errors<'_> {
    /// Variance of the noise per coordinate, of a whole period.
    fn variance(&self) -> f64 {
        self.anchor.powi(2) + (self.period.noise * self.change).powi(2)
    }

    /// L^2 Lambda/beta.
    fn sampling(&self) -> f64 {
        if self.period.variations == 0 {
            return 0.0;
        }
        self.of.smoothness.powi(2) * self.path / self.rate
    }

    /// e: of grad Phi, without what y is behind.
    fn of_value(&self, lipschitz_x: f64) -> f64 {
        let of = self.of;
        let per_y = of.coupling / of.scale;
        let reach = of.x_dim.sqrt() + per_y * of.y_dim.sqrt();
        let lengths = lipschitz_x + of.coupling * of.clip_y;
        (lengths.powi(2) / self.root
            + reach * reach * self.variance()
            + (1.0 + per_y * per_y) * self.sampling())
        .sqrt()
    }

    /// E_y: of grad_y, in the fourth mean.
    fn of_y(&self) -> f64 {
        let of = self.of;
        let anchor = (3.0 + 4.0 / self.root).sqrt() * (of.clip_y.powi(2) / self.root);
        let changes = FOURTH.powi(2) * self.sampling() / of.scale.powi(2);
        2.0 * (anchor + changes).sqrt() + fourth(of.y_dim) * self.variance().sqrt() / of.scale
    }

    /// Lambda that these errors need.
    fn path(&self, h: f64, inner: u64, before: u64) -> f64 {
        let (of, period) = (self.of, self.period);
        let (q, variations) = (period.steps as f64, period.variations as f64);
        let straight = (q - 1.0) * h;
        if inner == 0 {
            return straight;
        }
        let error = self.of_y();
        let noise = period.jitter * variations * fourth(of.y_dim) * self.change;
        let sampled =
            period.wobble * FOURTH * of.smoothness * (variations * self.path / self.rate).sqrt();
        let moved = (noise + sampled) / of.scale;
        let r = of.contraction;
        let behind = of.coupling * h / (1.0 - of.left(inner)) + error / of.strong_concavity;
        let first = (1.0 + r) * (of.left(before) * of.diameter + r * behind) + r * of.rate * error;
        let of_y =
            first / (1.0 - r) + (q * of.smooth_xy * h + moved + 2.0 * error) / of.strong_concavity;
        straight + of_y / of.scale
    }

    /// L_xy times what y is behind by the steps that it was not given.
    fn lag(&self, h: f64, inner: u64, before: u64) -> f64 {
        let (of, left) = (self.of, self.of.left(inner));
        if inner == 0 {
            return 0.0;
        }
        of.smooth_xy
            * (of.coupling * h * left / (1.0 - left) + of.left(inner + before) * of.diameter)
    }
}

/// The root of the mean fourth power of the length of so many standard normal numbers.
fn fourth(dim: f64) -> f64 {
    (dim * dim + 2.0 * dim).powf(0.25)
}
