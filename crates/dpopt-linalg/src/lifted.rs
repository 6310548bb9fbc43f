//! A lower bound on a Schur complement that needs no exact inverse, by faer.

use faer::Mat;

use crate::spectrum::{SpectrumError, check, eigen};

/// The least eigenvalue of [I; X]^T M [I; X], for an X that is nearly the best; see [`lifted`].
#[derive(Debug, Clone, PartialEq)]
pub struct Lifted {
    /// Its least eigenvalue, up to [`Lifted::rounding`].
    pub least: f64,
    /// A unit eigenvector of it.
    pub direction: Vec<f64>,
    /// At least the operator norm of X.
    pub lift: f64,
    /// How far `least` may be from that of exact arithmetic.
    pub rounding: f64,
}

/// Lifts vectors v of the first `first` coordinates to (v, X v).
///
/// # Formula
/// M = [[H, B], [B^T, -C]]. For every X the matrix S = H + B X + (B X)^T - X^T C X has v^T S v = (v, X v)^T M (v, X v), and S is at most the
/// Schur complement H + B C^-1 B^T where C is positive definite, with equality at X = C^-1 B^T. X here is that, with eigenvalues of C below
/// `floor` raised to it. What is said of S by means of ||X|| holds for every X, so no error of the inverse enters.
///
/// # Shapes
/// `entries`: (order, order), row-major; only the lower triangle is read. `first`: at least 1, at most `order`.
///
/// # Errors
/// [`SpectrumError`].
///
/// # Complexity
/// About 4 order^3 operations and three more matrices.
pub fn lifted(
    order: usize,
    entries: &[f64],
    first: usize,
    floor: f64,
) -> Result<Lifted, SpectrumError> {
    check(order, entries)?;
    let first = first.clamp(1, order);
    let entry = |i: usize, j: usize| entries[i.max(j) * order + i.min(j)];
    let above = Mat::from_fn(first, first, entry);
    if first == order {
        let all = eigen(order, entry, 1)?;
        return Ok(Lifted {
            least: all.values[0],
            direction: all.vectors,
            lift: 0.0,
            rounding: 8.0 * order as f64 * f64::EPSILON * above.norm_l2(),
        });
    }
    let count = order - first;
    let below = Mat::from_fn(count, count, |i, j| -entry(first + i, first + j));
    let beside = Mat::from_fn(first, count, |i, j| entry(i, first + j));
    let of_below = eigen(count, |i, j| below[(i, j)], count)?;
    let vectors = Mat::from_fn(count, count, |i, k| of_below.vectors[k * count + i]);
    // X = Q diag(1/max(eigenvalue, floor)) Q^T B^T.
    let mut turned = vectors.transpose() * beside.transpose();
    for (k, value) in of_below.values.iter().enumerate() {
        let scale = value.max(floor);
        for j in 0..first {
            turned[(k, j)] /= scale;
        }
    }
    let x = &vectors * &turned;
    let cross = &beside * &x;
    let bent = x.transpose() * (&below * &x);
    let (b, c, x_norm) = (beside.norm_l2(), below.norm_l2(), x.norm_l2());
    let size = above.norm_l2() + 2.0 * b * x_norm + c * x_norm * x_norm;
    if !size.is_finite() {
        let (row, column) = (0, 0);
        return Err(SpectrumError::NotFinite { row, column });
    }
    let all = eigen(
        first,
        |i, j| above[(i, j)] + cross[(i, j)] + cross[(j, i)] - 0.5 * (bent[(i, j)] + bent[(j, i)]),
        1,
    )?;
    let square = &x * x.transpose();
    let most = eigen(count, |i, j| square[(i, j)], 0)?.values;
    let unit = 8.0 * order as f64 * f64::EPSILON;
    let most = most.last().copied().unwrap_or(0.0) + unit * x_norm * x_norm;
    Ok(Lifted {
        least: all.values[0],
        direction: all.vectors,
        lift: most.max(0.0).sqrt(),
        rounding: 2.0 * unit * size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H = diag(-1, 2), B = (1, 0)^T, C = (c): the Schur complement is diag(-1 + 1/c, 2).
    fn by_hand(c: f64) -> Vec<f64> {
        vec![-1.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, -c]
    }

    #[test]
    fn schur_complements_by_hand() {
        let found = lifted(3, &by_hand(0.5), 2, 1e-3).unwrap();
        assert!((found.least - 1.0).abs() < 1e-14);
        assert!((found.lift - 2.0).abs() < 1e-12 && found.lift >= 2.0);
        assert!(found.direction[0].abs() > 0.999 && found.rounding < 1e-12);
        // Without the block below it is H.
        let alone = lifted(2, &[-1.0, 0.0, 0.0, 2.0], 2, 1.0).unwrap();
        assert_eq!((alone.least, alone.lift), (-1.0, 0.0));
    }

    /// A floor above the true C makes X smaller and the value lower: -1 + 2/f - c/f^2 with f = 1, c = 1/2.
    #[test]
    fn a_floor_only_lowers() {
        let found = lifted(3, &by_hand(0.5), 2, 1.0).unwrap();
        assert!((found.least - 0.5).abs() < 1e-14);
        assert!((found.lift - 1.0).abs() < 1e-12);
        // A C that noise made negative is no error.
        let noisy = lifted(3, &by_hand(-0.25), 2, 0.5).unwrap();
        // diag(-1 + 4 + 1, 2).
        assert!((noisy.least - 2.0).abs() < 1e-13);
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(lifted(2, &[1.0; 3], 1, 1.0).is_err());
        assert!(lifted(2, &[1.0, 0.0, f64::NAN, 1.0], 1, 1.0).is_err());
        assert!(lifted(2, &[1.0, 0.0, 1e300, -1.0], 1, 1e-20).is_err());
    }
}
