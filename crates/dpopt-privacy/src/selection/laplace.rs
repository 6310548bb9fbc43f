//! Two-sided geometric ("discrete Laplace") noise with a rational rate, drawn exactly.
//!
//! Ghosh, Roughgarden and Sundararajan 2009. `P(Z = z)` is proportional to `exp(−rate |z|)`.

use super::SelectionError;
use super::rate::Rate;
use crate::noise::bernoulli::{Rational, bernoulli_exp_of};
use crate::noise::digits::BitSource;

/// Largest number of low bits; wider noise is refused.
const MAX_LOW_BITS: u32 = 64;

/// Integer noise with `P(Z = z)` proportional to `exp(−rate |z|)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Laplace {
    rate: Rational,
    /// Low bits of the magnitude, drawn together: `rate · 2^low_bits` is between 1/2 and 2 for
    /// slow rates, and there are none for fast ones.
    low_bits: u32,
    /// `rate · 2^low_bits`.
    high_rate: Rational,
}

impl Laplace {
    pub(super) fn new(rate: Rate) -> Result<Self, SelectionError> {
        let rate = rate.rational();
        let length = |x: u128| u128::BITS - x.leading_zeros();
        let low_bits =
            (length(rate.denominator.get()) + rate.halvings).saturating_sub(length(rate.numerator));
        if low_bits > MAX_LOW_BITS {
            return Err(SelectionError::NoiseTooWide {
                bits: low_bits,
                limit: MAX_LOW_BITS,
            });
        }
        // The numerator is below 2^53.
        let high_rate = Rational {
            numerator: rate.numerator << low_bits.saturating_sub(rate.halvings),
            halvings: rate.halvings.saturating_sub(low_bits),
            ..rate
        };
        Ok(Self {
            rate,
            low_bits,
            high_rate,
        })
    }

    /// One draw. Its size is below `2^64 (V + 1)`, with `V` the successes of a coin in a row: to
    /// leave the range of the result, a coin of probability at most `exp(−1/2)` would have to
    /// fall right 2^60 times in a row, which also takes as many tosses.
    pub(super) fn draw<S: BitSource>(&self, source: &mut S) -> i128 {
        loop {
            let magnitude = self.geometric(source);
            let negative = source.word() >> 63 == 1;
            match (negative, magnitude) {
                // Zero has one sign only.
                (true, 0) => {}
                (true, magnitude) => return -magnitude,
                (false, magnitude) => return magnitude,
            }
        }
    }

    /// The scale, `1 / rate`.
    #[cfg(test)]
    pub(super) fn scale(&self) -> f64 {
        self.rate.denominator.get() as f64 * f64::from(self.rate.halvings).exp2()
            / self.rate.numerator as f64
    }

    /// `P(G >= g) = exp(−rate g)`: low bits `U` with probability proportional to
    /// `exp(−rate U)` by refusal, and the rest independently.
    fn geometric<S: BitSource>(&self, source: &mut S) -> i128 {
        let low = loop {
            let low = match self.low_bits {
                0 => 0,
                bits => source.word() >> (u64::BITS - bits),
            };
            // Below 2^53 · 2^64.
            let x = Rational {
                numerator: self.rate.numerator * u128::from(low),
                ..self.rate
            };
            if bernoulli_exp_of(x, source) {
                break low;
            }
        };
        let mut high = 0_i128;
        while bernoulli_exp_of(self.high_rate, source) {
            high += 1;
        }
        (high << self.low_bits) + i128::from(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::testkit::{chi_square, chi_square_catches, stream};
    use crate::units::Epsilon;

    fn noise(epsilon: f64, steps: u64) -> Laplace {
        Laplace::new(Rate::new(Epsilon::new(epsilon).unwrap(), steps).unwrap()).unwrap()
    }

    /// Probabilities of -11 or less, -10 to 10, 11 or more.
    fn law(rate: f64) -> Vec<f64> {
        let zero = (0.5 * rate).tanh();
        let beyond = (-11.0 * rate).exp() / (1.0 + (-rate).exp());
        let mut out = vec![beyond];
        out.extend((-10_i32..=10).map(|z| zero * (-rate * f64::from(z.abs())).exp()));
        out.push(beyond);
        out
    }

    fn counts(noise: Laplace, unit: i128, number: u32) -> Vec<u64> {
        let mut bits = stream(number);
        let mut counts = vec![0; 23];
        for _ in 0..300_000 {
            let cell = noise.draw(&mut bits).div_euclid(unit).clamp(-11, 11) + 11;
            counts[cell as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_law_is_the_closed_form() {
        for (number, (epsilon, steps)) in [(1.0, 1), (0.3, 1), (1.3, 2), (2.9, 1), (0.37, 3)]
            .into_iter()
            .enumerate()
        {
            let got = counts(noise(epsilon, steps), 1, 40 + number as u32);
            chi_square(&got, &law(epsilon / steps as f64));
        }
        chi_square_catches(&counts(noise(1.0, 1), 1, 46), &law(0.98));
    }

    /// Cells of 2^40 steps: cell c >= 0 has the mass of [c, c + 1) cells.
    #[test]
    fn wide_noise_has_the_law_of_its_cells() {
        let unit = 1_i128 << 40;
        let epsilon = 0.37;
        let got = counts(noise(epsilon, 1 << 40), unit, 50);
        let edge = |z: i128| (-epsilon * z as f64).exp() * 0.5;
        let mut expected = vec![0.0; 23];
        for cell in 0..11 {
            // Two-sided with negligible mass at zero: correct to 2^-40.
            expected[cell + 11] = edge(cell as i128) - edge(cell as i128 + 1);
            expected[10 - cell] = expected[cell + 11];
        }
        expected[22] = edge(11);
        // Cells -11 and below: [-11, -10) and the rest.
        expected[0] = edge(10);
        let total: f64 = expected.iter().sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        chi_square(&got, &expected);
    }

    #[test]
    fn noise_that_does_not_fit_is_refused() {
        let rate = Rate::new(Epsilon::new(1e-6).unwrap(), 1 << 50).unwrap();
        assert!(matches!(
            Laplace::new(rate),
            Err(SelectionError::NoiseTooWide { .. })
        ));
    }
}
