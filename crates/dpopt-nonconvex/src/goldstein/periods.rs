//! Walks whose estimates are recursive: how good an estimate is, what the walk is worth, and the best of them.
//! (`docs/theory/goldstein.md`, Theorem 3.)

use dpopt_oracle::SmoothedFields;
use dpopt_oracle::query::smoothed_gradient_bound;
use dpopt_privacy::{ErrorMeasure, Participation, PrefixKind, PrefixNoise};
use dpopt_solver::{PublicFacts, search::geometric};

use super::schedule::MOST_NUMBERS;

/// The longest period that is looked at.
const LONGEST: u64 = 1 << 12;

/// What errors of mean zero are charged as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charged {
    /// By Theorem 3.
    AsNoise,
    /// As if they always pointed the same way: 2 G0, as the theorems of arXiv 2410.05880 do.
    AsBias,
}

/// Which records a walk in periods reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reads {
    /// Unread ones.
    Slices,
    /// All, in at most so many steps, by so many offsets and frames.
    All {
        most: u64,
        offsets: u64,
        frames: u64,
    },
}

/// What all walks of a planner have in common.
#[derive(Clone, Copy)]
pub(super) struct Periodic<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) mu: f64,
    pub(super) radius: f64,
    pub(super) reads: Reads,
    pub(super) charged: Charged,
    pub(super) fields: SmoothedFields,
    /// c_d.
    pub(super) constant: f64,
}

/// The numbers of one walk in periods. Whole or not: a search goes through both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    /// B1 and B2; all records where all are read.
    pub(super) anchor: f64,
    pub(super) change: f64,
    /// a.
    pub(super) smoothing: f64,
    /// M.
    pub(super) block: f64,
    /// T.
    pub(super) steps: f64,
}

/// What a walk in periods is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Worth {
    /// G1.
    pub(super) size: f64,
    pub(super) anchor_multiplier: f64,
    pub(super) change_multiplier: f64,
    pub(super) bound: f64,
}

/// The best walk with periods of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Best {
    /// Sigma.
    pub(super) len: u64,
    /// Where the noise of changes comes from; none: independent noise by actual moves.
    pub(super) prefix: Option<PrefixKind>,
    pub(super) shape: Shape,
    pub(super) worth: Worth,
}

/// c_d: L c_d/a is the Lipschitz constant of the gradient of the smoothed loss. c_{d+2} = c_d (d + 2)/(d + 1).
pub(super) fn smoothing_constant(dim: usize) -> f64 {
    let start = if dim.is_multiple_of(2) {
        4.0 / std::f64::consts::PI
    } else {
        1.0
    };
    let product = (1..dim)
        .filter(|k| k % 2 == dim % 2)
        .map(|k| (k as f64 + 2.0) / (k as f64 + 1.0))
        .fold(start, |all, factor| all * factor);
    // Rounded up; and never above sqrt d.
    (product * (1.0 + 1e-9)).min((dim as f64).sqrt())
}

impl Periodic<'_> {
    /// rho and D.
    pub(super) fn cap(&self, shape: &Shape) -> f64 {
        2.0 * (self.radius - shape.smoothing) / (shape.block + 1.0)
    }

    /// The clip radius of an anchor, and a bound on the mean squared length of what one record contributes there, for L = 1.
    pub(super) fn anchor_clip(&self) -> (f64, f64) {
        let d = self.facts.dim as f64;
        match self.fields {
            SmoothedFields::Values => {
                let clip = smoothed_gradient_bound(1.0, self.facts.dim);
                let gap = if d > 1.0 { d / (d - 1.0) } else { 1.0 };
                (clip, gap.min(clip * clip))
            }
            _ => (1.0, 1.0),
        }
    }

    /// The worth of a walk with periods of `len` steps, whose prefixes have these variances.
    pub(super) fn worth(&self, len: u64, variances: &[f64], shape: &Shape) -> Worth {
        let facts = self.facts;
        // In units of L, whose square may be no number.
        let d = facts.dim as f64;
        let gap = facts.initial_gap / facts.lipschitz;
        let s = facts.adjacency.sum_sensitivity();
        let (a, sigma) = (shape.smoothing, len as f64);
        let cap = self.cap(shape);
        let nothing = Worth {
            size: f64::INFINITY,
            anchor_multiplier: f64::INFINITY,
            change_multiplier: f64::INFINITY,
            bound: f64::INFINITY,
        };
        // A move of 2 D has to be within the radius to which changes are clipped in any case, 2 L.
        // Nor is anything gained by prefixes without a variance.
        if variances.len() < len as usize {
            return nothing;
        }
        let (frames, anchors) = self.most_read();
        if self.reads == Reads::Slices && (shape.change > frames || shape.anchor > anchors) {
            return nothing;
        }
        if !(cap > 0.0 && d.sqrt() * cap <= a && shape.block >= 2.0_f64.max(sigma)) {
            return nothing;
        }
        let (clip, square) = self.anchor_clip();
        // Mean squared length of a move is at most 7/6 D^2; the noise of slices is made for 2 D.
        let moved = 7.0 / 6.0 * d * (cap / a).powi(2);
        let (anchors, changes) = (shape.steps / sigma, shape.steps * (1.0 - 1.0 / sigma));
        let (sampled, drift, unit, z) = match self.reads {
            Reads::Slices => {
                let unit = d * (2.0 * s * d.sqrt() * cap / (a * shape.change)).powi(2);
                let z = [1.0 / self.mu; 2];
                (1.0 / shape.anchor, moved / shape.change, unit, z)
            }
            Reads::All {
                offsets, frames, ..
            } => {
                let n = facts.records as f64;
                let shared = |count: u64| (n / count as f64).ceil() / n;
                let unit = d * moved * (s / n).powi(2);
                // Shares of the budget by which the mean of both noises is least.
                let of_anchors = (d * anchors).sqrt() * s * clip / n;
                let of_changes = (unit * 0.5 * (sigma - 1.0) * changes).sqrt();
                let share = of_anchors / (of_anchors + of_changes);
                let anchor = (anchors / share).sqrt() / self.mu;
                let change = if changes > 0.0 {
                    (changes / (1.0 - share)).sqrt() / self.mu
                } else {
                    anchor
                };
                let first = match self.fields {
                    SmoothedFields::Values => frames,
                    _ => offsets,
                };
                (
                    shared(first),
                    moved * shared(frames),
                    unit,
                    [anchor, change],
                )
            }
        };
        let of_anchor = square * sampled + d * (s * clip * z[0] / shape.anchor).powi(2);
        let unit = unit * z[1] * z[1];
        // Rounding and the slack of clips, of lattices whose steps are at most 2^-29 of their radii.
        let lattice = (d.sqrt() + 1.0) * 2f64.powi(-29) + 2f64.powi(-44);
        let bias = lattice * (clip + (sigma - 1.0) * 2.0 * d.sqrt() * cap / a);
        let error = |step: usize| {
            let noise = unit * variances.get(step).copied().unwrap_or(f64::INFINITY);
            (of_anchor + step as f64 * drift + noise).sqrt() + bias
        };
        let squares: f64 = (0..len as usize).map(|step| error(step).powi(2)).sum();
        let mean = (squares / sigma).sqrt();
        let size = 1.0 + mean;
        let root = shape.block.sqrt();
        let eta = cap / (size * root);
        let progress = (gap + a) / (cap * shape.steps);
        let errors = match self.charged {
            Charged::AsBias => 2.0 * mean,
            Charged::AsNoise => {
                let smoothness = self.constant / a;
                // e_j and the sum of e_1 to e_j.
                let (mut apart, mut sum, mut own) = (0.0, 0.0, 0.0);
                for step in 0..len as usize {
                    let error = error(step);
                    own += error * (apart / cap).min(1.0);
                    sum += apart;
                    apart += eta * (error + smoothness * sum);
                }
                mean * (sigma / shape.block).sqrt() + own / sigma + 2.0 * bias
            }
        };
        Worth {
            size: facts.lipschitz * size,
            anchor_multiplier: z[0],
            change_multiplier: z[1],
            bound: facts.lipschitz * (progress + size / root + errors),
        }
    }

    /// How changes get their noise in periods of `len` steps, and the variances of 0, 1, ..., len - 1 changes.
    pub(super) fn noise(&self, len: u64) -> Option<(Option<PrefixKind>, Vec<f64>)> {
        if let Reads::All { .. } = self.reads {
            return Some((None, (0..len).map(|j| j as f64).collect()));
        }
        if len < 2 {
            return Some((Some(PrefixKind::Independent), vec![0.0]));
        }
        let noise = PrefixNoise::best(len - 1, Participation::Single, ErrorMeasure::Worst).ok()?;
        let variances = (1..len).map_while(|step| noise.variance(step));
        let all = std::iter::once(0.0).chain(variances).collect();
        Some((Some(noise.kind()), all))
    }

    /// The best walk over all lengths from 2 on, or with `only` that one.
    pub(super) fn best(&self, only: Option<u64>) -> Option<Best> {
        let doubled = (1..=LONGEST.ilog2()).flat_map(|k| [1 << k, 3 << (k - 1)]);
        let doubled = doubled.filter(|len| *len <= LONGEST);
        let mut best: Option<Best> = None;
        let mut start = None;
        for len in only.map_or_else(|| doubled.collect(), |len| vec![len]) {
            let Some(next) = self.with_len(len, &mut start) else {
                continue;
            };
            let least = best.map_or(f64::INFINITY, |best| best.worth.bound);
            if next.worth.bound < least {
                best = Some(next);
            } else if next.worth.bound > 1.05 * least {
                // From here on they only get worse.
                break;
            }
        }
        best
    }

    /// The best walk with periods of `len` steps. The search starts where the one before ended.
    fn with_len(&self, len: u64, start: &mut Option<[f64; 5]>) -> Option<Best> {
        let longest = match self.reads {
            Reads::All { most, .. } => most,
            Reads::Slices => self.facts.records,
        };
        let (prefix, variances) = self.noise(len).filter(|_| len <= longest)?;
        let n = self.facts.records as f64;
        let sigma = len as f64;
        let shape = |logs: &[f64; 5]| {
            let [anchor, change, smoothing, block, steps] = logs.map(f64::exp);
            self.shaped(
                len,
                Shape {
                    anchor,
                    change,
                    smoothing: smoothing.min(0.999 * self.radius),
                    block: block.max(sigma),
                    steps,
                },
            )
        };
        let cost = |logs: &[f64; 5]| self.worth(len, &variances, &shape(logs)).bound;
        let about = || {
            // Blocks so long that moves are within the radius of smoothing.
            let trials = geometric(8.0, 1e7, 1.5).map(|block| {
                let around = (self.facts.dim as f64).sqrt() / self.mu;
                let share = 0.3 * self.radius;
                [around * sigma.sqrt(), around, share, block, n].map(f64::ln)
            });
            trials.min_by(|a, b| cost(a).total_cmp(&cost(b)))
        };
        let logs = descend((*start).or_else(about)?, cost);
        if cost(&logs).is_finite() {
            *start = Some(logs);
        }
        self.whole(len, prefix, &variances, shape(&logs))
    }

    /// Records of a change and of an anchor at most, where each has numbers of its own.
    fn most_read(&self) -> (f64, f64) {
        let d = self.facts.dim as u64;
        let most = |each: u64| (MOST_NUMBERS / each.max(1)).max(1) as f64;
        let frames = most(d.saturating_mul(d));
        match self.fields {
            SmoothedFields::Values => (frames, frames),
            _ => (frames, most(d + 2)),
        }
    }

    /// What the reading makes of a shape.
    fn shaped(&self, len: u64, shape: Shape) -> Shape {
        let n = self.facts.records as f64;
        let shape = match (self.reads, self.charged) {
            (Reads::All { most, .. }, charged) => Shape {
                anchor: n,
                change: n,
                smoothing: match charged {
                    Charged::AsNoise => shape.smoothing,
                    Charged::AsBias => 0.5 * self.radius,
                },
                steps: shape.steps.min(most as f64),
                ..shape
            },
            (Reads::Slices, charged) => {
                // The theorems for one pass have B1 = Sigma, B2 = 1 and half of the radius for each.
                // Each record has an offset or a frame of its own, and there is room for so many.
                let (frames, anchors) = self.most_read();
                let (anchor, change, smoothing) = match charged {
                    Charged::AsNoise => (
                        shape.anchor.clamp(1.0, anchors),
                        shape.change.clamp(1.0, frames),
                        shape.smoothing,
                    ),
                    Charged::AsBias => (len as f64, 1.0, 0.5 * self.radius),
                };
                let period = anchor + (len as f64 - 1.0) * change;
                Shape {
                    anchor,
                    change,
                    smoothing,
                    steps: n / period * len as f64,
                    ..shape
                }
            }
        };
        // Where that is less than a period there is no such walk.
        Shape {
            block: shape.block.min(shape.steps),
            ..shape
        }
    }

    /// The best whole numbers near `shape`.
    fn whole(
        &self,
        len: u64,
        prefix: Option<PrefixKind>,
        variances: &[f64],
        shape: Shape,
    ) -> Option<Best> {
        let n = self.facts.records;
        let near = |x: f64| {
            [
                Some(x.floor().max(1.0)),
                Some(x.ceil()).filter(|up| *up > x),
            ]
        };
        let periods = (shape.block / len as f64).max(1.0);
        let (low, high) = (0.8 * periods, 1.25 * periods + 1.0);
        // Not below 2 steps in a block.
        let low = low.max((2.0 / len as f64).ceil());
        let mut best: Option<Best> = None;
        for anchor in near(shape.anchor).into_iter().flatten() {
            for change in near(shape.change).into_iter().flatten() {
                let most = match self.reads {
                    Reads::Slices => {
                        let period = anchor as u64 + (len - 1) * change as u64;
                        n / period.max(1) * len
                    }
                    Reads::All { .. } => shape.steps as u64,
                };
                for count in geometric(low, high, 1.01) {
                    let block = count as u64 * len;
                    let steps = most.checked_div(block)? * block;
                    if steps == 0 {
                        continue;
                    }
                    let shape = Shape {
                        anchor,
                        change,
                        block: block as f64,
                        steps: steps as f64,
                        ..shape
                    };
                    let worth = self.worth(len, variances, &shape);
                    let least = best.map_or(f64::INFINITY, |best| best.worth.bound);
                    if worth.bound < least {
                        best = Some(Best {
                            len,
                            prefix,
                            shape,
                            worth,
                        });
                    }
                }
            }
        }
        best
    }

    /// The walk of Theorem 4.1 of arXiv 2410.05880, its parameters functions of beta, for the beta of the least bound:
    /// D = alpha beta^2/L^2, T = F0 L^2/(alpha beta^3), Sigma = max(1, L^2/(beta^2 sqrt d)), alpha = r/2 for the smoothing and
    /// for the blocks. M is the largest multiple of Sigma up to 2 L^2/beta^2 - 1, and D is then alpha 2/(M + 1), never less.
    pub(super) fn by_accuracy(&self) -> Option<Best> {
        let Reads::All { most, .. } = self.reads else {
            return None;
        };
        let (l, d) = (self.facts.lipschitz, self.facts.dim as f64);
        let alpha = 0.5 * self.radius;
        let unit = self.facts.initial_gap / (alpha * l);
        let fastest = (unit / most as f64).cbrt();
        let accuracies: Vec<f64> = geometric(fastest.max(1e-6), 2.0, 1.01).collect();
        let mut best: Option<Best> = None;
        // From above: periods and the time that one takes to look at grow as 1/beta^2.
        for beta in accuracies.into_iter().rev() {
            let shaped = || {
                let len = (1.0 / (beta * beta * d.sqrt())).round().max(1.0) as u64;
                let block = (2.0 / (beta * beta) - 1.0) as u64 / len * len;
                let steps = (unit / beta.powi(3)) as u64;
                let steps = steps.checked_div(block)? * block;
                if steps == 0 || len > LONGEST {
                    return None;
                }
                let (prefix, variances) = self.noise(len)?;
                let shape = Shape {
                    anchor: self.facts.records as f64,
                    change: self.facts.records as f64,
                    smoothing: alpha,
                    block: block as f64,
                    steps: steps as f64,
                };
                let worth = self.worth(len, &variances, &shape);
                Some(Best {
                    len,
                    prefix,
                    shape,
                    worth,
                })
            };
            let Some(next) = shaped() else { continue };
            let least = best.map_or(f64::INFINITY, |best| best.worth.bound);
            if next.worth.bound < least {
                best = Some(next);
            } else if next.worth.bound > 1.5 * least {
                // From here on noise alone counts.
                break;
            }
        }
        best
    }
}

/// A point of small cost near `start`, by steps along one coordinate at a time that get shorter. For costs that are sums
/// of powers, so convex in logarithms.
fn descend<const N: usize>(start: [f64; N], cost: impl Fn(&[f64; N]) -> f64) -> [f64; N] {
    let (mut best, mut least) = (start, cost(&start));
    let mut stride = 1.0;
    while stride > 0.01 {
        let mut moved = false;
        for i in 0..N {
            for by in [stride, -stride] {
                let mut next = best;
                next[i] += by;
                let found = cost(&next);
                if found < least {
                    (best, least, moved) = (next, found, true);
                    break;
                }
            }
        }
        if !moved {
            stride *= 0.5;
        }
    }
    best
}
