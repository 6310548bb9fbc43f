//! The dearest run to a certificate, and the cheapest way to make one.

use dpopt_solver::search::geometric;
use dpopt_solver::{Episode, PublicFacts, SecondOrderTargets, normal_reach};
use serde::Serialize;

use super::curvature::{Episodes, Escape, Told};
use super::problem::Problem;
use crate::saddle::escape_length;

/// Share eps of the first-order decrease that pays for <g, e>. A choice: what it costs is below 1 % of a plan.
const SLACK: f64 = 0.05;
/// The exponent of Ville's inequality for the number of attempts. A choice: 1.3 attempts over their mean, and 2.4 l more.
const ATTEMPTS: f64 = 0.55;
/// A candidate with ||g|| <= alpha_B is seen as one with at least this probability. A choice.
const SEEN: f64 = 0.9;
/// L1 eta to try.
const LENGTHS: [f64; 8] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.08, 0.04];
/// Noise of a norm over that of a gradient's coordinate to try.
const RATIOS: [f64; 6] = [0.5, 0.7, 1.0, 1.4, 2.0, 2.8];
/// alpha - alpha_B in standard deviations of the norm beyond the margin, to try.
const BEYOND: [f64; 3] = [0.0, 1.0, 2.0];

/// How a second-order certificate of one size is looked for: everything fixed, from public facts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SospLevel {
    /// What a certificate of this level says at least.
    pub targets: SecondOrderTargets,
    /// eta.
    pub step_size: f64,
    /// z of a gradient, or of an anchor.
    pub gradient_multiplier: f64,
    /// z of a norm.
    pub norm_multiplier: f64,
    /// z of a Hessian, or of a product of an episode at its full radius.
    pub hessian_multiplier: f64,
    /// What tells curvature in place of whole Hessians.
    pub episode: Option<Episode>,
    /// A point is a candidate where the released gradient is at most so long.
    pub candidate: f64,
    /// q_g: so many standard deviations are added to a released norm.
    pub norm_quantile: f64,
    /// q_h: so many are taken from a released least eigenvalue (of whole Hessians).
    pub curvature_quantile: f64,
    /// So many standard deviations may the released matrix be below the true one in some direction (whole Hessians).
    pub operator: f64,
    /// e_s: what the sign of a step along a direction of negative curvature may cost per length.
    pub sign_error: f64,
    /// Most gradients that are released at this level.
    pub most_steps: u64,
    /// Most norms.
    pub most_norms: u64,
    /// Most Hessians, or episodes.
    pub most_hessians: u64,
    /// What recursive estimates have beside this; none for fresh ones.
    pub spider: Option<SospSpider>,
    /// z of a change of values over a step, where the steps are measured and not planned. Then the step size is 0.
    pub change_multiplier: Option<f64>,
    /// What the level costs at most, with the planned probability, in squared mu; where steps are measured, what it is thought to cost.
    pub cost: f64,
}

/// What recursive estimates have beside what a [`SospLevel`] has with fresh ones.
///
/// # Formula
/// An anchor has multiplier z, a change over a length l has z sqrt(path/l), and there is an anchor where the changes since the last one would
/// be longer than `path` together, or the next one half as long by itself: with path = L0/L1 the noise variance of changes is in proportion to their length, at most that of the
/// anchor, and so is what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SospSpider {
    /// L0/L1.
    pub path: f64,
    /// gamma: no estimate is farther off, with the planned probability.
    pub error: f64,
    /// rho/h times the length of an escape, if its side is drawn where the estimate is too short to tell it; none: its side is that of the
    /// estimate, and its length accounts for it.
    pub reach: Option<f64>,
    /// Most anchors that are released at a level.
    pub most_anchors: u64,
}

impl SospLevel {
    /// What a certificate costs at a candidate: a norm and a Hessian, in squared mu. Of an episode it is what one costs where no eigenvalue is
    /// below -c l, but with its p'.
    #[must_use]
    pub fn certificate_cost(&self) -> f64 {
        let hessian = self.hessian_multiplier.powi(-2);
        let flat = |episode: &Episode| hessian * episode.products() as f64 * episode.flat_share();
        self.norm_multiplier.powi(-2) + self.episode.as_ref().map_or(hessian, flat)
    }

    /// How far to go along a direction u with <u, hess F u> <= -h.
    ///
    /// # Formula
    /// The r at which h r^2/2 - rho r^3/6 - e_s r is largest: (h + sqrt(h^2 - 2 rho e_s))/rho. Where a coin may choose the side: the planned
    /// multiple of h/rho.
    #[must_use]
    pub fn escape_length(&self, hessian_lipschitz: f64, bend: f64) -> f64 {
        match self.spider.and_then(|spider| spider.reach) {
            Some(reach) => reach * bend.max(0.0) / hessian_lipschitz,
            None => escape_length(hessian_lipschitz, bend, self.sign_error),
        }
    }
}

/// The cheapest level of fresh gradients with these targets whose dearest run is bounded; none where there is none.
///
/// # Formula
/// `docs/theory/second-order.md`, "The plan". With sigma the noise of a gradient per coordinate, c = L1 eta, a = eta (1 - c/2), b = eta (1 - c),
/// N gradient releases and K escapes,
///
/// F0 >= T D + K Phi - rest, cost <= T c_1 + attempts (c_1 + c_2) + (K + 1) c_H,
///
/// D = (1 - eps) a alpha_B^2 - (eta c/2) sigma^2 d and Phi = h r^2/2 - rho r^3/6 - e_s r less what the attempts lose.
pub(super) fn fresh(of: &Problem<'_>, targets: SecondOrderTargets) -> Option<SospLevel> {
    let episodes = Episodes::new(of, targets);
    let mut best: Option<SospLevel> = None;
    let mut caps = (16.0, 64.0);
    for share in geometric(of.least_share(targets), 10.0, 1.3) {
        for ratio in RATIOS {
            let found = consistent(of, &episodes, targets, (share, ratio), &mut caps);
            if let Some(level) = found
                && best.is_none_or(|old| level.cost < old.cost)
            {
                best = Some(level);
            }
        }
    }
    best
}

/// The cheapest level with this noise whose own counts are within the caps that its quantiles are for.
fn consistent(
    of: &Problem<'_>,
    episodes: &Episodes<'_>,
    targets: SecondOrderTargets,
    noise: (f64, f64),
    caps: &mut (f64, f64),
) -> Option<SospLevel> {
    for _ in 0..12 {
        let (level, hessians, steps) = Trial::new(of, targets, noise, *caps).cheapest(episodes)?;
        if steps > of.most_steps as f64 {
            return None;
        }
        if hessians <= caps.0 && steps <= caps.1 {
            // Not more room than is of use to the next trial.
            *caps = (1.5 * hessians, 1.5 * steps);
            return Some(level);
        }
        *caps = (
            1.25 * hessians.max(0.8 * caps.0),
            1.25 * steps.max(0.8 * caps.1),
        );
    }
    None
}

/// One choice of noise, and of the counts that failures are shared among.
struct Trial<'a> {
    of: &'a Problem<'a>,
    targets: SecondOrderTargets,
    /// sigma, per coordinate of a gradient; of a norm.
    sigma: f64,
    norm_std: f64,
    /// c_1 and c_2.
    gradient_cost: f64,
    norm_cost: f64,
    hessians: f64,
    steps: f64,
    norm_quantile: f64,
    curvature_quantile: f64,
    operator: f64,
    sign_error: f64,
    /// ln(1/p) of one event of the walk.
    log: f64,
    /// Largest error of a mean gradient by rounding.
    rounding: f64,
}

/// Steps of one length, and the gradients for which they are made.
struct Descent {
    /// alpha_B.
    reached: f64,
    eta: f64,
    /// D.
    gain: f64,
    /// F'.
    gap: f64,
    /// Attempts for each Hessian, and once.
    each: f64,
    once: f64,
    /// How far F may rise for each escape, at the attempts before it and where it is made.
    lost_at_attempts: f64,
    at_candidate: f64,
}

/// What a choice costs, with its most Hessians and gradients.
struct Costs {
    cost: f64,
    hessians: f64,
    steps: f64,
}

impl<'a> Trial<'a> {
    fn new(
        of: &'a Problem<'a>,
        targets: SecondOrderTargets,
        (share, ratio): (f64, f64),
        (hessians, steps): (f64, f64),
    ) -> Self {
        let (hessians, steps) = (hessians.ceil().max(1.0), steps.ceil().max(1.0));
        let facts = of.facts;
        let dim = facts.dim as f64;
        let sigma = targets.gradient * (share / dim).sqrt();
        let unit = facts.noise_std(facts.lipschitz, 1.0);
        let (gradient, norm) = (sigma / unit, ratio * sigma / unit);
        // Five events of the walk share what it may fail by.
        let event = 0.2 * of.failure;
        let log = (1.0 / event).ln();
        Self {
            of,
            targets,
            sigma,
            // The sensitivity of a norm is that of the mean and one lattice step.
            norm_std: norm * unit * (1.0 + 1e-6),
            gradient_cost: gradient.powi(-2),
            norm_cost: norm.powi(-2),
            hessians,
            steps,
            norm_quantile: normal_reach(0.5 * of.false_certificate / steps),
            curvature_quantile: normal_reach(0.5 * of.false_certificate / hessians),
            operator: (2.0 * dim).sqrt() + (2.0 * (log + hessians.ln())).sqrt(),
            sign_error: sigma * normal_reach(0.5 * event / steps)
                + PublicFacts::rounding(facts.lipschitz, facts.dim),
            log,
            rounding: PublicFacts::rounding(facts.lipschitz, facts.dim),
        }
    }

    /// The cheapest choice of the rest, with its most Hessians and gradients.
    fn cheapest(&self, episodes: &Episodes<'_>) -> Option<(SospLevel, f64, f64)> {
        let mut best: Option<(SospLevel, f64, f64)> = None;
        let escapes = episodes.escapes(&Told {
            hessians: self.hessians,
            sign_error: self.sign_error,
            deviations: self.curvature_quantile + self.operator,
            event: 0.2 * self.of.failure,
        });
        for beyond in BEYOND {
            let reached = self.targets.gradient
                - (self.norm_quantile + beyond) * self.norm_std
                - 2.0 * self.rounding;
            if !(reached > 0.0) {
                continue;
            }
            // Phi(0) = .5, Phi(1) > .841, Phi(2) > .977.
            let passes = match beyond {
                0.0 => 0.5,
                1.0 => 0.841,
                _ => 0.977,
            };
            let seen = SEEN * passes;
            for length in LENGTHS {
                let walk = self.walk(reached, seen, length);
                for escape in &escapes {
                    // Most choices are not the best so far: no more than their costs is reckoned.
                    if let Some(costs) = self.costs(&walk, escape)
                        && best.is_none_or(|old| costs.cost < old.0.cost)
                    {
                        let level = self.level(&walk, escape, costs.cost);
                        best = Some((level, costs.hessians, costs.steps));
                    }
                }
            }
        }
        best
    }

    /// All that the escapes have in common.
    fn walk(&self, reached: f64, seen: f64, length: f64) -> Descent {
        let facts = self.of.facts;
        let (alpha, dim) = (self.targets.gradient, facts.dim as f64);
        let eta = length / facts.smoothness;
        let (a, b) = (eta * (1.0 - 0.5 * length), eta * (1.0 - length));
        let slack = if b > 0.0 { SLACK } else { 0.0 };
        let variance = self.sigma * self.sigma;
        let lost = 0.5 * eta * length * variance;
        let longest = self.sigma * (dim.sqrt() + (2.0 * (self.log + self.steps.ln())).sqrt());
        let rounded = eta * self.rounding * (2.0 * facts.lipschitz + longest + self.rounding);
        let gain = (1.0 - slack) * a * reached * reached - lost * dim - rounded;
        let martingale = if b > 0.0 {
            b * b * variance * self.log / (2.0 * slack * a)
        } else {
            0.0
        };
        let once = 1.0 / (seen * -(-ATTEMPTS).exp_m1());
        let (each, once) = (ATTEMPTS * once, self.log * once);
        let at_candidate = slack * a * alpha * alpha;
        let per_attempt = lost * dim + rounded;
        let gap = facts.initial_gap
            + martingale
            + lost * (2.0 * (dim * self.steps * self.log).sqrt() + 2.0 * self.log)
            + per_attempt * (each + once)
            + at_candidate;
        Descent {
            reached,
            eta,
            gain,
            gap,
            each,
            once,
            lost_at_attempts: per_attempt * each,
            at_candidate,
        }
    }

    /// What a level with all of it chosen may cost; none where some step gains nothing in the worst case.
    fn costs(&self, walk: &Descent, escape: &Escape) -> Option<Costs> {
        let Descent {
            gain,
            gap,
            each,
            once,
            ..
        } = *walk;
        let escape_gain = escape.falls - walk.lost_at_attempts - walk.at_candidate;
        if !(gain > 0.0 && escape_gain > 0.0) {
            return None;
        }
        let (step, hessian) = (self.gradient_cost + self.norm_cost, escape.cost);
        let dearest = (step / gain).max((hessian + step * each) / escape_gain);
        let cost = gap * dearest + hessian + step * (each + once);
        let hessians = (gap / escape_gain).floor() + 1.0;
        let steps = gap / gain + each * hessians + once + 1.0;
        (cost.is_finite()).then_some(Costs {
            cost,
            hessians,
            steps,
        })
    }

    fn level(&self, walk: &Descent, escape: &Escape, cost: f64) -> SospLevel {
        SospLevel {
            targets: self.targets,
            step_size: walk.eta,
            gradient_multiplier: self.gradient_cost.powf(-0.5),
            norm_multiplier: self.norm_cost.powf(-0.5),
            hessian_multiplier: escape.multiplier,
            episode: escape.episode,
            candidate: self.candidate(walk.reached),
            norm_quantile: self.norm_quantile,
            curvature_quantile: self.curvature_quantile,
            operator: self.operator,
            sign_error: self.sign_error,
            most_steps: (self.steps as u64).min(self.of.most_steps),
            most_norms: (self.steps as u64).min(self.of.most_steps),
            most_hessians: self.hessians as u64,
            spider: None,
            change_multiplier: None,
            cost,
        }
    }

    /// A released gradient is longer with probability at most 1 - [`SEEN`] where the true one is at most `reached` long: Birge 2001, Lemma 8.1.
    fn candidate(&self, reached: f64) -> f64 {
        let l = (1.0 / (1.0 - SEEN)).ln();
        let dim = self.of.facts.dim as f64;
        let ratio = (reached + self.rounding) / self.sigma;
        let square = ratio * ratio;
        let reach = dim + square + 2.0 * ((dim + 2.0 * square) * l).sqrt() + 2.0 * l;
        self.sigma * reach.sqrt()
    }
}
