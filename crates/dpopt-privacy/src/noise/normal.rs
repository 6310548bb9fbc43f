//! An exact standard normal: C. F. F. Karney, "Sampling exactly from the normal distribution",
//! ACM Transactions on Mathematical Software 42(1), 2016.
//!
//! The density of |Z| at `k + x`, for an integer `k ≥ 0` and `x` in (0, 1), is proportional to
//!
//! ```text
//! exp(−(k+x)²/2) = exp(−k/2) · exp(−k(k−1)/2) · exp(−x(2k+x)/2).
//! ```
//!
//! So: draw `k` with weight `exp(−k/2)` by counting successes of an event of probability
//! `exp(−1/2)`; keep it with probability `exp(−k(k−1)/2)`, which is `k(k−1)` more such
//! successes; draw `x` uniform and keep it with probability `exp(−x(2k+x)/2)`, which is `k+1`
//! successes of an event of probability `exp(−x(2k+x)/(2k+2))`. Start again when either is not
//! kept. Each event is decided by comparing uniform numbers, after von Neumann and Forsythe: if
//! a run that goes on for at least `n` steps has probability `qⁿ/n!`, its length is even with
//! probability `Σ (−q)ⁿ/n! = exp(−q)`. No logarithm, exponential or constant is computed, so
//! there is nothing to be rounded.

use super::digits::{BitSource, LazyUniform};

/// A real number with the standard normal law: a sign, an integer, and a fraction of which as
/// many digits are known as were needed.
pub(crate) struct ExactNormal {
    /// Whether the number is below zero.
    pub(crate) negative: bool,
    /// The integer part of its absolute value.
    pub(crate) whole: u64,
    /// The rest of its absolute value.
    pub(crate) fraction: LazyUniform,
}

impl ExactNormal {
    /// Draws one number.
    pub(crate) fn draw<S: BitSource>(source: &mut S) -> Self {
        loop {
            let whole = half_exponential_count(source);
            if !survives(whole, source) {
                continue;
            }
            let mut fraction = LazyUniform::new(source);
            if (0..=whole).all(|_| keeps_fraction(whole, &mut fraction, source)) {
                return Self {
                    negative: source.word() >> 63 == 1,
                    whole,
                    fraction,
                };
            }
        }
    }
}

/// An integer with probability proportional to `exp(−k/2)`.
///
/// The counter cannot overflow in the lifetime of a machine: it goes up by one per success, and
/// 2^64 successes in a row have probability `exp(−2^63)`.
#[inline]
fn half_exponential_count<S: BitSource>(source: &mut S) -> u64 {
    let mut count = 0_u64;
    while half_exponential(source) {
        count = count.saturating_add(1);
    }
    count
}

/// True with probability `exp(−k(k−1)/2)`.
///
/// The product fits: a `k` at which it would not cannot be reached, see
/// [`half_exponential_count`].
#[inline]
fn survives<S: BitSource>(k: u64, source: &mut S) -> bool {
    let trials = u128::from(k) * u128::from(k.saturating_sub(1));
    (0..trials).all(|_| half_exponential(source))
}

/// True with probability `exp(−1/2)`.
///
/// The run goes on for at least `n ≥ 1` steps if `1/2 > U₁ > … > Uₙ`: the `n` numbers are all
/// below one half (probability `2^−n`) and in one of their `n!` orders.
#[inline]
pub(super) fn half_exponential<S: BitSource>(source: &mut S) -> bool {
    let mut last = LazyUniform::new(source);
    if !last.below_half::<S>() {
        return true;
    }
    let mut even = false;
    loop {
        let mut next = LazyUniform::new(source);
        if !next.is_below(&mut last, source) {
            return even;
        }
        last = next;
        even = !even;
    }
}

/// True with probability `exp(−x(2k+x)/(2k+2))`, for the real number `x` in (0, 1).
///
/// Step `n` of the run goes on if the next uniform number continues a chain
/// `x > U₁ > … > Uₙ` and an independent event of probability `(2k+x)/(2k+2)` happens, so a run
/// of at least `n` steps has probability `xⁿ/n! · ((2k+x)/(2k+2))ⁿ`. The event: of `2k+2`
/// equally likely cases, one fails, one succeeds if a fresh uniform number is below `x`, and
/// the other `2k` succeed.
#[inline]
pub(super) fn keeps_fraction<S: BitSource>(k: u64, x: &mut LazyUniform, source: &mut S) -> bool {
    let cases = 2 * k + 2;
    let mut last: Option<LazyUniform> = None;
    let mut even = true;
    loop {
        let mut next = LazyUniform::new(source);
        let below = next.is_below(last.as_mut().unwrap_or(x), source);
        if !below {
            return even;
        }
        let goes_on = match source.below(cases) {
            0 => false,
            1 => LazyUniform::new(source).is_below(x, source),
            _ => true,
        };
        if !goes_on {
            return even;
        }
        last = Some(next);
        even = !even;
    }
}
