//! Enclosures of `exp(−z)` in integer arithmetic, to any number of digits.

use super::limbs::Limbs;

/// Two integers between which `exp(−z)·2^bits` lies.
pub(super) struct Enclosure {
    /// Not above the number.
    pub(super) lower: Limbs,
    /// Not below the number.
    pub(super) upper: Limbs,
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
pub(super) fn exp_of_minus(numerator: &Limbs, shift: u64, bits: u64) -> Enclosure {
    // z < 2^(digits of the numerator − shift).
    let squarings = (numerator.bits() + 1).saturating_sub(shift);
    let width = bits + squarings + GUARD;
    let y = if width >= shift + squarings {
        numerator.up(width - shift - squarings)
    } else {
        numerator.down(shift + squarings - width)
    };
    let one = Limbs::new(1).up(width);
    let (mut positive, mut negative) = (one.clone(), Limbs::new(0));
    let mut term = one.clone();
    let mut count = 1_u64;
    loop {
        term = term.product(&y).down(width).over(count);
        if term.is_zero() {
            break;
        }
        let side = if count % 2 == 1 {
            &mut negative
        } else {
            &mut positive
        };
        *side = std::mem::replace(side, Limbs::new(0)).plus(&term);
        count += 1;
    }
    let error = Limbs::new(4 * count + 1);
    let zero = || Limbs::new(0);
    let sum = positive.minus(&negative).unwrap_or_else(zero);
    let mut upper = sum.clone().plus(&error).min(one);
    let mut lower = sum.minus(&error).unwrap_or_else(zero);
    for _ in 0..squarings {
        lower = lower.product(&lower).down(width);
        upper = upper.product(&upper).down(width).plus(&Limbs::new(1));
    }
    Enclosure {
        lower: lower.down(width - bits),
        upper: upper.down(width - bits).plus(&Limbs::new(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(enclosed: &Limbs, bits: u64, digits: u32) -> String {
        let mut scaled = enclosed.clone();
        for _ in 0..digits {
            scaled = scaled.times(10);
        }
        // All values here are below one, and 10^38 fits into 128 bits.
        scaled.shifted_down(bits).to_string()
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
            let found = exp_of_minus(&Limbs::new(numerator), shift, 180);
            assert_eq!(decimal(&found.lower, 180, 30), digits);
            assert_eq!(decimal(&found.upper, 180, 30), digits);
        }
        let one = exp_of_minus(&Limbs::new(0), 0, 70);
        assert!(one.lower <= Limbs::new(1).up(70) && Limbs::new(1).up(70) <= one.upper);
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
            let of = |z: u64, bits| exp_of_minus(&Limbs::new(z), shift, bits);
            let (rough, fine) = (of(a, 100), of(a, 400));
            assert!(rough.lower <= fine.lower.down(300) && fine.upper.down(300) <= rough.upper);
            let gap = fine.upper.clone().minus(&fine.lower).unwrap();
            assert!(gap <= Limbs::new(4), "{gap:?}");
            let (other, sum) = (of(b, 400), of(a + b, 400));
            assert!(fine.lower.product(&other.lower).down(400) <= sum.upper);
            assert!(
                sum.lower
                    <= fine
                        .upper
                        .product(&other.upper)
                        .down(400)
                        .plus(&Limbs::new(1))
            );
        }
    }
}
