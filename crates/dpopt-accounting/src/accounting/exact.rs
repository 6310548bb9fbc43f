//! The exact accountant: delta and epsilon by contour integration, with a certified error.
//!
//! For a composition with privacy losses `L_i` under P (of a dominating pair P, Q) and
//! `K(s) = sum_i T_i log E_P[e^{s L_i}]`, at any abscissa `theta > 0`,
//!
//! ```text
//! delta(eps) = 1/(2 pi i) * integral over Re s = theta of e^{K(s) - s eps} / (s (s + 1)) ds.
//! ```
//!
//! There is no grid on the privacy loss, hence no discretisation bias, and small deltas are no
//! harder than large ones: theta is at the saddle point, and delta is known relatively. The integral is a
//! trapezoid sum whose error has a sign and a bound; the moments are trapezoid sums
//! on a shifted line, where neither oscillation nor tails hurt. Every answer is an interval that accounts for
//! both sums, both truncations and rounding. The argument stands in `docs/privacy/accounting.md`.
//!
//! ```
//! use dpopt_accounting::accounting::exact;
//! use dpopt_accounting::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
//!
//! let step = Event::gaussian(NoiseMultiplier::new(1.0)?).poisson_sampled(SamplingRate::new(0.01)?);
//! let bounds = exact::epsilon(&step.repeated(10_000), Delta::new(1e-12)?, Adjacency::AddRemove)?;
//! assert!((bounds.upper - 10.346689837674).abs() < 1e-10);
//! assert!(bounds.width() < 1e-8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod contour;
mod error;
mod moments;
mod pair;
mod sampled;
mod schedule;

use super::releases::Releases;
use super::{Accountant, AccountingError};
use crate::{Adjacency, Delta, Event};
use contour::{Composition, Integral, Saddle, Value};
pub use error::ExactError;
use moments::Gaussian;
use pair::{Direction, Pair};
use sampled::Sampled;
use schedule::{MAX_COUNT, Schedule};

/// A lower and an upper bound on one number. The truth lies between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExactBounds {
    /// The truth is at least this.
    pub lower: f64,
    /// The truth is at most this: the one to promise.
    pub upper: f64,
}

impl ExactBounds {
    /// `upper - lower`.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }

    /// Whether the interval is wider than a thousandth of its upper end: the contours did not resolve it, and another accountant
    /// may know better.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        !(self.width() <= WIDE * self.upper)
    }

    fn max(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
        }
    }

    const ZERO: Self = Self {
        lower: 0.0,
        upper: 0.0,
    };
}

/// Range of effective noise multipliers of sampled releases.
const NOISE_RANGE: (f64, f64) = (0.02, 1e6);
/// Largest width of log delta that is an answer.
const WIDEST: f64 = 0.7;
/// Most contours for one epsilon.
const ROUNDS: usize = 14;
/// Relative width of an epsilon above which another contour is tried.
const WIDE: f64 = 1e-3;
/// Most contours to narrow an interval.
const NARROWINGS: usize = 4;

/// Bounds on the least epsilon of `event` at `delta` under `adjacency`.
///
/// Under add-remove and zero-out the larger of the two directions counts; under replace-one the
/// pair is that of [`crate::accounting::rdp`], with a standard deviation of `2 z` clip norms.
/// The interval holds whether or not it [is wide](ExactBounds::is_wide).
///
/// # Errors
/// [`ExactError`] for an event without a known moment function or beyond the numeric range.
pub fn epsilon(
    event: &Event,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<ExactBounds, ExactError> {
    epsilon_of_all(&releases(event)?, delta, adjacency, false)
}

/// Bounds on epsilon; of a composition that dominates the releases where they are to be merged.
fn epsilon_of_all(
    releases: &Releases,
    delta: Delta,
    adjacency: Adjacency,
    merged: bool,
) -> Result<ExactBounds, ExactError> {
    let mut worst = ExactBounds::ZERO;
    if total_variation(releases) <= delta.get() {
        return Ok(worst);
    }
    for mut part in directions(releases, adjacency, merged)? {
        if worst.lower > 0.0
            && (part.supremum() * (1.0 + 1e-12) <= worst.lower
                || part.surely_below(worst.lower, delta.get().ln()))
        {
            continue;
        }
        worst = worst.max(epsilon_of(&mut part, delta.get())?);
    }
    Ok(worst)
}

/// Bounds on the delta of `event` at `epsilon` under `adjacency`; below about 1e-308 the lower
/// one is 0, see [`log_delta`].
///
/// # Errors
/// As [`epsilon`](fn@epsilon), and [`ExactError::BadEpsilon`].
pub fn delta(event: &Event, epsilon: f64, adjacency: Adjacency) -> Result<ExactBounds, ExactError> {
    Ok(exponential(log_delta(event, epsilon, adjacency)?))
}

fn exponential(ln: ExactBounds) -> ExactBounds {
    let relative = 4.0 * f64::EPSILON;
    ExactBounds {
        lower: (ln.lower.exp() * (1.0 - relative)).min(1.0),
        upper: if ln.upper == f64::NEG_INFINITY {
            0.0
        } else {
            (ln.upper.exp() * (1.0 + relative)).next_up().min(1.0)
        },
    }
}

/// Bounds on epsilon of many different samples: from above as mixtures of few, from below as groups of fewer, each with the
/// least rate and the most noise of its members.
pub(super) fn epsilon_of_schedule(
    releases: &Releases,
    groups: usize,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<ExactBounds, ExactError> {
    let above = epsilon_of_all(releases, delta, adjacency, true)?;
    let below = epsilon_of_all(&releases.finer(groups), delta, adjacency, false)?;
    Ok(ExactBounds {
        lower: below.lower,
        upper: above.upper,
    })
}

/// The same for delta.
pub(super) fn delta_of_schedule(
    releases: &Releases,
    groups: usize,
    epsilon: f64,
    adjacency: Adjacency,
) -> Result<ExactBounds, ExactError> {
    let above = log_delta_of_all(releases, epsilon, adjacency, true)?;
    let below = log_delta_of_all(&releases.finer(groups), epsilon, adjacency, false)?;
    Ok(exponential(ExactBounds {
        lower: below.lower,
        upper: above.upper,
    }))
}

/// Bounds on the logarithm of delta at `epsilon`; minus infinity where delta is exactly 0.
///
/// # Errors
/// As [`delta`](fn@delta).
pub fn log_delta(
    event: &Event,
    epsilon: f64,
    adjacency: Adjacency,
) -> Result<ExactBounds, ExactError> {
    if !epsilon.is_finite() || epsilon < 0.0 {
        return Err(ExactError::BadEpsilon { value: epsilon });
    }
    log_delta_of_all(&releases(event)?, epsilon, adjacency, false)
}

fn log_delta_of_all(
    releases: &Releases,
    epsilon: f64,
    adjacency: Adjacency,
    merged: bool,
) -> Result<ExactBounds, ExactError> {
    let mut worst = ExactBounds {
        lower: f64::NEG_INFINITY,
        upper: f64::NEG_INFINITY,
    };
    for mut part in directions(releases, adjacency, merged)? {
        if epsilon >= part.supremum() * (1.0 + 1e-12)
            || (worst.lower.is_finite() && part.surely_below(epsilon, worst.lower))
        {
            continue;
        }
        worst = worst.max(log_delta_of(&mut part, epsilon)?);
    }
    Ok(worst)
}

fn log_delta_of(part: &mut Composition, epsilon: f64) -> Result<ExactBounds, ExactError> {
    let saddle = part.saddle(|s| s.epsilon < epsilon)?;
    let at = resolve(part, Saddle { epsilon, ..saddle })?;
    Ok(ExactBounds {
        lower: at.ln_lower.min(0.0),
        upper: at.ln_upper.min(0.0),
    })
}

/// delta at the saddle point's epsilon, with the first guess of it corrected.
fn resolve(part: &mut Composition, mut saddle: Saddle) -> Result<Value, ExactError> {
    let mut failure = None;
    for _ in 0..4 {
        let integral = Integral::new(part, &saddle)?;
        let at = integral.at(saddle.epsilon);
        if at.ln_upper - at.ln_lower <= WIDEST {
            return Ok(at);
        }
        // Laplace's method may be far too high where a few large jumps compete with many
        // small ones.
        saddle.ln_delta = saddle.ln_delta.min(at.ln_upper) - 8.0;
        failure = Some(ExactError::Unresolved {
            epsilon: saddle.epsilon,
            ln_lower: at.ln_lower,
            ln_upper: at.ln_upper,
        });
    }
    Err(failure.unwrap_or(ExactError::NoSaddle { tilt: saddle.theta }))
}

/// One direction's epsilon. Usually the moments are tabulated once, near the answer.
fn epsilon_of(part: &mut Composition, delta: f64) -> Result<ExactBounds, ExactError> {
    let ln_delta = delta.ln();
    let ln_error = 2.0 * f64::EPSILON * (1.0 + ln_delta.abs());
    let mut saddle = part.saddle(|s| s.ln_delta > ln_delta)?;
    let (mut low, mut high) = (0.0_f64, part.supremum() * (1.0 + 1e-12));
    let mut last = None;
    for round in 0..ROUNDS {
        if saddle.epsilon <= 0.0 {
            saddle = part.saddle(|s| s.epsilon < 0.0)?;
            saddle.epsilon = 0.0;
        }
        // Errors are to be small beside the target, whatever delta is here.
        saddle.ln_delta = saddle.ln_delta.min(ln_delta);
        let integral = Integral::new(part, &saddle)?;
        let at = integral.at(saddle.epsilon);
        if at.ln_upper <= ln_delta - ln_error {
            high = high.min(saddle.epsilon);
        } else if at.ln_lower >= ln_delta + ln_error {
            low = low.max(saddle.epsilon);
        }
        if high == 0.0 {
            return Ok(ExactBounds::ZERO);
        }
        let resolved = at.ln_upper - at.ln_lower <= WIDEST;
        let mut next = f64::NAN;
        if resolved {
            // The table serves while delta changes little.
            let epsilon = newton(&integral, saddle.epsilon, ln_delta);
            if (epsilon - saddle.epsilon).abs() * at.slope <= 4.0 {
                let bounds = certify(&integral, epsilon, ln_delta, ln_error)?;
                let bounds = ExactBounds {
                    lower: bounds.lower.max(low),
                    upper: bounds.upper.min(high).max(0.0),
                };
                return Ok(narrow(part, bounds, epsilon, ln_delta, ln_error));
            }
            if round < ROUNDS / 2 {
                next = saddle.epsilon + (at.ln - ln_delta) / at.slope;
            }
        }
        last = Some((saddle.epsilon, at));
        if !(next > low && next < high) {
            // Where a few large jumps compete with many small ones Laplace's method is far off.
            next = match (low > 0.0, high.is_finite()) {
                (true, true) => (low * high).sqrt(),
                (false, true) => 0.1 * high,
                (_, false) => 2.0 * saddle.epsilon.max(1e-3),
            };
        }
        if high - low <= 4.0 * f64::EPSILON * high {
            break;
        }
        saddle = part.saddle(|s| s.epsilon < next)?;
        saddle.epsilon = next;
    }
    Err(last.map_or(
        ExactError::NoSaddle { tilt: saddle.theta },
        |(epsilon, at)| ExactError::Unresolved {
            epsilon,
            ln_lower: at.ln_lower,
            ln_upper: at.ln_upper,
        },
    ))
}

/// An interval that is not wide, if contours at the estimate give one. Where delta hardly falls, an error of the table that is
/// no more than half a nat is most of epsilon.
fn narrow(
    part: &mut Composition,
    mut bounds: ExactBounds,
    mut epsilon: f64,
    ln_delta: f64,
    ln_error: f64,
) -> ExactBounds {
    let mut lowered = 0.0;
    for _ in 0..NARROWINGS {
        if !bounds.is_wide() {
            break;
        }
        if !(epsilon > bounds.lower && epsilon < bounds.upper) {
            epsilon = 0.5 * (bounds.lower + bounds.upper);
        }
        let contour = part.saddle(|s| s.epsilon < epsilon).and_then(|saddle| {
            let ln_delta = saddle.ln_delta.min(ln_delta) - lowered;
            let saddle = Saddle {
                epsilon,
                ln_delta,
                ..saddle
            };
            Integral::new(part, &saddle)
        });
        lowered += 8.0;
        let Ok(integral) = contour else {
            continue;
        };
        epsilon = newton(&integral, epsilon, ln_delta);
        if let Ok(next) = certify(&integral, epsilon, ln_delta, ln_error) {
            bounds.lower = bounds.lower.max(next.lower);
            bounds.upper = bounds.upper.min(next.upper).max(0.0);
        }
    }
    bounds
}

/// Newton's method on log delta.
fn newton(integral: &Integral, start: f64, ln_delta: f64) -> f64 {
    let mut epsilon = start;
    for _ in 0..40 {
        let at = integral.at(epsilon);
        let step = (at.ln - ln_delta) / at.slope;
        epsilon += step;
        if !(step.abs() > 2.0 * f64::EPSILON * epsilon.abs()) {
            break;
        }
    }
    epsilon
}

/// Ends at which the bounds on delta are on the right side.
fn certify(
    integral: &Integral,
    epsilon: f64,
    ln_delta: f64,
    ln_error: f64,
) -> Result<ExactBounds, ExactError> {
    let at = integral.at(epsilon);
    let end = |sign: f64| {
        let gap = if sign > 0.0 {
            at.ln_upper - ln_delta
        } else {
            ln_delta - at.ln_lower
        };
        let mut away = ((gap + 2.0 * ln_error) * 1.01 / at.slope)
            .max(2.0 * f64::EPSILON * epsilon.abs())
            .max(f64::MIN_POSITIVE);
        for _ in 0..60 {
            let probe = epsilon + sign * away;
            let value = integral.at(probe);
            let holds = if sign > 0.0 {
                value.ln_upper <= ln_delta - ln_error
            } else {
                value.ln_lower >= ln_delta + ln_error
            };
            if holds {
                return Some(probe);
            }
            away *= 2.0;
        }
        None
    };
    match (end(-1.0), end(1.0)) {
        (Some(lower), Some(upper)) => Ok(ExactBounds { lower, upper }),
        _ => Err(ExactError::Unresolved {
            epsilon,
            ln_lower: at.ln_lower,
            ln_upper: at.ln_upper,
        }),
    }
}

/// An upper bound on delta at epsilon 0, which adds up over releases: a Gaussian has
/// `2 Phi(mu/2) - 1 < 0.4 mu`, a sampled one at most rate times that.
fn total_variation(releases: &Releases) -> f64 {
    let sampled: f64 = releases
        .sampled
        .iter()
        .map(|r| {
            // Under replace-one the shift is 2 clip norms and sigma 2 z: the same number.
            r.count as f64 * r.rate * (0.4 / r.noise_multiplier).min(1.0)
        })
        .sum();
    (0.4 * releases.mu_squared().sqrt() + sampled) * (1.0 + 1e-12)
}

fn releases(event: &Event) -> Result<Releases, ExactError> {
    for (_, count) in event.leaves() {
        check_count(count)?;
    }
    Releases::of(Accountant::Exact, event).map_err(|error| match error {
        AccountingError::Unprotected => ExactError::Unprotected,
        AccountingError::UnsupportedEvent { event, .. } => ExactError::Unsupported {
            event: event.to_string(),
        },
        other => ExactError::Unsupported {
            event: other.to_string(),
        },
    })
}

/// The compositions whose larger delta counts; none when nothing was released.
fn directions(
    releases: &Releases,
    adjacency: Adjacency,
    merged: bool,
) -> Result<Vec<Composition>, ExactError> {
    if releases.is_empty() {
        return Ok(Vec::new());
    }
    let list: &[Direction] = match adjacency {
        // Then both directions are the same.
        _ if releases.sampled.is_empty() => &[Direction::Remove],
        Adjacency::AddRemove | Adjacency::ZeroOut => &[Direction::Remove, Direction::Add],
        Adjacency::ReplaceOne => &[Direction::Replace],
    };
    list.iter()
        .map(|direction| composition(releases, *direction, adjacency, merged))
        .collect()
}

fn check_count(count: u64) -> Result<(), ExactError> {
    if count > MAX_COUNT {
        return Err(ExactError::TooManySteps {
            count,
            limit: MAX_COUNT,
        });
    }
    Ok(())
}

fn composition(
    releases: &Releases,
    direction: Direction,
    adjacency: Adjacency,
    merged: bool,
) -> Result<Composition, ExactError> {
    let mut parts: Vec<Box<dyn moments::Moments>> = Vec::new();
    if releases.mu_squared() > 0.0 {
        parts.push(Box::new(Gaussian {
            mu_squared: releases.mu_squared(),
            error: 64.0 * f64::EPSILON,
        }));
    }
    let units = if direction == Direction::Replace {
        adjacency.sum_sensitivity()
    } else {
        1.0
    };
    for release in &releases.sampled {
        check_count(release.count)?;
        let sigma = release.noise_multiplier * units;
        if !(NOISE_RANGE.0..=NOISE_RANGE.1).contains(&sigma) {
            return Err(ExactError::Noise {
                value: sigma,
                smallest: NOISE_RANGE.0,
                largest: NOISE_RANGE.1,
            });
        }
        if merged {
            continue;
        }
        let pair = Pair {
            direction,
            rate: release.rate,
            sigma,
        };
        parts.push(Box::new(Sampled::new(pair, release.count as f64)?));
    }
    if merged && !releases.sampled.is_empty() {
        let schedule = Schedule::new(&releases.sampled, direction, units)?;
        let schedule = schedule.ok_or(ExactError::Scattered {
            kinds: releases.sampled.len(),
        })?;
        parts.push(Box::new(schedule));
    }
    Ok(Composition { parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseMultiplier, SamplingRate};

    /// The smaller direction, which the public functions hide: reference values `eps_add`.
    #[test]
    fn the_add_direction_agrees() {
        for (list, delta, truth) in [
            (&[(0.01, 1.0, 10000)][..], 1e-05, 5.611508617652036),
            (&[(0.08192, 3.0, 2442)][..], 1e-05, 6.263064550260489),
            (&[(0.01024, 1.5, 9766)][..], 1e-05, 3.0982369736827686),
            (
                &[(0.004266666666666667, 1.3, 3516)][..],
                1e-05,
                0.8014459158354249,
            ),
            (
                &[(0.01, 1.0, 2000), (1.0, 4.0, 1)][..],
                1e-05,
                2.4088944814498743,
            ),
            (&[(0.01, 1.0, 10000)][..], 1e-10, 8.121744764907444),
            (
                &[(0.01, 1.2, 5000), (0.05, 3.0, 1000)][..],
                1e-06,
                4.130236882137868,
            ),
            (&[(0.01, 1.0, 1000)][..], 1e-05, 1.416661948036183),
            (
                &[(0.002, 0.8, 3000), (0.004, 1.0, 3000), (1.0, 20.0, 10)][..],
                1e-06,
                1.6182135389440422,
            ),
            (&[(0.01, 1.0, 10000)][..], 1e-12, 8.90388921255671),
            (&[(0.01, 2.0, 2000)][..], 1e-05, 0.8546759421091155),
            (&[(0.001, 1.0, 100000)][..], 1e-06, 1.8041504051810242),
            (&[(0.2, 3.0, 300)][..], 1e-10, 7.350776245138704),
            (&[(0.008, 5.0, 50000)][..], 1e-06, 1.5769806024662376),
            (&[(0.1, 2.0, 1000)][..], 1e-05, 7.575969184504245),
            (&[(0.01, 1.0, 10000)][..], 1e-30, 13.814103355793403),
            (&[(0.5, 50.0, 10000)][..], 1e-06, 4.885195524988459),
            (&[(0.5, 10.0, 1000)][..], 1e-08, 9.643845440545912),
            (&[(0.01, 1.0, 10000)][..], 0.001, 4.145797873093079),
            (&[(0.5, 0.7, 100)][..], 1e-05, 38.84931928599018),
            (&[(0.9, 4.0, 200)][..], 1e-06, 19.40679654001254),
            (&[(0.5, 2.0, 50)][..], 1e-05, 7.752290616311523),
        ] {
            let event = Event::composed(
                list.iter()
                    .map(|&(q, z, t)| {
                        Event::gaussian(NoiseMultiplier::new(z).unwrap())
                            .poisson_sampled(SamplingRate::new(q).unwrap())
                            .repeated(t)
                    })
                    .collect(),
            );
            let releases = releases(&event).unwrap();
            let mut part =
                composition(&releases, Direction::Add, Adjacency::AddRemove, false).unwrap();
            let got = epsilon_of(&mut part, delta).unwrap();
            assert!(
                got.lower <= truth && truth <= got.upper && got.width() < 1e-8 * truth,
                "{list:?} {delta:e}: {got:?} against {truth}"
            );
        }
    }
}
