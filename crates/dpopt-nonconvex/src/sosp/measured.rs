//! Steps whose lengths are found by private backtracking: no L1 and no rho.

use dpopt_linalg::add_scaled;
use dpopt_oracle::query::ValueChange;
use dpopt_oracle::{AskError, Oracle};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Which};
use dpopt_solver::{PublicFacts, SecondOrderTargets, Stop, normal_reach, paid};

use super::level::SospLevel;
use super::problem::Problem;

/// What the budget of a level is thought to pay for: gradients, trials of each step, norms and Hessians. Choices; nothing is claimed of a walk.
const GRADIENTS: f64 = 100.0;
const TRIALS: f64 = 2.0;
const NORMS: f64 = 3.0;
const HESSIANS: f64 = 3.0;
/// Most norms, and most Hessians, of a level. A choice.
const MOST: u64 = 20;
/// The norm that pure noise in a gradient has, over alpha. A choice.
const NOISE: f64 = 0.5;
/// What the norm's margin takes off alpha. A choice.
const MARGIN: f64 = 0.25;
/// h/lambda. A choice.
const LEFT: f64 = 0.5;
/// Noise of a change of values over alpha times the way. A choice: an eighth is half of what a step has to gain.
const CHANGE: f64 = 0.125;
/// A step has to gain so much of <g', step>. A choice.
const GAIN: f64 = 0.25;
/// Trials of one step, at most.
const MOST_TRIALS: u32 = 40;

/// The level for these targets, whose `cost` is what it is thought to cost: nothing is known of the way. None where rounding leaves no
/// room for noise.
pub(super) fn level(of: &Problem<'_>, targets: SecondOrderTargets) -> Option<SospLevel> {
    let facts = of.facts;
    let (alpha, dim) = (targets.gradient, facts.dim as f64);
    let unit = facts.noise_std(facts.lipschitz, 1.0);
    let quantile = normal_reach(0.5 * of.false_certificate / MOST as f64);
    let operator = {
        let log = (MOST as f64 / of.failure).ln();
        (2.0 * dim).sqrt() + (2.0 * log).sqrt()
    };
    let sigma = NOISE * alpha / dim.sqrt();
    let rounding = 2.0 * PublicFacts::rounding(facts.lipschitz, facts.dim);
    let norm_std = (MARGIN * alpha - rounding) / (quantile + 1.0);
    let hessian_multiplier = of.hessian_multiplier(targets, LEFT, quantile + operator)?;
    let (gradient, norm) = (sigma / unit, norm_std / (unit * (1.0 + 1e-6)));
    let change = CHANGE * alpha / unit;
    if !(norm > 0.0) {
        return None;
    }
    let cost = GRADIENTS * (gradient.powi(-2) + TRIALS * change.powi(-2))
        + NORMS * norm.powi(-2)
        + HESSIANS * (hessian_multiplier.powi(-2) + TRIALS * change.powi(-2));
    Some(SospLevel {
        targets,
        step_size: 0.0,
        gradient_multiplier: gradient,
        norm_multiplier: norm,
        hessian_multiplier,
        episode: None,
        // As long as an estimate of (1 - MARGIN) alpha is in the root mean square.
        candidate: alpha * (1.0 - MARGIN).hypot(NOISE),
        norm_quantile: quantile,
        curvature_quantile: quantile,
        operator,
        sign_error: 0.0,
        most_steps: of.most_steps,
        most_norms: MOST,
        most_hessians: MOST,
        spider: None,
        change_multiplier: Some(change),
        cost,
    })
}

/// A search for how far to go: half as far each time, until the released change of F is a decrease that is large enough.
pub(super) struct Backtracking<'a> {
    /// Where from.
    pub(super) at: &'a [f64],
    /// Along what.
    pub(super) direction: &'a [f64],
    /// Its length.
    pub(super) length: f64,
    /// L0.
    pub(super) lipschitz: f64,
    pub(super) multiplier: NoiseMultiplier,
}

impl Backtracking<'_> {
    /// The first of `farthest`, half of it, ... multiples of the direction along which F is seen to fall by `falls` of it, and what all trials
    /// cost in squared mu. Otherwise why there is none: no more may be spent, or the budget does not pay for a trial
    /// ([`Stop::BudgetUsed`]); a way is out of the range of numbers ([`Stop::Diverged`]); forty trials gained too little ([`Stop::NoGain`]).
    ///
    /// # Privacy
    /// Each trial is one release of one number, of all records, clipped to L0 times the way.
    pub(super) fn search(
        &self,
        oracle: &mut dyn Oracle,
        farthest: f64,
        falls: impl Fn(f64) -> f64,
        mut left: f64,
    ) -> Result<(Result<f64, Stop>, f64), AskError> {
        let (mut spent, mut multiple) = (0.0, farthest);
        for _ in 0..MOST_TRIALS {
            let radius = self.lipschitz * multiple * self.length * (1.0 + 1e-9);
            let cost = self.multiplier.get().powi(-2);
            // No length: an overflow, or a way of 0.
            let Ok(radius) = ClipNorm::new(radius) else {
                return Ok((Err(Stop::Diverged), spent));
            };
            if cost > left {
                return Ok((Err(Stop::BudgetUsed), spent));
            }
            let mut to = self.at.to_vec();
            add_scaled(&mut to, multiple, self.direction);
            let of = ValueChange {
                from: self.at,
                to: &to,
                radius,
            };
            let released = oracle.value_change(of, Which::All, self.multiplier);
            let Some(released) = paid(released)? else {
                return Ok((Err(Stop::BudgetUsed), spent));
            };
            left -= cost;
            spent += cost;
            if released.number <= -falls(multiple) {
                return Ok((Ok(multiple), spent));
            }
            multiple *= 0.5;
        }
        Ok((Err(Stop::NoGain), spent))
    }
}

/// What a step of eta has to gain where the released gradient has this squared length: a quarter of eta ||g'||^2.
pub(super) fn step_falls(square: f64) -> impl Fn(f64) -> f64 {
    move |eta| GAIN * eta * square
}

/// What an escape over r has to gain: h r^2/8, a quarter of what a quadratic would fall by.
pub(super) fn escape_falls(bend: f64) -> impl Fn(f64) -> f64 {
    move |r| 0.5 * GAIN * bend * r * r
}

/// Farther no step could gain what it has to where F can fall by `gap`, and it is `rate` times the multiple, or its square.
pub(super) fn farthest(gap: f64, rate: f64, power: f64) -> f64 {
    (gap / rate).powf(1.0 / power)
}
