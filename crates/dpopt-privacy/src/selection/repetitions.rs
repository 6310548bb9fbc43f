//! How often a private run is repeated before the best outcome is released.
//!
//! Papernot and Steinke 2022 ("Hyperparameter tuning with Renyi differential privacy",
//! arXiv 2110.03620), Definition 1 and Theorem 6: a truncated negative binomial number, of which
//! the logarithmic (shape 0) and the geometric law (shape 1) are members, or a Poisson number.

use std::ops::ControlFlow;

use super::SelectionError;
use super::choice::{Choice, Masses};
use super::fixed::Fixed;
use crate::accounting::log_inverse_gamma;
use crate::event::Event;
use crate::noise::digits::BitSource;

/// Largest mean number of runs. Tuned: drawing the number takes time proportional to it.
pub const MAX_MEAN: f64 = 10_000.0;

const MIN_SHAPE: f64 = 1.0 / 1024.0;
const MAX_SHAPE: f64 = 8.0;

/// Repeat-and-select: one run, and the law of the number of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    run: Event,
    mean: f64,
    shape: f64,
}

impl Tuning {
    /// The best of a random number of runs, each of which spends at most `run`.
    ///
    /// `shape` is 0 for the logarithmic law, 1 for the geometric one, infinite for the Poisson
    /// law, and from 2^-10 to 8 for other truncated negative binomial laws. The smaller it is, the
    /// heavier the tail and the cheaper the selection. A Poisson number may be zero.
    ///
    /// # Errors
    /// [`SelectionError::Repetitions`] for a mean outside `[1, 10^4]`, or another shape.
    pub fn new(run: Event, mean: f64, shape: f64) -> Result<Self, SelectionError> {
        let shaped =
            shape == 0.0 || shape == f64::INFINITY || (MIN_SHAPE..=MAX_SHAPE).contains(&shape);
        if !shaped || !(1.0..=MAX_MEAN).contains(&mean) {
            return Err(SelectionError::Repetitions {
                mean,
                shape,
                limit: MAX_MEAN,
            });
        }
        Ok(Self { run, mean, shape })
    }

    /// The budget of one run.
    #[must_use]
    pub fn run(&self) -> &Event {
        &self.run
    }

    /// The mean number of runs: what to report. The number itself is secret.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The event of the whole: what to reserve.
    #[must_use]
    pub fn event(&self) -> Event {
        Event::RepeatAndSelect {
            event: Box::new(self.run.clone()),
            mean: self.mean,
            // A negative zero is a zero.
            shape: self.shape.abs(),
        }
    }
}

/// The best of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Best<T> {
    /// The result of the run.
    pub value: T,
    /// Its score.
    pub score: f64,
}

/// The law of the number of runs.
pub(crate) struct Repetitions(Law);

enum Law {
    Binomial(Choice<Binomial>),
    /// The number of draws that are added up.
    Poisson(Choice<Poisson>, u32),
}

impl Repetitions {
    pub(crate) fn new(tuning: &Tuning) -> Self {
        if tuning.shape == f64::INFINITY {
            let mut parts = 1;
            let mut mean = tuning.mean;
            while mean > 32.0 {
                parts *= 2;
                mean *= 0.5;
            }
            Self(Law::Poisson(Choice::new(Poisson::new(mean)), parts))
        } else {
            let law = Binomial::new(tuning.mean, tuning.shape);
            Self(Law::Binomial(Choice::new(law)))
        }
    }

    pub(crate) fn draw<S: BitSource>(&self, source: &mut S) -> u64 {
        match &self.0 {
            Law::Binomial(choice) => choice.draw(source),
            // Sums of Poisson numbers are Poisson.
            Law::Poisson(choice, parts) => (0..*parts).map(|_| choice.draw(source)).sum(),
        }
    }
}

/// Truncated negative binomial law on 1, 2, ...: with shape eta and parameter gamma = 1 − q
///
/// `P(k + 1) / P(k) = q (k + eta) / (k + 1)`.
///
/// q and eta are binary fractions, taken exactly. q is rounded down: by a relative 1e-9 of
/// log(1/gamma) more than the error of the logarithms, so that the mean is at most, and gamma at
/// least, what is accounted; both only lower the cost (Theorem 2).
struct Binomial {
    /// q 2^64.
    q: u64,
    /// eta = numerator / 2^halvings.
    numerator: u64,
    halvings: u32,
}

impl Binomial {
    fn new(mean: f64, shape: f64) -> Self {
        let shape = shape.abs();
        let log = (log_inverse_gamma(mean, shape) * (1.0 - 1e-9) - 1e-12).max(0.0);
        // Saturates below 1; the largest mean keeps it below 1 − 2^-20 anyway.
        let q = (-(-log).exp_m1() * 18_446_744_073_709_551_616.0) as u64;
        let (numerator, halvings) = binary(shape);
        Self {
            q,
            numerator,
            halvings,
        }
    }
}

impl Masses for Binomial {
    /// `v_{k+1} = v_k q (k + eta) / (k + 1)` from `v_1 = 1`, each step rounded down by less than
    /// three ulps. The law rises and then falls, so the error of `v_k` is below 3k ulps times the
    /// larger of 1 and the largest mass. From `k = 2 eta / gamma` on a mass is at most `1 − gamma/2` times
    /// the one before, which bounds the tail.
    fn walk(
        &self,
        limbs: usize,
        each: &mut dyn FnMut(u64, &Fixed, u128) -> ControlFlow<()>,
    ) -> u128 {
        // 1 / gamma, rounded up.
        let over_gamma = (1_u128 << 64).div_ceil((1 << 64) - u128::from(self.q));
        let settled = 2 * (MAX_SHAPE as u128) * over_gamma;
        let mut mass = Fixed::whole(limbs, 1);
        let mut largest = 1_u128;
        let mut k = 1_u64;
        loop {
            largest = largest.max(mass.floor() + 2);
            let error = 3 * u128::from(k) * largest;
            if mass.is_zero() && u128::from(k) >= settled {
                return (error + 1).saturating_mul(2 * over_gamma);
            }
            if each(k, &mass, error).is_break() {
                return 0;
            }
            let mut of_shape = mass.clone();
            of_shape.times(self.numerator);
            of_shape.halved(self.halvings);
            mass.times(k);
            mass.add(&of_shape);
            mass.over(k + 1);
            mass.times_fraction(self.q);
            k += 1;
        }
    }
}

/// Poisson law of a mean from 1 to 32: `P(k + 1) / P(k) = mean / (k + 1)`.
struct Poisson {
    /// mean = numerator / 2^halvings.
    numerator: u64,
    halvings: u32,
}

impl Poisson {
    fn new(mean: f64) -> Self {
        let (numerator, halvings) = binary(mean);
        Self {
            numerator,
            halvings,
        }
    }
}

impl Masses for Poisson {
    /// From `v_0 = 1`, each step rounded down by less than two ulps; errors as for [`Binomial`].
    /// From `k = 64` on masses at least halve.
    fn walk(
        &self,
        limbs: usize,
        each: &mut dyn FnMut(u64, &Fixed, u128) -> ControlFlow<()>,
    ) -> u128 {
        let mut mass = Fixed::whole(limbs, 1);
        let mut largest = 1_u128;
        let mut k = 0_u64;
        loop {
            largest = largest.max(mass.floor() + 2);
            let error = 2 * u128::from(k) * largest;
            if mass.is_zero() && k >= 64 {
                return 2 * (error + 1);
            }
            if each(k, &mass, error).is_break() {
                return 0;
            }
            mass.times(self.numerator);
            mass.halved(self.halvings);
            mass.over(k + 1);
            k += 1;
        }
    }
}

/// A number from 2^-10 to 2^52, or zero, as `numerator / 2^halvings`.
fn binary(value: f64) -> (u64, u32) {
    if value == 0.0 {
        return (0, 0);
    }
    let bits = value.to_bits();
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    (mantissa, 1075_u32.saturating_sub((bits >> 52) as u32))
}

#[cfg(test)]
mod tests {
    use libm::lgamma;

    use super::*;
    use crate::selection::testkit::{chi_square, chi_square_catches, stream};

    /// Probabilities of 0 to 199, by the definition with gamma found by bisection on the mean.
    fn binomial(mean: f64, shape: f64) -> Vec<f64> {
        let pmf = |gamma: f64| -> Vec<f64> {
            let masses: Vec<f64> = (0..4000)
                .map(|k| {
                    let x = f64::from(k);
                    let log = if k == 0 {
                        return 0.0;
                    } else if shape == 0.0 {
                        -x.ln()
                    } else {
                        lgamma(x + shape) - lgamma(x + 1.0)
                    };
                    (log + x * (-gamma).ln_1p()).exp()
                })
                .collect();
            let total: f64 = masses.iter().sum();
            masses.iter().map(|m| m / total).collect()
        };
        let mean_of = |p: &[f64]| p.iter().enumerate().map(|(k, p)| k as f64 * p).sum::<f64>();
        let (mut low, mut high) = (1e-6, 1.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if mean_of(&pmf(middle)) > mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        pmf(high)[..200].to_vec()
    }

    fn poisson(mean: f64) -> Vec<f64> {
        (0..200)
            .map(|k| (f64::from(k) * mean.ln() - mean - lgamma(f64::from(k) + 1.0)).exp())
            .collect()
    }

    fn counts(mean: f64, shape: f64, draws: u32, number: u32) -> Vec<u64> {
        let tuning = Tuning::new(Event::NoOp, mean, shape).unwrap();
        let law = Repetitions::new(&tuning);
        let mut bits = stream(number);
        let mut counts = vec![0; 200];
        for _ in 0..draws {
            counts[(law.draw(&mut bits) as usize).min(199)] += 1;
        }
        counts
    }

    #[test]
    fn the_laws_are_the_closed_forms() {
        for (number, (mean, shape)) in [
            (1.0, 1.0),
            (2.5, 0.0),
            (3.0, 1.0),
            (4.0, 0.5),
            (6.0, 3.0),
            (5.0, 8.0),
            (2.0, 0.001),
        ]
        .into_iter()
        .enumerate()
        {
            let got = counts(mean, shape, 100_000, 80 + number as u32);
            if mean == 1.0 {
                assert_eq!(got[1], 100_000);
            } else {
                chi_square(&got, &binomial(mean, shape));
            }
            assert_eq!(got[0], 0);
        }
        for (number, mean) in [1.0, 4.3, 40.0].into_iter().enumerate() {
            chi_square(
                &counts(mean, f64::INFINITY, 100_000, 90 + number as u32),
                &poisson(mean),
            );
        }
    }

    #[test]
    fn another_shape_or_mean_is_caught() {
        let expected = binomial(3.0, 1.0);
        chi_square_catches(&counts(3.0, 0.5, 100_000, 95), &expected);
        chi_square_catches(&counts(3.1, 1.0, 100_000, 96), &expected);
        chi_square_catches(&counts(4.1, f64::INFINITY, 100_000, 97), &poisson(4.3));
    }

    /// The nominal mean is an upper bound, close to the true one, for every law; by the masses
    /// at one precision.
    #[test]
    fn the_mean_is_at_most_the_nominal_one() {
        for shape in [0.0, 0.001, 0.5, 1.0, 3.0, 8.0] {
            for mean in [1.001, 2.0, 10.0, 300.0] {
                let law = Binomial::new(mean, shape);
                let (mut total, mut first) = (0.0, 0.0);
                law.walk(2, &mut |k, mass, error| {
                    let value = mass.to_f64();
                    assert!(error < 1 << 100);
                    total += value;
                    first += k as f64 * value;
                    ControlFlow::Continue(())
                });
                let got = first / total;
                assert!(
                    got <= mean * (1.0 + 1e-12) && got > mean * (1.0 - 1e-7),
                    "{mean} {shape}: {got}"
                );
            }
        }
    }

    #[test]
    fn large_means_are_drawn() {
        let mut bits = stream(99);
        for shape in [0.0, 1.0, 8.0, f64::INFINITY] {
            let law = Repetitions::new(&Tuning::new(Event::NoOp, 1000.0, shape).unwrap());
            let sum: u64 = (0..20).map(|_| law.draw(&mut bits)).sum();
            assert!(sum > 500, "{shape} {sum}");
        }
    }

    #[test]
    fn bad_parameters_are_errors() {
        for (mean, shape) in [
            (0.5, 1.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
            (2e4, 1.0),
            (3.0, -0.5),
            (3.0, f64::NAN),
            (3.0, 9.0),
            (3.0, 1e-9),
        ] {
            assert!(
                matches!(
                    Tuning::new(Event::NoOp, mean, shape),
                    Err(SelectionError::Repetitions { .. })
                ),
                "{mean} {shape}"
            );
        }
    }
}
