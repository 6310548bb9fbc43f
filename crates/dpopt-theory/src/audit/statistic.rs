//! Lower bounds on privacy from the errors of a test: which statistic is valid for which claim.
//!
//! A run scores high where the canary is in. A threshold makes a test of it, whose two error rates are
//! known by counting; a private mechanism does not allow both to be small.
//!
//! | statistic | refutes | valid for | loses |
//! | --- | --- | --- | --- |
//! | [`Statistic::ApproximateDp`] | "(epsilon, delta)-DP" | every mechanism | much where the worst events are rare |
//! | [`Statistic::GaussianDp`] | "mu-GDP" | claims that are mu-GDP: Gaussian releases on all records or slices, and what is as private | little |
//! | [`Statistic::Family`] | "as private as this event with its noise scaled by s" | claims by an event with a noise multiplier: sampled Gaussians | little |
//!
//! The last two give a lower bound on the parameter of the **claim**, and turn it into an epsilon at the
//! claim's delta. That epsilon says "no claim of this shape below it is true"; a mechanism whose
//! trade-off curve has another shape can have a smaller epsilon at that delta and still be refuted.

use dpopt_privacy::accounting::curves::PrivacyCurve;
use dpopt_privacy::accounting::{gdp, special};
use dpopt_privacy::{Accountant, Adjacency, Delta, Event, Mu, UnitError};

use super::binomial::upper_limit;
use crate::checks::CheckError;

/// A family of events with the noise scaled by a factor: at 1 it is the claim.
pub type ScaledEvent = Box<dyn Fn(f64) -> Result<Event, CheckError> + Send + Sync>;

/// How two error rates become a lower bound.
#[non_exhaustive]
pub enum Statistic {
    /// epsilon >= max(log((1 - delta - b)/a), log((1 - delta - a)/b)) with a and b the error rates
    /// (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    ApproximateDp,
    /// mu >= quantile(1 - a) - quantile(b) of the normal law (Dong, Roth and Su 2022, Definition 2.6),
    /// then the epsilon of mu-GDP at delta.
    GaussianDp,
    /// The claim with the noise scaled by s is refuted for every s above some s0, where its
    /// trade-off curve lies above (a, b). The bound is the epsilon of the claim at s0, or at the least s that the accountant prices.
    Family {
        /// The events.
        event: ScaledEvent,
        /// Who gives their curves.
        accountant: Accountant,
        /// The relation.
        adjacency: Adjacency,
    },
}

/// Counts of a test: how often it was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errors {
    /// Runs without the canary that were taken for runs with it.
    pub false_positives: u64,
    /// Runs without the canary.
    pub without: u64,
    /// Runs with the canary that were taken for runs without it.
    pub false_negatives: u64,
    /// Runs with the canary.
    pub with: u64,
}

impl Errors {
    /// Upper limits on both error rates that hold together with this confidence.
    #[must_use]
    pub fn limits(&self, confidence: f64) -> (f64, f64) {
        let alpha = 0.5 * (1.0 - confidence);
        (
            upper_limit(self.false_positives, self.without, alpha),
            upper_limit(self.false_negatives, self.with, alpha),
        )
    }
}

/// A lower bound, 0 where the test says nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowerBound {
    /// On epsilon at the claim's delta.
    pub epsilon: f64,
    /// On mu, where the statistic is that of Gaussian DP.
    pub mu: Option<f64>,
}

impl Statistic {
    /// The lower bound from counts, that holds with this confidence.
    ///
    /// # Errors
    /// Where an accountant refuses.
    pub fn bound(
        &self,
        errors: Errors,
        delta: f64,
        confidence: f64,
    ) -> Result<LowerBound, CheckError> {
        let (a, b) = errors.limits(confidence);
        match self {
            Statistic::ApproximateDp => Ok(LowerBound {
                epsilon: approximate(a, b, delta),
                mu: None,
            }),
            Statistic::GaussianDp => {
                let mu = gaussian(a, b);
                Ok(LowerBound {
                    epsilon: epsilon_of(mu, delta)?,
                    mu: Some(mu),
                })
            }
            Statistic::Family {
                event,
                accountant,
                adjacency,
            } => family(event, *accountant, *adjacency, (a, b), delta),
        }
    }

    /// What to maximise when a threshold is chosen; quick, and of no consequence for validity.
    #[must_use]
    pub fn merit(&self, errors: Errors, delta: f64, confidence: f64) -> f64 {
        let (a, b) = errors.limits(confidence);
        match self {
            Statistic::ApproximateDp => approximate(a, b, delta),
            Statistic::GaussianDp | Statistic::Family { .. } => gaussian(a, b),
        }
    }
}

/// The largest epsilon that the error rates refute; 0 if none.
fn approximate(a: f64, b: f64, delta: f64) -> f64 {
    let one = |a: f64, b: f64| {
        let power = 1.0 - delta - b;
        if power > 0.0 { (power / a).ln() } else { 0.0 }
    };
    one(a, b).max(one(b, a)).max(0.0)
}

/// The largest mu that the error rates refute; 0 if none.
fn gaussian(a: f64, b: f64) -> f64 {
    if a + b >= 1.0 {
        return 0.0;
    }
    (-normal_quantile(a) - normal_quantile(b)).max(0.0)
}

/// The epsilon of mu-GDP at delta, rounded as accountants round it; 0 for a mu of 0.
pub(super) fn epsilon_of(mu: f64, delta: f64) -> Result<f64, UnitError> {
    if mu <= 0.0 {
        return Ok(0.0);
    }
    Ok(gdp::epsilon(Mu::new(mu)?, Delta::new(delta)?))
}

/// The x with Phi(x) = p, for p strictly between 0 and 1; minus or plus infinity at the ends.
pub(super) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (-40.0_f64, 40.0_f64);
    for _ in 0..200 {
        let middle = low.midpoint(high);
        if special::ndtr(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.midpoint(high)
}

/// Bisection on the scale of the noise.
fn family(
    event: &ScaledEvent,
    accountant: Accountant,
    adjacency: Adjacency,
    (a, b): (f64, f64),
    delta: f64,
) -> Result<LowerBound, CheckError> {
    let refuted = |scale: f64| -> Result<bool, CheckError> {
        let curve = PrivacyCurve::of(accountant, &event(scale)?, adjacency)?;
        Ok(curve.type_two(a) > b || curve.type_two(b) > a)
    };
    // Refuted above `high`, not at `low`; beyond these ends nobody asks.
    let (mut low, mut high) = (0.125_f64, 8.0_f64);
    if !refuted(high)? {
        return Ok(LowerBound {
            epsilon: 0.0,
            mu: None,
        });
    }
    while high / low > 1.01 {
        let middle = (low * high).sqrt();
        // What no accountant prices, an epsilon of hundreds, isn't refuted: the bound is the weaker.
        if refuted(middle).unwrap_or(false) {
            high = middle;
        } else {
            low = middle;
        }
    }
    let epsilon = accountant.epsilon(&event(high)?, Delta::new(delta)?, adjacency)?;
    Ok(LowerBound { epsilon, mu: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(false_positives: u64, false_negatives: u64, runs: u64) -> Errors {
        Errors {
            false_positives,
            without: runs,
            false_negatives,
            with: runs,
        }
    }

    /// Phi(1) and Phi(-3), to all digits (Abramowitz and Stegun, Table 26.1).
    #[test]
    fn quantiles_agree_with_tables() {
        assert!((normal_quantile(0.841_344_746_068_542_9) - 1.0).abs() < 1e-12);
        assert!((normal_quantile(0.001_349_898_031_630_095) + 3.0).abs() < 1e-10);
    }

    /// With very many runs at the errors of mu = 1 (Phi(-1/2) each) the limits close in.
    #[test]
    fn bounds_approach_the_truth_from_below() {
        let runs = 100_000_000;
        let wrong = (0.308_537_538_725_986_9 * runs as f64) as u64;
        let gaussian = Statistic::GaussianDp
            .bound(errors(wrong, wrong, runs), 1e-5, 0.99)
            .unwrap();
        let mu = gaussian.mu.unwrap();
        assert!(mu < 1.0 && mu > 0.999);
        // Epsilon of 1-GDP at 1e-5: 4.377178.
        assert!(gaussian.epsilon < 4.377_178 && gaussian.epsilon > 4.37);
        // log((1 - b)/a) = log(0.6915/0.3085).
        let plain = Statistic::ApproximateDp
            .bound(errors(wrong, wrong, runs), 0.0, 0.99)
            .unwrap();
        assert!(plain.epsilon < 0.807_05 && plain.epsilon > 0.806);
    }

    #[test]
    fn a_blind_test_says_nothing() {
        for statistic in [Statistic::ApproximateDp, Statistic::GaussianDp] {
            for counts in [
                errors(500, 500, 1000),
                errors(1000, 0, 1000),
                errors(900, 800, 1000),
            ] {
                assert_eq!(statistic.bound(counts, 1e-6, 0.95).unwrap().epsilon, 0.0);
            }
        }
    }

    /// A test without errors refutes every noise that is priced; the bound is had at the least of them.
    #[test]
    fn noise_that_is_not_priced_is_not_refuted() {
        let noise = |scale: f64| dpopt_privacy::NoiseMultiplier::new(4.0 * scale);
        let least = 0.6;
        let family = Statistic::Family {
            event: Box::new(move |scale| {
                let too_little = dpopt_privacy::NoiseMultiplier::new(0.0);
                let noise = if scale < least {
                    too_little
                } else {
                    noise(scale)
                };
                Ok(Event::gaussian(noise?))
            }),
            accountant: Accountant::Gdp,
            adjacency: Adjacency::AddRemove,
        };
        let bound = family.bound(errors(0, 0, 100_000), 1e-6, 0.99).unwrap();
        let delta = Delta::new(1e-6).unwrap();
        let at = |scale: f64| gdp::epsilon(Mu::new(0.25 / scale).unwrap(), delta);
        assert!(bound.epsilon <= at(least) && bound.epsilon > at(1.02 * least));
    }

    /// One sampled release at rate 1 is a Gaussian: both statistics must agree.
    #[test]
    fn the_family_of_plain_gaussians_is_gaussian_dp() {
        let noise = dpopt_privacy::NoiseMultiplier::new(2.0).unwrap();
        let family = Statistic::Family {
            event: Box::new(move |scale| {
                let noise = dpopt_privacy::NoiseMultiplier::new(noise.get() * scale)?;
                Ok(Event::gaussian(noise))
            }),
            accountant: Accountant::Gdp,
            adjacency: Adjacency::AddRemove,
        };
        let counts = errors(40_000, 41_000, 100_000);
        let one = family.bound(counts, 1e-6, 0.99).unwrap().epsilon;
        let other = Statistic::GaussianDp
            .bound(counts, 1e-6, 0.99)
            .unwrap()
            .epsilon;
        assert!(
            one <= other * (1.0 + 1e-9) && one > 0.95 * other,
            "{one} {other}"
        );
    }
}
