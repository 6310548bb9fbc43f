//! Enclosures of `exp(−z)` in integer arithmetic, to any number of digits.

use num_bigint::BigUint;

/// Two integers between which `exp(−z)·2^bits` lies.
pub(super) struct Enclosure {
    /// Not above the number.
    pub(super) lower: BigUint,
    /// Not below the number.
    pub(super) upper: BigUint,
}

/// Digits beyond those that are asked for; the result is a few units wide at most.
const GUARD: u64 = 64;

/// Encloses `exp(−z)·2^bits` for `z = numerator / 2^shift`.
///
/// With `r` such that `y = z/2^r < 1/2`, a partial sum of `Σ (−y)^k/k!` is squared `r` times. All
/// numbers are integers in units of `2^−W`, `W = bits + r + 64`:
///
/// - `y` is rounded down to a unit, which moves `exp(−y)` by at most one unit, upwards.
/// - Term `k` is `⌊⌊t·y⌋/k⌋` of the term `t` before it. If that is at most `e ≤ 4` units too
///   small, this one is at most `e/2 + 2 ≤ 4` units too small.
/// - The sum stops at a term `K` that comes out as zero, hence is below 4 units. The series is
///   alternating and decreasing, so what is left out is smaller still.
///
/// So the sum of `K` terms is within `4K` units. Squares are rounded down for the lower end and
/// up for the upper.
pub(super) fn exp_of_minus(numerator: &BigUint, shift: u64, bits: u64) -> Enclosure {
    // z < 2^(digits of the numerator − shift).
    let squarings = (numerator.bits() + 1).saturating_sub(shift);
    let width = bits + squarings + GUARD;
    let y = if width >= shift + squarings {
        numerator << (width - shift - squarings)
    } else {
        numerator >> (shift + squarings - width)
    };
    let one = BigUint::ONE << width;
    let (mut positive, mut negative) = (one.clone(), BigUint::ZERO);
    let mut term = one.clone();
    let mut count = 1_u64;
    loop {
        term = ((term * &y) >> width) / count;
        if term == BigUint::ZERO {
            break;
        }
        let side = if count % 2 == 1 {
            &mut negative
        } else {
            &mut positive
        };
        *side += &term;
        count += 1;
    }
    let error = BigUint::from(4 * count + 1);
    let sum = difference(positive, &negative);
    let mut upper = (&sum + &error).min(one);
    let mut lower = difference(sum, &error);
    for _ in 0..squarings {
        lower = (&lower * &lower) >> width;
        upper = ((&upper * &upper) >> width) + 1u32;
    }
    Enclosure {
        lower: lower >> (width - bits),
        upper: (upper >> (width - bits)) + 1u32,
    }
}

/// `a - b`, or zero where that is negative.
fn difference(a: BigUint, b: &BigUint) -> BigUint {
    if a < *b { BigUint::ZERO } else { a - b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(enclosed: &BigUint, bits: u64, digits: u32) -> String {
        ((enclosed * BigUint::from(10u32).pow(digits)) >> bits).to_string()
    }

    /// Published decimals of exp(−1), exp(−1/2) and exp(−10): 30 digits.
    #[test]
    fn encloses_published_values() {
        for (numerator, shift, digits) in [
            (1, 0, "367879441171442321595523770161"),
            (1, 1, "606530659712633423603799534991"),
            (10, 0, "45399929762484851535591515"),
            (40, 2, "45399929762484851535591515"),
        ] {
            let found = exp_of_minus(&BigUint::from(numerator as u32), shift, 180);
            assert_eq!(decimal(&found.lower, 180, 30), digits);
            assert_eq!(decimal(&found.upper, 180, 30), digits);
        }
        let one = exp_of_minus(&BigUint::ZERO, 0, 70);
        let exact = BigUint::ONE << 70u32;
        assert!(one.lower <= exact && exact <= one.upper);
    }

    /// More digits land inside fewer, and exp(−a)·exp(−b) = exp(−a−b).
    #[test]
    fn enclosures_are_narrow_nested_and_multiplicative() {
        for (a, b, shift) in [
            (3, 5, 1),
            (1, 1 << 40, 40),
            (77, 1 << 20, 13),
            (9, 60_000, 8),
        ] {
            let of = |z: u64, bits| exp_of_minus(&BigUint::from(z), shift, bits);
            let (rough, fine) = (of(a, 100), of(a, 400));
            assert!(rough.lower <= &fine.lower >> 300u32 && &fine.upper >> 300u32 <= rough.upper);
            let gap = &fine.upper - &fine.lower;
            assert!(gap <= BigUint::from(4u32), "{gap:?}");
            let (other, sum) = (of(b, 400), of(a + b, 400));
            assert!((&fine.lower * &other.lower) >> 400u32 <= sum.upper);
            let above = ((&fine.upper * &other.upper) >> 400u32) + 1u32;
            assert!(sum.lower <= above);
        }
    }
}
