//! Made-up numbers for tests and benchmarks, the same in every run.
//!
//! For development only, and without a type of dpopt: so that every crate may use it in its tests, those below too.
//! **Never for noise**: whoever knows the seed knows every number.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Numbers that follow from a seed.
///
/// ```
/// let mut draws = dpopt_testkit::Draws::new(7);
/// let row = draws.normals(3);
/// assert_eq!(row, dpopt_testkit::Draws::new(7).normals(3));
/// ```
#[derive(Debug, Clone)]
pub struct Draws(ChaCha20Rng);

impl Draws {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number below `bound`, 0 where `bound` is 0; uniform up to a share of `bound` in 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// A place among `length`, 0 where there is none.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in [-1, 1).
    pub fn signed(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }

    /// A standard normal number, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// `length` standard normal numbers.
    pub fn normals(&mut self, length: usize) -> Vec<f64> {
        (0..length).map(|_| self.normal()).collect()
    }
}

/// Whether the long forms of tests are asked for: by `DPOPT_LONG` in the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the long form is asked for by the environment"
)]
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("DPOPT_LONG").is_some()
}

/// Every `step`-th of these, from the first on; all of them in the long form. A prime keeps to no pattern of nested loops.
pub fn one_in<T>(step: usize, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let step = if is_long() { 1 } else { step };
    all.into_iter().step_by(step)
}

/// Numbers in [-1, 1), one for each call.
pub fn uniforms(seed: u64) -> impl FnMut() -> f64 {
    let mut draws = Draws::new(seed);
    move || draws.signed()
}

#[cfg(test)]
mod tests {
    use super::{Draws, uniforms};

    /// Mean and mean square of many numbers, each within five standard errors.
    fn moments(mut next: impl FnMut() -> f64, mean: f64, square: f64, of_square: f64) {
        const COUNT: usize = 100_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..COUNT {
            let x = next();
            sum += x;
            squares += x * x;
        }
        let n = COUNT as f64;
        let variance = square - mean * mean;
        assert!((sum / n - mean).abs() < 5.0 * (variance / n).sqrt());
        assert!((squares / n - square).abs() < 5.0 * (of_square / n).sqrt());
    }

    #[test]
    fn the_numbers_have_the_laws_that_they_promise() {
        // E x^4 - (E x^2)^2: 1/5 - 1/9, the same, and 3 - 1.
        let (mut a, mut b) = (Draws::new(1), Draws::new(2));
        moments(|| a.uniform(), 0.5, 1.0 / 3.0, 4.0 / 45.0);
        moments(uniforms(3), 0.0, 1.0 / 3.0, 4.0 / 45.0);
        moments(|| b.normal(), 0.0, 1.0, 2.0);
    }

    #[test]
    fn whole_numbers_are_below_their_bound_and_reach_all_of_it() {
        let mut draws = Draws::new(4);
        let mut seen = [0; 7];
        for _ in 0..700 {
            seen[draws.index(7)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!(draws.below(0), 0);
    }
}
