//! Orthonormal frames.

use crate::vector::{add_scaled, dot, norm};

/// Makes vectors of `dim` coordinates, side by side, orthonormal by Gram-Schmidt, twice over; false
/// when they are not independent enough for that (then they hold anything).
///
/// Of independent standard normals it makes vectors with the Haar law: the factor R of their QR
/// decomposition has a positive diagonal.
///
/// # Shapes
/// `vectors`: m * dim, with m from 1 to dim.
///
/// # Complexity
/// O(dim m^2).
#[must_use]
pub fn orthonormalise(vectors: &mut [f64], dim: usize) -> bool {
    let count = vectors.len().checked_div(dim).unwrap_or(0);
    if count == 0 || count > dim || !vectors.len().is_multiple_of(dim) {
        return false;
    }
    for k in 0..count {
        let (done, rest) = vectors.split_at_mut(k * dim);
        let current = &mut rest[..dim];
        let before = norm(current);
        // The second pass takes off what rounding left in the first.
        for _ in 0..2 {
            for other in done.chunks_exact(dim) {
                let along = dot(other, current);
                add_scaled(current, -along, other);
            }
        }
        let length = norm(current);
        // Written so that a NaN length is refused.
        if !(length > 1e-8 * before) {
            return false;
        }
        for x in current {
            *x /= length;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_orthonormal_and_keep_the_first_direction() {
        for (dim, count) in [(1, 1), (2, 2), (5, 5), (40, 40), (40, 1), (40, 7)] {
            let mut state = 9_u64;
            let mut frame: Vec<f64> = (0..dim * count)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
                })
                .collect();
            let first = frame[..dim].to_vec();
            assert!(orthonormalise(&mut frame, dim));
            for (i, a) in frame.chunks_exact(dim).enumerate() {
                for (j, b) in frame.chunks_exact(dim).enumerate() {
                    let expected = f64::from(u8::from(i == j));
                    assert!((dot(a, b) - expected).abs() < 1e-14, "{dim} {i} {j}");
                }
            }
            assert!((dot(&frame[..dim], &first) - norm(&first)).abs() < 1e-14);
        }
    }

    #[test]
    fn dependent_vectors_are_refused() {
        assert!(!orthonormalise(&mut [1.0, 2.0, 2.0, 4.0], 2));
        assert!(!orthonormalise(&mut [0.0], 1));
        assert!(!orthonormalise(&mut [f64::NAN], 1));
        assert!(!orthonormalise(&mut [1.0, 2.0, 3.0], 2));
        assert!(!orthonormalise(&mut [1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2));
        assert!(!orthonormalise(&mut [1.0], 2));
        assert!(!orthonormalise(&mut [], 2));
        assert!(!orthonormalise(&mut [], 0));
    }
}
