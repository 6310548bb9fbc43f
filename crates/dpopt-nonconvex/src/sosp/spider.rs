//! Levels with recursive estimates: an anchor, and changes added to it whose noise grows with the length of the path.

use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use dpopt_solver::{PublicFacts, SecondOrderTargets, normal_reach};

use super::curvature::LEFT;
use super::level::{SospLevel, SospSpider};
use super::problem::Problem;
use crate::saddle::{escape_falls, escape_length};

/// gamma/alpha to try.
const ERRORS: [f64; 9] = [0.06, 0.1, 0.15, 0.2, 0.25, 0.29, 0.33, 0.37, 0.41];
/// What a norm takes off alpha, over alpha, to try.
const MARGINS: [f64; 5] = [0.02, 0.04, 0.08, 0.14, 0.2];
/// L1 eta to try. Shorter ones cost less and are more passes over the records: a quarter is where little is left to gain.
const LENGTHS: [f64; 3] = [1.0, 0.5, 0.25];
/// rho/h times the length of an escape whose side a coin may choose, to try: at 2 F falls most.
const REACHES: [f64; 3] = [1.0, 1.5, 2.0];
/// Share of an escape's decrease that pays for the coins, to try.
const COINS: [f64; 3] = [0.1, 0.2, 0.4];
/// Norms that a level may release: one is enough with the planned probability. A choice.
const NORMS: u64 = 2;
/// So many norms are counted where a plan is chosen: a run that goes on makes so many certificates. A choice; a bound has one.
const CERTIFICATES: f64 = 30.0;
/// Anchors, Hessians and norms of a level whose cost is no part of a claim. Choices.
const SHORT: (f64, f64, f64) = (4.0, 2.0, 1.0);
/// Events of the walk that share what it may fail by: errors, coins, norms, Hessians.
const EVENTS: f64 = 4.0;

/// The cheapest level of recursive estimates with these targets whose dearest run is bounded; none where there is none.
///
/// # Formula
/// `docs/theory/second-order.md`, Theorem 4.
pub(super) fn cheapest(of: &Problem<'_>, targets: SecondOrderTargets) -> Option<SospLevel> {
    if of.facts.dim > MAX_PRIVATE_HESSIAN_DIM {
        return None;
    }
    let (mut anchors, mut hessians) = (64.0, 64.0);
    for _ in 0..12 {
        let trial = Trial::new(of, targets, anchors, hessians);
        let found = trial.cheapest()?;
        if found.anchors <= anchors && found.hessians <= hessians {
            return Some(trial.level(&found));
        }
        anchors = 1.25 * found.anchors.max(0.8 * anchors);
        hessians = 1.25 * found.hessians.max(0.8 * hessians);
    }
    None
}

/// One choice of the counts that failures are shared among.
struct Trial<'a> {
    of: &'a Problem<'a>,
    targets: SecondOrderTargets,
    anchors: f64,
    hessians: f64,
    /// Q: no period's noise is so many standard deviations long.
    longest: f64,
    norm_quantile: f64,
    /// b: a norm is so many deviations too long at most.
    beyond: f64,
    curvature_quantile: f64,
    operator: f64,
    /// ln(1/p) of one event.
    log: f64,
    /// Largest error of an estimate by rounding.
    rounding: f64,
}

/// A choice of the rest, and the counts that it allows.
struct Found {
    cost: f64,
    /// What choices are compared by.
    rank: f64,
    anchors: f64,
    hessians: f64,
    steps: f64,
    error: f64,
    candidate: f64,
    length: f64,
    gradient_cost: f64,
    norm_cost: f64,
    escape: Escape,
}

/// A Hessian, and the step that it leads to where it shows a saddle.
#[derive(Clone, Copy)]
struct Escape {
    multiplier: f64,
    reach: Option<f64>,
    length: f64,
    /// How far F falls at least, less what coins lose.
    falls: f64,
    /// What coins lose beside that, once.
    coins: f64,
}

impl<'a> Trial<'a> {
    fn new(of: &'a Problem<'a>, targets: SecondOrderTargets, anchors: f64, hessians: f64) -> Self {
        let (anchors, hessians) = (anchors.ceil(), hessians.ceil());
        let facts = of.facts;
        let dim = facts.dim as f64;
        let event = of.failure / EVENTS;
        let log = (1.0 / event).ln();
        Self {
            of,
            targets,
            anchors,
            hessians,
            longest: reach_of_a_gaussian(dim, (2.0 * anchors / event).ln()),
            norm_quantile: normal_reach(0.5 * of.false_certificate / NORMS as f64),
            beyond: normal_reach(event),
            curvature_quantile: normal_reach(0.5 * of.false_certificate / hessians),
            operator: (2.0 * dim).sqrt() + (2.0 * (log + hessians.ln())).sqrt(),
            log,
            // Of an anchor, and of changes whose radii add up to no more than its own.
            rounding: 2.0 * PublicFacts::rounding(facts.lipschitz, facts.dim),
        }
    }

    fn cheapest(&self) -> Option<Found> {
        let facts = self.of.facts;
        let alpha = self.targets.gradient;
        let unit = facts.noise_std(facts.lipschitz, 1.0);
        let path = facts.lipschitz / facts.smoothness;
        let mut best: Option<Found> = None;
        for error in ERRORS.map(|share| share * alpha) {
            // V, per coordinate: half of it is the anchor's.
            let std = (error - self.rounding) / self.longest;
            if !(std > 0.0) {
                continue;
            }
            let gradient_cost = 2.0 * (unit / std).powi(2) * (1.0 + 1e-9);
            // What a move costs, the next anchor's share with it.
            let moving = |length: f64| gradient_cost * (2.0 * length / path).min(1.0);
            let escapes: Vec<Escape> = self.escapes(error);
            for margin in MARGINS {
                let norm_std = margin * alpha / (self.norm_quantile + self.beyond);
                // The sensitivity of a norm is that of the mean and one lattice step.
                let norm_cost = (unit * (1.0 + 1e-6) / norm_std).powi(2);
                let candidate = (1.0 - margin) * alpha - error - 2.0 * self.rounding;
                for length in LENGTHS {
                    let shortest = length / facts.smoothness * candidate;
                    let step_falls = shortest * (candidate * (1.0 - 0.5 * length) - error);
                    if !(step_falls > 0.0) {
                        continue;
                    }
                    for escape in &escapes {
                        let gap = facts.initial_gap + escape.coins;
                        let hessian = escape.multiplier.powi(-2);
                        let dearest = (moving(shortest) / step_falls)
                            .max((moving(escape.length) + hessian) / escape.falls);
                        let cost = gap * dearest + gradient_cost + hessian + norm_cost;
                        let rank = if self.of.claimed {
                            cost + (CERTIFICATES - 1.0) * norm_cost
                        } else {
                            SHORT.0 * gradient_cost + SHORT.1 * hessian + SHORT.2 * norm_cost
                        };
                        if best.as_ref().is_some_and(|best| best.rank <= rank) {
                            continue;
                        }
                        let hessians = (gap / escape.falls).floor() + 1.0;
                        let steps = gap / step_falls + hessians + 1.0;
                        if !(steps <= self.of.most_steps as f64 && cost.is_finite()) {
                            continue;
                        }
                        let anchors = gap / gradient_cost
                            * (moving(shortest) / step_falls)
                                .max(moving(escape.length) / escape.falls);
                        best = Some(Found {
                            cost,
                            rank,
                            anchors: anchors.floor() + 1.0,
                            hessians,
                            steps,
                            error,
                            candidate,
                            length,
                            gradient_cost,
                            norm_cost,
                            escape: *escape,
                        });
                    }
                }
            }
        }
        best
    }

    /// Escapes where the estimate is at most `error` off.
    fn escapes(&self, error: f64) -> Vec<Escape> {
        let rho = self.of.hessian.lipschitz;
        let deviations = self.curvature_quantile + self.operator;
        let mut all = Vec::new();
        for left in LEFT {
            let Some(multiplier) = self.of.hessian_multiplier(self.targets, left, deviations)
            else {
                continue;
            };
            let bend = left * self.targets.curvature;
            if let Some(falls) = escape_falls(rho, bend, error) {
                all.push(Escape {
                    multiplier,
                    reach: None,
                    length: escape_length(rho, bend, error),
                    falls,
                    coins: 0.0,
                });
            }
            for reach in REACHES {
                let length = reach * bend / rho;
                let falls = (0.5 - reach / 6.0) * bend * length * length;
                // Where a coin is thrown the slope along the step is at most twice the error.
                let swing = 2.0 * error * length;
                for share in COINS {
                    all.push(Escape {
                        multiplier,
                        reach: Some(reach),
                        length,
                        falls: (1.0 - share) * falls,
                        coins: self.log * swing * swing / (2.0 * share * falls),
                    });
                }
            }
        }
        all
    }

    fn level(&self, found: &Found) -> SospLevel {
        let facts = self.of.facts;
        let error = found.error;
        SospLevel {
            targets: self.targets,
            step_size: found.length / facts.smoothness,
            gradient_multiplier: found.gradient_cost.powf(-0.5),
            norm_multiplier: found.norm_cost.powf(-0.5),
            hessian_multiplier: found.escape.multiplier,
            episode: None,
            candidate: found.candidate,
            norm_quantile: self.norm_quantile,
            curvature_quantile: self.curvature_quantile,
            operator: self.operator,
            sign_error: error,
            most_steps: (found.steps as u64 + 1).min(self.of.most_steps),
            most_norms: NORMS,
            most_hessians: self.hessians as u64,
            spider: Some(SospSpider {
                path: facts.lipschitz / facts.smoothness,
                error,
                reach: found.escape.reach,
                most_anchors: self.anchors as u64,
            }),
            change_multiplier: None,
            cost: found.cost,
        }
    }
}

/// The least x with ((x^2 - d) - d ln(x^2/d))/2 >= `log`: a standard normal vector of d coordinates is longer with probability at most
/// e^-log (Chernoff).
fn reach_of_a_gaussian(dim: f64, log: f64) -> f64 {
    let exponent = |square: f64| 0.5 * (square - dim - dim * (square / dim).ln());
    // Laurent and Massart 2000, Lemma 1, is below it.
    let (mut low, mut high) = (dim, dim + 2.0 * (dim * log).sqrt() + 2.0 * log);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if exponent(middle) < log {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.sqrt()
}

#[cfg(test)]
mod tests {
    use super::reach_of_a_gaussian;

    /// Quantiles of chi-square from tables: the tail beyond the square is at most as heavy, and the square is at most half too large.
    #[test]
    fn gaussian_vectors_are_hardly_ever_longer() {
        for (dim, tail, square) in [
            (10.0, 1e-3, 29.588),
            (10.0, 5e-3, 25.188),
            (100.0, 1e-3, 149.449),
            (100.0, 5e-3, 140.169),
        ] {
            let found = reach_of_a_gaussian(dim, -f64::ln(tail)).powi(2);
            assert!(
                found >= square && found < 1.5 * square,
                "{dim} {tail} {found}"
            );
        }
    }
}
