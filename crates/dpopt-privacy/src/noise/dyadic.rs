//! Exact numbers: the one that an `f64` stands for, and the low digits of a long integer.

use num_bigint::BigUint;

/// A positive normal number as `mantissa · 2^exponent`, `2^52 ≤ mantissa < 2^53`.
///
/// The callers' ranges have no subnormal, negative or infinite numbers: the top bits are the
/// biased exponent alone, and the leading one of the mantissa is implicit.
pub(crate) fn split(number: f64) -> (u64, i32) {
    let bits = number.to_bits();
    let fraction_bits = f64::MANTISSA_DIGITS - 1;
    let leading = 1_u64 << fraction_bits;
    let mantissa = leading | (bits & (leading - 1));
    let exponent = (bits >> fraction_bits) as i32 - (1023 + fraction_bits as i32);
    (mantissa, exponent)
}

/// `number mod 2^128`.
pub(crate) fn low_bits(number: &BigUint) -> u128 {
    let mut words = number.iter_u64_digits().map(u128::from);
    let low = words.next().unwrap_or(0);
    low | words.next().unwrap_or(0) << u64::BITS
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_number_is_its_parts() {
        for number in [
            0.05,
            1.0,
            1.5,
            3.7,
            1e-18,
            1e9,
            60_f64.exp2(),
            f64::MIN_POSITIVE,
        ] {
            let (mantissa, exponent) = split(number);
            assert!((1 << 52..1 << 53).contains(&mantissa));
            // Exact: a power of two times 53 bits, in two steps that stay normal.
            let half = exponent / 2;
            let back = mantissa as f64 * f64::from(half).exp2() * f64::from(exponent - half).exp2();
            assert_eq!(back, number);
        }
    }
}
