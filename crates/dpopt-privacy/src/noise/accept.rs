//! Whether a random point lies under the normal density: decided in integers, exactly.

use super::digits::{BitSource, LazyUniform};
use super::exponential::exp_of_minus;
use super::strips::{DENSITY_WIDTH, FLOORS, Strips, TAIL_GAIN, TAIL_PARTS};
use num_bigint::BigUint;

/// Digits after the point that are known of every draw.
pub(super) const HEAD_BITS: u32 = 55;

/// A number of which as many digits can be had as are asked for.
pub(super) trait Abscissa {
    /// The integer `X < 2^64` for which the number lies in `[X, X + 1]/2^55`, if there is one.
    fn small_head(&self) -> Option<u64>;

    /// The integer `X`, and `b`, for which the number lies in `[X, X + 1]/2^b`, with `levels`
    /// digits after those of the head.
    fn known<S: BitSource>(&mut self, levels: usize, source: &mut S) -> (BigUint, u64);
}

/// The question `offset + v < gain · 2^doublings · exp(−x²/2) / parts` for a uniform `v`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Under {
    /// The floor of the box; below 2^8.
    pub(super) offset: u64,
    /// Below 2^18.
    pub(super) gain: u64,
    /// Below 2^7.
    pub(super) parts: u64,
    /// Four for each unit of `x` beyond the first of the tail.
    pub(super) doublings: u64,
}

/// Bound of the error of [`quick_density`], in units of 2^−63.
const QUICK_ERROR: u64 = 1 << 20;

impl Under {
    /// Whether a point in this floor of a box is under the curve.
    pub(super) fn floor(floor: u64) -> Self {
        Self {
            offset: floor,
            gain: FLOORS,
            parts: 1,
            doublings: 0,
        }
    }

    /// Whether to keep a point in `[4 + steps, 5 + steps)`; see [`TAIL_GAIN`].
    pub(super) fn tail(steps: u64, table: &Strips) -> Self {
        Self {
            offset: 0,
            gain: TAIL_GAIN,
            parts: TAIL_PARTS * table.tail(),
            doublings: steps.saturating_mul(4),
        }
    }

    /// Decides the question for the lazily known `x`, with a fresh `v`.
    pub(super) fn decide<X: Abscissa, S: BitSource>(
        &self,
        x: &mut X,
        table: &Strips,
        source: &mut S,
    ) -> bool {
        let mut v = LazyUniform::new(source);
        if S::DIGIT_BITS == u64::BITS
            && let Some(decided) = self.quick(x, v.head(), table)
        {
            return decided;
        }
        self.in_full(x, &mut v, source)
    }

    /// The answer, if 64 bits of everything settle it.
    ///
    /// Both sides are multiplied by `parts` and counted in units of 2^−64: the left one lies in
    /// `[left, left + parts]`, the right one in `2·gain·(g ± 2^20)` for the approximation `g` of
    /// [`quick_density`]. Nothing overflows: `left < 2^7·(2^8 + 1)·2^64`, and the right side is
    /// below `2^19·2^64`.
    pub(super) fn quick<X: Abscissa>(&self, x: &X, v: u64, table: &Strips) -> Option<bool> {
        if self.doublings != 0 {
            return None;
        }
        let density = quick_density(x.small_head()?, table)?;
        let left = (u128::from(self.offset) << u64::BITS | u128::from(v)) * u128::from(self.parts);
        let scale = 2 * u128::from(self.gain);
        if left + u128::from(self.parts) <= scale * u128::from(density.saturating_sub(QUICK_ERROR))
        {
            return Some(true);
        }
        if left >= scale * u128::from(density + QUICK_ERROR) {
            return Some(false);
        }
        None
    }

    /// The answer, from as many digits as it takes.
    ///
    /// With `x` in `[X, X+1]/2^b` and `v` in `[V, V+1]/2^c`, the right side is enclosed at both
    /// ends of `x`. If the enclosures of the two sides are apart, that decides; if not, both get
    /// another digit. That ends with probability one: given `x`, all but one value of `v` are
    /// decided at some length.
    #[cold]
    #[inline(never)]
    pub(super) fn in_full<X: Abscissa, S: BitSource>(
        &self,
        x: &mut X,
        v: &mut LazyUniform,
        source: &mut S,
    ) -> bool {
        let mut v_known = BigUint::from(self.offset);
        let mut v_bits = 0;
        let mut length = 0;
        loop {
            v_known = (v_known << S::DIGIT_BITS) + v.digit(length, source);
            v_bits += u64::from(S::DIGIT_BITS);
            let (x_known, x_bits) = x.known(length, source);
            // So many digits that the error of the right side is far below that of the left.
            let bits = v_bits + self.doublings + u64::from(u64::BITS);
            let square = |x: &BigUint| exp_of_minus(&(x * x), 2 * x_bits + 1, bits);
            let lowest = square(&(&x_known + 1u32)).lower;
            let highest = square(&x_known).upper;
            // Both sides in units of 2^−bits.
            let right = |density: BigUint| (density * self.gain) << self.doublings;
            let left = |v: &BigUint| (v * self.parts) << (bits - v_bits);
            if left(&(&v_known + 1u32)) <= right(lowest) {
                return true;
            }
            if left(&v_known) >= right(highest) {
                return false;
            }
            length += 1;
        }
    }
}

/// `exp(−x²/2)·2^63` to within [`QUICK_ERROR`], for all `x` in `[head, head+1]/2^55`, below 5.
///
/// With `x = (j + u)/64` and `0 ≤ u ≤ 1`, it is the tabulated `exp(−(j/64)²/2)` times `exp(−d)`,
/// `d = u(2j + u)/2^13 < 0.0783`. In units of 2^−63 the errors are:
///
/// - `d` is rounded down, and over the range of `x` it grows by less than
///   `2^−49·642/2^13 < 2^−52`; so `exp(−d)` errs by less than 2^12.
/// - The series is cut after `d^7/7!`; being alternating and decreasing it errs by less than
///   `d^8/8! < 2^−44`, which is 2^19.
/// - Each line of the nested sum rounds down twice: with the factors `d/k` below 1/12, less than
///   3 in all.
/// - The tabulated value errs by at most 2, and the product by 2 more.
///
/// The sum is below 2^20.
fn quick_density(head: u64, table: &Strips) -> Option<u64> {
    const STRIP_BITS: u32 = HEAD_BITS - 6;
    let (strip, u) = (head >> STRIP_BITS, head & ((1 << STRIP_BITS) - 1));
    // The next edge must be in the table too, so that x is below 5.
    table.density(strip + 1)?;
    let edge = table.density(strip)?;
    // u(2j + u) in units of 2^−98; d in units of 2^−64, below 2^61.
    let d = (u128::from(u) * u128::from((strip << (STRIP_BITS + 1)) + u)) >> 47;
    let one = 1_u64 << 63;
    // (d·factor)/k in units of 2^−63.
    let times = |factor: u64| ((d * u128::from(factor)) >> u64::BITS) as u64;
    let mut sum = one;
    for k in (1..=7).rev() {
        sum = one - times(sum) / k;
    }
    Some(((u128::from(edge) * u128::from(sum)) >> 63) as u64)
}

const _: () = assert!(DENSITY_WIDTH <= 2);
