//! Dense vector kernels: inner products and norms that neither overflow nor underflow.

/// Inner product, summed in eight interleaved lanes and then in a fixed order.
///
/// # Shapes
/// `a` and `b` have the same length; the shorter one decides otherwise.
#[must_use]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut acc = [0.0; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            acc[lane] += x[lane] * y[lane];
        }
    }
    let mut total = acc.iter().sum::<f64>();
    for (x, y) in a_rest.iter().zip(b_rest) {
        total += x * y;
    }
    total
}

/// `y += scale * x`.
///
/// # Shapes
/// `x` and `y` have the same length; the shorter one decides otherwise.
pub fn add_scaled(y: &mut [f64], scale: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

/// Euclidean norm. Scaled by the largest entry, so it neither overflows nor underflows; NaN if
/// any entry is NaN, infinite if any entry is infinite.
#[must_use]
pub fn norm(v: &[f64]) -> f64 {
    scaled_norm(v.iter().copied())
}

/// A number that is at least the exact Euclidean norm of `v` (rounding included).
///
/// # Formula
/// Each of the `k` squares, sums and the root errs by at most one rounding, so the relative
/// error of the computed norm is below (k + 4) * 2^-53; the result is inflated by four times that.
#[must_use]
pub fn norm_upper(v: &[f64]) -> f64 {
    norm(v) * (1.0 + (v.len() as f64 + 4.0) * 4.0 * f64::EPSILON)
}

/// Euclidean distance of two points, from the differences of their coordinates.
#[must_use]
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    scaled_norm(a.iter().zip(b).map(|(x, y)| x - y))
}

fn scaled_norm(entries: impl Iterator<Item = f64> + Clone) -> f64 {
    let mut largest = 0.0f64;
    for x in entries.clone() {
        if x.is_nan() {
            return f64::NAN;
        }
        largest = largest.max(x.abs());
    }
    if largest == 0.0 || largest.is_infinite() {
        return largest;
    }
    // A power of two keeps the scaling exact for all but subnormal results.
    let scale = power_of_two_near(largest);
    let sum: f64 = entries
        .map(|x| {
            let x = x / scale;
            x * x
        })
        .sum();
    scale * sum.sqrt()
}

fn power_of_two_near(x: f64) -> f64 {
    let exponent_bits = x.to_bits() & 0x7ff0_0000_0000_0000;
    if exponent_bits == 0 {
        f64::MIN_POSITIVE
    } else {
        f64::from_bits(exponent_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn norms_survive_extreme_scales() {
        for scale in [1e-310, 1e-300, 1e-160, 1.0, 1e160, 1e300] {
            let v = [3.0 * scale, 4.0 * scale];
            assert!((norm(&v) / (5.0 * scale) - 1.0).abs() < 1e-9, "{scale}");
        }
        assert!(norm(&[1.0, f64::NAN]).is_nan());
        assert_eq!(norm(&[1.0, f64::NEG_INFINITY]), f64::INFINITY);
        assert_eq!(norm(&[]), 0.0);
    }

    #[test]
    fn a_tiny_distance_between_large_points_is_exact() {
        let a = [1.0, 1.0];
        let b = [1.0 + f64::EPSILON, 1.0];
        assert_eq!(distance(&a, &b), f64::EPSILON);
    }

    proptest! {
        #[test]
        fn dot_agrees_with_a_plain_sum(v in prop::collection::vec(-1e3..1e3f64, 0..50)) {
            let plain: f64 = v.iter().map(|x| x * x).sum();
            prop_assert!((dot(&v, &v) - plain).abs() <= 1e-12 * (1.0 + plain));
        }

        #[test]
        fn the_upper_norm_is_above(v in prop::collection::vec(-1e3..1e3f64, 1..50)) {
            // Compare squares in 128-bit style: integers below 2^20 make the exact sum exact.
            let ints: Vec<f64> = v.iter().map(|x| x.round()).collect();
            let exact: f64 = ints.iter().map(|x| x * x).sum();
            let up = norm_upper(&ints);
            prop_assert!(up * up >= exact * (1.0 - 1e-15));
            prop_assert!(up * up <= exact * (1.0 + 1e-9));
        }
    }
}
