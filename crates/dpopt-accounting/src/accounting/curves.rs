//! What an attacker can do: hockey-stick curves, trade-off curves and what they say.
//!
//! An attacker sees the output and knows all records but one: it is either as in the
//! input D, or as in the neighbouring D'. A test says "D'" or "D". Its false positive rate a is
//! the probability of "D'" under D (type I error), its true positive rate that of "D'" under D';
//! one minus the latter is the type II error.
//!
//! - The **hockey-stick curve** `delta(epsilon) = max over events S of P(S) - e^epsilon P'(S)`, the
//!   larger over both directions of every neighbouring pair. At epsilon = 0 it is the total variation
//!   distance.
//! - The **trade-off curve** `f(a)`: the least type II error of any test with type I error at most a
//!   (Dong, Roth and Su 2022). The two are dual:
//!   `f(a) = sup over epsilon >= 0 of max(0, 1 - delta(epsilon) - e^epsilon a,
//!   e^-epsilon (1 - delta(epsilon) - a))` (their Proposition 6, for a delta that holds in
//!   both directions).
//!
//! **Which side is certified.** A [`PrivacyCurve`] holds upper bounds on delta. Every read-out
//! of it is therefore on the safe side: success of the attacker is bounded **from above**, the
//! type II error **from below**. No attack does better; it may be that none does as well. Leaving
//! out epsilons loosens a read-out and never falsifies it. For Gaussian DP the functions
//! [`gdp_true_positive_rate`] and [`gdp_type_two`] are exact up to their outward rounding.
//!
//! ```
//! use dpopt_accounting::accounting::curves::PrivacyCurve;
//! use dpopt_accounting::{Accountant, Adjacency, Event, NoiseMultiplier};
//! let event = Event::gaussian(NoiseMultiplier::new(3f64.sqrt())?).repeated(3); // mu = 1
//! let curve = PrivacyCurve::of(Accountant::Gdp, &event, Adjacency::AddRemove)?;
//! assert!((curve.true_positive_rate(0.1) - 0.38914).abs() < 1e-3);
//! assert!((curve.advantage() - 0.38292).abs() < 1e-5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::Serialize;

use super::special::{decreasing_root, log_ndtr, ndtr};
use super::{Accountant, AccountingError};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon, Mu};

/// Intervals of the grid of [`PrivacyCurve::of`].
const INTERVALS: u32 = 48;
/// delta at the end of that grid.
const LEAST_DELTA: f64 = 1e-9;
/// Relative slack upwards for the rounding of a read-out.
const SLACK: f64 = 1e-12;

/// One point of a hockey-stick curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// At least 0.
    pub epsilon: f64,
    /// Upper bound on delta there.
    pub delta: f64,
}

/// Upper bounds on a hockey-stick curve at finitely many epsilons, for both directions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PrivacyCurve {
    /// Epsilons strictly increasing, deltas in [0, 1] and not increasing.
    points: Vec<CurvePoint>,
}

impl PrivacyCurve {
    /// The curve of `event` by `accountant` on a grid from epsilon = 0 to where delta is 1e-9,
    /// denser at small epsilons.
    ///
    /// # Errors
    /// The accountant's refusals.
    pub fn of(
        accountant: Accountant,
        event: &Event,
        adjacency: Adjacency,
    ) -> Result<Self, AccountingError> {
        let last = accountant.epsilon(event, Delta::new(LEAST_DELTA)?, adjacency)?;
        let mut grid = vec![0.0];
        if last > 0.0 {
            let share = |k: u32| f64::from(k) / f64::from(INTERVALS);
            grid.extend((1..=INTERVALS).map(|k| last * share(k).powf(1.5)));
        }
        Self::on_grid(accountant, event, adjacency, &grid)
    }

    /// The curve of `event` by `accountant` at given epsilons.
    ///
    /// # Errors
    /// The accountant's refusals, and [`AccountingError::OutOfRange`] for an epsilon that is
    /// negative or not finite.
    pub fn on_grid(
        accountant: Accountant,
        event: &Event,
        adjacency: Adjacency,
        epsilons: &[f64],
    ) -> Result<Self, AccountingError> {
        let deltas = deltas(accountant, event, adjacency, epsilons)?;
        let points = epsilons.iter().zip(deltas);
        Self::from_points(
            points
                .map(|(&epsilon, delta)| CurvePoint { epsilon, delta })
                .collect(),
        )
    }

    /// A curve from (epsilon, delta) guarantees that all hold, in any order.
    ///
    /// # Errors
    /// [`AccountingError::OutOfRange`] for an epsilon that is negative or not finite, or a delta
    /// outside `[0, 1]`.
    pub fn from_points(mut points: Vec<CurvePoint>) -> Result<Self, AccountingError> {
        for point in &points {
            let CurvePoint { epsilon, delta } = *point;
            if !(epsilon >= 0.0 && epsilon.is_finite()) {
                return Err(out_of_range("epsilon", epsilon));
            }
            if !(0.0..=1.0).contains(&delta) {
                return Err(out_of_range("delta", delta));
            }
        }
        points.sort_by(|a, b| {
            let by_delta = a.delta.total_cmp(&b.delta);
            a.epsilon.total_cmp(&b.epsilon).then(by_delta)
        });
        points.dedup_by_key(|point| point.epsilon);
        // What holds at a smaller epsilon holds at a larger one.
        let mut least = 1.0_f64;
        for point in &mut points {
            least = least.min(point.delta);
            point.delta = least;
        }
        Ok(Self { points })
    }

    /// The points, by increasing epsilon.
    #[must_use]
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Upper bound on delta at any epsilon of at least 0; 1 without a point to go by, NaN for a
    /// NaN or negative epsilon.
    ///
    /// delta is convex in `e^epsilon` (a supremum of affine functions), so between points the
    /// chord bounds it; it falls with epsilon, and by at most one for each unit of `e^epsilon`.
    #[must_use]
    pub fn delta(&self, epsilon: f64) -> f64 {
        if !(epsilon >= 0.0) {
            return f64::NAN;
        }
        let after = self.points.partition_point(|point| point.epsilon < epsilon);
        match (
            after.checked_sub(1).and_then(|i| self.points.get(i)),
            self.points.get(after),
        ) {
            (_, Some(at)) if at.epsilon == epsilon => at.delta,
            (Some(left), Some(right)) => {
                let width = (right.epsilon - left.epsilon).exp_m1();
                let share = ((epsilon - left.epsilon).exp_m1() / width).clamp(0.0, 1.0);
                let share = if share.is_nan() { 0.0 } else { share };
                let chord = left.delta - share * (left.delta - right.delta);
                up(chord).min(left.delta)
            }
            (Some(last), None) => last.delta,
            (None, Some(first)) => {
                up(first.delta + epsilon.exp() * (first.epsilon - epsilon).exp_m1())
            }
            (None, None) => 1.0,
        }
    }

    /// Upper bound on the true positive rate of any test whose false positive rate is at most
    /// `rate`; NaN unless `rate` is in `[0, 1]`.
    #[must_use]
    pub fn true_positive_rate(&self, rate: f64) -> f64 {
        if !(0.0..=1.0).contains(&rate) {
            return f64::NAN;
        }
        let at = |point: &CurvePoint| {
            let CurvePoint { epsilon, delta } = *point;
            let first = up(epsilon.exp() * rate) + delta;
            // From the other direction, for the complement of the test. 1 - delta - rate
            // may be off by an ulp of 1.
            let second =
                1.0 - (-epsilon).exp() * (1.0 - SLACK) * (1.0 - delta - rate - f64::EPSILON);
            up(first.min(second))
        };
        let least = self.points.iter().map(at).fold(1.0, f64::min);
        least.max(rate)
    }

    /// Lower bound on the trade-off curve: on the type II error of any test whose type I error
    /// is at most `rate`; NaN unless `rate` is in `[0, 1]`.
    #[must_use]
    pub fn type_two(&self, rate: f64) -> f64 {
        (1.0 - self.true_positive_rate(rate) - f64::EPSILON).max(0.0)
    }

    /// Upper bound on the membership advantage: the largest true positive rate minus false positive
    /// rate of any test. It is delta at epsilon = 0, the total variation distance; the smallest of
    /// `(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)` over the points, each of which is a bound
    /// (Kairouz, Oh and Viswanath 2015), and equal to delta at epsilon = 0.
    ///
    /// The same in both directions: a test and its complement exchange the roles of the inputs.
    #[must_use]
    pub fn advantage(&self) -> f64 {
        let at = |point: &CurvePoint| {
            let half = (0.5 * point.epsilon).tanh();
            up(half + point.delta * (1.0 - half))
        };
        self.points.iter().map(at).fold(1.0, f64::min)
    }

    /// Upper bound on the probability that an attacker guesses right who before the release
    /// believed one of the two inputs with probability `prior`, and after it guesses the likelier
    /// one; NaN unless `prior` is in `[0, 1]`.
    ///
    /// With p the smaller of `prior` and `1 - prior` this is
    /// `1 - p + p delta(log((1-p)/p))`, which is exact for an exact curve. At a prior of one half
    /// it is `(1 + advantage) / 2`.
    #[must_use]
    pub fn success(&self, prior: f64) -> f64 {
        if !(0.0..=1.0).contains(&prior) {
            return f64::NAN;
        }
        let p = prior.min(1.0 - prior);
        if p == 0.5 {
            return up(0.5 + 0.5 * self.advantage()).min(1.0);
        }
        if p == 0.0 {
            return 1.0;
        }
        // An epsilon that is rounded down has a delta that is rounded up.
        let odds = ((1.0 - p) / p).ln();
        up(1.0 - p + p * self.delta((odds * (1.0 - SLACK)).max(0.0))).min(1.0)
    }

    /// Upper bound on the probability that the accused record was there, given that a test of
    /// false positive rate `rate` accused it and that before the release the probability was `prior`:
    /// `prior T / (prior T + (1 - prior) rate)` with T the bound of
    /// [`PrivacyCurve::true_positive_rate`].
    ///
    /// For tests with exactly this false positive rate; a test that accuses almost never may be
    /// surer (delta is what it can be sure of). NaN unless both are in `[0, 1]`, or when
    /// nothing is ever accused.
    #[must_use]
    pub fn posterior(&self, prior: f64, rate: f64) -> f64 {
        if !(0.0..=1.0).contains(&prior) {
            return f64::NAN;
        }
        let hit = prior * self.true_positive_rate(rate);
        up(hit / (hit + (1.0 - prior) * rate)).min(1.0)
    }
}

/// An accountant's delta at any epsilon of at least 0.
fn deltas(
    accountant: Accountant,
    event: &Event,
    adjacency: Adjacency,
    epsilons: &[f64],
) -> Result<Vec<f64>, AccountingError> {
    // delta falls by at most e^a - e^b from b to a: no more than is added here.
    const TINY: f64 = 1e-200;
    let asked = |&epsilon: &f64| {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(out_of_range("epsilon", epsilon));
        }
        Ok(Epsilon::new(epsilon.max(TINY))?)
    };
    let asked: Vec<Epsilon> = epsilons.iter().map(asked).collect::<Result<_, _>>()?;
    let mut deltas = accountant.deltas(event, &asked, adjacency)?;
    for (delta, &epsilon) in deltas.iter_mut().zip(epsilons) {
        if epsilon < TINY && *delta > 0.0 {
            *delta = (*delta + 2.0 * TINY).min(1.0);
        }
    }
    Ok(deltas)
}

/// Least type II error of any test with type I error `rate` against a mu-GDP release:
/// `Phi(Phi^-1(1 - rate) - mu)`, rounded down; NaN unless `rate` is in `[0, 1]`.
///
/// Exact for a Gaussian, a lower bound for any other mu-GDP release. Dong, Roth and Su 2022,
/// Section 2.
#[must_use]
pub fn gdp_type_two(mu: Mu, rate: f64) -> f64 {
    match upper_quantile(rate) {
        Some(y) => (ndtr(y - mu.get() - outward(y)) * (1.0 - SLACK)).max(0.0),
        None => f64::NAN,
    }
}

/// Largest true positive rate of any test with false positive rate `rate` against a mu-GDP
/// release: one minus [`gdp_type_two`], `Phi(Phi^-1(rate) + mu)`, rounded up; NaN unless
/// `rate` is in `[0, 1]`.
#[must_use]
pub fn gdp_true_positive_rate(mu: Mu, rate: f64) -> f64 {
    match upper_quantile(rate) {
        Some(y) => up(ndtr(mu.get() - y + outward(y))).min(1.0),
        None => f64::NAN,
    }
}

/// Bound on the error of a quantile, in its own unit.
fn outward(y: f64) -> f64 {
    1e-13 * (1.0 + if y.is_finite() { y.abs() } else { 0.0 })
}

/// `Phi^-1(1 - rate)`, which is minus `Phi^-1(rate)`; infinite at the ends.
fn upper_quantile(rate: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&rate) {
        return None;
    }
    if rate == 0.0 || rate == 1.0 {
        return Some(if rate == 0.0 {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        });
    }
    // 1 - rate is exact from one half on.
    let (tail, sign) = if rate <= 0.5 {
        (rate, 1.0)
    } else {
        (1.0 - rate, -1.0)
    };
    let target = tail.ln();
    let excess = |y: f64| {
        let log_tail = log_ndtr(-y);
        (
            log_tail - target,
            -1.0 / super::special::mills_ratio(y.max(0.0)),
        )
    };
    Some(sign * decreasing_root(excess, -1e-9, 40.0))
}

/// Rounded up by the slack of a read-out.
fn up(value: f64) -> f64 {
    value * (1.0 + SLACK)
}

fn out_of_range(quantity: &'static str, value: f64) -> AccountingError {
    AccountingError::OutOfRange { quantity, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{NoiseMultiplier, SamplingRate};

    const RELATION: Adjacency = Adjacency::AddRemove;

    fn gaussian(z: f64) -> Event {
        Event::gaussian(NoiseMultiplier::new(z).unwrap())
    }

    fn mu(value: f64) -> Mu {
        Mu::new(value).unwrap()
    }

    fn close(found: f64, wanted: f64, relative: f64) {
        assert!((found / wanted - 1.0).abs() <= relative, "{found} {wanted}");
    }

    /// Values by mpmath at 40 digits.
    #[test]
    fn gaussian_trade_offs_are_exact() {
        close(
            gdp_true_positive_rate(mu(1.0), 0.1),
            0.389_143_691_645_360_97,
            1e-11,
        );
        close(
            gdp_true_positive_rate(mu(0.5), 1e-6),
            1.052_630_602_549_651e-5,
            1e-11,
        );
        close(gdp_type_two(mu(3.0), 0.01), 0.250_266_252_533_203_05, 1e-11);
        close(
            gdp_true_positive_rate(mu(2.0), 0.5),
            0.977_249_868_051_820_8,
            1e-10,
        );
        close(gdp_type_two(mu(2.0), 0.5), 0.022_750_131_948_179_21, 1e-10);
        assert_eq!(gdp_true_positive_rate(mu(1.0), 0.0), 0.0);
        assert_eq!(gdp_true_positive_rate(mu(1.0), 1.0), 1.0);
        assert!(gdp_type_two(mu(1.0), 1.5).is_nan() && gdp_type_two(mu(1.0), f64::NAN).is_nan());
        // A small mu leaves chance: the two errors add up to one.
        for rate in [1e-300, 1e-9, 0.3, 0.5, 0.8, 1.0 - 1e-12] {
            let small = mu(1e-9);
            let (hit, miss) = (
                gdp_true_positive_rate(small, rate),
                gdp_type_two(small, rate),
            );
            assert!(hit >= rate && hit <= rate * (1.0 + 1e-6), "{rate} {hit}");
            assert!((hit + miss - 1.0).abs() < 1e-10, "{rate}");
        }
    }

    /// Published in `dp_accounting`: three Gaussians of deviation sqrt 3 are 1-GDP, with
    /// delta(1) = .126936 and a true positive rate of .38914 at .1.
    #[test]
    fn the_published_case_is_met_from_above() {
        let event = gaussian(3f64.sqrt()).repeated(3);
        for (accountant, slack) in [(Accountant::Gdp, 2e-3), (Accountant::Pld, 4e-3)] {
            let curve = PrivacyCurve::of(accountant, &event, RELATION).unwrap();
            let exact = gdp_true_positive_rate(mu(1.0), 0.1);
            close(exact, 0.38914, 1e-5);
            let bound = curve.true_positive_rate(0.1);
            assert!(
                bound >= exact * (1.0 - 1e-11) && bound <= exact * (1.0 + slack),
                "{bound}"
            );
            let delta = curve.delta(1.0);
            assert!(
                (0.126_936..0.126_936 * (1.0 + 2.0 * slack)).contains(&delta),
                "{delta}"
            );
            // 2 Phi(1/2) - 1
            let advantage = curve.advantage();
            assert!(
                (0.382_924_922_548_025..0.3833).contains(&advantage),
                "{advantage}"
            );
            close(curve.success(0.5), 0.5 + 0.5 * advantage, 1e-11);
        }
    }

    #[test]
    fn read_outs_never_fall_below_a_gaussian_attack() {
        for z in [0.3, 1.0, 5.0, 100.0] {
            let curve = PrivacyCurve::of(Accountant::Gdp, &gaussian(z), RELATION).unwrap();
            for rate in [0.0, 1e-12, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0] {
                let exact = ndtr(1.0 / z - upper_quantile(rate).unwrap());
                let bound = curve.true_positive_rate(rate);
                assert!(
                    bound >= exact * (1.0 - 1e-11),
                    "{z} {rate}: {bound} {exact}"
                );
                assert!(bound <= 1.0 && curve.type_two(rate) <= 1.0 - exact + 1e-11);
                assert!(curve.posterior(0.5, rate) <= 1.0 || rate == 0.0);
            }
            for prior in [0.0, 0.001, 0.2, 0.5, 0.7, 1.0] {
                let found = curve.success(prior);
                assert!(
                    (prior.max(1.0 - prior)..=1.0).contains(&found),
                    "{prior} {found}"
                );
            }
            for epsilon in [0.0, 1e-3, 0.123, 1.0, 7.7] {
                let exact = deltas(Accountant::Gdp, &gaussian(z), RELATION, &[epsilon]).unwrap()[0];
                assert!(
                    curve.delta(epsilon) >= exact * (1.0 - 1e-12),
                    "{z} {epsilon}"
                );
            }
        }
    }

    #[test]
    fn nothing_released_gives_the_attacker_nothing() {
        let curve = PrivacyCurve::of(Accountant::Gdp, &Event::NoOp, RELATION).unwrap();
        assert_eq!(curve.advantage(), 0.0);
        close(curve.true_positive_rate(0.3), 0.3, 1e-11);
        close(curve.success(0.8), 0.8, 1e-11);
    }

    #[test]
    fn pure_guarantees_give_the_known_region() {
        let points = |epsilon, delta| vec![CurvePoint { epsilon, delta }];
        let curve = PrivacyCurve::from_points(points(1.0, 0.0)).unwrap();
        let e = std::f64::consts::E;
        close(curve.true_positive_rate(0.1), 0.1 * e, 1e-11);
        close(curve.true_positive_rate(0.5), 1.0 - 0.5 / e, 1e-11);
        close(curve.advantage(), (e - 1.0) / (e + 1.0), 1e-11);
        close(curve.posterior(0.5, 0.1), e / (1.0 + e), 1e-11);
        for (epsilon, delta) in [(-1.0, 0.1), (f64::NAN, 0.1), (1.0, 1.5), (1.0, f64::NAN)] {
            assert!(PrivacyCurve::from_points(points(epsilon, delta)).is_err());
        }
        let none = PrivacyCurve::from_points(Vec::new()).unwrap();
        assert_eq!(
            (
                none.advantage(),
                none.delta(3.0),
                none.true_positive_rate(0.0)
            ),
            (1.0, 1.0, 1.0)
        );
    }

    /// What is built once for a curve is what is built for each delta alone.
    #[test]
    fn deltas_asked_together_are_those_asked_alone() {
        let allocated = Event::RandomAllocation {
            num_steps: 3,
            num_participations: 1,
            event: Box::new(gaussian(1.5)),
        };
        let sampled = gaussian(1.5).poisson_sampled(SamplingRate::new(0.1).unwrap());
        let mixed = Event::Composed {
            events: vec![allocated.clone(), sampled.clone()],
        };
        let epsilons = [2.0, 0.25, 0.5, 2.0].map(|e| Epsilon::new(e).unwrap());
        let relations = [
            Adjacency::AddRemove,
            Adjacency::ReplaceOne,
            Adjacency::ZeroOut,
        ];
        for (event, relation) in [allocated, sampled, mixed]
            .iter()
            .flat_map(|event| relations.map(|relation| (event, relation)))
        {
            let together = Accountant::Pld.deltas(event, &epsilons, relation).unwrap();
            let alone = epsilons.map(|e| Accountant::Pld.delta(event, e, relation).unwrap());
            assert_eq!(together, alone, "{relation}: {event:?}");
        }
    }

    #[test]
    fn every_accountant_has_a_curve() {
        let step = gaussian(1.0).poisson_sampled(SamplingRate::new(0.01).unwrap());
        let event = step.repeated(1000);
        let by = |accountant| PrivacyCurve::of(accountant, &event, RELATION).unwrap();
        let (pld, rdp) = (by(Accountant::Pld), by(Accountant::Rdp));
        for rate in [1e-6, 0.01, 0.5] {
            assert!(pld.true_positive_rate(rate) <= rdp.true_positive_rate(rate));
        }
        assert!(
            pld.advantage() < 0.35 && pld.advantage() > 0.05,
            "{}",
            pld.advantage()
        );
    }
}
