//! The fewest records after which a run ends in a certificate with the planned probability: `docs/theory/second-order.md`, Theorem 2.

use dpopt_oracle::Batch;
use dpopt_privacy::PrefixKind;
use dpopt_solver::{SecondOrderTargets, normal_reach};

use super::bounds::{bernstein, fewest, hoeffding};
use super::gradient::{Curvature, Kept, Period, Problem};
use super::schedule::AdaptiveBatchSchedule;

/// Events of the walk that share what it may fail by.
const EVENTS: f64 = 8.0;
/// Of alpha, to try: how long a gradient at a candidate may be.
const REACHED: [f64; 6] = [0.8, 0.85, 0.89, 0.92, 0.95, 0.97];
/// theta/gamma to try.
const RATIOS: [f64; 8] = [1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 3.0, 4.0];
/// kappa/L0 to try.
const DRIFTS: [f64; 6] = [0.5, 0.7, 1.0, 1.4, 2.0, 4.0];
/// h/lambda to try, and shares of h^2/(2 rho) that the sign may cost.
const LEFT: [f64; 4] = [0.6, 0.7, 0.8, 0.88];
const LEFT_BY_EPISODES: [f64; 4] = [0.2, 0.3, 0.4, 0.5];
const SIGNS: [f64; 4] = [0.2, 0.3, 0.4, 0.5];
/// c: of the squared estimates, what pays for the squared errors; and m and k of Theorem 2.
const SHARES: [f64; 5] = [0.3, 0.4, 0.5, 0.6, 0.7];
const LEVELS: [f64; 3] = [3.0, 5.0, 7.0];
const EXPONENTS: [f64; 2] = [0.15, 0.3];
/// The fewest records of an anchor: a step is no change where it is longer than (1 - 1/b) L0/L1. A choice that hardly binds.
const LEAST_ANCHOR: f64 = 100.0;

/// The schedule that needs the fewest records, with the number of them; none where no number of records is enough.
pub(super) fn fewest_records(
    of: &Problem<'_>,
    targets: SecondOrderTargets,
    periods: &Period,
) -> Option<(f64, AdaptiveBatchSchedule)> {
    let rigorous = Rigorous::new(of, targets, of.most_candidates(targets));
    let curvatures = rigorous.curvatures();
    let mut best: Option<(f64, AdaptiveBatchSchedule)> = None;
    for reached in REACHED {
        let reached = reached * targets.gradient;
        let Some(norm_batch) = rigorous.norm_batch(reached) else {
            continue;
        };
        for ratio in RATIOS {
            for drift in DRIFTS {
                let drift = drift * of.facts.lipschitz;
                let Some(walk) = rigorous.walk(reached, ratio, drift, periods) else {
                    continue;
                };
                for curvature in &curvatures {
                    let Some((records, steps)) = rigorous.records(&walk, curvature) else {
                        continue;
                    };
                    let records = records + norm_batch;
                    if best.as_ref().is_none_or(|old| records < old.0) {
                        let found = rigorous.schedule(&walk, curvature, norm_batch);
                        let found = AdaptiveBatchSchedule {
                            steps: steps as u64,
                            records: records.ceil() as u64,
                            ..found
                        };
                        best = Some((records, found));
                    }
                }
            }
        }
    }
    best
}

/// The least lambda that a Hessian of `m` records tells, or an episode on them, among so many candidates.
pub(super) fn told(of: &Problem<'_>, candidates: f64, m: f64) -> f64 {
    let targets = SecondOrderTargets::widest(of.facts.lipschitz, of.facts.smoothness);
    let rigorous = Rigorous::new(of, targets, candidates);
    let (certificate, rest) = rigorous.margin(m);
    let by_hessian = (certificate + rest) / (1.0 - LEFT[0]);
    let by_episode = || of.told_by_episodes(&rigorous.kept(), &|m| rigorous.sampled(m), m);
    match (of.by_hessians(), of.by_episodes()) {
        (true, false) => by_hessian,
        (true, true) => by_hessian.min(by_episode()),
        _ => by_episode(),
    }
}

struct Rigorous<'a> {
    of: &'a Problem<'a>,
    targets: SecondOrderTargets,
    /// ln(2K/p_c).
    certificate: f64,
    /// What one event of the walk may fail by.
    event: f64,
    /// K.
    candidates: f64,
}

/// A walk of gradient steps.
struct Descent {
    theta: f64,
    gamma: f64,
    drift: f64,
    anchor: f64,
    period: f64,
    trades: Vec<Trade>,
}

/// One choice of c, m and k.
#[derive(Clone, Copy)]
struct Trade {
    /// delta: a unit of the path of steps takes as much of the gap.
    per_path: f64,
    /// What errors in a period that a step of curvature begins may give back.
    per_escape: f64,
    /// F': the gap, with what errors give.
    gap: f64,
}

impl<'a> Rigorous<'a> {
    fn new(of: &'a Problem<'a>, targets: SecondOrderTargets, candidates: f64) -> Self {
        Self {
            of,
            targets,
            certificate: (4.0 * candidates / of.failure).ln(),
            event: 0.5 * of.failure / EVENTS,
            candidates,
        }
    }

    /// ln(1/p) of an event that may happen at any of so many places.
    fn log(&self, places: f64) -> f64 {
        (places / self.event).ln()
    }

    /// What margins take of a curvature that a Hessian of `m` records tells: the certificate's, and the rest.
    fn margin(&self, m: f64) -> (f64, f64) {
        let of = self.of;
        let (bend, dim) = (of.bend(), of.facts.dim as f64);
        let longest = (2.0 * dim).sqrt() + (2.0 * self.log(self.candidates)).sqrt();
        let matrix = self.log(dim * self.candidates);
        let noise = of.noise(of.hessian.frobenius, m);
        let sampled = bernstein(matrix, bend * bend / m, 2.0 * bend / m);
        (
            hoeffding(self.certificate, bend, m, noise),
            longest * noise + sampled,
        )
    }

    /// The same of sampling alone; half of a certificate's failures is that of an episode.
    fn sampled(&self, m: f64) -> (f64, f64) {
        let (bend, dim) = (self.of.bend(), self.of.facts.dim as f64);
        let matrix = self.log(dim * self.candidates);
        (
            hoeffding(self.certificate + 2f64.ln(), bend, m, 0.0),
            bernstein(matrix, bend * bend / m, 2.0 * bend / m),
        )
    }

    /// The cap pays for whatever the spectrum is.
    fn kept(&self) -> Kept {
        Kept {
            missed: 0.5 * (-self.certificate).exp(),
            false_exit: self.event / self.candidates,
            share: 1.0,
        }
    }

    fn curvatures(&self) -> Vec<Curvature> {
        let of = self.of;
        let margin = |m: f64| self.margin(m);
        let lipschitz = of.facts.lipschitz;
        let sign = |m: f64| {
            let log = self.log(2.0 * self.candidates);
            hoeffding(log, lipschitz, m, of.noise(lipschitz, m))
        };
        let each = |left| SIGNS.map(|share| (left, share));
        let mut all: Vec<Curvature> = Vec::new();
        if of.by_hessians() {
            let choices = LEFT.into_iter().flat_map(each);
            all.extend(choices.filter_map(|it| of.curvature(self.targets, it, margin, sign)));
        }
        if of.by_episodes() {
            let (kept, sampled) = (self.kept(), |m: f64| self.sampled(m));
            for left in LEFT_BY_EPISODES {
                let Some(told) = of.episode(self.targets, left, (&kept, &sampled)) else {
                    continue;
                };
                let step = |it| of.curvature_by_episode(self.targets, it, (told, &sampled), sign);
                all.extend(each(left).into_iter().filter_map(step));
            }
        }
        all
    }

    /// b_c, so many that a gradient of at most `reached` is certified.
    fn norm_batch(&self, reached: f64) -> Option<f64> {
        let of = self.of;
        let lipschitz = of.facts.lipschitz;
        let log = self.log(2.0 * self.candidates);
        let quantile = normal_reach(self.event / self.candidates);
        let room = self.targets.gradient - reached - 2.0 * of.rounding();
        fewest(room, |m| {
            // A norm is more sensitive by a lattice step.
            let noise = of.noise(lipschitz, m) * (1.0 + 1e-6);
            hoeffding(self.certificate, lipschitz, m, noise)
                + bernstein(log, lipschitz * lipschitz / m, 2.0 * lipschitz / m)
                + quantile * noise
        })
    }

    /// Candidates at which the gradient is at most `reached` long, theta = `ratio` gamma.
    fn walk(&self, reached: f64, ratio: f64, drift: f64, periods: &Period) -> Option<Descent> {
        let of = self.of;
        let facts = of.facts;
        let gamma = reached / (1.0 + ratio);
        let theta = ratio * gamma;
        let (gap, lipschitz) = (facts.initial_gap, facts.lipschitz);
        // A path that begins a period.
        let around = drift.min((1.0 - 1.0 / LEAST_ANCHOR) * lipschitz);
        // Most path and periods: choices. A walk that may need more of them is none.
        let path = 60.0 * facts.smoothness * gap / theta;
        let most_periods = 1.0 + self.candidates + path / around;
        // Each gradient step is longer than theta/L1; a step of curvature may be shorter.
        let shortest = facts.smoothness * 0.6 * self.targets.curvature / of.hessian.lipschitz;
        let period = 2.0 + (drift / theta.min(shortest)).floor();
        let log = self.log(2.0 * most_periods);
        // Of every step of every period, whether the walk comes to it or not: where a period ends depends on its noise.
        let longest = (facts.dim as f64).sqrt() + (2.0 * self.log(most_periods * period)).sqrt();
        let noise = |share: f64| of.noise(share, 1.0) * periods.worst(period) * longest;
        let sampled = |share: f64| bernstein(log, (lipschitz + drift) * share, 2.0 * share);
        let room = gamma - period * of.rounding();
        let anchor = fewest(room, |m| {
            let share = lipschitz / m;
            sampled(share) + noise(share)
        })?
        .max(LEAST_ANCHOR);
        let share = lipschitz / anchor;
        let (sampled, noise) = (sampled(share), noise(share) + period * of.rounding());
        // Of the tail up to the error that is never passed.
        let variance = (lipschitz + drift) * share + 2.0 * share * sampled / 3.0;
        let in_period = 1.0 + drift / theta;
        let mut trades = Vec::new();
        for level in LEVELS {
            let rise = noise / (level * variance).sqrt();
            // (S + N)^2 <= (1 + rise) S^2 + (1 + 1/rise) N^2.
            let mean = (1.0 + rise) * level * variance + (1.0 + 1.0 / rise) * noise * noise;
            for exponent in EXPONENTS {
                let over = 4.0 * exponent * (-0.5 * level).exp() / (1.0 - 2.0 * exponent);
                let excess = (1.0 + over).ln() / exponent;
                let unit = (1.0 + rise) * variance * in_period;
                for share in SHARES {
                    let per_path =
                        (1.0 - share) * theta - (mean / theta + unit * excess / around) / share;
                    if per_path > 0.0 {
                        trades.push(Trade {
                            per_path,
                            per_escape: unit * excess / share,
                            gap: 2.0 * facts.smoothness * gap
                                + unit * (excess + self.log(1.0) / exponent) / share,
                        });
                    }
                }
            }
        }
        trades.retain(|trade| trade.gap / trade.per_path <= path);
        (!trades.is_empty()).then_some(Descent {
            theta,
            gamma,
            drift,
            anchor,
            period,
            trades,
        })
    }

    /// Records of the dearest run but for those of the last norm, and its steps.
    fn records(&self, walk: &Descent, curvature: &Curvature) -> Option<(f64, f64)> {
        let facts = self.of.facts;
        let lipschitz = facts.lipschitz;
        // One anchor for each kappa of path.
        let anchors = 1.0 + lipschitz / walk.drift;
        let path_cost = anchors * walk.anchor / lipschitz + 1.0 / walk.theta;
        let escape_cost = curvature.batch + curvature.sign_batch + anchors * walk.anchor + 1.0;
        let of_trade = |trade: &Trade| {
            let falls = 2.0 * facts.smoothness * curvature.falls - trade.per_escape;
            if !(falls > 0.0) || trade.gap / falls + 1.0 > self.candidates {
                return None;
            }
            let dearest = (path_cost / trade.per_path).max(escape_cost / falls);
            // Of either kind: each takes its part of the gap.
            let steps = trade.gap / falls.min(trade.per_path * walk.theta);
            Some((trade.gap * dearest, steps))
        };
        let (cost, steps) = walk
            .trades
            .iter()
            .filter_map(of_trade)
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        // And the first estimate, and the certificate.
        Some((cost + walk.anchor + curvature.batch, steps.floor() + 2.0))
    }

    fn schedule(
        &self,
        walk: &Descent,
        curvature: &Curvature,
        norm_batch: f64,
    ) -> AdaptiveBatchSchedule {
        let facts = self.of.facts;
        AdaptiveBatchSchedule {
            targets: self.targets,
            step_size: 1.0 / facts.smoothness,
            anchor_batch: walk.anchor as u64,
            variation: Batch::PerLength(facts.smoothness * walk.anchor / facts.lipschitz),
            noise: PrefixKind::Toeplitz,
            period: walk.period as u64,
            drift: walk.drift / facts.smoothness,
            noise_multiplier: 1.0 / self.of.mu,
            candidate: walk.theta,
            error: walk.gamma,
            hessian_batch: curvature.batch as u64,
            norm_batch: norm_batch as u64,
            sign_batch: curvature.sign_batch as u64,
            certificate_log: self.certificate,
            operator: curvature.operator,
            sign_error: curvature.sign_error,
            episode: curvature.episode,
            most_candidates: self.candidates as u64,
            steps: 0,
            records: 0,
        }
    }
}
